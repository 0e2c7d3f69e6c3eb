# SPDX-License-Identifier: Apache-2.0
"""What allot doctor says of allotd: is there one, does it answer, who decides, and is what its
configuration says in force. By root and by users; exit status 1 for what is wrong."""

import os
import signal
import socket
import subprocess

import cli_lib
import daemon_lib
import users_lib
from users_lib import ALICE, BOB, user

CONF = "/etc/allot/allotd.conf"


class Doctor(users_lib.Case):
    def setUp(self):
        super().setUp()
        self.share_devices()

    def doctor(self, *before):
        return subprocess.run([*before, cli_lib.ALLOT, "doctor"], env=self.env, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)

    def finds(self, *lines, before=((), user(BOB)), status=None):
        """Root and users have these findings: of a FAIL the status is 1, and each that is not ok says
        what to do."""
        for words in before:
            done = self.doctor(*words)
            for line in lines:
                self.assertRegex(done.stdout, rf"(?m)^{line}" +
                                 ("" if line.startswith("ok") else r"\n      \S"))
            wrong = any(line.startswith("FAIL") for line in lines)
            self.assertEqual(done.returncode, wrong if status is None else status, done.stdout)
            self.assertEqual(done.stdout.count("\nFAIL"), int(wrong), done.stdout)

    def conf(self, text, mode=0o644):
        return self.path("allotd.conf", text, mode)

    def reload(self, daemon):
        before = self.log()
        daemon.send_signal(signal.SIGHUP)
        cli_lib.wait_for(lambda: self.log().count("was read anew") > before.count("was read anew"))

    def test_none(self):
        self.finds("ok    no allotd: tenants decide themselves whose turn it is$")
        self.assertNotIn("allotd.conf", self.doctor().stdout)

    def test_one(self):
        daemon = self.daemon()
        self.finds(rf"ok    allotd \(process {daemon.pid}\) answers, and decides whose turn it is$")
        self.end(daemon)
        self.finds("ok    no allotd: ")

    def test_that_does_not_answer(self):
        daemon = self.daemon()
        daemon.send_signal(signal.SIGSTOP)
        self.finds(rf"FAIL  allotd \(process {daemon.pid}\) does not answer within 1 s$")
        daemon.send_signal(signal.SIGCONT)
        self.finds("ok    allotd .* answers")
        daemon.kill()
        daemon.wait()
        self.finds("FAIL  no allotd answers at .*/control: it was killed, and tenants decide .*")

    def test_two(self):
        """The one that decides is named."""
        first = self.daemon()
        self.port, self.log_name = daemon_lib.free_port(), "log2"
        second = self.daemon()
        self.finds(rf"ok    allotd \(process {first.pid}\) answers")
        self.end(first)
        cli_lib.wait_for(lambda: "decides by now" in self.log())
        self.finds(rf"ok    allotd \(process {second.pid}\) answers")

    def test_of_a_user(self):
        """It decides in that user's directory alone, for whom root's need not be there."""
        self.env["ALLOT_RUNTIME_DIR"] = own = self.path("own")
        os.mkdir(own, 0o700)
        os.chown(own, ALICE, ALICE)
        with open(self.path("log"), "w", encoding="utf-8") as log:
            daemon = self.start(*user(ALICE), daemon_lib.ALLOTD, "--listen", f"127.0.0.1:{self.port}",
                                stderr=log)
        cli_lib.wait_for(lambda: "http://" in self.log())
        decides = rf"decides whose turn it is in {own}, and makes no tenants for users$"
        self.finds(rf"ok    allotd \(process {daemon.pid}\) {decides}", before=[user(ALICE)])
        done = self.doctor()
        self.assertRegex(done.stdout, rf"(?m)^ok    allotd \(process {daemon.pid}\) of user {ALICE} {decides}")

    def test_socket_of_another(self):
        os.mkdir(self.users)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.addCleanup(listener.close)
        listener.bind(os.path.join(self.users, "control"))
        os.chown(os.path.join(self.users, "control"), ALICE, ALICE)
        self.finds("FAIL  allotd's socket .* is not root's$")

    def test_configuration(self):
        path = self.conf("[default]\nmemory-max = 1GiB\n")
        daemon = self.daemon(options=("--config", path))
        self.finds(f"ok    {path} is in force$")
        self.conf("[default]\nmemory-max = 2GiB\ntenants = 7\n")
        self.finds(f"warn  {path} has changed since allotd read it$")
        self.reload(daemon)
        self.finds(f"ok    {path} is in force$")
        self.conf("[default]\nx = 1\n")
        self.finds(f"FAIL  {path}:2: x: there is no such key.*")
        self.conf("")
        self.finds(f"FAIL  {path}.*")
        os.unlink(path)
        self.finds(f"warn  {path} is not there any more; what it said is in force$")

    def test_configuration_that_users_cannot_read(self):
        path = self.conf("[default]\nmemory-max = 1GiB\n", 0o600)
        self.daemon(options=("--config", path))
        self.finds(f"ok    {path} is in force$")
        self.finds(f"ok    {path} is not for this user to read, so it is not checked$",
                   before=[user(BOB)])
        self.conf("[default]\nx = 1\n", 0o600)
        self.finds(f"FAIL  {path}:2: x: .*", before=[()])
        self.finds(f"warn  {path} has changed since allotd read it$", before=[user(BOB)])

    def test_slow_configuration(self):
        path = self.conf("[default]\nmemory-max = 1GiB\n")
        self.daemon(options=("--config", path))
        os.unlink(path)
        os.mkfifo(path, 0o644)
        self.finds(f"FAIL  {path} has not been read for 5 s: .*", before=[()])

    def test_usual_configuration(self):
        """If it limits anybody users begin nothing without allotd."""
        os.makedirs(self.path("etc/allot"))
        run = self.path("run")
        os.makedirs(run, exist_ok=True)
        inside = (*self.with_mounted(self.path("etc"), "/etc"), *self.with_mounted(run, "/run"))
        del self.env["ALLOT_RUNTIME_DIR"]
        self.finds("ok    no allotd: ", before=[inside])
        self.path("etc/allot/allotd.conf", "[default]\nx = 1\n", 0o644)
        done = self.doctor(*inside)
        for line in (f"FAIL  no allotd runs, and by {CONF} users' tenants are made by one\n      \\S",
                     f"FAIL  {CONF}:2: x: there is no such key.*\n      \\S"):
            self.assertRegex(done.stdout, f"(?m)^{line}")
        self.assertEqual(done.returncode, 1)
        self.path("etc/allot/allotd.conf", "# nothing\n", 0o644)
        self.finds("ok    no allotd: ", before=[inside])
        self.path("etc/allot/allotd.conf", "history = off\noverpromise = warn\n", 0o644)
        self.finds(f"FAIL  no allotd runs, and by {CONF} .*", before=[inside])
        daemon = self.daemon(*inside)
        self.finds(rf"ok    allotd \(process {daemon.pid}\) answers", f"ok    {CONF} is in force$",
                   before=[inside, (*inside, *user(BOB))])


if __name__ == "__main__":
    cli_lib.main()
