# SPDX-License-Identifier: Apache-2.0
"""`allot checkpoint` of tenants on emulated AMD GPUs, up to CRIU, which is a script here: the tenant is
brought to rest, CRIU gets the plugin that it takes, and when it fails all goes on. What comes of the
real one, with a real /dev/kfd, tests/guest shows."""

import os
import pathlib
import time
import unittest

from swap_amd import IDLE, MIB, Case

# Takes plugins of so many hooks, as the log says; dumps nothing.
CRIU = """#!/bin/sh
[ "$1" = --version ] && exec echo Version: 4.2
echo "$@" >>%s/asked
while [ $# -gt 0 ]; do
    case $1 in
    --images-dir) dir=$2 ;;
    --log-file) log=$2 ;;
    --tree) tree=$2 ;;
    --libdir) plugin=$2 ;;
    esac
    shift
done
case $plugin in
*criu-15) [ "%s" = 15 ] || echo "Error (criu/plugin.c:138): Corrupted plugin $plugin" >"$dir/$log" ;;
esac
[ "$tree" = 2147483647 ] || sleep %s
exit 1
"""


@unittest.skipIf(os.geteuid(), "CRIU takes root")
class Disk(Case):
    def setUp(self):
        super().setUp()
        self.to = self.tmp + "/image"
        self.plugins = self.tmp + "/plugins"
        for hooks in ("10", "15"):
            os.makedirs(f"{self.plugins}/criu-{hooks}")
            pathlib.Path(f"{self.plugins}/criu-{hooks}/allot_amdgpu.so").touch()

    def criu(self, hooks="15", seconds="0"):
        os.makedirs(self.tmp + "/bin", exist_ok=True)
        path = pathlib.Path(self.tmp, "bin/criu")
        path.write_text(CRIU % (self.tmp, hooks, seconds), encoding="utf-8")
        path.chmod(0o755)
        return {"PATH": self.tmp + "/bin:" + os.environ["PATH"], "ALLOT_CRIU_PLUGINS": self.plugins}

    def stays(self, words, env):
        used, charged = self.used(), self.charged()
        said = self.refused("checkpoint", "t", "--to", self.to, env=env)
        self.assertRegex(said, words)
        self.assertFalse(os.path.exists(self.to))
        self.assertEqual((self.used(), self.charged()), (used, charged))
        return said

    def asked(self):
        """By which plugin CRIU was asked for a dump."""
        lines = pathlib.Path(self.tmp, "asked").read_text(encoding="utf-8").splitlines()
        return [line.split("--libdir ")[1] for line in lines if "--tree 2147483647" not in line]

    def test_goes_on(self):
        guest = self.guest("idle")
        for hooks in ("15", "10"):
            said = self.stays(r"CRIU could not dump the processes", self.criu(hooks))
            self.assertIn('tenant "t" goes on as it was', said)
        self.assertEqual(self.asked(), [f"{self.plugins}/criu-15", f"{self.plugins}/criu-10"])
        self.assertEqual(self.used(), IDLE)
        self.good(guest)

    def test_without_a_plugin(self):
        guest = self.guest("idle")
        env = {**self.criu(), "ALLOT_CRIU_PLUGINS": self.tmp}
        self.stays("criu-15/allot_amdgpu.so, is not here; it is installed with allot, .*; or set "
                   "ALLOT_CRIU_PLUGINS", env)
        self.assertIn("ok    CRIU's plugin for AMD GPUs is not here", self.allot("doctor", env=env).stdout)
        self.assertIn("ok    CRIU's plugin for AMD GPUs: ", self.allot("doctor", env=self.criu()).stdout)
        os.unlink(self.plugins + "/criu-10/allot_amdgpu.so")
        self.stays("criu-10/allot_amdgpu.so, is not here", self.criu("10"))
        self.assertFalse(os.path.exists(self.tmp + "/asked") and self.asked())
        self.good(guest)

    def test_suspended(self):
        guest = self.guest("idle")
        self.must("suspend", "t")
        self.stays('tenant "t" is suspended, and from AMD GPUs it goes to a disk while it has its memory '
                   'there; "allot resume t" first', self.criu())
        self.assertEqual(self.used(), [0, 0, 0])
        self.must("resume", "t")
        self.good(guest)

    def test_what_is_left_of_a_dmabuf(self):
        """Nothing: what programs of a swappable tenant have holds no memory."""
        guest = self.guest("dmabuf alone")
        self.assertEqual(self.used(), [MIB, 0, 0])
        said = self.refused("checkpoint", "t", "--to", self.to, env=self.criu())
        self.assertRegex(said, "(?s)CRIU could not dump.*goes on as it was")
        self.good(guest)

    def test_at_work(self):
        """Calls for memory wait while CRIU is at work, and none is lost."""
        guests = [self.guest("churn", str(seed)) for seed in (21, 22)]
        env = self.criu(seconds="0.1")
        for _ in range(10):
            said = self.refused("checkpoint", "t", "--to", self.to, "--timeout", "60s", env=env)
            self.assertRegex(said, "(?s)CRIU could not dump.*goes on as it was")
            time.sleep(0.02)
        for guest in guests:
            self.good(guest)

    def test_is_killed(self):
        """The command, when all is at rest: each process goes on by itself, or when it is resumed."""
        guest = self.guest("idle")
        for point in ("SWAP_ASKED", "STORE_NOTED", "STORE_DUMPED"):
            done = self.allot("checkpoint", "t", "--to", f"{self.tmp}/{point}",
                              env={**self.criu(), "ALLOT_FAULT": point})
            self.assertEqual(done.returncode, -9, point)
            self.must("resume", "t")
            self.assertEqual((self.used(), self.tenant()["state"]), (IDLE, "running"), point)
        self.good(guest)


if __name__ == "__main__":
    unittest.main()
