# SPDX-License-Identifier: Apache-2.0
"""allotd's metrics: what allot ps says, in the form that Prometheus reads, by Prometheus itself."""

import json
import os
import re
import shutil
import socket
import subprocess
import unittest
import urllib.request

import cli_lib
import daemon_lib
from cli_lib import GIB, MIB, UUID_A, UUID_B
from daemon_lib import key

PROMTOOL, PROMETHEUS = shutil.which("promtool"), shutil.which("prometheus")


class Metrics(daemon_lib.Case):
    def tenants(self):
        self.living("jobA", "--memory", "8GiB", "--compute", "25")
        self.living("jobB", "--memory", "25%")
        self.hold("jobA", f"{UUID_A}:context:{520 * MIB}", f"{UUID_A}:data:{GIB}",
                  f"{UUID_B}:array:{2 * MIB}", f"{UUID_B}:guess:{3 * MIB}", f"{UUID_A}:refuse:{GIB}")

    def test_figures_are_those_of_ps(self):
        self.tenants()
        self.daemon()
        found = self.samples()
        for tenant in json.loads(self.ok("ps", "--json"))["tenants"]:
            name = tenant["name"]
            self.assertEqual(found[key("allot_tenant_readable", tenant=name)], 1)
            self.assertEqual(found[key("allot_tenant_processes", tenant=name)],
                             len(tenant["processes"]))
            for device in tenant["devices"]:
                at = {"tenant": name, "device": device["uuid"]}
                for field, metric in (("quota_bytes", "quota"), ("peak_bytes", "peak")):
                    self.assertEqual(found.get(key(f"allot_memory_{metric}_bytes", **at)),
                                     device[field])
                self.assertEqual(found[key("allot_memory_denied_total", **at)], device["refusals"])
                used = {dict(labels)["category"]: value for (m, labels), value in found.items()
                        if m == "allot_memory_used_bytes" and dict(labels).items() >= at.items()}
                self.assertEqual(used, {**device["used_by_category"],
                                        "pending": device["pending_bytes"]})
                self.assertEqual(found[key("allot_memory_guessed_bytes", **at)], device["guessed_bytes"])
        self.assertEqual(found[key("allot_memory_guessed_bytes", tenant="jobA", device=UUID_B)], 3 * MIB)
        share = found[key("allot_compute_share_ratio", tenant="jobA", device=UUID_A)]
        self.assertEqual(share, 0.25)
        self.assertNotIn(key("allot_compute_share_ratio", tenant="jobB", device=UUID_A), found)

    def test_container(self):
        """By the name of the cgroup, as whoever runs containers makes one."""
        self.tenants()
        holder = self.hold("jobB", f"{UUID_A}:data:{MIB}")
        name = os.urandom(32).hex()
        roots = [root for root in ("/sys/fs/cgroup", "/sys/fs/cgroup/freezer")
                 if os.path.exists(os.path.join(root, "cgroup.procs"))]
        if not roots or not os.access(roots[0], os.W_OK):
            self.skipTest("cgroups cannot be made here")
        path = os.path.join(roots[0], name)
        os.mkdir(path)
        self.addCleanup(self.leave, holder, path)
        with open(os.path.join(path, "cgroup.procs"), "w", encoding="utf-8") as procs:
            procs.write(str(holder.pid))
        self.daemon()
        found = {labels: value for (name, labels), value in self.samples().items()
                 if name == "allot_tenant_container_info"}
        self.assertEqual(found, {(("container", name), ("tenant", "jobB")): 1})

    def test_turns(self):
        self.env.update(ALLOT_SIM_DIR=os.path.join(self.tmp, "sim"),
                        LD_LIBRARY_PATH=os.environ["SIM_LIBRARIES"])
        self.daemon()
        self.living("jobA", "--compute", "25", "--policy", "share")
        turns = key("allot_tenant_turns_total", tenant="jobA")
        self.assertEqual(self.samples()[turns], 0)
        self.start(cli_lib.ALLOT, "run", "--name", "jobA", "--", cli_lib.LOAD,
                   "--loops-per-us", "1", "--seconds", "60")
        cli_lib.wait_for(lambda: self.samples()[turns] > 0)

    def leave(self, process, cgroup):
        process.kill()
        process.wait()
        os.rmdir(cgroup)

    def test_devices(self):
        self.daemon(cli_lib.ALLOT, "sim", "--gpus", "2", "--memory", "24GiB", "--")
        found = self.samples()
        memory = {labels: value for (name, labels), value in found.items()
                  if name == "allot_device_memory_bytes"}
        self.assertEqual(list(memory.values()), [24 * GIB] * 2)

    def test_documented(self):
        """allotd(8) has each metric, and no other."""
        self.tenants()
        with open(self.path("conf"), "w", encoding="utf-8") as conf:
            conf.write(f"[kubernetes]\nways = device-plugin\nkubelet = {self.tmp}\ncdi = {self.tmp}\n"
                       if os.environ["KUBERNETES"] else "overpromise = allow\n")
        os.chmod(self.path("conf"), 0o644)
        self.daemon(cli_lib.ALLOT, "sim", "--", options=("--metrics", "hami", "--config", self.path("conf")))
        cli_lib.wait_for(lambda: key("allot_outside_processes") in self.samples())
        heads = re.findall(r"^# TYPE (\w+)", self.get("/metrics")[2], re.M)
        with open(os.path.join(os.environ["ALLOT_SOURCE"], "man", "allotd.8.scd"),
                  encoding="utf-8") as page:
            table = re.findall(r"^\|  (\w+_\w+(?:, \w+)*)$", page.read(), re.M)
        of_kube = {"allot_unenforced_containers", "allot_registration_state", "allot_device_health",
                   "allot_allocate_seconds", "allot_prestart_seconds", "allot_prepare_seconds"}
        documented = {*", ".join(table).split(", ")} - (set() if os.environ["KUBERNETES"] else of_kube)
        self.assertEqual(sorted(heads), sorted(documented))

    def test_damaged_tenant(self):
        self.keep("bad")
        with open(os.path.join(self.runtime, "bad", "policy"), "r+b") as policy:
            policy.write(b"\0" * 64)
        self.daemon()
        self.assertEqual(self.samples()[key("allot_tenant_readable", tenant="bad")], 0)

    def test_no_tenants(self):
        self.daemon()
        self.assertEqual({name for name, _ in self.samples() if "tenant" in name}, set())

    def test_pages(self):
        self.daemon()
        self.assertEqual(self.get("/metrics")[:2],
                         (200, "text/plain; version=0.0.4; charset=utf-8"))
        self.assertEqual(self.get("/metrics", "HEAD")[::2], (200, ""))
        self.assertEqual(self.get("/passwd")[0], 404)
        self.assertEqual(self.get("/metrics/../../etc/passwd")[0], 404)
        for method in ("POST", "PUT", "DELETE"):
            self.assertEqual(self.get("/metrics", method)[0], 405)

    def test_health(self):
        """Of what the pages are made from: without it they have an error, and so has this one."""
        self.daemon()
        self.assertEqual(self.get("/healthz"), (200, "text/plain; charset=utf-8", "ok\n"))
        os.rename(self.runtime, self.runtime + ".away")
        self.assertEqual(self.get("/healthz")[0], 500)
        os.rename(self.runtime + ".away", self.runtime)
        self.assertEqual(self.get("/healthz")[0], 200)

    def test_the_port_is_taken(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", self.port))
            taken.listen()
            done = subprocess.run([daemon_lib.ALLOTD, "--listen", f"127.0.0.1:{self.port}"],
                                  env=self.env, capture_output=True, text=True, timeout=60,
                                  check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"127.0.0.1:{self.port}: Address already in use", done.stderr)
        for wrong in ("localhost:1", "127.0.0.1", "127.0.0.1:http", "::1:1", ":1", "127.0.0.1:"):
            done = subprocess.run([daemon_lib.ALLOTD, "--listen", wrong], env=self.env,
                                  capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual((done.returncode, wrong in done.stderr), (1, True), done.stderr)
        for wrong in ("--nosuch", "--outside=maybe", "--metrics=none"):
            done = subprocess.run([daemon_lib.ALLOTD, wrong], env=self.env,
                                  capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual((done.returncode, wrong.split("=")[0] in done.stderr), (1, True))

    def test_sleeps_and_ends(self):
        """Four threads, in the middle of many visitors who say nothing; ends by SIGTERM."""
        daemon = self.daemon()
        silent = []
        for _ in range(700):
            visitor = socket.create_connection(("127.0.0.1", self.port), timeout=60)
            self.addCleanup(visitor.close)
            silent.append(visitor)
        for visitor in silent:
            visitor.close()
        self.assertEqual(self.get("/metrics")[0], 200)
        self.assertEqual(len(os.listdir(f"/proc/{daemon.pid}/task")), 4)
        with open(f"/proc/{daemon.pid}/status", encoding="utf-8") as status:
            rss = next(line for line in status if line.startswith("VmRSS"))
        self.assertLess(int(rss.split()[1]), 8 * 1024)
        self.end(daemon)

    def test_answers_after_each_flood(self):
        """All connections are taken and given back, again and again: it still listens."""
        self.daemon()
        for _ in range(15):
            flood = [socket.create_connection(("127.0.0.1", self.port), timeout=60)
                     for _ in range(700)]
            for visitor in flood:
                visitor.close()
            self.assertEqual(self.get("/metrics")[0], 200)

    def test_names_of_hami(self):
        """Beside our own, and with the labels that its dashboards choose by."""
        self.env["NODE_NAME"] = "n1"
        self.tenants()
        self.daemon(cli_lib.ALLOT, "sim", "--memory", "24GiB", "--", options=("--metrics", "hami"))
        found = self.samples()
        at = {"namespace": "", "pod": "jobA", "container": "", "vdevice_index": "0",
              "device_uuid": UUID_A}
        self.assertEqual(found[key("hami_vgpu_memory_used_bytes", **at)], GIB + 520 * MIB)
        self.assertEqual(found[key("hami_vgpu_memory_limit_bytes", **at)], 8 * GIB)
        self.assertEqual(found[key("target_sm_utilization", **at)], 25)
        limit, = (dict(labels) for name, labels in found if name == "hami_gpu_memory_limit_bytes")
        self.assertEqual(limit["node"], "n1")
        # By the names that it had before, and the labels that went with them.
        at = {"podnamespace": "", "podname": "jobA", "ctrname": "", "vdeviceid": "0",
              "deviceuuid": UUID_A}
        self.assertEqual(found[key("vGPU_device_memory_usage_in_bytes", **at)], GIB + 520 * MIB)
        self.assertEqual(found[key("Device_memory_desc_of_container", **at)], GIB + 520 * MIB)
        self.assertEqual(found[key("vGPU_device_memory_limit_in_bytes", **at)], 8 * GIB)
        older = {"nodeid": "n1", "deviceuuid": limit["device_uuid"], "deviceidx": "0",
                 "devicetype": limit["device_type"]}
        for name, value in (("GPUDeviceMemoryLimit", 24 * GIB), ("GPUDeviceCoreLimit", 100)):
            self.assertEqual(found[key(name, **older)], value)
        self.assertIn(key("GPUDeviceMemoryAllocated", devicecores="100", **older), found)
        self.assertIn(key("allot_memory_quota_bytes", tenant="jobA", device=UUID_A), found)
        self.port = daemon_lib.free_port() # allot sim may be waited for, and what it ran not be gone yet
        self.daemon(options=("--metrics", "allot"))
        self.assertEqual({name.split("_")[0] for name, _ in self.samples()}, {"allot"})

    def test_two_pods_of_one_name(self):
        """A series may be there once: while one Pod ends, and the next one of its name has begun,
        it is the sum of both."""
        for name, uid in (("slot-1", "a"), ("slot-2", "b")):
            self.living(name, "--memory", "2GiB")
            self.hold(name, f"{UUID_A}:data:{GIB}")
            os.symlink(f"space/p/main/{uid}", os.path.join(self.runtime, name, "pod"))
        self.daemon(options=("--metrics", "hami"))
        lines = [line for line in self.get("/metrics")[2].splitlines()
                 if line.startswith("hami_vgpu_memory_used_bytes{")]
        self.assertEqual([line.split()[-1] for line in lines], [str(2 * GIB)])
        self.assertIn('pod="p"', lines[0])

    def test_names_of_nobody(self):
        done = subprocess.run([daemon_lib.ALLOTD, "--metrics", "x"], env=self.env, text=True,
                              capture_output=True, timeout=60, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn('--metrics "x": it is allot or hami', done.stderr)

    def promtool(self):
        """(exit status, what it says) of the metrics."""
        done = subprocess.run([PROMTOOL, "check", "metrics"], input=self.get("/metrics")[2],
                              text=True, capture_output=True, timeout=60, check=False)
        return done.returncode, done.stdout + done.stderr

    @unittest.skipUnless(PROMTOOL, "promtool is not installed")
    def test_promtool(self):
        self.tenants()
        self.daemon()
        self.assertEqual(self.promtool(), (0, ""))

    @unittest.skipUnless(PROMTOOL, "promtool is not installed")
    def test_promtool_on_names_of_hami(self):
        """Of the newer ones one is against the rules, and a dashboard asks for it."""
        self.tenants()
        self.daemon(cli_lib.ALLOT, "sim", "--", options=("--metrics", "hami"))
        said = self.promtool()[1].splitlines()
        self.assertEqual({name for name in (line.split(" ")[0] for line in said)
                          if re.match(r"[a-z_]+$", name)}, {"hami_gpu_shared_count"})

    def ask(self, port, query):
        url = f"http://127.0.0.1:{port}/api/v1/query?query={urllib.request.quote(query)}"
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                return [r["value"][1] for r in json.load(answer)["data"]["result"]]
        except OSError:
            return []

    @unittest.skipUnless(PROMETHEUS, "prometheus is not installed")
    def test_prometheus(self):
        self.tenants()
        self.daemon()
        port = daemon_lib.free_port()
        config = self.path("prometheus.yml", "global: {scrape_interval: 1s}\n"
                           "scrape_configs: [{job_name: allot, static_configs: "
                           f"[{{targets: ['127.0.0.1:{self.port}']}}]}}]\n")
        self.start(PROMETHEUS, f"--config.file={config}", f"--storage.tsdb.path={self.tmp}/tsdb",
                   f"--web.listen-address=127.0.0.1:{port}", stderr=subprocess.DEVNULL)
        cli_lib.wait_for(lambda: self.ask(port, "up") == ["1"], 60)
        cli_lib.wait_for(lambda: self.ask(
            port, f'sum(allot_memory_used_bytes{{device="{UUID_A}"}})') == [str(GIB + 520 * MIB)])
        self.assertEqual(self.ask(port, 'sum(allot_memory_used_bytes) / on() '
                                        'sum(allot_memory_quota_bytes{tenant="jobA"}) < 1 or '
                                        'vector(2)')[0][:4], "0.09")


if __name__ == "__main__":
    cli_lib.main()
