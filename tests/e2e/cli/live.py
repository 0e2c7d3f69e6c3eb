# SPDX-License-Identifier: Apache-2.0
"""The commands around a program that uses a (simulated) GPU: run, ps, and set while it runs."""

import json
import os
import sys

import cli_lib
from cli_lib import ALLOT, GIB, MIB

OK, OUT_OF_MEMORY = 0, 2

# Knows nothing of allot: allocates and frees as it is told, and answers with the CUresult.
PROGRAM = """
import ctypes, sys
cu = ctypes.CDLL("libcuda.so.1")
context, blocks = ctypes.c_void_p(), []
assert cu.cuInit(0) == 0 and cu.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cu.cuCtxSetCurrent(context) == 0
print("up", flush=True)
for line in sys.stdin:
    word, *rest = line.split()
    if word == "alloc":
        block = ctypes.c_uint64()
        result = cu.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(int(rest[0])))
        if result == 0:
            blocks.append(block)
        print(result, flush=True)
    elif word == "free":
        print(cu.cuMemFree_v2(blocks.pop()), flush=True)
    elif word == "info":
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        assert cu.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0
        print(free.value, total.value, flush=True)
"""


class Live(cli_lib.Case):
    def setUp(self):
        super().setUp()
        self.directory = self.path("devices")

    def program(self, *options):
        process = self.start(ALLOT, "sim", "--memory", "8GiB", "--context", "2MiB", "--dir",
                             self.directory, "--", ALLOT, "run", *options, "--", sys.executable,
                             "-c", PROGRAM)
        self.assertEqual(process.stdout.readline(), "up\n")

        def ask(*words):
            process.stdin.write(" ".join(map(str, words)) + "\n")
            process.stdin.flush()
            answer = [int(word) for word in process.stdout.readline().split()]
            return answer[0] if len(answer) == 1 else answer

        return process, ask

    def tenant(self, name):
        (tenant,) = json.loads(self.ok("ps", "--json", name))["tenants"]
        return tenant

    def test_set_while_it_runs(self):
        process, ask = self.program("--name", "a", "--memory", "1GiB")
        self.assertEqual(ask("alloc", 800 * MIB), OK)
        self.assertEqual(ask("alloc", 800 * MIB), OUT_OF_MEMORY)
        self.assertEqual(ask("info")[1], GIB)
        self.ok("set", "a", "--memory", "2GiB")
        self.assertEqual(ask("info")[1], 2 * GIB)
        self.assertEqual(ask("alloc", 800 * MIB), OK)
        self.assertIn("nothing is taken away", self.ok("set", "a", "--memory", "1GiB"))
        # Its use is no matter of what follows.
        self.assertNotIn("quota", self.ok("set", "a", "--compute", "50"))
        self.assertNotIn("quota", self.ok("set", "a", "--trace", "on"))
        self.assertEqual(ask("info"), [0, GIB])
        self.assertEqual(ask("alloc", 2 * MIB), OUT_OF_MEMORY)
        self.assertEqual(ask("free"), OK)
        self.assertEqual(ask("alloc", 100 * MIB), OK)
        self.assertEqual(ask("alloc", 200 * MIB), OUT_OF_MEMORY)
        (device,) = self.tenant("a")["devices"]
        self.assertEqual(device["used_by_category"]["data"], 900 * MIB)
        self.assertEqual((device["quota_bytes"], device["refusals"]), (GIB, 3))
        process.stdin.close()
        self.assertEqual(process.wait(100), 0)
        self.assertIn("no tenants", self.ok("ps"))
        (ended,) = json.loads(self.ok("ps", "--ended", "--json"))["ended"]
        self.assertEqual((ended["peak_bytes"], ended["refusals"]), (1602 * MIB, 3))

    def test_a_quota_above_the_device(self):
        sim = ("sim", "--memory", "24GiB", "--dir", self.directory, "--", ALLOT)
        said = "note: --memory: 500 GiB is more than any device has; its 24 GiB are the limit\n"
        held = self.start(ALLOT, *sim, "run", "--name", "a", "--memory", "1GiB", "--", "sh", "-c",
                          "echo up; read x")
        self.assertEqual(held.stdout.readline(), "up\n")
        for size, note in (("500GiB", said), ("24GiB", None)):
            for command in (("run", "--memory", size, "--", "true"), ("set", "a", "--memory", size)):
                with self.subTest(command=command):
                    self.assertEqual(self.allot(*sim, *command).stderr,
                                     f"allot {command[0]}: {note}" if note else "")

    def test_two_runs_share_one_quota(self):
        _, first = self.program("--name", "a", "--memory", "1GiB")
        _, second = self.program("--name", "a")
        self.assertEqual(first("alloc", 800 * MIB), OK)
        self.assertEqual(second("alloc", 800 * MIB), OUT_OF_MEMORY)
        self.assertEqual(second("alloc", 100 * MIB), OK)
        self.assertEqual(len(self.tenant("a")["processes"]), 2)

    def test_two_tenants_do_not(self):
        _, first = self.program("--name", "a", "--memory", "25%")
        _, second = self.program("--memory", "1GiB")
        self.assertEqual(first("alloc", 1900 * MIB), OK)
        self.assertEqual(second("alloc", 900 * MIB), OK)
        tenants = json.loads(self.ok("ps", "--json"))["tenants"]
        self.assertEqual([t["generated"] for t in tenants], [False, True])
        self.assertEqual([t["devices"][0]["quota_bytes"] for t in tenants], [2 * GIB, GIB])

    def test_driver_accounting(self):
        _, ask = self.program("--name", "a", "--memory", "1GiB", "--accounting", "driver")
        self.assertEqual(ask("alloc", 800 * MIB), OK)
        self.assertEqual(ask("alloc", 800 * MIB), OUT_OF_MEMORY)
        self.assertEqual(self.tenant("a")["accounting"], "driver")

    def test_compute_is_counted(self):
        """A load that wants all of a device, capped: the figures are there while it runs."""
        load = self.start(ALLOT, "sim", "--dir", self.directory, "--", ALLOT, "run", "--name", "a",
                          "--compute", "20", "--", cli_lib.LOAD, "--seconds", "30",
                          "--loops-per-us", "1")
        self.assertIn("ready", load.stdout.readline())

        def seen():
            return self.tenant("a")["devices"][0]["compute"]

        cli_lib.wait_for(lambda: seen()["throttles"] > 3)
        compute = seen()
        self.assertEqual((compute["share_permille"], compute["target_permille"]), (200, 200))
        self.assertTrue(compute["launches"] > 0 and compute["busy_ns"] > 0, compute)
        self.assertTrue(compute["throttled_ns"] > 0 and compute["longest_ns"] > 0, compute)
        self.assertRegex(self.ok("ps"), r"(?m)^a +GPU-\w+ +cap +20% ")
        self.ok("set", "a", "--compute", "off")
        self.assertNotIn("TARGET", self.ok("ps"))
        self.assertIsNone(seen()["target_permille"])
        load.terminate()

    def test_drop_in_shares(self):
        """Preloaded by hand, with another system's settings: a tenant like any other."""
        # By its plain name: another one says that `allot run` had it loaded.
        library = os.path.normpath(self.ok("run", "--", "sh", "-c", "echo $LD_PRELOAD").strip())
        settings = {"LD_PRELOAD": library, "CUDA_DEVICE_SM_LIMIT": "25",
                    "CUDA_DEVICE_SM_LIMIT_1": "0"}
        for policy, word in (({}, "default"), ({"GPU_CORE_UTILIZATION_POLICY": "FORCE"}, "force"),
                             ({"GPU_CORE_UTILIZATION_POLICY": "2"}, "disable")):
            env = [f"{key}={value}" for key, value in {**settings, **policy}.items()]
            process = self.start(ALLOT, "sim", "--gpus", "2", "--dir", self.directory, "--", "env",
                                 *env, f"CUDA_DEVICE_MEMORY_SHARED_CACHE=/{word}", sys.executable,
                                 "-c", PROGRAM)
            self.assertEqual(process.stdout.readline(), "up\n")
            (tenant,) = (t for t in json.loads(self.ok("ps", "--json"))["tenants"]
                         if t["name"].endswith("-" + word))
            off = word == "disable"
            self.assertEqual(tenant["compute"]["policy"], "off" if off else "cap")
            # Of each device that it uses, behind what holds for any.
            self.assertEqual([p["uuid"] is None for p in tenant["policy"]], [True, False, False])
            self.assertEqual([p["share_permille"] for p in tenant["policy"]],
                             [None, None if off else 250, None])
            self.assertEqual([p["limit_permille"] for p in tenant["policy"]], [1000] * 3)

    def test_report(self):
        done = self.allot("sim", "--memory", "8GiB", "--context", "512MiB", "--", ALLOT, "run",
                          "--memory", "1GiB", "--report", "--", sys.executable, "-c",
                          PROGRAM.split("for line")[0] + """
block = ctypes.c_uint64()
assert cu.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(300 << 20)) == 0
assert cu.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(2 << 30)) == 2
sys.exit(7)
""")
        self.assertEqual(done.returncode, 7)
        self.assertRegex(done.stderr, r"(?m)^allot run: tenant run-\S+, since it began:\n"
                                      r"allot run:   GPU-\w+: peak 812 MiB of 1 GiB, 1 refused$")
        # A context alone: what was reserved for it while its size was not known was never held.
        done = self.allot("sim", "--memory", "8GiB", "--context", "512MiB", "--", ALLOT, "run",
                          "--memory", "4GiB", "--report", "--", sys.executable, "-c",
                          PROGRAM.split("for line")[0])
        self.assertRegex(done.stderr, r"(?m)^allot run:   GPU-\w+: peak 512 MiB of 4 GiB, 0 refused$")
        done = self.allot("run", "--report", "--", "true")
        self.assertRegex(done.stderr, r"^allot run: tenant run-\S+ used no GPU\n$")

    def test_an_unnamed_tenant_vanishes(self):
        process, ask = self.program("--memory", "1GiB")
        self.assertEqual(ask("alloc", MIB), OK)
        self.assertIn("run-", self.ok("ps"))
        process.stdin.close()
        self.assertEqual(process.wait(100), 0)
        self.assertIn("no tenants", self.ok("ps"))

    def test_devices_by_position(self):
        """The first device of --gpu is the program's device 0, with the first quota."""
        program = PROGRAM.split("for line")[0] + """
for i in range(2):
    device, total = ctypes.c_int(), ctypes.c_size_t()
    assert cu.cuDeviceGet(ctypes.byref(device), i) == 0
    assert cu.cuDeviceTotalMem_v2(ctypes.byref(total), device) == 0
    print(total.value)
"""
        out = self.ok("sim", "--gpus", "2", "--memory", "8GiB", "--context", "2MiB", "--", ALLOT,
                      "run", "--gpu", "1,0", "--memory", "1GiB,50%", "--", sys.executable, "-c",
                      program)
        self.assertEqual(out.split(), ["up", str(GIB), str(4 * GIB)])


if __name__ == "__main__":
    cli_lib.main()
