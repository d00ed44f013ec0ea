"""Counts what holds and what does not, for the programs beside it; reads their arguments.

Arguments of each program: LDAP port, LDAPS port, certificate (PEM), administrator's DN, password.
"""

import sys
import traceback

PLAIN_PORT, SECURE_PORT = int(sys.argv[1]), int(sys.argv[2])
CERTIFICATE, ADMIN, ADMIN_PASSWORD = sys.argv[3:6]
HOST = "localhost"
BASE = "dc=example,dc=com"
PEOPLE = "ou=people," + BASE
ACCOUNTS = "ou=accounts," + BASE
ANNA = "uid=anna," + ACCOUNTS
ANNAS_PASSWORD = "anna's secret"

passed = 0
failed = 0
sections = []


def check(what, got, want):
    """One check: `got` is what should be `want`."""
    global passed, failed
    if got == want:
        passed += 1
        return
    failed += 1
    print(f"FAILED {what}: expected {want!r}, got {got!r}")


def section(function):
    """Marks a function that `run` calls."""
    sections.append(function)
    return function


def run():
    """Calls every section; an exception is a failure of its section alone."""
    global failed
    for function in sections:
        try:
            function()
        except Exception:
            failed += 1
            print(f"FAILED {function.__name__}: expected no exception, got {traceback.format_exc()}")
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed or not passed else 0)
