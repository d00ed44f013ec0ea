#!/usr/bin/python3
"""Whether copies stay what they are to be: long-sync.py ROSTER [ENTRIES] [SECONDS] [SEED]

Serves so many people (100,000) and changes them at random for so long (600 s): adds, modifies, deletes, renames, moves, and gives
whole units other names. Two slapds (refreshAndPersist, and refreshOnly every 5 s) and a consumer by python-ldap keep copies by content
synchronisation. Meanwhile the server and the slapds are restarted and killed (kill -9), and python-ldap's consumer goes and
comes back with its cookie. In the end all copies have to have the same entries as the server, by their LDIF. Exit code 1 where they
have not; the folder with everything is kept then. Needs python-ldap and slapd (Debian: python3-ldap, slapd).
"""

import base64
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import ldap
import ldap.modlist
from ldap.ldapobject import SimpleLDAPObject
from ldap.syncrepl import SyncreplConsumer

SUFFIX = "dc=example,dc=com"
PEOPLE = f"ou=people,{SUFFIX}"
ADMIN, PASSWORD = "cn=Directory Manager", "of-this-run-alone"
COPY_ADMIN = f"cn=copy,{SUFFIX}"
UNITS = 20
WRITERS = 4
# What only one of the servers knows is not compared.
ATTRIBUTES = [
    "*", "structuralObjectClass", "entryUUID", "entryCSN", "creatorsName", "createTimestamp", "modifiersName", "modifyTimestamp",
]  # fmt: skip
IN_STEP_WITHIN = 300
GONE = (ldap.SERVER_DOWN, ldap.UNAVAILABLE, ldap.CONNECT_ERROR, ldap.BUSY, ldap.TIMEOUT, ldap.OTHER)


def port():
    import socket

    while True:
        number = random.SystemRandom().randrange(20000, 30000)
        with socket.socket() as one:
            try:
                one.bind(("127.0.0.1", number))
                return number
            except OSError:
                pass


def bound(url, dn, password, within=120):
    """A connection; waits until there is a server."""
    end = time.time() + within
    while True:
        try:
            one = ldap.initialize(url)
            one.set_option(ldap.OPT_NETWORK_TIMEOUT, 10)
            one.simple_bind_s(dn, password)
            return one
        except GONE:
            if time.time() > end:
                raise
            time.sleep(0.2)


class Roster:
    def __init__(self, program, folder, entries):
        self.program, self.folder, self.url = program, folder, f"ldap://127.0.0.1:{port()}"
        open(f"{folder}/password", "w").write(PASSWORD)
        data = ["--data", f"{folder}/data"]
        subprocess.run(
            [program, "init", *data, "--suffix", SUFFIX, "--admin-password-file", f"{folder}/password"], check=True,
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
        with open(f"{folder}/people.ldif", "w") as out:
            out.write(f"dn: {PEOPLE}\nobjectClass: organizationalUnit\nou: people\n\n")
            for unit in range(UNITS):
                out.write(f"dn: ou=unit.{unit},{PEOPLE}\nobjectClass: organizationalUnit\nou: unit.{unit}\n\n")
            for n in range(entries):
                out.write(
                    f"dn: uid=user.{n},ou=unit.{n % UNITS},{PEOPLE}\nobjectClass: inetOrgPerson\nuid: user.{n}\nsn: {n}\ncn: {n}\n\n"
                )
        subprocess.run([program, "import", *data, f"{folder}/people.ldif"], check=True, stdout=subprocess.DEVNULL)
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [
                self.program, "serve", "--data", f"{self.folder}/data", "--ldap", self.url.removeprefix("ldap://"), "--ldaps",
                "127.0.0.1:0", "--admin", "127.0.0.1:0",
            ],
            stdout=subprocess.DEVNULL, stderr=open(f"{self.folder}/roster.log", "a"),
        )  # fmt: skip

    def stop(self, how):
        self.process.send_signal(how)
        self.process.wait()


class Slapd:
    def __init__(self, provider, folder, number, mode):
        self.folder, self.url, self.mode = f"{folder}/copy.{number}", f"ldap://127.0.0.1:{port()}", mode
        os.makedirs(f"{self.folder}/db")
        kind = "refreshAndPersist" if mode == "persist" else "refreshOnly interval=00:00:00:05"
        with open(f"{self.folder}/slapd.conf", "w") as out:
            for name in ("core", "cosine", "inetorgperson"):
                out.write(f"include /etc/ldap/schema/{name}.schema\n")
            out.write(
                f"modulepath /usr/lib/ldap\nmoduleload back_mdb\nsizelimit unlimited\ndatabase mdb\nmaxsize 4294967296\n"
                f"envflags nosync\ndirectory {self.folder}/db\nsuffix \"{SUFFIX}\"\nrootdn \"{COPY_ADMIN}\"\nrootpw {PASSWORD}\n"
                f"index entryUUID,entryCSN eq\nsyncrepl rid=00{number} provider={provider} type={kind} retry=\"1 +\"\n"
                f"  searchbase=\"{SUFFIX}\" schemachecking=off attrs=\"{','.join(ATTRIBUTES)}\"\n"
                f"  bindmethod=simple binddn=\"{ADMIN}\" credentials={PASSWORD} network-timeout=5 timeout=10\n"
            )
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            ["/usr/sbin/slapd", "-d", "sync", "-h", self.url, "-f", f"{self.folder}/slapd.conf"], stdout=subprocess.DEVNULL,
            stderr=open(f"{self.folder}/log", "a"),
        )  # fmt: skip

    def stop(self, how):
        self.process.send_signal(how)
        self.process.wait()


class Consumer(SimpleLDAPObject, SyncreplConsumer):
    """What python-ldap hears, in memory."""

    has, cookie = {}, None

    def syncrepl_get_cookie(self):
        return self.cookie

    def syncrepl_set_cookie(self, cookie):
        self.cookie = cookie

    def syncrepl_entry(self, dn, attributes, uuid):
        self.has[uuid] = (dn, attributes)
        self.present.add(uuid)

    def syncrepl_delete(self, uuids):
        for uuid in uuids:
            self.has.pop(uuid, None)

    def syncrepl_present(self, uuids, refreshDeletes=False):
        if uuids is None and not refreshDeletes:
            self.has = {uuid: one for uuid, one in self.has.items() if uuid in self.present}
        elif uuids is not None:
            self.present.update(uuids)

    def syncrepl_refreshdone(self):
        pass


class Python(threading.Thread):
    """Keeps a copy, and now and then comes back with what it has."""

    def __init__(self, url, stays):
        super().__init__(daemon=True)
        self.url, self.stays, self.has, self.cookie, self.is_over, self.comes_back = url, stays, {}, None, False, 0
        self.start()

    def run(self):
        while not self.is_over:
            one = Consumer(self.url)
            one.set_option(ldap.OPT_NETWORK_TIMEOUT, 10)
            one.has, one.cookie, one.present = self.has, self.cookie, set()
            end = time.time() + random.uniform(self.stays / 6, self.stays)
            try:
                one.simple_bind_s(ADMIN, PASSWORD)
                id = one.syncrepl_search(
                    SUFFIX, ldap.SCOPE_SUBTREE, mode="refreshAndPersist", filterstr="(objectClass=*)", attrlist=ATTRIBUTES,
                    cookie=one.cookie,
                )  # fmt: skip
                while time.time() < end and not self.is_over:
                    try:
                        one.syncrepl_poll(msgid=id, timeout=0.5)
                    except ldap.TIMEOUT:
                        pass
                self.keep(one)
                one.unbind_s()
            except ldap.LDAPError as error:
                self.keep(one)
                # Those who get this begin again without a cookie (RFC 4533).
                if error.args and error.args[0].get("result") == 4096:
                    self.has, self.cookie = {}, None
                time.sleep(0.3)

    def keep(self, one):
        self.has, self.cookie, self.comes_back = one.has, one.cookie, self.comes_back + 1


class Writer(threading.Thread):
    def __init__(self, url, number, seed, entries, unit_every):
        super().__init__(daemon=True)
        self.url, self.number, self.chance, self.is_over = url, number, random.Random(f"{seed}.{number}"), False
        self.unit_every = unit_every
        self.counts, self.refused, self.added, self.entries = {}, {}, 0, entries
        self.start()

    def unit(self):
        # Their names change.
        all = self.one.search_s(PEOPLE, ldap.SCOPE_ONELEVEL, "(objectClass=organizationalUnit)", ["1.1"])
        return self.chance.choice(all)[0]

    def person(self):
        unit = self.unit()
        uid = f"user.{self.chance.randrange(self.entries)}"
        found = self.one.search_s(SUFFIX, ldap.SCOPE_SUBTREE, f"(uid={uid})", ["1.1"])
        if not found:
            found = self.one.search_ext_s(unit, ldap.SCOPE_ONELEVEL, "(uid=new*)", ["1.1"], sizelimit=0)[:50]
        return self.chance.choice(found)[0] if found else None

    def work(self, what):
        one, chance = self.one, self.chance
        if what == "add":
            self.added += 1
            uid = f"new.{self.number}.{self.added}"
            one.add_s(f"uid={uid},{self.unit()}", [("objectClass", b"inetOrgPerson"), ("cn", b"x"), ("sn", uid.encode())])
            return
        if what == "unit":
            one.rename_s(self.unit(), f"ou=unit.{self.number}.{chance.randrange(10**6)}")
            return
        name = self.person()
        if name is None:
            return
        if what == "modify":
            values = [f"{chance.random()} ä".encode() for _ in range(chance.randrange(3))]
            one.modify_s(name, [(ldap.MOD_REPLACE, chance.choice(["description", "title", "l"]), values or None)])
        elif what == "delete":
            one.delete_s(name)
        elif what == "rename":
            one.rename_s(name, f"uid=new.{self.number}.r{chance.randrange(10**9)}")
        elif what == "move":
            one.rename_s(name, name.split(",")[0], newsuperior=self.unit())

    def run(self):
        self.one = None
        kinds = ["modify"] * 60 + ["add"] * 15 + ["delete"] * 10 + ["rename"] * 8 + ["move"] * 6
        last = time.time()
        while not self.is_over:
            what = self.chance.choice(kinds)
            # Whole units seldom: consumers begin again.
            if self.number == 0 and time.time() - last > self.unit_every:
                what, last = "unit", time.time()
            try:
                self.one = self.one or bound(self.url, ADMIN, PASSWORD)
                self.work(what)
                self.counts[what] = self.counts.get(what, 0) + 1
            except (ldap.NO_SUCH_OBJECT, ldap.ALREADY_EXISTS, ldap.NOT_ALLOWED_ON_NONLEAF, ldap.NAMING_VIOLATION) as error:
                self.refused[type(error).__name__] = self.refused.get(type(error).__name__, 0) + 1
            except GONE:
                self.one = None
            time.sleep(0.005)


def ldif(entries):
    """All entries as text, one a line, in order."""
    lines = []
    for dn, attributes in entries:
        values = sorted(
            f"{name.lower()}:: {base64.b64encode(value).decode()}" for name, all in attributes.items() for value in all
        )
        lines.append(f"dn: {dn.lower()} | " + " | ".join(values))
    return sorted(lines)


def everything(url, dn):
    one = bound(url, dn, PASSWORD)
    return ldif(one.search_ext_s(SUFFIX, ldap.SCOPE_SUBTREE, "(objectClass=*)", ATTRIBUTES))


def compare(folder, name, want, get):
    """Waits until a copy is as it has to be; says how long that took."""
    begun, found = time.time(), []
    while time.time() - begun < IN_STEP_WITHIN:
        try:
            found = get()
        except ldap.LDAPError:
            found = []
        if found == want:
            print(f"  {name}: the same {len(want):,} entries, after {time.time() - begun:.1f} s", flush=True)
            return True
        time.sleep(1)
    missing, more = sorted(set(want) - set(found)), sorted(set(found) - set(want))
    print(f"  {name}: {len(missing)} entries are missing or other ones, {len(more)} are too many")
    for which, lines in (("want", missing), ("have", more)):
        with open(f"{folder}/{name}.{which}", "w") as out:
            out.writelines(line + "\n" for line in lines)
        for line in lines[:3]:
            print(f"    {which} {line[:300]}")
    return False


def main():
    program = sys.argv[1]
    entries, seconds = (int(sys.argv[n]) if len(sys.argv) > n else usual for n, usual in ((2, 100_000), (3, 600)))
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else random.SystemRandom().randrange(10**9)
    chance = random.Random(seed)
    print(f"{entries:,} entries, {seconds} s, seed {seed}", flush=True)
    folder = tempfile.mkdtemp(prefix="roster-long-sync-")
    roster = Roster(program, folder, entries)
    bound(roster.url, ADMIN, PASSWORD)
    slapds = [Slapd(roster.url, folder, 1, "persist"), Slapd(roster.url, folder, 2, "only")]
    all, is_fine, done = [roster, *slapds], False, []
    try:
        python = Python(roster.url, min(30, seconds / 5))
        writers = [Writer(roster.url, number, seed, entries, min(45, seconds / 5)) for number in range(WRITERS)]
        end = time.time() + seconds
        while time.time() < end:
            time.sleep(min(max(chance.uniform(0.02, 0.06) * seconds, 3), max(end - time.time(), 0)))
            which, how = chance.choice(all), chance.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM])
            which.stop(how)
            time.sleep(chance.choice([0, 0.5, 3]))
            which.start()
            done.append(f"{type(which).__name__} {how.name}")
        for writer in writers:
            writer.is_over = True
        for writer in writers:
            writer.join()
        total = {}
        for writer in writers:
            for name, count in [*writer.counts.items(), *writer.refused.items()]:
                total[name] = total.get(name, 0) + count
        print(f"  changes: {total}\n  stopped: {done}\n  python came back {python.comes_back} times", flush=True)
        want = everything(roster.url, ADMIN)
        fine = [
            compare(folder, "slapd-persist", want, lambda: everything(slapds[0].url, COPY_ADMIN)),
            compare(folder, "slapd-only", want, lambda: everything(slapds[1].url, COPY_ADMIN)),
        ]
        fine.append(compare(folder, "python", want, lambda: ldif(list(python.has.values()))))
        python.is_over = True
        is_fine = all_of(fine)
    finally:
        for one in all:
            one.process.kill()
            one.process.wait()
        if is_fine:
            shutil.rmtree(folder)
        else:
            print(f"  everything is in {folder}")
    sys.exit(0 if is_fine else 1)


def all_of(values):
    return len(values) == 3 and False not in values


main()
