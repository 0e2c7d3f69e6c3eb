# SPDX-License-Identifier: Apache-2.0
"""docs/first-hour.md, done as it is written by an administrator and two users, on a simulated device."""

import os
import re
import shlex
import subprocess

import cli_lib
import daemon_lib
import users_lib
from users_lib import ALICE, BOB

PAGE = os.path.join(os.environ["ALLOT_SOURCE"], "docs", "first-hour.md")
USERS = {"alice": ALICE, "bob": BOB, "Making room": ALICE}
# Wants packages, or systemd as the first process; the unit is tried by cli-uninstall.
NOT_DONE = re.compile(r"apt-get |systemctl ")


def sections():
    """{heading: its text}, in order."""
    with open(PAGE, encoding="utf-8") as page:
        parts = re.split(r"(?m)^## (.*)\n", page.read())
    return dict(zip(parts[1::2], parts[2::2]))


def commands(text, prompt):
    return re.findall(rf"(?m)^    {re.escape(prompt)} (.*)$", text)


class FirstHour(users_lib.Case):
    def setUp(self):
        super().setUp()
        self.env["ALLOT_SIM_MEMORY"] = "24GiB"
        self.running = {}

    def administrator(self, text):
        (conf,) = re.findall(r"(?m)^    \[default\]\n(?:    \S.*\n)+", text)
        path = self.path("allotd.conf", re.sub(r"(?m)^    ", "", conf), 0o644)
        self.share_devices()
        for command in commands(text, "#"):
            if command == "allot doctor":
                self.assertIn("GPU 0", self.allot("doctor").stdout)
            elif command == "allotd --check":
                done = subprocess.run([daemon_lib.ALLOTD, "--check", "--config", path], check=False,
                                      env=self.env, text=True, capture_output=True, timeout=60)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
            else:
                self.assertRegex(command, NOT_DONE)
        self.daemon(options=("--config", path))

    def run_tenant(self, uid, words):
        """A program that takes no notice of the GPU stands for the user's."""
        name = words[words.index("--name") + 1]
        if name in self.running:
            self.running[name].communicate("\n")
        process = self.start(*users_lib.user(uid), cli_lib.ALLOT, *words[1:words.index("--")], "--",
                             "sh", "-c", "echo up; read x")
        self.assertEqual(process.stdout.readline(), "up\n")
        self.running[name] = process

    def one(self, uid, command):
        words = shlex.split(command)
        self.assertEqual(words[0], "allot")
        if words[1] == "run":
            self.run_tenant(uid, words)
        else:
            said = self.user_ok(uid, *words[1:], *(["--once"] if words[1] == "top" else []))
            if words[1] in ("ps", "top"):
                self.assertIn("train", said)

    def test_page(self):
        done = 0
        for heading, text in sections().items():
            who = heading.split(":")[0]
            if who == "The administrator":
                self.administrator(text)
            for command in commands(text, "$"):
                self.one(USERS[who], command)
                done += 1
        self.assertGreater(done, 7)
        self.user_ok(ALICE, "set", "train", "--trace", "on")
        self.ok("suspend", f"train@{ALICE}")
        self.running["train"].kill()
        self.running["train"].wait()
        self.ok("ps")
        self.assertIn("train", self.ok("ps", "--ended", f"train@{ALICE}"))


if __name__ == "__main__":
    cli_lib.main()
