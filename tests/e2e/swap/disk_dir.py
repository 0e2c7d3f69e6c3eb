# SPDX-License-Identifier: Apache-2.0
"""To a disk and back from a file on a disk: `allot checkpoint` of tenants with `--swap-dir`. CRIU finds no
file, a tenant that comes back has one again where the host has no room, and a disk that fails is a
refusal that names the directory."""

import ctypes
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import unittest

import disk
import swap_dir
from swap import ALLOT, IDLE, MIB, STAYS
from swap_dir import HOST

SHIM = os.environ["SWAP_FULL"]


class Disk(swap_dir.Disk, disk.Disk):
    def stays_on_the_way(self, point="STORE_DUMPED"):
        """Its content is in an image that was not finished."""
        done = self.allot("checkpoint", "t", "--to", self.to, env={"ALLOT_FAULT": point})
        self.assertEqual(done.returncode, -signal.SIGKILL, done.stderr)


class Way(Disk):
    def test_there_and_back(self):
        guest = self.guest("idle", options=self.options())
        held = self.used()
        self.save()
        self.gone(guest)
        self.assertEqual((self.used(), os.listdir(self.disk)), (0, []))
        self.assertIn("4 objects of 56 MiB", self.must("image", self.to))
        criu = sum(f.stat().st_size for f in pathlib.Path(self.to, "criu").rglob("*"))
        self.assertLess(criu, 8 * MIB)
        self.restore()
        self.assertEqual((self.used(), self.file_bytes(guest.pid)), (held, 0))
        tenant = self.tenant()
        self.assertEqual((tenant["state"], tenant["swap_dir"]), ("running", self.disk))
        # With the same bound on host memory.
        self.assertIn(f"24 MiB of it to a file in {self.disk}", self.must("suspend", "t"))
        self.assertEqual(self.file_bytes(guest.pid), IDLE - HOST)
        self.must("resume", "t")
        self.good(guest)

    def test_file_again(self):
        """What comes from the image goes where the host has room, and else to a file."""
        guest = self.guest("idle", options=self.options())
        self.save()
        done = self.try_restore(env={"ALLOT_FAULT": "CONTEXTS_RETURNED"})
        self.assertEqual(done.returncode, -signal.SIGKILL, done.stderr)
        self.assertEqual(self.file_bytes(guest.pid), IDLE - HOST)
        self.assertEqual(self.tenant()["state"], "suspended")
        self.must("resume", "t")
        self.assertEqual(self.file_bytes(guest.pid), 0)
        self.good(guest)

    def test_again(self):
        guest = self.guest("churn", "7", options=self.options("1MiB"))
        for turn in range(3):
            self.to = f"{self.tmp}/image{turn}"
            self.save(*(("--compress",) if turn == 1 else ()))
            self.restore()
        self.good(guest)

    def test_trees(self):
        self.trees(self.guest("idle", options=self.options()))

    def test_leave_running(self):
        guest = self.guest("idle", options=self.options())
        self.save("--leave-running")
        self.assertEqual((self.used(), self.file_bytes(guest.pid)), (STAYS + IDLE, 0))
        self.good(guest)

    def test_suspended_before(self):
        """With more on the host than the tenant's own bound, and left where it was."""
        guest = self.guest("idle", options=self.options())
        self.must("suspend", "t", "--host-memory", "48MiB")
        self.save("--leave-running")
        self.assertEqual(self.tenant()["state"], "suspended")
        self.assertEqual(self.file_bytes(guest.pid), IDLE - HOST)
        self.must("resume", "t")
        self.good(guest)

    def test_enough_host_memory(self):
        guest = self.guest("idle", options=("--swappable", "--swap-dir", self.disk))
        self.save()
        done = self.try_restore(env={"ALLOT_FAULT": "CONTEXTS_RETURNED"})
        self.assertEqual(done.returncode, -signal.SIGKILL, done.stderr)
        self.assertEqual(self.file_bytes(guest.pid), 0)
        self.must("resume", "t")
        self.good(guest)


class Refusals(Disk):
    def saved(self):
        guest = self.guest("idle", options=self.options())
        self.save()
        self.gone(guest)
        return guest

    def not_restored(self, why, env=None):
        done = self.try_restore(env=env)
        self.assertEqual(done.returncode, 125)
        self.assertRegex(done.stderr, why)
        self.no_tenant()
        return done.stderr

    def test_directory_is_not_here(self):
        guest = self.saved()
        why = rf'tenant "t" .*in a file in {self.disk} \(--swap-dir\): '
        os.rename(self.disk, self.disk + "-away")
        self.not_restored(why + "No such file or directory; name another directory, or make this one")
        pathlib.Path(self.disk).touch()
        self.not_restored(why + "Not a directory")
        os.unlink(self.disk)
        os.rename(self.disk + "-away", self.disk)
        self.restore()
        self.good(guest)

    def test_disk_has_no_room(self):
        guest = self.saved()
        self.not_restored(rf"in {self.disk} \(--swap-dir\): No space left on device; make room",
                          env={"LD_PRELOAD": SHIM, "SWAP_FULL_ERROR": "fallocate=28"})
        self.restore()
        self.good(guest)

    def test_host_has_no_room(self):
        """And there is no directory for the rest: a machine of less memory than it came from."""
        guest = self.guest("idle")
        self.save()
        self.gone(guest)
        meminfo = pathlib.Path(self.tmp, "meminfo")
        meminfo.write_text("MemTotal: 400000 kB\nMemAvailable: 40960 kB\n", encoding="ascii")
        done = subprocess.run(["unshare", "--mount", "sh", "-c", f"mount --bind {meminfo} /proc/meminfo && "
                               f"exec {ALLOT} restore {self.to}"], env=self.env, text=True,
                              stderr=subprocess.PIPE, check=False)
        self.assertIn('host memory has room for 36 MiB, and tenant "t" had 56 MiB on its devices',
                      done.stderr)
        self.no_tenant()
        self.restore()
        self.good(guest)

    def test_process_has_no_room(self):
        """It comes back, and finds that it may not have such a file: then nothing is left of it."""
        guest = self.guest("idle", options=self.options())
        self.must("suspend", "t")
        resource.prlimit(guest.pid, resource.RLIMIT_FSIZE, (16 * MIB, resource.RLIM_INFINITY))
        self.save()
        self.gone(guest)
        said = self.not_restored(rf"its file of 24 MiB in {self.disk} \(--swap-dir\), .*: File too large")
        self.assertIn("nothing is left of it", said)

    def test_no_room_on_the_way_back(self):
        guest = self.guest("idle", options=self.options())
        self.stays_on_the_way()
        self.assertEqual(self.file_bytes(guest.pid), 0)
        resource.prlimit(guest.pid, resource.RLIMIT_FSIZE, (16 * MIB, resource.RLIM_INFINITY))
        said = self.refused("resume", "t")
        self.assertRegex(said, rf"its file of 24 MiB in {self.disk} \(--swap-dir\), .*: File too large")
        self.assertIn('tenant "t" stays suspended', said)
        resource.prlimit(guest.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        self.must("resume", "t")
        self.good(guest)

    def file(self, pid):
        """Of a process, opened anew."""
        folder = f"/proc/{pid}/map_files"
        name, = [n for n in os.listdir(folder) if self.disk in os.readlink(f"{folder}/{n}")]
        fd = os.open(f"{folder}/{name}", os.O_RDWR)
        self.addCleanup(os.close, fd)
        return fd

    def test_disk_cannot_be_read(self):
        """What is gone from the disk is a signal to who touches it, and an error to who reads it from
        outside; with the disk it is there again."""
        guest = self.guest("idle", options=self.options())
        self.must("suspend", "t")
        fd = self.file(guest.pid)
        content = os.pread(fd, IDLE, 0)
        os.ftruncate(fd, 0)
        said = self.refused("checkpoint", "t", "--to", self.to)
        self.assertRegex(said, rf"process \d+ \(.*\): its file in {self.disk} \(--swap-dir\) cannot be "
                               r"reached: Input/output error; the disk fails")
        self.assertIn("stays suspended as it was", said)
        self.assertFalse(os.path.exists(self.to))
        self.assertIn("Input/output error", self.refused("resume", "t"))
        self.assertIsNone(guest.poll())
        os.pwrite(fd, content, 0)
        self.must("resume", "t")
        self.good(guest)

    def test_disk_fails_meanwhile(self):
        """Between the copy and the image, and at its end alone."""
        guest = self.guest("idle", options=self.options())
        done = self.allot("checkpoint", "t", "--to", self.to,
                          env={"ALLOT_FAULT": "CONTEXTS_TAKEN"})
        self.assertEqual(done.returncode, -signal.SIGKILL)
        fd = self.file(guest.pid)
        content = os.pread(fd, IDLE, 0)
        os.ftruncate(fd, IDLE - HOST - 2 * MIB)
        self.assertIn(f"its file in {self.disk} (--swap-dir) cannot be reached",
                      self.refused("checkpoint", "t", "--to", self.to))
        os.pwrite(fd, content, 0)
        self.must("resume", "t")
        self.good(guest)

    def test_disk_cannot_be_written(self):
        """What was put there from the image is not there yet."""
        guest = self.guest("idle", options=self.options(),
                           env={"LD_PRELOAD": SHIM, "SWAP_FULL_ERROR": "msync=5"})
        self.must("suspend", "t", "--host-memory", "1GiB")
        self.stays_on_the_way()
        for _ in range(2):
            said = self.refused("resume", "t")
            self.assertRegex(said, rf"its file of 24 MiB in {self.disk} .*: Input/output error; the disk")
            self.assertIn('tenant "t" stays suspended', said)
        self.assertIsNone(guest.poll())


class Kills(Disk):
    def resumes(self, guests, point):
        for guest in guests:
            self.assertIsNone(guest.poll(), point)
        self.must("resume", "t")
        self.assertEqual(self.used(), len(guests) * (STAYS + IDLE), point)
        for guest in guests:
            self.assertEqual(self.file_bytes(guest.pid), 0, point)
        shutil.rmtree(self.to, ignore_errors=True)

    def test_of_checkpoint(self):
        guests = [self.guest("idle", options=self.options()), self.guest("idle", options=())]
        for point in (*(f"SWAP_ASKED:{n}" for n in range(1, 6)), "CONTEXTS_TAKEN", "CONTENT_SAVED",
                      "IMAGE_NAMED", "STORE_NOTED", "STORE_GIVEN", "STORE_DUMPED", "STORE_LISTED"):
            self.stays_on_the_way(point)
            self.resumes(guests, point)
        for guest in guests:
            self.good(guest)

    def test_of_resume(self):
        guest = self.guest("idle", options=self.options())
        for point in ("SWAP_ASKED:1", "SWAP_ASKED:2", "CONTENT_PUT_BACK", "CONTENT_PUT_BACK:3",
                      "SWAP_ASKED:3", "CONTEXTS_RETURNED", "SWAP_ASKED:4", "SWAP_ASKED:5"):
            self.stays_on_the_way()
            done = self.allot("resume", "t", env={"ALLOT_FAULT": point})
            self.assertEqual(done.returncode, -signal.SIGKILL, point)
            self.resumes([guest], point)
        self.good(guest)

    def test_of_restore(self):
        guest = self.guest("idle", options=self.options())
        self.save()
        self.gone(guest)
        for point in ("BRING_AWAITED", "BRING_RESTORED", "CONTENT_PUT_BACK", "CONTENT_PUT_BACK:4"):
            done = self.try_restore(env={"ALLOT_FAULT": point})
            self.assertEqual(done.returncode, -signal.SIGKILL, done.stderr)
            if point == "BRING_AWAITED":
                continue
            self.must("resume", "t")
            self.assertEqual(self.used(), STAYS + IDLE, point)
            if point != "CONTENT_PUT_BACK:4":
                os.kill(guest.pid, signal.SIGKILL)
        self.good(guest)

    def test_of_a_process(self):
        """Ahead of the copy, and when it takes its file once more."""
        for point in ("FILE", "BARE", "BARE:2", "FILE:2", "BARE:3"):
            self.to = f"{self.tmp}/{point}"
            guest = self.guest("idle", options=self.options())
            victim = self.guest("idle", options=(), env={"ALLOT_FAULT": f"GUEST_SWAP_{point}"})
            self.allot("checkpoint", "t", "--to", self.to, "--leave-running")
            self.assertEqual(victim.wait(100), -signal.SIGKILL, point)
            self.assertIsNone(guest.poll(), point)
            self.must("resume", "t")
            self.assertEqual(self.used(), STAYS + IDLE, point)
            self.assertEqual(self.file_bytes(guest.pid), 0, point)
            self.good(guest)

    def test_of_a_process_that_comes_back(self):
        guest = self.guest("idle", options=self.options())
        victim = self.guest("idle", options=(), env={"ALLOT_FAULT": "GUEST_SWAP_FILE:2"})
        self.save()
        self.gone(guest, victim)
        self.restore()
        self.assertEqual([p["pid"] for p in self.tenant()["processes"]], [guest.pid])
        self.assertEqual(self.used(), STAYS + IDLE)
        self.good(guest)


if __name__ == "__main__":
    if os.geteuid() or not disk.CRIU or not swap_dir.DISK:
        print("no CRIU of version 4 or later (tools/criu), not root, or no disk that has files without "
              "names")
        sys.exit(77)
    ctypes.CDLL(None).prctl(disk.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    unittest.main()
