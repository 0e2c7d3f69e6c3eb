# SPDX-License-Identifier: Apache-2.0
"""A user who wants more than the site gives, or keeps others from allotd: by way of what is that
user's own, like processes and the ledgers of tenants."""

import contextlib
import ctypes
import fcntl
import os
import re
import shutil
import struct
import subprocess
import tempfile

import cli_lib
import daemon_lib
import hostile
import users_lib
from users_lib import ALICE, BOB, MIB, user

# In a tenant, which nothing but its slot tells: neither environment nor descriptors.
HIDDEN = """
import ctypes, os, sys
cu = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
assert not cu.cuInit(0) and not cu.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
begin, end = open("/proc/self/stat").read().rsplit(")", 1)[1].split()[47:49]
ctypes.memset(int(begin), 0, int(end) - int(begin))
os.closerange(3, 1024)
print("up", flush=True)
sys.stdin.read()
"""

# Whose environment is 64 MiB of memory, for all that /proc tells.
LONG = """
import ctypes, mmap, struct, sys
libc = ctypes.CDLL(None)
libc.sbrk.restype = ctypes.c_void_p
area = mmap.mmap(-1, 64 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
area.write(b"x" * len(area))
at = ctypes.addressof(ctypes.c_char.from_buffer(area))
words = [int(word) for word in open("/proc/self/stat").read().rsplit(")", 1)[1].split()[1:]]
layout = struct.pack("12Q2i", *words[22:24], *words[41:44], libc.sbrk(0), words[24], *words[44:46],
                     at, at + len(area), 0, 0, -1)
PR_SET_MM, PR_SET_MM_MAP = 35, 14
print("no" if libc.prctl(PR_SET_MM, PR_SET_MM_MAP, layout, len(layout), 0) else "up", flush=True)
sys.stdin.read()
"""


class Abuse(users_lib.Case):
    def test_removed_while_it_lives(self):
        """A tenant whose ledger its user made unreadable counts as long as a process is in it."""
        conf = self.path("allotd.conf", "[default]\nmemory-max = 1GiB\n", 0o644)
        self.program("python3", "-c", HIDDEN, daemon=("--config", conf))
        ledger = os.path.join(self.dir("f", ALICE), "ledger")
        size = os.path.getsize(ledger)
        self.user_fails(ALICE, "rm", "f", says=["lives"])
        for spoil, repair in ((lambda: os.chmod(ledger, 0o640), lambda: os.chmod(ledger, 0o600)),
                              (lambda: os.truncate(ledger, size + 1),
                               lambda: os.truncate(ledger, size))):
            spoil()
            self.user_fails(ALICE, "rm", "f", says=["lives"])
            self.user_fails(ALICE, "run", "--name", "g", "--memory", "1GiB", "--", "true",
                            says=["the site gives 1 GiB"])
            repair()
        self.assertEqual(self.quota(f"f@{ALICE}"), 512 * MIB)

    def test_quota_below_what_is_held(self):
        """A quota that is made smaller than what its tenant has gives no room to others."""
        self.hold_more_than_quota()

    def test_quota_below_what_the_driver_has(self):
        self.hold_more_than_quota("--accounting", "driver")

    def hold_more_than_quota(self, *options):
        conf = self.path("allotd.conf", "[default]\nmemory-max = 1GiB\n", 0o644)
        self.program(os.environ["FILL"], "--json", options=options, daemon=("--config", conf))
        self.user_ok(ALICE, "set", "f", "--memory", "64MiB")
        more = ("run", "--name", "g", "--memory", "960MiB", "--", "true")
        self.user_fails(ALICE, *more, says=["the site gives 1 GiB"])
        # Nor where nobody can tell what it has.
        os.chmod(os.path.join(self.dir("f", ALICE), "ledger"), 0o640)
        self.user_fails(ALICE, *more, says=["the site gives 1 GiB"])
        os.chmod(os.path.join(self.dir("f", ALICE), "ledger"), 0o600)
        self.user_ok(ALICE, "run", "--name", "g", "--memory", "512MiB", "--", "true")
        self.user_ok(BOB, *more)

    def installation(self):
        """A function that installs a version, and the prefix."""
        home = self.path("usr")
        for name in ("bin", "sbin", "lib/allot"):
            os.makedirs(os.path.join(home, name))
        keep = shutil.copy(os.path.join(os.environ["ALLOT_SOURCE"], "deploy/keep-library"),
                           os.path.join(home, "lib/allot"))
        shutil.copy(cli_lib.ALLOT, os.path.join(home, "bin"))
        shutil.copy(daemon_lib.ALLOTD, os.path.join(home, "sbin"))
        library = os.path.join(home, "lib/liballot.so")

        def install(version):
            shutil.copy(os.path.join(os.environ["ALLOT_BUILD"], "src/guest/liballot.so"),
                        library + ".new")
            with open(library + ".new", "ab") as file:
                file.write(version)
            os.replace(library + ".new", library)
            subprocess.run([keep], env=self.env, check=True)
            return {*os.listdir(os.path.join(home, "lib/allot/kept"))}

        for place, name, file in ((cli_lib, "ALLOT", "bin/allot"),
                                  (daemon_lib, "ALLOTD", "sbin/allotd")):
            self.addCleanup(setattr, place, name, getattr(place, name))
            setattr(place, name, os.path.join(home, file))
        return install

    def libraries(self, done):
        return {*re.findall(r"liballot[-.][^ /]*so", done)}

    def test_library_of_a_later_process(self):
        """The environment that a user's tenant is kept for names a file that stays: a program that
        finds no library has no limit."""
        install = self.installation()
        first, = install(b"1")
        self.daemon()
        done = self.user_ok(ALICE, "run", "--print-env", "--name", "a")
        preload = re.search("^LD_PRELOAD=(.*)$", done, re.M)[1]
        self.assertTrue(os.path.exists(preload))
        self.assertEqual(os.path.basename(preload), first)
        install(b"2")
        self.assertTrue(os.path.exists(preload))
        self.user_ok(ALICE, "rm", "a")
        self.assertNotIn(first, install(b"2"))

    def test_library_of_who_joins(self):
        """It is that of the first, as long as the tenant is there."""
        install = self.installation()
        first, = install(b"1")
        self.daemon()
        process = self.alive(ALICE, "a")
        second, = install(b"2") - {first}
        join = ("run", "--name", "a", "--", "cat", "/proc/self/maps")
        self.assertEqual(self.libraries(self.user_ok(ALICE, *join)), {first})
        self.assertEqual(self.libraries(self.user_ok(BOB, *join)), {second})
        note = os.path.join(self.dir("a", ALICE), "library")
        self.assertFalse(self.can(ALICE, "rm", note) or self.can(ALICE, "ln", "-s", "x", note + "2"))
        process.communicate("\n")
        self.assertEqual(self.libraries(self.user_ok(ALICE, *join)), {second})

    def test_many_forged(self):
        """A user's tenants that all have as much as there can be are not all read."""
        daemon = self.daemon()
        for i in range(8):
            self.user_ok(ALICE, "run", "--print-env", "--name", f"t{i}")
            ledger = os.open(os.path.join(self.dir(f"t{i}", ALICE), "ledger"), os.O_RDWR)
            self.addCleanup(os.close, ledger)
            fcntl.fcntl(ledger, hostile.F_OFD_SETLK,
                        struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, hostile.LOCK_SLOTS, 1, 0))
            os.pwrite(ledger, b"".join(hostile.words(d + 1, d + 1, *[0] * 6) for d in range(8)),
                      hostile.DEVICES[0])
            slot = hostile.words(hostile.LIVE | 1 << 8).ljust(hostile.SLOTS[1], b"\0")
            os.pwrite(ledger, slot * hostile.NSLOTS, hostile.SLOTS[0])
            os.pwrite(ledger, struct.pack("<I", hostile.NSLOTS), hostile.SLOT_HIGH)
        self.alive(BOB, "u", "--memory", "1GiB")
        page = self.get("/metrics")[2]
        for name, readable in ((f"t0@{ALICE}", 1), (f"t7@{ALICE}", 0), (f"u@{BOB}", 1)):
            self.assertIn(f'allot_tenant_readable{{tenant="{name}"}} {readable}\n', page)
        self.assertIn("more processes on more devices", self.allot("ps").stderr)
        self.assertLess(self.peak(daemon), 32)

    def begin_in(self, path, uid, *command):
        """A program that says to have been started in that tenant."""
        return self.start(*user(uid), "env", f"ALLOT_TENANT_DIR={path}", *command)

    def others(self):
        """Tenants that are not ALICE's: each one's directory, and how its owner runs allot."""
        yield self.dir("t", BOB), lambda *words: self.as_user(BOB, *words)
        yield os.path.join(self.runtime, "t"), self.allot

    def check_ends(self, run):
        """The tenant "t" ends with its program, and another one can be made."""
        for quota in ("1GiB", "512MiB"):
            done = run("run", "--name", "t", "--memory", quota, "--", "true")
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_environment_of_another(self):
        """Who says to have been started in another's tenant, or in root's, does not keep it there."""
        self.daemon()
        for path, run in self.others():
            process = self.begin_in(path, ALICE, "sh", "-c", "echo up; read x")
            self.assertEqual(process.stdout.readline(), "up\n")
            self.check_ends(run)

    def test_environment_of_a_container(self):
        """Nor a container's, whose ledger all may write who reach it."""
        self.daemon()
        self.keep("t")
        path = os.path.join(self.runtime, "t")
        for name, mode in (("policy", 0o444), ("ledger", 0o666), ("", 0o1755)):
            os.chmod(os.path.join(path, name), mode)
        os.unlink(os.path.join(path, "owner"))
        os.symlink(f"{os.stat('/proc/self/ns/pid').st_ino}:1:0:0", os.path.join(path, "owner"))
        process = self.begin_in(path, ALICE, "sh", "-c", "echo up; read x")
        self.assertEqual(process.stdout.readline(), "up\n")
        self.ok("rm", "t")

    def test_environment_of_a_setuid_program(self):
        """Nor by a program that has the owner's rights, as su waits for a password."""
        place = tempfile.mkdtemp(prefix="allot-test-", dir=os.environ["ALLOT_BUILD"])
        self.addCleanup(shutil.rmtree, place)
        os.chmod(place, 0o755)
        if os.statvfs(place).f_flag & os.ST_NOSUID or not self.can(ALICE, "ls", place):
            self.skipTest("no setuid program can be put there")
        self.daemon()
        for owner in (0, BOB):
            program = shutil.copy(shutil.which("sleep"), os.path.join(place, f"wait{owner}"))
            os.chown(program, owner, -1)
            os.chmod(program, 0o4755)
            for path, run in self.others():
                self.begin_in(path, ALICE, program, "60")
                cli_lib.wait_for(lambda: self.effective_user_of(program) == owner)
                self.check_ends(run)

    @staticmethod
    def effective_user_of(program):
        """Of whoever runs it; None: nobody does yet."""
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{pid}/exe") == program:
                    with open(f"/proc/{pid}/status", encoding="utf-8") as status:
                        return int(re.search(r"^Uid:\t\d+\t(\d+)", status.read(), re.M)[1])
        return None

    def test_long_environment(self):
        """What a process says that it was started with is read by nobody as a whole."""
        daemon = self.daemon()
        process = self.start(*user(ALICE), "python3", "-c", LONG)
        if process.stdout.readline() != "up\n":
            self.skipTest("this kernel leaves processes where they are")
        self.user_ok(ALICE, "run", "--print-env", "--name", "a")
        self.user_ok(ALICE, "run", "--print-env", "--name", "b")
        self.assertIn(f"a@{ALICE}", self.get("/metrics")[2])
        self.assertLess(self.peak(daemon), 32)

    def test_environment_elsewhere(self):
        """It leads to files of one who does not answer, as who serves a FUSE file system can."""
        hole = self.path("hole")
        os.mkdir(hole, 0o755)
        silent = os.open("/dev/fuse", os.O_RDWR) if os.path.exists("/dev/fuse") else -1
        mount = ctypes.CDLL(None).mount
        options = f"fd={silent},rootmode=40000,user_id={ALICE},group_id={ALICE},allow_other"
        if silent < 0 or mount(b"hole", hole.encode(), b"fuse", 0, options.encode()):
            self.skipTest("nothing can be mounted here")
        self.addCleanup(subprocess.run, ["umount", "--lazy", hole], check=True)
        self.addCleanup(os.close, silent)
        for path in (hole, os.path.join(hole, "x")):
            process = self.start(*user(ALICE), "env", f"ALLOT_TENANT_DIR={path}", "sh", "-c",
                                 "echo up; read x")
            self.assertEqual(process.stdout.readline(), "up\n")
        self.daemon()
        for name in ("a", "b"):
            self.user_ok(ALICE, "run", "--print-env", "--name", name)
        self.assertIn(f"a@{ALICE}", self.get("/metrics")[2])
        self.assertIn(f"a@{ALICE}", self.ok("ps"))


if __name__ == "__main__":
    cli_lib.main()
