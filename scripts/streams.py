#!/usr/bin/python3
"""What hearing of changes costs: streams.py ROSTER [SECONDS]

Serves 1,000 people on the loopback interface and prints the server's CPU for a modify, at full speed and at 500 a second, with no
reader, with 10 and with 1,000 that hear of all changes (persistent search, content synchronization) and with 10 that hear of none;
and how long after its answer a change is delivered. Readers take their octets and do not look at them. The archive's part is what
`ROSTER_ARCHIVE__KEEP_DAYS=0` takes away.
"""

import os
import selectors
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

SUFFIX = "dc=example,dc=com"
ADMIN, PASSWORD = "cn=Directory Manager", "of-this-run-alone"
PEOPLE = 1000
PSEARCH, SYNC = b"2.16.840.1.113730.3.4.3", b"1.3.6.1.4.1.4203.1.9.1.1"


def tlv(tag, *parts):
    content = b"".join(parts)
    size = len(content)
    length = bytes([size]) if size < 128 else b"\x82" + size.to_bytes(2, "big")
    return bytes([tag]) + length + content


def integer(value, tag=2):
    return tlv(tag, value.to_bytes(value.bit_length() // 8 + 1, "big"))


def message(number, operation, controls=b""):
    return tlv(0x30, integer(number), operation, tlv(0xA0, controls) if controls else b"")


def control(oid, value):
    return tlv(0x30, tlv(4, oid), b"\x01\x01\xff", tlv(4, value))


def bind():
    return message(1, tlv(0x60, integer(3), tlv(4, ADMIN.encode()), tlv(0x80, PASSWORD.encode())))


def search(filter_value, kind):
    wanted = tlv(0xA3, tlv(4, b"objectClass" if filter_value is None else b"uid"), tlv(4, filter_value or b"person"))
    operation = tlv(
        0x63, tlv(4, SUFFIX.encode()), tlv(10, b"\x02"), tlv(10, b"\x00"), integer(0), integer(0), b"\x01\x01\x00", wanted,
        tlv(0x30, tlv(4, b"title")),
    )  # fmt: skip
    if kind == PSEARCH:
        value = tlv(0x30, integer(15), b"\x01\x01\xff", b"\x01\x01\xff")
    else:
        value = tlv(0x30, tlv(10, b"\x03"))
    return message(2, operation, control(kind, value))


def modify(number, person, title):
    change = tlv(0x30, tlv(10, b"\x02"), tlv(0x30, tlv(4, b"title"), tlv(0x31, tlv(4, title))))
    name = f"uid=user.{person},ou=people,{SUFFIX}".encode()
    return message(number, tlv(0x66, tlv(4, name), tlv(0x30, change)))


class Server:
    def __init__(self, roster, folder, keep_days):
        ready, self.path = f"{folder}/ready", f"{folder}/ldapi"
        ports = [f for kind in ("ldap", "ldaps", "admin") for f in (f"--{kind}", "127.0.0.1:0")]
        self.process = subprocess.Popen(
            [roster, "serve", "--data", f"{folder}/data", *ports, "--ldapi", self.path, "--ready-file", ready],
            stdout=subprocess.DEVNULL,
            stderr=open(f"{folder}/log", "w"),
            env={**os.environ, "ROSTER_ARCHIVE__KEEP_DAYS": str(keep_days), "ROSTER_LIMITS__STREAMS_MAX": "10000"},
        )
        while not os.path.exists(ready):
            if self.process.poll() is not None:
                sys.exit(open(f"{folder}/log").read())
            time.sleep(0.05)

    def stop(self):
        self.process.terminate()
        self.process.wait()

    def cpu_us(self):
        fields = open(f"/proc/{self.process.pid}/stat").read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) * 1e6 / os.sysconf("SC_CLK_TCK")

    def connect(self):
        one = socket.socket(socket.AF_UNIX)
        one.connect(self.path)
        one.sendall(bind())
        answer = one.recv(1000)
        assert b"\x0a\x01\x00" in answer, answer
        return one


class Readers:
    """Connections that hear of changes and throw away what they get."""

    def __init__(self, server, count, filter_value, kind):
        self.octets, self.is_over, self.selector = 0, False, selectors.DefaultSelector()
        self.all = [server.connect() for _ in range(count)]
        for one in self.all:
            one.sendall(search(filter_value, kind))
            self.selector.register(one, selectors.EVENT_READ)
        self.thread = threading.Thread(target=self.read)
        self.thread.start()
        self.settle()

    def settle(self):
        """Waits until nothing comes any more."""
        before = -1
        while before != self.octets:
            before = self.octets
            time.sleep(0.5)

    def read(self):
        while not self.is_over:
            for key, _ in self.selector.select(0.2):
                self.octets += len(key.fileobj.recv(1 << 18))

    def close(self):
        self.is_over = True
        self.thread.join()
        for one in self.all:
            one.close()


def change(server, seconds, rate):
    """Modifies from 8 connections, one at a time of each; how many."""
    counts = [0] * 8
    end = time.time() + seconds

    def work(lane):
        one, number = server.connect(), 2
        while time.time() < end:
            person = (lane + 8 * number) % PEOPLE
            one.sendall(modify(number, person, b"Title %d" % number))
            one.recv(1000)
            counts[lane] += 1
            number += 1
            if rate:
                time.sleep(8 / rate)
        one.close()

    lanes = [threading.Thread(target=work, args=(lane,)) for lane in range(8)]
    for lane in lanes:
        lane.start()
    for lane in lanes:
        lane.join()
    return sum(counts)


def measured(server, what, seconds, count=0, filter_value=None, kind=PSEARCH, rate=0):
    readers = Readers(server, count, filter_value, kind)
    cpu, start, before = server.cpu_us(), time.time(), readers.octets
    changes = change(server, seconds, rate)
    readers.settle()
    cpu, passed = server.cpu_us() - cpu, time.time() - start
    told = (readers.octets - before) / changes
    readers.close()
    print(f"  {what:<58} {cpu / changes:7.1f} us CPU a change, {changes / passed:6.0f}/s, {told:8.0f} octets to readers")


def delays(server, kind, name):
    """How long after its answer a change is delivered."""
    reader, writer = server.connect(), server.connect()
    reader.sendall(search(None, kind))
    time.sleep(1)
    while kind == SYNC and reader.recv(1 << 20, socket.MSG_DONTWAIT | socket.MSG_PEEK):
        reader.recv(1 << 20)
        time.sleep(0.2)
        try:
            reader.recv(1, socket.MSG_DONTWAIT | socket.MSG_PEEK)
        except BlockingIOError:
            break
    all_ms = []
    for number in range(2, 1002):
        writer.sendall(modify(number, number % PEOPLE, b"delay %d" % number))
        writer.recv(1000)
        answered = time.perf_counter()
        heard = b""
        while b"delay %d" % number not in heard:
            heard += reader.recv(1 << 16)
        all_ms.append((time.perf_counter() - answered) * 1e3)
        time.sleep(0.002)
    all_ms.sort()
    print(f"  {name}: from answer to delivery p50 {all_ms[500]:.2f} ms, p99 {all_ms[990]:.2f} ms, most {all_ms[-1]:.2f} ms")
    reader.close()
    writer.close()


def main():
    roster, seconds = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 6
    for keep_days in (0, 7):
        folder = tempfile.mkdtemp(prefix="roster-streams-")
        try:
            open(f"{folder}/password", "w").write(PASSWORD)
            data = ["--data", f"{folder}/data"]
            subprocess.run(
                [roster, "init", *data, "--suffix", SUFFIX, "--admin-password-file", f"{folder}/password"], check=True,
                stdout=subprocess.DEVNULL,
            )  # fmt: skip
            with open(f"{folder}/people.ldif", "w") as out:
                out.write(f"dn: ou=people,{SUFFIX}\nobjectClass: organizationalUnit\nou: people\n\n")
                for n in range(PEOPLE):
                    out.write(f"dn: uid=user.{n},ou=people,{SUFFIX}\nobjectClass: inetOrgPerson\nuid: user.{n}\nsn: {n}\ncn: {n}\n\n")
            subprocess.run([roster, "import", *data, f"{folder}/people.ldif"], check=True, stdout=subprocess.DEVNULL)
            server = Server(roster, folder, keep_days)
            print("without an archive" if keep_days == 0 else "with an archive")
            measured(server, "no reader", seconds)
            if keep_days:
                measured(server, "10 persistent searches that hear of nothing", seconds, 10, b"nobody")
                measured(server, "10 persistent searches that hear of all", seconds, 10)
                measured(server, "10 consumers (RFC 4533) that hear of all", seconds, 10, kind=SYNC)
                measured(server, "500 a second, no reader", seconds, rate=500)
                measured(server, "500 a second, 10 persistent searches", seconds, 10, rate=500)
                measured(server, "500 a second, 1,000 persistent searches of nothing", seconds, 1000, b"nobody", rate=500)
                delays(server, PSEARCH, "persistent search")
                delays(server, SYNC, "content synchronization")
            measured(server, "no reader, once more", seconds)
            server.stop()
            archive = f"{folder}/data/archive"
            if keep_days:
                used = sum(os.path.getsize(f"{archive}/{name}") for name in os.listdir(archive))
                print(f"  the archive takes {used:,} octets")
        finally:
            shutil.rmtree(folder)


main()
