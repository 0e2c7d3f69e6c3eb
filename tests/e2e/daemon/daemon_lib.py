# SPDX-License-Identifier: Apache-2.0
"""What the tests of allotd share: the daemon on a port of its own, and asking it."""

import contextlib
import functools
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request

import cli_lib

ALLOTD = os.environ["ALLOTD"]
UNIT = os.path.join(os.environ["ALLOT_SOURCE"], "deploy/systemd/allotd.service.in")
FILTER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "call_filter.py")
SAMPLE = re.compile(r'(\w+)(?:\{(.*)\})? (-?[\d.]+)$')
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def calls_of(word):
    """The names of a system call's set, as systemd has it, or the call's own."""
    if not word.startswith("@"):
        return {word}
    said = subprocess.run(["systemd-analyze", "syscall-filter", word], check=True, text=True,
                          capture_output=True, timeout=60).stdout
    members = [line.strip() for line in said.splitlines()[1:] if line.strip()]
    return set().union(*(calls_of(member) for member in members if not member.startswith("#")))


@functools.cache
def allowed_calls():
    """The numbers of the system calls that the unit leaves. None: it cannot be told here."""
    numbers = {}
    try:
        with open(UNIT, encoding="utf-8") as unit:
            lists = re.findall(r"^SystemCallFilter=(~?)(.+)$", unit.read(), re.M)
        allowed = set()
        for minus, words in lists:
            named = set().union(*(calls_of(word) for word in words.split()))
            allowed = allowed - named if minus else allowed | named
        said = subprocess.run(["cc", "-E", "-dM", "-include", "asm/unistd.h", "-xc", "/dev/null"],
                              check=True, text=True, capture_output=True, timeout=60).stdout
        numbers.update(re.findall(r"#define __NR_(\w+) (\d+)$", said, re.M))
    except (FileNotFoundError, subprocess.CalledProcessError):
        return None
    return ",".join(numbers[name] for name in sorted(allowed) if name in numbers)


def as_in_the_unit():
    """Words before a command that leave of root what systemd leaves of it to allotd."""
    if os.geteuid():
        return []
    with open(UNIT, encoding="utf-8") as unit:
        names = re.search(r"^CapabilityBoundingSet=(.+)$", unit.read(), re.M)[1].split()
    kept = "".join(",+" + name.removeprefix("CAP_").lower() for name in names)
    words = ["setpriv", "--no-new-privs", f"--bounding-set=-all{kept}"]
    calls = allowed_calls()
    return words + ([sys.executable, "-SEB", FILTER, calls] if calls else [])


def kill_all(process):
    """With what it started; or it is gone."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


class Case(cli_lib.Case):
    def setUp(self):
        super().setUp()
        self.port = free_port()
        self.log_name = "log"

    def daemon(self, *before, options=()):
        """allotd, beneath `before`; ready when this returns, ended with the test."""
        notify = os.path.join(self.tmp, "notify")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(notify)
            manager.settimeout(60)
            with open(os.path.join(self.tmp, self.log_name), "w", encoding="utf-8") as log:
                daemon = subprocess.Popen(
                    [*before, *as_in_the_unit(), ALLOTD, "--foreground", "--listen",
                     f"127.0.0.1:{self.port}", *options],
                    env={**self.env, "NOTIFY_SOCKET": notify}, stderr=log,
                    start_new_session=True)
            self.addCleanup(daemon.wait)
            self.addCleanup(kill_all, daemon)
            self.assertEqual(manager.recv(100), b"READY=1")
        os.unlink(notify)
        return daemon

    def log(self):
        with open(os.path.join(self.tmp, self.log_name), encoding="utf-8") as log:
            return log.read()

    def get(self, path, method="GET"):
        """(status, type, text) of a page."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.headers["Content-Type"], answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.headers["Content-Type"], error.read().decode()

    def headers(self, path):
        """Those of the answer, whatever it is."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=60) as answer:
                return answer.headers
        except urllib.error.HTTPError as error:
            return error.headers

    def samples(self):
        """{(name, {label: value}...)} of /metrics, labels as a sorted tuple of pairs."""
        found = {}
        for line in self.get("/metrics")[2].splitlines():
            if not line.startswith("#"):
                name, labels, value = SAMPLE.match(line).groups()
                key = name, tuple(sorted(LABEL.findall(labels or "")))
                self.assertNotIn(key, found)
                found[key] = float(value)
        return found

    def peak(self, daemon):
        """Most memory that it had, in MiB."""
        with open(f"/proc/{daemon.pid}/status", encoding="ascii") as status:
            return int(re.search(r"VmHWM:\s+(\d+) kB", status.read())[1]) >> 10

    def end(self, daemon):
        daemon.send_signal(signal.SIGTERM)
        self.assertEqual(daemon.wait(60), 0, self.log())


def key(name, **labels):
    return name, tuple(sorted(labels.items()))
