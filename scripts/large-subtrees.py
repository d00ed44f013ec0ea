#!/usr/bin/python3
"""What it costs to rename or delete a subtree that very many small groups name: large-subtrees.py ROSTER PEOPLE [FOLDER]

Loads so many people (a multiple of 1,000) below one unit, each in 20 groups of 100, and serves them on the loopback interface. Renames
the unit, then deletes the tree, while another client writes one change after the other; prints the time, the server's CPU,
how long the other client waited, and the server's memory. Needs python3-ldap, and room for about 5 KB for each of the
people.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import ldap
from ldap.controls import RequestControl

ROUNDS, MEMBERS = 20, 100
# Each has no factor in common with a thousand, so that each round has other groups.
FACTORS = [1, 3, 7, 9, 11, 13, 17, 19, 21, 23, 27, 29, 31, 33, 37, 39, 41, 43, 47, 49]
SUFFIX = "dc=example,dc=com"
ADMIN, PASSWORD = "cn=Directory Manager", "of-this-run-alone"
OTHER = f"ou=other,{SUFFIX}"
TREE_DELETE = "1.2.840.113556.1.4.805"


def write_ldif(path, people):
    with open(path, "w") as out:
        out.write(f"dn: {SUFFIX}\nobjectClass: domain\ndc: example\n\n")
        for unit in ("people", "groups", "other", "sales,ou=people"):
            name = unit.split(",")[0]
            out.write(f"dn: ou={unit},{SUFFIX}\nobjectClass: organizationalUnit\nou: {name}\n\n")
        for n in range(people):
            out.write(
                f"dn: uid=user.{n},ou=sales,ou=people,{SUFFIX}\nobjectClass: inetOrgPerson\n"
                f"uid: user.{n}\nsn: {n}\ncn: user {n}\n\n"
            )
        for number, factor in enumerate(FACTORS[:ROUNDS]):
            back = pow(factor, -1, people)
            for first in range(0, people, MEMBERS):
                name = f"group.{number}.{first}"
                out.write(f"dn: cn={name},ou=groups,{SUFFIX}\nobjectClass: groupOfNames\ncn: {name}\n")
                for place in range(first, first + MEMBERS):
                    member = place * back % people
                    out.write(f"member: uid=user.{member},ou=sales,ou=people,{SUFFIX}\n")
                out.write("\n")


class Measured:
    """A server that runs."""

    def __init__(self, roster, folder):
        ready, self.socket = f"{folder}/ready", f"{folder}/ldapi"
        ports = [f for kind in ("ldap", "ldaps", "admin") for f in (f"--{kind}", "127.0.0.1:0")]
        command = [roster, "serve", "--data", f"{folder}/data", *ports, "--ldapi", self.socket]
        self.server = subprocess.Popen(
            [*command, "--ready-file", ready], stdout=subprocess.DEVNULL, stderr=open(f"{folder}/log", "w")
        )
        while not os.path.exists(ready):
            if self.server.poll() is not None:
                sys.exit(open(f"{folder}/log").read())
            time.sleep(0.05)

    def client(self):
        client = ldap.initialize("ldapi://" + self.socket.replace("/", "%2F"))
        client.simple_bind_s(ADMIN, PASSWORD)
        return client

    def cpu(self):
        fields = open(f"/proc/{self.server.pid}/stat").read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_mib(self):
        """What is its own: pages of the data file are not."""
        lines = open(f"/proc/{self.server.pid}/status").read().splitlines()
        return int(next(line for line in lines if line.startswith("RssAnon")).split()[1]) // 1024

    def measure(self, what, action):
        waits, memory, is_over = [], [], threading.Event()

        def write():
            client, number = self.client(), 0
            while not (is_over.is_set() and waits):
                number, begun = number + 1, time.monotonic()
                client.modify_s(OTHER, [(ldap.MOD_REPLACE, "description", [str(number).encode()])])
                waits.append(time.monotonic() - begun)
                memory.append(self.memory_mib())

        client, before = self.client(), self.memory_mib()
        writer = threading.Thread(target=write)
        writer.start()
        cpu, begun = self.cpu(), time.monotonic()
        try:
            action(client)
        finally:
            took, cpu = time.monotonic() - begun, self.cpu() - cpu
            is_over.set()
            writer.join()
        waits.sort()
        print(
            f"{what}: {took:.1f} s, CPU {cpu:.1f} s; {len(waits)} other writes, half of them within "
            f"{waits[len(waits) // 2] * 1000:.0f} ms, the longest {waits[-1] * 1000:.0f} ms; "
            f"memory {before} MiB before, {max(memory)} MiB at most",
            flush=True,
        )


def main():
    roster, people = os.path.abspath(sys.argv[1]), int(sys.argv[2])
    folder = tempfile.mkdtemp(dir=sys.argv[3] if len(sys.argv) > 3 else None)
    try:
        ldif, secret = f"{folder}/in.ldif", f"{folder}/secret"
        write_ldif(ldif, people)
        open(secret, "w").write(PASSWORD)
        data = ["--data", f"{folder}/data"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "check": True}
        subprocess.run([roster, "init", *data, "--suffix", SUFFIX, "--admin-password-file", secret], **quiet)
        subprocess.run([roster, "import", *data, ldif], **quiet)
        os.remove(ldif)
        for what in ("rename", "rename again", "delete after a rename", "delete"):
            if what == "delete":
                # As it was loaded.
                server.server.terminate()
                server.server.wait()
                write_ldif(ldif, people)
                os.remove(f"{folder}/ready")
                subprocess.run([roster, "import", *data, "--clear", ldif], **quiet)
                os.remove(ldif)
            if what in ("rename", "delete"):
                server = Measured(roster, folder)
            unit = "ou=staff" if what == "delete after a rename" else "ou=sales"
            tree = f"{unit},ou=people,{SUFFIX}"
            if what == "rename":
                server.measure(what, lambda client: client.rename_s(tree, "ou=marketing"))
            elif what == "rename again":
                marketing = f"ou=marketing,ou=people,{SUFFIX}"
                server.measure(what, lambda client: client.rename_s(marketing, "ou=staff"))
            else:
                control = RequestControl(TREE_DELETE, True, None)
                server.measure(what, lambda client: client.delete_ext_s(tree, serverctrls=[control]))
        server.server.terminate()
        server.server.wait()
    finally:
        shutil.rmtree(folder)


main()
