#!/usr/bin/python3
"""What constraints cost: constraint-costs.py ROSTER [PEOPLE]

Loads so many people (20,000 unless told), and prints the server's CPU for each add and modify with 0, 5 and 20
constraints, one of them unique, which all look at values of each of the entries: the least and the median of many
rounds that take turns. Needs python3-ldap.
"""

import importlib.machinery
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

import ldap

groups = importlib.machinery.SourceFileLoader(
    "large_groups", os.path.join(os.path.dirname(os.path.abspath(__file__)), "large-groups.py")
).load_module()
COUNT, ROUNDS = 1000, 15
NAMES = ["cn", "sn", "givenName", "title", "l", "telephoneNumber"]
KINDS = ["pattern {} /.{{1,64}}/", "count {} ..3", "ascii {}"]
RULES = [kind.format(name) for name in NAMES for kind in KINDS] + ["pattern uid /[a-z0-9.]+/"]


def rules(count):
    """So many, the first of which is that no two have the same address."""
    plain = [f"{n}: {rule} below ou=people,{groups.SUFFIX}" for n, rule in enumerate(RULES[: max(count - 1, 0)])]
    return [f"mail: unique mail below ou=people,{groups.SUFFIX}", *plain] if count else []


class Measured(groups.Measured):
    def cpu_us(self):
        """In nanoseconds from the scheduler: a round takes few of the steps that the other file counts in."""
        tasks = f"/proc/{self.server.pid}/task"
        return sum(int(open(f"{tasks}/{one}/schedstat").read().split()[0]) for one in os.listdir(tasks)) / 1e3

    def cost(self, begin):
        """What each of many costs, 32 at a time."""
        cpu, waiting = self.cpu_us(), []
        for number in range(COUNT):
            waiting.append(begin(number))
            if len(waiting) >= 32:
                self.client.result(waiting.pop(0))
        for one in waiting:
            self.client.result(one)
        return (self.cpu_us() - cpu) / COUNT


def costs(server, round_, count):
    """Of an add, a modify of what one constraint or none is about, and one of what is unique."""
    client = server.client
    values = [rule.encode() for rule in rules(count)]
    client.modify_s("cn=Constraints,cn=config", [(ldap.MOD_REPLACE, "roster-constraint", values or None)])
    uid = lambda n: f"new.{round_}.{n}"
    name = lambda n: f"uid={uid(n)},ou=people,{groups.SUFFIX}"

    def entry(n):
        texts = {one: f"{one} {n}" for one in NAMES} | {"telephoneNumber": f"+47 {n}", "uid": uid(n)}
        texts |= {"mail": f"{uid(n)}@example.com", "objectClass": "inetOrgPerson"}
        return [(one, [text.encode()]) for one, text in texts.items()]

    replace = lambda n, one, text: client.modify(name(n), [(ldap.MOD_REPLACE, one, [text.encode()])])
    return [
        server.cost(lambda n: client.add(name(n), entry(n))),
        server.cost(lambda n: replace(n, "title", f"other {n}")),
        server.cost(lambda n: replace(n, "mail", f"other.{uid(n)}@example.com")),
    ]


def main(roster, people=20_000):
    folder = tempfile.mkdtemp()
    try:
        open(f"{folder}/password", "w").write(groups.PASSWORD)
        first = ["init", "--suffix", groups.SUFFIX, "--admin-password-file", f"{folder}/password"]
        subprocess.run([roster, *first, "--data", f"{folder}/data"], check=True, capture_output=True)
        groups.write_ldif(f"{folder}/in.ldif", people, 1)
        loaded = [roster, "import", "--data", f"{folder}/data", f"{folder}/in.ldif"]
        subprocess.run(loaded, check=True, capture_output=True)
        server = Measured(roster, folder)
        try:
            found = {count: [] for count in (0, 5, 20)}
            for round_ in range(ROUNDS):
                for count, all_of in found.items():
                    all_of.append(costs(server, f"{round_}.{count}", count))
            for count, all_of in found.items():
                for what, each in zip(("add", "modify: title", "modify: mail"), zip(*all_of)):
                    least, middle = min(each), statistics.median(each)
                    print(f"{count:2} constraints, {what:14} {least:7.1f} us CPU, median {middle:7.1f}")
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(sys.argv[1], *map(int, sys.argv[2:3]))
