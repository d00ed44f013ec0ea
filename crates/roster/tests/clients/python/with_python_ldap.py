"""python-ldap against a served directory: TLS, policies, schema; `clients.py` has the rest."""

import ldap
import ldap.schema
from checks import *
from ldap.controls import RequestControl, SimplePagedResultsControl
from ldap.controls.deref import DereferenceControl
from ldap.controls.ppolicy import PasswordPolicyControl
from ldap.controls.sss import SSSRequestControl
from ldap.controls.simple import ManageDSAITControl
from ldap.dn import escape_dn_chars
from ldap.filter import escape_filter_chars

PLAIN = f"ldap://{HOST}:{PLAIN_PORT}"
SECURE = f"ldaps://{HOST}:{SECURE_PORT}"


def connect(name=ADMIN, password=ADMIN_PASSWORD, url=PLAIN, certificate=CERTIFICATE, start=False):
    connection = ldap.initialize(url, bytes_mode=False)
    connection.set_option(ldap.OPT_REFERRALS, 0)
    connection.set_option(ldap.OPT_X_TLS_REQUIRE_CERT, ldap.OPT_X_TLS_DEMAND)
    if certificate:
        connection.set_option(ldap.OPT_X_TLS_CACERTFILE, certificate)
    connection.set_option(ldap.OPT_X_TLS_NEWCTX, 0)
    if start:
        connection.start_tls_s()
    connection.simple_bind_s(name, password)
    return connection


def refused(what, error, call, *arguments, **more):
    try:
        got = call(*arguments, **more)
    except error:
        got = error
    check(what, got, error)


@section
def binds_and_tls():
    check("who am I", connect(ANNA, ANNAS_PASSWORD).whoami_s(), "dn:" + ANNA)
    refused("a wrong password", ldap.INVALID_CREDENTIALS, connect, ANNA, "wrong")
    for url, start in ((PLAIN, True), (SECURE, False)):
        connection = connect(ANNA, ANNAS_PASSWORD, url, start=start)
        check("cipher", bool(connection.get_option(ldap.OPT_X_TLS_CIPHER)), True)
        check(f"who am I over {url}", connection.whoami_s(), "dn:" + ANNA)
        refused("a certificate that nobody vouches for",
                (ldap.SERVER_DOWN, ldap.CONNECT_ERROR),
                connect, ANNA, ANNAS_PASSWORD, url, None, start)


@section
def root_dse_and_schema():
    connection = connect()
    root = connection.read_rootdse_s()
    check("naming contexts", root["namingContexts"], [BASE.encode()])
    check("contexts found by the library", connection.get_naming_contexts(), [BASE.encode()])
    name = connection.search_subschemasubentry_s(PEOPLE)
    schema = ldap.schema.SubSchema(connection.read_subschemasubentry_s(name))
    must, may = schema.attribute_types(["inetOrgPerson", "posixAccount"])
    names = {kind.names[0] for kind in must.values()}
    check("mandatory", names,
          {"objectClass", "cn", "sn", "uid", "uidNumber", "gidNumber", "homeDirectory"})
    check("optional", any("mail" in kind.names for kind in may.values()), True)
    count = len(schema.listall(ldap.schema.AttributeType))
    check("definitions are read", count > 300, True)
    rules = schema.listall(ldap.schema.MatchingRule)
    check("rules are read", "2.5.13.2" in rules, True)
    for kind in (ldap.schema.AttributeType, ldap.schema.ObjectClass):
        errors = [oid for oid in schema.listall(kind) if not schema.get_obj(kind, oid).oid]
        check("each has an OID", errors, [])


@section
def searches_with_controls():
    connection = connect()

    def search(base, scope, text, attributes, controls):
        asked = connection.search_ext(base, scope, text, attributes, serverctrls=controls)
        return connection.result3(asked)

    sort = SSSRequestControl(True, ["-uidNumber"])
    _, found, _, said = search(PEOPLE, ldap.SCOPE_ONELEVEL, "(uid=user.1*)", ["uidNumber"], [sort])
    numbers = [int(entry["uidNumber"][0]) for _, entry in found]
    check("sorted", (len(numbers), numbers), (1111, sorted(numbers, reverse=True)))
    check("the sort result", said[0].sortResult, 0)
    _, found, _, _ = search(BASE, ldap.SCOPE_ONELEVEL, "(ou=elsewhere)", ["ref"],
                            [ManageDSAITControl()])
    check("a referral object", [name for name, _ in found], ["ou=elsewhere," + BASE])
    unknown = RequestControl("1.2.3.4.5", True, None)
    refused("an unknown critical control", ldap.UNAVAILABLE_CRITICAL_EXTENSION,
            search, ANNA, ldap.SCOPE_BASE, "(uid=*)", None, [unknown])
    # SSSD asks for it where the root DSE offers it; uncritical elsewhere.
    deref = DereferenceControl(False, {"member": ["cn", "uid"]})
    _, found, _, _ = search(ANNA, ldap.SCOPE_BASE, "(uid=*)", ["uid"], [deref])
    check("uncritical dereference", found, [(ANNA, {"uid": [b"anna"]})])


@section
def sssd_enumerates():
    connection = connect(ANNA, ANNAS_PASSWORD)
    control = SimplePagedResultsControl(False, size=1000, cookie="")
    text = "(&(uid=*)(objectclass=posixAccount)(uid=*)(&(uidNumber=*)(!(uidNumber=0))))"
    wanted = ["objectClass", "uid", "userPassword", "uidNumber", "gidNumber", "gecos",
              "homeDirectory", "loginShell", "krbPrincipalName", "cn", "memberOf",
              "modifyTimestamp", "shadowLastChange", "nsUniqueId", "entryUSN", "mail"]
    sizes, names = [], set()
    while True:
        asked = connection.search_ext(BASE, ldap.SCOPE_SUBTREE, text, wanted,
                                      serverctrls=[control])
        _, found, _, controls = connection.result3(asked)
        found = [(name, entry) for name, entry in found if name]
        sizes.append(len(found))
        names.update(name for name, _ in found)
        check("secrets", [name for name, entry in found if "userPassword" in entry], [])
        control.cookie = controls[0].cookie
        if not control.cookie:
            break
    check("pages", sizes, [1000, 1000, 500])
    check("names in pages", len(names), 2500)


@section
def updates():
    connection = connect()
    cn = 'Zoë + "Søn", <Ltd>; #1\\ '
    name = f"cn={escape_dn_chars(cn)},{ACCOUNTS}"
    connection.add_s(name, [("objectClass", [b"inetOrgPerson"]), ("sn", ["Søn 日本".encode()])])
    refused("add again", ldap.ALREADY_EXISTS,
            connection.add_s, name, [("objectClass", [b"inetOrgPerson"]), ("sn", [b"x"])])
    found = connection.search_s(ACCOUNTS, ldap.SCOPE_ONELEVEL, f"(cn={escape_filter_chars(cn)})")
    check("found by a value with escapes", found[0][1]["cn"], [cn.encode()])
    check("parsed by the library", ldap.dn.str2dn(found[0][0])[0][0][:2], ("cn", cn))
    connection.modify_s(found[0][0], [
        (ldap.MOD_ADD, "description", [b"one", b"two"]),
        (ldap.MOD_REPLACE, "sn", ["Sæn".encode()]),
    ])
    connection.modify_s(name, [(ldap.MOD_DELETE, "description", [b"one"])])
    entry = connection.search_s(name, ldap.SCOPE_BASE, attrlist=["description", "sn"])[0][1]
    check("modified", entry, {"description": [b"two"], "sn": ["Sæn".encode()]})
    check("compare", connection.compare_s(name, "sn", "SÆN".encode()), True)
    check("compare false", connection.compare_s(name, "sn", b"San"), False)
    connection.rename_s(name, "cn=Zoë")
    refused("renamed", ldap.NO_SUCH_OBJECT, connection.delete_s, name)
    check("delete", connection.delete_s("cn=Zoë," + ACCOUNTS)[0], ldap.RES_DELETE)
    running = connection.search(BASE, ldap.SCOPE_SUBTREE, "(description=*nothing*)")
    connection.abandon(running)
    check("after abandon", connection.whoami_s(), "dn:" + ADMIN)
    # Canceled, answered already, or past that (RFC 3909 §2.1): as fast as either is.
    running = connection.search(BASE, ldap.SCOPE_SUBTREE, "(description=*nothing*)")
    try:
        connection.cancel_s(running)
        canceled = True
    except (ldap.NO_SUCH_OPERATION, ldap.TOO_LATE):
        canceled = True
    check("cancel", canceled, True)


@section
def passwords():
    def bind(user, password):
        connection = ldap.initialize(PLAIN)
        asked = connection.simple_bind(f"uid={user},{ACCOUNTS}", password,
                                       serverctrls=[PasswordPolicyControl()])
        try:
            said = connection.result3(asked)[3]
        except ldap.INVALID_CREDENTIALS as error:
            said = ldap.controls.DecodeControlTuples(error.args[0]["ctrls"])
        by_oid = {control.controlType: control for control in said}
        return connection, by_oid[PasswordPolicyControl.controlType]

    connection, said = bind("expiring", "expiring secret")
    check("a warning", 0 < said.timeBeforeExpiration < 2_000_000_000, True)
    connection, said = bind("locked", "locked secret")
    check("locked", said.error, 1)
    connection, said = bind("reset", "reset secret")
    check("to be changed", said.error, 2)
    user = "uid=reset," + ACCOUNTS
    refused("too short", ldap.CONSTRAINT_VIOLATION,
            connection.passwd_s, user, "reset secret", "short")
    connection.passwd_s(user, "reset secret", "another secret")
    check("nothing has to be changed", bind("reset", "another secret")[1].error, None)
    made = connect().passwd_s(user, None, None, extract_newpw=True)[1].genPasswd
    check("a generated password", len(made) >= 8, True)
    check("that has to be changed", bind("reset", made.decode())[1].error, 2)


run()
