# SPDX-License-Identifier: Apache-2.0
"""allot run: what the command gets, how it ends, tenants that come, are joined, and go."""

import os
import shutil
import signal
import subprocess
import time

import cli_lib
from cli_lib import ALLOT, MIB, UUID_A


class Command(cli_lib.Case):
    def test_status(self):
        for status in (0, 1, 7, 125, 126, 127, 255):
            self.assertEqual(self.allot("run", "--", "sh", "-c", f"exit {status}").returncode,
                             status)

    def test_not_found(self):
        self.fails(127, "run", "--", "no-such-command", says=("no-such-command",))
        self.fails(127, "run", "--", "/no/such/command", says=("/no/such/command",))
        self.fails(126, "run", "--", "/", says=('"/"',))
        self.fails(126, "run", "--", self.path("plain", "x", 0o644), says=("execute permission",))
        self.fails(127, "run", "--", "", says=('""',))
        self.assertFalse(os.path.exists(self.runtime), "a command that cannot run left a tenant")

    def test_bad_interpreter(self):
        script = self.path("script", "#!/no/such/interpreter\n")
        self.fails(127, "run", "--", script)

    def test_options_after_the_command_are_its_own(self):
        self.assertEqual(self.ok("run", "echo", "--memory", "x", "--name"), "--memory x --name\n")
        self.assertEqual(self.ok("run", "--", "echo", "--", "-n"), "-- -n\n")

    def test_exec_in_place(self):
        process = self.start(ALLOT, "run", "--", "sh", "-c", "echo $$; read x")
        self.assertEqual(int(process.stdout.readline()), process.pid)

    def test_signals_reach_the_command(self):
        for sig in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGKILL):
            process = self.start(ALLOT, "run", "--", "sh", "-c", "echo up; read x")
            process.stdout.readline()
            process.send_signal(sig)
            self.assertEqual(process.wait(20), -sig)

    def test_nothing_inherited(self):
        """No descriptor beyond the standard ones, no changed mask, no changed umask."""
        umask = os.umask(0o027)
        try:
            out = self.ok("run", "--", "sh", "-c",
                          "ls /proc/self/fd; umask; grep SigBlk /proc/self/status")
        finally:
            os.umask(umask)
        fds, rest = out.split("\n0027\n")
        self.assertLessEqual(len(fds.split()), 4)  # 0 1 2 and ls's own
        self.assertRegex(rest, "SigBlk:\t0+\n")

    def test_environment(self):
        out = self.ok("run", "--name", "a", "--", "env", env={"LD_PRELOAD": "/lib/x.so:/lib/y.so"})
        env = dict(line.split("=", 1) for line in out.splitlines() if "=" in line)
        preload = env["LD_PRELOAD"].split(":")
        self.assertEqual(preload[1:], ["/lib/x.so", "/lib/y.so"])
        self.assertTrue(os.path.isabs(preload[0]) and preload[0].endswith("/liballot.so"))
        self.assertTrue(os.path.exists(preload[0]))
        self.assertEqual(env["ALLOT_TENANT_DIR"], os.path.join(self.runtime, "a"))
        self.assertNotIn("CUDA_VISIBLE_DEVICES", env)

    def test_library(self):
        library = self.ok("run", "--", "sh", "-c", "echo $LD_PRELOAD").strip()
        copy = self.path("liballot.so")
        shutil.copy(library, copy)
        env = {"ALLOT_LIBRARY": copy}
        self.assertEqual(self.ok("run", "--", "sh", "-c", "echo $LD_PRELOAD", env=env), copy + "\n")
        self.fails(125, "run", "--", "true", env={"ALLOT_LIBRARY": "/no/such"},
                   says=("ALLOT_LIBRARY=/no/such",))
        spaced = self.path("a b")
        shutil.copy(library, spaced)
        self.fails(125, "run", "--", "true", env={"ALLOT_LIBRARY": spaced}, says=("space",))

    def test_nested(self):
        self.fails(125, "run", "--name", "outer", "--", ALLOT, "run", "--", "true",
                   says=("already inside", '"outer"'))
        self.ok("run", "--", ALLOT, "run", "--allow-escape", "--", "true")


class Escape(cli_lib.Case):
    def refused(self, path, why):
        self.fails(125, "run", "--", path, says=("would escape", why, "--allow-escape"))
        done = self.allot("doctor", "--", path)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, f"(?m)^FAIL .*would escape.*{why}")

    def test_static(self):
        if not cli_lib.STATIC:
            self.skipTest("no static libc")
        self.refused(cli_lib.STATIC, "static")
        done = self.allot("run", "--allow-escape", "--", cli_lib.STATIC)
        self.assertEqual(done.returncode, 3)
        self.assertIn("warning", done.stderr)

    def test_scripts_are_followed(self):
        if not cli_lib.STATIC:
            self.skipTest("no static libc")
        self.refused(self.path("one", f"#!{cli_lib.STATIC}\n"), "static")
        self.refused(self.path("two", f"#! {self.path('one')} -x\n"), "static")
        os.symlink(cli_lib.STATIC, self.path("interp"))
        self.env["PATH"] = self.tmp + ":" + self.env["PATH"]
        self.refused(self.path("three", "#!/usr/bin/env -S A=1 interp -u\n"), "static")

    def test_fine_scripts(self):
        self.assertEqual(self.ok("run", "--", self.path("a", "#!/bin/sh\necho a\n")), "a\n")
        self.assertEqual(self.ok("run", "--", self.path("b", "#!/usr/bin/env sh\necho b\n")), "b\n")
        self.assertEqual(self.ok("run", "--", self.path("c", "echo c\n")), "c\n")
        script = self.path("d", "#!/usr/bin/env -S -u NO_SUCH_PROGRAM sh\necho d\n")
        self.assertEqual(self.ok("run", "--", script), "d\n")

    def patched(self, name, old, new):
        with open("/bin/true", "rb") as file:
            data = file.read()
        self.assertIn(old, data)
        with open(self.path(name), "wb") as out:
            out.write(data.replace(old, new + b"\0" * (len(old) - len(new)), 1))
        os.chmod(self.path(name), 0o755)
        return self.path(name)

    def test_other_libc(self):
        with open("/bin/true", "rb") as file:
            if b"/lib64/ld-linux-x86-64.so.2" not in file.read():
                self.skipTest("another machine")
        self.refused(self.patched("musl", b"/lib64/ld-linux-x86-64.so.2",
                                  b"/lib/ld-musl-x86_64.so.1"),
                     "another libc")

    def test_failed_exec_leaves_nothing(self):
        """Fit to be executed by all that can be seen, but for the linker that it asks for."""
        path = self.patched("musl", b"/lib64/ld-linux-x86-64.so.2", b"/lib/ld-no-such.so")
        done = self.allot("run", "--allow-escape", "--", path)
        self.assertEqual(done.returncode, 127)
        self.assertIn("interpreter", done.stderr)
        self.assertEqual(os.listdir(self.runtime), [])

    def test_other_machine(self):
        self.refused(self.patched("elf32", b"\x7fELF\x02", b"\x7fELF\x01"), "word size")

    def test_setuid(self):
        if os.geteuid():
            self.skipTest("needs root to make one")
        path = self.path("suid")
        shutil.copy("/bin/true", path)
        os.chown(path, 1, 1)
        os.chmod(path, 0o4755)
        self.refused(path, "setuid")
        os.chmod(path, 0o2755)
        self.refused(path, "setuid")
        os.chmod(path, 0o755)
        self.ok("run", "--", path)

    def test_the_linker_itself(self):
        linker = "/lib64/ld-linux-x86-64.so.2"
        if not os.path.exists(linker):
            self.skipTest("another machine")
        self.ok("run", "--", linker, "/bin/true")


class Tenants(cli_lib.Case):
    def test_join(self):
        self.ok("run", "--name", "a", "--memory", "8GiB", "--", "true")
        done = self.allot("run", "-v", "--name", "a", "--", "true")
        self.assertIn("tenant a (joined)", done.stderr)
        self.assertIn("each device: 8 GiB", done.stderr)

    def test_new_limits_only_while_nobody_lives(self):
        self.ok("run", "--name", "a", "--memory", "8GiB", "--", "true")
        self.ok("run", "--name", "a", "--memory", "4GiB", "--", "true")
        holder = self.hold("a")
        self.fails(125, "run", "--name", "a", "--memory", "2GiB", "--", "true",
                   says=("is running", "4 GiB", "allot set a --memory 2GiB"))
        self.fails(125, "run", "--name", "a", "--accounting", "driver", "--", "true",
                   says=("is running",))
        self.ok("run", "--name", "a", "--memory", "4GiB", "--", "true")
        holder.kill()
        holder.wait()
        self.ok("run", "--name", "a", "--memory", "2GiB", "--", "true")

    def test_new_shares_only_while_nobody_lives(self):
        self.ok("run", "--name", "a", "--memory", "4GiB", "--compute", "25", "--", "true")
        self.ok("run", "--name", "a", "--compute", "30", "--", "true")
        holder = self.hold("a")
        for args, hint in ((("--compute", "50"), "allot set a --compute 50"),
                           (("--weight", "2"), "allot set a --weight 2"),
                           (("--compute", "off"), "allot set a --compute off"),
                           (("--memory", "4GiB", "--policy", "share"),
                            "allot set a --memory 4GiB --policy share")):
            self.fails(125, "run", "--name", "a", *args, "--", "true",
                       says=("is running", "4 GiB", "compute cap 30%", hint))
        for args in ((), ("--compute", "30"), ("--policy", "cap"), ("--priority", "normal")):
            done = self.allot("run", "-v", "--name", "a", *args, "--", "true")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("each device: 4 GiB, compute cap 30%\n", done.stderr)
        holder.kill()
        holder.wait()
        done = self.allot("run", "-v", "--name", "a", "--compute", "off", "--", "true")
        self.assertIn("each device: 4 GiB\n", done.stderr)

    def test_unusable(self):
        self.ok("run", "--name", "a", "--", "true")
        with open(os.path.join(self.runtime, "a", "ledger"), "r+b") as file:
            file.truncate(100)
        self.fails(125, "run", "--name", "a", "--", "true", says=('"a"', "another version"))
        self.assertIn('"a"', self.allot("ps").stderr)

    def test_foreign_runtime_dir(self):
        os.mkdir(self.runtime)
        os.chmod(self.runtime, 0o777)
        self.fails(125, "run", "--", "true", says=(self.runtime, "0700"))

    def test_runtime_dir_that_cannot_be(self):
        self.fails(125, "run", "--", "true", env={"ALLOT_RUNTIME_DIR": "/proc/allot"},
                   says=("/proc/allot", "ALLOT_RUNTIME_DIR"))

    def test_long_runtime_dir(self):
        self.fails(125, "run", "--", "true", env={"ALLOT_RUNTIME_DIR": "/tmp/" + "x" * 200},
                   says=("ALLOT_RUNTIME_DIR",))

    def test_bad_days(self):
        """A full disk, a read-only one, no descriptors left: said, and nothing stays behind."""
        mount = f"mount -t tmpfs -o size=64k,mode=700 none {self.runtime}"
        os.mkdir(self.runtime, 0o700)
        cases = [(f"ulimit -n 5; exec {ALLOT} run -- true", "ulimit -n")]
        unshare = ["unshare", "--mount", "sh", "-c"]
        if not subprocess.run([*unshare, mount], capture_output=True, check=False).returncode:
            end = f"exec {ALLOT} run -- true"
            cases += [(f"{mount} && {end}", "make room"),
                      (f"{mount} && mount -o remount,ro {self.runtime} && {end}", "Read-only")]
        for script, words in cases:
            done = subprocess.run([*(unshare if "mount" in script else ["sh", "-c"]), script],
                                  env=self.env, capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 125, done.stderr)
            self.assertIn(words, done.stderr)
            self.assertEqual(os.listdir(self.runtime), [])

    def age(self, name):
        old = time.time() - 3600
        os.utime(os.path.join(self.runtime, name, "owner"), (old, old), follow_symlinks=False)

    def names(self):
        return sorted(os.listdir(self.runtime))

    def test_generated_tenants_go(self):
        self.ok("run", "--", "true")
        (name,) = self.names()
        self.assertRegex(name, r"^run-\d+-[0-9a-f]{6}$")
        self.assertIn("no tenants", self.ok("ps"))
        self.assertEqual(self.names(), [name], "swept within the grace")
        self.age(name)
        self.ok("ps")
        self.assertEqual(self.names(), [])

    def test_generated_tenants_stay_while_used(self):
        process = self.start(ALLOT, "run", "--", "sh", "-c", "echo up; read x")
        process.stdout.readline()
        (name,) = self.names()
        self.age(name)
        self.assertIn(name, self.ok("ps"), "its first process lives, though without a GPU")
        holder = self.hold(name, f"{UUID_A}:data:{MIB}")
        process.kill()
        process.wait()
        self.assertIn(name, self.ok("ps"), "another process lives")
        holder.kill()
        holder.wait()
        self.ok("run", "--name", "other", "--", "true")
        self.ok("run", "--", "true")
        self.assertNotIn(name, self.names())
        self.assertIn("other", self.names())

    def test_many_at_once(self):
        processes = [subprocess.Popen([ALLOT, "run", "--name", "a", "--memory", "1G", "--", "true"],
                                      env=self.env) for _ in range(20)]
        self.assertEqual([p.wait(60) for p in processes], [0] * 20)
        self.assertEqual(self.names(), ["a"])


if __name__ == "__main__":
    cli_lib.main()
