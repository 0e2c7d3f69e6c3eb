# SPDX-License-Identifier: Apache-2.0
"""allot sim: statuses, signals, the devices' directory; allot run inside it chooses devices."""

import glob
import json
import os
import re
import signal
import subprocess
import unittest

import cli_lib
from cli_lib import ALLOT

AS_USER = ("setpriv", "--reuid=12345", "--regid=12345", "--clear-groups")


class Sim(cli_lib.Case):
    def test_status(self):
        for status in (0, 3, 125, 255):
            self.assertEqual(self.allot("sim", "--", "sh", "-c", f"exit {status}").returncode,
                             status)
        self.fails(127, "sim", "--", "no-such-command", says=("no-such-command",))
        self.fails(126, "sim", "--", self.path("plain", "x", 0o644))

    def test_vulkan(self):
        """Vulkan's loader is led to the simulated driver, unless the user named others."""
        if not glob.glob("/etc/vulkan/icd.d/lvp_icd.*json") + glob.glob(
                "/usr/share/vulkan/icd.d/lvp_icd.*json"):
            self.skipTest("no lavapipe is installed")
        script = 'echo "$VK_DRIVER_FILES|$VK_ICD_FILENAMES"'
        first, second = self.ok("sim", "--", "sh", "-c", script).strip().split("|")
        self.assertEqual(first, second)
        with open(first, encoding="utf-8") as file:
            library = json.load(file)["ICD"]["library_path"]
        self.assertTrue(os.path.isfile(os.path.join(os.path.dirname(first), library)))
        self.env["VK_ICD_FILENAMES"] = "/own.json"
        self.assertEqual(self.ok("sim", "--", "sh", "-c", script).strip(), "|/own.json")

    def test_ends_by_the_commands_signal(self):
        for sig in (signal.SIGTERM, signal.SIGKILL, signal.SIGUSR1, signal.SIGSEGV, signal.SIGINT):
            done = self.allot("sim", "--", "sh", "-c", f"kill -{int(sig)} $$")
            self.assertEqual(done.returncode, -sig)

    def test_signals_are_forwarded(self):
        for name in ("TERM", "INT", "HUP", "QUIT", "USR1", "USR2", "WINCH", "CONT"):
            script = (f"trap 'echo got; exit 9' {name}; echo $ALLOT_SIM_DIR; "
                      "while :; do sleep 0.05; done")
            process = self.start(ALLOT, "sim", "--", "sh", "-c", script)
            directory = process.stdout.readline().strip()
            self.assertTrue(os.path.isdir(directory))
            process.send_signal(getattr(signal, "SIG" + name))
            self.assertEqual(process.stdout.readline(), "got\n")
            self.assertEqual(process.wait(100), 9)
            self.assertFalse(os.path.exists(directory))

    def test_terminal(self):
        """Control-C reaches the command, which decides; the directory goes all the same."""
        pid, fd = cli_lib.fork_on_terminal()
        if not pid:
            script = "trap 'exit 9' INT; echo up $ALLOT_SIM_DIR; while :; do sleep 0.05; done"
            os.execve(ALLOT, [ALLOT, "sim", "--", "sh", "-c", script], self.env)
        out = b""
        while b"\n" not in out:
            out += os.read(fd, 1024)
        directory = out.split()[1].decode()
        self.assertTrue(os.path.isdir(directory))
        os.write(fd, b"\x03")
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 9)
        os.close(fd)
        self.assertFalse(os.path.exists(directory))

    def test_stops_and_goes_on_with_the_command(self):
        script = "trap 'echo on' CONT; echo up; kill -STOP $$; echo end"
        process = self.start(ALLOT, "sim", "--", "sh", "-c", script)
        self.assertEqual(process.stdout.readline(), "up\n")
        pid, status = os.waitpid(process.pid, os.WUNTRACED)
        self.assertEqual(pid, process.pid)
        self.assertTrue(os.WIFSTOPPED(status))
        process.send_signal(signal.SIGCONT)
        self.assertIn("end\n", process.stdout.read())
        self.assertEqual(process.wait(100), 0)

    def test_ignored_sigchld(self):
        """Whoever starts allot with SIGCHLD ignored gets the status all the same."""
        done = subprocess.run([ALLOT, "sim", "--", "sh", "-c", "exit 4"], env=self.env, check=False,
                              preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
        self.assertEqual(done.returncode, 4)

    def test_command_gets_a_clean_mask(self):
        self.assertRegex(self.ok("sim", "--", "grep", "SigBlk", "/proc/self/status"),
                         "SigBlk:\t0+\n")

    def test_private_directory(self):
        out = self.ok("sim", "--gpus", "2", "--memory", "3GiB", "--context", "1M", "--", "sh", "-c",
                      "echo $ALLOT_SIM_DIR $ALLOT_SIM_GPUS $ALLOT_SIM_MEMORY $ALLOT_SIM_CONTEXT; "
                      "mkdir -p $ALLOT_SIM_DIR/a/b; touch $ALLOT_SIM_DIR/a/b/c")
        directory, *rest = out.split()
        self.assertEqual(rest, ["2", str(3 << 30), str(1 << 20)])
        self.assertFalse(os.path.exists(directory))

    def test_number_of_devices(self):
        """All that the option takes are there; of a larger number both who read it say the bound."""
        self.assertEqual(self.ok("sim", "--gpus", "16", "--", ALLOT, "topo").count("GPU-"), 16)
        self.fails(125, "sim", "--gpus", "17", "--", "true", says=("from 1 to 16",))
        done = self.allot("sim", "--", "env", "ALLOT_SIM_GPUS=17", ALLOT, "topo")
        self.assertIn("ALLOT_SIM_GPUS=17 is not a number from 1 to 16", done.stdout + done.stderr)

    def test_named_directory_stays(self):
        directory = self.path("devices")
        for _ in range(2):
            out = self.ok("sim", "--dir", directory, "--", "sh", "-c", "echo $ALLOT_SIM_DIR")
            self.assertEqual(out, directory + "\n")
        self.assertTrue(os.path.isdir(directory))

    def test_shared(self):
        """With other users, who cannot put anything in the place of the devices."""
        out = self.ok("sim", "--shared", "--", "sh", "-c",
                      "cd $ALLOT_SIM_DIR; stat -c '%a %n' . *")
        self.assertEqual(out, "755 .\n600 alive\n666 region\n")
        self.fails(125, "sim", "--shared", "--amd", "1", "--", "true", says=("--shared", "--amd"))
        if cli_lib.NO_USERS:
            self.skipTest(cli_lib.NO_USERS)
        for shared, opened in (((), False), (("--shared",), True)):
            done = self.allot("sim", *shared, "--", *AS_USER, ALLOT, "topo",
                              env={"ALLOT_RUNTIME_DIR": ""})
            self.assertEqual("allot simulated GPU" in done.stdout, opened, done.stderr)

    @unittest.skipIf(cli_lib.NO_USERS, cli_lib.NO_USERS)
    def test_shared_in_another_users_directory(self):
        os.chmod(self.tmp, 0o755)
        directory = self.path("devices")
        command = (*AS_USER, ALLOT, "sim", "--dir", directory, "--", ALLOT, "topo")
        for shared, says in (((), "--shared"), (("--shared",), "allot simulated GPU")):
            self.ok("sim", *shared, "--dir", directory, "--", "true")
            done = subprocess.run(command, env={**self.env, "ALLOT_RUNTIME_DIR": ""}, text=True,
                                  capture_output=True, timeout=60, check=False)
            self.assertIn(says, done.stdout + done.stderr)

    def test_shared_in_a_named_directory(self):
        directory = self.path("devices")
        for _ in range(2):
            self.ok("sim", "--shared", "--dir", directory, "--", "true")
        self.assertEqual(os.stat(os.path.join(directory, "region")).st_mode & 0o777, 0o666)
        with open(os.path.join(directory, "region"), "w", encoding="ascii") as region:
            region.write("another version's")
        self.fails(125, "sim", "--shared", "--dir", directory, "--", "true",
                   says=("--shared", "another version's", directory))

    def test_libraries(self):
        out = self.ok("sim", "--", "sh", "-c", "echo $LD_LIBRARY_PATH",
                      env={"LD_LIBRARY_PATH": "/some where:/other"})
        first, *rest = out.strip().split(":")
        self.assertEqual(rest, ["/some where", "/other"])
        self.assertTrue(os.path.exists(os.path.join(first, "libcuda.so.1")))
        self.fails(125, "sim", "--", "true", env={"ALLOT_SIM_LIBRARY_DIR": "/no/such"},
                   says=("ALLOT_SIM_LIBRARY_DIR",))

    def test_runtime_dir_for_who_has_none(self):
        if os.geteuid() == 0:
            self.skipTest("root has one")
        out = self.ok("sim", "--", "sh", "-c", "echo $ALLOT_RUNTIME_DIR",
                      env={"ALLOT_RUNTIME_DIR": ""})
        self.assertRegex(out, "^/.*/tenants\n$")


class Devices(cli_lib.Case):
    """--gpu and --memory against three simulated devices."""

    def setUp(self):
        super().setUp()
        self.directory = self.path("devices")
        out = self.sim("doctor").stdout
        self.uuids = re.findall(r"GPU \d: .*(GPU-[0-9a-f-]{36})", out)
        self.assertEqual(len(self.uuids), 3, out)

    def sim(self, *args, env=None):
        return self.allot("sim", "--gpus", "3", "--memory", "24GiB", "--dir", self.directory, "--",
                          ALLOT, *args, env=env)

    def visible(self, *args, env=None):
        done = self.sim("run", *args, "--", "sh", "-c", 'echo "$CUDA_VISIBLE_DEVICES"', env=env)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def refused(self, *args, says, env=None):
        done = self.sim("run", *args, "--", "true", env=env)
        self.assertEqual(done.returncode, 125)
        for word in says:
            self.assertIn(word, done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1)

    def test_leftovers_of_the_dead(self):
        """Whose command was killed, too; those of the living stay."""
        found = []
        for _ in range(2):
            process = self.start(ALLOT, "sim", "--", "sh", "-c", "echo $ALLOT_SIM_DIR $$; read x")
            found.append((process, *process.stdout.readline().split()))
        (dead, gone, pid), (_, stays, _) = found
        dead.kill()
        dead.wait()
        self.ok("sim", "--", "true")
        self.assertTrue(os.path.exists(gone), "its command lives")
        os.kill(int(pid), signal.SIGKILL)
        cli_lib.wait_for(lambda: not os.path.exists(f"/proc/{pid}") or
                         not os.listdir(f"/proc/{pid}/fd"))
        self.ok("sim", "--", "true")
        self.assertFalse(os.path.exists(gone))
        self.assertTrue(os.path.exists(stays))

    def test_less_than_a_context(self):
        for context, says in (("", "about 520 MiB"), ("64MiB", "about 64 MiB"), ("8MiB", "")):
            done = self.allot("sim", *(("--context", context) if context else ()), "--", ALLOT,
                              "run", "--memory", "32MiB", "--", "true")
            self.assertEqual(done.returncode, 0)
            self.assertIn(says, done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), bool(says), done.stderr)

    def test_words(self):
        a, b, c = self.uuids
        for words, chosen in (("all", (a, b, c)), ("0-1", (a, b)), ("1-2,0", (b, c, a)),
                              ("2-2", (c,)), ("nvidia1", (b,)), (c[:12], (c,)),
                              (f"{a[:10].lower()},nvidia2", (a, c))):
            self.assertEqual(self.visible("--gpu", words), ",".join(chosen), words)
        for bad in ("1-0", "0-3", "nvidia3", "nvidia", "all,0", "0-1,1", "GPU-zz", "-1", "0-"):
            self.refused("--gpu", bad, says=("--gpu",))

    def test_order_is_the_callers(self):
        a, b, c = self.uuids
        self.assertEqual(self.visible("--gpu", "2,0"), f"{c},{a}")
        self.assertEqual(self.visible("--gpu", f"{b},0"), f"{b},{a}")
        self.assertEqual(self.visible("--gpu", b.upper().replace("GPU-", "GPU-")), b)
        self.assertEqual(self.visible("--memory", "1G"), "")

    def test_limits_by_position(self):
        a, _, c = self.uuids
        done = self.sim("run", "-v", "--gpu", "2,0", "--memory", "8GiB,25%", "--", "true")
        self.assertIn(f"{c}: 8 GiB\n", done.stderr)
        self.assertIn(f"{a}: 25%\n", done.stderr)
        done = self.sim("run", "-v", "--gpu", "2,0", "--memory", "1GiB", "--", "true")
        self.assertEqual(done.stderr.count(": 1 GiB\n"), 2)

    def test_shares_by_position(self):
        a, _, c = self.uuids
        done = self.sim("run", "-v", "--gpu", "2,0", "--compute", "25,50", "--", "true")
        self.assertIn(f"{c}: no limit, compute cap 25%\n", done.stderr)
        self.assertIn(f"{a}: no limit, compute cap 50%\n", done.stderr)
        done = self.sim("run", "-v", "--memory", "1GiB", "--compute", "10,20,30", "--", "true")
        for uuid, share in zip(self.uuids, (10, 20, 30)):
            self.assertIn(f"{uuid}: 1 GiB, compute cap {share}%\n", done.stderr)

    def test_bad_gpu(self):
        self.refused("--gpu", "3", says=('--gpu "3"', "0 to 2", "--gpu 0,1"))
        self.refused("--gpu", "0,1,2,3", says=('"0,1,2,3"', "GPU 3"))
        self.refused("--gpu", "0,0", says=("second time",))
        self.refused("--gpu", f"0,{self.uuids[0]}", says=("second time",))
        self.refused("--gpu", cli_lib.UUID_B, says=(cli_lib.UUID_B,))
        for bad in ("x", "", "0,", "-1", "GPU-1234", "1.0", " 0"):
            self.refused("--gpu", bad, says=("--gpu", "--gpu 0,1"))

    def test_counts(self):
        self.refused("--gpu", "0", "--memory", "1G,2G", says=("2 values for 1 device",))
        self.refused("--gpu", "0,1,2", "--memory", "1G,2G", says=("2 values for 3 devices",))
        self.refused("--memory", "1G,2G", says=("2 values for 3 devices",))
        self.refused("--memory", "1G,2G,3G,4G", says=("4 values for 3 devices",))
        self.refused("--gpu", "0", "--compute", "25,50",
                     says=("--compute", "2 values for 1 device"))
        self.refused("--compute", "1,2,3,4", says=("--compute", "4 values for 3 devices"))
        self.refused("--memory", "1G,2G,3G", "--compute", "25,50",
                     says=("--compute", "2 values for 3"))

    def test_more_than_the_device(self):
        done = self.sim("run", "--gpu", "0", "--memory", "25GiB", "--", "true")
        self.assertEqual(done.returncode, 0)
        self.assertIn("24 GiB are the limit", done.stderr)
        self.assertEqual(self.sim("run", "--gpu", "0", "--memory", "24GiB", "--", "true").stderr,
                         "")

    def test_cuda_visible_devices(self):
        a, b, c = self.uuids
        self.assertEqual(self.visible("--memory", "1G", env={"CUDA_VISIBLE_DEVICES": "1,0"}), "1,0")
        self.assertEqual(self.visible("--gpu", "0", env={"CUDA_VISIBLE_DEVICES": "1,0"}), a)
        self.refused("--gpu", "2", env={"CUDA_VISIBLE_DEVICES": "1,0"}, says=("1,0", "GPU 2"))
        self.refused("--gpu", "1", env={"CUDA_VISIBLE_DEVICES": "0,7,1"}, says=("GPU 1",))
        self.assertEqual(self.visible("--gpu", "2", env={"CUDA_VISIBLE_DEVICES": c[:9]}), c)
        done = self.sim("run", "-v", "--memory", "1G,2G", "--", "true",
                        env={"CUDA_VISIBLE_DEVICES": "1,0"})
        self.assertIn(f"{b}: 1 GiB\n", done.stderr)
        self.assertIn(f"{a}: 2 GiB\n", done.stderr)

    def keep(self, *options):
        done = self.sim("run", "--print-env", "--name", "t", *options)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_joining_sees_the_same_devices(self):
        a, _, c = self.uuids
        self.keep("--gpu", "2,0", "--memory", "1G,2G")
        self.assertEqual(self.visible("--name", "t"), f"{c},{a}")
        self.assertEqual(self.visible("--name", "t", "--gpu", "0"), a)
        self.refused("--name", "t", "--gpu", "1", says=('"t"', "GPU 1"))
        self.refused("--name", "t", "--memory", "1G,2G,3G", says=("3 values for 2 devices",))
        self.refused("--name", "t", "--gpu", "1", "--memory", "1G", says=("other devices",))
        self.assertEqual(self.visible("--name", "t", "--gpu", "2,0", "--memory", "1G,2G"),
                         f"{c},{a}")

    def test_joining_takes_nothing_away(self):
        """Devices and limits given anew, in part: the tenant stays what it is."""
        self.keep("--gpu", "0,1", "--memory", "1G,2G", "--compute", "10,20")
        for args, says in ((("--gpu", "1", "--compute", "30"), "other devices"),
                           (("--gpu", "1,0", "--compute", "30"), "other devices"),
                           (("--compute", "10,30"), "cap 20% (asked: cap 30%)"),
                           (("--memory", "3G,2G"), "memory 1 GiB (asked: 3 GiB)")):
            self.refused("--name", "t", *args, says=('"t" lives', says))
        self.ok("rm", "t")
        _, b, c = self.uuids
        done = self.sim("run", "-v", "--name", "t", "--gpu", "2,1", "--memory", "3G", "--", "true")
        self.assertIn(f"{c}: 3 GiB\n", done.stderr)
        self.assertIn(f"{b}: 3 GiB\n", done.stderr)


if __name__ == "__main__":
    cli_lib.main()
