# SPDX-License-Identifier: Apache-2.0
"""The library preloaded without `allot run`: limits as other systems give them, and bad ones."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

LIBRARY = os.environ["ALLOT_LIBRARY_UNDER_TEST"]
ALLOT = os.environ["ALLOT"]
LOAD = os.environ["ALLOT_LOAD"]
SIM = os.environ["ALLOT_SIM_UNDER_TEST"]
GUEST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "guest.py")
MIB = 1 << 20
CONTEXT = 20 * MIB
DEVICE = 1 << 30
PLAIN = ("PATH", "LANG", "HOME")


class Case(unittest.TestCase):
    def setUp(self):
        self.tmp = tempfile.mkdtemp(prefix="allot-dropin-", dir="/dev/shm")
        self.addCleanup(shutil.rmtree, self.tmp, ignore_errors=True)
        self.env = {k: v for k, v in os.environ.items() if k in PLAIN}
        self.env.update(LD_LIBRARY_PATH=SIM, LD_PRELOAD=LIBRARY, ALLOT_SIM_DIR=self.tmp + "/sim",
                        ALLOT_SIM_GPUS="2", ALLOT_SIM_MEMORY="1GiB", ALLOT_SIM_CONTEXT="20MiB",
                        ALLOT_RUNTIME_DIR=self.tmp + "/run")

    def run_guest(self, *args, prefix=(), **env):
        done = subprocess.run([*prefix, sys.executable, GUEST, *(args or ("0", "2097152"))],
                              env={**self.env, **env}, text=True, capture_output=True, timeout=60,
                              stdin=subprocess.DEVNULL, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout), done.stderr

    def limited(self, said, limit, others=0):
        """The program saw the limit everywhere, and got no more and hardly less."""
        self.assertEqual(said["init"], "CUDA_SUCCESS")
        self.assertEqual(said["total"], limit)
        self.assertEqual(said["free"], limit - CONTEXT - 2 * MIB - others)
        self.assertEqual(said["refused"], "CUDA_ERROR_OUT_OF_MEMORY")
        self.assertLessEqual(said["filled"], said["free"])
        self.assertGreater(said["filled"] + 2 * MIB, said["free"])

    def hold(self, prefix=(), size=100 * MIB, **env):
        process = subprocess.Popen([*prefix, sys.executable, GUEST, "0", str(size), "hold"],
                                   text=True, env={**self.env, **env}, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.stdin.close)
        self.assertEqual(json.loads(process.stdout.readline())["first"], "CUDA_SUCCESS")
        return process

    def refused(self, about, prefix=(), **env):
        """No GPU, one line that says why."""
        said, stderr = self.run_guest(prefix=prefix, **env)
        self.assertEqual(said["init"], "CUDA_ERROR_INVALID_VALUE", stderr)
        self.assertEqual(said["again"], "CUDA_ERROR_INVALID_VALUE")
        self.assertEqual(said["alloc"], "CUDA_ERROR_INVALID_VALUE")
        self.assertEqual(said["retain"], "CUDA_ERROR_INVALID_VALUE")
        self.assertNotEqual(said["nvml_before"][0], 0)
        self.assertEqual(len(stderr.splitlines()), 1, stderr)
        self.assertTrue(stderr.startswith("allot: "), stderr)
        self.assertIn(about, stderr)
        return stderr


class Environment(Case):
    def test_nothing_said_nothing_limited(self):
        said, stderr = self.run_guest()
        self.assertEqual(stderr, "")
        self.assertEqual(said["totals"], [DEVICE, DEVICE])
        self.assertEqual(said["nvml_before"][:2], [0, DEVICE])
        self.assertFalse(os.path.exists(self.tmp + "/run"))

    def test_all_devices(self):
        said, stderr = self.run_guest(CUDA_DEVICE_MEMORY_LIMIT="300m")
        self.assertEqual(stderr, "")
        self.assertEqual(said["totals"], [300 * MIB, 300 * MIB])
        self.assertEqual(said["nvml_before"], [0, 300 * MIB, 300 * MIB, 0])
        self.assertEqual(said["nvml_after"], [0, 300 * MIB, said["free"], CONTEXT + 2 * MIB])
        self.limited(said, 300 * MIB)

    def test_by_number(self):
        limits = {"CUDA_DEVICE_MEMORY_LIMIT": "300m", "CUDA_DEVICE_MEMORY_LIMIT_1": "0.1g"}
        tenth = (1 << 30) // 10
        said, _ = self.run_guest("1", str(2 * MIB), **limits)
        self.assertEqual(said["totals"], [300 * MIB, tenth])
        self.assertEqual(said["nvml_before"][1], 300 * MIB)
        self.limited(said, tenth)

    def test_by_number_and_visible_devices(self):
        limits = {"CUDA_DEVICE_MEMORY_LIMIT_0": "300m", "CUDA_DEVICE_MEMORY_LIMIT_1": "200m"}
        said, _ = self.run_guest("0", str(2 * MIB), CUDA_VISIBLE_DEVICES="1,0", **limits)
        self.assertEqual(said["totals"], [300 * MIB, 200 * MIB])
        # NVML's first device is CUDA's second, before CUDA is initialised and after.
        self.assertEqual(said["nvml_before"], [0, 200 * MIB, 200 * MIB, 0])
        self.assertEqual(said["nvml_after"], [0, 200 * MIB, 200 * MIB, 0])
        self.limited(said, 300 * MIB)

    def test_percentage(self):
        said, _ = self.run_guest(CUDA_DEVICE_MEMORY_LIMIT="25%")
        self.limited(said, DEVICE // 4)

    def test_more_than_there_is(self):
        said, _ = self.run_guest(CUDA_DEVICE_MEMORY_LIMIT="80g")
        self.limited(said, DEVICE)

    def test_malformed(self):
        for value in ("", "0", "-1", "junk", "10 g", "unlimited", "1e9", "101%", "0x10", "5gg",
                      "1024", "4k", "8g\r", "99999999999999999999g"):
            with self.subTest(value=value):
                self.refused("CUDA_DEVICE_MEMORY_LIMIT", CUDA_DEVICE_MEMORY_LIMIT=value)
                self.refused("CUDA_DEVICE_MEMORY_LIMIT_1", CUDA_DEVICE_MEMORY_LIMIT_1=value,
                             CUDA_DEVICE_MEMORY_LIMIT="1g")
        self.refused('"1024" is a number of bytes; did you mean GiB?',
                     CUDA_DEVICE_MEMORY_LIMIT="1024")
        self.refused('"4k" is less than 1 MiB', CUDA_DEVICE_MEMORY_LIMIT="4k")
        self.refused("CUDA_DEVICE_MEMORY_LIMIT_x", CUDA_DEVICE_MEMORY_LIMIT_x="1g")
        self.refused("CUDA_DEVICE_MEMORY_SHARED_CACHE", CUDA_DEVICE_MEMORY_SHARED_CACHE="",
                     CUDA_DEVICE_MEMORY_LIMIT="1g")

    def test_malformed_compute(self):
        for value in ("", "-1", "101", "25%", "25.5", "1e1", "junk"):
            with self.subTest(value=value):
                self.refused("CUDA_DEVICE_SM_LIMIT", CUDA_DEVICE_SM_LIMIT=value)
                self.refused("CUDA_DEVICE_SM_LIMIT_1", CUDA_DEVICE_SM_LIMIT_1=value,
                             CUDA_DEVICE_MEMORY_LIMIT="1g")
        self.refused("CUDA_DEVICE_SM_LIMIT_x", CUDA_DEVICE_SM_LIMIT_x="25")
        self.refused("GPU_CORE_UTILIZATION_POLICY", GPU_CORE_UTILIZATION_POLICY="hard",
                     CUDA_DEVICE_SM_LIMIT="25")

    def test_compute_alone(self):
        said, stderr = self.run_guest(CUDA_DEVICE_SM_LIMIT="25")
        self.assertEqual((stderr, said["totals"]), ("", [DEVICE, DEVICE]))
        self.assertTrue(os.path.exists(self.tmp + "/run/drop-in"))

    def test_no_limit_by_name(self):
        for value in ("0", "100"):
            said, stderr = self.run_guest(CUDA_DEVICE_SM_LIMIT=value)
            self.assertEqual((stderr, said["totals"]), ("", [DEVICE, DEVICE]))
        self.assertFalse(os.path.exists(self.tmp + "/run"))

    def test_silent_without_a_gpu_call(self):
        done = subprocess.run(["/bin/true"], env={**self.env, "CUDA_DEVICE_MEMORY_LIMIT": "junk"},
                              capture_output=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, b""))

    def test_no_place_for_the_tenant(self):
        with open(self.tmp + "/file", "w", encoding="utf-8"):
            pass
        self.refused("cannot be created", CUDA_DEVICE_MEMORY_LIMIT="1g",
                     ALLOT_RUNTIME_DIR=self.tmp + "/file")
        self.refused("cannot be created", CUDA_DEVICE_MEMORY_LIMIT="1g",
                     ALLOT_RUNTIME_DIR="relative")


class Tenants(Case):
    def test_one_cache_one_tenant(self):
        one = {"CUDA_DEVICE_MEMORY_LIMIT": "300m",
               "CUDA_DEVICE_MEMORY_SHARED_CACHE": "/tmp/a.cache"}
        self.hold(**one)
        said, _ = self.run_guest(**one)
        self.limited(said, 300 * MIB, others=CONTEXT + 100 * MIB)
        said, _ = self.run_guest(CUDA_DEVICE_MEMORY_LIMIT="300m",
                                 CUDA_DEVICE_MEMORY_SHARED_CACHE="/tmp/b.cache")
        self.limited(said, 300 * MIB)

    def test_without_a_name(self):
        self.hold(CUDA_DEVICE_MEMORY_LIMIT="300m")
        said, _ = self.run_guest(CUDA_DEVICE_MEMORY_LIMIT="300m")
        self.limited(said, 300 * MIB, others=CONTEXT + 100 * MIB)

    def test_dead_count_no_more(self):
        process = self.hold(CUDA_DEVICE_MEMORY_LIMIT="300m")
        process.kill()
        process.wait()
        said, _ = self.run_guest(CUDA_DEVICE_MEMORY_LIMIT="300m")
        self.limited(said, 300 * MIB)

    def test_devices_of_the_dead(self):
        """When nobody lives in it a new life begins: what was a device then is none of it now."""
        for i in range(6):
            said, _ = self.run_guest(ALLOT_SIM_DIR=f"{self.tmp}/sim{i}", ALLOT_SIM_GPUS="16",
                                     CUDA_DEVICE_MEMORY_LIMIT="300m")
            self.assertEqual(said["totals"], [300 * MIB] * 16)
        self.hold(CUDA_DEVICE_MEMORY_LIMIT="300m")
        (tenant,) = self.tenants()
        self.assertEqual(len(tenant["devices"]), 2)
        # One that comes while it lives brings its devices, as ever.
        self.run_guest(ALLOT_SIM_DIR=self.tmp + "/other", CUDA_DEVICE_MEMORY_LIMIT="300m")
        (tenant,) = self.tenants()
        self.assertEqual(len(tenant["devices"]), 4)

    def test_new_life_at_once(self):
        """Many that begin it together are in one tenant, and none is refused."""
        for _ in range(3):
            self.run_guest(CUDA_DEVICE_MEMORY_LIMIT="600m")
            crowd = [subprocess.Popen([sys.executable, GUEST, "0", str(2 * MIB), "hold"], text=True,
                                      env={**self.env, "CUDA_DEVICE_MEMORY_LIMIT": "600m"},
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE)
                     for _ in range(16)]
            for process in crowd:
                self.assertEqual(json.loads(process.stdout.readline())["first"], "CUDA_SUCCESS")
            (tenant,) = self.tenants()
            self.assertEqual(len(tenant["processes"]), 16)
            for process in crowd:
                process.communicate()

    def kept(self, program, **env):
        """A program beside another that is in the tenant: it runs, and is told in one line."""
        said, stderr = self.run_guest(*program, **env)
        self.assertEqual(len(stderr.splitlines()), 1, stderr)
        self.assertTrue(stderr.startswith("allot: tenant drop-in, in which programs run, has "),
                        stderr)
        self.assertIn("not in force", stderr)
        return said, stderr

    def test_the_first_stays(self):
        """A later program with a larger limit raises nothing, for itself or the first one."""
        first = self.hold(CUDA_DEVICE_MEMORY_LIMIT="300m")
        said, stderr = self.kept((), CUDA_DEVICE_MEMORY_LIMIT="500m")
        self.assertRegex(stderr, "has 300 MiB of device 0: the 500 MiB of this one")
        self.assertEqual(said["totals"], [300 * MIB, 300 * MIB])
        self.limited(said, 300 * MIB, others=CONTEXT + 100 * MIB)
        self.assertEqual(self.quotas(), [300 * MIB] * 2)
        # What says nothing of memory asks for all of it.
        self.kept((), CUDA_DEVICE_SM_LIMIT="50")
        # A smaller one holds for itself alone, in silence.
        said, stderr = self.run_guest(CUDA_DEVICE_MEMORY_LIMIT="200m")
        self.assertEqual((stderr, said["totals"]), ("", [200 * MIB, 200 * MIB]))
        self.assertEqual(self.quotas(), [300 * MIB] * 2)
        # By numbers, where one is larger and the other smaller.
        said, stderr = self.kept((), CUDA_DEVICE_MEMORY_LIMIT_0="250m",
                                 CUDA_DEVICE_MEMORY_LIMIT_1="50%")
        self.assertRegex(stderr, "has 300 MiB of device 1: the 512 MiB of this one")
        self.assertEqual(said["totals"], [250 * MIB, 300 * MIB])
        # When the first has ended there is nothing left to keep to.
        first.kill()
        first.wait()
        said, stderr = self.run_guest(CUDA_DEVICE_MEMORY_LIMIT="500m")
        self.assertEqual(stderr, "")
        self.limited(said, 500 * MIB)

    def tenants(self):
        env = {k: v for k, v in self.env.items() if k != "LD_PRELOAD"}
        said = subprocess.run([ALLOT, "ps", "--json"], env=env, capture_output=True, check=True)
        return json.loads(said.stdout)["tenants"]

    def quotas(self):
        (tenant,) = self.tenants()
        return [p["limit_bytes"] for p in tenant["policy"] if p["uuid"]]

    def test_the_first_stays_for_compute(self):
        self.hold(CUDA_DEVICE_SM_LIMIT="25")
        _, stderr = self.kept((), CUDA_DEVICE_SM_LIMIT="50")
        self.assertRegex(stderr, "has 25% of the time of device 0: the 50% of this one")
        _, stderr = self.run_guest(CUDA_DEVICE_SM_LIMIT="10")
        self.assertEqual(stderr, "")

    def test_limits_by_number_at_once(self):
        """Two programs with the same settings of two devices say nothing, whoever is first."""
        one = {"CUDA_DEVICE_MEMORY_LIMIT_0": "200m", "CUDA_DEVICE_MEMORY_LIMIT_1": "400m",
               "CUDA_DEVICE_SM_LIMIT_1": "50"}
        processes = [subprocess.Popen([sys.executable, GUEST, str(i % 2), str(2 * MIB)], text=True,
                                      env={**self.env, **one}, stdin=subprocess.DEVNULL,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                     for i in range(4)]
        for process in processes:
            out, err = process.communicate(timeout=60)
            self.assertEqual((err, json.loads(out)["totals"]), ("", [200 * MIB, 400 * MIB]))

    def test_oversubscribe(self):
        """Quotas together above the device: who idles leaves it, and both have what they may."""
        one = {"CUDA_OVERSUBSCRIBE": "true", "CUDA_DEVICE_MEMORY_LIMIT": "650m"}
        self.hold(size=600 * MIB, CUDA_DEVICE_MEMORY_SHARED_CACHE="/a", **one)
        said, stderr = self.run_guest("0", str(600 * MIB), CUDA_DEVICE_MEMORY_SHARED_CACHE="/b",
                                      **one)
        self.assertEqual((said["first"], said["total"], stderr), ("CUDA_SUCCESS", 650 * MIB, ""))
        self.refused("CUDA_OVERSUBSCRIBE", CUDA_OVERSUBSCRIBE="yes")

    def test_priority(self):
        for value, priority in (("0", "high"), ("1", "normal"), ("2", "low")):
            process = self.hold(CUDA_TASK_PRIORITY=value, CUDA_DEVICE_MEMORY_LIMIT="300m",
                                CUDA_DEVICE_MEMORY_SHARED_CACHE="/" + value)
            (compute,) = [t["compute"] for t in self.tenants() if t["name"].endswith("-" + value)]
            self.assertEqual((compute["priority"], compute["policy"]),
                             (priority, "off" if value == "1" else "share"))
            process.kill()
        self.refused("CUDA_TASK_PRIORITY", CUDA_TASK_PRIORITY="high")

    def test_nothing_to_heed(self):
        """What does nothing does nothing: no tenant, no line."""
        said, stderr = self.run_guest(ACTIVE_OOM_KILLER="1", LIBCUDA_LOG_LEVEL="4",
                                      CUDA_DISABLE_CONTROL="true", CUDA_TASK_PRIORITY="1",
                                      CUDA_OVERSUBSCRIBE="false")
        self.assertEqual((stderr, said["totals"]), ("", [DEVICE, DEVICE]))
        self.assertFalse(os.path.exists(self.tmp + "/run"))

    def test_set(self):
        """It is a tenant like any other: what is set holds for programs that run."""
        process = self.hold(CUDA_DEVICE_MEMORY_LIMIT="300m")
        env = {k: v for k, v in self.env.items() if k != "LD_PRELOAD"}
        subprocess.run([ALLOT, "set", "drop-in", "--memory", "150MiB"], env=env, check=True,
                       capture_output=True)
        said, stderr = self.run_guest(CUDA_DEVICE_MEMORY_LIMIT="150m")
        self.assertEqual((stderr, said["totals"]), ("", [150 * MIB, 150 * MIB]))
        process.stdin.close()


class TenantDirectory(Case):
    """ALLOT_TENANT_DIR was given, so nothing but it will do."""

    def test_unusable(self):
        missing = self.tmp + "/missing"
        self.refused("does not exist", ALLOT_TENANT_DIR=missing)
        self.refused("does not exist", ALLOT_TENANT_DIR=missing, CUDA_DEVICE_MEMORY_LIMIT="1g")
        self.refused("not an absolute path", ALLOT_TENANT_DIR="relative")
        self.refused("not an absolute path", ALLOT_TENANT_DIR="")
        self.refused("not an absolute path", ALLOT_TENANT_DIR="/" + "x" * 5000)
        with open(missing, "w", encoding="utf-8") as out:
            out.write("a file")
        self.refused(missing, ALLOT_TENANT_DIR=missing)

    def tenant(self):
        self.run_guest(CUDA_DEVICE_MEMORY_LIMIT="300m")
        return self.tmp + "/run/drop-in"

    def test_damaged(self):
        tenant = self.tenant()
        said, _ = self.run_guest(ALLOT_TENANT_DIR=tenant)
        self.limited(said, 300 * MIB)
        # A variable lowers what the tenant has, and raises nothing.
        said, stderr = self.run_guest(ALLOT_TENANT_DIR=tenant, CUDA_DEVICE_MEMORY_LIMIT="200m")
        self.limited(said, 200 * MIB)
        said, more = self.run_guest(ALLOT_TENANT_DIR=tenant, CUDA_DEVICE_MEMORY_LIMIT="500m")
        self.limited(said, 300 * MIB)
        self.assertEqual(stderr + more, "")
        self.refused("CUDA_DEVICE_MEMORY_LIMIT", ALLOT_TENANT_DIR=tenant,
                     CUDA_DEVICE_MEMORY_LIMIT="junk")
        os.chmod(tenant + "/policy", 0o666)
        self.refused("open to others", ALLOT_TENANT_DIR=tenant)
        os.chmod(tenant + "/policy", 0o600)
        os.rename(tenant + "/policy", self.tmp + "/policy")
        self.refused("does not exist", ALLOT_TENANT_DIR=tenant)
        os.symlink(self.tmp + "/policy", tenant + "/policy")
        self.refused("symbolic link", ALLOT_TENANT_DIR=tenant)
        os.unlink(tenant + "/policy")
        with open(tenant + "/policy", "wb") as out:
            os.fchmod(out.fileno(), 0o600)
            out.write(b"\0" * 100)
        self.refused("another version", ALLOT_TENANT_DIR=tenant)

    def test_no_ledger(self):
        tenant = self.tenant()
        os.unlink(tenant + "/ledger")
        said, stderr = self.run_guest(ALLOT_TENANT_DIR=tenant)
        self.assertEqual(said["init"], "CUDA_ERROR_OPERATING_SYSTEM")
        self.assertEqual(said["alloc"], "CUDA_ERROR_OPERATING_SYSTEM")
        self.assertEqual(len(stderr.splitlines()), 1, stderr)
        self.assertIn("ledger", stderr)


class File(Case):
    """/etc/xpu/vgpu.config, which the program finds in a mount namespace of its own."""

    def setUp(self):
        super().setUp()
        self.config = self.tmp + "/xpu"
        os.mkdir(self.config)
        os.mkdir(self.tmp + "/place")
        self.inside = ["unshare", "--mount", "sh", "-c",
                       'mount -t tmpfs none /etc && mkdir /etc/xpu && '
                       'mount --bind "$0" /etc/xpu && mount --bind "$0/../place" /run && '
                       'exec "$@"', self.config]
        probe = subprocess.run([*self.inside, "true"], env={k: v for k, v in os.environ.items()
                                                            if k in PLAIN},
                               capture_output=True, check=False)
        if probe.returncode:
            self.skipTest("no mount namespace to be had")

    def write(self, text):
        with open(self.config + "/vgpu.config", "wb") as out:
            out.write(text if isinstance(text, bytes) else text.encode())

    def test_limit(self):
        self.write("UsedMem:300\nUsedCores:25\n")
        said, stderr = self.run_guest(prefix=self.inside)
        self.assertEqual(stderr, "")
        self.assertEqual(said["totals"], [300 * MIB, 300 * MIB])
        self.limited(said, 300 * MIB)

    def test_the_smaller_one_binds(self):
        self.write("UsedMem: 300  # MiB\nUsedCores: 0  # not limited\n")
        said, _ = self.run_guest(prefix=self.inside, CUDA_DEVICE_MEMORY_LIMIT="200m")
        self.limited(said, 200 * MIB)
        said, _ = self.run_guest(prefix=self.inside, CUDA_DEVICE_MEMORY_LIMIT="400m")
        self.limited(said, 300 * MIB)
        said, _ = self.run_guest(prefix=self.inside, CUDA_DEVICE_MEMORY_LIMIT_0="100%",
                                 CUDA_DEVICE_MEMORY_LIMIT_1="10%")
        self.assertEqual(said["totals"], [300 * MIB, DEVICE // 10])

    def test_malformed(self):
        for text in ("", "\n", "# UsedMem:300\n", "UsedMemory:300\n", "UsedCores:0\nUsedMen:300\n",
                     "\ufeff".encode("utf-16"), "UsedMem:8g\n", "UsedMem:0\n", "UsedMem\n", "UsedMem:\n", "UsedCores:101\n",
                     "UsedMem:300\njunk\n", b"UsedMem:30\x000\n"):
            with self.subTest(text=text):
                self.write(text)
                self.refused("/etc/xpu/vgpu.config", prefix=self.inside)
                self.refused("/etc/xpu/vgpu.config", prefix=self.inside,
                             CUDA_DEVICE_MEMORY_LIMIT="1g")

    def test_unknown_keys(self):
        """They are named once in a tenant, and what is known holds."""
        self.write("UsedMem:300\r\nUsedCore:25\r\nOther: thing\r\n")
        process = subprocess.Popen([*self.inside, sys.executable, GUEST, "0", str(MIB), "hold"],
                                   text=True, env=self.env, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(json.loads(process.stdout.readline())["totals"], [300 * MIB] * 2)
        said, stderr = self.run_guest(prefix=self.inside)
        self.assertEqual((stderr, said["totals"]), ("", [300 * MIB, 300 * MIB]))
        _, stderr = process.communicate(timeout=60)
        self.assertEqual(stderr.count("\n"), 1, stderr)
        self.assertIn('/etc/xpu/vgpu.config:2: "UsedCore", "Other" are not keys, and limit nothing', stderr)

    def test_many_unknown_keys(self):
        """The line has its end, however long their names are."""
        names = "".join(f"{i:040}:1\n" for i in range(9))
        self.write("UsedMem:300\n" + names)
        said, stderr = self.run_guest(prefix=self.inside)
        self.assertEqual(said["totals"], [300 * MIB] * 2)
        self.assertRegex(stderr, r"^allot: /etc/xpu/vgpu.config:2: .* and others are not keys, .*PERCENT\n$")
        self.write(names)
        self.assertRegex(self.refused("and others", prefix=self.inside), r"PERCENT\n$")

    def test_unreadable(self):
        os.mkdir(self.config + "/vgpu.config")
        self.refused("/etc/xpu/vgpu.config", prefix=self.inside)
        for place in ("echo UsedMem:300 >/etc/xpu", "ln -s nowhere /etc/xpu"):
            self.inside[4] = f'mount -t tmpfs none /etc && {place} && exec "$@"'
            self.refused("/etc/xpu/vgpu.config cannot be read: /etc/xpu is not a directory",
                         prefix=self.inside)

    def test_lost(self):
        """A runtime makes an empty directory in the place of one that it was to mount and did not find."""
        self.refused("/etc/xpu is mounted and has no vgpu.config", prefix=self.inside)

    def test_absent(self):
        self.inside[4] = self.inside[4].replace('mount --bind "$0" /etc/xpu && ', "")
        said, stderr = self.run_guest(prefix=self.inside)
        self.assertEqual(stderr, "")
        self.assertEqual(said["totals"], [DEVICE, DEVICE])

    def test_one_quota_whatever_the_variables(self):
        self.write("UsedMem:400\n")
        self.hold(prefix=self.inside)
        for env in ({"ALLOT_RUNTIME_DIR": self.tmp + "/other"}, {"ALLOT_RUNTIME_DIR": "relative"},
                    {"ALLOT_RUNTIME_DIR": "", "XDG_RUNTIME_DIR": self.tmp},
                    {"CUDA_DEVICE_MEMORY_SHARED_CACHE": "/tmp/b.cache"}):
            with self.subTest(env=env):
                said, _ = self.run_guest(prefix=self.inside, **env)
                self.limited(said, 400 * MIB, others=CONTEXT + 100 * MIB)

    def test_the_smaller_one_binds_in_a_tenant(self):
        self.run_guest(CUDA_DEVICE_MEMORY_LIMIT="200m", CUDA_DEVICE_MEMORY_LIMIT_1="50%")
        tenant = self.tmp + "/run/drop-in"
        for mib, totals in ((300, [200, 300]), (100, [100, 100]), (800, [200, 512])):
            with self.subTest(mib=mib):
                self.write(f"UsedMem:{mib}\n")
                said, _ = self.run_guest(prefix=self.inside, ALLOT_TENANT_DIR=tenant)
                self.assertEqual(said["totals"], [total * MIB for total in totals])
                self.assertEqual(said["nvml_before"][1], totals[0] * MIB)
                self.limited(said, totals[0] * MIB)
        self.write("UsedMem:junk\n")
        self.refused("/etc/xpu/vgpu.config", prefix=self.inside, ALLOT_TENANT_DIR=tenant)

    def test_compute_of_a_tenant(self):
        """Its policy limits none, the file does: launches are held."""
        self.write("UsedCores:50\n")
        env = {k: v for k, v in self.env.items() if k != "LD_PRELOAD"}
        for options in ((), ("--weight", "2")):
            with self.subTest(options=options):
                done = subprocess.run([*self.inside, ALLOT, "run", "--report", *options, "--", LOAD,
                                       "--seconds", "1"], env=env, text=True, timeout=60,
                                      capture_output=True, check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("held for", done.stderr)

if __name__ == "__main__":
    unittest.main()
