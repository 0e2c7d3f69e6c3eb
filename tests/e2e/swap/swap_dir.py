# SPDX-License-Identifier: Apache-2.0
"""Where host memory ends, a file on a disk: `allot run --swap-dir`. A tenant that holds more than
--host-memory leaves whole, comes back with each byte, and leaves nothing on the disk however it ends."""

import contextlib
import glob
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import unittest

from find_disk import find_disk
from overcommit import DEVICE, Turns
from swap import IDLE, MIB, STAYS, Case

STEP = 16 * MIB
HOST = 32 * MIB


DISK = find_disk()


class Disk(Case):
    def setUp(self):
        super().setUp()
        self.disk = tempfile.mkdtemp(prefix="allot-swap-dir-", dir=DISK)
        self.addCleanup(shutil.rmtree, self.disk, ignore_errors=True)

    def file_bytes(self, pid):
        """What a process has mapped of files in the directory, none of which has a name."""
        total = 0
        with open(f"/proc/{pid}/maps", encoding="ascii") as maps:
            for line in maps:
                if self.disk in line:
                    self.assertIn("(deleted)", line)
                    begin, end = (int(x, 16) for x in line.split()[0].split("-"))
                    total += end - begin
        self.assertEqual(os.listdir(self.disk), [])
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(FileNotFoundError):  # open for a moment
                self.assertNotIn(self.disk, os.readlink(f"/proc/{pid}/fd/{fd}"))
        return total

    def disk_used(self):
        """Bytes of the directory's files, which end with the last process that has them: none has a name."""
        self.assertEqual(os.listdir(self.disk), [])
        bytes_of = {}
        for process in glob.glob("/proc/[0-9]*"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError, PermissionError):
                with open(process + "/maps", encoding="utf-8", errors="replace") as maps:
                    mapped = [line.split() for line in maps if self.disk + "/" in line]
                for addresses, _, _, _, inode, *_ in mapped:
                    begin, end = (int(x, 16) for x in addresses.split("-"))
                    bytes_of[inode, addresses] = end - begin
                for fd in glob.glob(process + "/fd/*"):
                    if os.readlink(fd).startswith(self.disk + "/"):
                        bytes_of[fd] = os.stat(fd).st_blocks * 512
        return sum(bytes_of.values())

    def options(self, host="32MiB"):
        return ("--swappable", "--swap-dir", self.disk, "--host-memory", host)


class Rest(Disk):
    def test_out_and_back(self):
        guest = self.guest("idle", options=self.options())
        for _ in range(3):
            self.assertRegex(self.must("suspend", "t"),
                             rf"^t: 56 MiB of 1 process left in .*, 24 MiB of it to a file in "
                             rf"{self.disk}\n$")
            self.assertEqual(self.used(), STAYS)
            self.assertEqual(self.file_bytes(guest.pid), IDLE - HOST)
            tenant = self.tenant()
            self.assertEqual((tenant["state"], tenant["swap_dir"]), ("suspended", self.disk))
            self.assertEqual((tenant["swap"]["host_bytes"], tenant["swap"]["file_bytes"]),
                             (HOST, IDLE - HOST))
            self.assertEqual(self.device()["suspended_bytes"], IDLE)
            self.assertRegex(self.must("ps", "t"), r"ON HOST +ON DISK")
            self.assertRegex(self.must("ps", "t"), r" 32 MiB +24 MiB ")
            self.assertIn("away    56 MiB, on disk 24 MiB", self.must("top", "--once", "t"))
            self.must("resume", "t")
            self.assertEqual(self.file_bytes(guest.pid), 0)
            self.assertEqual(self.tenant()["swap"]["file_bytes"], 0)
        self.good(guest)

    def test_enough_host_memory(self):
        guest = self.guest("idle", options=("--swappable", "--swap-dir", self.disk))
        self.assertNotIn("file", self.must("suspend", "t"))
        self.assertEqual(self.file_bytes(guest.pid), 0)
        self.must("resume", "t")
        # What the command says goes before the tenant's own; what is ready from before is used.
        self.assertIn("40 MiB of it to a file", self.must("suspend", "t", "--host-memory", "20MiB"))
        self.must("resume", "t")
        self.assertNotIn("file", self.must("suspend", "t"))
        self.must("resume", "t")
        self.good(guest)

    def test_nothing_on_the_host(self):
        guest = self.guest("idle", options=self.options("1MiB"))
        for _ in range(2):
            self.assertIn("56 MiB of it to a file", self.must("suspend", "t"))
            self.must("resume", "t")
        self.good(guest)

    def test_buffers_are_given_back(self):
        guest = self.guest("idle", options=self.options("1MiB"))
        before = self.anonymous(guest)
        seen = 0
        for _ in range(20):  # on a busy machine they may be gone before this looks
            self.must("suspend", "t")
            self.must("resume", "t")
            seen += self.anonymous(guest) > before + 60 * MIB
            self.must("resume", "t")
            self.until_given_back(guest, before + 30 * MIB)
            if seen == 2:
                break
        self.assertEqual(seen, 2)
        self.good(guest)

    def test_two_processes(self):
        guests = [self.guest("idle", options=self.options()), self.guest("idle", options=())]
        self.assertRegex(self.must("suspend", "t"), r"112 MiB of 2 processes .* of it to a file")
        swap = self.tenant()["swap"]
        self.assertEqual(swap["host_bytes"] + swap["file_bytes"], 2 * IDLE)
        self.assertLessEqual(swap["host_bytes"], HOST)
        self.assertGreaterEqual(swap["host_bytes"], HOST - 2 * STEP)
        self.assertEqual(sum(self.file_bytes(g.pid) for g in guests), swap["file_bytes"])
        self.must("resume", "t")
        for guest in guests:
            self.good(guest)

    def test_contexts(self):
        guest = self.guest("idle", options=self.options())
        self.must("suspend", "t", "--contexts")
        self.assertEqual(self.file_bytes(guest.pid), IDLE - HOST)
        self.must("resume", "t")
        self.good(guest)

    def test_joined(self):
        """It is the tenant's, whoever joins it."""
        guest = self.guest("idle", options=self.options())
        other = self.guest("idle", options=("--swappable", "--swap-dir", self.disk))
        self.assertIn(f"swap directory {self.disk} (asked: {os.path.dirname(self.disk)})",
                      self.refused("run", "--name", "t", "--swappable", "--swap-dir",
                                   os.path.dirname(self.disk), "--", "true"))
        for process in (guest, other):
            self.good(process)


class Two(Disk):
    GPUS = "2"

    def test_devices(self):
        guest = self.guest("devices", options=self.options("16MiB"))
        held = self.all_used()
        for _ in range(3):
            self.assertRegex(self.must("suspend", "t"), r"^t: 34 MiB .* 18 MiB of it to a file")
            self.must("resume", "t")
            self.assertEqual(self.all_used(), held)
        self.good(guest)


class Shared(Disk):
    def test_out_and_back(self):
        lender = self.guest("lend", self.tmp + "/handles", "7", options=self.options("1MiB"))
        borrower = self.guest("borrow", self.tmp + "/handles", "7", options=())
        for _ in range(2):
            self.assertIn("6 MiB of it to a file", self.must("suspend", "t"))
            self.must("resume", "t")
        for process in (borrower, lender):
            self.good(process)


class Refusals(Disk):
    def refuse_run(self, why, directory, *options):
        said = self.refused("run", "--name", "t", *(options or ("--swappable",)), "--swap-dir",
                            directory, "--", "true")
        self.assertRegex(said, why)

    def test_of_the_option(self):
        self.refuse_run('--swap-dir "swap": not a path from the root', "swap")
        self.refuse_run('--swap-dir "": not a path from the root', "")
        self.refuse_run("--swap-dir /nowhere: No such file or directory; name another", "/nowhere")
        self.refuse_run("Not a directory", "/etc/passwd")
        self.refuse_run("it is memory of the host itself .tmpfs.; name a directory on a disk",
                        self.tmp)
        self.refuse_run("has no files without a name", "/proc")
        self.refuse_run("only what is swappable goes there", self.disk, "--memory", "1GiB")
        deep = self.disk
        for _ in range(3):
            deep += "/" + 100 * "x"
        os.makedirs(deep)
        self.refuse_run("File name too long", deep)

    @unittest.skipIf(os.geteuid() == 0, "root may write anywhere")
    def test_of_who_may_not_write(self):
        os.chmod(self.disk, 0o500)
        self.refuse_run("Permission denied; it must be for the tenant's user to write", self.disk)

    def test_link(self):
        """It is the directory that it leads to when the tenant is made."""
        os.mkdir(self.disk + "/real")
        os.symlink("real", self.disk + "/link")
        guest = self.guest("idle", options=("--swappable", "--swap-dir", self.disk + "/link"))
        self.assertEqual(self.tenant()["swap_dir"], self.disk + "/real")
        self.good(guest)

    def refuse(self, why, *more):
        guest = self.guest("idle", options=self.options())
        before, on_disk = self.used(), self.disk_used()
        yield guest
        said = self.refused("suspend", "t", *more)
        self.assertRegex(said, why)
        self.assertIn('tenant "t" goes on as it was: nothing was moved', said)
        self.assertEqual(self.used(), before)
        self.assertEqual(self.tenant()["state"], "running")
        self.assertEqual(self.file_bytes(guest.pid), 0)
        self.assertLess(self.disk_used() - on_disk, 12 * MIB)
        yield guest
        self.must("suspend", "t")
        self.must("resume", "t")
        self.good(guest)

    def test_file_may_not_be_so_large(self):
        steps = self.refuse(r"process \d+ \(.*\): its file of 24 MiB in .* \(--swap-dir\), for what has "
                            r"no room in host memory: File too large; raise the limit on the size")
        for limit in (16 * MIB, resource.RLIM_INFINITY):
            resource.prlimit(next(steps).pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        self.assertEqual(list(steps), [])

    def test_directory_is_gone(self):
        steps = self.refuse("its file of 24 MiB in .*: No such file or directory; name another")
        next(steps)
        os.rename(self.disk, self.disk + "-away")
        os.mkdir(self.disk + "-empty")
        self.addCleanup(shutil.rmtree, self.disk + "-empty")
        disk, self.disk = self.disk, self.disk + "-empty"
        next(steps)
        self.disk = disk
        os.rename(self.disk + "-away", self.disk)
        self.assertEqual(list(steps), [])

    def full(self, errno, words):
        """Of two processes one has its file when the other one finds the disk full."""
        first = self.guest("idle", options=self.options())
        shim = os.environ["SWAP_FULL"]
        other = self.guest("idle", options=(), env={"LD_PRELOAD": shim, "SWAP_FULL_ERROR": errno})
        before = self.used()
        said = self.refused("suspend", "t")
        self.assertRegex(said, rf"its file (of \d+ MiB )?in {self.disk} \(--swap-dir\), for what has no "
                               rf"room in host memory: {words}")
        self.assertIn('tenant "t" goes on as it was', said)
        self.assertEqual(self.used(), before)
        self.assertEqual({p["state"] for p in self.tenant()["processes"]}, {"running"})
        for process in (first, other):
            self.assertEqual(self.file_bytes(process.pid), 0)
            self.good(process)

    def test_disk_is_full(self):
        self.full("fallocate=28", "No space left on device; make room there, or give more --host-mem")

    def test_disk_fails(self):
        """It tells when it is asked whether all is there, and what had left by then comes back."""
        self.full("msync=5", "Input/output error; the disk fails")


class Kills(Disk):
    def test_of_a_process(self):
        """At each step; its room on the disk is there again, and the other one is not disturbed."""
        for point in ("SHUT", "FILE", "COPIED", "HALF_OUT", "OUT", "HALF_IN", "IN"):
            guest = self.guest("idle", options=self.options())
            victim = self.guest("idle", options=(), env={"ALLOT_FAULT": f"GUEST_SWAP_{point}"})
            on_disk = self.disk_used()
            self.must("suspend", "t")
            self.must("resume", "t")
            self.assertEqual(victim.wait(100), -signal.SIGKILL, point)
            self.assertEqual(self.used(), STAYS + IDLE, point)
            self.assertEqual(self.file_bytes(guest.pid), 0, point)
            # Others may use the disk meanwhile.
            self.until(lambda: self.disk_used() - on_disk < 12 * MIB)  # pylint: disable=cell-var-from-loop
            self.good(guest)

    def test_while_it_is_away(self):
        guest = self.guest("idle, large", options=self.options())
        on_disk = self.disk_used()
        self.must("suspend", "t")
        self.assertGreater(self.disk_used() - on_disk, 100 * MIB)
        guest.kill()
        guest.wait()
        self.assertLess(self.disk_used() - on_disk, 100 * MIB)
        self.assertEqual(os.listdir(self.disk), [])

    def test_of_the_command(self):
        """Before it has asked all to leave, they go on, with nothing on the disk."""
        guest = self.guest("idle", options=self.options())
        for passage, state in ((1, "running"), (2, "running"), (3, "suspended")):
            done = self.allot("suspend", "t", env={"ALLOT_FAULT": f"SWAP_ASKED:{passage}"})
            self.assertEqual(done.returncode, -signal.SIGKILL)
            for _ in range(200):
                tenant = self.tenant()
                if {tenant["state"], *(p["state"] for p in tenant["processes"])} == {state}:
                    break
                time.sleep(0.02)
            self.assertEqual({tenant["state"], *(p["state"] for p in tenant["processes"])}, {state})
            self.assertEqual(self.file_bytes(guest.pid), 0 if state == "running" else IDLE - HOST)
        self.must("resume", "t")
        self.good(guest)


class Overcommit(Disk, Turns):
    """Who takes turns leaves for another one although the host has no room for it."""

    def options(self, host="20MiB"):
        return ("--swap-dir", self.disk, "--host-memory", host)

    def test_load(self):
        guests = [self.compute(n, i * 1000, options=self.options("12MiB")) for i, n in enumerate("ab")]
        filed = dict.fromkeys("ab", 0)
        end = time.monotonic() + 100
        while min(filed.values()) < 5:
            self.assertLess(time.monotonic(), end)
            self.assertLessEqual(self.used(), DEVICE * MIB)
            for name, tenant in self.tenants().items():
                # A piece of 16 MiB may be on the host for a moment, before its rest is in the file.
                self.assertLessEqual(tenant["swap"]["host_bytes"], 16 * MIB)
                filed[name] += tenant["swap"]["file_bytes"] > 0
        self.changes("ab", 5)
        for guest in guests:
            self.good(guest)
        self.assertEqual(self.used(), 0)

    def test_part_and_rest(self):
        """A part is away, which fits on the host; what follows has its place in the file."""
        a = self.serve("a", 1, options=self.options())
        b = self.serve("b", 1000, holds=8)
        self.assertEqual(self.ask(b, "28"), "served")
        self.must("suspend", "a")
        swap = self.tenants()["a"]["swap"]
        self.assertEqual((swap["resident_bytes"], swap["host_bytes"], swap["file_bytes"]),
                         (0, 16 * MIB, 20 * MIB))
        for guest in (a, b):
            self.assertEqual(self.ask(guest), "served")
        for guest in (a, b):
            self.quit(guest)

    def test_no_room_anywhere(self):
        """It does not leave; the other one is refused."""
        a = self.serve("a", 1, options=self.options())
        b = self.serve("b", 1000, holds=8)
        resource.prlimit(a.pid, resource.RLIMIT_FSIZE, (4 * MIB, resource.RLIM_INFINITY))
        self.assertEqual(self.ask(b, "28"), "refused")
        self.assertEqual(self.places(), {"a": "running", "b": "running"})
        resource.prlimit(a.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        for guest in (a, b):
            self.quit(guest)

    def die(self, point):
        victim = self.serve("v", 5000, options=self.options(), env={"ALLOT_FAULT": point})
        other = self.serve("a", 1, options=self.options())
        for _ in range(60):
            if not self.ask(victim) and victim.wait(100):
                break
            self.assertEqual(self.ask(other), "served", point)
        self.assertEqual(victim.wait(100), -signal.SIGKILL, point)
        again = self.serve("v", 9000, options=self.options())
        for process in (again, other):
            self.assertEqual(self.ask(process), "served", point)
        for process in (again, other):
            self.quit(process)
        self.assertEqual(self.used(), 0, point)

    def test_kills(self):
        for point in ("SHUT", "FILE", "COPIED", "HALF_OUT", "OUT", "HALF_IN", "IN"):
            self.die(f"GUEST_SWAP_{point}")


if __name__ == "__main__":
    if not DISK:
        print("there is no disk here that has files without names")
        sys.exit(77)
    unittest.main()
