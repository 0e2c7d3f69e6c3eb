# SPDX-License-Identifier: Apache-2.0
"""Names that nobody tells, as where a directory service is down: allotd goes on."""

import os
import signal
import socket
import subprocess

import cli_lib
import users_lib
from users_lib import ALICE, BOB, MIB


class Names(users_lib.Case):
    def slow(self):
        """As long as this file is there."""
        return self.path("slow")

    def daemon(self, *before, options=()):
        return super().daemon(*before, "env", f"LD_PRELOAD={os.environ['SLOW_NAMES_LIBRARY']}",
                              f"SLOW_NAMES={self.slow()}", options=options)

    def begin(self):
        self.path("slow", "x", 0o644)

    def end_slow(self):
        os.unlink(self.slow())

    def test_requests(self):
        """Who manages is known by the group's number."""
        with open("/etc/group", encoding="utf-8") as groups:
            ours = self.path("group", groups.read() + "allot:x:4711:\n", 0o644)
        self.daemon(*self.with_mounted(ours, "/etc/group"))
        self.begin()
        self.alive(ALICE, "a", "--memory", "512MiB")
        self.user_ok(ALICE, "set", "a", "--memory", "256MiB")
        subprocess.run(["setpriv", f"--reuid={BOB}", f"--regid={BOB}", "--groups", "4711",
                        cli_lib.ALLOT, "set", f"a@{ALICE}", "--memory", "1GiB"],
                       env=self.env, capture_output=True, check=True, timeout=60)
        self.assertEqual(self.quota(f"a@{ALICE}"), 1024 * MIB)

    def test_reload(self):
        """Until the names in it are known the file is in force as it was."""
        conf = self.path("allotd.conf", "[default]\nmemory-max = 1GiB\n", 0o644)
        daemon = self.daemon(options=("--config", conf))
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(self.path("notify"))
            manager.settimeout(60)
            self.begin()
            self.path("allotd.conf", "[user root2]\n[group root]\nmemory-max = 2GiB\n", 0o644)
            daemon.send_signal(signal.SIGHUP)
            self.assertEqual(manager.recv(100), b"RELOADING=1")
            for memory, works in (("1GiB", True), ("2GiB", False)):
                done = self.as_user(ALICE, "run", "--memory", memory, "--", "true")
                self.assertEqual(done.returncode == 0, works, done.stderr)
            self.assertEqual(self.get("/metrics")[0], 200)
            # What is written meanwhile is not missed.
            self.path("allotd.conf", "[default]\nmemory-max = 3GiB\n", 0o644)
            daemon.send_signal(signal.SIGHUP)
            self.get("/metrics")
            self.end_slow()
            said = [manager.recv(100)]
            while said[-1] != b"READY=1":
                said.append(manager.recv(100))
        self.user_ok(ALICE, "run", "--memory", "3GiB", "--", "true")
        self.user_fails(ALICE, "run", "--memory", "4GiB", "--", "true", says=["gives 3 GiB"])

    def test_blocked_reload(self):
        """Whoever sends SIGHUP is answered, also while what was sent for before does not end; and one that
        never ends keeps nothing from being read."""
        conf = self.path("allotd.conf", "[default]\nmemory-max = 1GiB\n", 0o644)
        daemon = self.daemon(options=("--config", conf))
        os.unlink(conf)
        os.mkfifo(conf, 0o644)

        def reload(says):
            before = len(self.log())
            daemon.send_signal(signal.SIGHUP)
            cli_lib.wait_for(lambda: says in self.log()[before:])

        reload("allotd.conf has not been read for ")
        self.assertIn("what it said before stays in force", self.log())
        self.user_fails(ALICE, "run", "--memory", "2GiB", "--", "true", says=["gives 1 GiB"])
        reload("and is read anew")
        reload("is being read since ")
        os.rename(conf, conf + ".fifo")
        self.path("allotd.conf", "[default]\nmemory-max = 3GiB\n", 0o644)
        cli_lib.wait_for(lambda: self.log().count("has not been read for ") == 2)
        reload("allotd.conf was read anew")
        self.user_ok(ALICE, "run", "--memory", "2GiB", "--", "true")
        # Those that were given up come too late to say anything.
        with open(conf + ".fifo", "w", encoding="ascii") as fifo:
            fifo.write("[default]\nmemory-max = 512MiB\n")
        reload("allotd.conf was read anew")
        self.user_ok(ALICE, "run", "--memory", "2GiB", "--", "true")
        self.end(daemon)

    def test_many_blocked(self):
        """As many readings as are never answered are begun at once, and no more: it is said."""
        conf = self.path("allotd.conf", "[default]\nmemory-max = 1GiB\n", 0o644)
        daemon = self.daemon(options=("--config", conf))
        before = len(os.listdir(f"/proc/{daemon.pid}/task"))
        self.begin()
        for n in range(1, 6):
            daemon.send_signal(signal.SIGHUP)
            cli_lib.wait_for(lambda: self.log().count("has not been read for ") >= n or n == 5)
        cli_lib.wait_for(lambda: "4 readings of it have not ended" in self.log())
        self.assertEqual(len(os.listdir(f"/proc/{daemon.pid}/task")), before + 4)
        self.end_slow()
        cli_lib.wait_for(lambda: "was read anew" in self.log())
        self.end(daemon)

    def test_end(self):
        """It does not wait for an answer to end."""
        daemon = self.daemon(options=("--config", self.path("allotd.conf", "\n", 0o644)))
        self.begin()
        daemon.send_signal(signal.SIGHUP)
        self.end(daemon)

    def test_audit(self):
        """Who is not limited is seen, by number, and by name later."""
        self.daemon()
        self.begin()
        program = self.start(os.environ["FILL"], "--json")
        self.assertTrue(program.stdout.readline())

        def user():
            return {dict(labels)["user"] for (name, labels), _ in self.samples().items()
                    if name == "allot_outside_memory_bytes"}

        cli_lib.wait_for(lambda: user() == {"0"})
        self.assertIn(f"not limited: pid {program.pid} (", self.log())
        self.end_slow()
        cli_lib.wait_for(lambda: user() == {"root"})


if __name__ == "__main__":
    cli_lib.main()
