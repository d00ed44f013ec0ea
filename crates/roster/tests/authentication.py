"""python-ldap signs in. Arguments: URL, URL of LDAPS. Marie's password is pencil."""

import sys

import ldap
import ldap.sasl

plain, secure = sys.argv[1:3]
want = "dn:uid=marie,ou=people,dc=example,dc=com"
ldap.set_option(ldap.OPT_X_TLS_REQUIRE_CERT, ldap.OPT_X_TLS_NEVER)


def check(what, got, want):
    if got != want:
        raise SystemExit(f"{what}: got {got!r}, want {want!r}")


def connect(url, start_tls):
    connection = ldap.initialize(url)
    connection.protocol_version = ldap.VERSION3
    # By default PLAIN is taken for too weak, even inside TLS.
    connection.set_option(ldap.OPT_X_SASL_SECPROPS, "none")
    if start_tls:
        connection.start_tls_s()
    return connection


def credentials(name, password):
    return {
        ldap.sasl.CB_AUTHNAME: name,
        ldap.sasl.CB_USER: "",
        ldap.sasl.CB_PASS: password,
    }


for url, start_tls in ((plain, False), (plain, True), (secure, False)):
    connection = connect(url, start_tls)
    connection.simple_bind_s("marie", "pencil")
    check("simple bind by name", connection.whoami_s(), want)
    for mechanism in ("SCRAM-SHA-256", "PLAIN"):
        connection = connect(url, start_tls)
        for name in ("marie", want):
            auth = ldap.sasl.sasl(credentials(name, "pencil"), mechanism)
            connection.sasl_interactive_bind_s("", auth)
            check(f"{mechanism} as {name}", connection.whoami_s(), want)
        for name, password in (("marie", "wrong"), ("nobody", "pencil")):
            try:
                auth = ldap.sasl.sasl(credentials(name, password), mechanism)
                connection.sasl_interactive_bind_s("", auth)
            except ldap.INVALID_CREDENTIALS:
                pass
            else:
                raise SystemExit(f"{mechanism} as {name} with {password} should have been refused")
        check("nobody", connection.whoami_s(), "")
    root = connection.search_s("", ldap.SCOPE_BASE, "(objectClass=*)", ["+"])[0][1]
    offered = root["supportedSASLMechanisms"]
    check("bound to the channel", b"SCRAM-SHA-256-PLUS" in offered, url == secure or start_tls)

print("all is well")
