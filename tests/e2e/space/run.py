# SPDX-License-Identifier: Apache-2.0
"""allot run --mode space: one MPS daemon for all, and what the command is told; or a refusal that
leaves nothing behind."""

import os
import subprocess

import space_lib
from space_lib import ALLOT, PROGRAMS


class Start(space_lib.Case):
    def environment(self, *args, **kwargs):
        done = self.space("env", *args, **kwargs)
        self.assertEqual(done.returncode, 0, done.stderr)
        return dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)

    def test_environment(self):
        env = self.environment()
        self.assertEqual(env["CUDA_MPS_PIPE_DIRECTORY"], self.pipe)
        self.assertEqual(env["CUDA_MPS_LOG_DIRECTORY"], self.log)
        self.assertEqual(env["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"], "25")
        self.assertEqual(env["CUDA_MPS_CLIENT_PRIORITY"], "1")
        env = self.environment(name="b", compute="12.5")
        self.assertEqual(env["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"], "12.5")
        self.assertEqual(self.starts(), 1)
        for path in (self.root, self.pipe, self.log):
            self.assertEqual(os.stat(path).st_mode & 0o777, 0o700)

    def test_priority(self):
        """MPS has two: high goes before all others, whatever the caller has in its environment."""
        for level, asked in (("high", "0"), ("normal", "1"), ("low", "1")):
            self.keep(level, "--mode", "space", "--compute", "90", "--priority", level)
            for before in ("0", "1"):
                out = self.ok("run", "--name", level, "--mode", "space", "--compute", "90",
                              "--priority", level, "--", "env",
                              env={"CUDA_MPS_CLIENT_PRIORITY": before})
                self.assertIn(f"CUDA_MPS_CLIENT_PRIORITY={asked}\n", out)
        self.assertIn("CUDA_MPS_CLIENT_PRIORITY=0\n", self.ok("run", "--name", "high", "--", "env"))
        self.assertNotIn("CUDA_MPS", self.ok("run", "--compute", "25", "--priority", "high", "--",
                                             "env"))
        done = self.allot("run", "--verbose", "--name", "high", "--", "true")
        self.assertIn("CUDA_MPS_CLIENT_PRIORITY=0", done.stderr)

    def test_the_tenant_remembers(self):
        """Who joins need not say it again, and the tenant that shares in turns is not changed."""
        self.keep_space()
        out = self.ok("run", "--name", "a", "--", "env")
        self.assertIn("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=25\n", out)
        self.assertNotIn("CUDA_MPS", self.ok("run", "--name", "b", "--compute", "25", "--", "env"))

    def test_the_daemon_is_everybodys(self):
        """Nothing of the first tenant's gets into it: devices, part, library, descriptors."""
        with open("/dev/null", encoding="utf-8") as file:
            done = subprocess.run([ALLOT, "run", "--name", "a", "--mode", "space", "--compute",
                                   "25", "--", "true"],
                                  pass_fds=(file.fileno(),), check=False, timeout=60,
                                  env={**self.env, "CUDA_VISIBLE_DEVICES": "0",
                                       "LD_PRELOAD": "libm.so.6",
                                       "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "5",
                                       "CUDA_MPS_CLIENT_PRIORITY": "1", "SECRET": "x"})
        self.assertEqual(done.returncode, 0)
        names = {line.split("=")[0] for line in self.noted("environment")}
        self.assertLessEqual(names, {"PATH", "LD_LIBRARY_PATH", "CUDA_MPS_PIPE_DIRECTORY",
                                     "CUDA_MPS_LOG_DIRECTORY", "LC_CTYPE"})
        self.assertEqual(self.noted("descriptors"), ["0 1 2 3"])  # 3 reads the folder

    def test_many_at_once(self):
        self.trick("slow")
        runs = [subprocess.Popen([ALLOT, "run", "--name", f"t{i % 3}", "--mode", "space",
                                  "--compute", "25", "--", "true"], env=self.env)
                for i in range(6)]
        self.assertEqual([run.wait(60) for run in runs], [0] * 6)
        self.assertEqual(self.starts(), 1)

    def test_killed_while_it_starts_one(self):
        """Who comes next finds the socket not open yet, and the daemon not to be started twice."""
        self.trick("slow")
        process = self.start(ALLOT, "run", "--name", "a", "--mode", "space", "--compute", "25",
                             "--", "true")
        space_lib.wait_for(self.starts)
        process.kill()
        self.assertEqual(self.space("true").returncode, 0)
        self.assertEqual(self.starts(), 1)

    def test_a_dead_daemon_is_replaced(self):
        self.space("true")
        self.kill_daemon()
        self.assertEqual(self.space("true").returncode, 0)
        self.assertEqual(self.starts(), 2)


class Refusal(space_lib.Case):
    def refused(self, *says, args=(), **kwargs):
        """Nothing is started, and no tenant is left."""
        self.fails(125, "run", "--name", "a", "--mode", "space", *(args or ("--compute", "25")),
                   "--", "echo", "started", says=("--mode space", *says), **kwargs)
        self.assertEqual((self.starts(), self.tenants()), (0, []))

    def test_no_mps(self):
        self.refused("ALLOT_MPS_CONTROL=/no/such", env={"ALLOT_MPS_CONTROL": "/no/such"})
        os.unlink(self.path(f"bin/{PROGRAMS[1]}"))
        self.refused(PROGRAMS[1], "install", "--mode turns")
        del self.env["ALLOT_MPS_CONTROL"]
        if not any(os.path.exists(os.path.join(d, PROGRAMS[0]))
                   for d in self.env["PATH"].split(":")):
            self.refused(PROGRAMS[0], "install", "--mode turns")

    def test_found_in_path(self):
        del self.env["ALLOT_MPS_CONTROL"]
        self.env["PATH"] = self.path("bin") + ":" + self.env["PATH"]
        self.assertEqual(self.space("true").returncode, 0)
        self.assertEqual(self.starts(), 1)

    def test_it_does_not_start(self):
        self.trick("fail")
        self.refused("no such device", self.log)

    def test_it_does_not_answer(self):
        self.keep_space("b")
        self.trick("silent")
        self.fails(125, "run", "--name", "a", "--mode", "space", "--compute", "25", "--", "true",
                   says=("does not answer", self.pipe))
        self.assertEqual(self.tenants(), ["b"])

    def test_it_turns_one_away(self):
        self.space("true", name="b")
        self.trick("busy")
        self.space("true", name="a")

    def test_the_server_failed(self):
        """It takes nobody until its clients are gone, for which they are given a moment."""
        self.keep_space("b")
        self.trick("fault")
        self.fails(125, "run", "--name", "a", "--mode", "space", "--compute", "25", "--", "true",
                   says=("4711", "allot ps", "--mode turns"))
        self.assertEqual(self.tenants(), ["b"])
        process = self.start(ALLOT, "run", "--name", "a", "--mode", "space", "--compute", "25",
                             "--", "true")
        asked = len(self.noted("heard"))
        space_lib.wait_for(lambda: len(self.noted("heard")) > asked + 3)
        self.trick("")
        self.assertEqual(process.wait(60), 0)

    def test_long_path(self):
        self.runtime = self.path("r" * 70)
        self.env["ALLOT_RUNTIME_DIR"] = self.runtime
        self.refused("ALLOT_RUNTIME_DIR", "socket")
        self.ok("run", "--", "true")

    def test_which_part(self):
        self.refused("--compute", args=("--memory", "1GiB"))
        self.refused("below 100%", args=("--compute", "100"))
        self.refused("one value", args=("--gpu", "0,1", "--compute", "25,50"))
        self.ok("run", "--name", "a", "--mode", "space", "--gpu", "0,1", "--compute", "25,25",
                "--", "true")

    def test_another_daemon(self):
        self.refused("CUDA_MPS_PIPE_DIRECTORY=/other", "unset",
                     env={"CUDA_MPS_PIPE_DIRECTORY": "/other"})
        self.assertEqual(self.space("true", env={"CUDA_MPS_PIPE_DIRECTORY": self.pipe}).returncode,
                         0)


class Set(space_lib.Case):
    def test_mode(self):
        """Programs are under MPS or not for all their life."""
        self.keep("a", "--compute", "25")
        self.fails(125, "set", "a", "--mode", "space", "--compute", "100",
                   says=("--mode space", "below 100%"))
        holder = self.hold("a")
        self.fails(125, "set", "a", "--mode", "space",
                   says=('"a" is running (1 process)', "turns", "end them"))
        self.assertNotIn("CUDA_MPS", self.ok("run", "--name", "a", "--", "env"))
        holder.kill()
        holder.wait()
        self.assertEqual(self.ok("set", "a", "--mode", "space"),
                         "a each device: compute cap 25% -> cap 25%, space\n")
        self.assertIn("CUDA_MPS", self.ok("run", "--name", "a", "--", "env"))
        self.hold("a")
        self.fails(125, "set", "a", "--compute", "off", says=('"a" is running', "space"))

    def test_part(self):
        """What runs keeps its part; what it starts must not have more than the new one."""
        self.keep_space()
        self.assertNotIn("programs", self.ok("set", "a", "--compute", "30"))
        self.hold("a")
        said = self.ok("set", "a", "--compute", "40")
        self.assertIn("keep 30% of the SMs; those that allot run starts get 40%", said)
        self.assertNotIn("no GPU", said)
        self.assertIn("no GPU", self.ok("set", "a", "--compute", "20"))
        self.assertNotIn("programs", self.ok("set", "a", "--memory", "1GiB"))

    def test_priority(self):
        """What runs keeps its priority; what it starts must not have a higher one than the new."""
        self.keep_space()
        self.assertNotIn("programs", self.ok("set", "a", "--priority", "high"))
        self.assertIn("CUDA_MPS_CLIENT_PRIORITY=0\n", self.ok("run", "--name", "a", "--", "env"))
        self.ok("set", "a", "--priority", "normal")
        self.hold("a")
        self.assertNotIn("programs", self.ok("set", "a", "--priority", "low"))
        said = self.ok("set", "a", "--priority", "high")
        self.assertIn("programs that run yield to high priority; those that allot run starts do "
                      "not", said)
        self.assertNotIn("no GPU", said)
        self.assertIn("CUDA_MPS_CLIENT_PRIORITY=0\n", self.ok("run", "--name", "a", "--", "env"))
        said = self.ok("set", "a", "--priority", "normal")
        self.assertIn("programs that run do not yield", said)
        self.assertIn("no GPU", said)
        self.assertIn("CUDA_MPS_CLIENT_PRIORITY=1\n", self.ok("run", "--name", "a", "--", "env"))


if __name__ == "__main__":
    space_lib.main()
