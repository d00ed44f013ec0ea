"""Content synchronisation by python-ldap. Arguments: URL, administrator's DN, password."""

import sys
import time

import ldap
from ldap.ldapobject import SimpleLDAPObject
from ldap.syncrepl import SyncreplConsumer

URL, ADMIN, PASSWORD = sys.argv[1:]
PEOPLE = "ou=people,dc=example,dc=com"


class Consumer(SimpleLDAPObject, SyncreplConsumer):
    def begin(self, mode, cookie=None, has=None):
        self.has, self.cookie, self.present = dict(has or {}), cookie, []
        self.heard, self.is_done = [], False
        self.simple_bind_s(ADMIN, PASSWORD)
        self.id = self.syncrepl_search(
            PEOPLE,
            ldap.SCOPE_SUBTREE,
            mode=mode,
            filterstr="(objectClass=inetOrgPerson)",
            attrlist=["cn"],
            cookie=cookie,
        )
        return self

    def syncrepl_get_cookie(self):
        return self.cookie

    def syncrepl_set_cookie(self, cookie):
        self.cookie = cookie

    def syncrepl_entry(self, dn, attributes, uuid):
        self.has[uuid] = dn
        self.present.append(uuid)
        self.heard.append(dn)

    def syncrepl_delete(self, uuids):
        for uuid in uuids:
            self.has.pop(uuid, None)

    def syncrepl_present(self, uuids, refreshDeletes=False):
        if uuids is None and not refreshDeletes:
            self.has = {uuid: dn for uuid, dn in self.has.items() if uuid in self.present}
        elif uuids is not None:
            self.present.extend(uuids)

    def syncrepl_refreshdone(self):
        self.is_done = True

    def to_the_end(self):
        while self.syncrepl_poll(all=1, msgid=self.id):
            pass
        return self

    def until(self, what):
        end = time.time() + 20
        while not what():
            assert time.time() < end, (self.heard, self.has)
            try:
                self.syncrepl_poll(msgid=self.id, timeout=0.2)
            except ldap.TIMEOUT:
                pass


def new():
    return Consumer(URL)


def names(consumer):
    return sorted(consumer.has.values())


writer = ldap.initialize(URL)
writer.simple_bind_s(ADMIN, PASSWORD)


def found():
    return sorted(dn for dn, _ in writer.search_s(
        PEOPLE, ldap.SCOPE_SUBTREE, "(objectClass=inetOrgPerson)", ["1.1"]))


first = new().begin("refreshOnly").to_the_end()
assert names(first) == found(), names(first)
staying = new().begin("refreshAndPersist")
staying.until(lambda: staying.is_done)
assert names(staying) == found()

person = [("objectClass", b"inetOrgPerson"), ("cn", b"x"), ("sn", b"x")]
writer.add_s(f"uid=new,{PEOPLE}", person)
writer.rename_s(f"uid=user.1,{PEOPLE}", "uid=renamed")
writer.delete_s(f"uid=user.2,{PEOPLE}")
staying.until(lambda: names(staying) == found())
assert sorted(staying.heard[-2:]) == [f"uid=new,{PEOPLE}", f"uid=renamed,{PEOPLE}"], staying.heard

back = new().begin("refreshOnly", first.cookie, first.has).to_the_end()
assert names(back) == found(), names(back)
assert len(back.heard) == 2, back.heard


def hears_nothing_more():
    """Goes on from where the one that stays is, by its own account: that comes after the entries."""
    again = new().begin("refreshOnly", staying.cookie, dict(staying.has)).to_the_end()
    return (names(again), again.heard) == (found(), [])


staying.until(hears_nothing_more)
print("all is in step")
