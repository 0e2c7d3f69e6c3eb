# SPDX-License-Identifier: Apache-2.0
"""Many users who mean to keep others from allotd, by all that it reads of them: forged ledgers,
locks of these by the thousand, processes with as many mappings as the kernel allows, long
environments, and requests. Meanwhile tenants of honest users begin, end and are seen.
ALLOT_CROWD_SECONDS=600 by hand: the same at full size, where the slowest requests are told, and
held to a second."""

import fcntl
import json
import os
import resource
import socket
import struct
import time

import cli_lib
import hostile
import users_lib
from hostile import words
from users_lib import MIB, user

SECONDS = int(os.environ.get("ALLOT_CROWD_SECONDS", "0"))
FORGERS, TENANTS, MAPPERS, PROCESSES, FLOODERS, HONEST = \
    (14, 4, 4, 10, 4, 40) if SECONDS else (4, 2, 2, 3, 2, 6)
LOCKERS, LOCKS = (4, 20000) if SECONDS else (1, 4000)
FIRST_HOSTILE, FIRST_HONEST = 20000, 30000
PAGE_MOST, MEMORY_MOST = 40 * MIB, 160  # of the latter MiB; the unit allows 256
PATIENCE_S = 60  # for a hang

# A process with a context and, as its argument says, mappings; one whose environment is long.
MAPPER = """
import ctypes, sys
libc, cu = ctypes.CDLL(None), ctypes.CDLL("libcuda.so.1")
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
number = int(sys.argv[1])
area = libc.mmap(None, 8192 * number, 0, 0x4022, -1, 0)
for i in range(number):
    libc.mprotect(area + 8192 * i, 4096, 1)
context = ctypes.c_void_p()
assert not cu.cuInit(0) and not cu.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
print("up", flush=True)
sys.stdin.read()
"""

# As many requests and pages at once as one user can ask for, again and again.
FLOOD = """
import socket, sys, urllib.request
path, request, page = sys.argv[1], bytes.fromhex(sys.argv[2]), sys.argv[3]
print("up", flush=True)
while True:
    held = []
    for _ in range(8):
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        held.append(s)
        try:
            s.connect(path)
            s.send(request)
        except OSError:
            pass
    for s in held:
        try:
            s.recv(65536)
        except OSError:
            pass
        s.close()
    try:
        urllib.request.urlopen(page, timeout=60).read()
    except OSError:
        pass
"""


class Crowd(users_lib.Case):
    def setUp(self):
        super().setUp()
        most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most[1], most[1]))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, most)
        self.find_request_bytes()
        self.ok("sim", "--dir", self.env["ALLOT_SIM_DIR"], "--memory", "4GiB", "--", cli_lib.ALLOT,
                "topo")
        os.chmod(self.env["ALLOT_SIM_DIR"], 0o777)
        os.chmod(os.path.join(self.env["ALLOT_SIM_DIR"], "region"), 0o666)

    def forge(self, name, uid, pids, devices):
        """All processes that a ledger can hold, which say to be these, and the largest figures."""
        self.user_ok(uid, "run", "--print-env", "--name", name)
        ledger = os.open(os.path.join(self.dir(name, uid), "ledger"), os.O_RDWR)
        self.addCleanup(os.close, ledger)
        fcntl.fcntl(ledger, hostile.F_OFD_SETLK,
                    struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, hostile.LOCK_SLOTS, hostile.NSLOTS, 0))
        pidns = os.stat("/proc/self/ns/pid").st_ino
        os.pwrite(ledger, b"".join(words(d + 1, d + 1, *[hostile.MOST] * 6) for d in range(devices)),
                  hostile.DEVICES[0])
        for i in range(hostile.NSLOTS):
            slot = struct.pack("<QIIQQ", hostile.LIVE | 1 << 8, pids[i % len(pids)], 0, pidns,
                               hostile.MOST)
            os.pwrite(ledger, slot + (hostile.ESCAPES * 9)[:160] + bytes(64),
                      hostile.SLOTS[0] + i * hostile.SLOTS[1])
        os.pwrite(ledger, b"\xff" * (hostile.INFO - hostile.ROWS), hostile.ROWS)
        os.pwrite(ledger, struct.pack("<II", hostile.NSLOTS, 0), hostile.SLOT_HIGH)

    def lock(self, name, uid):
        """So many bytes of the ledger, each by itself, that the kernel takes long to say who has a slot."""
        ledger = os.open(os.path.join(self.dir(name, uid), "ledger"), os.O_RDWR)
        self.addCleanup(os.close, ledger)
        for i in range(LOCKS, 0, -1):
            fcntl.fcntl(ledger, hostile.F_OFD_SETLK,
                        struct.pack("hhqqi4x", fcntl.F_RDLCK, 0, 2 * i, 1, 0))

    def begin_mappers(self):
        """Each user's last one is in a tenant that is not held by its lock, for all that is seen."""
        pids = []
        for i in range(MAPPERS * PROCESSES):
            uid = FIRST_HOSTILE + i % MAPPERS
            process = self.start(*user(uid), "env", "ALLOT_TENANT_DIR=/nowhere/" + str(i),
                                 *[f"X{k}=" + "x" * 100000 for k in range(15)], "python3", "-c",
                                 MAPPER, "30000")
            self.assertEqual(process.stdout.readline(), "up\n")
            pids.append(process.pid)
        return pids

    def begin_floods(self):
        for u in range(FLOODERS):
            uid = FIRST_HOSTILE + 1000 + u
            process = self.start(*user(uid), "python3", "-c", FLOOD, os.path.join(self.users, "control"),
                                 self.request(uid).hex(), f"http://127.0.0.1:{self.port}/v1/node")
            self.assertEqual(process.stdout.readline(), "up\n")

    def begin_honest(self):
        """Programs in tenants of ten users; the first of them uses a GPU."""
        fill = self.start(*user(FIRST_HONEST), cli_lib.ALLOT, "run", "--name", "h0", "--memory",
                          "64MiB", "--", os.environ["FILL"], "--json")
        self.assertTrue(fill.stdout.readline())
        self.user_ok(FIRST_HONEST, "run", "--print-env", "--name", "kept")
        return [fill] + [self.alive(FIRST_HONEST + i % 10, f"h{i}", "--memory", "64MiB")
                         for i in range(1, HONEST)]

    def request(self, uid):
        """What has little to be done for it: to end a tenant that is not there."""
        name = f"none@{uid}".encode()
        request = struct.pack("6I2Q64s", users_lib.MAGIC, users_lib.VERSION, 2, 0, 0, 0, 0, 0, name)
        return request.ljust(self.request_bytes, b"\0")

    def ask(self, uid):
        """Seconds that a request takes."""
        begin = time.monotonic()
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
            os.seteuid(uid)
            try:
                s.connect(os.path.join(self.users, "control"))
            finally:
                os.seteuid(0)
            s.settimeout(60)
            s.send(self.request(uid))
            self.assertTrue(s.recv(65536))
        return time.monotonic() - begin

    def test_crowd(self):
        daemon = self.daemon(options=("--outside", "report"))
        pids = self.begin_mappers()
        for u in range(FORGERS):
            for t in range(TENANTS):
                self.forge(f"f{t}", FIRST_HOSTILE + 1000 + u, pids, (8, 64)[(u + t) % 2])
        for u in range(LOCKERS):
            self.lock("f0", FIRST_HOSTILE + 1000 + u)
        honest = self.begin_honest()
        self.begin_floods()
        took, started, pages, until = [], [], [], time.monotonic() + max(SECONDS, 5)
        while time.monotonic() < until or len(took) < 20:
            took.append(self.ask(FIRST_HONEST + len(took) % 10))
            if len(took) % 5 == 0:
                begin = time.monotonic()
                self.user_ok(FIRST_HONEST, "run", "--memory", "64MiB", "--", "true")
                started.append(time.monotonic() - begin)
            if len(took) % 7 == 0:
                for page in ("/metrics", "/v1/node"):
                    begin = time.monotonic()
                    self.assertLess(len(self.get(page)[2]), PAGE_MOST)
                    pages.append(time.monotonic() - begin)
            time.sleep(0.02)
        self.tell(took, started, pages, daemon)
        self.check(daemon, honest, pids)

    def tell(self, took, started, pages, daemon):
        for what, list_ in (("requests", took), ("allot run", started), ("pages", pages)):
            list_.sort()
            p99 = list_[min(len(list_) - 1, len(list_) * 99 // 100)]
            print(f"{what}: {len(list_)}, median {list_[len(list_) // 2]:.3f} s, p99 {p99:.3f} s, "
                  f"most {list_[-1]:.3f} s; allotd had at most {self.peak(daemon)} MiB")
            self.assertLess(p99, 1 if SECONDS else PATIENCE_S)

    def check(self, daemon, honest, pids):
        """Honest tenants are seen and live; what is not read is said."""
        self.assertIsNone(daemon.poll(), self.log())
        self.assertLess(self.peak(daemon), MEMORY_MOST)
        for process in honest:
            self.assertIsNone(process.poll())
        node = json.loads(self.get("/v1/node")[2])
        tenants = {t["name"]: t for t in node["tenants"]}
        for i in range(HONEST):
            tenant = tenants[f"h{i}@{FIRST_HONEST + i % 10}"]
            self.assertIsNone(tenant["error"], tenant)
        self.assertTrue(any(t["error"] for t in node["tenants"]))
        self.assertLess(node["audit_age_ns"], 30 * 10 ** 9)
        self.assertTrue({o["pid"] for o in node["outside"]} <= {*pids}, node["outside"])
        self.assertRegex(self.log(), "not all read")


if __name__ == "__main__":
    cli_lib.main()
