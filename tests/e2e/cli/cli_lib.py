# SPDX-License-Identifier: Apache-2.0
"""What the tests of the allot command share: a runtime directory of their own, and running it."""

import os
import pathlib
import pty
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import unittest

ALLOT = os.environ["ALLOT"]
HOLDER = os.environ.get("ALLOT_HOLDER")
STATIC = os.environ.get("ALLOT_STATIC")
LOAD = os.environ.get("ALLOT_LOAD")
MIB = 1 << 20
GIB = 1 << 30
OWN = ("ALLOT_TENANT_DIR", "ALLOT_SIM_DIR", "ALLOT_SIM_GPUS", "ALLOT_SIM_MEMORY", "ALLOT_LIBRARY",
       "ALLOT_SIM_CONTEXT", "LD_PRELOAD", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES",
       "CUDA_DEVICE_ORDER", "XDG_RUNTIME_DIR", "ALLOT_AMD_ROOT", "ROCR_VISIBLE_DEVICES",
       "HIP_VISIBLE_DEVICES", "ALLOT_CGROUP_ROOT")
DOCS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "docs", "json.md")
SHM = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
UUID_A = "GPU-11111111-2222-3333-4444-555555555555"
UUID_B = "GPU-aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"

# A shell traps no signal that was ignored when it began, as under nohup.
for sig in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
    if signal.getsignal(sig) is signal.SIG_IGN:
        signal.signal(sig, signal.SIG_DFL)


def fork_on_terminal():
    """pty.fork(); skips the test where there are no terminals, as in a bare chroot."""
    try:
        return pty.fork()
    except OSError as error:
        raise unittest.SkipTest(f"no terminal to be had: {error}") from error


def documented():
    """{section: {key: type}} from the tables of docs/json.md."""
    sections, section = {}, None
    with open(DOCS, encoding="utf-8") as file:
        for line in file:
            heading = re.match(r"## `(\w+)`", line)
            row = re.match(r"\| `(\w+)` \| ([^|]+?) \|", line)
            if heading:
                section = sections.setdefault(heading[1], {})
            elif row and section is not None:
                section[row[1]] = row[2]
    return sections


def fits(value, kind):
    return any({"string": isinstance(value, str), "null": value is None,
                "boolean": isinstance(value, bool), "array": isinstance(value, list),
                "object": isinstance(value, dict),
                "signed integer": isinstance(value, int) and not isinstance(value, bool),
                "integer": isinstance(value, int) and not isinstance(value, bool) and value >= 0}[k]
               for k in kind.split(" or "))


def closed_to_others(path):
    """Why other users do not come to a program, as to all of root's home; None: they do."""
    for folder in pathlib.Path(path).resolve().parents:
        if not folder.stat().st_mode & stat.S_IXOTH:
            return f"{folder} is closed to other users (chmod o+x, or build elsewhere)"
    return None


# Why there is nobody but who runs this, or None.
NO_USERS = "users are had by root alone" if os.geteuid() else closed_to_others(ALLOT)


class Case(unittest.TestCase):
    def setUp(self):
        # In memory: an overlay, as /tmp is in a container, does not keep locks with mappings.
        self.tmp = tempfile.mkdtemp(prefix="allot-test-", dir=SHM)
        self.addCleanup(shutil.rmtree, self.tmp, ignore_errors=True)
        self.runtime = os.path.join(self.tmp, "run")
        self.env = {k: v for k, v in os.environ.items() if k not in OWN}
        self.env["ALLOT_RUNTIME_DIR"] = self.runtime
        # A directory that may not be searched would make "not found" of a command "forbidden".
        self.env["PATH"] = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"

    def allot(self, *args, env=None, **kwargs):
        """Runs allot to its end: returncode, stdout, stderr."""
        return subprocess.run([ALLOT, *args], env={**self.env, **(env or {})}, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=200, **kwargs)

    def ok(self, *args, **kwargs):
        done = self.allot(*args, **kwargs)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def fails(self, status, *args, says=(), **kwargs):
        """allot's own error: the status, one line on stderr that has all of `says`."""
        done = self.allot(*args, **kwargs)
        self.assertEqual(done.returncode, status, done.stderr)
        for word in says:
            self.assertIn(word, done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertTrue(done.stderr.startswith("allot"), done.stderr)
        return done.stderr

    def start(self, *args, **kwargs):
        """A process that is killed when the test ends."""
        process = subprocess.Popen(args, env=self.env, text=True, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, **kwargs)

        def end():
            if process.poll() is None:
                process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()

        self.addCleanup(end)
        return process

    def living(self, name, *options, **kwargs):
        """A process that a tenant lives by, without a GPU, until the test ends or closes it."""
        process = self.start(ALLOT, "run", "--name", name, *options, "--", "sh", "-c",
                             "echo up; read x", **kwargs)
        self.assertEqual(process.stdout.readline(), "up\n")
        return process

    def keep(self, name, *options, **kwargs):
        """A tenant that stays without a process."""
        return self.ok("run", "--print-env", "--name", name, *options, **kwargs)

    def hold(self, tenant, *amounts):
        """A process of the tenant that holds memory: amounts are "device:category:bytes"."""
        process = self.start(HOLDER, os.path.join(self.runtime, tenant), *amounts)
        self.assertEqual(process.stdout.readline(), "held\n")
        return process

    def check_shape(self, value, section, shapes):
        self.assertEqual(list(value), list(shapes[section]), section)
        for key, kind in shapes[section].items():
            self.assertTrue(fits(value[key], kind), f"{section}.{key}: {value[key]!r} is no {kind}")

    def path(self, name, text=None, mode=0o755):
        path = os.path.join(self.tmp, name)
        if text is not None:
            with open(path, "w", encoding="utf-8") as out:
                out.write(text)
            os.chmod(path, mode)
        return path


def wait_for(condition, seconds=100):
    """Polls; the bound is for a hang, not a measure."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("waited in vain")
        time.sleep(0.02)


class Result(unittest.TextTestResult):
    succeeded = 0

    def addSuccess(self, test):
        super().addSuccess(test)
        self.succeeded += 1


def main():
    """A program of which all is skipped says so, with a reason."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    runner = unittest.TextTestRunner(verbosity=2, resultclass=Result)
    result = unittest.main(argv=[sys.argv[0]], testRunner=runner, exit=False).result
    if result.wasSuccessful() and result.skipped and not result.succeeded:
        print(result.skipped[0][1], file=sys.stderr)
        sys.exit(77)
    sys.exit(not result.wasSuccessful())
