# SPDX-License-Identifier: Apache-2.0
"""deploy/image/node: this version's files come to the node whole, once, and former ones go when nothing
names them."""
import os
import pathlib
import subprocess
import tempfile
import unittest

NODE = pathlib.Path(os.environ["ALLOT_SOURCE"], "deploy/image/node")
DAEMON = "#!/bin/sh\necho \"$0 $*\"\n"


class Node(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.kept = self.root / "var/lib/allot"
        for name in ("var/lib/allot", "var/run/cdi", "etc/cdi", "run/allot", "run/allot-users"):
            (self.root / name).mkdir(parents=True)
        self.version("a1")

    def version(self, name):
        """The image has this one alone."""
        images = self.root / "usr/lib/allot/on-node"
        subprocess.run(["rm", "-rf", images], check=True)
        (images / name / "sbin").mkdir(parents=True)
        daemon = images / name / "sbin/allotd"
        daemon.write_text(DAEMON, encoding="utf-8")
        daemon.chmod(0o755)

    def start(self):
        done = subprocess.run(["sh", NODE, "--foreground"], capture_output=True, text=True, check=False,
                              env={"PATH": os.environ["PATH"], "ALLOT_NODE_ROOT": str(self.root)})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def there(self):
        return sorted(path.name for path in self.kept.iterdir())

    def test_runs_from_the_node(self):
        self.assertEqual(self.start(), f"{self.kept}/a1/sbin/allotd --foreground")
        self.assertEqual(self.there(), ["a1"])
        self.assertEqual((self.kept / "a1").stat().st_mode & 0o777, 0o755)
        self.assertEqual((self.root / "run/allot").stat().st_mode & 0o777, 0o700)

    def test_a_second_start_changes_nothing(self):
        self.start()
        before = (self.kept / "a1/sbin/allotd").stat()
        self.start()
        after = (self.kept / "a1/sbin/allotd").stat()
        self.assertEqual((before.st_ino, before.st_ctime_ns), (after.st_ino, after.st_ctime_ns))

    def test_a_copy_that_was_cut_short_is_no_version(self):
        (self.kept / ".new.killed").mkdir()
        self.start()
        self.assertEqual(self.there(), ["a1"])

    def test_former_versions_stay_while_something_names_them(self):
        self.start()
        (self.root / "var/run/cdi/allot.dev-grant-x.json").write_text(
            f'{{"hostPath":"{self.kept}/a1/lib/liballot.so"}}', encoding="utf-8")
        self.version("b2")
        self.start()
        tenant = self.root / "run/allot/tenant"
        tenant.mkdir()
        (tenant / "library").symlink_to(self.kept / "b2/lib/liballot.so")
        self.version("c3")
        self.start()
        self.assertEqual(self.there(), ["a1", "b2", "c3"])
        (self.root / "var/run/cdi/allot.dev-grant-x.json").unlink()
        (tenant / "library").unlink()
        self.start()
        self.assertEqual(self.there(), ["c3"])

    def test_a_name_that_only_begins_alike_is_another(self):
        (self.kept / "a").mkdir()
        self.start()
        (self.root / "etc/cdi/x.json").write_text(f'"{self.kept}/a1/bin/allot"', encoding="utf-8")
        self.assertEqual(self.there(), ["a1"])


if __name__ == "__main__":
    unittest.main()
