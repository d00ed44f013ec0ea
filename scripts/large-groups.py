#!/usr/bin/python3
"""What members of a group of very many cost: large-groups.py ROSTER PEOPLE [FOLDER] [--attribute memberUid]

Loads so many people and one group of all of them but 4,000, serves them on the loopback interface, and prints the
server's CPU and the time of each operation, 32 at a time from one client. Needs python3-ldap, and room for about 1 KB
for each of the people. Above two million members the group is made by modifies of 5,000. With `--attribute memberUid`
it is a group of user names, which the import makes whatever their number, and of the people there are but a few.
"""

import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import ldap

APART = 4000
IN_ONE_RECORD = 2_000_000
SUFFIX = "dc=example,dc=com"
ADMIN, PASSWORD = "cn=Directory Manager", "of-this-run-alone"
GROUP = f"cn=all,ou=groups,{SUFFIX}"


def person(number):
    return f"uid=user.{number},ou=people,{SUFFIX}"


def write_ldif(path, people, members):
    with open(path, "w") as out:
        out.write(f"dn: {SUFFIX}\nobjectClass: domain\ndc: example\n\n")
        for unit in ("people", "groups"):
            out.write(f"dn: ou={unit},{SUFFIX}\nobjectClass: organizationalUnit\nou: {unit}\n\n")
        for n in range(people):
            out.write(
                f"dn: {person(n)}\nobjectClass: inetOrgPerson\nuid: user.{n}\nsn: {n}\ncn: user {n}\n"
                f"l: City {n % 1000}\n\n"
            )
        out.write(f"dn: {GROUP}\nobjectClass: groupOfEntries\ncn: all\n")
        if members <= IN_ONE_RECORD:
            out.writelines(f"member: {person(n)}\n" for n in range(members))
        out.write("\n")


class Measured:
    """A server that runs, and its client."""

    def __init__(self, roster, folder):
        ready, socket = f"{folder}/ready", f"{folder}/ldapi"
        ports = [f for kind in ("ldap", "ldaps", "admin") for f in (f"--{kind}", "127.0.0.1:0")]
        command = [roster, "serve", "--data", f"{folder}/data", *ports, "--ldapi", socket]
        self.server = subprocess.Popen(
            [*command, "--ready-file", ready], stdout=subprocess.DEVNULL, stderr=open(f"{folder}/log", "w")
        )
        while not os.path.exists(ready):
            if self.server.poll() is not None:
                sys.exit(open(f"{folder}/log").read())
            time.sleep(0.05)
        self.client = ldap.initialize("ldapi://" + socket.replace("/", "%2F"))
        self.client.simple_bind_s(ADMIN, PASSWORD)

    def stop(self):
        self.server.terminate()
        self.server.wait()

    def cpu_us(self):
        fields = open(f"/proc/{self.server.pid}/stat").read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) * 1e6 / os.sysconf("SC_CLK_TCK")

    def anonymous_mib(self):
        """What it holds that is not in files: the base is mapped."""
        status = open(f"/proc/{self.server.pid}/status").read()
        return int(status.split("RssAnon:")[1].split()[0]) / 1024

    def run_watched(self, what, count, begin):
        """As `run`, and says how much memory the server took for it."""
        before, highest, is_over = self.anonymous_mib(), [0], threading.Event()

        def watch():
            while not is_over.wait(0.002):
                highest[0] = max(highest[0], self.anonymous_mib())

        watcher = threading.Thread(target=watch)
        watcher.start()
        self.run(what, count, begin)
        is_over.set()
        watcher.join()
        print(f"  {'... more memory':<42} {highest[0] - before:9.1f} MiB", flush=True)

    def run(self, what, count, begin):
        """Does `begin(number)` so often, 32 at a time."""
        waiting = []

        def take():
            try:
                self.client.result(waiting.pop(0))
            except (ldap.COMPARE_TRUE, ldap.COMPARE_FALSE):
                pass

        cpu, start = self.cpu_us(), time.time()
        for number in range(count):
            waiting.append(begin(number))
            if len(waiting) >= 32:
                take()
        while waiting:
            take()
        cpu, passed = self.cpu_us() - cpu, time.time() - start
        print(f"  {what:<42} {cpu / count:9.1f} us CPU {passed * 1e6 / count:11.1f} us", flush=True)


def operations(server, people, members):
    client, chance = server.client, random.Random(1)
    apart = people - members
    some = [chance.randrange(members) for _ in range(3000)]
    named = lambda n: [person(n).encode()]
    search = lambda f, attributes, base=SUFFIX: client.search(base, ldap.SCOPE_SUBTREE, f, attributes)
    read = lambda base, attributes: client.search(base, ldap.SCOPE_BASE, "(objectClass=*)", attributes)
    modify = lambda kind, n: client.modify(GROUP, [(kind, "member", named(members + n))])
    part = lambda n: (n * 1500) % max(1, members - 1500)
    title = lambda n: [(ldap.MOD_REPLACE, "title", [b"x%d" % n])]
    for what, count, begin in [
        ("add a member", apart, lambda n: modify(ldap.MOD_ADD, n)),
        ("delete a member", apart, lambda n: modify(ldap.MOD_DELETE, n)),
        ("modify another entry, to compare with", apart, lambda n: client.modify(person(n), title(n))),
        ("compare: a member", 3000, lambda n: client.compare(GROUP, "member", named(some[n])[0])),
        ("compare: none", 3000, lambda n: client.compare(GROUP, "member", named(members + n % apart)[0])),
        ("(uid=x)", 3000, lambda n: search(f"(uid=user.{some[n]})", ["cn"])),
        (
            "(&(isMemberOf=all)(uid=x))",
            3000,
            lambda n: search(f"(&(isMemberOf={GROUP})(uid=user.{some[n]}))", ["cn"]),
        ),
        ("(member=x)", 3000, lambda n: search(f"(member={person(some[n])})", ["cn"])),
        ("isMemberOf of one", 3000, lambda n: read(person(some[n]), ["isMemberOf"])),
        ("(l=City 7): one in 1,000", 20, lambda n: search("(l=City 7)", ["1.1"])),
        (
            "(&(isMemberOf=all)(l=City 7))",
            20,
            lambda n: search(f"(&(isMemberOf={GROUP})(l=City 7))", ["1.1"]),
        ),
        ("1,500 members of the group", 200, lambda n: read(GROUP, [f"member;range={part(n)}-{part(n) + 1499}"])),
        ("the group without members", 200, lambda n: read(GROUP, ["cn"])),
    ]:
        server.run(what, count, begin)
    server.run_watched("the whole group", 2, lambda n: read(GROUP, ["member"]))
    server.run("delete one of the people", 200, lambda n: client.delete(person(members - 1 - n)))


def user(number):
    return b"user.%d" % number


def write_users(path, people, members):
    with open(path, "w") as out:
        out.write(f"dn: {SUFFIX}\nobjectClass: domain\ndc: example\n\n")
        for unit in ("people", "groups"):
            out.write(f"dn: ou={unit},{SUFFIX}\nobjectClass: organizationalUnit\nou: {unit}\n\n")
        for n in range(min(people, APART)):
            out.write(f"dn: {person(n)}\nobjectClass: inetOrgPerson\nuid: user.{n}\nsn: {n}\ncn: user {n}\n\n")
        out.write(f"dn: {GROUP}\nobjectClass: posixGroup\ngidNumber: 5\ncn: all\n")
        out.writelines(f"memberUid: user.{n}\n" for n in range(members))
        out.write("\n")


def operations_on_users(server, people, members):
    client, chance = server.client, random.Random(1)
    apart = people - members
    some = [chance.randrange(members) for _ in range(3000)]
    search = lambda f, attributes: client.search(SUFFIX, ldap.SCOPE_SUBTREE, f, attributes)
    read = lambda attributes: client.search(GROUP, ldap.SCOPE_BASE, "(objectClass=*)", attributes)
    modify = lambda kind, n: client.modify(GROUP, [(kind, "memberUid", [user(members + n)])])
    title = lambda n: client.modify(person(n % APART), [(ldap.MOD_REPLACE, "title", [b"x%d" % n])])
    many = [user(people + n) for n in range(100_000)]
    for what, count, begin in [
        ("add a value", apart, lambda n: modify(ldap.MOD_ADD, n)),
        ("delete a value", apart, lambda n: modify(ldap.MOD_DELETE, n)),
        ("modify another entry, to compare with", apart, title),
        ("compare: a value", 3000, lambda n: client.compare(GROUP, "memberUid", user(some[n]))),
        ("compare: none", 3000, lambda n: client.compare(GROUP, "memberUid", user(people + n))),
        ("(memberUid=x)", 3000, lambda n: search(f"(memberUid=user.{some[n]})", ["cn"])),
        ("1,500 values from the first on", 200, lambda n: read(["memberUid;range=0-1499"])),
        ("1,500 values in the middle", 10, lambda n: read([f"memberUid;range={members // 2}-{members // 2 + 1499}"])),
        ("the group without values", 200, lambda n: read(["cn"])),
    ]:
        server.run(what, count, begin)
    server.run_watched("add 100,000 values", 1, lambda n: client.modify(GROUP, [(ldap.MOD_ADD, "memberUid", many)]))
    server.run_watched("the whole group", 2, lambda n: read(["memberUid"]))


def main(roster, people, parent=None, attribute="member"):
    folder = tempfile.mkdtemp(dir=parent)
    apart = min(APART, people // 2)
    members = people - apart
    try:
        open(f"{folder}/password", "w").write(PASSWORD)
        first = ["init", "--suffix", SUFFIX, "--admin-password-file", f"{folder}/password"]
        subprocess.run([roster, *first, "--data", f"{folder}/data"], check=True, capture_output=True)
        write = write_users if attribute == "memberUid" else write_ldif
        write(f"{folder}/in.ldif", people, members)
        start = time.time()
        subprocess.run([roster, "import", "--data", f"{folder}/data", f"{folder}/in.ldif"], check=True, capture_output=True)
        os.unlink(f"{folder}/in.ldif")
        print(f"{people:,} people, {members:,} members: import {time.time() - start:.1f} s", flush=True)
        server = Measured(roster, folder)
        try:
            if attribute == "memberUid":
                return operations_on_users(server, people, members)
            if members > IN_ONE_RECORD:
                parts = range(0, members, 5000)
                names = lambda at: [person(n).encode() for n in range(at, min(at + 5000, members))]
                add = lambda n: server.client.modify(GROUP, [(ldap.MOD_ADD, "member", names(parts[n]))])
                server.run("5,000 members in one modify", len(parts), add)
            operations(server, people, members)
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    given, attribute = sys.argv[1:], "member"
    if "--attribute" in given:
        at = given.index("--attribute")
        attribute = given[at + 1] if given[at + 1 :] else ""
        del given[at : at + 2]
    if len(given) < 2 or attribute not in ("member", "memberUid"):
        sys.exit(__doc__)
    main(given[0], int(given[1]), *given[2:3] or [None], attribute)
