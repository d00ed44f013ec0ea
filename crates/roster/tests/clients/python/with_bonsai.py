"""bonsai against a served directory: OpenLDAP's library, asked with an interface of its own."""

import asyncio

from checks import *
import bonsai
from bonsai import LDAPClient, LDAPDN, LDAPEntry, LDAPModOp, LDAPSearchScope as Scope

PLAIN = f"ldap://{HOST}:{PLAIN_PORT}"
SECURE = f"ldaps://{HOST}:{SECURE_PORT}"


def client(name=ADMIN, password=ADMIN_PASSWORD, url=PLAIN, tls=False):
    made = LDAPClient(url, tls)
    made.set_credentials("SIMPLE", user=name, password=password)
    made.set_ca_cert(CERTIFICATE)
    made.set_cert_policy("demand")
    # Pages are asked for one by one here.
    made.set_auto_page_acquire(False)
    return made


def refused(what, error, call, *arguments, **more):
    try:
        got = call(*arguments, **more)
    except error:
        got = error
    check(what, got, error)


@section
def binds():
    with client(ANNA, ANNAS_PASSWORD).connect() as connection:
        check("who am I", connection.whoami(), "dn:" + ANNA)
    refused("a wrong password", bonsai.AuthenticationError, client(ANNA, "wrong").connect)


@section
def tls():
    for url, start in ((PLAIN, True), (SECURE, False)):
        with client(ANNA, ANNAS_PASSWORD, url, start).connect() as connection:
            check(f"who am I over {url}", connection.whoami(), "dn:" + ANNA)
        strict = LDAPClient(url, start)
        strict.set_cert_policy("demand")
        refused("a certificate that nobody vouches for", bonsai.ConnectionError, strict.connect)


@section
def root_dse_and_schema():
    root = client().get_rootDSE()
    check("naming contexts", root["namingContexts"], [BASE])
    check("paged results is supported", "1.2.840.113556.1.4.319" in root["supportedControl"], True)
    with client().connect() as connection:
        name = connection.search("", Scope.BASE, "(objectClass=*)", ["subschemaSubentry"])[0]
        schema = connection.search(name["subschemaSubentry"][0], Scope.BASE,
                                   "(objectClass=subschema)", ["attributeTypes"])[0]
        check("schema", any("'uidNumber'" in text for text in schema["attributeTypes"]), True)


@section
def searches():
    with client().connect() as connection:
        found = connection.search(ANNA, Scope.BASE, "(objectClass=*)", ["cn", "sn"])
        check("base", [(entry["cn"], entry["sn"]) for entry in found],
              [(["Anna Ångström"], ["Ångström"])])
        found = connection.search(PEOPLE, Scope.ONE, "(uid=user.1*)", ["uidNumber"],
                                  sort_order=["-uidNumber"])
        numbers = [entry["uidNumber"][0] for entry in found]
        check("sorted", (len(numbers), numbers), (1111, sorted(numbers, reverse=True)))
        found = connection.search(BASE, Scope.SUB, "(|(sn=7)(uid=user.8))", ["1.1"])
        check("subtree", len(found), 2)
        check("typed", found[0].dn.rdns[-1], (("dc", "com"),))
        refused("size limit", bonsai.SizeLimitError,
                connection.search, PEOPLE, Scope.ONE, "(uid=*)", sizelimit=3)
        # The library hides the result code of this.
        check("no such entry", connection.search("ou=nothing," + BASE, Scope.BASE), [])
        part, view = connection.virtual_list_search(
            PEOPLE, Scope.ONE, "(uid=user.*)", ["uidNumber"], sort_order=["uidNumber"],
            offset=100, before_count=1, after_count=2, est_list_count=2500)
        check("a part of a list", [entry["uidNumber"][0] for entry in part],
              [10099, 10100, 10101, 10102])
        check("its place", (view["target_position"], view["list_count"]), (100, 2500))
    manager = client()
    manager.set_managedsait(True)
    with manager.connect() as connection:
        found = connection.search(BASE, Scope.ONE, "(ou=elsewhere)", ["ref"])
        check("a referral object", len(found), 1)


@section
def pages():
    with client(ANNA, ANNAS_PASSWORD).connect() as connection:
        found = connection.paged_search(PEOPLE, Scope.ONE, "(objectClass=posixAccount)", ["uid"],
                                        page_size=500)
        sizes, names = [], set()
        while True:
            page = [entry.dn for entry in found]
            sizes.append(len(page))
            names.update(map(str, page))
            message = found.acquire_next_page()
            if message is None:
                break
            found = connection.get_result(message)
        check("pages", sizes, [500] * 5)
        check("names in pages", len(names), 2500)
    auto = client(ANNA, ANNAS_PASSWORD)
    auto.set_auto_page_acquire(True)
    with auto.connect() as connection:
        found = connection.paged_search(PEOPLE, Scope.ONE, "(uid=user.*)", ["1.1"], page_size=999)
        check("pages that come by themselves", sum(1 for _ in found), 2500)


@section
def updates():
    with client().connect() as connection:
        # Its parser of names takes fewer characters than RFC 4514 does.
        cn = "Zoë + Søn, Ltd; 1"
        entry = LDAPEntry(f"cn={bonsai.escape_attribute_value(cn)},{ACCOUNTS}")
        entry["objectClass"] = ["inetOrgPerson"]
        entry["cn"] = [cn]
        entry["sn"] = ["Søn 日本"]
        entry["jpegPhoto"] = [bytes(range(256)) * 64]
        check("add", connection.add(entry), True)
        refused("add again", bonsai.AlreadyExists, connection.add, entry)
        text = bonsai.escape_filter_exp(cn)
        found = connection.search(ACCOUNTS, Scope.ONE, f"(cn={text})")
        check("found by a value with escapes", [(entry["cn"], entry["sn"]) for entry in found],
              [([cn], ["Søn 日本"])])
        check("octets", found[0]["jpegPhoto"], entry["jpegPhoto"])
        change = found[0]
        change.change_attribute("description", LDAPModOp.ADD, "one", "two")
        change.change_attribute("sn", LDAPModOp.REPLACE, "Sæn")
        del change["jpegPhoto"]
        check("modify", change.modify(), True)
        change.change_attribute("description", LDAPModOp.DELETE, "one")
        check("delete a value", change.modify(), True)
        got = connection.search(change.dn, Scope.BASE)[0]
        check("modified", (got["description"], got["sn"], "jpegPhoto" in got),
              (["two"], ["Sæn"], False))
        change.change_attribute("description", LDAPModOp.DELETE, "one")
        refused("delete what is not there", bonsai.NoSuchAttribute, change.modify)
        got = connection.search(f"cn={bonsai.escape_attribute_value(cn)},{ACCOUNTS}", Scope.BASE)[0]
        check("rename", got.rename(LDAPDN("cn=Zoë," + ACCOUNTS)), True)
        check("renamed", connection.search("cn=Zoë," + ACCOUNTS, Scope.BASE)[0]["cn"], ["Zoë"])
        check("delete", connection.delete("cn=Zoë," + ACCOUNTS), True)
        refused("delete again", bonsai.NoSuchObjectError, connection.delete, "cn=Zoë," + ACCOUNTS)
        for name in ("ou=tree," + BASE, "ou=twig,ou=tree," + BASE):
            unit = LDAPEntry(name)
            unit["objectClass"] = ["organizationalUnit"]
            connection.add(unit)
        refused("delete a tree", bonsai.NotAllowedOnNonleaf, connection.delete, "ou=tree," + BASE)
        check("delete all of it", connection.delete("ou=tree," + BASE, recursive=True), True)


@section
def passwords():
    def asking(user, password):
        made = client(f"uid={user},{ACCOUNTS}", password)
        made.set_password_policy(True)
        return made

    connection, said = asking("expiring", "expiring secret").connect()
    check("a warning", (said["grace"], 0 < said["expire"] < 2_000_000_000), (-1, True))
    connection.close()
    refused("locked", bonsai.AccountLocked, asking("locked", "locked secret").connect)
    connection, said = asking("reset", "reset secret").connect()
    check("to be changed", said["oid"], "1.3.6.1.4.1.42.2.27.8.5.1")
    refused("nothing else until then", bonsai.LDAPError, connection.search, ANNA, Scope.BASE)
    refused("too short", bonsai.PasswordTooShort,
            connection.modify_password, None, "short", "reset secret")
    check("password modify",
          connection.modify_password(None, "another secret", "reset secret"), True)
    connection.close()
    asking("reset", "another secret").connect()[0].close()
    with client().connect() as connection:
        made = connection.modify_password("uid=reset," + ACCOUNTS)
        check("a generated password", isinstance(made, str) and len(made) >= 8, True)
    asking("reset", made).connect()[0].close()


@section
def asynchronous():
    async def ask():
        async with client(ANNA, ANNAS_PASSWORD).connect(is_async=True) as connection:
            found = await connection.search(PEOPLE, Scope.ONE, "(uid=user.7)", ["sn"])
            return await connection.whoami(), [entry["sn"] for entry in found]

    check("asyncio", asyncio.run(ask()), ("dn:" + ANNA, [[7]]))
    with client().connect() as connection:
        # An id that is not waited for.
        running = super(bonsai.ldapconnection.BaseLDAPConnection, connection).search(
            BASE, 2, "(description=*nothing*)", ["1.1"], 0.0, 0, False, [], 0, 0, 0, 0, 0, None)
        connection.abandon(running)
        check("after abandon", connection.whoami(), "dn:" + ADMIN)


run()
