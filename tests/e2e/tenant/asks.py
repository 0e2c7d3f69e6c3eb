# SPDX-License-Identifier: Apache-2.0
"""Programs that ask what their tenant is, by the module for Python and so by liballot-tenant.so:
with simulated devices, by `allot run`, by other systems' variables, and without any tenant."""
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

ALLOT = os.environ["ALLOT"]
MODULE = os.environ["ALLOT_MODULE"]
GUEST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "guest.py")
MIB = 1 << 20
LIMITS, MOVED, NOTICE, CAME = 1, 2, 4, 8


class Case(unittest.TestCase):
    def setUp(self):
        self.tmp = tempfile.mkdtemp(prefix="allot-asks-", dir="/dev/shm")
        self.addCleanup(shutil.rmtree, self.tmp, ignore_errors=True)
        self.heard = {"answer": [], "told": []}
        self.env = {**os.environ, "ALLOT_RUNTIME_DIR": self.tmp + "/run",
                    "ALLOT_SIM_DIR": self.tmp + "/sim", "ALLOT_SIM_GPUS": "1",
                    "ALLOT_SIM_MEMORY": "1GiB", "ALLOT_SIM_CONTEXT": str(16 * MIB),
                    "PYTHONPATH": MODULE, "PYTHONDONTWRITEBYTECODE": "1"}

    def allot(self, *args, timeout=100):
        done = subprocess.run([ALLOT, *args], env=self.env, text=True, capture_output=True,
                              timeout=timeout, stdin=subprocess.DEVNULL, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    @staticmethod
    def end(process):
        process.kill()
        process.communicate()

    def start(self, *before, env=None):
        process = subprocess.Popen([*before, sys.executable, "-B", GUEST],
                                   env={**self.env, **(env or {})}, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end, process)
        return process

    def run_in(self, *options, **more):
        return self.start(ALLOT, "run", "--name", "t", *options, "--", **more)

    def say(self, guest, *words):
        guest.stdin.write(" ".join(map(str, words)) + "\n")
        guest.stdin.flush()

    def hear(self, guest, what="answer"):
        """The rest of the next line of that kind; those of the other kind stay."""
        while not self.heard[what]:
            line = guest.stdout.readline()
            self.assertTrue(line, guest.poll() is not None and guest.stderr.read())
            kind, _, rest = line.partition(" ")
            self.heard[kind].append(rest)
        return self.heard[what].pop(0)

    def ask(self, guest, *words):
        self.say(guest, *words)
        return json.loads(self.hear(guest))


class Asks(Case):
    def test_unknown_place(self):
        """A newer library may say a place that the module does not know."""
        sys.path.insert(0, MODULE)
        import allot_tenant  # not installed for this test
        state = allot_tenant.State(allot_tenant._State(flags=1, place=9), [])
        self.assertEqual(state.place, 9)
        self.assertTrue(state.suspended)
        self.assertEqual(repr(state), "State('', 9, [])")

    def test_no_tenant(self):
        guest = self.start()
        self.assertEqual(self.ask(guest, "init"), 0)
        found = self.ask(guest, "get")
        self.assertFalse(found["limited"])
        self.assertEqual(found["devices"], [])
        self.assertEqual(self.ask(guest, "wait", 0.01), 0)

    def test_close_in_wait(self):
        guest = self.run_in("--memory", "64MiB")
        for by in ("signal", "thread"):
            self.assertEqual(self.ask(guest, "close_in_wait", by), "closed")

    def test_quota(self):
        guest = self.run_in("--memory", "64MiB")
        found = self.ask(guest, "get")
        self.assertTrue(found["limited"])
        self.assertEqual((found["name"], found["suspended"], found["processes"]), ("t", False, 0))
        self.assertEqual((found["limit_bytes"], found["limit_part"]), (64 * MIB, 0))
        self.assertEqual(self.ask(guest, "init"), 0)
        self.assertEqual(self.ask(guest, "alloc", 32), 0)
        self.assertEqual(self.ask(guest, "alloc", 32), 2)  # out of memory
        found = self.ask(guest, "get")
        device, = found["devices"]
        shown, = json.loads(self.allot("ps", "--json", "t"))["tenants"]
        self.assertEqual(device["uuid"], shown["devices"][0]["uuid"])
        self.assertEqual(found["processes"], 1)
        for key, name in (("used_bytes", "used_bytes"), ("limit_bytes", "quota_bytes"),
                          ("peak_bytes", "peak_bytes"), ("total_bytes", "total_bytes")):
            self.assertEqual(device[key], shown["devices"][0][name], key)
        self.assertEqual(device["limit_bytes"], 64 * MIB)
        self.assertGreaterEqual(device["used_bytes"], 48 * MIB)
        self.assertEqual(device["process_bytes"], device["used_bytes"])
        self.assertEqual(device["refusals"], 1)
        self.assertEqual(device["free_bytes"], 64 * MIB - device["used_bytes"])
        self.assertIsNone(device["busy_ns"])
        self.say(guest, "wait", "-")
        self.allot("set", "t", "--memory", "40MiB")
        self.assertEqual(json.loads(self.hear(guest)), LIMITS)
        device, = self.ask(guest, "get")["devices"]
        self.assertEqual((device["limit_bytes"], device["free_bytes"]), (40 * MIB, 0))

    def test_share(self):
        guest = self.run_in("--memory", "64MiB", "--compute", "25")
        self.assertEqual(self.ask(guest, "init"), 0)
        device, = self.ask(guest, "get")["devices"]
        self.assertEqual((device["share"], device["cap"], device["entitled"]), (.25, .25, .25))
        self.assertEqual(device["busy_ns"], 0)

    def test_drop_in(self):
        guest = self.start(env={"LD_PRELOAD": os.environ["ALLOT_GUEST"],
                                "CUDA_DEVICE_MEMORY_LIMIT": "64m"})
        self.assertFalse(self.ask(guest, "get")["limited"])
        self.assertEqual(self.ask(guest, "init"), 0)
        self.assertEqual(self.ask(guest, "wait", "-"), CAME)
        device, = self.ask(guest, "get")["devices"]
        self.assertEqual(device["limit_bytes"], 64 * MIB)


class Suspended(Case):
    def setUp(self):
        super().setUp()
        self.guest = self.run_in("--swappable", "--memory", "256MiB")
        self.assertEqual(self.ask(self.guest, "init"), 0)
        self.assertEqual(self.ask(self.guest, "alloc", 64), 0)

    def out_bytes(self):
        device, = self.ask(self.guest, "get")["devices"]
        return device["out_bytes"]

    def told(self):
        change, notice = self.hear(self.guest, "told").split()
        return int(change), int(notice)

    def test_place(self):
        self.assertTrue(self.ask(self.guest, "get")["swappable"])
        self.allot("suspend", "t")
        self.assertTrue(self.ask(self.guest, "wait", "-") & MOVED)
        self.assertTrue(self.ask(self.guest, "get")["suspended"])
        self.assertGreaterEqual(self.out_bytes(), 64 * MIB)
        self.allot("resume", "t")
        self.assertTrue(self.ask(self.guest, "wait", "-") & MOVED)
        self.assertFalse(self.ask(self.guest, "get")["suspended"])
        self.assertEqual(self.out_bytes(), 0)

    def test_nobody_listens(self):
        """The command ends long before the time that nobody asked for."""
        self.allot("suspend", "--notice", "60s", "t", timeout=50)
        self.assertGreaterEqual(self.out_bytes(), 64 * MIB)
        self.assertEqual(self.ask(self.guest, "wait", "-"), MOVED)  # and no notice

    def refused(self, command):
        out, err = command.communicate(timeout=100)
        self.assertEqual(command.returncode, 125, out)
        return err

    def suspend(self):
        return subprocess.Popen([ALLOT, "suspend", "--notice", "60s", "t"], env=self.env, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def test_refused(self):
        """No program drops anything for a suspend that is refused."""
        self.ask(self.guest, "listen")
        os.symlink("0/nowhere", os.path.join(self.tmp, "run", "t", "image"))
        self.assertIn("on its way to a disk", self.refused(self.suspend()))
        self.assertEqual(self.ask(self.guest, "wait", 0), 0)

    def test_another_tenant(self):
        """What was told to one tenant is not done to another one of its name."""
        self.ask(self.guest, "listen")
        command = self.suspend()
        self.addCleanup(self.end, command)
        self.assertEqual(self.ask(self.guest, "wait", "-"), NOTICE)
        command.send_signal(signal.SIGSTOP)
        self.end(self.guest)
        other = self.run_in("--swappable", "--memory", "256MiB")
        self.assertEqual(self.ask(other, "init"), 0)
        command.send_signal(signal.SIGCONT)
        self.assertIn("ended during the notice", self.refused(command))
        self.assertFalse(self.ask(other, "get")["suspended"])

    def test_notice(self):
        """The program gives its memory back before, so that nothing of it need be moved."""
        self.assertEqual(self.ask(self.guest, "watch"), 0)
        self.assertEqual(self.told(), (0, 0))
        self.allot("suspend", "--notice", "60s", "t", timeout=50)
        change, notice = self.told()
        self.assertTrue(change & NOTICE)
        self.assertEqual(notice, 1)
        self.assertLess(self.out_bytes(), 64 * MIB)
        while not self.told()[0] & MOVED:
            pass
        self.allot("resume", "t")
        while not self.told()[0] & MOVED:
            pass
        self.assertEqual(self.ask(self.guest, "alloc", 64), 0)
        # It listens again.
        self.allot("suspend", "--notice", "60s", "t", timeout=50)
        while not self.told()[1]:
            pass

    def test_emptied(self):
        """Memory that is filled with one word before takes no host memory, as its content would."""
        self.assertEqual(self.ask(self.guest, "write"), 0)
        for emptied in (True, False):
            if emptied:
                self.assertEqual(self.ask(self.guest, "empty"), 0)
            before = self.ask(self.guest, "anonymous")
            self.allot("suspend", "t")
            takes = self.ask(self.guest, "anonymous") - before
            self.assertGreaterEqual(self.out_bytes(), 64 * MIB)
            (self.assertLess if emptied else self.assertGreater)(takes, 32 * MIB)
            self.allot("resume", "t")
            self.assertEqual(self.ask(self.guest, "write"), 0)

    def test_no_answer(self):
        """A program that listens and does not answer is suspended when the time is over."""
        self.ask(self.guest, "listen")
        self.allot("suspend", "--notice", "50ms", "t")
        self.assertGreaterEqual(self.out_bytes(), 64 * MIB)

    def test_killed_listener(self):
        """One that has died is not waited for."""
        other = self.run_in()
        self.ask(other, "listen")
        other.kill()
        other.wait()
        self.allot("suspend", "--notice", "60s", "t", timeout=50)

    def test_words(self):
        for wrong in ("61s", "soon", "-1s"):
            done = subprocess.run([ALLOT, "suspend", f"--notice={wrong}", "t"], env=self.env, text=True,
                                  capture_output=True, timeout=100, check=False)
            self.assertEqual(done.returncode, 125, done.stderr)
            self.assertIn("--notice", done.stderr)


class Example(Case):
    def test_cache(self):
        """examples/cache.py keeps to the quota, and gives all back before it is suspended."""
        example = os.path.join(os.path.dirname(MODULE), "examples", "cache.py")
        cache = subprocess.Popen([ALLOT, "run", "--swappable", "--memory", "256MiB", "--name", "t",
                                  "--", sys.executable, "-B", example], env=self.env, text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(self.end, cache)

        def until(said):
            for line in cache.stdout:
                if line == said + "\n":
                    return
            self.fail(cache.stderr.read())

        until("128 MiB")
        self.allot("set", "t", "--memory", "128MiB")
        until("64 MiB")
        self.allot("suspend", "--notice", "60s", "t", timeout=50)
        until("given back")
        self.allot("resume", "t")
        until("64 MiB")


class Installed(Case):
    @unittest.skipUnless(importlib.util.find_spec("pip"), "no pip")
    def test_pip(self):
        """Without a network, and with the library in the wheel."""
        there = os.path.join(self.tmp, "there")
        subprocess.run([sys.executable, "-m", "pip", "install", "--no-index", "--quiet",
                        "--disable-pip-version-check", "--target", there, MODULE], env=self.env,
                       check=True, timeout=200, stdin=subprocess.DEVNULL)
        found = subprocess.run(
            [sys.executable, "-c", "import allot_tenant; print(allot_tenant.__file__); "
             "print(allot_tenant.Tenant().get())"],
            env={**self.env, "PYTHONPATH": there, "ALLOT_TENANT_LIBRARY": ""}, check=True,
            text=True, capture_output=True, timeout=100)
        self.assertEqual(found.stdout, f"{there}/allot_tenant.py\nState(no tenant)\n")


if __name__ == "__main__":
    unittest.main()
