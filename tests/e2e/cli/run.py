# SPDX-License-Identifier: Apache-2.0
"""allot run: what the command gets, how it ends, tenants that come, are joined, and go."""

import json
import os
import shutil
import signal
import subprocess
import sys

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
            self.assertEqual(process.wait(100), -sig)

    def test_nothing_inherited(self):
        """No descriptor but that which the tenant lives by, no changed mask, no changed umask."""
        umask = os.umask(0o027)
        try:
            out = self.ok("run", "--", "sh", "-c",
                          "ls /proc/self/fd; umask; grep SigBlk /proc/self/status")
        finally:
            os.umask(umask)
        fds, rest = out.split("\n0027\n")
        self.assertEqual(sorted(map(int, fds.split())), [0, 1, 2, 3, 100])  # 3 is ls's own
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
        preload = self.ok("run", "--", "sh", "-c", "echo $LD_PRELOAD", env=env).strip()
        self.assertEqual(os.path.normpath(preload), copy)
        self.fails(125, "run", "--", "true", env={"ALLOT_LIBRARY": "/no/such"},
                   says=("ALLOT_LIBRARY=/no/such",))
        spaced = self.path("a b")
        shutil.copy(library, spaced)
        self.fails(125, "run", "--", "true", env={"ALLOT_LIBRARY": spaced},
                   says=(spaced, "a space or a colon", "to a copy"))
        self.assertRegex(self.allot("doctor", env={"ALLOT_LIBRARY": spaced}).stdout,
                         f'FAIL +"{spaced}" is in a path with a space.*\n.*to a copy')
        self.fails(125, "cdi", "generate", "--dir", self.tmp, "8GiB",
                   env={"ALLOT_LIBRARY": spaced}, says=(spaced, "a space or a colon"))

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

    def test_launchers(self):
        for name, *wrappers in (("docker",), ("ssh",), ("sbatch",), ("apptainer",),
                                ("singularity",), ("docker", "env", "-u", "C", "A=b"),
                                ("ssh", "timeout", "-s", "KILL", "9"),
                                ("srun", "nice", "-n", "5", "setsid", "stdbuf", "-o", "L", "-eL")):
            script = self.path(name, "#!/bin/sh\nexit 7\n")
            with self.subTest(name=name, wrappers=wrappers):
                done = self.allot("run", "--", *wrappers, script)
                self.assertEqual(done.returncode, 7)
                self.assertRegex(done.stderr,
                                 f"^allot run: warning: what {name} starts is not limited.*\n$")
        self.assertEqual(self.allot("run", "--", "env", "echo", "ssh").stderr, "")
        self.assertEqual(self.allot("run", "--", self.path("sshd", "#!/bin/sh\n")).stderr, "")

    def test_chroot(self):
        chroot = self.path("chroot", "#!/bin/sh\nexit 0\n")
        root = self.path("root")
        os.mkdir(root)
        self.fails(125, "run", "--", chroot, "--userspec=0:0", root, "true",
                   says=("would escape", f"{root} has no /", "--allow-escape"))
        unshare = self.path("unshare", "#!/bin/sh\nexit 0\n")
        for command in (("env", "A=b", chroot, root),
                        ("timeout", "9", unshare, "--mount", "--root", root),
                        (unshare, f"--root={root}", "--fork"), (unshare, "-S", "0", "-R", root)):
            with self.subTest(command=command):
                self.fails(125, "run", "--", *command, "true", says=(f"{root} has no /",))
        self.ok("run", "--", unshare, "--mount", "true")
        library = self.ok("run", "--", "sh", "-c", "echo $LD_PRELOAD").strip()
        os.makedirs(root + os.path.dirname(library))
        shutil.copy(library, root + library)
        self.ok("run", "--", "env", chroot, root, "true")

    def test_print_env(self):
        said = self.ok("run", "--print-env", "--name", "a", "--memory", "1GiB")
        env = dict(line.split("=", 1) for line in said.splitlines())
        self.assertEqual(env["ALLOT_TENANT_DIR"], os.path.join(self.runtime, "a"))
        self.assertTrue(env["LD_PRELOAD"].endswith("/liballot.so"))
        self.assertRegex(self.ok("ps"), "(?m)^a +kept +each +1 GiB")
        self.allot("doctor", "--sweep")
        self.assertEqual(os.listdir(self.runtime), ["a"])
        self.ok("rm", "a")
        self.fails(125, "run", "--print-env", says=("--name",))
        self.fails(125, "run", "--print-env", "--name", "a", "--", "true", says=("--print-env",))

    def test_the_linker_itself(self):
        linker = "/lib64/ld-linux-x86-64.so.2"
        if not os.path.exists(linker):
            self.skipTest("another machine")
        self.ok("run", "--", linker, "/bin/true")


class Tenants(cli_lib.Case):
    def test_join(self):
        self.living("a", "--memory", "8GiB")
        done = self.allot("run", "-v", "--name", "a", "--", "true")
        self.assertIn("tenant a (joined)", done.stderr)
        self.assertIn("each device: 8 GiB", done.stderr)
        self.assertEqual(self.allot("run", "--name", "a", "--memory", "8GiB", "--", "true").stderr,
                         "allot run: joined tenant a: memory 8 GiB, compute off\n")

    def test_options_of_the_dead_do_not_stick(self):
        self.ok("run", "--name", "a", "--memory", "2GiB", "--weight", "1", "--priority", "high",
                "--accounting", "driver", "--", "true")
        done = self.allot("run", "-v", "--name", "a", "--compute", "25", "--", "true")
        self.assertIn("tenant a (new)", done.stderr)
        self.assertIn("each device: no limit, compute cap 25%\n", done.stderr)
        self.assertIn("accounting: ledger\n", done.stderr)

    def test_other_options_are_refused(self):
        self.living("a", "--memory", "4GiB", "--compute", "30")
        for args, says in (
                (("--memory", "2GiB"), ("memory 4 GiB (asked: 2 GiB)", "allot set a --memory 2GiB")),
                (("--compute", "50"), ("compute cap 30% (asked: cap 50%)",
                                       "allot set a --compute 50")),
                (("--weight", "2"), ("cap 30%, weight 2", "allot set a --weight 2")),
                (("--compute", "off"), ("(asked: off)", "allot set a --compute off")),
                (("--memory", "4GiB", "--policy", "share"),
                 ("allot set a --memory 4GiB --policy share",)),
                (("--accounting", "driver"), ("accounting ledger (asked: driver)", "has ended"))):
            self.fails(125, "run", "--name", "a", *args, "--", "true",
                       says=('tenant "a" lives', *says))
        for args in ((), ("--compute", "30"), ("--policy", "cap"), ("--priority", "normal"),
                     ("--memory", "4096MiB")):
            done = self.allot("run", "-v", "--name", "a", *args, "--", "true")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("each device: 4 GiB, compute cap 30%\n", done.stderr)
        self.assertIn("4 GiB", self.ok("ps", "a"))

    def test_unusable(self):
        self.living("a")
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

    def names(self):
        return sorted(name for name in os.listdir(self.runtime) if name != ".ended")

    def state(self, name):
        out = self.allot("ps", name)
        return out.stdout.splitlines()[1].split()[1] if out.returncode == 0 else "ended"

    def test_tenants_go(self):
        for name in ((), ("--name", "a")):
            self.ok("run", *name, "--", "true")
            (left,) = self.names()
            self.assertIn("no tenants", self.ok("ps"))
            self.assertEqual(self.names(), [])
            self.assertRegex(self.ok("ps", "--ended"), rf"(?m)^{left} +\d{{4}}-.* none +0$")

    def test_tenants_stay_while_used(self):
        process = self.start(ALLOT, "run", "--", "sh", "-c", "echo up; read x")
        process.stdout.readline()
        (name,) = self.names()
        self.assertEqual(self.state(name), "idle")
        holder = self.hold(name, f"{UUID_A}:data:{MIB}")
        self.assertEqual(self.state(name), "running")
        process.kill()
        process.wait()
        self.assertEqual(self.state(name), "running")
        holder.kill()
        holder.wait()
        self.assertEqual(self.state(name), "ended")

    def test_a_tenant_lives_as_long_as_its_tree(self):
        """A tree that leaves its session, closes all that it has, forks without exec, or forgets
        its environment; and the command itself is killed."""
        ways = {
            "session": "setsid sh -c 'echo $$; exec sleep 60' <&- & wait",
            "closed": f"exec {sys.executable} -c 'import os; os.closerange(3, 4096); "
                      "print(os.getpid(), flush=True); os.read(0, 1)'",
            "daemon": f"{sys.executable} -c 'import os, time\nif os.fork(): os._exit(0)\nos.setsid()"
                      "\nif os.fork(): os._exit(0)\nprint(os.getpid(), flush=True)"
                      "\nos.closerange(0, 4096)\ntime.sleep(60)'; read x",
            "forgetful": "exec env -i sh -c 'echo $$; exec sleep 60'",
        }
        for way, script in ways.items():
            with self.subTest(way):
                process = self.start(ALLOT, "run", "--name", way, "--memory", "2GiB", "--", "sh",
                                     "-c", script)
                last = int(process.stdout.readline())
                if last != process.pid:
                    process.kill()
                    process.wait()
                self.addCleanup(self.end, last)
                self.assertEqual(self.state(way), "idle")
                self.allot("doctor", "--sweep")
                self.fails(125, "run", "--name", way, "--memory", "8GiB", "--", "true",
                           says=("2 GiB",))
                self.fails(125, "rm", way, says=("lives",))
                self.end(last)
                process.wait()
                cli_lib.wait_for(lambda: self.state(way) == "ended")

    def end(self, pid):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def test_rm(self):
        self.fails(125, "rm", "a", says=('"a"', "allot ps"))
        self.fails(125, "rm", "../a", says=("../a",))
        self.fails(125, "rm", says=("allot rm",))
        process = self.living("a")
        self.fails(125, "rm", "a", says=('"a" lives',))
        process.stdin.close()
        process.wait()
        self.assertEqual(self.names(), ["a"])
        self.assertEqual(self.ok("rm", "a"), "")
        self.assertEqual(self.names(), [])
        # Damaged ones, too, and by themselves as others that ended.
        for words in (("rm", "b"), ("ps",)):
            self.ok("run", "--name", "b", "--", "true")
            os.chmod(os.path.join(self.runtime, "b", "policy"), 0o600)
            os.truncate(os.path.join(self.runtime, "b", "policy"), 10)
            self.assertEqual(self.names(), ["b"])
            self.ok(*words)
            self.assertEqual(self.names(), [])

    def test_last_figures(self):
        shell = self.living("a", "--memory", "1GiB")
        holder = self.hold("a", f"{UUID_A}:data:{512 * MIB}", f"{UUID_A}:refuse:{MIB}",
                           f"{UUID_A}:busy:100")
        (tenant,) = json.loads(self.ok("ps", "--json"))["tenants"]
        self.assertEqual(tenant["devices"][0]["peak_bytes"], 512 * MIB)
        self.assertEqual(self.ok("ps", "--ended"),
                         f"no tenant that ended is remembered in {self.runtime}\n")
        for process in (holder, shell):
            process.kill()
            process.wait()
        self.assertIn("no tenants", self.ok("ps"))
        self.assertRegex(self.ok("ps", "--ended", "a"),
                         r"(?m)^a +\d{4}-.* GPU-11111111 +1 GiB +512 MiB +6\.2 s +1$")
        for form in ((), ("--json",)):
            self.fails(125, "ps", "--ended", *form, "a", "nosuch",
                       says=('"nosuch"', "ps --ended", self.runtime))
        self.ok("run", "--name", "b", "--", "true")
        self.ok("ps")
        named = json.loads(self.ok("ps", "--ended", "--json", "b"))["ended"]
        self.assertEqual([one["name"] for one in named], ["b"])
        ended = json.loads(self.ok("ps", "--ended", "--json", "a"))
        self.check_shape(ended["ended"][0], "ended", cli_lib.documented())
        self.assertEqual((ended["ended"][0]["peak_bytes"], ended["ended"][0]["refusals"]),
                         (512 * MIB, 1))
        # A line that a killed writer left does no harm.
        with open(os.path.join(self.runtime, ".ended"), "a", encoding="ascii") as file:
            file.write("\nb 17 nonsense")
        self.ok("run", "--name", "c", "--", "true")
        self.ok("ps")
        self.assertEqual([e["name"] for e in json.loads(self.ok("ps", "--ended", "--json"))["ended"]],
                         ["a", "b", "c"])

    def test_one_that_is_being_made(self):
        """A sweep leaves it alone, and remembers nothing of it."""
        for point in ("TENANT_NAMED", "TENANT_NOTED"):
            self.env["ALLOT_FAULT"] = point + "/STOP"
            making = self.start(ALLOT, "run", "--name", point, "--", "sh", "-c", "echo up; read x")
            del self.env["ALLOT_FAULT"]
            os.waitpid(making.pid, os.WUNTRACED)
            self.assertNotIn(point, self.ok("ps", "--ended"))
            self.assertIn(point, self.names())
            making.send_signal(signal.SIGCONT)
            self.assertEqual(making.stdout.readline(), "up\n")
            self.assertNotIn(point, self.ok("ps", "--ended"))
            making.communicate("\n")
            self.assertIn("no tenants", self.ok("ps"))
            self.assertEqual(self.ok("ps", "--ended").count(point), 1)

    def test_maker_killed(self):
        """Between the name and the note: whoever comes next waits a moment, and is not refused."""
        for words in (("run", "--name", "a", "--memory", "2GiB", "--", "true"), ("rm", "a")):
            done = self.allot("run", "--name", "a", "--memory", "1GiB", "--", "true",
                              env={"ALLOT_FAULT": "TENANT_NAMED"})
            self.assertEqual(done.returncode, -signal.SIGKILL)
            self.ok(*words)
        self.assertEqual(self.names(), [])

    def test_many_at_once(self):
        processes = [subprocess.Popen([ALLOT, "run", "--name", "a", "--memory", "1G", "--", "true"],
                                      env=self.env) for _ in range(20)]
        self.assertEqual([p.wait(60) for p in processes], [0] * 20)
        self.assertEqual(self.names(), ["a"])


if __name__ == "__main__":
    cli_lib.main()
