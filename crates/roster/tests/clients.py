"""python-ldap against a running roster. Arguments: URL, administrator DN, password."""

import sys

import ldap
import ldap.modlist
from ldap.controls import SimplePagedResultsControl
from ldap.controls.libldap import AssertionControl, MatchedValuesControl
from ldap.controls.readentry import PostReadControl, PreReadControl
from ldap.controls.sss import SSSRequestControl
from ldap.controls.simple import ManageDSAITControl, RelaxRulesControl, ValueLessRequestControl
from ldap.controls.vlv import VLVRequestControl

url, admin, password = sys.argv[1:4]
base = "dc=example,dc=com"
people = "ou=people," + base


def check(what, got, want):
    if got != want:
        raise SystemExit(f"{what}: got {got!r}, want {want!r}")


def refused(what, error, call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except error:
        return
    raise SystemExit(f"{what}: should have been refused with {error.__name__}")


connection = ldap.initialize(url)
connection.protocol_version = ldap.VERSION3
refused("wrong password", ldap.INVALID_CREDENTIALS, connection.simple_bind_s, admin, "wrong")
refused("no password", ldap.UNWILLING_TO_PERFORM, connection.simple_bind_s, admin, "")
connection.simple_bind_s(admin, password)
check("whoami", connection.whoami_s(), "dn:" + admin)

# A search, and what the root DSE says about the server.
found = connection.search_s(people, ldap.SCOPE_ONELEVEL, "(uid=user.3)", ["uid", "objectClass"])
check("one person", len(found), 1)
check("its uid", found[0][1]["uid"], [b"user.3"])
root = connection.search_s("", ldap.SCOPE_BASE, "(objectClass=*)", ["*", "+"])[0][1]
check("naming context", root["namingContexts"], [base.encode()])
check("version", root["supportedLDAPVersion"], [b"3"])

# Paging brings every entry once.
control = SimplePagedResultsControl(True, size=7, cookie="")
seen = []
while True:
    ask = connection.search_ext(
        base, ldap.SCOPE_SUBTREE, "(objectClass=person)", ["1.1"], serverctrls=[control]
    )
    _, data, _, controls = connection.result3(ask)
    seen += [dn for dn, _ in data]
    control.cookie = controls[0].cookie
    if not control.cookie:
        break
check("paged", len(seen), 50)
check("paged once", len(set(seen)), 50)

# In an order, and a part of it.
def ordered(*more, keys=("-uid:2.5.13.3",)):
    sort = SSSRequestControl(True, ordering_rules=list(keys))
    ask = connection.search_ext(
        people, ldap.SCOPE_ONELEVEL, "(uid=user.*)", ["uid"], serverctrls=[sort, *more]
    )
    _, data, _, controls = connection.result3(ask)
    said = {control.controlType: control for control in controls}
    check("sorted", said["1.2.840.113556.1.4.474"].sortResult, 0)
    return [entry["uid"][0].decode() for _, entry in data], said.get("2.16.840.1.113730.3.4.10")


found = connection.search_s(people, ldap.SCOPE_ONELEVEL, "(uid=user.*)", ["uid"])
every = sorted((entry["uid"][0].decode() for _, entry in found), reverse=True)
check("everybody", len(every), 50)
check("in reverse", ordered()[0], every)
uids, view = ordered(VLVRequestControl(True, 2, 3, offset=25, content_count=50))
check("around the middle", uids, every[22:28])
check("place and length", (view.targetPosition, view.contentCount), (25, 50))
uids, view = ordered(VLVRequestControl(True, 0, 1, greater_than_or_equal="user.3"), keys=("uid",))
check("by a value", uids, ["user.3", "user.30"])
refused(
    "out of the list",
    ldap.VLV_ERROR,
    ordered,
    VLVRequestControl(True, 0, 1, offset=51, content_count=0),
)

# Of many values, only those asked for.
ask = connection.search_ext(
    people,
    ldap.SCOPE_ONELEVEL,
    "(uid=user.3)",
    ["uid", "objectClass"],
    serverctrls=[MatchedValuesControl(True, "((objectClass=person))")],
)
_, data, _, _ = connection.result3(ask)
check("matched values", [attributes for _, attributes in data], [{"objectClass": [b"person"]}])

# Add, compare, modify, rename, delete; values that need care.
name = "cn=Zoë \\+ Co\\, Ltd,ou=people," + base
entry = {
    "objectClass": [b"inetOrgPerson"],
    "sn": ["Zoë".encode()],
    "cn": ["Zoë + Co, Ltd".encode()],
    "jpegPhoto": [bytes(range(256)) * 300],
    "description": [b" leading space", b"trailing space "],
}
connection.add_s(name, ldap.modlist.addModlist(entry))
back = connection.search_s(name, ldap.SCOPE_BASE)[0][1]
check("photo", back["jpegPhoto"], entry["jpegPhoto"])
check("spaces", sorted(back["description"]), sorted(entry["description"]))
check("compare", connection.compare_s(name, "cn", "zoë  + co, ltd".encode()), True)
connection.modify_s(name, [(ldap.MOD_ADD, "title", [b"Boss"]), (ldap.MOD_DELETE, "jpegPhoto", None)])
back = connection.search_s(name, ldap.SCOPE_BASE, attrlist=["title", "jpegPhoto"])[0][1]
check("modified", back, {"title": [b"Boss"]})
connection.rename_s(name, "cn=Zoe", base, delold=1)
check("moved", connection.search_s("cn=Zoe," + base, ldap.SCOPE_BASE)[0][1]["cn"], [b"Zoe"])
refused("gone", ldap.NO_SUCH_OBJECT, connection.delete_s, name)
connection.delete_s("cn=Zoe," + base)

# A password of one's own, changed by oneself.
user = "uid=user.1," + people
connection.passwd_s(user, None, "first")
person = ldap.initialize(url)
person.simple_bind_s(user, "first")
person.passwd_s(user, "first", "the second one")
refused("old password", ldap.INVALID_CREDENTIALS, person.simple_bind_s, user, "first")
person.simple_bind_s(user, "the second one")
refused("no rights", ldap.INSUFFICIENT_ACCESS, person.delete_s, "uid=user.2," + people)
hidden = person.search_s(people, ldap.SCOPE_SUBTREE, "(userPassword=*)")
check("passwords are invisible", hidden, [])

# What a change found and what it left, in one step with the change.
modify = connection.modify_ext(
    user,
    [(ldap.MOD_REPLACE, "title", [b"Second"])],
    serverctrls=[PreReadControl(True, ["title"]), PostReadControl(True, ["title", "entryUUID"])],
)
_, _, _, controls = connection.result3(modify)
read = {type(control).__name__: control.entry for control in controls}
check("titles before", len(read["PreReadControl"].get("title", [])), 1)
check("title after", read["PostReadControl"]["title"], [b"Second"])
check("identity", len(read["PostReadControl"]["entryUUID"][0]), 36)

# An assertion that does not hold stops a change.
refused(
    "assertion",
    ldap.ASSERTION_FAILED,
    connection.modify_ext_s,
    user,
    [(ldap.MOD_REPLACE, "title", [b"Third"])],
    serverctrls=[AssertionControl(True, "(title=First)")],
)
connection.modify_ext_s(
    user,
    [(ldap.MOD_REPLACE, "title", [b"Third"])],
    serverctrls=[AssertionControl(True, "(title=Second)")],
)
check("asserted", connection.compare_s(user, "title", b"third"), True)

# Relaxed rules, and a whole tree that goes.
tree = "ou=tree," + base
connection.add_ext_s(
    tree,
    [("objectClass", [b"organizationalUnit"]), ("createTimestamp", [b"20010101000000Z"])],
    serverctrls=[RelaxRulesControl(True)],
)
made = connection.search_s(tree, ldap.SCOPE_BASE, attrlist=["createTimestamp"])[0][1]
check("created long ago", made, {"createTimestamp": [b"20010101000000Z"]})
connection.add_s("ou=twig," + tree, [("objectClass", [b"organizationalUnit"])])
refused("not a leaf", ldap.NOT_ALLOWED_ON_NONLEAF, connection.delete_s, tree)
connection.delete_ext_s(tree, serverctrls=[ValueLessRequestControl("1.2.840.113556.1.4.805", True)])
refused("the tree is gone", ldap.NO_SUCH_OBJECT, connection.search_s, tree, ldap.SCOPE_BASE)

# Referral objects, with and without ManageDsaIT.
elsewhere = "ou=elsewhere," + base
connection.add_ext_s(
    elsewhere,
    [
        ("objectClass", [b"referral", b"extensibleObject"]),
        ("ou", [b"elsewhere"]),
        ("ref", [b"ldap://other.example.com/ou=here,dc=example,dc=org"]),
    ],
    serverctrls=[ManageDSAITControl()],
)
connection.set_option(ldap.OPT_REFERRALS, 0)
answers = connection.search_s(base, ldap.SCOPE_ONELEVEL, "(ou=*)", ["ou"])
check("reference", [urls for dn, urls in answers if dn is None], [
    ["ldap://other.example.com/ou=here,dc=example,dc=org??base"]
])
connection.delete_ext_s(elsewhere, serverctrls=[ManageDSAITControl()])

# Schema, online.
definition = b"( 1.3.6.1.4.1.55555.1 NAME 'shoeSize' EQUALITY integerMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.27 SINGLE-VALUE X-ORIGIN 'test' )"
connection.modify_s("cn=schema", [(ldap.MOD_ADD, "attributeTypes", [definition])])
connection.modify_s(user, [
    (ldap.MOD_ADD, "objectClass", [b"extensibleObject"]),
    (ldap.MOD_ADD, "shoeSize", [b"43"]),
])
check("new attribute", len(connection.search_s(people, ldap.SCOPE_SUBTREE, "(shoeSize=043)")), 0)
check("new attribute", len(connection.search_s(people, ldap.SCOPE_SUBTREE, "(shoeSize=43)")), 1)

connection.unbind_s()
print("all checks passed")
