#!/usr/bin/python3
"""What comparing two large files costs: compare-directories.py ROSTER ENTRIES [FOLDER]

Writes two files of LDIF with so many people, one in order and one in no order, of which one in a thousand differs,
one in ten thousand is missing on each side and one unit has another name. Compares them with and without --by, and
prints time, memory and what was told. Needs about 2.5 KB of disk for each of the entries: 25 GB for 10,000,000, which
must not take more memory than 500,000 do.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time

SUFFIX = "dc=example,dc=com"
PEOPLE_OF_A_UNIT = 10_000
# No factor in common with any count of people that is a power of ten.
STEP = 7_919_999


def person(number, unit, title):
    return (
        f"dn: uid=user.{number},ou={unit},{SUFFIX}\nobjectClass: inetOrgPerson\nuid: user.{number}\n"
        f"cn: User {number}\nsn: Number {number}\nmail: user.{number}@example.com\ntitle: {title}\n"
        f"telephoneNumber: +1 555 {number:08}\nentryUUID: 00000000-0000-4000-8000-{number:012x}\n"
        f"description: {'x' * 300}\n\n"
    )


def write(path, count, numbers, is_second):
    units = -(-count // PEOPLE_OF_A_UNIT)
    with open(path, "w") as out:
        out.write(f"dn: {SUFFIX}\nobjectClass: domain\ndc: example\n\n")
        for unit in range(units):
            name = "moved" if is_second and unit == 0 else f"unit{unit}"
            out.write(
                f"dn: ou={name},{SUFFIX}\nobjectClass: organizationalUnit\n"
                f"entryUUID: 10000000-0000-4000-8000-{unit:012x}\n\n"
            )
        for number in numbers:
            if number % 10_000 == (3 if is_second else 7):
                continue
            unit = number // PEOPLE_OF_A_UNIT
            name = "moved" if is_second and unit == 0 else f"unit{unit}"
            title = "Pilot" if is_second and number % 1_000 == 11 else "Engineer"
            out.write(person(number, name, title))


def compare(roster, arguments):
    started = time.monotonic()
    run = subprocess.run([roster, "diff", *arguments], stderr=subprocess.PIPE, text=True, check=False)
    if run.returncode == 2:
        sys.exit(run.stderr)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    took = time.monotonic() - started
    print(f"{' '.join(arguments)}\n  {run.stderr.strip()}\n  {took:.1f} s, {peak / 1024:.0f} MiB of memory")


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    roster, count = os.path.abspath(sys.argv[1]), int(sys.argv[2])
    with tempfile.TemporaryDirectory(dir=sys.argv[3] if len(sys.argv) > 3 else None) as folder:
        os.environ["TMPDIR"] = folder
        first, second = os.path.join(folder, "a.ldif"), os.path.join(folder, "b.ldif")
        write(first, count, range(count), False)
        write(second, count, (number * STEP % count for number in range(count)), True)
        sizes = [os.path.getsize(path) / (1 << 20) for path in (first, second)]
        print(f"{count} people: {sizes[0]:.0f} MiB and {sizes[1]:.0f} MiB of LDIF")
        out = os.path.join(folder, "changes.ldif")
        compare(roster, ["--quiet", first, first])
        compare(roster, ["-o", out, first, second])
        compare(roster, ["-o", out, "--by", "entryUUID", first, second])


main()
