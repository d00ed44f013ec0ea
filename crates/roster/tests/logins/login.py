"""Logs in through TLS as programs with python-ldap do: find the user's entry, then bind as it.
Arguments: LDAP port, LDAPS port, certificate (PEM), base, user name, password."""

import sys

import ldap
import ldap.filter

plain, secure, certificate, base, user, password = sys.argv[1:7]


def connect(url):
    connection = ldap.initialize(url)
    connection.protocol_version = ldap.VERSION3
    connection.set_option(ldap.OPT_X_TLS_CACERTFILE, certificate)
    connection.set_option(ldap.OPT_X_TLS_REQUIRE_CERT, ldap.OPT_X_TLS_DEMAND)
    connection.set_option(ldap.OPT_X_TLS_NEWCTX, 0)
    return connection


def log_in(connection):
    wanted = ldap.filter.filter_format("(uid=%s)", [user])
    [(name, _)] = connection.search_s(base, ldap.SCOPE_SUBTREE, wanted, ["1.1"])
    try:
        connection.simple_bind_s(name, password + "!")
        raise SystemExit("a wrong password is accepted")
    except ldap.INVALID_CREDENTIALS:
        pass
    connection.simple_bind_s(name, password)
    if connection.whoami_s() != "dn:" + name:
        raise SystemExit("who am I: " + connection.whoami_s())
    connection.unbind_s()


log_in(connect(f"ldaps://localhost:{secure}"))
upgraded = connect(f"ldap://localhost:{plain}")
upgraded.start_tls_s()
log_in(upgraded)
print("all checks passed")
