# SPDX-License-Identifier: Apache-2.0
"""A tenant's memory by Vulkan: a program that takes it through the system's loader, or by itself. What
is on the device is the simulator's own count."""

import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import unittest

ALLOT = os.environ["ALLOT"]
GUEST = os.environ["VULKAN_GUEST"]
DRIVER = os.environ["VULKAN_DRIVER"]
TRUTH = os.environ["SWAP_TRUTH"]
MIB = 1 << 20
LONG = 120
TYPE_HOST = 1  # of the simulated driver: memory of the host
OUT_OF_DEVICE_MEMORY = "error -2"


class Case(unittest.TestCase):
    MEMORY, CONTEXT = 1024, "1MiB"

    def setUp(self):
        self.tmp = tempfile.mkdtemp(prefix="allot-vulkan-", dir="/dev/shm")
        self.addCleanup(shutil.rmtree, self.tmp, ignore_errors=True)
        self.env = {**os.environ, "ALLOT_RUNTIME_DIR": self.tmp + "/run", "XDG_RUNTIME_DIR": self.tmp,
                    "ALLOT_SIM_DIR": self.tmp + "/sim", "ALLOT_SIM_GPUS": "1",
                    "ALLOT_SIM_MEMORY": f"{self.MEMORY}MiB", "ALLOT_SIM_CONTEXT": self.CONTEXT,
                    "VK_ICD_FILENAMES": os.environ["VULKAN_MANIFEST"],
                    "VK_DRIVER_FILES": os.environ["VULKAN_MANIFEST"]}
        self.env.pop("ALLOT_FAULT", None)
        self.truth = subprocess.Popen([TRUTH], env=self.env, stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.end, self.truth)

    @staticmethod
    def end(process):
        process.kill()
        process.communicate()

    def used(self):
        """Of the device, in MiB."""
        self.truth.stdin.write("\n")
        self.truth.stdin.flush()
        return json.loads(self.truth.stdout.readline())["used"][0] // MIB

    def start(self, *options, way="loader", tenant=True, env=None):
        run = [ALLOT, "run", "--name", "t", *options, "--"] if tenant else []
        process = subprocess.Popen([*run, GUEST, way], env={**self.env, **(env or {})}, text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(self.end, process)
        self.assertEqual(process.stdout.readline(), "ready\n",
                         process.poll() is not None and process.stderr.read())
        return process

    @staticmethod
    def ask(process, words):
        process.stdin.write(words + "\n")
        process.stdin.flush()
        return process.stdout.readline().strip()

    def quit(self, process):
        _, err = process.communicate(timeout=LONG)
        said = [line for line in err.splitlines() if "joined tenant" not in line]
        self.assertEqual((process.returncode, said), (0, []))

    def device(self):
        done = subprocess.run([ALLOT, "ps", "--json", "t"], env=self.env, capture_output=True, text=True,
                              check=True, timeout=LONG)
        tenant, = json.loads(done.stdout)["tenants"]
        device, = tenant["devices"]
        return device

    def fills(self, process, quota):
        """Up to the quota and not beyond, and the simulator's count is what was given."""
        took = 0
        while (said := self.ask(process, "take 32")).startswith("took"):
            took += 32
            self.assertLessEqual(took, quota)
        self.assertEqual(said, OUT_OF_DEVICE_MEMORY)
        self.assertEqual((took, self.used()), (quota, quota))
        self.assertEqual(self.device()["used_bytes"], quota * MIB)


class Vulkan(Case):
    # --- each way to the driver -------------------------------------------------------------------

    def test_natively(self):
        """Without us all of the device is had: the tests can fail."""
        for way in ("loader", DRIVER):
            process = self.start(way=way, tenant=False)
            self.assertEqual(self.ask(process, "heaps").split()[0], str(self.MEMORY))
            self.assertTrue(self.ask(process, "take 900").startswith("took"))
            self.assertEqual(self.used(), 900)
            self.quit(process)
            self.assertEqual(self.used(), 0)

    def test_quota(self):
        for way in ("loader", DRIVER):
            process = self.start("--memory", "256MiB", way=way)
            self.fills(process, 256)
            self.assertEqual(self.ask(process, "drop 1"), "dropped")
            self.assertEqual((self.used(), self.device()["used_bytes"]), (224, 224 * MIB))
            self.assertEqual(self.ask(process, "take 32"), "took 1")
            self.assertEqual(self.ask(process, "take 1"), OUT_OF_DEVICE_MEMORY)
            self.quit(process)
            self.assertEqual(self.used(), 0)

    def test_layers_are_off(self):
        """Nothing that a loader may be told leads past us."""
        process = self.start("--memory", "256MiB", env={"VK_LOADER_LAYERS_DISABLE": "*",
                                                        "VK_INSTANCE_LAYERS": ""})
        self.fills(process, 256)
        self.quit(process)

    def test_oldest_version(self):
        """A program of Vulkan 1.0 asks for no extension by which its device could be told."""
        process = self.start("--memory", "256MiB", way=DRIVER, env={"VULKAN_VERSION": "1.0"})
        self.fills(process, 256)
        self.quit(process)

    def test_hosts_memory_is_free(self):
        process = self.start("--memory", "64MiB")
        self.assertTrue(self.ask(process, f"take 128 {TYPE_HOST}").startswith("took"))
        self.assertEqual(self.used(), 0)
        self.assertEqual(self.ask(process, "take 64"), "took 1")
        self.assertEqual((self.used(), self.device()["used_bytes"]), (64, 64 * MIB))
        self.quit(process)

    def test_device_ends(self):
        """What it had given goes with it."""
        process = self.start("--memory", "256MiB")
        self.fills(process, 256)
        self.assertEqual(self.ask(process, "again"), "again 0")
        self.assertEqual((self.used(), self.device()["used_bytes"]), (0, 0))
        self.fills(process, 256)
        self.quit(process)

    def test_two_processes(self):
        """They have one quota, and what a killed one held is had by the other."""
        a = self.start("--memory", "256MiB")
        b = self.start("--memory", "256MiB")
        self.assertEqual(self.ask(a, "take 200"), "took 0")
        self.assertEqual(self.ask(b, "take 100"), OUT_OF_DEVICE_MEMORY)
        a.kill()
        a.wait()
        self.assertEqual(self.ask(b, "take 256"), "took 0")
        self.quit(b)

    def test_by_driver(self):
        """The driver's figure may be what counts."""
        process = self.start("--memory", "256MiB", "--accounting", "driver")
        took = 0
        while (said := self.ask(process, "take 32")).startswith("took"):
            took += 32
        self.assertEqual((said, took, self.used()), (OUT_OF_DEVICE_MEMORY, 256, 256))
        self.assertEqual(self.ask(process, "drop 0"), "dropped")
        self.assertEqual(self.ask(process, "take 32"), "took 0")
        self.quit(process)

    def test_drivers_own(self):
        """What the driver takes for itself counts from the next allocation on."""
        process = self.start("--memory", "256MiB", env={"ALLOT_SIM_VULKAN_CONTEXT": "40MiB"})
        took = 0
        while (said := self.ask(process, "take 8")).startswith("took"):
            took += 8
        self.assertEqual((said, took, self.used()), (OUT_OF_DEVICE_MEMORY, 216, 256))
        self.assertEqual(self.device()["used_bytes"], 256 * MIB)
        self.quit(process)

    def test_quota_is_lowered(self):
        process = self.start("--memory", "256MiB")
        self.assertEqual(self.ask(process, "take 128"), "took 0")
        subprocess.run([ALLOT, "set", "t", "--memory", "64MiB"], env=self.env, check=True)
        self.assertEqual(self.ask(process, "take 1"), OUT_OF_DEVICE_MEMORY)
        size, budget, usage = map(int, self.ask(process, "heaps").split())
        self.assertEqual(size, 64)
        self.assertLessEqual(max(budget, usage), 64)
        self.assertEqual(self.ask(process, "drop 0"), "dropped")
        self.assertEqual(self.ask(process, "take 64"), "took 0")
        self.quit(process)

    def test_shared(self):
        """Memory that goes to another process by a descriptor counts once, whoever of them ends first."""
        for first in (0, 1):
            a = self.start("--memory", "256MiB")
            b = self.start("--memory", "256MiB")
            self.assertEqual(self.ask(a, "take 200"), "took 0")
            word, descriptor = self.ask(a, "export 0").split(maxsplit=1)
            self.assertEqual(word, "fd")
            self.assertEqual(self.ask(b, f"import {descriptor} 200"), "took 0")
            self.assertEqual(self.device()["used_bytes"], 200 * MIB)
            self.assertEqual(self.ask(b, "take 56"), "took 1")
            self.assertEqual(self.ask(b, "take 1"), OUT_OF_DEVICE_MEMORY)
            self.quit((a, b)[first])
            self.assertEqual(self.device()["used_bytes"], (256, 200)[first] * MIB)
            self.quit((b, a)[first])
            self.assertEqual(self.used(), 0)

    # --- what is seen -----------------------------------------------------------------------------

    def test_view(self):
        a = self.start("--memory", "256MiB")
        self.assertEqual(self.ask(a, "heaps"), "256 256 0")
        self.assertEqual(self.ask(a, "take 100"), "took 0")
        self.assertEqual(self.ask(a, "heaps"), "256 256 100")
        b = self.start("--memory", "256MiB")
        self.assertEqual(self.ask(b, "heaps"), "256 156 0")
        for process in (a, b):
            self.quit(process)

    def test_not_given(self):
        """A device that the tenant was not given is not found."""
        env = {"ALLOT_SIM_GPUS": "2", "ALLOT_SIM_DIR": self.tmp + "/two"}
        process = self.start(way=DRIVER, env=env, tenant=False)
        self.assertEqual(self.ask(process, "devices"), "2")
        self.quit(process)
        process = self.start("--gpu", "1", "--memory", "256MiB", way=DRIVER, env=env)
        self.assertEqual(self.ask(process, "devices"), "1")
        self.assertEqual(self.ask(process, "heaps").split()[0], "256")
        self.assertEqual(self.ask(process, "take 256"), "took 0")
        self.assertEqual(self.ask(process, "take 1"), OUT_OF_DEVICE_MEMORY)
        self.quit(process)

    def test_closed(self):
        """A tenant that cannot be used has no GPU, by this API neither."""
        process = subprocess.run([GUEST, "loader"], input="devices\n", capture_output=True, text=True,
                                 env={**self.env, "LD_PRELOAD": os.environ["ALLOT_LIBRARY"],
                                      "ALLOT_TENANT_DIR": self.tmp + "/none"}, check=False, timeout=LONG)
        self.assertEqual(process.stdout, "ready\n0\n")

    def test_forked_child(self):
        """It inherits the driver's objects, and is charged for what it takes by them."""
        process = self.start("--memory", "256MiB", way=DRIVER)
        self.assertEqual(self.ask(process, "take 256"), "took 0")
        self.assertEqual(self.ask(process, "fork"), "child 3")
        self.quit(process)

    # --- at random --------------------------------------------------------------------------------

    def test_storm(self):
        seed = int(os.environ.get("SEED", random.randrange(1 << 20)))
        rand = random.Random(seed)
        for way in ("loader", DRIVER):
            process = self.start("--memory", "96MiB", way=way)
            for _ in range(10):
                said = self.ask(process, f"storm {rand.randrange(1 << 30)} 500").split()
                self.assertEqual((int(said[1]), int(said[1]) * MIB),
                                 (self.used(), self.device()["used_bytes"]), (seed, said))
                self.assertLessEqual(int(said[1]), 96)
            process.stdin.write(f"storm {rand.randrange(1 << 30)} 100000000\n")
            process.stdin.flush()
            process.kill()
            process.wait()
            again = self.start("--memory", "96MiB", way=way)
            self.fills(again, 96)
            self.quit(again)


class BesideCuda(Case):
    CONTEXT = "300MiB"

    def test_beside_cuda(self):
        """One quota for both, whichever comes first, and nothing counts twice."""
        for first, second in (("take 100", "cuda 100"), ("cuda 100", "take 100")):
            process = self.start("--memory", "800MiB")
            for words, said in ((first, None), (second, None), ("take 301", OUT_OF_DEVICE_MEMORY),
                                ("cuda 301", "cuda 2"), ("take 200", None), ("cuda 80", None),
                                ("take 24", OUT_OF_DEVICE_MEMORY)):
                answer = self.ask(process, words)
                if said:
                    self.assertEqual(answer, said, words)
                else:
                    self.assertTrue(answer.startswith("took") or answer == "cuda 0", (words, answer))
                self.assertLessEqual(self.used(), 800)
            self.assertEqual(self.device()["used_bytes"], self.used() * MIB)
            self.quit(process)

    def test_other_vendors(self):
        """Memory that another vendor's driver takes is accounted where that asks for it."""
        process = self.start("--memory", "800MiB", way=os.environ["VULKAN_OTHER"],
                             env={"VULKAN_VENDOR": "0x1002"})
        self.assertEqual(self.ask(process, "take 400"), "took 0")
        self.assertEqual((self.used(), self.device()["used_by_category"]["data"]), (700, 400 * MIB))
        self.assertEqual(self.ask(process, "take 101"), OUT_OF_DEVICE_MEMORY)
        self.assertEqual(self.ask(process, "drop 0"), "dropped")
        self.assertEqual((self.used(), self.device()["used_bytes"]), (300, 300 * MIB))
        self.quit(process)

    def test_suspend(self):
        """It says what stays, and moves nothing."""
        process = self.start("--memory", "800MiB", "--swappable")
        self.assertEqual(self.ask(process, "cuda 100"), "cuda 0")
        self.assertEqual(self.ask(process, "take 64"), "took 0")
        done = subprocess.run([ALLOT, "suspend", "t"], env=self.env, capture_output=True, text=True,
                              check=False, timeout=LONG)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("64 MiB of memory by Vulkan or OpenCL, which cannot leave", done.stderr)
        self.assertEqual(self.device()["used_bytes"], self.used() * MIB)
        self.assertEqual(self.ask(process, "drop 0"), "dropped")
        subprocess.run([ALLOT, "suspend", "t"], env=self.env, check=True, timeout=LONG)
        subprocess.run([ALLOT, "resume", "t"], env=self.env, check=True, timeout=LONG)
        self.quit(process)


if __name__ == "__main__":
    if not any(list(pathlib.Path(at, "vulkan/icd.d").glob("lvp_icd*.json")) for at in ("/usr/share", "/etc")):
        print("Mesa's software driver is not here (mesa-vulkan-drivers)")
        sys.exit(77)
    unittest.main()
