#!/usr/bin/python3
"""What groups cost here and in other servers: compare-groups.py ROSTER MEMBERS [SERVER …]

Loads a group of so many people and 1,000 groups of ten, serves them on the loopback interface, and prints
the server's CPU and the time of each operation. SERVER is roster, slapd (the overlay memberof, which keeps
references, too), dynlist (slapd with dynlist and refint) and 389 (MemberOf and referential integrity); all
of them unless some are named. With the word import for MEMBERS, it is what 50 groups of 40,000 (import500: 500 of them) add to loading
400,000 people, and their size on disk. Needs python3-ldap, lmdb-utils, slapd, 389-ds-base, and root for 389.

All sync a write before they answer it (each server's default), log no access, and have equality indexes for
uid, member and memberOf. What a server does after its answer counts: it is waited for.
"""

import os
import random
import re
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time

import ldap

SUFFIX = "dc=example,dc=com"
ADMIN, PASSWORD = "cn=Directory Manager", "of-this-run-alone"
APART, BUSY, SMALL, IN_SMALL = 2000, 4, 1000, 10
WAITING_MOST = 32
SECONDS_MOST = float(os.environ.get("SECONDS_MOST", 20))
ANSWER_SECONDS_MOST = float(os.environ.get("ANSWER_SECONDS_MOST", 600))
SLAPD = """\
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
include /etc/ldap/schema/dyngroup.schema
modulepath /usr/lib/ldap
moduleload back_mdb
moduleload {overlay}
moduleload refint
loglevel 0
threads 8
conn_max_pending 1000
conn_max_pending_auth 1000
sizelimit unlimited
timelimit unlimited
tool-threads 2
# Both are what its manual says of groups of very many: values are found by halves, and in a table of their own.
sortvals member
database mdb
suffix {suffix}
rootdn "{admin}"
rootpw {password}
directory {folder}/db
maxsize 1099511627776
multival member,memberOf 1000,500
index objectClass,uid,member{index} eq
overlay {overlay}
{settings}
"""
PLUGINS = """\
dn: cn=MemberOf Plugin,cn=plugins,cn=config
changetype: modify
replace: nsslapd-pluginEnabled
nsslapd-pluginEnabled: on
-
replace: memberOfAutoAddOC
memberOfAutoAddOC: nsMemberOf

dn: cn=referential integrity postoperation,cn=plugins,cn=config
changetype: modify
replace: nsslapd-pluginEnabled
nsslapd-pluginEnabled: on
-
replace: referint-membership-attr
referint-membership-attr: member

dn: cn=config
changetype: modify
replace: nsslapd-accesslog-logging-enabled
nsslapd-accesslog-logging-enabled: off
-
replace: nsslapd-sizelimit
nsslapd-sizelimit: -1
-
replace: nsslapd-timelimit
nsslapd-timelimit: -1
-
replace: nsslapd-rootpwstoragescheme
nsslapd-rootpwstoragescheme: SSHA

dn: cn=config,cn=ldbm database,cn=plugins,cn=config
changetype: modify
replace: nsslapd-lookthroughlimit
nsslapd-lookthroughlimit: -1
"""
ANSWERS = """\
[general]
config_version = 2
full_machine_name = localhost
strict_host_checking = False
selinux = False
[slapd]
instance_name = groups
root_dn = {admin}
root_password = {password}
port = {port}
secure_port = 0
self_sign_cert = False
[backend-userroot]
suffix = {suffix}
"""


def run(*command, **more):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, **more)
    if done.returncode:
        sys.exit(f"{command}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def pages_in_use(folder, *options):
    """Octets of an LMDB file that hold something."""
    text = run("mdb_stat", *options, "-e", "-f", folder)
    number = lambda name: int(re.search(rf"{name}: (\d+)", text)[1])
    return (number("Number of pages used") - number("Free pages")) * number("Page size")


class Server:
    """One of the servers, in a folder of its own."""

    admin, stores_member_of = ADMIN, ()

    def __init__(self, roster, folder):
        self.roster, self.folder, self.pid = roster, folder, None
        self.prepare()

    def wait_for(self, url):
        end = time.time() + ANSWER_SECONDS_MOST
        while True:
            try:
                self.client = ldap.initialize(url)
                return self.client.simple_bind_s(self.admin, PASSWORD)
            except (ldap.SERVER_DOWN, ldap.UNAVAILABLE, ldap.BUSY):
                if time.time() > end:
                    raise
                time.sleep(0.1)

    def cpu(self):
        fields = open(f"/proc/{self.pid}/stat").read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def octets_written(self):
        return int(re.search(r"wchar: (\d+)", open(f"/proc/{self.pid}/io").read())[1])

    def cpu_at_rest(self):
        """Its CPU when it has done nothing for a while: what is synced takes hardly any."""
        before = self.cpu(), self.octets_written()
        while True:
            time.sleep(0.5)
            now = self.cpu(), self.octets_written()
            if now[0] - before[0] < 0.02 and now[1] - before[1] < 1000:
                return now[0]
            before = now

    def begin_anew(self):
        """Ends what it does for nobody any more."""
        self.stop()
        self.start()


class Roster(Server):
    def prepare(self):
        self.data = f"{self.folder}/data"
        open(f"{self.folder}/password", "w").write(PASSWORD)
        password = ["--admin-password-file", f"{self.folder}/password"]
        run(self.roster, "init", "--suffix", SUFFIX, *password, "--data", self.data)

    def load(self, path):
        run(self.roster, "import", "--data", self.data, path)

    def start(self):
        at = f"{self.folder}/ldapi"
        ports = [word for kind in ("ldap", "ldaps", "admin") for word in (f"--{kind}", "127.0.0.1:0")]
        log = open(f"{self.folder}/log", "w")
        command = [self.roster, "serve", "--data", self.data, *ports, "--ldapi", at]
        self.process = subprocess.Popen(command, stdout=log, stderr=log)
        self.pid = self.process.pid
        self.wait_for("ldapi://" + at.replace("/", "%2F"))

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def octets(self):
        return pages_in_use(f"{self.data}/data.mdb", "-n")


class Slapd(Server):
    admin = f"cn=admin,{SUFFIX}"
    overlay, index, stores_member_of = "memberof", ",memberOf", ("memberOf",)
    # Takes who is deleted out of groups by the memberOf of the entry, where refint looks at every entry.
    settings = "memberof-refint true"

    def prepare(self):
        os.mkdir(f"{self.folder}/db")
        self.conf = f"{self.folder}/slapd.conf"
        values = dict(overlay=self.overlay, settings=self.settings, index=self.index, folder=self.folder)
        open(self.conf, "w").write(SLAPD.format(suffix=SUFFIX, admin=self.admin, password=PASSWORD, **values))

    def load(self, path):
        run("/usr/sbin/slapadd", "-q", "-f", self.conf, "-l", path)

    def start(self):
        url = "ldapi://" + f"{self.folder}/ldapi".replace("/", "%2F")
        log = open(f"{self.folder}/log", "w")
        command = ["/usr/sbin/slapd", "-d", "0", "-h", url, "-f", self.conf]
        self.process = subprocess.Popen(command, stdout=log, stderr=log)
        self.pid = self.process.pid
        self.wait_for(url)

    stop = Roster.stop

    def octets(self):
        return pages_in_use(f"{self.folder}/db")


class Dynlist(Slapd):
    overlay, index, stores_member_of = "dynlist", "", ()
    settings = """dynlist-attrset groupOfURLs memberURL member+memberOf@groupOfNames
overlay refint
refint_attributes member"""


class Ds389(Server):
    stores_member_of = ("memberOf", "nsMemberOf")

    def tool(self, name, *arguments):
        return run(f"/usr/sbin/{name}", *arguments, env={**os.environ, "PREFIX": self.prefix})

    def prepare(self):
        """An instance below a prefix, as `dscreate` makes it, without systemd."""
        self.prefix = prefix = f"{self.folder}/ds"
        own = {"with_systemd": "0", "user": "root", "group": "root"}
        own |= {"tmp_dir": f"{prefix}/tmp", "inst_dir": f"{prefix}/inst"}
        lines = []
        for line in open("/usr/share/dirsrv/inf/defaults.inf"):
            key, _, value = line.rstrip().partition(" = ")
            if value.startswith(("/etc", "/run", "/var", "/dev/shm")):
                value = prefix + value.replace("/dev/shm", "/shm")
            lines.append(f"{key} = {own.get(key, value)}" if value else key)
        for name in ("share/dirsrv/inf", "etc/default", "etc/tmpfiles.d", "var", "run", "tmp", "shm"):
            os.makedirs(f"{prefix}/{name}")
        open(f"{prefix}/share/dirsrv/inf/defaults.inf", "w").write("\n".join(lines))
        shutil.copytree("/etc/dirsrv", f"{prefix}/etc/dirsrv")
        self.url = f"ldap://localhost:{free_port()}"
        answers = f"{self.folder}/answers.inf"
        port = self.url.rsplit(":", 1)[1]
        open(answers, "w").write(ANSWERS.format(admin=ADMIN, password=PASSWORD, port=port, suffix=SUFFIX))
        self.tool("dscreate", "from-file", answers)
        open(f"{self.folder}/plugins.ldif", "w").write(PLUGINS)
        who = ["-x", "-H", self.url, "-D", ADMIN, "-w", PASSWORD]
        run("ldapmodify", *who, "-f", f"{self.folder}/plugins.ldif")
        self.stop()

    def load(self, path):
        self.tool("dsctl", "groups", "ldif2db", "userroot", path)

    def start(self):
        self.tool("dsctl", "groups", "start")
        self.wait_for(self.url)
        pids = [p for p in os.listdir("/proc") if p.isdigit() and self.is_mine(p)]
        (self.pid,) = pids

    def is_mine(self, pid):
        try:
            words = open(f"/proc/{pid}/cmdline", "rb").read().split(b"\0")
        except OSError:
            return False
        return words[0].endswith(b"ns-slapd") and any(self.prefix.encode() in word for word in words)

    def stop(self):
        self.tool("dsctl", "groups", "stop")

    def octets(self):
        of = f"{self.prefix}/var/lib/dirsrv/slapd-groups/db/userroot"
        of = of if os.path.isdir(of) else of.replace("userroot", "userRoot")
        return sum(os.stat(f"{of}/{name}").st_size for name in os.listdir(of))


SERVERS = {"roster": Roster, "slapd": Slapd, "dynlist": Dynlist, "389": Ds389}


def person(number):
    return f"uid=user.{number},ou=people,{SUFFIX}"


def group(name):
    return f"cn={name},ou=groups,{SUFFIX}"


def write_ldif(path, server, people, groups):
    """So many people, and groups by name: the numbers of their members."""
    attribute, *classes = server.stores_member_of or [None]
    member_of = {}
    for name, members in groups.items() if attribute else ():
        for number in members:
            member_of.setdefault(number, []).append(name)
    with open(path, "w") as out:
        out.write(f"dn: {SUFFIX}\nobjectClass: domain\ndc: example\n\n")
        for unit in ("people", "groups"):
            out.write(f"dn: ou={unit},{SUFFIX}\nobjectClass: organizationalUnit\nou: {unit}\n\n")
        for n in range(people):
            out.write(f"dn: {person(n)}\nobjectClass: inetOrgPerson\n")
            out.writelines(f"objectClass: {name}\n" for name in classes)
            out.write(f"uid: user.{n}\nsn: {n}\ncn: user {n}\n")
            out.writelines(f"{attribute}: {group(name)}\n" for name in member_of.get(n, ()))
            out.write("\n")
        for name, members in groups.items():
            out.write(f"dn: {group(name)}\nobjectClass: groupOfNames\ncn: {name}\n")
            out.writelines(f"member: {person(n)}\n" for n in members)
            out.write("\n")


def load(server, people, groups):
    """Loads them offline; seconds of CPU and of time."""
    path = f"{server.folder}/in.ldif"
    write_ldif(path, server, people, groups)
    used = lambda: sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    cpu, start = used(), time.time()
    server.load(path)
    os.unlink(path)
    return used() - cpu, time.time() - start


def measure(server, what, count, begin, check=lambda found: None):
    """Does `begin(number)` so often, 32 at a time unless one takes long, but for no longer than a while."""
    waiting, done = [], 0

    def take():
        number = waiting.pop(0)
        try:
            kind, found = server.client.result(number, timeout=ANSWER_SECONDS_MOST)[:2]
            check(len([entry for entry in found if entry[0]]) if found else 0)
        except (ldap.COMPARE_TRUE, ldap.COMPARE_FALSE):
            pass

    cpu, start = server.cpu_at_rest(), time.time()
    window = 1
    try:
        while done < count and time.time() < start + SECONDS_MOST:
            waiting.append(begin(done))
            done += 1
            if len(waiting) >= window:
                take()
            window = WAITING_MOST if time.time() - start < done * 0.1 else 1
            while len(waiting) > window:
                take()
        while waiting:
            take()
        answered = time.time()
        used = server.cpu_at_rest() - cpu
        wall = (answered - start) * 1e6 / done
        print(f"  {what:<44} {used * 1e6 / done:13,.1f} us CPU {wall:13,.1f} us  x {done}", flush=True)
    except ldap.LDAPError as error:
        used, passed = server.cpu() - cpu, time.time() - start
        print(f"  {what:<44} {error!r} after {passed:.0f} s, {used:.1f} s CPU, x {done}", flush=True)
        server.begin_anew()
    return done


def expect(least, most=None):
    def check(found):
        if not least <= found <= (most or least):
            sys.exit(f"{found} entries where {least} were expected")

    return check


def operations(server, people, members):
    """Those before `BUSY` are in all small groups, those from `members` on in none."""
    chance = random.Random(1)
    some = [chance.randrange(BUSY, members) for _ in range(3000)]
    every = group("all")
    named = lambda n: [person(n).encode()]
    search = lambda f, *names: server.client.search(SUFFIX, ldap.SCOPE_SUBTREE, f, list(names))
    read = lambda base, *names: server.client.search(base, ldap.SCOPE_BASE, "(objectClass=*)", list(names))
    modify = lambda kind, n: server.client.modify(every, [(kind, "member", named(members + n))])
    title = lambda n: server.client.modify(person(members + n), [(ldap.MOD_REPLACE, "title", [b"x%d" % n])])
    both = lambda n: f"(&(memberOf={every})(uid=user.{some[n]}))"
    in_small, few = IN_SMALL + BUSY, max(3, 50_000 // members)
    deleted = 200 if members < 50_000 else 20
    added = measure(server, "add a member", APART, lambda n: modify(ldap.MOD_ADD, n))
    gone = 0
    for what, count, begin, check in [
        ("delete a member", added, lambda n: modify(ldap.MOD_DELETE, n), expect(0)),
        ("modify another entry, to compare with", APART, title, expect(0)),
        ("compare: a member", 3000, lambda n: server.client.compare(every, "member", named(some[n])[0]), expect(0)),
        ("(uid=x)", 3000, lambda n: search(f"(uid=user.{some[n]})", "cn"), expect(1)),
        ("memberOf of one", 3000, lambda n: read(person(some[n]), "memberOf"), expect(1)),
        ("memberOf of one in 1,001", 200, lambda n: read(person(n % BUSY), "memberOf"), expect(1)),
        ("(member=x): the groups of one", 3000, lambda n: search(f"(member={person(some[n])})", "cn"), expect(1, 99)),
        ("(member=x): 1,001 groups", 50, lambda n: search(f"(member={person(n % BUSY)})", "cn"), expect(SMALL + 1)),
        ("(&(memberOf=all)(uid=x))", 3000, lambda n: search(both(n), "cn"), expect(1)),
        ("(memberOf=one of 14)", 1000, lambda n: search(f"(memberOf={group(n)})", "cn"), expect(in_small)),
        ("the whole group", few, lambda n: read(every, "member"), expect(1)),
        ("delete a person in no group", deleted, lambda n: server.client.delete(person(people - 1 - n)), expect(0)),
        ("delete a person in this one, or few more", deleted, lambda n: server.client.delete(person(members - 1 - n)), expect(0)),
        ("delete a person in 1,001 groups", BUSY - 1, lambda n: server.client.delete(person(n)), expect(0)),
        ("(memberOf=all)", few, lambda n: search(f"(memberOf={every})", "1.1"), expect(members - 300, people)),
    ]:
        done = measure(server, what, count, begin, check)
        gone = done if "1,001 groups" in what and what.startswith("delete") else gone
    # Nobody who is not there is a member of anything.
    for n in range(gone):
        found = server.client.search_s(SUFFIX, ldap.SCOPE_SUBTREE, f"(member={person(n)})", ["1.1"])
        if found:
            print(f"  {len(found)} groups name somebody who was deleted")


def one_group(server, members):
    chance = random.Random(2)
    of_ten = lambda: chance.sample(range(BUSY, members), IN_SMALL)
    groups = {str(n): [*range(BUSY), *of_ten()] for n in range(SMALL)}
    groups["all"] = range(members)
    people = members + APART
    cpu, passed = load(server, people, groups)
    print(f"  import: {cpu:.1f} s CPU, {passed:.1f} s", flush=True)
    server.start()
    try:
        operations(server, people, members)
    finally:
        server.stop()


def importing(make, people=400_000, count=50, members=40_000):
    figures = []
    for groups in (0, count):
        folder = tempfile.mkdtemp()
        server = make(folder)
        try:
            firsts = [n * people // count for n in range(groups)]
            all_of = {str(n): [(first + k) % people for k in range(members)] for n, first in enumerate(firsts)}
            cpu, passed = load(server, people, all_of)
            figures.append((cpu, passed, server.octets()))
            print(f"  {groups} groups: {cpu:.1f} s CPU, {passed:.1f} s, {figures[-1][2] / 1e6:,.0f} MB", flush=True)
        finally:
            remove(server, folder)
    (cpu, passed, octets), (cpu2, passed2, octets2) = figures
    each = count * members
    print(
        f"  a membership: {(cpu2 - cpu) * 1e6 / each:.2f} us CPU, {(passed2 - passed) * 1e6 / each:.2f} us, "
        f"{(octets2 - octets) / each:.1f} octets",
        flush=True,
    )


def remove(server, folder):
    try:
        if isinstance(server, Ds389):
            server.stop()
    finally:
        shutil.rmtree(folder)


def main(roster, members, *names):
    for name in names or SERVERS:
        print(f"{name}, {members}", flush=True)
        make = lambda folder: SERVERS[name](os.path.abspath(roster), folder)
        if members.startswith("import"):
            importing(make, count=int(members.removeprefix("import") or 50))
            continue
        folder = tempfile.mkdtemp()
        server = make(folder)
        try:
            one_group(server, int(members))
        finally:
            remove(server, folder)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
