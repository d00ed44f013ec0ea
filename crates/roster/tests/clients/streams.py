"""Readers of changes that may be killed at any moment, and what is right of what they have kept.

    streams.py read KIND READY FOLDER     reads for ever; KIND: numbers, cookies, persistent, sync
    streams.py judge URL DN PASSWORD FOLDER [KIND ...]     compares what they have with the server

READY is a ready file of roster: it names the listeners. Each reader keeps what it has in
FOLDER/KIND, a line for each thing that it was told, and goes on behind the last whole line.
"""

import base64
import json
import os
import random
import re
import sys
import time

import ldap
from ldap.controls import RequestControl
from ldap.controls.psearch import EntryChangeNotificationControl, PersistentSearchControl
from ldap.ldapobject import SimpleLDAPObject
from ldap.syncrepl import SyncreplConsumer

SUFFIX = "dc=example,dc=com"
LOG = "cn=changelog"
COOKIE_OID = "1.3.6.1.4.1.26027.1.5.4"
WANTED = ["*", "entryUUID", "entryCSN"]
# What a server that ends, or begins, or is behind another answers.
PASSING = (ldap.SERVER_DOWN, ldap.CONNECT_ERROR, ldap.UNAVAILABLE, ldap.BUSY, ldap.TIMEOUT,
           ldap.TIMELIMIT_EXCEEDED, ldap.OTHER)
REFRESH_REQUIRED = 4096
POLL_S = 0.02


class Behind(Exception):
    """The server is behind what was read from another."""


def text(value):
    return value.decode("utf-8", "surrogateescape")


def entry(attributes):
    return {name.lower(): sorted(text(value) for value in values)
            for name, values in attributes.items()}


class Kept:
    """Lines in a file; what a kill left half is cut off."""

    def __init__(self, path):
        self.path = path
        self.file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        octets = os.pread(self.file, os.fstat(self.file).st_size, 0)
        whole = octets.rfind(b"\n") + 1
        os.ftruncate(self.file, whole)
        self.lines = [json.loads(line) for line in octets[:whole].splitlines()]

    def add(self, *things):
        octets = "".join(json.dumps(thing) + "\n" for thing in things).encode()
        assert os.write(self.file, octets) == len(octets)

    def replace(self, things):
        """All lines at once by others."""
        with open(self.path + ".new", "w") as file:
            file.writelines(json.dumps(thing) + "\n" for thing in things)
        os.rename(self.path + ".new", self.path)
        os.close(self.file)
        self.file = os.open(self.path, os.O_RDWR | os.O_APPEND)


def doors(ready):
    """The listeners, and how the administrator enters."""
    with open(ready) as file:
        lines = file.read().splitlines()
    nodes = re.findall(r"^node \d+ ldap (\S+)", "\n".join(lines), re.M)
    one = [line[5:] for line in lines if line.startswith("ldap ")]
    names = dict(line.split(" ", 1) for line in lines if line.startswith("admin_"))
    return (nodes or one, names.get("admin_dn", "cn=Directory Manager"),
            names.get("admin_password", "correct horse"))


def enter(kind, ready, last):
    """A connection to another server than the last one, if there is another."""
    while True:
        try:
            addresses, dn, password = doors(ready)
            others = [one for one in addresses if one != last] or addresses
            address = random.choice(others)
            connection = kind(f"ldap://{address}")
            connection.set_option(ldap.OPT_NETWORK_TIMEOUT, 2)
            connection.set_option(ldap.OPT_TIMEOUT, 20)
            connection.set_option(ldap.OPT_REFERRALS, 0)
            connection.simple_bind_s(dn, password)
            return connection, address
        except (FileNotFoundError, IndexError) + PASSING:
            last = None
            time.sleep(POLL_S)


def forever(kind, ready, step):
    """Enters a server and reads until it is gone, again and again."""
    last = None
    while True:
        connection, last = enter(kind, ready, last)
        try:
            step(connection)
        except PASSING + (Behind,):
            time.sleep(POLL_S)


def root(connection):
    names = ["firstChangeNumber", "lastChangeNumber", "lastExternalChangelogCookie"]
    found = connection.search_s("", ldap.SCOPE_BASE, "(objectClass=*)", names)[0][1]
    return {name: text(found[name][0]) for name in names}


def tree(connection):
    found = connection.search_s(SUFFIX, ldap.SCOPE_SUBTREE, "(objectClass=*)", WANTED)
    return [[dn, entry(attributes)] for dn, attributes in found if dn]


def begin(connection):
    """All entries, and a place in the change log that is not behind them."""
    for _ in range(50):
        place, entries = root(connection), tree(connection)
        if root(connection) == place:
            break
    return {"begin": int(place["lastChangeNumber"]), "entries": entries,
            "cookie": place["lastExternalChangelogCookie"]}


def change(attributes):
    """A change as it is kept, from the entry that tells it."""
    told = {name.lower(): text(values[0]) for name, values in attributes.items()}
    lines = told.get("changes") or told.get("deletedentryattrs") or ""
    kept = {"type": told["changetype"], "dn": told["targetdn"], "lines": lines,
            "csn": told["replicationcsn"], "part": int(told.get("roster-change-part", 1))}
    if kept["type"] == "modrdn":
        kept.update(rdn=told["newrdn"], superior=told.get("newsuperior"))
    return kept


def read_numbers(ready, folder):
    kept = Kept(f"{folder}/numbers")
    lines = kept.lines
    if len(lines) > 1:
        # The parts of a change have one number: a kill may have come between them.
        last = lines[-1]["number"]
        lines = [lines[0]] + [line for line in lines[1:] if line["number"] < last]
        kept.replace(lines)
    at = {"next": None}
    if lines:
        at["next"] = (lines[-1]["number"] if len(lines) > 1 else lines[0]["begin"]) + 1
    kept.lines = lines = None

    def step(connection):
        if at["next"] is None:
            began = begin(connection)
            kept.add(began)
            at["next"] = began["begin"] + 1
        while True:
            # A number is complete when the search is.
            place = root(connection)
            if int(place["firstChangeNumber"]) > at["next"]:
                raise Behind()
            end = int(place["lastChangeNumber"])
            if end >= at["next"]:
                filterstr = f"(&(changeNumber>={at['next']})(changeNumber<={end}))"
                number = connection.search_ext(LOG, ldap.SCOPE_ONELEVEL, filterstr, ["*", "+"])
                while True:
                    kind, found = connection.result(number, all=0, timeout=20)
                    for _, attributes in found or []:
                        number_of = int(attributes["changeNumber"][0])
                        assert number_of >= at["next"], (number_of, at)
                        kept.add({"number": number_of, **change(attributes)})
                        # Those that follow are its parts, or behind it.
                        at["next"] = number_of
                    if kind == ldap.RES_SEARCH_RESULT:
                        break
                at["next"] = end + 1
            time.sleep(POLL_S)

    # In the midst of a number the whole process begins again, as after a kill.
    last = None
    while True:
        connection, last = enter(SimpleLDAPObject, ready, last)
        try:
            step(connection)
        except Behind:
            time.sleep(POLL_S)
        except PASSING:
            os.execv(sys.executable, [sys.executable] + sys.argv)


class ChangelogCookie(RequestControl):
    def __init__(self, cookie):
        super().__init__(COOKIE_OID, True, cookie.encode())


def read_cookies(ready, folder):
    kept = Kept(f"{folder}/cookies")
    at = {"cookie": kept.lines[-1]["cookie"] if kept.lines else None}
    kept.lines = None

    def step(connection):
        if at["cookie"] is None:
            began = begin(connection)
            kept.add(began)
            at["cookie"] = began["cookie"]
        while True:
            try:
                number = connection.search_ext(
                    LOG, ldap.SCOPE_SUBTREE, "(objectClass=changeLogEntry)", ["*", "+"],
                    serverctrls=[ChangelogCookie(at["cookie"])])
                while True:
                    kind, found = connection.result(number, all=0, timeout=20)
                    for _, attributes in found or []:
                        cookie = text(attributes["changeLogCookie"][0])
                        kept.add({**change(attributes), "cookie": cookie})
                        at["cookie"] = cookie
                    if kind == ldap.RES_SEARCH_RESULT:
                        break
            except ldap.UNWILLING_TO_PERFORM as error:
                # A member that is behind, or that took over a copy and has no changes of before.
                said = str(error)
                assert "is behind another" in said or "not kept any more" in said, said
                raise Behind()
            time.sleep(POLL_S)

    forever(SimpleLDAPObject, ready, step)


def read_persistent(ready, folder):
    """There is no place to go on from: each connection begins with all entries."""
    numbers = Kept(f"{folder}/persistent.numbers")
    numbers.lines = None

    def step(connection):
        path = f"{folder}/persistent"
        kept = Kept(path)
        kept.replace([])
        numbers.add("connect")
        asked = PersistentSearchControl(changesOnly=False, returnECs=True)
        known = {EntryChangeNotificationControl.controlType: EntryChangeNotificationControl}
        search = connection.search_ext(SUFFIX, ldap.SCOPE_SUBTREE, "(objectClass=*)", WANTED,
                                       serverctrls=[asked])
        while True:
            _, found, _, _, _, _ = connection.result4(
                search, all=0, timeout=600, add_ctrls=1, resp_ctrl_classes=known)
            for dn, attributes, controls in found:
                said = {"dn": dn, "entry": entry(attributes)}
                for control in controls:
                    said["type"] = control.changeType
                    said["number"] = control.changeNumber
                    if control.previousDN:
                        said["previous"] = control.previousDN
                kept.add(said)
                if "number" in said:
                    numbers.add([said["number"], said["entry"]["entryuuid"][0],
                                 said["entry"]["entrycsn"][0]])

    forever(SimpleLDAPObject, ready, step)


class Consumer(SimpleLDAPObject, SyncreplConsumer):
    """Lines that one message makes are kept together, the cookie last."""

    def start(self, has, cookie):
        self.has, self.cookie, self.present, self.new = has, cookie, set(), []
        self.search = self.syncrepl_search(
            SUFFIX, ldap.SCOPE_SUBTREE, mode="refreshAndPersist", cookie=cookie,
            filterstr="(objectClass=*)", attrlist=WANTED)

    def syncrepl_get_cookie(self):
        return self.cookie

    def syncrepl_set_cookie(self, cookie):
        self.cookie = cookie
        self.new.append({"cookie": cookie})

    def syncrepl_entry(self, dn, attributes, uuid):
        has = [dn, entry(attributes)]
        before = self.has.get(uuid)
        if before:
            # What was told once is not undone: each is as it is, or newer.
            csns = before[1]["entrycsn"][0], has[1]["entrycsn"][0]
            assert csns[0] <= csns[1], (dn, csns)
        self.has[uuid] = has
        self.new.append({"has": uuid, "entry": has})

    def syncrepl_delete(self, uuids):
        for uuid in uuids:
            self.has.pop(uuid, None)
            self.new.append({"gone": uuid})

    def syncrepl_present(self, uuids, refreshDeletes=False):
        if uuids is not None:
            self.present.update(uuids)
        elif not refreshDeletes:
            self.syncrepl_delete([uuid for uuid in self.has if uuid not in self.present])


def synchronized(lines):
    """The entries of a consumer and its cookie, if it has one."""
    has, cookie = {}, None
    for line in lines:
        if "reset" in line:
            has, cookie = {}, None
        elif "has" in line:
            has[line["has"]] = line["entry"]
        elif "gone" in line:
            has.pop(line["gone"], None)
        else:
            cookie = line["cookie"]
    return has, cookie


def read_sync(ready, folder):
    kept = Kept(f"{folder}/sync")
    has, cookie = synchronized(kept.lines)
    kept.lines = None
    if cookie is None:
        has = {}
    compact = [{"has": uuid, "entry": one} for uuid, one in has.items()]
    kept.replace(compact + ([{"cookie": cookie}] if cookie else []))
    state = {"has": has, "cookie": cookie}

    def step(connection):
        if state["cookie"] is None:
            state["has"] = {}
            kept.add({"reset": True})
        connection.start(state["has"], state["cookie"])
        try:
            while True:
                try:
                    connection.syncrepl_poll(msgid=connection.search, timeout=600)
                finally:
                    if connection.new:
                        kept.add(*connection.new)
                        connection.new = []
                    state["cookie"] = connection.cookie
        except ldap.LDAPError as error:
            if error.args and error.args[0].get("result") != REFRESH_REQUIRED:
                raise
            # The draft's way: begin again with nothing.
            state["cookie"] = None
            kept.add({"reset": True})
            print("refresh required", file=sys.stderr)

    forever(Consumer, ready, step)


# ---- what is right


def key(dn):
    """A name as it is compared."""
    try:
        parts = ldap.dn.str2dn(dn)
    except ldap.DECODING_ERROR:
        return dn.lower()
    return ",".join("+".join(sorted(f"{name}={value}".lower() for name, value, _ in part))
                    for part in parts)


def values_of(lines):
    """The lines of LDIF, as names and values; '-' is (None, '')."""
    for line in lines.replace("\n ", "").splitlines():
        if line == "-":
            yield None, ""
        elif ":: " in line and line.index(":") == line.index(":: "):
            name, value = line.split(":: ", 1)
            yield name, text(base64.b64decode(value))
        else:
            name, _, value = line.partition(":")
            yield name, value.removeprefix(" ")


def deltas_of(lines):
    """What a modification did: (verb, attribute, values)."""
    deltas, current = [], None
    for name, value in values_of(lines):
        if name is None:
            current = None
        elif current is None:
            current = (name, value.lower(), [])
            deltas.append(current)
        else:
            current[2].append(value)
    return deltas


class Tree:
    """Entries by their names, as changes make them."""

    def __init__(self, entries):
        self.entries = {key(dn): {name: set(values) for name, values in one.items()}
                        for dn, one in entries}

    def modify(self, dn, deltas):
        one = self.entries.get(key(dn))
        if one is None:
            return
        for verb, name, values in deltas:
            has = one.setdefault(name, set())
            if verb == "add":
                has.update(values)
            elif verb == "delete" and values:
                has.difference_update(values)
            else:
                has.clear()
                has.update(values)
            if not has:
                del one[name]

    def rename(self, old, new):
        old, new = key(old), key(new)
        for name in [name for name in self.entries if name == old or name.endswith("," + old)]:
            self.entries[name[:len(name) - len(old)] + new] = self.entries.pop(name)

    def add(self, dn, attributes):
        self.entries[key(dn)] = {name: set(values) for name, values in attributes.items()}

    def apply(self, one):
        dn = one["dn"]
        if not key(dn).endswith(SUFFIX):
            return
        if one["type"] == "add":
            attributes = {}
            for name, value in values_of(one["lines"]):
                attributes.setdefault(name.lower(), set()).add(value)
            self.add(dn, attributes)
        elif one["type"] == "delete":
            self.entries.pop(key(dn), None)
        elif one["type"] == "modify":
            self.modify(dn, deltas_of(one["lines"]))
        else:
            above = one["superior"] or dn.split(",", 1)[1]
            new = f"{one['rdn']},{above}"
            # A number of changes that the first entries had already.
            if key(dn) in self.entries:
                self.rename(dn, new)
            self.modify(new, deltas_of(one["lines"]))


# Kept in the entry, and told.
COMPARED = {"entryuuid", "entrycsn"}


def differences(want, have):
    """In what two trees differ, in a few lines."""
    faults = []
    for name in sorted(set(want) | set(have)):
        if name not in have:
            faults.append(f"{name} is missing")
        elif name not in want:
            faults.append(f"{name} is there, and is not in the server")
        else:
            for attribute in want[name]:
                if have[name].get(attribute) != want[name][attribute]:
                    faults.append(f"{name}: {attribute} is {str(have[name].get(attribute))[:200]} "
                                  f"instead of {str(want[name][attribute])[:200]}")
    return faults[:10]


def as_told(path):
    with open(path) as file:
        return [json.loads(line) for line in file if line.endswith("\n")]


def of_command(one):
    """A line of `roster changes --json` as the others are kept."""
    name = one["dn"]
    kept = {"number": one["number"], "type": one["type"], "dn": name, "new": one.get("new_dn")}
    kept["attributes"], kept["changes"] = one.get("attributes"), one.get("changes")
    return kept


class ByCommand(Tree):
    def apply(self, one):
        dn = one["dn"]
        if not key(dn).endswith(SUFFIX):
            return
        if one["type"] == "add":
            self.add(dn, {name.lower(): values for name, values in one["attributes"].items()})
        elif one["type"] == "delete":
            self.entries.pop(key(dn), None)
        else:
            if one["type"] == "modrdn":
                if key(dn) in self.entries:
                    self.rename(dn, one["new"])
                dn = one["new"]
            deltas = []
            for delta in one["changes"]:
                name = delta.pop("attribute").lower()
                (verb, values), = delta.items()
                deltas.append((verb, name, values))
            self.modify(dn, deltas)


def judge_persistent(folder, told):
    """The entries, and the numbers of all connections."""
    entries, faults = {}, []
    for said in as_told(f"{folder}/persistent"):
        uuid = said["entry"]["entryuuid"][0]
        if said.get("type") == 2:
            entries.pop(uuid, None)
            continue
        if "previous" in said:
            old, new = key(said["previous"]), key(said["dn"])
            for other, (name, one) in entries.items():
                if name.endswith("," + old):
                    entries[other] = (name[:len(name) - len(old)] + new, one)
        entries[uuid] = (key(said["dn"]), said["entry"])
    # Of an entry that is gone its deletion alone may be told.
    gone = {}
    for one in told:
        if one["type"] == "delete":
            uuid = re.search(r"^entryUUID: (.*)$", one["lines"], re.M)
            if uuid:
                gone[uuid.group(1)] = one["number"]
    names = {}
    for one in told:
        names.setdefault(one["number"], []).append(one)
    heard, connections = [], 0
    for line in as_told(f"{folder}/persistent.numbers") + ["connect"]:
        if line != "connect":
            heard.append(line)
            continue
        connections += 1
        numbers = [number for number, _, _ in heard]
        if numbers != sorted(numbers):
            faults.append("a persistent search told changes out of order")
        if numbers:
            missing = set(range(numbers[0], numbers[-1])) - set(numbers)
            for number in sorted(missing):
                for one in names.get(number, []):
                    if key(one["dn"]).endswith(SUFFIX) and not is_gone_later(one, told):
                        faults.append(f"a persistent search did not tell change {number} of "
                                      f"{one['dn']}, between {numbers[0]} and {numbers[-1]}")
        heard = []
    return {name: {attribute: set(values) for attribute, values in one.items()}
            for name, one in entries.values()}, faults, connections


def is_gone_later(one, told):
    """Whether the entry of a change was deleted after it: it is followed through its names."""
    if not hasattr(is_gone_later, "index"):
        is_gone_later.index = fates(told)
    return is_gone_later.index.get((one["number"], one["part"]), False)


def fates(told):
    """Of each change, whether its entry is deleted in the end: back from the last one."""
    gone, fate = set(), {}
    for one in reversed(told):
        name = key(one["dn"])
        if one["type"] == "delete":
            gone.add(name)
            fate[one["number"], one["part"]] = False
        elif one["type"] == "modrdn":
            new = key(f"{one['rdn']},{one['superior'] or one['dn'].split(',', 1)[1]}")
            moved = {other for other in gone if other == new or other.endswith("," + new)}
            fate[one["number"], one["part"]] = new in gone
            gone = (gone - moved) | {other[:len(other) - len(new)] + name for other in moved}
        else:
            fate[one["number"], one["part"]] = name in gone
            if one["type"] == "add":
                gone.discard(name)
    return fate


def judge(url, dn, password, folder, *kinds):
    connection = SimpleLDAPObject(url)
    connection.simple_bind_s(dn, password)
    want = Tree(tree(connection)).entries
    found = connection.search_s(LOG, ldap.SCOPE_ONELEVEL, "(objectClass=*)", ["*", "+"])
    all_changes = [{"number": int(one["changeNumber"][0]), **change(one)} for _, one in found]
    first = as_told(f"{folder}/numbers")[0] if os.path.exists(f"{folder}/numbers") else None
    faults, sums = [], [f"{len(want)} entries, {len(all_changes)} changes"]

    def compare(kind, have):
        faults.extend(f"{kind}: {fault}" for fault in differences(want, have))

    def follows(kind, have, told):
        have, told = list(have), list(told)
        if have != told:
            at = next((at for at, pair in enumerate(zip(have, told)) if pair[0] != pair[1]),
                      min(len(have), len(told)))
            faults.append(f"{kind}: {len(have)} changes instead of {len(told)}; the {at + 1}. is "
                          f"{have[at:at + 3]} instead of {told[at:at + 3]}")

    for kind in kinds:
        if kind in ("numbers", "cookies"):
            began, *lines = as_told(f"{folder}/{kind}")
            since = [one for one in all_changes if one["number"] > began["begin"]]
            follows(kind, [(one["csn"], one["part"]) for one in lines],
                    [(one["csn"], one["part"]) for one in since])
            has = Tree(began["entries"])
            for one in lines:
                has.apply(one)
            compare(kind, has.entries)
            sums.append(f"{kind}: {len(lines)} changes")
        elif kind == "command":
            lines = [of_command(one) for one in as_told(f"{folder}/command")]
            since = [one for one in all_changes if one["number"] > first["begin"]]
            follows(kind, [(one["number"], one["type"], one["dn"]) for one in lines],
                    [(one["number"], one["type"], one["dn"]) for one in since])
            has = ByCommand(first["entries"])
            for one in lines:
                has.apply(one)
            compare(kind, has.entries)
            sums.append(f"command: {len(lines)} changes")
        elif kind == "persistent":
            has, wrong, connections = judge_persistent(folder, all_changes)
            faults.extend(wrong[:10])
            compare(kind, has)
            sums.append(f"persistent: {connections} connections")
        else:
            has, _ = synchronized(as_told(f"{folder}/sync"))
            compare(kind, Tree(has.values()).entries)
            sums.append(f"sync: {len(has)} entries")
    print("; ".join(sums))
    for fault in faults:
        print("WRONG " + fault)
    sys.exit(1 if faults else 0)


READERS = {"numbers": read_numbers, "cookies": read_cookies, "persistent": read_persistent,
           "sync": read_sync}

if __name__ == "__main__":
    if sys.argv[1] == "read":
        READERS[sys.argv[2]](*sys.argv[3:])
    else:
        judge(*sys.argv[2:])
