# SPDX-License-Identifier: Apache-2.0
"""The commands on emulated AMD devices, alone and beside simulated ones of NVIDIA."""

import json
import os
import re
import shutil
import sys
import unittest

import cli_lib
from cli_lib import ALLOT, GIB, MIB

A, B, C = (f"GPU-1234567890abcd0{i}" for i in (1, 2, 3))  # as the emulator names them
KFD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "kfd.py")
BY_PLACE = "0000:c1:00.0"  # a GPU without a unique id


def variables(out):
    """Of a command's environment what chooses devices."""
    return {name: value for name, _, value in (line.partition("=") for line in out.splitlines())
            if name.endswith("_VISIBLE_DEVICES")}


class Amd(cli_lib.Case):
    def setUp(self):
        super().setUp()
        self.directory = self.path("devices")

    def sim(self, *args, gpus=0, env=None):
        nvidia = ("--gpus", str(gpus)) if gpus else ()
        return self.allot("sim", "--amd", "3", "--memory", "64GiB", *nvidia, "--dir",
                          self.directory, "--", ALLOT, *args, env=env)

    def well(self, *args, **kwargs):
        done = self.sim(*args, **kwargs)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def tenants(self):
        return os.listdir(self.runtime) if os.path.exists(self.runtime) else []

    def refused(self, *args, says=(), **kwargs):
        before = self.tenants()
        done = self.sim("run", *args, "--", "true", **kwargs)
        self.assertEqual(done.returncode, 125, done.stderr)
        for word in says:
            self.assertIn(word, done.stderr)
        self.assertEqual(self.tenants(), before, "a bad argument left a tenant")

    def visible(self, *args, **kwargs):
        return variables(self.well("run", *args, "--", "env", **kwargs).stdout)

    def limits(self, *args, **kwargs):
        """What run -v says of devices."""
        lines = self.well("run", "-v", *args, "--", "true", **kwargs).stderr.splitlines()
        return [line.removeprefix("allot run:   ") for line in lines
                if re.match(r"allot run:   (GPU-|each)", line)]

    def nvidia(self, gpus):
        out = self.allot("sim", "--gpus", str(gpus), "--dir", self.directory, "--", ALLOT, "topo",
                         "--json").stdout
        return [device["id"] for device in json.loads(out)["devices"]]


class Shown(cli_lib.Case):
    """Names, in whatever shows a tenant; no device is asked."""

    def setUp(self):
        super().setUp()
        self.living("t", "--memory", "2GiB", "--compute", "25")
        self.hold("t", f"{A}:data:{GIB}", f"{A}:refuse:{GIB}", f"{A}:units:40",
                  f"{BY_PLACE}:context:{512 * MIB}")

    def test_ps(self):
        out = self.ok("ps")
        self.assertRegex(out, rf"(?m)^t +running +{A} +2 GiB +1 GiB +50% +1 +1 GiB$")
        self.assertRegex(out, rf"(?m)^t +running +{BY_PLACE} +2 GiB +512 MiB +25% +0 +512 MiB$")
        self.assertRegex(out, rf"(?m)^TENANT +GPU +COMPUTE +TARGET +CUS +1 S +60 S +HELD$")
        self.assertRegex(out, rf"(?m)^t +{A} +cap +25% +40 +- +- +-$")
        self.assertRegex(out, rf"(?m)^t +{BY_PLACE} +cap +25% +- +- +-$")
        self.assertRegex(out, rf"(?m)^t +\d+ +{A} +1 GiB +\S+/cli_holder ")
        self.assertRegex(out, rf"(?m)^t +\d+ +{BY_PLACE} +512 MiB +\S+/cli_holder ")

    def test_host_memory(self):
        self.living("h", "--memory", "2GiB")
        self.hold("h", f"{A}:host:{3 * GIB}")
        out = self.ok("ps", "h")
        self.assertRegex(out, r"(?m)^TENANT +STATE +GPU +QUOTA +USED +REFUSED +HOST$")
        self.assertRegex(out, rf"(?m)^h +running +{A} +2 GiB +0 +0% +0 +3 GiB$")
        self.assertRegex(out, rf"(?m)^h +\d+ +{A} +0 +3 GiB +\S+/cli_holder ")
        (tenant,) = json.loads(self.ok("ps", "--json", "h"))["tenants"]
        self.assertEqual(tenant["devices"][0]["host_bytes"], 3 * GIB)
        self.assertEqual(tenant["processes"][0]["devices"][0]["host_bytes"], 3 * GIB)

    def test_gtt(self):
        self.living("g", "--memory", "2GiB", "--gtt", "8GiB")
        self.hold("g", f"{A}:gtt:{3 * GIB}", f"{A}:userptr:{GIB}")
        out = self.ok("ps", "g")
        self.assertRegex(out, r"(?m)^TENANT +GTT QUOTA +PINNED +GTT +USERPTR +REFUSED$")
        self.assertRegex(out, r"(?m)^g +8 GiB +4 GiB +3 GiB +1 GiB +0$")
        (tenant,) = json.loads(self.ok("ps", "--json", "g"))["tenants"]
        self.check_shape(tenant["gtt"], "gtt", cli_lib.documented())
        self.assertEqual(tenant["gtt_limit_bytes"], 8 * GIB)
        self.assertEqual(tenant["gtt"],
                         {"used_bytes": 4 * GIB, "gtt_bytes": 3 * GIB, "userptr_bytes": GIB,
                          "peak_bytes": 4 * GIB, "refusals": 0})
        self.assertEqual(self.ok("set", "g", "--gtt", "512M"), "g: gtt 8 GiB -> 512 MiB\n")
        self.assertEqual(self.ok("set", "g", "--gtt", "off"), "g: gtt 512 MiB -> what is free\n")
        self.assertRegex(self.ok("ps", "g"), r"(?m)^g +what is free +4 GiB +3 GiB +1 GiB +0$")
        for wrong in "0", "1000", "200%", "some":
            done = self.allot("set", "g", "--gtt", wrong)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(f'--gtt "{wrong}": not a size of at least 1MiB', done.stderr)

    def test_json(self):
        shapes = cli_lib.documented()
        (tenant,) = json.loads(self.ok("ps", "--json"))["tenants"]
        self.assertIsNone(tenant["gtt"])
        for device in tenant["devices"]:
            self.check_shape(device, "device", shapes)
            self.check_shape(device["compute"], "device_compute", shapes)
            self.assertIsNone(device["compute"]["achieved_1s_bp"])
            self.assertIsNone(device["compute"]["achieved_60s_bp"])
        self.assertEqual([device["compute"]["compute_units"] for device in tenant["devices"]],
                         [40, None])
        self.assertEqual([(d["uuid"], d["used_bytes"], d["refusals"]) for d in tenant["devices"]],
                         [(A, GIB, 1), (BY_PLACE, 512 * MIB, 0)])
        self.assertEqual([d["uuid"] for d in tenant["processes"][0]["devices"]], [A, BY_PLACE])

    def test_top(self):
        out = self.ok("top", "t")
        self.assertRegex(out, rf"(?m)^> t .*{A} +1 GiB +2 GiB +50% .* 40 CU +25% +1$")
        self.assertRegex(out, r"(?m)^refused 1\nshare   40 units, 25%, cap$")
        heading, first, second = out.splitlines()[-3:]
        for row, device in (first, A), (second, BY_PLACE):
            self.assertEqual(row.index(device), heading.index("GPU"))
            self.assertEqual(row.index("/"), heading.index("COMMAND"), "columns are not aligned")
        out = self.ok("top")
        self.assertRegex(out, rf"(?m)^  t .*{A} +1 GiB +2 GiB +50% .* 25% +1$")
        self.assertRegex(out, rf"(?m)^  t .*{BY_PLACE} +512 MiB +2 GiB +25%$")
        self.assertEqual(out.count(" CU "), 1, "nothing is known of the other")
        self.assertNotIn("60 s ago", self.ok("top", "t"))

    def test_set(self):
        out = self.ok("set", "t", "--memory", "256MiB")
        self.assertIn("t each device: 2 GiB -> 256 MiB\n", out)
        for device, used in (A, "1 GiB"), (BY_PLACE, "512 MiB"):
            self.assertIn(f"  {device} uses {used}, above its new quota", out)


class Chosen(Amd):
    """--gpu, and one limit for each device."""

    def test_names_and_indices(self):
        for gpu in ("2,0", f"{C},{A}", f"2,{A.upper().replace('GPU', 'gpu')}"):
            self.assertEqual(self.limits("--gpu", gpu, "--memory", "8GiB,25%"),
                             [f"{C}: 8 GiB", f"{A}: 25%"])
        self.assertEqual(self.limits("--memory", "1GiB,2GiB,50%"),
                         [f"{A}: 1 GiB", f"{B}: 2 GiB", f"{C}: 50%"])
        self.assertEqual(self.limits("--compute", "25", "--memory", "1GiB"),
                         ["each device: 1 GiB, compute cap 25%"])
        self.assertEqual(self.limits("--gpu", "1", "--compute", "12.5%"),
                         [f"{B}: no limit, compute cap 12.5%"])
        self.assertEqual(self.limits("--gpu", "1,2", "--compute", "25,50"),
                         [f"{B}: no limit, compute cap 25%", f"{C}: no limit, compute cap 50%"])

    def test_both_vendors(self):
        """NVIDIA's come first, so that what nvidia-smi calls 0 is 0."""
        (nvidia,) = self.nvidia(1)
        self.assertEqual(self.limits("--gpu", "1,0", "--memory", "1GiB,2GiB", gpus=1),
                         [f"{A}: 1 GiB", f"{nvidia}: 2 GiB"])
        self.assertEqual(self.visible("--gpu", "1,0,2", gpus=1),
                         {"CUDA_VISIBLE_DEVICES": nvidia, "ROCR_VISIBLE_DEVICES": f"{A},{B}",
                          "HIP_VISIBLE_DEVICES": "0,1"})
        self.assertEqual(self.visible("--gpu", "0", gpus=1), {"CUDA_VISIBLE_DEVICES": nvidia})
        self.assertEqual(self.visible("--memory", "1GiB,2GiB,3GiB,4GiB", gpus=1,
                                      env={"CUDA_VISIBLE_DEVICES": "0"}),
                         {"CUDA_VISIBLE_DEVICES": "0", "ROCR_VISIBLE_DEVICES": f"{A},{B},{C}"})

    def test_variables(self):
        self.assertEqual(self.visible(), {})
        self.assertEqual(self.visible("--memory", "1GiB"), {})
        self.assertEqual(self.visible("--gpu", "2,0"), {"ROCR_VISIBLE_DEVICES": f"{C},{A}"})
        # HIP counts by CUDA's variable, too: it is the program's own affair.
        env = {"CUDA_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": "0"}
        self.assertEqual(self.visible("--gpu", "2,0", env=env),
                         {**env, "ROCR_VISIBLE_DEVICES": f"{C},{A}"})

    def test_what_the_caller_was_left(self):
        for left in ("2,0", f"{C},{A}", f" {C.lower()},0,9,1", f"{C[:-1]}3,0,{C},1"):
            env = {"ROCR_VISIBLE_DEVICES": left}
            self.assertEqual(self.limits("--memory", "1GiB,2GiB", env=env),
                             [f"{C}: 1 GiB", f"{A}: 2 GiB"])
            self.refused("--gpu", "1", env=env, says=("GPU 1", f"ROCR_VISIBLE_DEVICES={left}"))
            self.assertEqual(self.visible("--gpu", "0", env=env), {"ROCR_VISIBLE_DEVICES": A})
            # Not as they are: what they count is not all there to be counted.
            self.assertEqual(self.visible("--memory", "1GiB,2GiB", env=env),
                             {"ROCR_VISIBLE_DEVICES": f"{C},{A}"})
        # A beginning that several have names none.
        self.refused("--gpu", "0", env={"ROCR_VISIBLE_DEVICES": A[:-2]}, says=("GPU 0",))

    def test_partitions(self):
        """ROCm has no name for a partition whose id is its board's: it gets a number."""
        def run(*args, env=None):
            return self.ok("sim", "--amd", "1,partitions=3", "--model", "gfx942", "--memory",
                           "1GiB", "--dir", self.path("divided"), "--", ALLOT, *args, env=env)
        self.assertEqual(re.findall(r"GPU-\S+", run("topo")), [A, f"{A}.1", f"{A}.2"])
        for gpus, rocr in (("amd3", "0"), (A, "0"), (f"{A}.2,{A}.1", "1,0")):
            self.assertEqual(variables(run("run", "--gpu", gpus, "--", "env")),
                             {"ROCR_VISIBLE_DEVICES": rocr})
        # The driver's figures are of the board, and stand at its first partition alone.
        out = run("top", env={"ALLOT_RUNTIME_DIR": self.runtime})
        self.assertEqual(re.findall(r"(?m)^ +\d .*1 GiB +(\S+) +\S+ +\S+ +(\S+) +- +-", out), [("-", "-")] * 3)

    def test_bad_gpu(self):
        self.refused("--gpu", "3", says=('--gpu "3"', "0 to 2", "allot doctor"))
        self.refused("--gpu", "GPU-1234567890abcd04", says=("GPU-1234567890abcd04", "has 3"))
        self.refused("--gpu", BY_PLACE, says=(BY_PLACE, "has 3"))
        self.refused("--gpu", f"1,{B}", says=("second time",))
        self.refused("--gpu", "GPU-1234", says=("beginning of several", f"--gpu {A}"))
        for bad in ("GPU-", "c1:00.0", "amd", f"{A}0", ""):
            self.refused("--gpu", bad, says=("neither an index nor", f"--gpu {A}"))
        self.refused("--gpu", "0", "--memory", "1G,2G", says=("2 values for 1 device",))

    def test_what_does_nothing(self):
        for options, names in ((("--latency", "5ms"), "--latency does"),
                               (("--mode", "turns"), "--mode does"),
                               (("--controller", "bucket", "--latency", "5ms", "--floor", "5"),
                                "--floor, --latency and --controller do")):
            self.assertIn(f"note: {names} nothing on AMD GPUs",
                          self.well("run", "--compute", "50", *options, "--", "true").stderr)
        self.assertEqual(self.well("run", "--compute", "50", "--slice", "20ms", "--", "true").stderr, "")
        said = "--priority does nothing on AMD GPUs"
        self.assertIn(said, self.well("run", "--priority", "high", "--", "true").stderr)
        self.assertEqual(self.well("run", "--weight", "2", "--", "true").stderr, "")
        # In one machine with NVIDIA's: of a tenant that has AMD's alone.
        for gpu, notes in (("1", True), ("0", False), ("0,1", False)):
            with self.subTest(gpu=gpu):
                done = self.well("run", "--gpu", gpu, "--priority", "high", "--", "true", gpus=1)
                self.assertEqual(said in done.stderr, notes)
        for options in ((), ("--gpu", "0")):
            held = self.start(ALLOT, "sim", "--amd", "1", "--", ALLOT, "run", "--name", "t",
                              *options, "--compute", "50", "--", "sh", "-c", "echo up; read x")
            self.assertEqual(held.stdout.readline(), "up\n")
            with self.subTest(options=options):
                self.assertIn(said, self.well("set", "t", "--priority", "high").stderr)
                self.assertEqual(self.well("set", "t", "--compute", "40").stderr, "")
            held.communicate("\n", timeout=20)

    def test_more_than_there_is(self):
        done = self.well("run", "--gpu", "1", "--memory", "65GiB", "--", "true")
        self.assertIn("65 GiB is more than GPU 1 has; its 64 GiB are the limit", done.stderr)

    def test_joining(self):
        first = self.start(ALLOT, "sim", "--amd", "3", "--memory", "64GiB", "--", ALLOT, "run",
                           "--name", "t", "--gpu", "2,0", "--memory", "1G,2G", "--", "sh", "-c",
                           "echo up; read x")
        self.assertEqual(first.stdout.readline(), "up\n")
        self.assertEqual(self.visible("--name", "t", "--gpu", "0"), {"ROCR_VISIBLE_DEVICES": A})
        self.assertIn(f'tenant "t" does not have GPU 1 ({B})',
                      self.sim("run", "--name", "t", "--gpu", "1", "--", "true").stderr)
        out = self.ok("set", "t", "--memory", "4GiB,50%")
        self.assertEqual(out, f"t {C}: 1 GiB -> 4 GiB\nt {A}: 2 GiB -> 50%\n")
        self.assertEqual(self.visible("--name", "t"), {"ROCR_VISIBLE_DEVICES": f"{C},{A}"})
        for left, names in ("0,1,2", f"{A},{C}"), ("2", C), ("1", ""), ("", ""):
            self.assertEqual(self.visible("--name", "t", env={"ROCR_VISIBLE_DEVICES": left}),
                             {"ROCR_VISIBLE_DEVICES": names})
        (tenant,) = json.loads(self.ok("ps", "--json"))["tenants"]
        self.assertEqual([(d["uuid"], d["total_bytes"], d["quota_bytes"])
                          for d in tenant["devices"]],
                         [(C, 64 * GIB, 4 * GIB), (A, 64 * GIB, 32 * GIB)])

    def test_without_unique_ids(self):
        """They have their places for names, and ROCm counts those that it sees."""
        script = ("sed -i 's/^unique_id .*/unique_id 0/' "
                  "$ALLOT_SIM_DIR/amd/sys/devices/virtual/kfd/kfd/topology/nodes/*/properties; "
                  f"{ALLOT} run -v --gpu 0000:03:00.0,0 --memory 1GiB,2GiB -- "
                  "sh -c 'echo $ROCR_VISIBLE_DEVICES; rocminfo | grep BDFID'")
        done = self.allot("sim", "--amd", "3", "--", "sh", "-c", script)
        for line in ("0000:03:00.0: 1 GiB", "0000:01:00.0: 2 GiB"):
            self.assertIn(f"allot run:   {line}\n", done.stderr)
        lines = done.stdout.splitlines()
        self.assertEqual(lines[0], "1,0")
        if shutil.which("rocminfo"):
            self.assertEqual([line.split()[1] for line in lines[1:]], ["0", "768", "256"])

    @unittest.skipUnless(shutil.which("rocminfo"), "rocminfo is not installed")
    def test_rocminfo_agrees(self):
        """Names, order, and the way ROCm reads its variable."""
        def shown(*args, env=None):
            done = self.allot("sim", "--amd", "3", "--dir", self.directory, "--", *args, env=env)
            return re.findall(r"Uuid: +(GPU-\S+)", done.stdout)

        self.assertEqual(shown("rocminfo"), [A, B, C])
        for gpu, names in ("2,0,1", [C, A, B]), ("2,0", [C, A]), ("1", [B]):
            self.assertEqual(shown(ALLOT, "run", "--gpu", gpu, "--", "rocminfo"), names)
        self.assertEqual(shown(ALLOT, "run", "--memory", "1GiB,2GiB", "--", "rocminfo",
                               env={"ROCR_VISIBLE_DEVICES": "2,0"}), [C, A])
        for left in ("2,0", f"{C.lower()},9,0", f"{A[:-2]},1", f"1,{C},1,0",
                     f" 2, {A}", "1 ,0", ""):
            env = {"ROCR_VISIBLE_DEVICES": left}
            seen = shown("rocminfo", env=env)
            for index, name in enumerate((A, B, C)):
                chosen = self.sim("run", "--gpu", str(index), "--", "true", env=env)
                self.assertEqual(chosen.returncode, 0 if name in seen else 125, (left, name))


class Limited(Amd):
    """A program that takes memory, from its first to its last."""

    def program(self, *args, gpus=3):
        process = self.start(ALLOT, "sim", "--amd", "3", "--memory", "64GiB", "--dir",
                             self.directory, "--", ALLOT, "run", *args, "--", sys.executable,
                             KFD)
        self.assertEqual(process.stdout.readline(), f"{gpus}\n")
        return process

    def take(self, process, gpu, what):
        process.stdin.write(f"{gpu} {what}\n")
        process.stdin.flush()
        return process.stdout.readline().strip()

    def finish(self, process):
        process.stdin.close()
        self.assertEqual(process.wait(20), 0)

    def device(self, name):
        (tenant,) = json.loads(self.ok("ps", "--json"))["tenants"]
        (device,) = (d for d in tenant["devices"] if d["uuid"] == name)
        return device

    def test_quota(self):
        process = self.program("--name", "t", "--memory", "64MiB")
        self.assertEqual([self.take(process, 1, size) for size in (64 * MIB, 4096)],
                         ["ok", "ENOMEM"])
        self.assertEqual(self.take(process, 0, 64 * MIB), "ok", "each device has its own")
        device = self.device(B)
        self.assertEqual((device["total_bytes"], device["quota_bytes"], device["used_bytes"],
                          device["used_by_category"]["data"]),
                         (64 * GIB, 64 * MIB, 64 * MIB, 64 * MIB))
        self.assertGreater(device["refusals"], 0)
        out = self.ok("ps")
        self.assertRegex(out, rf"(?m)^t +running +{B} +64 MiB +64 MiB +100% ")
        self.assertRegex(out, rf"(?m)^t +\d+ +{B} +64 MiB .*kfd\.py$")
        self.assertRegex(self.ok("top"), rf"(?m)^  t .*{B} .* 64 MiB +64 MiB +100% .* 1$")

    def test_the_kernels_figure(self):
        """Beside the ledger's, where the kernel's files are seen."""
        process = self.program("--name", "t", "--memory", "64MiB")
        self.assertEqual(self.take(process, 1, 48 * MIB), "ok")
        self.assertEqual(self.take(process, 0, 16 * MIB), "ok")
        (tenant,) = json.loads(self.well("ps", "--json").stdout)["tenants"]
        self.assertEqual({d["uuid"]: d["driver_bytes"] for d in tenant["devices"]},
                         {A: 16 * MIB, B: 48 * MIB, C: None})
        self.assertEqual({d["uuid"]: d["driver_bytes"] for d in tenant["processes"][0]["devices"]},
                         {A: 16 * MIB, B: 48 * MIB})
        self.assertIsNone(self.device(B)["driver_bytes"])

    def test_set(self):
        process = self.program("--name", "t", "--memory", "64MiB")
        self.assertEqual(self.take(process, 2, 65 * MIB), "ENOMEM")
        self.assertEqual(self.device(C)["quota_bytes"], 64 * MIB)
        self.ok("set", "t", "--memory", "0.1%")
        self.assertEqual(self.device(C)["quota_bytes"], 64 * GIB // 1000)
        self.assertEqual(self.take(process, 2, 65 * MIB), "ok")
        self.ok("set", "t", "--memory", "32MiB")
        self.assertEqual(self.take(process, 2, 4096), "ENOMEM")
        self.assertEqual(self.take(process, 1, 32 * MIB), "ok")

    def test_one_tenant_in_several_processes(self):
        first = self.program("--name", "t", "--memory", "64MiB")
        second = self.program("--name", "t")
        self.assertEqual(self.take(first, 0, 48 * MIB), "ok")
        self.assertEqual(self.take(second, 0, 17 * MIB), "ENOMEM")
        self.assertEqual(self.take(second, 0, 16 * MIB), "ok")
        other = self.program("--name", "u", "--memory", "64MiB")
        self.assertEqual(self.take(other, 0, 64 * MIB), "ok")
        self.finish(first)
        self.assertEqual(self.take(second, 0, 48 * MIB), "ok")

    def test_units(self):
        self.living("t", "--compute", "25")
        process = self.program("--name", "t")
        self.assertRegex(self.ok("ps"), rf"(?m)^t +{B} +cap +25% +- +- +-$")
        self.assertEqual(self.take(process, 1, "queue"), "ok")
        self.assertEqual(self.device(B)["compute"]["compute_units"], 27)
        self.assertEqual(self.device(B)["compute"]["target_permille"], 250)
        self.assertRegex(self.ok("ps"), rf"(?m)^t +{B} +cap +25% +27 +- +- +-$")
        self.ok("set", "t", "--compute", "50")
        cli_lib.wait_for(lambda: self.device(B)["compute"]["compute_units"] == 55)
        self.ok("set", "t", "--policy", "share", "--weight", "2")
        cli_lib.wait_for(lambda: self.device(B)["compute"]["compute_units"] == 110)
        self.assertEqual(self.device(B)["compute"]["target_permille"], 1000)
        self.finish(process)
        self.assertIsNone(self.device(B)["compute"]["compute_units"])

    def test_units_no_longer(self):
        process = self.program("--name", "t", "--compute", "25")
        self.assertEqual(self.take(process, 1, "queue"), "ok")
        self.assertEqual(self.device(B)["compute"]["compute_units"], 27)
        self.ok("set", "t", "--compute", "off")
        self.assertIsNone(self.device(B)["compute"]["compute_units"])

    def test_a_list(self):
        process = self.program("--name", "t", "--gpu", "2,0", "--memory", "32MiB,64MiB", gpus=2)
        self.assertEqual([self.take(process, 0, size) for size in (65 * MIB, 64 * MIB)],
                         ["ENOMEM", "ok"])
        self.assertEqual([self.take(process, 1, size) for size in (33 * MIB, 32 * MIB)],
                         ["ENOMEM", "ok"])
        self.assertEqual(self.device(C)["used_bytes"], 32 * MIB)
        self.assertEqual(self.device(A)["used_bytes"], 64 * MIB)


class Doctor(Amd):
    def test_devices(self):
        done = self.well("doctor")
        for index, name in enumerate((A, B, C)):
            self.assertRegex(done.stdout, rf"(?m)^ok    GPU {index}: aldebaran gfx90a, 64 GiB, "
                             rf"{name} \(simulated\)$")
        self.assertNotIn("NVIDIA", done.stdout)
        self.assertNotIn("AMD", self.allot("sim", "--", ALLOT, "doctor").stdout)
        (nvidia,) = self.nvidia(1)
        done = self.well("doctor", gpus=1)
        self.assertRegex(done.stdout, f"(?m)^ok    GPU 0: .* {nvidia} ")
        self.assertRegex(done.stdout, f"(?m)^ok    GPU 3: .* {C} ")

    def test_what_is_wrong(self):
        spoil = "chmod 0 /dev/kfd; exec {} doctor"
        if os.geteuid() == 0:
            spoil = "rm $ALLOT_SIM_DIR/amd/dev/kfd; exec {} doctor"
        done = self.allot("sim", "--amd", "1", "--", "sh", "-c", spoil.format(ALLOT))
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, r"(?m)^FAIL  /dev/kfd.*\n      \S")
        spoil = "echo x >/sys/class/kfd/kfd/topology/generation_id; exec {} doctor"
        done = self.allot("sim", "--amd", "1", "--", "sh", "-c", spoil.format(ALLOT))
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, r"(?m)^FAIL  AMD: .*generation_id")
        # Beside NVIDIA's devices it keeps nobody from those.
        done = self.allot("sim", "--amd", "1", "--gpus", "1", "--", "sh", "-c",
                          spoil.format(ALLOT))
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stdout, r"(?m)^warn  AMD: .*generation_id")
        self.assertRegex(done.stdout, r"(?m)^ok    GPU 0: ")
        spoil = spoil.replace("exec {} doctor", "exec {} run --gpu {} -- true")
        for gpu, status in ("0", 0), ("1", 125):
            done = self.allot("sim", "--amd", "1", "--gpus", "1", "--", "sh", "-c",
                              spoil.format(ALLOT, gpu))
            self.assertEqual(done.returncode, status, done.stderr)
            if status:
                self.assertRegex(done.stderr, "there is no GPU 1 .* AMD: .*generation_id")

    def test_bench(self):
        self.assertIn("GPU 0 is of AMD", self.sim("bench").stderr)


if __name__ == "__main__":
    cli_lib.main()
