# SPDX-License-Identifier: Apache-2.0
"""Tenants of several users, which allotd makes: whose they are, who changes them, and what a user
can do to others."""

import fcntl
import json
import os
import re
import signal
import socket
import struct
import subprocess

import cli_lib
import daemon_lib
import users_lib
from users_lib import ALICE, BOB, CAROL, DAVE, MAGIC, MIB, VERSION, user

DIR_BYTES = 256  # a policy ends with: ledger/records.h
TENANTS_MOST = 32  # daemon/users/requests.h


class Users(users_lib.Case):
    def test_whose(self):
        """Of one place, each its user's."""
        self.daemon()
        self.alive(ALICE, "train", "--memory", "512MiB")
        self.alive(BOB, "train", "--memory", "256MiB")
        for name, uid, quota in (("train", ALICE, 512), ("train", BOB, 256)):
            self.assertEqual(self.quota(f"{name}@{uid}"), quota * MIB)
            ledger = os.stat(os.path.join(self.dir(name, uid), "ledger"))
            self.assertEqual((ledger.st_uid, ledger.st_mode & 0o777), (uid, 0o600))
            policy = os.stat(os.path.join(self.dir(name, uid), "policy"))
            self.assertEqual((policy.st_uid, policy.st_mode & 0o777), (0, 0o444))
        table = self.ok("ps")
        self.assertRegex(table, rf"TENANT +USER +STATE")
        self.assertRegex(table, rf"train@{ALICE} +{ALICE} +idle .* 512 MiB")
        self.assertRegex(table, rf"train@{BOB} +\S+ +idle .* 256 MiB")
        # All names, one's own in full.
        table = self.user_ok(ALICE, "ps")
        self.assertRegex(table, rf"train@{ALICE} +{ALICE} +idle .* 512 MiB")
        self.assertRegex(table, rf"train@{BOB} +\S+ +- .* 256 MiB")
        self.assertNotIn(f"@{BOB}", self.user_ok(ALICE, "ps", "train"))
        self.assertIn(f"train@{BOB}", self.ok("ps", "train@nobody" if self.nobody_is(BOB) else
                                              f"train@{BOB}"))
        self.assertIn(f"train@{ALICE}", self.user_ok(ALICE, "top", "--once"))

    def test_all_is_read(self):
        """No bound is reached by a user who has a few tenants."""
        self.daemon()
        self.user_ok(ALICE, "run", "--print-env", "--name", "kept")
        for _ in range(3):
            self.user_ok(ALICE, "run", "--name", "brief", "--", "true")
        found = self.samples()
        for what in ("figures", "mappings", "environments", "descriptors"):
            self.assertEqual(found[daemon_lib.key("allot_put_off_total", what=what)], 0)

    def test_seen_by_others(self):
        """Whether somebody else's program is limited is not for another user to see, nor to be told."""
        fill = os.environ["FILL"]
        self.program(fill, "--json")
        free = self.start(*user(ALICE), fill, "--json")
        self.assertTrue(free.stdout.readline())
        for uid, standings in ((BOB, ["hidden", "hidden"]), (ALICE, ["unlimited"])):
            seen = json.loads(self.user_ok(uid, "ps", "--json"))["outside"]
            self.assertEqual([o["standing"] for o in seen], standings)
            self.assertEqual("NOT LIMITED" in self.user_ok(uid, "ps"), uid == ALICE)
            self.assertEqual("another user's" in self.user_ok(uid, "top", "--once"), uid == BOB)

    def test_traced(self):
        """Its processes can make no file there, and the daemon says what it decided."""
        daemon = self.program(cli_lib.LOAD, "--loops-per-us", "1", "--seconds", "60",
                              options=("--weight", "1", "--trace"))
        cli_lib.wait_for(lambda: "the arbiter gives it a turn" in self.user_ok(ALICE, "trace", "f"))
        events = json.loads(self.user_ok(ALICE, "trace", "f", "--json"))["traceEvents"]
        self.assertEqual({event["pid"] for event in events}, {0})
        self.assertEqual([name for name in os.listdir(self.dir("f", ALICE))
                          if name.startswith("trace")], ["trace.roles"])
        self.assertIn("the arbiter gives it a turn", self.ok("trace", f"f@{ALICE}"))
        self.assertFalse(self.can(ALICE, "sh", "-c", f": >> {self.dir('f', ALICE)}/trace.roles"))
        self.user_ok(ALICE, "set", "f", "--trace", "off")
        daemon.terminate()

    def test_suspended_by_whom(self):
        """By its user, and by root, and nobody else; and words come from the one who does it."""
        daemon = self.program(cli_lib.LOAD, "--loops-per-us", "1", "--seconds", "60",
                              options=("--swappable",))

        def state():
            return json.loads(self.ok("ps", "--json"))["tenants"][0]["state"]

        cli_lib.wait_for(lambda: state() == "running")
        self.assertIn(f"f@{ALICE}: suspended; none of its processes had device memory to move",
                      self.user_ok(ALICE, "suspend", "f", "--notice", "50s"))
        self.assertEqual(state(), "suspended")
        self.user_fails(BOB, "resume", f"f@{ALICE}", says=["another user's"])
        self.user_ok(ALICE, "resume", "f")
        self.assertEqual(state(), "running")
        self.user_fails(BOB, "suspend", f"f@{ALICE}", says=["another user's"])
        self.ok("suspend", f"f@{ALICE}")
        self.ok("resume", f"f@{ALICE}")
        self.user_fails(ALICE, "suspend", "none", says=["there is no"])
        with open(f"/proc/{daemon.pid}/task/{daemon.pid}/children", encoding="ascii") as children:
            self.assertEqual(children.read(), "")

    def test_not_suspended(self):
        """Why, in the words of the command that tried."""
        self.program(os.environ["FILL"], "--json", options=("--swappable",))
        self.user_fails(ALICE, "suspend", "f", says=["holds 1 array", "which cannot leave"])
        self.user_fails(ALICE, "suspend", "f", "--timeout", "601s", says=["--timeout"])
        self.user_fails(ALICE, "suspend", "f", "--notice", "61s", says=["--notice"])
        self.alive(ALICE, "a")
        self.user_fails(ALICE, "suspend", "a", says=["is not swappable"])

    def test_moves_of_many(self):
        """Users whose processes are stopped while they are to leave hold the places of moves for as long
        as their commands wait. Each has one then, and some are left for others."""
        def load(uid, name):
            return self.start(*user(uid), cli_lib.ALLOT, "run", "--name", name, "--swappable",
                              "--memory", "100MiB", "--", cli_lib.LOAD, "--loops-per-us", "1",
                              "--seconds", "600")

        daemon = self.program(cli_lib.LOAD, "--loops-per-us", "1", "--seconds", "600",
                              options=("--swappable",))
        for uid in (BOB, CAROL, DAVE):
            self.assertTrue(load(uid, "f").stdout.readline())
        for uid in (ALICE, BOB, CAROL):
            self.assertTrue(load(uid, "g").stdout.readline())
        for tenant in json.loads(self.ok("ps", "--json"))["tenants"]:
            if f"@{DAVE}" not in tenant["name"]:
                for process in tenant["processes"]:
                    os.kill(process["pid"], signal.SIGSTOP)
                    self.addCleanup(os.kill, process["pid"], signal.SIGCONT)

        def children():
            with open(f"/proc/{daemon.pid}/task/{daemon.pid}/children", encoding="ascii") as file:
                return len(file.read().split())

        for count, (uid, name) in enumerate(((ALICE, "f"), (ALICE, "g"), (BOB, "f"), (BOB, "g"),
                                             (CAROL, "f"))):
            self.start(*user(uid), cli_lib.ALLOT, "suspend", name, "--timeout", "100s",
                       stderr=subprocess.DEVNULL)
            cli_lib.wait_for(lambda: children() > count)
        self.user_fails(CAROL, "suspend", "g", says=["too many requests"])
        self.user_ok(DAVE, "suspend", "f")
        self.user_ok(DAVE, "resume", "f")

    def test_limit_holds(self):
        self.program(os.environ["FILL"], "--json")
        tenant, = json.loads(self.ok("ps", "--json"))["tenants"]
        self.assertEqual(tenant["state"], "running")
        device, = tenant["devices"]
        self.assertLessEqual(device["used_bytes"], 512 * MIB)
        self.assertGreater(device["used_bytes"], 400 * MIB)
        cli_lib.wait_for(lambda: 'allot_memory_used_bytes{tenant="f@12345"' in self.get("/metrics")[2])

    def test_changed_by_whom(self):
        self.daemon()
        process = self.alive(ALICE, "train", "--memory", "512MiB")
        self.user_ok(ALICE, "set", "train", "--memory", "1GiB")
        self.assertEqual(self.quota(f"train@{ALICE}"), 1024 * MIB)
        self.ok("set", f"train@{ALICE}", "--memory", "300MiB")
        self.assertEqual(self.quota(f"train@{ALICE}"), 300 * MIB)
        for verb in (("set", f"train@{ALICE}", "--memory", "1GiB"), ("rm", f"train@{ALICE}")):
            self.user_fails(BOB, *verb, says=["another user's"])
        self.user_fails(BOB, "set", "train", "--memory", "1GiB", says=["there is no tenant"])
        self.user_fails(ALICE, "rm", "train", says=["lives"])
        self.assertEqual(self.quota(f"train@{ALICE}"), 300 * MIB)
        process.communicate("\n")
        self.user_ok(ALICE, "run", "--name", "next", "--", "true")
        self.assertFalse(os.path.exists(self.dir("train", ALICE)))

    def test_removed_by_whom(self):
        self.daemon()
        line = self.user_ok(ALICE, "run", "--print-env", "--name", "kept", "--memory", "1GiB")
        self.assertIn(f"ALLOT_TENANT_DIR={self.dir('kept', ALICE)}\n", line)
        self.user_fails(BOB, "rm", f"kept@{ALICE}", says=["another user's"])
        self.user_ok(ALICE, "rm", "kept")
        self.assertFalse(os.path.exists(self.dir("kept", ALICE)))
        self.user_fails(ALICE, "rm", "kept", says=["there is no tenant"])

    def test_group(self):
        """Who is of group allot, as the kernel tells."""
        with open("/etc/group", encoding="utf-8") as groups:
            ours = self.path("group", groups.read() + "allot:x:4711:\n", 0o644)
        self.daemon(*self.with_mounted(ours, "/etc/group"))
        self.alive(ALICE, "train", "--memory", "512MiB")
        for group, status in (("4712", 125), ("4711", 0)):
            done = subprocess.run(["setpriv", f"--reuid={BOB}", f"--regid={BOB}", "--groups", group,
                                   cli_lib.ALLOT, "set", f"train@{ALICE}", "--memory", "1GiB"],
                                  env=self.env, capture_output=True, check=False, timeout=60)
            self.assertEqual(done.returncode, status, done.stderr)
        self.assertEqual(self.quota(f"train@{ALICE}"), 1024 * MIB)

    def test_join(self):
        self.daemon()
        self.alive(ALICE, "train", "--memory", "512MiB")
        self.user_ok(ALICE, "run", "--name", "train", "--", "true")
        self.user_fails(ALICE, "run", "--name", "train", "--memory", "1GiB", "--", "true",
                        says=["lives", "memory 512 MiB (asked: 1 GiB)"])

    def test_out_of_reach(self):
        """A user's files are nobody else's, and the policy is not even that user's."""
        self.daemon()
        self.alive(ALICE, "train", "--memory", "512MiB")
        directory = self.dir("train", ALICE)
        ledger, policy = (os.path.join(directory, name) for name in ("ledger", "policy"))
        self.assertTrue(self.can(ALICE, "test", "-w", ledger))
        for what in ("-r", "-w"):
            self.assertFalse(self.can(BOB, "test", what, ledger))
        for uid in (ALICE, BOB):
            self.assertFalse(self.can(uid, "test", "-w", policy))
            self.assertFalse(self.can(uid, "chmod", "0666", policy))
            self.assertFalse(self.can(uid, "rm", "-f", ledger))
            self.assertFalse(self.can(uid, "mv", directory, directory + "x"))
            self.assertFalse(self.can(uid, "mkdir", os.path.join(self.users, "x")))
            self.assertFalse(self.can(uid, "ls", directory))
            self.assertFalse(self.can(uid, "ls", self.runtime))

    def test_lock_that_is_kept(self):
        """Who can read a policy can lock it: that keeps nobody from changing it."""
        self.daemon()
        self.alive(ALICE, "train", "--memory", "512MiB")
        with open(os.path.join(self.dir("train", ALICE), "policy"), "rb") as policy:
            fcntl.fcntl(policy, fcntl.F_OFD_SETLK,
                        struct.pack("hhqqixxxx", fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0))
            self.user_ok(ALICE, "set", "train", "--memory", "1GiB")
            self.ok("set", f"train@{ALICE}", "--memory", "2GiB")

    def test_ledger_that_is_cut(self):
        """Its user can do that; who gives turns reads it."""
        daemon = self.daemon()
        self.alive(ALICE, "train", "--weight", "1")
        cli_lib.wait_for(lambda: "train@12345" in self.get("/metrics")[2])
        ledger = os.path.join(self.dir("train", ALICE), "ledger")
        os.truncate(ledger, 0)
        self.alive(BOB, "next", "--weight", "1")
        self.assertEqual(self.get("/metrics")[0], 200)
        self.assertIsNone(daemon.poll())

    def test_many_at_once(self):
        """More than are served at once, of one user: each gets its turn."""
        daemon = self.daemon()
        daemon.send_signal(signal.SIGSTOP)
        runs = [subprocess.Popen([*user(ALICE), cli_lib.ALLOT, "run", "--", "true"], env=self.env,
                                 stdin=subprocess.DEVNULL) for _ in range(30)]

        def connections():  # by the name that the socket was made under
            with open("/proc/net/unix", encoding="utf-8") as sockets:
                return sockets.read().count(os.path.join(self.users, "control.new") + "\n")

        cli_lib.wait_for(lambda: connections() > len(runs))
        daemon.send_signal(signal.SIGCONT)
        self.assertEqual([run.wait(60) for run in runs], [0] * len(runs))

    def test_number(self):
        self.daemon()
        for i in range(TENANTS_MOST):
            self.user_ok(ALICE, "run", "--print-env", "--name", f"t{i}")
        self.user_fails(ALICE, "run", "--name", "more", "--", "true",
                        says=[f"{TENANTS_MOST} tenants are there of user {ALICE}"])
        self.user_ok(BOB, "run", "--name", "t", "--", "true")

    def test_what_is_not_had(self):
        self.daemon()
        self.user_fails(ALICE, "run", "--mode", "space", "--compute", "50", "--", "true")
        self.user_fails(ALICE, "run", "--name", "x@1", "--", "true", says=["letters"])
        self.user_fails(ALICE, "run", "--user", "root", "--", "true", says=["only root"])

    # --- Without a daemon ---

    def test_without(self):
        """As ever; but a daemon that was there and does not answer is no reason to go without."""
        daemon = self.daemon()
        self.end(daemon)
        self.assertFalse(os.path.exists(os.path.join(self.users, "control")))
        os.mkdir(os.path.join(self.tmp, "alice"), 0o700)
        os.chown(os.path.join(self.tmp, "alice"), ALICE, ALICE)
        self.env["ALLOT_RUNTIME_DIR"] = os.path.join(self.tmp, "alice")
        self.assertEqual(self.user_ok(ALICE, "run", "--name", "own", "--", "sh", "-c",
                                      "echo $ALLOT_TENANT_DIR"),
                         os.path.join(self.tmp, "alice", "own") + "\n")
        self.env["ALLOT_RUNTIME_DIR"] = self.runtime
        daemon = self.daemon()
        daemon.send_signal(signal.SIGKILL)
        daemon.wait()
        self.user_fails(ALICE, "run", "--", "true", says=["allotd does not answer"])
        self.daemon()
        self.user_ok(ALICE, "run", "--", "true")

    def test_site_that_wants_it(self):
        """Where allotd.conf may limit somebody, nothing begins without a daemon, unless a place is chosen."""
        del self.env["ALLOT_RUNTIME_DIR"]
        self.env["XDG_RUNTIME_DIR"] = os.path.join(self.tmp, "alice")
        for name in ("alice", "etc", "etc/allot"):
            os.mkdir(self.path(name), 0o755)
        os.chown(self.env["XDG_RUNTIME_DIR"], ALICE, ALICE)
        command = (*self.with_mounted(self.path("etc"), "/etc"), *user(ALICE), cli_lib.ALLOT, "run",
                   "--", "true")
        wants = (125, "no allotd runs, and by /etc/allot/allotd.conf")
        for (status, says), then in (((0, ""), "# memory = 8GiB\n\n \t# [default]"), ((0, ""), ""),
                                     (wants, "#\0\n"), (wants, "#\nweight = 2\n"), (wants, "")):
            done = subprocess.run(command, env=self.env, text=True, capture_output=True, check=False,
                                  timeout=60)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertIn(says, done.stderr)
            self.path("etc/allot/allotd.conf", then)

    def test_socket_of_another(self):
        """Nobody is taken for allotd but root."""
        os.mkdir(self.users)
        os.chown(self.users, BOB, BOB)
        listener = self.start(*user(BOB), "python3", "-c", "import socket, sys\n"
                              "s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
                              f"s.bind({os.path.join(self.users, 'control')!r}); s.listen()\n"
                              "print('up', flush=True); sys.stdin.read()")
        self.assertEqual(listener.stdout.readline(), "up\n")
        self.user_fails(ALICE, "run", "--", "true", says=["not root's"])

    def test_doctor_beside_another_user(self):
        """What one user's tenants are like is nothing wrong for another, and nobody else's affair."""
        self.share_devices()
        self.daemon()
        self.alive(ALICE, "a")
        done = self.as_user(BOB, "doctor")
        self.assertEqual(done.returncode, 0, done.stdout)
        found = done.stdout
        self.assertIn("other users' can be seen by root alone", found)
        self.assertNotIn("FAIL", found)
        os.truncate(os.path.join(self.dir("a", ALICE), "ledger"), 10)
        self.user_ok(BOB, "doctor")
        for done in (self.as_user(ALICE, "doctor"), self.allot("doctor")):
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stdout, rf"(?m)^FAIL  tenant a@{ALICE} .*damaged$")

    # --- Root for a user ---

    def test_root_for_user(self):
        script = "id -u; id -g; id -G; echo $ALLOT_TENANT_DIR; echo $HOME"
        lines = self.ok("run", "--user", "nobody", "--name", "job", "--memory", "1GiB", "--", "sh",
                        "-c", script).splitlines()
        with open("/etc/passwd", encoding="utf-8") as passwd:
            nobody = re.search(r"^nobody:[^:]*:(\d+):(\d+):[^:]*:([^:]*):", passwd.read(), re.M)
        self.assertEqual(lines[:2], [nobody[1], nobody[2]])
        self.assertNotIn("0", lines[2].split())
        self.assertEqual(lines[3:], [self.dir("job", nobody[1]), nobody[3]])
        lines = self.ok("run", "--user", f"{ALICE}:{BOB}", "--", "id").strip()
        self.assertEqual(lines.split()[0], f"uid={ALICE}")
        self.assertRegex(lines, rf"gid={BOB}.* groups={BOB}\S*$")
        self.fails(125, "run", "--user", "root", "--", "true", says=["that is root"])
        self.fails(125, "run", "--user", "no such", "--", "true", says=["no such user"])
        self.fails(125, "run", "--user", "1", "--", "true", says=["no such user"])

    def test_prepared_by_root(self):
        """As a batch system's prolog does it, whose jobs are the users'."""
        lines = self.ok("run", "--user", f"{ALICE}:{ALICE}", "--name", "job1", "--memory", "512MiB",
                        "--print-env").splitlines()
        self.assertIn(f"ALLOT_TENANT_DIR={self.dir('job1', ALICE)}", lines)
        job = self.start(*user(ALICE), "env", *lines, "sh", "-c", "echo up; read x")
        self.assertEqual(job.stdout.readline(), "up\n")
        self.fails(125, "rm", f"job1@{ALICE}", says=["lives"])
        job.communicate("\n")
        self.ok("rm", f"job1@{ALICE}")

    def test_no_way_back(self):
        """Not by the saved user's number either."""
        status = self.ok("run", "--user", f"{ALICE}:{ALICE}", "--", "cat", "/proc/self/status")
        for key in ("Uid", "Gid"):
            self.assertRegex(status, rf"{key}:(\t{ALICE}){{4}}\n")
        self.assertRegex(status, r"CapEff:\t0+\n")
        self.assertRegex(status, r"CapPrm:\t0+\n")

    # --- What comes by the socket ---

    def ask(self, uid, *messages, before=()):
        """Answers to these, each by a connection of its own, as (error, words); None: none."""
        script = ("import socket, sys\n"
                  "for line in sys.stdin:\n"
                  "    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
                  "    s.settimeout(30)\n"
                  f"    s.connect({os.path.join(self.users, 'control')!r})\n"
                  "    s.send(bytes.fromhex(line))\n"
                  "    print(s.recv(65536).hex(), flush=True)\n")
        done = subprocess.run([*before, *user(uid), "python3", "-c", script], text=True, timeout=60,
                              input="".join(m.hex() + "\n" for m in messages),
                              capture_output=True, check=True)
        answers = [bytes.fromhex(line) for line in done.stdout.splitlines()]
        self.assertEqual(len(answers), len(messages))
        return [(struct.unpack_from("i", a, 8)[0],
                 a[16:528].split(b"\0")[0].decode()) if a else None for a in answers]

    def request(self, verb, name, policy=None, before=None, **header):
        """As control/message.h has it; policies as they stand in a tenant's file."""
        words = {"magic": MAGIC, "version": VERSION, "said": 0, "kind": 0, **header}
        policy = policy or self.policy
        return (struct.pack("6I2Q64s", words["magic"], words["version"], verb, words["said"],
                            words["kind"], words.get("container", 0), 0, words.get("timeout", 0), name) + (before or self.policy) + policy)

    def learn_policy(self):
        """The bytes of one in force, of ALICE's tenant "known"; by the name, which begins it."""
        self.user_ok(ALICE, "run", "--print-env", "--name", "known", "--memory", "1GiB")
        with open(os.path.join(self.dir("known", ALICE), "policy"), "rb") as file:
            data = file.read()
        size = (self.request_bytes - 40 - 64) // 2
        at = data.index(b"known@%d\0" % ALICE) - 8
        self.policy = data[at:at + size]

    def renamed(self, policy, name):
        return policy[:8] + name.encode().ljust(64, b"\0") + policy[72:]

    def test_container(self):
        """What the hook of a rootless runtime asks for, by the pid of a container's first process."""
        self.find_request_bytes()
        self.daemon()
        self.learn_policy()
        first = self.start(*user(ALICE), "sleep", "1000")
        request = self.container_request(first.pid)
        (error, words), = self.ask(ALICE, request, before=("unshare", "--pid", "--fork"))
        self.assertEqual(error, -18)
        self.assertIn("another PID namespace", words)
        self.assertEqual(self.ask(ALICE, request, request), [(0, ""), (-17, "")])
        for path, owner, mode in (("", 0, 0o1710), ("/policy", 0, 0o444), ("/ledger", 0, 0o666)):
            status = os.stat(self.dir("c", ALICE) + path)
            self.assertEqual((status.st_uid, status.st_mode & 0o7777), (owner, mode))
        states = {t["name"]: t["state"] for t in json.loads(self.user_ok(ALICE, "ps", "--json"))["tenants"]}
        self.assertEqual(states[f"c@{ALICE}"], "idle")
        first.kill()
        first.wait()
        self.user_ok(ALICE, "run", "--memory", "1MiB", "--", "true")
        self.assertFalse(os.path.exists(self.dir("c", ALICE)))

    def container_request(self, pid):
        return self.request(0, b"c", self.renamed(self.policy, f"c@{ALICE}"), kind=3, container=pid)

    def test_container_of_another(self):
        """The process that a container's tenant is to live as long as is the asker's own."""
        self.find_request_bytes()
        self.daemon()
        self.learn_policy()
        others = [1, self.start("sleep", "1000").pid, self.start(*user(BOB), "sleep", "1000").pid,
                  self.start(*user(BOB), "unshare", "--user", "sleep", "1000").pid]
        for error, words in self.ask(ALICE, *map(self.container_request, others)):
            self.assertEqual(error, -1)
            self.assertIn(f"is not user {ALICE}'s", words)
        self.assertFalse(os.path.exists(self.dir("c", ALICE)))

    def test_container_with_users_of_its_own(self):
        """In a user namespace of the asker's a process is the asker's, whatever its number."""
        holder = self.start(*user(ALICE), "unshare", "--user", "--map-root-user", "sh", "-c",
                            "echo up; read x")
        if holder.stdout.readline() != "up\n":
            self.skipTest("users may not have user namespaces here")
        self.find_request_bytes()
        self.daemon()
        self.learn_policy()
        first = self.start("nsenter", f"--user=/proc/{holder.pid}/ns/user", "--preserve-credentials",
                           "sh", "-c", "echo up; read x")
        self.assertEqual(first.stdout.readline(), "up\n")
        self.assertEqual(self.ask(ALICE, self.container_request(first.pid)), [(0, "")])
        self.fails(125, "rm", f"c@{ALICE}", says=["lives"])
        self.user_fails(ALICE, "rm", f"c@{ALICE}", says=["lives"])
        first.communicate("\n")
        self.ok("rm", f"c@{ALICE}")

    def test_container_whose_process_is_another_users(self):
        """As an allotd made them that did not look whose it is: nothing keeps such a tenant."""
        self.find_request_bytes()
        self.daemon()
        self.learn_policy()
        for remove in (lambda: self.ok("rm", f"c@{ALICE}"),
                       lambda: self.user_ok(ALICE, "rm", f"c@{ALICE}"),
                       lambda: self.ok("doctor", "--sweep")):
            first = self.start(*user(ALICE), "sleep", "1000")
            self.assertEqual(self.ask(ALICE, self.container_request(first.pid)), [(0, "")])
            note = os.path.join(self.dir("c", ALICE), "owner")
            with open("/proc/1/stat", encoding="utf-8") as stat:
                began = stat.read().rsplit(")", 1)[1].split()[19]
            os.unlink(note)
            os.symlink(f"{os.stat('/proc/self/ns/pid').st_ino}:1:3:{began}", note)
            remove()
            self.assertFalse(os.path.exists(self.dir("c", ALICE)))

    def test_allotd_of_before(self):
        """Until it is restarted behind an upgrade: what to do is said, whatever its own words are."""
        self.find_request_bytes()
        path = os.path.join(self.users, "control")
        answer = struct.pack("2IiI512s", MAGIC, VERSION, -22, 0, b"no tenant begins that way")
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(path)
            os.chmod(path, 0o666)
            listener.listen()
            for version in (VERSION, VERSION - 1):
                process = self.start(*user(ALICE), cli_lib.ALLOT, "run", "--", "true", stderr=subprocess.PIPE)
                connection, _ = listener.accept()
                with connection:
                    connection.recv(1 << 20)
                    connection.send((answer[:4] + struct.pack("I", version) + answer[8:]
                                     ).ljust(528 + (self.request_bytes - 104) // 2, b"\0"))
                said = process.stderr.read()
                process.stderr.close()
                self.assertEqual(process.wait(60), 125)
                self.assertIn("have it restarted: systemctl restart allotd", said)
        self.assertNotIn("begins that way", said)

    def test_junk(self):
        self.find_request_bytes()
        daemon = self.daemon()
        self.learn_policy()
        make, change, end, remove, suspend, resume = range(6)
        none = [b"", b"x", b"x" * self.request_bytes + b"x", self.request(0, b"t")[:-1]]
        self.assertEqual(self.ask(ALICE, *none), [None] * len(none))
        refused = [
            self.request(make, b"t", magic=1), self.request(make, b"t", version=99),
            self.request(99, b"t"), self.request(make, b"t"), self.request(make, b"t" * 64),
            self.request(make, b"t", kind=3), self.request(make, b"t", kind=77),
            self.request(suspend, b"known@12345", timeout=1 << 62), self.request(7, b"known@12345"),
            *(self.request(verb, name, timeout=1)
              for verb in (make, change, end, remove, suspend, resume)
              for name in (b"", b"../x", b"/etc", b"..", b".tmp-1", b"a/../../x", b"a\nb", b"a@0",
                           b"a@@1", b"%s%n", b"\xff" * 63)),
            self.request(change, b"known@12345", self.renamed(self.policy, "x@12345")),
            self.request(change, b"known@12345", b"\xff" * len(self.policy)),
            self.request(change, b"known@12345", bytes(len(self.policy))),
        ]
        for answer in self.ask(ALICE, *refused):
            self.assertLess(answer[0], 0)
            self.assertTrue(answer[1].isprintable())
        self.assertEqual(sorted(os.listdir(self.users)), ["control", f"known@{ALICE}"])
        self.assertEqual(sorted(os.listdir(self.runtime)), [".arbiter", ".residency"])
        # What is changed is what was seen.
        behind = len(self.policy) - DIR_BYTES
        stale = self.policy[:behind - 8] + b"\1" * 8 + self.policy[behind:]
        (error, words), = self.ask(ALICE, self.request(change, b"known@12345", before=stale))
        self.assertEqual((error, words), (-11, ""))
        moved = self.policy[:behind] + b"/tmp".ljust(DIR_BYTES, b"\0")
        (error, words), = self.ask(ALICE, self.request(change, b"known@12345", moved))
        self.assertEqual(error, -22)
        self.assertEqual(self.ask(ALICE, self.request(change, b"known@12345")), [(0, "")])
        self.assertIsNone(daemon.poll())
        for line in self.log().splitlines():
            self.assertTrue(line.isprintable())

    def test_silent_connections(self):
        """They are of one user, and keep nobody else out; that one tries again until they are closed."""
        self.daemon()
        script = ("import socket, sys\n"
                  "held = []\n"
                  "for i in range(1000):\n"
                  "    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
                  f"    s.connect({os.path.join(self.users, 'control')!r})\n"
                  "    held.append(s)\n"
                  "print('up', flush=True); sys.stdin.read()\n")
        silent = self.start(*user(ALICE), "python3", "-c", script)
        self.assertEqual(silent.stdout.readline(), "up\n")
        self.user_ok(BOB, "run", "--", "true")
        self.assertLess(len(os.listdir(f"/proc/{self.daemons[-1].pid}/fd")), 64)
        self.user_ok(ALICE, "run", "--", "true")
        self.assertEqual(self.get("/metrics")[0], 200)

    def daemon(self, *before, **kwargs):
        daemon = super().daemon(*before, **kwargs)
        self.daemons = [*getattr(self, "daemons", []), daemon]
        return daemon


if __name__ == "__main__":
    cli_lib.main()
