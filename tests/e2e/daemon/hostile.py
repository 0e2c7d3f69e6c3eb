# SPDX-License-Identifier: Apache-2.0
"""A tenant that means to harm others: what it does to its own files, and who floods the daemon."""

import contextlib
import fcntl
import json
import os
import re
import resource
import signal
import socket
import struct
import time

import cli_lib
import daemon_lib
from cli_lib import GIB, MIB, UUID_A
from daemon_lib import key

# Of src/ledger/layout.h: where each table begins, and what an entry takes.
DEVICES, SLOTS, SHARED, TIME = (4096, 64), (8192, 256), (270336, 192), (466944, 1024)
ROWS, INFO, TIMELINE, SIZE = 532480, 4726784, 8921088, 13115392
LOCK_SLOTS, NSLOTS, LIVE = 1 << 41, 1024, 2
SLOT_HIGH, SHARED_HIGH = 64, 68
TURN_BEAT, CONTENDED = 128, 1  # in the policy
F_OFD_SETLK = 37
MOST = 2 ** 64 - 1
ESCAPES = b"\x1b]0;x\x07\x1b[2J\xc2\x9b31m\xff\"\\\n{}"
CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f]")
CONNECTIONS, OF_THE_DAEMON = 10000, 400
MEMORY_MOST = 256  # MiB, by allotd.service


def words(*values):
    return struct.pack(f"<{len(values)}Q", *values)


class Hostile(daemon_lib.Case):
    def setUp(self):
        super().setUp()
        self.keep("bad", "--memory", "1GiB", "--compute", "25")
        self.living("good", "--memory", "8GiB")
        self.hold("good", f"{UUID_A}:data:{GIB}")
        self.bad = os.path.join(self.runtime, "bad")

    def forge(self, at, data):
        with open(os.path.join(self.bad, "ledger"), "r+b") as ledger:
            ledger.seek(at)
            ledger.write(data)

    def lock(self, first, count):
        """Slots are alive whose locks somebody has."""
        ledger = os.open(os.path.join(self.bad, "ledger"), os.O_RDWR)
        self.addCleanup(os.close, ledger)
        fcntl.fcntl(ledger, F_OFD_SETLK,
                    struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, LOCK_SLOTS + first, count, 0))

    def open_to_all(self):
        """As a container has it, whose processes may write the ledger, and are nobody's here."""
        for name, mode in (("policy", 0o444), ("ledger", 0o666), ("", 0o1755)):
            os.chmod(os.path.join(self.bad, name), mode)

    def beat(self, tenant="bad"):
        """What the arbiter writes at each step about the tenant's turn."""
        with open(os.path.join(self.runtime, tenant, "policy"), "rb") as policy:
            policy.seek(TURN_BEAT)
            return policy.read(64)

    def turns(self, tenant):
        """Those that began."""
        return struct.unpack_from("<I", self.beat(tenant), 24)[0]

    def step(self, daemon, share):
        """Rings, and waits until whoever decides whose turn it is has looked."""
        before = self.beat()
        self.ok("set", "bad", "--compute", str(share))
        cli_lib.wait_for(lambda: daemon.poll() is not None or self.beat() != before)
        self.assertIsNone(daemon.poll(), self.log())

    def check(self, daemon, readable):
        """The others are seen as before, and what is said of it is harmless."""
        found = self.samples()
        self.assertEqual(found[key("allot_tenant_readable", tenant="bad")], readable)
        self.assertEqual(found[key("allot_tenant_readable", tenant="good")], 1)
        self.assertEqual(found[key("allot_memory_used_bytes", tenant="good", device=UUID_A,
                                   category="data")], GIB)
        node = self.get("/v1/node")[2]
        self.assertEqual({t["name"] for t in json.loads(node)["tenants"]}, {"bad", "good"})
        shown = self.allot("ps")
        self.assertEqual(shown.returncode, 0, shown.stderr)
        for text in (self.get("/metrics")[2], node, self.get("/v1/history")[2], shown.stdout,
                     shown.stderr, self.ok("ps", "--json"), self.log()):
            self.assertIsNone(CONTROL.search(text))
        self.assertIsNone(daemon.poll(), self.log())

    # --- Files ---------------------------------------------------------------------------------

    def test_other_files(self):
        """In place of each file, one that is none: a reader does not wait, follow, or take it all."""
        daemon = self.daemon()
        self.check(daemon, 1)
        good = os.path.join(self.runtime, "good")

        def sparse(path):
            with open(path, "wb") as file:
                file.truncate(1 << 40)
            os.chmod(path, 0o600)

        def listener(path):
            with socket.socket(socket.AF_UNIX) as s:
                s.bind(path)

        kinds = (os.mkfifo, os.mkdir, sparse, listener, lambda p: os.symlink("/dev/zero", p),
                 lambda p: os.symlink(p, p), lambda p: None, lambda p: open(p, "wb").close(),
                 lambda p: os.symlink(os.path.join(good, os.path.basename(p)), p))
        for name in ("ledger", "policy"):
            path = os.path.join(self.bad, name)
            os.rename(path, path + ".was")
            for make in kinds:
                make(path)
                self.check(daemon, 0)
                self.fails(125, "run", "--name", "bad", "--", "true", says=("bad",))
                if os.path.isdir(path) and not os.path.islink(path):
                    os.rmdir(path)
                elif os.path.lexists(path):
                    os.unlink(path)
            os.rename(path + ".was", path)
        self.check(daemon, 1)

    def test_other_notes(self):
        daemon = self.daemon()
        for name in ("owner", "library", "image"):
            path = os.path.join(self.bad, name)
            for make in (os.mkfifo, lambda p: os.symlink("x" * 4000, p), os.mkdir,
                         lambda p: os.symlink("9" * 300 + ":-1:7:x", p)):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)
                # It has no note of who began it, and so has to be used, or it is gone.
                self.hold_alive()
                make(path)
                self.check(daemon, 1)
                self.allot("run", "--name", "bad", "--", "true")
                if os.path.isdir(path):
                    os.rmdir(path)
        self.assertIsNone(daemon.poll())

    def hold_alive(self):
        if not hasattr(self, "alive"):
            self.alive = self.hold("bad", f"{UUID_A}:data:{MIB}")

    def test_cut_while_it_is_mapped(self):
        """A process that touches what is no more behind a mapping ends by SIGBUS."""
        self.open_to_all()
        daemon = self.daemon()
        self.step(daemon, 30)
        for size in (SLOTS[0], 0):
            os.truncate(os.path.join(self.bad, "ledger"), size)
            self.step(daemon, 31)
            self.step(daemon, 32)
            self.check(daemon, 0)

    def test_cut_without_a_daemon(self):
        """The same, where a process of another tenant decides whose turn it is."""
        self.env.update(ALLOT_SIM_DIR=self.path("sim"), LD_LIBRARY_PATH=os.environ["SIM_LIBRARIES"])
        self.ok("set", "bad", "--weight", "1")
        self.open_to_all()

        def begin(tenant):
            load = self.start(cli_lib.ALLOT, "run", "--name", tenant, *options, "--",
                              os.environ["ALLOT_LOAD"], "--loops-per-us", "1", "--seconds", "60")
            cli_lib.wait_for(lambda: os.path.lexists(os.path.join(self.runtime, tenant, "owner")))
            cli_lib.wait_for(lambda: any(self.beat(tenant)))
            return load

        options = ("--weight", "1")
        arbiter = begin("first")
        options = ()
        load = begin("bad")
        cli_lib.wait_for(lambda: self.turns("bad") > 5 and self.turns("first") > 5)
        load.send_signal(signal.SIGSTOP)
        for size in (SLOTS[0], 0):
            os.truncate(os.path.join(self.bad, "ledger"), size)
            for _ in range(5):
                before = self.beat("first")
                cli_lib.wait_for(lambda: arbiter.poll() is not None or self.beat("first") != before)
            self.assertIsNone(arbiter.poll())

    def forge_devices(self, n):
        self.forge(DEVICES[0], b"".join(words(i + 1, i + 1, *[MOST] * 6) for i in range(n)))

    def forge_all(self):
        """All processes that there can be, on as many devices as are read, and the largest of each."""
        self.hold_alive()
        self.lock(1, NSLOTS - 1)
        self.forge_devices(8)
        slot = words(LIVE | 1 << 8, MOST, MOST, MOST) + (ESCAPES * 9)[:160] + words(*[MOST] * 8)
        self.assertEqual(len(slot), SLOTS[1])
        self.forge(SLOTS[0], slot * NSLOTS)
        self.forge(SHARED[0], b"\xff" * (TIME[0] - SHARED[0]))
        self.forge(SLOT_HIGH, struct.pack("<II", 2 ** 32 - 1, 2 ** 32 - 1))
        self.forge(TIME[0], b"\xff" * (SIZE - TIME[0]))

    # --- Figures -------------------------------------------------------------------------------

    def test_figures(self):
        daemon = self.daemon()
        self.forge_all()
        self.check(daemon, 1)
        self.open_to_all()
        self.ok("set", "bad", "--compute", "30")
        self.check(daemon, 1)
        promised = {value for (name, _), value in self.samples().items()
                    if name == "allot_device_promised_bytes"}
        self.assertLessEqual(promised, {0, 8 * GIB})
        self.forge_devices(64)
        # A fast processor reads all of it in the time that one user has.
        readable = self.samples()[key("allot_tenant_readable", tenant="bad")]
        self.check(daemon, readable)
        if not readable:
            self.assertIn("not all read", self.log())
            self.assertGreater(self.samples()[key("allot_put_off_total", what="figures")], 0)

    def test_numbers_of_others(self):
        """It says that a program which is in no tenant is one of its own, or that of another one."""
        self.env.update(ALLOT_SIM_DIR=self.path("sim"), ALLOT_SIM_MEMORY="4GiB",
                        ALLOT_SIM_CONTEXT="16MiB", LD_LIBRARY_PATH=os.environ["SIM_LIBRARIES"])
        tenant = self.start(cli_lib.ALLOT, "run", "--name", "other", "--memory", "1GiB", "--",
                            os.environ["FILL"], "--json")
        self.assertTrue(tenant.stdout.readline())
        outsider = self.start(os.environ["FILL"], "--json")
        self.assertTrue(outsider.stdout.readline())
        self.hold_alive()
        self.lock(1, 2)
        pidns = os.stat("/proc/self/ns/pid").st_ino
        self.forge(SLOTS[0] + SLOTS[1], b"".join(
            struct.pack("<QIIQQ", LIVE | 1 << 8, pid, 0, pidns, 1) + bytes(224)
            for pid in (outsider.pid, tenant.pid)))
        self.forge(SLOT_HIGH, struct.pack("<I", 3))
        self.forge(ROWS + 64, words(0, 2 ** 40, *[0] * 6))
        daemon = self.daemon(options=("--outside", "kill"))
        self.assertEqual(outsider.wait(60), -signal.SIGKILL)
        self.assertIn(f"killed: pid {outsider.pid} (", self.log())
        cli_lib.wait_for(lambda: self.samples().get(key("allot_outside_processes")) == 0)
        self.assertNotIn(f"pid {tenant.pid} ", self.log())
        self.assertIsNone(tenant.poll())
        self.assertIsNone(daemon.poll())

    def test_devices_that_are_not_there(self):
        """As many as there can be: tenants on two that are there are not held for each other."""
        self.env.update(ALLOT_SIM_DIR=self.path("sim"), ALLOT_SIM_GPUS="2",
                        LD_LIBRARY_PATH=os.environ["SIM_LIBRARIES"])
        self.hold_alive()
        self.forge(DEVICES[0], b"".join(words(i + 1, i + 1, *[0] * 6) for i in range(64)))
        daemon = self.daemon()
        self.step(daemon, 30)
        for gpu in ("0", "1"):
            self.start(cli_lib.ALLOT, "run", "--name", f"on{gpu}", "--gpu", gpu, "--weight", "1",
                       "--", os.environ["ALLOT_LOAD"], "--loops-per-us", "1", "--seconds", "60")
        tenants = ("on0", "on1")
        cli_lib.wait_for(lambda: {dict(labels)["tenant"] for (name, labels), value in
                                  self.samples().items()
                                  if name == "allot_compute_busy_seconds_total" and value}
                         >= set(tenants))
        for _ in range(20):
            before = [self.beat(t)[:8] for t in tenants]
            cli_lib.wait_for(lambda: all(self.beat(t)[:8] != b for t, b in zip(tenants, before)))
            self.assertEqual([self.beat(t)[16] & CONTENDED for t in tenants], [0, 0])

    # --- Connections ---------------------------------------------------------------------------

    def descriptors(self, daemon):
        return len(os.listdir(f"/proc/{daemon.pid}/fd"))

    def test_connections(self):
        """As many as this process may have, which all say nothing: turns go on, and when they have gone
        others are served."""
        most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most[1], most[1]))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, most)
        self.open_to_all()
        daemon = self.daemon()
        with contextlib.ExitStack() as open_ones:
            for _ in range(min(CONNECTIONS, most[1] - 100)):
                s = open_ones.enter_context(socket.socket())
                s.setblocking(False)
                s.connect_ex(("127.0.0.1", self.port))
            self.assertLess(self.descriptors(daemon), OF_THE_DAEMON)
            self.step(daemon, 30)
        self.check(daemon, 1)
        self.assertLess(self.descriptors(daemon), OF_THE_DAEMON)

    def test_answers_not_taken(self):
        """They are long, and many, and nobody takes them: others are answered, and memory has a bound."""
        daemon = self.daemon()
        self.forge_all()
        with contextlib.ExitStack() as open_ones:
            for i in range(40):
                s = open_ones.enter_context(socket.create_connection(("127.0.0.1", self.port)))
                page = ("/v1/node", "/metrics")[i % 2]
                s.sendall(f"GET {page} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
                self.assertTrue(s.recv(1))
            for page in ("/metrics", "/v1/node", "/v1/history", "/"):
                self.assertEqual(self.get(page)[0], 200)
        self.check(daemon, 1)
        self.assertLess(self.peak(daemon), MEMORY_MOST)

    def test_slow_answer_is_whole(self):
        """Who takes a long answer slowly, and pauses, has all of it, as long as it goes on."""
        self.daemon()
        self.forge_all()
        s = socket.socket()
        self.addCleanup(s.close)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        s.connect(("127.0.0.1", self.port))
        s.sendall(b"GET /v1/node HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += s.recv(4096)
        head, _, body = answer.partition(b"\r\n\r\n")
        length = int(re.search(rb"Content-Length: (\d+)", head)[1])
        self.assertGreater(length, 2 * MIB)
        time.sleep(7)
        until = time.monotonic() + 9
        while len(body) < length:
            if time.monotonic() < until:
                time.sleep(0.2)
            more = s.recv(65536)
            self.assertTrue(more, f"{len(body)} of {length} bytes came")
            body += more
        self.assertEqual({t["name"] for t in json.loads(body)["tenants"]}, {"bad", "good"})

    def test_slow_clients(self):
        """They go on for ever, a byte at a time; who takes all places does not keep them."""
        daemon = self.daemon()
        slow = []
        for _ in range(300):
            s = socket.create_connection(("127.0.0.1", self.port))
            self.addCleanup(s.close)
            s.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: ")
            slow.append(s)
        end = time.monotonic() + 60
        while slow and time.monotonic() < end:
            time.sleep(0.5)
            for s in slow[:]:
                try:
                    s.sendall(b"x")
                except OSError:
                    slow.remove(s)
            if len(slow) <= 300 - 256:
                break
        self.assertLessEqual(len(slow), 300 - 256)
        self.check(daemon, 1)


if __name__ == "__main__":
    cli_lib.main()
