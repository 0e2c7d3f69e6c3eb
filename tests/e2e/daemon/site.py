# SPDX-License-Identifier: Apache-2.0
"""What allotd.conf gives: explained, refused where it is wrong, and held to."""

import json
import os
import re
import signal
import socket
import subprocess

import cli_lib
import daemon_lib
import users_lib
from users_lib import ALICE, BOB, MIB


class Site(users_lib.Case):
    def conf(self, text):
        return self.path("allotd.conf", text, 0o644)

    def site(self, text):
        """A daemon with that file."""
        return self.daemon(options=("--config", self.conf(text)))

    def check(self, *options):
        done = subprocess.run([daemon_lib.ALLOTD, "--check", *options], env=self.env, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=60,
                              check=False)
        return done.returncode, done.stdout, done.stderr

    def policy(self, name):
        return {t["name"]: t for t in json.loads(self.ok("ps", "--json"))["tenants"]}[name]

    def test_check(self):
        path = self.conf("[default]\nmemory-max = 16GiB\n")
        self.assertEqual(self.check("--config", path), (0,
            f"{path}:1: for all users, where nothing else is said:\n"
            f"{path}:2: a user's tenants have quotas of at most 16 GiB together on each device\n",
            ""))
        path = self.conf("[default]\nmemory-max = lots\ntenants = 2\n")
        status, _, error = self.check("--config", path)
        self.assertEqual(status, 1)
        self.assertIn(f"allotd: {path}:2: memory-max = lots: write a size, like 8GiB or 25%", error)
        self.assertIn(f"allotd: {path} is not in force", error)
        self.assertEqual(self.check("--config", self.path("none"))[0], 1)

    def test_installed(self):
        """The file that is installed limits nobody; without its "#" it is the manual's example."""
        source = os.environ["ALLOT_SOURCE"]
        with open(os.path.join(source, "deploy/systemd/allotd.conf"), encoding="utf-8") as file:
            text = file.read()
        with open(os.path.join(source, "man/allotd.8.scd"), encoding="utf-8") as file:
            (example,) = re.findall(r"For example:\n\n\t((?:.+\n)+)", file.read())
        example = [line.removesuffix("++").replace("\\[", "[") for line in example.splitlines()]
        self.assertEqual(re.findall(r"(?m)^#(\S.*)$", text), example)
        self.assertEqual(re.findall(r"(?m)^[^#\n].*$", text), [])
        self.assertEqual(self.check("--config", self.conf(text)),
                         (0, f"{self.path('allotd.conf')} has no line that limits users: they are not bounded\n", ""))
        text = re.sub(r"(?m)^#(?=\S)", "", text).replace("staff", "50")
        status, said, error = self.check("--config", self.conf(text))
        self.assertEqual((status, error), (0, ""))
        self.assertEqual(len(said.splitlines()), len(example))

    def test_check_of_defaults(self):
        """One that is above the bound of the same users would have each `allot run` of theirs refused."""
        path = self.conf("[default]\nmemory = 16GiB\nmemory-max = 8GiB\nweight = 2\n"
                         "[group 4711]\nweight-max = 1\n")
        status, _, error = self.check("--config", path)
        self.assertEqual(status, 1)
        self.assertIn(f"allotd: {path}:2: memory = 16 GiB: more than memory-max = 8 GiB in line 3: "
                      "whoever asks for none would be refused\n", error)
        self.assertIn(f"allotd: {path}:4: weight = 2: more than weight-max = 1 in line 6", error)
        done = subprocess.run([daemon_lib.ALLOTD, "--config", path], env=self.env, text=True,
                              capture_output=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 1)

    def test_check_of_none(self):
        """As the unit has it checked before it is read anew."""
        os.mkdir(self.path("etc"), 0o755)
        done = subprocess.run([*self.with_mounted(self.path("etc"), "/etc"), daemon_lib.ALLOTD,
                               "--check"], env=self.env, text=True, capture_output=True, timeout=60,
                              check=False)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0,
            "/etc/allot/allotd.conf is not there: users are not bounded\n", ""))

    def check_not_believed(self, path, wrong):
        """By --check and at the start."""
        for check in ((), ("--check",)):
            done = subprocess.run([daemon_lib.ALLOTD, *check, "--config", path], env=self.env, text=True,
                                  capture_output=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(f"{path} is not believed: {wrong}", done.stderr)

    def test_conf_that_others_can_change(self):
        """They would give themselves what they like."""
        path = self.conf("[default]\nmemory-max = 1GiB\n")
        os.chmod(path, 0o666)
        self.check_not_believed(path, f"{path}: others may write it")
        os.chmod(path, 0o644)
        os.chown(path, ALICE, ALICE)
        self.check_not_believed(path, f"{path}: another user owns it")
        os.mkdir(self.path("shared"))
        os.chmod(self.path("shared"), 0o777)
        inside = self.path("shared/conf", "[default]\ntenants = 1\n", 0o644)
        self.check_not_believed(inside, f"{self.path('shared')}: others may write this folder")
        os.symlink("shared/conf", self.path("link"))
        self.check_not_believed(self.path("link"), f"{self.path('shared')}: others may write")

    def test_conf_that_a_mount_protects(self):
        """The folder of a ConfigMap is open to all, on a mount that nobody writes; a file in it is reached by
        two links."""
        os.makedirs(self.path("map/..1"))
        self.path("map/..1/conf", "[default]\ntenants = 1\n", 0o644)
        os.symlink("..1", self.path("map/..data"))
        os.symlink("..data/conf", self.path("map/conf"))
        os.chmod(self.path("map"), 0o777)
        self.check_not_believed(self.path("map/conf"), self.path("map"))
        done = subprocess.run(["unshare", "--mount", "sh", "-ec", 'mount --bind "$1" "$1"\n'
                               'mount -o remount,bind,ro "$1"\nexec "$2" --check --config "$1/conf"', "sh",
                               self.path("map"), daemon_lib.ALLOTD], env=self.env, text=True,
                              capture_output=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_conf_that_leads_nowhere(self):
        """Whoever put the link there means limits."""
        os.makedirs(self.path("etc/allot"), 0o755)
        conf = self.path("etc/allot/allotd.conf")
        os.symlink("gone", conf)
        del self.env["ALLOT_RUNTIME_DIR"]
        for command, says in (((daemon_lib.ALLOTD, "--check"), "/etc/allot/gone: a symbolic link leads there"),
                              ((*users_lib.user(ALICE), cli_lib.ALLOT, "run", "--", "true"),
                               "no allotd runs, and by /etc/allot/allotd.conf"),
                              ((cli_lib.ALLOT, "doctor"), "/etc/allot/gone: a symbolic link leads there")):
            done = subprocess.run([*self.with_mounted(self.path("etc"), "/etc"), *command], env=self.env,
                                  text=True, capture_output=True, timeout=60, check=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(says, done.stdout + done.stderr)

    def test_reload_not_believed(self):
        daemon = self.site("[default]\nmemory-max = 1GiB\n")
        os.chmod(self.path("allotd.conf"), 0o666)
        self.assertIn("others may write it", self.reload(daemon, "what it said before stays in force"))
        self.user_fails(ALICE, "run", "--memory", "2GiB", "--", "true", says=["gives 1 GiB"])

    def begin_with_slow_file(self, *options):
        """The daemon, when it has said that its file does not answer, and has read it since."""
        path = self.path("allotd.conf")
        os.mkfifo(path, 0o644)
        with open(self.path("log"), "w", encoding="utf-8") as log:
            process = self.start(daemon_lib.ALLOTD, "--config", path, *options, stderr=log)
        cli_lib.wait_for(lambda: f"{path} has not been read for 5 s: " in self.log())
        with open(path, "w", encoding="ascii") as file:
            file.write("[default]\ntenants = 1\n")
        return process

    def test_slow_file_at_the_start(self):
        self.begin_with_slow_file("--listen", f"127.0.0.1:{self.port}")
        cli_lib.wait_for(lambda: "http://" in self.log())

    def test_check_of_a_slow_file(self):
        self.assertEqual(self.begin_with_slow_file("--check").wait(60), 0, self.log())

    def test_wrong_file(self):
        """Nothing begins: that is not the same as no bounds."""
        done = subprocess.run([daemon_lib.ALLOTD, "--config", self.conf("[default]\nx = 1\n")],
                              env=self.env, text=True, capture_output=True, timeout=60,
                              check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn(":2: x: there is no such key", done.stderr)
        self.assertFalse(os.path.exists(self.users))

    def test_no_socket(self):
        """Users would find no daemon, and begin without bounds: so it does not begin itself."""
        with open(self.users, "w", encoding="ascii"):
            pass
        done = subprocess.run([daemon_lib.ALLOTD, "--config", self.conf("[default]\ntenants = 1\n")],
                              env=self.env, text=True, capture_output=True, timeout=60,
                              check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("users have no tenants made in ", done.stderr)
        self.assertIn("allotd.conf would bound nobody: allotd does not begin", done.stderr)
        self.daemon(options=("--config", self.conf("# nothing\n")))

    def test_refusal_of_a_variable(self):
        """It names who asked: there is no option that could be left out."""
        self.site("[default]\nmemory-max = 1GiB\ncompute-max = 10%\n")
        for variable, option, words in (
                ("CUDA_TASK_PRIORITY=0", "--priority", "write --priority normal"),
                ("CUDA_OVERSUBSCRIBE=1", "--overcommit", "leave it out"),
                ("CUDA_DEVICE_MEMORY_LIMIT=2g", "--memory", "ask for less"),
                ("CUDA_DEVICE_SM_LIMIT=20", "--compute", "write --compute with less")):
            name, value = variable.split("=")
            self.env[name] = value
            self.user_fails(ALICE, "run", "--", "true",
                            says=[f"allotd refuses: {name} (as {option}): ", words])
            del self.env[name]
        self.env["CUDA_TASK_PRIORITY"] = "0"
        self.user_ok(ALICE, "run", "--priority", "normal", "--compute", "10", "--", "true")
        self.user_fails(ALICE, "run", "--priority", "high", "--compute", "10", "--", "true",
                        says=["allotd refuses: --priority: "])

    def test_without_the_daemon(self):
        """One that ends takes no bounds along."""
        self.end(self.site("[default]\nmemory-max = 1GiB\n"))
        self.user_fails(ALICE, "run", "--", "true", says=["allotd does not answer"])

    def reload(self, daemon, says):
        """What it says of the file as it is now; and to systemd, which waits for that."""
        before = len(self.log())
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(self.path("notify"))
            manager.settimeout(60)
            daemon.send_signal(signal.SIGHUP)
            for state in (b"RELOADING=1", b"READY=1"):
                self.assertEqual(manager.recv(100), state)
        os.unlink(self.path("notify"))
        self.assertIn(says, self.log()[before:])
        return self.log()[before:]

    def test_reload(self):
        """Whoever lives keeps what it has; who asks is held to what the file says now."""
        daemon = self.site("[default]\nmemory-max = 1GiB\n")
        self.alive(ALICE, "a")
        self.conf("[default]\nmemory-max = 512MiB\n")
        self.reload(daemon, "was read anew")
        self.assertEqual(self.quota(f"a@{ALICE}"), 1024 * MIB)
        self.user_ok(ALICE, "run", "--name", "a", "--", "true")
        self.user_fails(ALICE, "set", "a", "--weight", "2", says=["the site gives 512 MiB"])
        self.user_fails(ALICE, "run", "--", "true", says=["the site gives 512 MiB"])
        self.user_fails(BOB, "run", "--memory", "1GiB", "--", "true", says=["gives 512 MiB"])
        self.user_ok(ALICE, "set", "a", "--memory", "256MiB")
        self.user_ok(ALICE, "run", "--memory", "256MiB", "--", "true")
        self.conf("[default]\nmemory-max = 2GiB\n")
        self.reload(daemon, "was read anew")
        self.user_ok(ALICE, "set", "a", "--memory", "2GiB")

    def test_reload_wrong(self):
        """It loosens nothing, and ends nothing."""
        daemon = self.site("[default]\nmemory-max = 1GiB\n")
        path = self.conf("[default]\nmemory-max = 3GiB\nmemory-max = lots\n")
        for says in ("allotd.conf:3: memory-max: it was said before",
                     "allotd.conf cannot be read: No such file"):
            self.assertIn(says, self.reload(daemon, "what it said before stays in force"))
            self.user_fails(ALICE, "run", "--memory", "2GiB", "--", "true", says=["gives 1 GiB"])
            self.user_ok(ALICE, "run", "--memory", "1GiB", "--", "true")
            if os.path.exists(path):
                os.unlink(path)
        self.conf("[default]\nmemory-max = 2GiB\n")
        self.reload(daemon, "was read anew")
        self.user_ok(ALICE, "run", "--memory", "2GiB", "--", "true")

    def test_reload_of_none(self):
        """The usual file may come and go, as between two starts."""
        for name in ("etc", "etc/allot"):
            os.mkdir(self.path(name), 0o755)
        daemon = self.daemon(*self.with_mounted(self.path("etc"), "/etc"))
        path = self.path("etc/allot/allotd.conf", "[default]\nmemory-max = 1GiB\n", 0o644)
        self.reload(daemon, "/etc/allot/allotd.conf was read anew")
        self.user_fails(ALICE, "run", "--memory", "2GiB", "--", "true", says=["gives 1 GiB"])
        os.unlink(path)
        self.reload(daemon, "/etc/allot/allotd.conf is not there: users are not bounded")
        self.user_ok(ALICE, "run", "--memory", "2GiB", "--", "true")

    def test_memory(self):
        self.site("[default]\nmemory = 512MiB\nmemory-max = 1GiB\n")
        a = self.alive(ALICE, "a")
        self.assertEqual(self.quota(f"a@{ALICE}"), 512 * MIB)
        self.alive(ALICE, "b", "--memory", "256MiB")
        # Of all of a user's together.
        says = ["1.2 GiB", "the site gives 1 GiB"]
        self.user_fails(ALICE, "run", "--name", "c", "--memory", "512MiB", "--", "true", says=says)
        self.user_fails(ALICE, "run", "--name", "c", "--memory", "100%", "--", "true",
                        says=["the site gives 1 GiB"])
        self.user_fails(ALICE, "set", "b", "--memory", "768MiB", says=says)
        self.user_fails(ALICE, "set", "b", "--memory", "off", says=["the site gives 1 GiB"])
        self.user_ok(ALICE, "set", "b", "--memory", "512MiB")
        self.assertEqual(os.path.exists(self.dir("c", ALICE)), False)
        # Not of others, nor by root.
        self.user_ok(BOB, "run", "--name", "c", "--memory", "1GiB", "--", "true")
        self.ok("set", f"b@{ALICE}", "--memory", "2GiB")
        a.communicate("\n")
        self.user_fails(ALICE, "run", "--", "true", says=["the site gives 1 GiB"])

    def test_bound_is_default(self):
        self.site("[default]\nmemory-max = 25%\nweight-max = 2\n")
        self.alive(ALICE, "a")
        tenant = self.policy(f"a@{ALICE}")
        self.assertEqual(tenant["policy"][0]["limit_permille"], 250)
        self.assertEqual((tenant["compute"]["policy"], tenant["compute"]["weight"]), ("share", 1))

    def test_meter(self):
        """Users' tenants are measured, unless the site or they say otherwise."""
        self.site(f"[user {BOB}]\nmeter = off\n")
        for user, options, measured in ((ALICE, (), True), (ALICE, ("--meter", "off"), False),
                                        (ALICE, ("--swappable",), False), (BOB, (), False),
                                        (BOB, ("--meter", "on"), True)):
            name = f"m{len(options)}{measured:d}"
            self.alive(user, name, *options)
            self.assertEqual(self.policy(f"{name}@{user}")["compute"]["measured"], measured)
        self.user_ok(BOB, "set", "m00", "--meter", "on")
        self.assertTrue(self.policy(f"m00@{BOB}")["compute"]["measured"])

    def test_priority_and_floor(self):
        """Opened by a line alone, where there is a file; as before where there is none."""
        self.site(f"[default]\nmemory-max = 4GiB\n[user {BOB}]\npriority-max = high\nfloor-max = 50\n")
        for option, key in (("--priority=high", "(allotd: priority-max = normal, if its file does not say)"),
                            ("--floor=50", "5% (allotd: floor-max, if its file does not say)"),
                            ("--floor=6", "floor-max")):
            self.user_fails(ALICE, "run", option, "--", "true", says=[option.split("=")[0], key])
            self.user_ok(BOB, "run", option, "--", "true")
            self.ok("run", "--user", f"{ALICE}:{ALICE}", option, "--", "true")
        for option in ("--priority=normal", "--priority=low", "--floor=5", "--floor=off"):
            self.user_ok(ALICE, "run", option, "--", "true")
        self.alive(ALICE, "a")
        self.user_fails(ALICE, "set", "a", "--priority", "high", says=["priority-max"])
        self.user_fails(ALICE, "set", "a", "--floor", "50", says=["floor-max"])

    def test_priority_and_floor_without_bounds(self):
        self.site("# nobody is bounded\n")
        self.user_ok(ALICE, "run", "--priority", "high", "--floor", "50", "--", "true")

    def test_accounting_driver(self):
        self.site(f"[default]\naccounting-driver = off\n[user {BOB}]\naccounting-driver = on\n")
        driver = ("run", "--accounting", "driver", "--", "true")
        self.user_fails(ALICE, *driver, says=["--accounting driver: the site does not give this user that "
                                              "(allotd: accounting-driver = off, line 2 of its file)"])
        self.user_ok(ALICE, "run", "--accounting", "ledger", "--", "true")
        self.user_ok(BOB, *driver)
        self.ok("run", "--user", f"{ALICE}:{ALICE}", "--accounting", "driver", "--", "true")

    def test_accounting_driver_of_before(self):
        """Its user may still give back what a tenant has that began before."""
        daemon = self.site("[default]\nmemory-max = 1GiB\n")
        self.alive(ALICE, "a", "--accounting", "driver")
        self.conf("[default]\nmemory-max = 1GiB\naccounting-driver = off\n")
        self.reload(daemon, "was read anew")
        self.user_ok(ALICE, "set", "a", "--memory", "512MiB")
        self.user_fails(ALICE, "run", "--accounting", "driver", "--memory", "1MiB", "--", "true",
                        says=["accounting-driver = off"])

    def test_bounds_below_defaults(self):
        """What nobody asked for is within the bounds, where only the devices tell which is more."""
        self.site("[default]\nmemory = 100%\nmemory-max = 1GiB\ncompute-max = 50\nweight-max = 2\n"
                  "priority-max = low\n")
        self.alive(ALICE, "a")
        tenant = self.policy(f"a@{ALICE}")
        self.assertEqual(tenant["policy"][0]["limit_bytes"], 1024 * MIB)
        self.assertEqual((tenant["compute"]["priority"], tenant["compute"]["weight"]), ("low", 2))

    def test_compute(self):
        self.site("[default]\ncompute-max = 50\npriority-max = normal\n")
        self.alive(ALICE, "a", "--compute", "30")
        for options in (("--compute", "30"), ("--compute", "off"), ("--weight", "1"),
                        ("--policy", "share", "--compute", "10"), ()):
            self.user_fails(ALICE, "run", *options, "--", "true",
                            says=["the site gives this user's tenants 50% of a device's time"])
        self.user_ok(ALICE, "run", "--compute", "20", "--", "true")
        self.user_fails(ALICE, "set", "a", "--compute", "off", says=["50%"])
        self.user_fails(ALICE, "set", "a", "--compute", "60", says=["50%"])
        self.user_ok(ALICE, "set", "a", "--compute", "50")
        self.user_fails(ALICE, "set", "a", "--priority", "high", says=["does not give this user"])
        self.user_fails(ALICE, "set", "a", "--floor", "40", says=["--floor"])
        self.user_ok(ALICE, "set", "a", "--priority", "low")

    def test_weight(self):
        self.site("[default]\nweight-max = 3\n")
        self.alive(ALICE, "a", "--weight", "2")
        self.user_fails(ALICE, "run", "--weight", "2", "--", "true", says=["weights of 3 together"])
        self.user_fails(ALICE, "run", "--compute", "off", "--", "true", says=["weights of 3"])
        self.user_fails(ALICE, "run", "--compute", "100", "--", "true", says=["weights of 3"])
        self.user_ok(ALICE, "run", "--", "true")

    def test_whose(self):
        """A user's own, then its cgroup's, then its group's."""
        self.site(f"[default]\ntenants = 3\n[group {ALICE}]\ntenants = 2\n"
                  f"[user {ALICE}]\ntenants = 1\n[group {BOB}]\ntenants = 2\n")
        for uid, most in ((ALICE, 1), (BOB, 2), (54321, 3)):
            for i in range(most):
                self.user_ok(uid, "run", "--print-env", "--name", f"t{i}")
            self.user_fails(uid, "run", "--", "true", says=[f"{most} tenants are there"])

    def test_cgroup(self):
        """By /proc, where the one who asks is now."""
        with open("/proc/self/cgroup", encoding="utf-8") as lines:
            paths = [line.rstrip("\n").split(":", 2)[2] for line in lines]
        paths = [path for path in paths if path != "/"]
        if not paths:
            self.skipTest("this runs in no cgroup of its own")
        self.site(f"[default]\ntenants = 1\n[cgroup {paths[0]}]\ntenants = 2\n")
        self.user_ok(ALICE, "run", "--print-env", "--name", "a")
        self.user_ok(ALICE, "run", "--print-env", "--name", "b")
        self.user_fails(ALICE, "run", "--", "true", says=["2 tenants are there"])

    def promise(self, what):
        self.share_devices()
        self.site(f"overpromise = {what}\n")
        self.alive(ALICE, "a", "--memory", "3GiB")
        return self.as_user(BOB, "run", "--memory", "2GiB", "--", "true")

    def test_promise_refused(self):
        done = self.promise("refuse")
        self.assertEqual(done.returncode, 125)
        self.assertIn("are 5 GiB together, and it has 4 GiB; ask for less --memory", done.stderr)
        self.user_ok(BOB, "run", "--memory", "1GiB", "--", "true")

    def test_promise_warned(self):
        done = self.promise("warn")
        self.assertEqual(done.returncode, 0)
        self.assertIn("warning: with it quotas on GPU-", done.stderr)
        self.assertIn("are 5 GiB together, and it has 4 GiB", done.stderr)

    def test_promise_allowed(self):
        done = self.promise("allow")
        self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    cli_lib.main()
