# SPDX-License-Identifier: Apache-2.0
"""allot ps and allot set: figures, tables, and JSON exactly as docs/json.md has it."""

import json
import os
import subprocess
import sys

import cli_lib
from cli_lib import GIB, MIB, UUID_A, UUID_B

CATEGORIES = ["context", "module", "data", "pool", "array", "graph", "imported"]

class Ps(cli_lib.Case):
    def json(self, *names):
        return json.loads(self.ok("ps", "--json", *names))

    def two_tenants(self):
        self.living("jobA", "--memory", "8GiB")
        self.living("jobB", "--memory", "25%", "--accounting", "driver")
        return self.hold("jobA", f"{UUID_A}:context:{520 * MIB}", f"{UUID_A}:data:{GIB}",
                         f"{UUID_B}:array:{2 * MIB}", f"{UUID_A}:refuse:{GIB}")

    def test_empty(self):
        self.assertEqual(self.json(), {"version": 1, "runtime_dir": self.runtime, "tenants": [],
                                       "outside": []})
        self.assertEqual(self.ok("ps"), f"no tenants in {self.runtime}\n")

    def test_json_is_as_documented(self):
        self.two_tenants()
        shapes = cli_lib.documented()
        top = self.json()
        self.check_shape(top, "top", shapes)
        self.assertEqual(len(top["tenants"]), 2)
        for tenant in top["tenants"]:
            self.check_shape(tenant, "tenant", shapes)
            self.check_shape(tenant["compute"], "compute", shapes)
            for policy in tenant["policy"]:
                self.check_shape(policy, "policy", shapes)
            for device in tenant["devices"]:
                self.check_shape(device, "device", shapes)
                self.check_shape(device["compute"], "device_compute", shapes)
                self.assertEqual(list(device["used_by_category"]), CATEGORIES)
            for process in tenant["processes"]:
                self.check_shape(process, "process", shapes)
                for device in process["devices"]:
                    self.check_shape(device, "process_device", shapes)

    def begin_far_from_the_quota(self):
        """A context of 300 MiB, which nobody had a reason to measure."""
        self.env.update(ALLOT_SIM_DIR=self.path("sim"), ALLOT_SIM_MEMORY="80GiB", ALLOT_SIM_CONTEXT="300MiB",
                        LD_LIBRARY_PATH=os.environ["SIM_LIBRARIES"])
        process = self.start(cli_lib.ALLOT, "run", "--name", "far", "--memory", "40GiB", "--", sys.executable, "-c",
                             "import ctypes\ncuda, context = ctypes.CDLL('libcuda.so.1'), ctypes.c_void_p()\n"
                             "print(cuda.cuInit(0), cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0), flush=True)\n"
                             "input()")
        self.assertEqual(process.stdout.readline(), "0 0\n")
        return process

    def test_a_context_that_nobody_measured(self):
        """What the driver says of it is shown, and no guess."""
        process = self.begin_far_from_the_quota()
        device, = self.json()["tenants"][0]["devices"]
        self.assertEqual((device["used_bytes"], device["used_by_category"]["context"], device["guessed_bytes"]),
                         (300 * MIB, 300 * MIB, 0))
        self.assertEqual(self.json()["tenants"][0]["processes"][0]["devices"][0]["used_bytes"], 300 * MIB)
        table = self.ok("ps")
        self.assertNotIn("520", table)
        self.assertRegex(table, rf"\nfar +{process.pid} +GPU-\w+ +300 MiB +300 MiB ")
        # Where no driver tells, as in a container without NVML, it is said that this is a guess.
        del self.env["LD_LIBRARY_PATH"], self.env["ALLOT_SIM_DIR"]
        device, = self.json()["tenants"][0]["devices"]
        self.assertEqual((device["used_bytes"], device["guessed_bytes"]), (520 * MIB, 520 * MIB))
        table = self.ok("ps")
        self.assertRegex(table, r"\nfar +running .* ~520 MiB +1% +0 +~520 MiB\n")
        self.assertRegex(table, rf"\nfar +{process.pid} +GPU-\w+ +~520 MiB ")

    def test_figures(self):
        holder = self.two_tenants()
        a, b = self.json()["tenants"]
        self.assertEqual((a["name"], a["accounting"], a["error"]), ("jobA", "ledger", None))
        self.assertEqual((b["name"], b["accounting"], b["devices"]), ("jobB", "driver", []))
        self.assertEqual(b["policy"], [{"uuid": None, "limit_bytes": None, "limit_permille": 250,
                                        "share_permille": None}])
        by_uuid = {d["uuid"]: d for d in a["devices"]}
        self.assertEqual(set(by_uuid), {UUID_A, UUID_B})
        first = by_uuid[UUID_A]
        self.assertEqual(first["quota_bytes"], 8 * GIB)
        self.assertEqual(first["used_bytes"], GIB + 520 * MIB)
        self.assertEqual(first["used_by_category"]["data"], GIB)
        self.assertEqual(first["refusals"], 1)
        self.assertEqual(by_uuid[UUID_B]["used_by_category"]["array"], 2 * MIB)
        (process,) = a["processes"]
        self.assertEqual((process["pid"], process["host_pid"]), (holder.pid, holder.pid))
        self.assertEqual(process["name"], "cli_holder")
        self.assertIn(f"{self.runtime}/", process["command"])  # it is cut
        self.assertTrue(" ".join(holder.args).startswith(process["command"]))
        self.assertEqual(sum(d["used_bytes"] for d in process["devices"]), GIB + 522 * MIB)

    def test_the_dead_do_not_count(self):
        holder = self.two_tenants()
        holder.kill()
        holder.wait()
        tenant = self.json("jobA")["tenants"][0]
        self.assertEqual(tenant["processes"], [])
        self.assertEqual([d["used_bytes"] for d in tenant["devices"]], [0, 0])

    def test_several_processes_are_summed(self):
        self.two_tenants()
        self.hold("jobA", f"{UUID_A}:pool:{32 * MIB}")
        tenant = self.json("jobA")["tenants"][0]
        used = {d["uuid"]: d["used_bytes"] for d in tenant["devices"]}
        self.assertEqual(used[UUID_A], GIB + 552 * MIB)
        self.assertEqual(len(tenant["processes"]), 2)

    def test_table(self):
        holder = self.two_tenants()
        out = self.ok("ps")
        self.assertNotIn("\033", out)
        self.assertRegex(out, r"(?m)^TENANT +STATE +GPU +QUOTA +USED +REFUSED +CONTEXT +DATA +ARRAY$")
        self.assertRegex(out, r"(?m)^jobA +running +GPU-11111111 +8 GiB +1\.5 GiB +18% +1 +520 MiB +1 GiB$")
        self.assertRegex(out, r"(?m)^jobB +idle +each +25% +0 +0% +0$")
        self.assertRegex(out, rf"(?m)^jobA +{holder.pid} +GPU-11111111 +1\.5 GiB +\S.*cli_holder")
        self.assertNotRegex(out, r"(?m) $")

    def test_compute(self):
        self.living("a", "--compute", "25")
        self.hold("a", f"{UUID_A}:busy:240", f"{UUID_A}:owed:2000000000",
                  f"{UUID_A}:held:1500000000", f"{UUID_A}:longest:200000000",
                  f"{UUID_A}:launches:7")
        (tenant,) = self.json("a")["tenants"]
        self.assertEqual(tenant["compute"], {
            "policy": "cap", "measured": True, "mode": "turns", "controller": "deficit", "priority": "normal",
            "floor_permille": 50,            "weight": None, "inflight_us": None, "latency_us": None,
            "slice_us": None})
        self.assertEqual(tenant["policy"][0]["share_permille"], 250)
        seen = tenant["devices"][0]["compute"]
        self.assertEqual((seen["share_permille"], seen["target_permille"]), (250, 250))
        self.assertEqual((seen["launches"], seen["throttles"], seen["throttled_ns"],
                          seen["longest_ns"]),
                         (7, 1, 1500000000, 200000000))
        self.assertEqual(seen["busy_ns"], 62 * 240000000)
        # As the seconds go by, the first ones of the hour leave the window.
        self.assertTrue(1200 < seen["achieved_60s_bp"] <= 2400, seen)
        self.assertTrue(seen["debt_ns"] < 2000000000, seen)
        done = self.allot("ps", "a")
        self.assertEqual(done.stderr, "")
        self.assertRegex(done.stdout,
                         r"(?m)^TENANT +GPU +COMPUTE +TARGET +1 S +60 S +HELD( +DEBT)?$")
        self.assertRegex(done.stdout,
                         r"(?m)^a +GPU-11111111 +cap +25% +\d+\.\d% +\d+\.\d% +1\.5 s"
                         r"( +\d\S* m?s)?$")
        self.ok("set", "a", "--compute", "off")
        self.assertNotIn("TARGET", self.ok("ps", "a"))
        seen = self.json("a")["tenants"][0]["devices"][0]["compute"]
        self.assertEqual((seen["share_permille"], seen["target_permille"], seen["debt_ns"]),
                         (None, None, None))

    def test_compute_of_the_idle(self):
        self.living("cap", "--compute", "40", "--controller", "pid")
        self.living("share", "--weight", "2", "--priority", "high")
        self.living("space", "--compute", "10")
        self.ok("set", "space", "--mode", "space")  # which run would want an MPS daemon for
        out = self.ok("ps")
        self.assertRegex(out, r"(?m)^TENANT +GPU +COMPUTE +MODE +CONTROL +TARGET +1 S +60 S +HELD$")
        self.assertRegex(out, r"(?m)^cap +each +cap +pid +40% +- +- +-$")
        self.assertRegex(out, r"(?m)^share +each +weight 2, high +- +- +- +-$")
        self.assertRegex(out, r"(?m)^space +each +cap +space +10% +- +- +-$")
        self.assertTrue(all(len(line) <= 80 for line in out.splitlines()), out)

    def test_work_that_is_too_long_for_its_share(self):
        self.living("a", "--compute", "10")
        self.hold("a", f"{UUID_A}:longest:900000000")
        note = self.allot("ps").stderr
        self.assertIn('"a" on GPU-11111111: its longest unit of work took 900 ms, '
                      "so 10% is exact over 9 s and more", note)
        for args in (("--compute", "95"), ("--compute", "100"), ("--compute", "off")):
            self.ok("set", "a", *args)
            self.assertEqual(self.allot("ps").stderr, "")
        self.ok("set", "a", "--compute", "80")
        self.assertIn("1.1 s and more", self.allot("ps").stderr)

    def test_all_of_the_time_is_not_measured(self):
        self.living("a", "--compute", "100")
        self.hold("a", f"{UUID_A}:longest:900000000")
        self.assertRegex(self.ok("ps"), r"(?m)^a +GPU-11111111 +cap +100% +- +- +-$")

    def test_names(self):
        self.two_tenants()
        self.assertEqual([t["name"] for t in self.json("jobB")["tenants"]], ["jobB"])
        self.fails(125, "ps", "jobB", "jobC", says=('"jobC"',))

    def test_command_that_is_no_text(self):
        self.living("a")
        self.hold("a")  # its arguments hold this directory's name
        odd = os.path.join(os.fsencode(self.tmp), b"\xff\xfe\"\\\n\xe2\x82\xac")
        os.symlink(cli_lib.HOLDER, odd)
        process = self.start(odd, os.path.join(self.runtime, "a"))
        self.assertEqual(process.stdout.readline(), "held\n")
        self.assertEqual(len(self.json()["tenants"][0]["processes"]), 2)
        self.assertIn("??", self.ok("ps"))

    def test_pids_of_a_container(self):
        unshare = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
        if os.geteuid() or subprocess.run([*unshare, "true"], capture_output=True,
                                          check=False).returncode:
            self.skipTest("cannot make a PID namespace")
        self.living("a")
        process = self.start(*unshare, cli_lib.HOLDER, os.path.join(self.runtime, "a"),
                             f"{UUID_A}:data:{MIB}")
        self.assertEqual(process.stdout.readline(), "held\n")
        with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="utf-8") as file:
            child = int(file.read())
        (seen,) = self.json()["tenants"][0]["processes"]
        self.assertEqual((seen["pid"], seen["host_pid"]), (1, child))
        self.assertRegex(self.ok("ps"), rf"(?m)^a +1 +{child} +GPU-11111111 ")

    def test_unreadable_tenant(self):
        self.two_tenants()
        path = os.path.join(self.runtime, "jobB", "policy")
        os.chmod(path, 0o600)
        with open(path, "r+b") as file:
            file.write(b"\0" * 4096)
        done = self.allot("ps", "--json")
        self.assertEqual(done.returncode, 0)
        a, b = json.loads(done.stdout)["tenants"]
        self.assertIsNone(a["error"])
        self.assertIsInstance(b["error"], str)
        self.assertEqual(list(b), ["name", "uid", "directory", "container", "pod", "apart", "generated", "state", "error"])
        done = self.allot("ps")
        self.assertIn("jobA", done.stdout)
        self.assertIn('"jobB"', done.stderr)


    def test_unreadable_tenant_ends(self):
        """It is kept as long as a process has its ledger mapped, and goes with that."""
        first, process = self.living("a"), self.hold("a")
        os.chmod(os.path.join(self.runtime, "a", "ledger"), 0o644)
        first.communicate("\n")
        for _ in range(2):
            self.ok("ps")  # sweeps, too
            tenant, = self.json()["tenants"]
            self.assertIsInstance(tenant["error"], str)
        process.kill()
        process.wait()
        self.ok("ps")
        self.assertEqual(self.json()["tenants"], [])


class Set(cli_lib.Case):
    def test_says_old_and_new(self):
        self.living("a", "--memory", "8GiB")
        self.assertEqual(self.ok("set", "a", "--memory", "12GiB"),
                         "a each device: 8 GiB -> 12 GiB\n")
        self.assertEqual(self.ok("set", "--memory=50%", "a"), "a each device: 12 GiB -> 50%\n")

    def test_compute(self):
        """Each change from what the one before left: what is not named stays."""
        self.living("a", "--memory", "8GiB")
        self.hold("a")
        before = "off"
        for args, after in (
                ("--compute 25", "cap 25%"), ("--compute 12.5%", "cap 12.5%"),
                ("--priority high", "cap 12.5%, high"), ("--weight 3", "cap 12.5%, weight 3, high"),
                ("--policy share", "weight 3, high"), ("--compute 40", "share 40%, high"),
                ("--weight 2 --priority normal", "weight 2"), ("--policy cap", "cap 40%, weight 2"),
                ("--mode turns --inflight 2ms", "cap 40%, weight 2, 2 ms in flight"),
                ("--compute off", "off"), ("--priority low", "share, low"),
                ("--weight 7 --priority normal", "weight 7")):
            self.assertEqual(self.ok("set", "a", *args.split()),
                             f"a each device: compute {before} -> {after}\n")
            before = after
        self.assertEqual(self.ok("set", "a", "--memory", "1GiB", "--weight", "8"),
                         "a each device: 8 GiB -> 1 GiB\n"
                         "a each device: compute weight 7 -> weight 8\n")

    def test_compute_errors(self):
        self.living("a", "--memory", "8GiB")
        self.fails(125, "set", "a", "--policy", "cap", says=("--policy cap", "--compute 25"))
        self.fails(125, "set", "a", "--policy", "share", says=("--policy share", "--weight 2"))
        self.fails(125, "set", "a", "--inflight", "2ms", says=("--inflight 2ms", "--compute 25"))
        self.fails(125, "set", "a", "--compute", "25,50", says=("2 values for 1 device",))
        self.ok("set", "a", "--weight", "2")
        self.fails(125, "set", "a", "--policy", "cap", says=("--policy cap", "--compute 25"))
        self.fails(125, "set", "a", "--weight", "3", "--compute", "25", says=("--weight 3",))
        # A bad half takes the good one with it.
        self.fails(125, "set", "a", "--memory", "1GiB", "--compute", "25,50", says=("--compute",))
        self.assertIn("8 GiB -> 2 GiB", self.ok("set", "a", "--memory", "2GiB"))

    def test_reaches_a_running_tenant(self):
        self.living("a", "--memory", "8GiB")
        self.hold("a", f"{UUID_A}:data:{4 * GIB}")
        out = self.ok("set", "a", "--memory", "1GiB")
        self.assertIn("8 GiB -> 1 GiB", out)
        self.assertIn(f"{UUID_A} uses 4 GiB", out)
        self.assertIn("nothing is taken away", out)
        device = json.loads(self.ok("ps", "--json"))["tenants"][0]["devices"][0]
        self.assertEqual((device["quota_bytes"], device["used_bytes"]), (GIB, 4 * GIB))

    def test_errors(self):
        self.living("a", "--memory", "8GiB")
        self.fails(125, "set", "b", "--memory", "1G", says=('"b"', "allot ps"))
        self.fails(125, "set", "../a", "--memory", "1G", says=("../a",))
        self.fails(125, "set", "a", says=("allot set a --memory",))
        self.fails(125, "set", says=("allot set",))
        self.fails(125, "set", "a", "--memory", "1G,2G", says=("2 values for 1 device",))
        self.assertIn("8 GiB", self.ok("ps"))


if __name__ == "__main__":
    cli_lib.main()
