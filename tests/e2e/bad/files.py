# SPDX-License-Identifier: Apache-2.0
"""The tenant's files are gone, full, foreign, cut or forged; descriptors and memory run out."""

import os
import random
import shutil
import struct
import subprocess

import bad_lib
from bad_lib import LIMIT, OPERATING_SYSTEM

VERSION_AT = 8  # of the ledger and of the policy: src/ledger/layout.h
ROWS_AT, HIGH_AT = 532480, 64


class Files(bad_lib.Case):
    def refused(self, says, words="init alloc 1"):
        """The GPU is refused with one line that says why; the program lives on."""
        said, err = self.guest(words)
        self.assertNotEqual(said[0], "init 0")
        self.assertNotIn("alloc 0", said)
        self.assertEqual(len(err.splitlines()), 1, err)
        self.assertIn(says, err)
        self.assertIn(self.tenant, err)
        self.assertEqual(self.truth(), 0)

    def write(self, name, at, data):
        path = os.path.join(self.tenant, name)
        os.chmod(path, 0o600)  # the policy is guarded
        with open(path, "r+b") as out:
            out.seek(at)
            out.write(data)

    def test_another_version(self):
        """Beside a process of this version, which goes on."""
        process, said = self.live("init alloc 100 wait alloc 200 free alloc 200")
        self.assertEqual(said, ["init 0", "alloc 0"])
        other = struct.pack("I", 1)
        for name in ("ledger", "policy"):
            with open(os.path.join(self.tenant, name), "rb") as whole:
                ours = whole.read()[VERSION_AT:VERSION_AT + 4]
            self.write(name, VERSION_AT, other)
            said, err = self.guest("init alloc 1")
            self.assertNotEqual(said[0], "init 0")
            self.assertIn("another version", err)
            self.write(name, VERSION_AT, ours)
        self.write("ledger", VERSION_AT, other)
        self.assertEqual(self.finish(process), ["alloc 2", "free 0", "alloc 0"])

    def test_cut_short(self):
        for name in ("ledger", "policy"):
            path = os.path.join(self.tenant, name)
            os.chmod(path, 0o600)
            with open(path, "rb") as whole:
                content = whole.read()
            for size in (0, 1, 4096, len(content) - 1):
                os.truncate(path, size)
                self.refused(name)
                self.allot("ps")
                self.assertIn(self.allot("ps", "--json").returncode, (0, 125))
            with open(path, "wb") as out:
                out.write(content)
        self.check_empty()

    def test_foreign(self):
        if os.geteuid():
            self.skipTest("cannot give files away")
        ledger = os.path.join(self.tenant, "ledger")
        os.chown(ledger, 12345, 12345)
        self.refused("belongs to another user")
        os.chown(ledger, 0, 0)
        os.chmod(ledger, 0o666)
        self.refused("open to others")
        os.chmod(ledger, 0o600)
        os.rename(ledger, ledger + ".real")
        os.symlink(ledger + ".real", ledger)
        self.refused("symbolic link")
        os.unlink(ledger)
        self.refused("does not exist")
        os.mkfifo(ledger, 0o600)
        self.refused("ledger")
        os.unlink(ledger)
        os.rename(ledger + ".real", ledger)
        self.check_empty()

    def test_forged(self):
        """Nonsense by a peer, as others start and work: perhaps no memory, no crash and no hang."""
        generator = random.Random(1)
        process, said = self.live("init alloc 100 " + "wait alloc 10 free " * 12)
        self.assertEqual(said, ["init 0", "alloc 0"])
        size = os.path.getsize(os.path.join(self.tenant, "ledger"))
        for at in (HIGH_AT, HIGH_AT + 4, 4096, 8192, 270336, ROWS_AT, ROWS_AT + 64 * 1024,
                   size - 4096, None, None, None):
            at = generator.randrange(HIGH_AT, size - 4096) if at is None else at
            self.write("ledger", at, generator.randbytes(4096))
            self.go_on(process)
            said = self.until_waiting(process)
            self.assertIn(said[0], ("alloc 0", "alloc 2"))
            self.guest("init alloc 10 alloc 200 free")
            self.assertIn(self.allot("ps").returncode, (0, 125))
            self.assertLessEqual(self.truth(), LIMIT)

    def test_deleted(self):
        """Who runs goes on, with the limit that it knows; who comes is refused."""
        process, said = self.live("init alloc 100 wait alloc 200 free alloc 200 threads 4")
        self.assertEqual(said, ["init 0", "alloc 0"])
        shutil.rmtree(self.tenant)
        said, err = self.guest("init alloc 1")
        self.assertNotEqual(said[0], "init 0")
        self.assertIn("does not exist", err)
        self.assertEqual(self.finish(process), ["alloc 2", "free 0", "alloc 0", "threads 0"])

    def test_descriptors(self):
        """Used up before the first call, after it, and all closed by the program."""
        said, err = self.guest("nofile init alloc 1")
        self.assertNotEqual(said[0], "init 0")
        self.assertNotIn("alloc 0", said)
        self.assertIn("descriptor", err)
        said, _ = self.guest("closefds init alloc 100 alloc 200 free threads 4")
        self.assertEqual(said, ["init 0", "alloc 0", "alloc 2", "free 0", "threads 0"])
        said, _ = self.guest("init alloc 100 nofile alloc 200 free alloc 200 free threads 4")
        self.assertEqual(said, ["init 0", "alloc 0", "alloc 2", "free 0", "alloc 0", "free 0",
                                "threads 0"])
        # The driver's own are closed too, so that it gives out nothing more. We refuse as ever.
        said, _ = self.guest("init alloc 100 closefds alloc 200 free alloc 200")
        self.assertEqual(said, ["init 0", "alloc 0", "alloc 2", "free 0",
                                f"alloc {OPERATING_SYSTEM}"])
        self.check_empty()

    def test_address_space(self):
        """With ever less of it: each call works or says that there is no memory."""
        for mib in (0, 1, 2, 4, 8, 16, 32, 64, 128, 512):
            for words in (f"as {mib} init alloc 8 alloc 8 free",
                          f"init alloc 8 as {mib} alloc 8 free"):
                self.guest(words)
        self.check_empty()


class FileSystem(bad_lib.Case):
    """On a file system of its own, which fills up or turns read-only."""

    def setUp(self):
        if os.geteuid() or not shutil.which("mount"):
            self.skipTest("cannot mount")
        super().setUp()

    def make_tenant(self):
        os.mkdir(self.runtime, 0o700)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m,mode=700", "tmpfs", self.runtime],
                          check=False, capture_output=True).returncode:
            self.skipTest("cannot mount")
        self.addCleanup(subprocess.run, ["umount", "-l", self.runtime], check=False)
        super().make_tenant()

    def fill(self):
        with open(os.path.join(self.runtime, "filler"), "wb", buffering=0) as out:
            for size in (4096, 1):
                try:
                    while True:
                        out.write(bytes(size))
                except OSError:
                    pass

    def test_full_before(self):
        """No room for the rows of the first device."""
        self.fill()
        said, err = self.guest("init alloc 1")
        self.assertNotEqual(said[0], "init 0")
        self.assertNotIn("alloc 0", said)
        self.assertIn("no room", err)
        os.unlink(os.path.join(self.runtime, "filler"))
        self.check_empty()

    def test_full_after(self):
        """Whoever has begun needs no more room, nor do others on the same device."""
        process, said = self.live("init alloc 100 wait alloc 200 free alloc 200 threads 4")
        self.assertEqual(said, ["init 0", "alloc 0"])
        self.fill()
        said, _ = self.guest("init alloc 100 alloc 100")
        self.assertEqual(said, ["init 0", "alloc 0", "alloc 2"])
        self.assertEqual(self.finish(process), ["alloc 2", "free 0", "alloc 0", "threads 0"])
        self.check_empty()

    def test_read_only(self):
        subprocess.run(["mount", "-o", "remount,ro", self.runtime], check=True)
        said, err = self.guest("init alloc 1")
        self.assertEqual(said[0], f"init {OPERATING_SYSTEM}")
        self.assertNotIn("alloc 0", said)
        self.assertIn("read-only", err)
        self.assertEqual(self.truth(), 0)


if __name__ == "__main__":
    bad_lib.main()
