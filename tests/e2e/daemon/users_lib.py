# SPDX-License-Identifier: Apache-2.0
"""What the tests of users' tenants share: an allotd of root's, and commands of two users."""

import json
import os
import socket
import subprocess
import unittest

import cli_lib
import daemon_lib

ALICE, BOB, CAROL, DAVE = 12345, 65534, 12346, 12347
MIB = 1 << 20
MAGIC, VERSION = 0x4f43544c, 2  # control/message.h


def user(uid):
    return ("setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups")


@unittest.skipIf(cli_lib.NO_USERS, cli_lib.NO_USERS)
class Case(daemon_lib.Case):
    def setUp(self):
        super().setUp()
        os.chmod(self.tmp, 0o755)
        self.users = self.runtime + "-users"
        self.env.update(ALLOT_SIM_DIR=os.path.join(self.tmp, "sim"), ALLOT_SIM_MEMORY="4GiB",
                        ALLOT_SIM_CONTEXT="16MiB", LD_LIBRARY_PATH=os.environ["SIM_LIBRARIES"])

    def as_user(self, uid, *words):
        return subprocess.run([*user(uid), cli_lib.ALLOT, *words], env=self.env, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=60,
                              check=False)

    def user_ok(self, uid, *words):
        done = self.as_user(uid, *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def user_fails(self, uid, *words, says=()):
        done = self.as_user(uid, *words)
        self.assertEqual(done.returncode, 125, done.stdout + done.stderr)
        for word in says:
            self.assertIn(word, done.stderr)

    @staticmethod
    def nobody_is(uid):
        with open("/etc/passwd", encoding="utf-8") as passwd:
            return f"\nnobody:x:{uid}:" in passwd.read()

    def dir(self, name, uid):
        return os.path.join(self.users, f"{name}@{uid}")

    def alive(self, uid, name, *options):
        """A process of that user's tenant, until the test ends or closes it."""
        process = self.start(*user(uid), cli_lib.ALLOT, "run", "--name", name, *options, "--", "sh",
                             "-c", "echo up; read x")
        self.assertEqual(process.stdout.readline(), "up\n")
        return process

    def share_devices(self):
        """Made by root, for all users."""
        self.ok("sim", "--shared", "--dir", self.env["ALLOT_SIM_DIR"], "--", "true")

    def find_request_bytes(self):
        """What the command sends, seen by one in allotd's place."""
        path = os.path.join(self.users, "control")
        os.makedirs(self.users, exist_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(path)
            os.chmod(path, 0o666)
            listener.listen()
            listener.settimeout(60)
            process = self.start(*user(ALICE), cli_lib.ALLOT, "run", "--", "true",
                                 stderr=subprocess.DEVNULL)
            connection, _ = listener.accept()
            with connection:
                self.request_bytes = len(connection.recv(1 << 20))
            process.wait()
        os.unlink(path)

    def program(self, *words, options=(), daemon=()):
        """In ALICE's tenant "f" of 512 MiB, when it has said something; and the daemon."""
        self.share_devices()
        daemon = self.daemon(options=daemon)
        process = self.start(*user(ALICE), cli_lib.ALLOT, "run", "--name", "f", "--memory", "512MiB",
                             *options, "--", *words)
        self.assertTrue(process.stdout.readline())
        return daemon

    def can(self, uid, *command):
        return subprocess.run([*user(uid), *command], stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=60, check=False).returncode == 0

    def quota(self, name):
        """By root, in bytes."""
        tenants = {t["name"]: t for t in json.loads(self.ok("ps", "--json"))["tenants"]}
        return tenants[name]["policy"][0]["limit_bytes"]

    def with_mounted(self, ours, path):
        """A command before others, by which they see ours there; or the test is skipped."""
        before = ("unshare", "--mount", "sh", "-c", 'mount --bind "$0" "$1" && shift && exec "$@"',
                  ours, path)
        if subprocess.run([*before, "true"], capture_output=True, check=False).returncode:
            self.skipTest("nothing can be mounted here")
        return before
