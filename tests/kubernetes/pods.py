# SPDX-License-Identifier: Apache-2.0
"""Pods with a part of a GPU, by the device plugin and the stock scheduler."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import unittest

import cluster
from case import HOLD, SECONDS, Case, told
from cluster import CORES, GPU_GIB, GPUS, HAS_DRA, MEMORY, RESOURCES, SLOTS, SOURCE, wait

LIST_PODS = pathlib.Path(__file__).with_name("list_pods.py")

MANY, RESTARTS = int(os.environ.get("PODS", "50")), int(os.environ.get("RESTARTS", "5"))


class Pods(Case):
    @classmethod
    def setUpClass(cls):
        cls.cluster = cluster.Cluster(2)
        cls.nodes = cls.cluster.nodes

    # --- Helpers

    def create_many(self, n, first=1):
        """Pods of two containers, of which each has another quota: {namespace/pod/container: GiB}."""
        wanted = {}
        for i in range(n):
            quota = {"a": first + 2 * i, "b": first + 2 * i + 1}
            self.cluster.create(f"many-{i}", {c: ({SLOTS: 1, MEMORY: q}, HOLD) for c, q in quota.items()})
            wanted |= {f"default/many-{i}/{c}": q for c, q in quota.items()}
        self.wait_ready(*(f"many-{i}" for i in range(n)))
        return wanted

    def check_many(self, wanted):
        self.assertEqual({words: quota for words, (_, quota) in self.all_tenants().items()}, wanted)
        for words, quota in wanted.items():
            _, name, container = words.split("/")
            self.assertEqual(self.quota_said(name, container), quota << 10)

    def registrations(self, node):
        """So often each resource was registered, in the words of either kubelet."""
        words = r'Got registration request from device plugin with resource(?: name |" resourceName=)"{}"'
        log = node.programs.log("kubelet")
        return [len(re.findall(words.format(re.escape(r)), log)) for r in RESOURCES]

    def wait_registered(self, node, before):
        start = time.monotonic()
        wait(lambda: all(n > b for n, b in zip(self.registrations(node), before)), SECONDS,
             lambda: node.programs.log("allotd"))
        return time.monotonic() - start

    @staticmethod
    def listed(node):
        """{namespace/pod/container: its slots}, by the kubelet's own list; None where Python has no gRPC."""
        done = subprocess.run([sys.executable, LIST_PODS, node.top / "private/var/lib/kubelet/pod-resources/kubelet.sock"],
                              text=True, capture_output=True, check=False)
        if done.returncode == 77:
            return None
        assert done.returncode == 0, done.stderr
        return {words: {*devices[SLOTS]} for words, devices in json.loads(done.stdout).items() if SLOTS in devices}

    def check_as_listed(self):
        """What is granted on each node is what its kubelet says that it gave, each to its own."""
        for node in self.nodes:
            listed = self.listed(node)
            if listed is None:
                told("python3-grpcio is not here: no list of the kubelet's")
                return
            self.assertEqual({*node.grants()}, {f"slot-{s}" for slots in listed.values() for s in slots})
            self.assertEqual({*node.tenants()}, {*listed})

    # --- Tests

    def test_quota(self):
        """It is in force in the first process, and no other one counts for it."""
        start = time.monotonic()
        self.cluster.create("one", {"main": ({SLOTS: 1, MEMORY: 1}, HOLD)})
        self.wait_ready("one")
        told(f"a Pod is ready after {time.monotonic() - start:.2f} s")
        self.assertEqual(self.quota_said("one", "main"), 1024)
        tenant, pod = self.tenant("one", "main"), self.cluster.pod("one")
        self.assertEqual(tenant["pod"], {"namespace": "default", "name": "one", "container": "main",
                                         "uid": pod["metadata"]["uid"]})
        self.assertIn(tenant["container"], self.status("one")["main"]["containerID"])
        self.assertEqual(tenant["devices"][0]["used_bytes"], 1 << 30)
        node = self.cluster.node_of(pod)
        words = node.run(self.cluster.allot, "ps", env=node.sim)
        self.assertIn("default", words)
        told(words)

    def test_cores(self):
        self.cluster.create("cores", {"main": ({SLOTS: 1, MEMORY: 2, CORES: 30}, HOLD)})
        self.wait_ready("cores")
        self.assertEqual(self.tenant("cores", "main")["policy"][0]["share_permille"], 300)

    def test_many(self):
        """At once, on both nodes: each container has its own."""
        start = time.monotonic()
        wanted = self.create_many(MANY)
        told(f"{MANY} Pods of two containers are ready after {time.monotonic() - start:.1f} s")
        self.check_many(wanted)
        self.check_as_listed()
        placed = {p["spec"]["nodeName"] for p in self.cluster.api.call("GET", self.cluster.PODS)["items"]}
        self.assertEqual(placed, {n.name for n in self.nodes})

    def test_side_by_side(self):
        """Of what does not fit onto one GPU twice, as many as a node has GPUs."""
        names = [f"beside-{i}" for i in range(GPUS)]
        for name in names:
            limits = {SLOTS: 1, MEMORY: GPU_GIB * 3 // 5}
            self.cluster.create(name, {"main": (limits, ["/bin/sleep", "infinity"])},
                                nodeSelector={"kubernetes.io/hostname": self.nodes[0].name})
        self.wait_ready(*names)
        gpus = {t["policy"][0]["uuid"] for t in self.nodes[0].tenants().values()}
        self.assertEqual(len(gpus), GPUS)

    def test_registration(self):
        """After a start of allotd."""
        node = self.nodes[0]
        node.programs.stop("allotd")
        before = self.registrations(node)
        node.start_allotd()
        told(f"registered {self.wait_registered(node, before):.2f} s after allotd's start")

    def test_kubelet_restarts(self):
        """No Pod is restarted, no descriptor stays open, and the next Pod runs."""
        wanted = self.create_many(2)
        before, descriptors, times = self.containers(), {}, []
        for i in range(RESTARTS):
            for node in self.nodes:
                registered = self.registrations(node)
                self.begin_kubelet_anew(node)
                times.append(self.wait_registered(node, registered))
                descriptors.setdefault(node.name, []).append(self.open_files_of(node))
        told(f"registered at most {max(times):.2f} s after kubelet.sock was there; "
             f"descriptors {descriptors}")
        for counts in descriptors.values():
            self.assertLessEqual(counts[-1], max(counts[:3]))
        time.sleep(10)  # a sweep that took the kubelet's first lists for all would have come
        self.assertEqual(self.containers(), before)
        self.check_many(wanted)
        self.cluster.create("next", {"main": ({SLOTS: 1, MEMORY: 3}, HOLD)})
        self.wait_ready("next")
        self.assertEqual(self.quota_said("next", "main"), 3 << 10)

    def test_allotd_is_killed(self):
        """All run on as they were, and what is in force afterwards is the same."""
        wanted = self.create_many(10)
        before, tenants = self.containers(), self.all_tenants()
        for node in self.nodes:
            node.programs.stop("allotd", signal.SIGKILL)
        self.check_many(wanted)
        self.assertEqual(self.all_tenants(), tenants)
        # Of one the container ends meanwhile, and another Pod goes.
        node = self.cluster.node_of(self.cluster.pod("many-0"))
        self.kill_container(node, "many-0", "a")
        self.cluster.delete("many-1")
        wait(lambda: not self.cluster.pod("many-1"), 2 * SECONDS, "the Pod stays")
        for n in self.nodes:
            n.start_allotd()
        for container in "ab":
            del wanted[f"default/many-1/{container}"], tenants[f"default/many-1/{container}"]
            before.pop(f"default/many-1/{container}")
        wait(lambda: self.status("many-0")["a"]["restartCount"] and self.status("many-0")["a"]["ready"],
             SECONDS, lambda: self.what_of("many-0"))
        wait(lambda: self.all_tenants() == tenants, SECONDS, lambda: f"{self.all_tenants()}, not {tenants}")
        after = self.containers()
        del before["default/many-0/a"], after["default/many-0/a"]
        self.assertEqual(after, before)
        self.check_many(wanted)
        self.check_as_listed()

    def test_container_restarts(self):
        """It has the same tenant, with the same quota."""
        self.cluster.create("again", {"main": ({SLOTS: 1, MEMORY: 5}, HOLD),
                                      "other": ({SLOTS: 1, MEMORY: 6}, HOLD)})
        self.wait_ready("again")
        before = self.all_tenants()
        node = self.cluster.node_of(self.cluster.pod("again"))
        for start in (1, 2):
            self.kill_container(node, "again", "main")
            self.assertEqual(self.quota_said("again", "main", start), 5 << 10)
            wait(lambda: self.all_tenants() == before, 10, lambda: f"{self.all_tenants()}, not {before}")
        self.assertEqual(self.status("again")["other"]["restartCount"], 0)

    def test_deletion(self):
        self.cluster.create("gone", {"main": ({SLOTS: 1, MEMORY: 1}, HOLD)})
        self.wait_ready("gone")
        node = self.cluster.node_of(self.cluster.pod("gone"))
        start = time.monotonic()
        self.cluster.delete("gone")
        wait(lambda: not node.tenants(), SECONDS, "the tenant stays")
        told(f"the tenant is gone {time.monotonic() - start:.1f} s after the Pod's deletion was asked for")
        wait(lambda: not node.grants(), SECONDS, "the grant stays")
        told(f"its grant after {time.monotonic() - start:.1f} s")
        wait(lambda: not self.cluster.pod("gone"), 2 * SECONDS, "the Pod stays")
        told(f"the Pod after {time.monotonic() - start:.1f} s")
        # What the grant's maker keeps of it is gone, too.
        self.assertEqual(node.run("find", "/run/allot", "-mindepth", "1", "-name", "default.gone*"), "")

    def test_grant_is_lost(self):
        """While allotd is away nobody writes it: the container does not start. Later it does."""
        self.cluster.create("lost", {"main": ({SLOTS: 1, MEMORY: 4}, HOLD)})
        self.wait_ready("lost")
        node = self.cluster.node_of(self.cluster.pod("lost"))
        node.programs.stop("allotd", signal.SIGKILL)
        for path in node.grants().values():
            node.run("rm", path)
        self.kill_container(node, "lost", "main")
        wait(lambda: "waiting" in self.status("lost")["main"]["state"], SECONDS, "it is not refused")
        time.sleep(3)
        self.assertNotIn("running", self.status("lost")["main"]["state"])
        self.assertIsNone(node.log_of(self.cluster.pod("lost"), "main", 1))
        node.start_allotd()
        self.wait_ready("lost")
        self.assertEqual(self.all_tenants()["default/lost/main"][1], 4)

    def crash(self):
        """The first node, with four Pods on both: what each was given, and what was there."""
        wanted = self.create_many(4)
        node, other = self.nodes
        here, there = {*node.tenants()}, {*other.tenants()}
        node.crash()
        node.start_containerd()
        node.start_kubelet()
        return wanted, here, there

    @unittest.skipIf(HAS_DRA, "these kubelets fail Pods that are there before devices: see test_reboot_fails")
    def test_reboot(self):
        """Containers come back with what they had, and not before allotd is there."""
        wanted, here, there = self.crash()
        node, other = self.nodes
        wait(lambda: any("waiting" in self.status(w.split("/")[1])[w.split("/")[2]]["state"] for w in here),
             SECONDS, "nothing waits")
        self.assertEqual(node.tenants(), {})
        node.start_allotd()
        wait(lambda: {*node.tenants()} == here, 3 * SECONDS, lambda: f"{node.tenants().keys()}, not {here}")
        self.wait_ready(*(f"many-{i}" for i in range(4)))
        self.assertEqual({*other.tenants()}, there)
        self.assertEqual({w: quota for w, (_, quota) in self.all_tenants().items()}, wanted)

    @unittest.skipUnless(HAS_DRA, "these kubelets let such Pods wait for their devices: see test_reboot")
    def test_reboot_fails(self):
        """Pods that had devices fail, as every device plugin's do; the next ones run."""
        wanted, here, there = self.crash()
        node, other = self.nodes
        pods = {w.split("/")[1] for w in here}
        for pod in pods:
            wait(lambda pod=pod: self.cluster.pod(pod)["status"].get("reason") == "UnexpectedAdmissionError",
                 SECONDS, lambda pod=pod: self.what_of(pod))
        node.start_allotd()
        wait(lambda: node.allocatable()[SLOTS], SECONDS, lambda: node.programs.log("allotd"))
        for pod in pods:
            self.cluster.delete(pod)
            wait(lambda pod=pod: not self.cluster.pod(pod), SECONDS, "the Pod stays")
        self.assertEqual({*node.tenants()}, set())
        for pod in pods:
            limits = {c: ({SLOTS: 1, MEMORY: wanted[f"default/{pod}/{c}"]}, HOLD) for c in "ab"}
            self.cluster.create(pod, limits, nodeSelector={"kubernetes.io/hostname": node.name})
        self.wait_ready(*pods)
        self.assertEqual({*other.tenants()}, there)
        self.check_many(wanted)

    def devices_said(self, name):
        """[(resource, health)] of its container, as the Pod's status has it."""
        said = self.status(name)["main"].get("allocatedResourcesStatus", [])
        return [(s["name"], r["health"]) for s in said for r in s["resources"] if s["name"] == SLOTS]

    def test_sick_device(self):
        """Its slots are not counted, newer kubelets say so in the Pod's status, and what runs there goes on."""
        here = {"kubernetes.io/hostname": self.nodes[0].name}
        self.cluster.create("here", {"main": ({SLOTS: 1, MEMORY: 2}, HOLD)}, nodeSelector=here)
        self.wait_ready("here")
        node, all_of = self.nodes[0], 10 * GPUS
        uuid = self.tenant("here", "main")["policy"][0]["uuid"]
        index = re.search(rf'^allot_device_info{{device="{uuid}",index="(\d+)"', node.metrics(), re.M)[1]
        start = time.monotonic()
        node.lose(index)
        self.addCleanup(node.lose, index, False)
        wait(lambda: node.allocatable()[SLOTS] == all_of - 10, SECONDS, node.allocatable)
        told(f"a sick device's slots are gone after {time.monotonic() - start:.1f} s")
        if HAS_DRA:
            wait(lambda: self.devices_said("here") == [(SLOTS, "Unhealthy")], SECONDS, lambda: self.what_of("here"))
            told(f"the Pod's status has it after {time.monotonic() - start:.1f} s")
        start = time.monotonic()
        node.lose(index, False)
        wait(lambda: node.allocatable()[SLOTS] == all_of, SECONDS, node.allocatable)
        told(f"they are there again after {time.monotonic() - start:.1f} s")
        self.assertEqual(self.status("here")["main"]["restartCount"], 0)

    def apply_known(self, overlay, text):
        """The kinds of those that are not known."""
        taken, unknown = [], set()
        for one in re.split(r"^---$", text, flags=re.M):
            kind = re.search(r"^kind: (\w+)$", one, re.M)[1]
            file = cluster.write(self.cluster.top / "one.yaml", one)
            try:
                # The namespace is there, as what is in it needs it.
                how = [] if kind == "Namespace" else ["--dry-run=server"]
                self.cluster.kubectl("apply", *how, "-f", file)
                taken.append(kind)
            except AssertionError as error:
                if "no matches for kind" not in str(error):
                    raise
                unknown.add(kind)
        told(f"{overlay.name}: taken {taken}; not known {sorted(unknown)}")
        return unknown

    @unittest.skipIf(HAS_DRA, "test_overlays of dra.py takes all of them")
    def test_overlays(self):
        """Of each the objects of the kinds that this API server knows, as they are."""
        for overlay in sorted((SOURCE / "deploy/kubernetes/overlays").iterdir()):
            unknown = self.apply_known(overlay, cluster.must("kubectl", "kustomize", overlay))
            self.assertLessEqual(unknown, {"DeviceClass", "ValidatingAdmissionPolicy", "PodMonitor", "PrometheusRule",
                                           "ValidatingAdmissionPolicyBinding"})

    def test_too_much(self):
        """What fits onto no GPU does not start, and the Pod's events say why."""
        self.cluster.create("large", {"main": ({SLOTS: 1, MEMORY: GPU_GIB + 1}, HOLD)})
        wait(lambda: "GPU" in self.what_of("large") and "GiB" in self.what_of("large"), SECONDS,
             lambda: self.what_of("large"))
        told(self.what_of("large")[-400:])
        self.assertFalse(self.status("large")["main"]["ready"])


if __name__ == "__main__":
    cluster.main(unittest.main)
