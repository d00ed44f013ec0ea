"""ldap3 against a served directory; it reads the schema and checks what it is given by it."""

import ssl

from checks import *
from ldap3 import (
    ALL,
    ALL_ATTRIBUTES,
    ALL_OPERATIONAL_ATTRIBUTES,
    ASYNC,
    BASE as SCOPE_BASE,
    LEVEL,
    MODIFY_ADD,
    MODIFY_DELETE,
    MODIFY_INCREMENT,
    MODIFY_REPLACE,
    SUBTREE,
    Connection,
    ObjectDef,
    Reader,
    Server,
    Tls,
    Writer,
)
from ldap3.core.exceptions import LDAPSocketOpenError, LDAPStartTLSError
from ldap3.utils.conv import escape_filter_chars
from ldap3.utils.dn import escape_rdn

TLS = Tls(ca_certs_file=CERTIFICATE, validate=ssl.CERT_REQUIRED)
SERVER = Server(HOST, port=PLAIN_PORT, tls=TLS, get_info=ALL)
POLICY = "1.3.6.1.4.1.42.2.27.8.5.1"


def connect(name=ADMIN, password=ADMIN_PASSWORD, **more):
    return Connection(SERVER, name, password, auto_bind=True, **more)


@section
def binds():
    right = Connection(SERVER, ANNA, ANNAS_PASSWORD)
    check("bind", right.bind(), True)
    check("who am I", right.extend.standard.who_am_i(), "dn:" + ANNA)
    wrong = Connection(SERVER, ANNA, "wrong")
    check("bind with a wrong password", wrong.bind(), False)
    check("its result code", wrong.result["result"], 49)
    # A connection may bind again, and is another one.
    check("rebind", right.rebind(ADMIN, ADMIN_PASSWORD), True)
    check("who am I afterwards", right.extend.standard.who_am_i(), "dn:" + ADMIN)
    right.unbind()
    nobody = Connection(SERVER, auto_bind=True)
    check("who am I of nobody", nobody.extend.standard.who_am_i() or "", "")


@section
def tls():
    upgraded = Connection(SERVER, ANNA, ANNAS_PASSWORD)
    check("StartTLS", upgraded.start_tls(), True)
    check("bind after StartTLS", upgraded.bind(), True)
    check("who am I after StartTLS", upgraded.extend.standard.who_am_i(), "dn:" + ANNA)
    upgraded.unbind()
    server = Server(HOST, port=SECURE_PORT, use_ssl=True, tls=TLS)
    secure = Connection(server, ANNA, ANNAS_PASSWORD, auto_bind=True)
    check("who am I over LDAPS", secure.extend.standard.who_am_i(), "dn:" + ANNA)
    secure.unbind()
    strict = Tls(validate=ssl.CERT_REQUIRED)
    try:
        Connection(Server(HOST, port=SECURE_PORT, use_ssl=True, tls=strict)).open()
        check("a certificate that nobody vouches for", "accepted", "refused")
    except LDAPSocketOpenError:
        check("a certificate that nobody vouches for", "refused", "refused")


@section
def root_dse_and_schema():
    connection = connect()
    info = SERVER.info
    check("naming contexts", info.naming_contexts, [BASE])
    check("versions", info.supported_ldap_versions, [3])
    controls = {control[0] for control in info.supported_controls}
    check("paged results is supported", "1.2.840.113556.1.4.319" in controls, True)
    extensions = {extension[0] for extension in info.supported_extensions}
    check("password modify is supported", "1.3.6.1.4.1.4203.1.11.1" in extensions, True)
    schema = SERVER.schema
    check("object class", schema.object_classes["inetOrgPerson"].superior, ["organizationalPerson"])
    check("attribute type", schema.attribute_types["uidNumber"].single_value, True)
    check("syntax", schema.attribute_types["cn"].oid, "2.5.4.3")
    check("rules", "caseIgnoreMatch" in schema.matching_rules, True)
    check("syntaxes", "1.3.6.1.4.1.1466.115.121.1.15" in schema.ldap_syntaxes, True)
    # The abstraction layer takes types of values and what is mandatory from the schema.
    people = Reader(connection, ObjectDef(["inetOrgPerson", "posixAccount"], connection), PEOPLE,
                    "uid: user.7")
    people.search()
    check("a typed value", people[0].uidNumber.value, 10007)
    writer = Writer.from_cursor(people)
    writer[0].title = "Reader"
    check("written by the abstraction layer", writer[0].entry_commit_changes(), True)
    check("and read again", writer[0].title.value, "Reader")


@section
def searches():
    connection = connect()

    def search(*arguments, **more):
        connection.search(*arguments, **more)
        return [entry for entry in connection.response if entry["type"] == "searchResEntry"]

    check("base", len(search(ANNA, "(objectClass=*)", SCOPE_BASE)), 1)
    check("one level", len(search(PEOPLE, "(uid=user.*)", LEVEL, attributes=["uid"])), 2500)
    check("its result", connection.result["description"], "success")
    found = search(BASE, "(&(objectClass=posixAccount)(|(uid=user.1)(uidNumber=10002))(!(sn=9)))",
                   attributes=["uid", "uidNumber"])
    check("subtree", sorted(entry["attributes"]["uidNumber"] for entry in found), [10001, 10002])
    check("attributes", sorted(found[0]["attributes"]), ["uid", "uidNumber"])
    found = search(ANNA, "(objectClass=*)", SCOPE_BASE,
                   attributes=[ALL_ATTRIBUTES, ALL_OPERATIONAL_ATTRIBUTES])
    check("operational attributes", len(found[0]["attributes"]["entryUUID"]), 36)
    check("a time", found[0]["attributes"]["createTimestamp"].tzinfo is not None, True)
    check("types only", search(ANNA, "(uid=anna)", types_only=True, attributes=["cn"])[0]
          ["attributes"]["cn"], [])
    search(PEOPLE, "(uid=*)", LEVEL, size_limit=3, attributes=["1.1"])
    check("size limit", connection.result["result"], 4)
    search("ou=nothing," + PEOPLE, "(uid=*)")
    check("no such entry", connection.result["result"], 32)
    check("the entry above", connection.result["dn"], PEOPLE)
    check("rule", len(search(BASE, "(ou:dn:=accounts)", attributes=["1.1"])), 5)
    check("bits", len(search(BASE, "(uidNumber:1.2.840.113556.1.4.803:=10007)")), 32)


@section
def controls():
    connection = connect()
    manage = ("2.16.840.1.113730.3.4.2", False, None)
    connection.search(BASE, "(ou=elsewhere)", attributes=["ref"])
    kinds = [entry["type"] for entry in connection.response]
    check("a continuation reference", kinds, ["searchResRef"])
    connection.search(BASE, "(ou=elsewhere)", attributes=["ref"], controls=[manage])
    kinds = [entry["type"] for entry in connection.response]
    check("a referral object", kinds, ["searchResEntry"])
    # SEQUENCE { SEQUENCE { "uidNumber", reverse order [1] TRUE } }
    order = bytes.fromhex("3010300e04097569644e756d6265728101ff")
    connection.search(PEOPLE, "(uid=user.1*)", attributes=["uidNumber"], size_limit=0,
                      controls=[("1.2.840.113556.1.4.473", True, order)])
    numbers = [entry["attributes"]["uidNumber"] for entry in connection.response]
    check("sorted", (len(numbers), numbers), (1111, sorted(numbers, reverse=True)))
    said = connection.result["controls"]["1.2.840.113556.1.4.474"]
    check("the sort result", said["value"], bytes.fromhex("30030a0100"))
    # Holds for the base: an equality match of uid and anna, or bert.
    for user, want in (("anna", 0), ("bert", 122)):
        assertion = b"\xa3\x0b\x04\x03uid\x04\x04" + user.encode()
        connection.search(ANNA, "(objectClass=*)", SCOPE_BASE,
                          controls=[("1.3.6.1.1.12", True, assertion)])
        check(f"asserted of {user}", connection.result["result"], want)
    connection.search(ANNA, "(objectClass=*)", SCOPE_BASE, controls=[("1.2.3.4.5", True, None)])
    check("an unknown critical control", connection.result["result"], 12)
    connection.search(ANNA, "(objectClass=*)", SCOPE_BASE, controls=[("1.2.3.4.5", False, None)])
    check("an unknown control", connection.result["result"], 0)


@section
def pages():
    connection = connect(ANNA, ANNAS_PASSWORD)
    cookie, sizes, names = None, [], set()
    while cookie != b"":
        connection.search(PEOPLE, "(objectClass=posixAccount)", attributes=["uid"], paged_size=500,
                          paged_cookie=cookie, paged_criticality=True)
        sizes.append(len(connection.response))
        names.update(entry["dn"] for entry in connection.response)
        cookie = connection.result["controls"]["1.2.840.113556.1.4.319"]["value"]["cookie"]
    check("pages", sizes, [500] * 5)
    check("names in pages", len(names), 2500)
    found = connection.extend.standard.paged_search(
        PEOPLE, "(uid=user.*)", attributes=["uid"], paged_size=999, generator=True)
    check("pages by the generator", len({entry["dn"] for entry in found}), 2500)


@section
def updates():
    connection = connect()
    cn = 'Zoë + "Søn", <Ltd>; #1\\ '
    rdn = "cn=" + escape_rdn(cn)
    name = f"{rdn},{ACCOUNTS}"
    attributes = {"sn": "Søn 日本", "cn": cn, "jpegPhoto": bytes(range(256)) * 64}
    check("add", connection.add(name, "inetOrgPerson", attributes), True)
    check("add again", connection.add(name, "inetOrgPerson", attributes), False)
    check("its result code", connection.result["result"], 68)
    connection.search(ACCOUNTS, f"(cn={escape_filter_chars(cn)})", attributes=ALL_ATTRIBUTES)
    found = connection.response[0]
    check("found by a value with escapes", found["attributes"]["cn"], [cn])
    check("unicode", found["attributes"]["sn"], ["Søn 日本"])
    check("octets", found["attributes"]["jpegPhoto"], [attributes["jpegPhoto"]])
    connection.search(found["dn"], "(objectClass=*)", SCOPE_BASE)
    check("found by the name that came", len(connection.response), 1)
    check("modify", connection.modify(name, {
        "description": [(MODIFY_ADD, ["one", "two"])],
        "title": [(MODIFY_REPLACE, ["Chief"])],
        "jpegPhoto": [(MODIFY_DELETE, [])],
    }), True)
    check("delete a value", connection.modify(name, {
        "description": [(MODIFY_DELETE, ["one"])], "sn": [(MODIFY_REPLACE, ["Sæn"])],
    }), True)
    connection.search(name, "(objectClass=*)", SCOPE_BASE,
                      attributes=["description", "title", "jpegPhoto", "sn"])
    got = connection.response[0]["raw_attributes"]
    want = {"description": [b"two"], "title": [b"Chief"], "sn": ["Sæn".encode()]}
    check("modified", {key: list(value) for key, value in got.items() if value}, want)
    check("delete what is not there",
          connection.modify(name, {"description": [(MODIFY_DELETE, ["one"])]}), False)
    check("its result code", connection.result["result"], 16)
    check("compare true", connection.compare(name, "sn", "SÆN"), True)
    check("compare false", connection.compare(name, "sn", "San"), False)
    check("its result code", connection.result["result"], 5)
    check("rename", connection.modify_dn(name, "cn=Zoë", delete_old_dn=True), True)
    check("move", connection.modify_dn("cn=Zoë," + ACCOUNTS, "cn=Zoë", new_superior=BASE), True)
    name = "cn=Zoë," + BASE
    connection.search(name, "(objectClass=*)", SCOPE_BASE, attributes=["cn"])
    check("moved", connection.response[0]["attributes"]["cn"], ["Zoë"])
    check("increment", connection.modify("uid=user.8," + PEOPLE,
                                         {"gidNumber": [(MODIFY_INCREMENT, ["5"])]}), True)
    check("incremented", connection.compare("uid=user.8," + PEOPLE, "gidNumber", "105"), True)
    check("delete", connection.delete(name), True)
    check("delete again", connection.delete(name), False)
    check("its result code", connection.result["result"], 32)


@section
def passwords():
    policy = [(POLICY, False, None)]

    def bind(user):
        connection = Connection(SERVER, f"uid={user},{ACCOUNTS}", f"{user} secret")
        connection.bind(controls=policy)
        return connection, connection.result.get("controls", {}).get(POLICY, {}).get("value")

    connection, said = bind("expiring")
    check("a warning", (connection.result["result"], said[:6].hex()), (0, "3008a0068004"))
    check("in seconds", 0 < int.from_bytes(said[6:], "big") < 2_000_000_000, True)
    connection, said = bind("locked")
    check("locked", (connection.result["result"], said), (49, b"\x30\x03\x81\x01\x01"))
    connection, said = bind("reset")
    check("to be changed", (connection.result["result"], said), (0, b"\x30\x03\x81\x01\x02"))
    connection.search(ANNA, "(uid=anna)")
    check("nothing else until then", connection.result["result"], 50)
    modify = connection.extend.standard.modify_password
    check("too short", modify(None, "reset secret", "short"), False)
    check("its result code", connection.result["result"], 19)
    check("password modify", modify(None, "reset secret", "another secret"), True)
    check("bind by it", connection.rebind(password="another secret"), True)
    admin = connect()
    made = admin.extend.standard.modify_password("uid=reset," + ACCOUNTS)
    check("a generated password", isinstance(made, str) and len(made) >= 8, True)
    check("bind by that", connection.rebind(password=made), True)


@section
def asynchronous():
    connection = connect(client_strategy=ASYNC)
    asked = [connection.search(PEOPLE, f"(uid=user.{number})", attributes=["sn"])
             for number in range(1, 101)]
    got = [connection.get_response(number)[0][0]["attributes"]["sn"] for number in asked]
    check("a hundred at once", got, [[str(number)] for number in range(1, 101)])
    running = connection.search(BASE, "(description=*nothing like it*)", attributes=["cn"])
    check("abandon", connection.abandon(running), True)
    last = connection.search(ANNA, "(uid=anna)", attributes=["uid"])
    check("it goes on", len(connection.get_response(last)[0]), 1)


run()
