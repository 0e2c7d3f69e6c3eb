# SPDX-License-Identifier: Apache-2.0
"""allot run before a program that brings settings of other systems: the smaller limit binds."""

import json
import subprocess
import sys

import cli_lib
from cli_lib import ALLOT, GIB, LOAD, MIB

# Prints the total of each device, as CUDA and NVML tell it.
TOTALS = """
import ctypes
cu, nvml = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL("libnvidia-ml.so.1")
total, said = ctypes.c_size_t(), []
nvml.nvmlInit_v2()
for i in range(2):
    device, memory = ctypes.c_void_p(), (ctypes.c_uint64 * 3)()
    assert nvml.nvmlDeviceGetHandleByIndex_v2(i, ctypes.byref(device)) == 0
    assert nvml.nvmlDeviceGetMemoryInfo(device, memory) == 0
    said.append(memory[0] >> 20)
assert cu.cuInit(0) == 0
for i in range(2):
    assert cu.cuDeviceTotalMem_v2(ctypes.byref(total), i) == 0
    assert total.value >> 20 == said[i]
print(said)
"""


class Elsewhere(cli_lib.Case):
    def run_with(self, settings, *options, command=(sys.executable, "-c", TOTALS)):
        """What allot run on 2 devices of 4 GiB says, of such a program."""
        return self.allot("sim", "--gpus", "2", "--memory", "4GiB", "--context", "2MiB", "--", "env",
                          *[f"{name}={value}" for name, value in settings.items()],
                          ALLOT, "run", *options, "--", *command)

    def totals(self, settings, *options):
        done = self.run_with(settings, *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_memory(self):
        one, other = "CUDA_DEVICE_MEMORY_LIMIT", "CUDA_DEVICE_MEMORY_LIMIT_1"
        for settings, options, totals in (
                ({one: "1g"}, (), [1024, 1024]),
                ({one: "1g"}, ("--memory", "2GiB"), [1024, 1024]),
                ({one: "3g"}, ("--memory", "2GiB"), [2048, 2048]),
                ({one: "50%"}, ("--memory", "3GiB"), [2048, 2048]),
                ({one: "80%"}, ("--memory", "1GiB"), [1024, 1024]),
                ({one: "3g"}, ("--memory", "50%"), [2048, 2048]),
                ({one: "1g"}, ("--memory", "off"), [1024, 1024]),
                ({one: "2g"}, ("--gpu", "0,1", "--memory", "1GiB,3GiB"), [1024, 2048]),
                ({other: "1g"}, (), [4096, 1024]),
                ({one: "1g", other: "2g"}, ("--memory", "3GiB"), [1024, 2048]),
                ({one: "100%"}, (), [4096, 4096])):
            with self.subTest(settings=settings, options=options):
                self.assertEqual(self.totals(settings, *options), totals)

    def policy(self, settings, *options):
        """What allot ps shows of it meanwhile."""
        done = self.run_with(settings, *options, command=("sh", "-c", f"exec {ALLOT} ps --json"))
        (tenant,) = json.loads(done.stdout)["tenants"]
        return tenant

    def test_shown(self):
        """The tenant is made so, for whoever looks at it."""
        tenant = self.policy({"CUDA_DEVICE_MEMORY_LIMIT": "1g", "CUDA_DEVICE_SM_LIMIT": "30"})
        self.assertEqual([p["limit_bytes"] for p in tenant["policy"]], [GIB])
        self.assertEqual([p["share_permille"] for p in tenant["policy"]], [300])
        self.assertEqual(tenant["compute"]["policy"], "cap")
        for options, share in ((("--compute", "20"), 200), (("--compute", "50"), 300),
                               (("--compute", "off"), 300), (("--weight", "3"), 300),
                               (("--policy", "share", "--weight", "3"), 300)):
            with self.subTest(options=options):
                tenant = self.policy({"CUDA_DEVICE_SM_LIMIT": "30"}, *options)
                self.assertEqual(tenant["policy"][0]["share_permille"], share)
                self.assertEqual(tenant["compute"]["policy"], "cap")
        for value, options, priority in (("0", (), "high"), ("1", (), "normal"), ("2", (), "low"),
                                         ("0", ("--priority", "low"), "low")):
            with self.subTest(value=value, options=options):
                tenant = self.policy({"CUDA_TASK_PRIORITY": value}, *options)
                self.assertEqual(tenant["compute"]["priority"], priority)

    def test_compute(self):
        """Also by number, which the tenant's policy does not say: launches are held."""
        for settings in ({"CUDA_DEVICE_SM_LIMIT": "30"}, {"CUDA_DEVICE_SM_LIMIT_0": "30"}):
            done = self.run_with(settings, "--report", command=(LOAD, "--seconds", "1"))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("held for", done.stderr)

    def test_verbose(self):
        for settings, options, lines in (
                ({"CUDA_DEVICE_MEMORY_LIMIT": "1g"}, (), ["CUDA_DEVICE_MEMORY_LIMIT=1g binds"]),
                ({"CUDA_DEVICE_MEMORY_LIMIT": "1g"}, ("--memory", "512MiB"),
                 ["CUDA_DEVICE_MEMORY_LIMIT=1g does not bind: 512 MiB is less"]),
                ({"CUDA_DEVICE_MEMORY_LIMIT": "25%"}, ("--memory", "512MiB"),
                 ["CUDA_DEVICE_MEMORY_LIMIT=25% binds where it is less than 512 MiB"]),
                ({"CUDA_DEVICE_MEMORY_LIMIT_1": "1g"}, ("--gpu", "0,1", "--memory", "2GiB"),
                 ["CUDA_DEVICE_MEMORY_LIMIT_1=1g binds"]),
                ({"CUDA_DEVICE_MEMORY_LIMIT_5": "1g"}, ("--gpu", "0,1"),
                 ["CUDA_DEVICE_MEMORY_LIMIT_5=1g: the tenant has no such device"]),
                ({"CUDA_DEVICE_SM_LIMIT": "30"}, ("--compute", "20"),
                 ["CUDA_DEVICE_SM_LIMIT=30 does not bind: 20% is less"]),
                ({"CUDA_DEVICE_SM_LIMIT": "30", "GPU_CORE_UTILIZATION_POLICY": "disable"}, (),
                 ["CUDA_DEVICE_SM_LIMIT=30 does not bind: GPU_CORE_UTILIZATION_POLICY"]),
                ({"CUDA_DEVICE_SM_LIMIT": "30", "CUDA_TASK_PRIORITY": "0"}, (),
                 ["CUDA_DEVICE_SM_LIMIT=30 binds", "CUDA_TASK_PRIORITY=0: priority high"]),
                ({"CUDA_TASK_PRIORITY": "0"}, ("--priority", "low"),
                 ["CUDA_TASK_PRIORITY=0 is not in force: the tenant has priority low"]),
                ({"CUDA_OVERSUBSCRIBE": "true", "CUDA_DEVICE_MEMORY_LIMIT": "3g"}, (),
                 ["swappable, overcommits", "CUDA_OVERSUBSCRIBE=true: the tenant overcommits"]),
                ({"CUDA_DEVICE_MEMORY_SHARED_CACHE": "/x"}, (),
                 ["CUDA_DEVICE_MEMORY_SHARED_CACHE=/x is not in force"]),
                ({"ACTIVE_OOM_KILLER": "1", "CUDA_DEVICE_MEMORY_LIMITS": "1g"}, (),
                 ["ACTIVE_OOM_KILLER=1 does nothing: ", "CUDA_DEVICE_MEMORY_LIMITS=1g does nothing"])):
            with self.subTest(settings=settings, options=options):
                done = self.run_with(settings, "-v", *options, command=("true",))
                self.assertEqual(done.returncode, 0, done.stderr)
                for line in lines:
                    self.assertEqual(done.stderr.count(line), 1, done.stderr)
                # Unasked, nothing of it is said.
                done = self.run_with(settings, *options, command=("true",))
                self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_malformed(self):
        for name, value in (("CUDA_DEVICE_MEMORY_LIMIT", "junk"), ("CUDA_DEVICE_MEMORY_LIMIT", "4k"),
                            ("CUDA_DEVICE_SM_LIMIT_1", "101"), ("CUDA_TASK_PRIORITY", "-1"),
                            ("CUDA_OVERSUBSCRIBE", "yes"), ("GPU_CORE_UTILIZATION_POLICY", "")):
            self.fails(125, "run", "--", "true", env={name: value}, says=(name, "write"))
        self.assertIn("no tenants", self.ok("ps"))

    def test_more_than_the_device(self):
        done = self.run_with({"CUDA_OVERSUBSCRIBE": "true"}, "--memory", "5GiB", command=("true",))
        self.assertEqual(done.returncode, 125)
        self.assertIn("CUDA_OVERSUBSCRIBE: a quota of 5 GiB is more than any device has", done.stderr)

    def test_joined(self):
        """A tenant that lives stays as it is, and the program is held to its own, smaller limit."""
        one = {"CUDA_DEVICE_MEMORY_LIMIT": "1g", "CUDA_OVERSUBSCRIBE": "true",
               "CUDA_TASK_PRIORITY": "0"}
        self.living("t", "--memory", "2GiB")
        done = self.run_with(one, "-v", "--name", "t")
        self.assertEqual((done.returncode, json.loads(done.stdout)), (0, [1024, 1024]), done.stderr)
        for line in ("CUDA_DEVICE_MEMORY_LIMIT=1g binds",
                     "CUDA_OVERSUBSCRIBE=true is not in force: the tenant does not overcommit",
                     "CUDA_TASK_PRIORITY=0 is not in force: the tenant has priority normal"):
            self.assertIn(line, done.stderr)
        self.assertEqual(json.loads(self.ok("ps", "--json", "t"))["tenants"][0]["policy"][0]
                         ["limit_bytes"], 2 * GIB)

    def test_the_same_twice(self):
        """One command line and one environment make a tenant and join it."""
        program = self.start("env", "CUDA_DEVICE_MEMORY_LIMIT=1g", "CUDA_DEVICE_SM_LIMIT=30", ALLOT,
                             "run", "--name", "t", "--memory", "2GiB", "--", "sh", "-c",
                             "echo up; read x")
        self.assertEqual(program.stdout.readline(), "up\n")
        env = {"CUDA_DEVICE_MEMORY_LIMIT": "1g", "CUDA_DEVICE_SM_LIMIT": "30"}
        self.ok("run", "--name", "t", "--memory", "2GiB", "--", "true", env=env)
        self.ok("run", "--name", "t", "--", "true", env=env)
        self.ok("run", "--name", "t", "--", "true")
        self.fails(125, "run", "--name", "t", "--memory", "3GiB", "--", "true",
                   says=("lives, with memory 1 GiB (asked: 3 GiB)",))

    def test_print_env(self):
        said = self.ok("run", "--print-env", "--name", "t", "--", env={"CUDA_DEVICE_MEMORY_LIMIT": "1g"})
        self.assertIn("ALLOT_TENANT_DIR=", said)
        self.assertEqual(json.loads(self.ok("ps", "--json", "t"))["tenants"][0]["policy"][0]
                         ["limit_bytes"], GIB)


class File(cli_lib.Case):
    """The same of /etc/xpu/vgpu.config."""

    def run_under(self, text, *options, command=("true",)):
        self.path("vgpu.config", text)
        inside = ["unshare", "--mount", "sh", "-c",
                  "mount -t tmpfs none /etc && mkdir /etc/xpu && cp \"$0\" /etc/xpu && exec \"$@\"",
                  self.tmp + "/vgpu.config"]
        if subprocess.run([*inside, "true"], capture_output=True, check=False).returncode:
            self.skipTest("no mount namespace to be had")
        return subprocess.run([*inside, ALLOT, "run", *options, "--", *command], env=self.env,
                              text=True, capture_output=True, timeout=60, check=False)

    def test_file(self):
        done = self.run_under("UsedMem:100\nUsedCores:30\n", "-v", "--memory", "50MiB")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("/etc/xpu/vgpu.config, UsedMem:100 does not bind: 50 MiB is less", done.stderr)
        self.assertIn("/etc/xpu/vgpu.config, UsedCores:30 binds", done.stderr)
        done = self.run_under("UsedMem:100\nUsedMen:50\n", command=(ALLOT, "ps", "--json"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('warning: /etc/xpu/vgpu.config:2: "UsedMen" is not a key', done.stderr)
        (tenant,) = json.loads(done.stdout)["tenants"]
        self.assertEqual([p["limit_bytes"] for p in tenant["policy"]], [100 * MIB])

    def test_a_file_that_limits_nothing(self):
        for text in ("", "# UsedMem:100\n", "UsedMen:100\n"):
            done = self.run_under(text)
            self.assertEqual(done.returncode, 125, text)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            self.assertIn("/etc/xpu/vgpu.config", done.stderr)
            self.assertIn("write", done.stderr)


if __name__ == "__main__":
    cli_lib.main()
