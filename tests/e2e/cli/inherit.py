# SPDX-License-Identifier: Apache-2.0
"""Who starts a program with an environment of its own making starts it in the tenant all the same."""

import os
import re
import subprocess
import unittest

import cli_lib

EXECS = os.environ["ALLOT_EXECS"]
FILL = os.environ["ALLOT_FILL"]
WAYS = ("execve", "execv", "execvp", "execvpe", "execl", "execle", "execlp", "fexecve", "posix_spawn",
        "posix_spawnp", "vfork")


class Inherit(cli_lib.Case):
    def setUp(self):
        super().setUp()
        self.show = self.path("show", '#!/bin/sh\necho "$1 $ALLOT_TENANT_DIR $LD_PRELOAD"\nenv | wc -l\n')
        self.plain = dict(line.split("=", 1) for line in self.keep("t", "--memory", "1GiB").splitlines())
        self.dir, self.library = self.plain["ALLOT_TENANT_DIR"], self.plain["LD_PRELOAD"]

    def started(self, way, *env):
        """What the program finds: its argument, the tenant, LD_PRELOAD."""
        out = self.ok("run", "--name", "t", "--", EXECS, way, *env, self.show, "given")
        return out.splitlines()[0].split(" ")

    def test_ways(self):
        for way in WAYS:
            with self.subTest(way):
                self.assertEqual(self.started(way), ["given", self.dir, self.library])
                self.assertEqual(self.started(way, "A=1", "LD_PRELOAD=libm.so.6", "B=2"),
                                 ["given", self.dir, f"libm.so.6:{self.library}"])
        self.assertEqual(self.started("syscall"), ["given", "", ""])

    def test_what_is_there_stays(self):
        """Another tenant, as of `allot run --allow-escape`, and the library wherever it stands."""
        both = f"/none/a.so:{self.library} libm.so.6"
        self.assertEqual(self.started("execve", "ALLOT_TENANT_DIR=/x", f"LD_PRELOAD={both}"),
                         ["given", "/x", *both.split(" ")])
        self.assertEqual(self.started("execve", "ALLOT_TENANT_DIR=", f"LD_PRELOAD={self.library}x"),
                         ["given", "", f"{self.library}x:{self.library}"])

    def test_twice(self):
        """The loader takes the last LD_PRELOAD of an environment, so that is the one that has to have it."""
        first, last = f"LD_PRELOAD={self.library}", "LD_PRELOAD=libm.so.6"
        maps = ("grep", "-c", "liballot", "/proc/self/maps")
        for env in ((first, last), (last, first), (last, last), (first, first)):
            out = self.ok("run", "--name", "t", "--", EXECS, "execve", *env, "/usr/bin/grep", *maps[1:])
            self.assertGreater(int(out), 0, env)

    def test_many_variables(self):
        """Also with a thousand and more; beyond what a small stack has room for nothing is added."""
        self.assertEqual(self.started("execve", *(f"V{n}=" for n in range(1500)))[1], self.dir)
        self.assertEqual(self.started("execve", *(f"V{n}=" for n in range(2500)))[1], "")

    def test_no_tenant(self):
        """Of a process that `allot run` did not start nothing changes."""
        for env in ({"LD_PRELOAD": self.library}, {"ALLOT_TENANT_DIR": self.dir}, {}):
            done = subprocess.run([EXECS, "execve", self.show, "given"], env={**self.env, **env}, text=True,
                                  capture_output=True, check=True)
            self.assertEqual(done.stdout.splitlines()[0], "given  ")

    def test_errors_stay(self):
        for way in ("execve", "execvp", "posix_spawn"):
            done = self.allot("run", "--name", "t", "--", EXECS, way, "/none/x")
            self.assertEqual((done.returncode, done.stderr.count("No such file")), (99, 1))

    def test_quota_holds(self):
        """`env -i`, a script's own LD_PRELOAD, and Python's subprocess: each is refused at the quota."""
        self.env.update(ALLOT_SIM_DIR=self.path("sim"), ALLOT_SIM_MEMORY="4GiB",
                        LD_LIBRARY_PATH=os.environ["SIM_LIBRARIES"])
        sim = [f"{k}={self.env[k]}" for k in ("ALLOT_SIM_DIR", "ALLOT_SIM_MEMORY", "LD_LIBRARY_PATH")]
        script = "import subprocess, sys\nsubprocess.run([sys.argv[1]], check=True, env=dict(" \
                 "v.split('=', 1) for v in sys.argv[2:]))"
        for command in (("env", "-i", *sim, FILL), ("env", "-u", "LD_PRELOAD", FILL),
                        ("env", "-u", "ALLOT_TENANT_DIR", FILL), ("env", "LD_PRELOAD=libm.so.6", FILL),
                        ("sh", "-c", f"exec env -i {' '.join(sim)} sh -c 'unset X; {FILL}'"),
                        ("python3", "-c", script, FILL, *sim)):
            with self.subTest(command[:3]):
                said = self.ok("run", "--name", "t", "--", *command)
                self.assertIn("the device says it has 1024 MiB", said)
                self.assertLessEqual(sum(map(int, re.findall(r"(\d+) MiB, then", said))), 1024)


if __name__ == "__main__":
    unittest.main()
