# SPDX-License-Identifier: Apache-2.0
"""Pods with claims on parts of GPUs, by allotd's DRA driver, overlay dra and the stock scheduler."""

import contextlib
import os
import re
import shutil
import signal
import statistics
import time
import unittest
import urllib.error

import cluster
from case import HOLD, SECONDS, Case, told
from cluster import DRIVER, GPU_GIB, GPUS, HAS_DRA, RESOURCE_API, SOURCE, VERSION, wait
from proxy import Proxy

CLAIMS = f"{RESOURCE_API}/namespaces/default/resourceclaims"
SLICES = f"{RESOURCE_API}/resourceslices"
MANY, RESTARTS = int(os.environ.get("CLAIMS", "40")), int(os.environ.get("RESTARTS", "5"))
REGISTERED = f"the kubelet has registered driver {DRIVER}"


def request(name="gpu", memory="1Gi", cores="5", gpu=None):
    """`gpu`: the only one that it may be of."""
    selectors = [] if gpu is None else [
        {"cel": {"expression": f'device.attributes[device.driver].index == {gpu}'}}]
    return {"name": name, "exactly": {"deviceClassName": "allot", "selectors": selectors,
                                      "capacity": {"requests": {"memory": memory, "cores": cores}}}}


def config(**parameters):
    return {"opaque": {"driver": DRIVER, "parameters": {
        "apiVersion": "allot.dev/v1", "kind": "GpuConfig", **parameters}}}


class Claims(Case):
    @classmethod
    def setUpClass(cls):
        if not HAS_DRA:
            raise unittest.SkipTest("Kubernetes {}.{} has no resource.k8s.io/v1, 1.34 does".format(*VERSION))
        cls.cluster = cluster.Cluster(2, "dra")
        cls.nodes = cls.cluster.nodes
        cls.node = cls.nodes[0]

    def tearDown(self):
        super().tearDown()
        for claim in self.cluster.api.call("GET", CLAIMS)["items"]:
            with contextlib.suppress(urllib.error.HTTPError):  # another one's owner is gone, and so is it
                self.cluster.api.call("DELETE", f"{CLAIMS}/{claim['metadata']['name']}")
        wait(lambda: not self.cluster.api.call("GET", CLAIMS)["items"], SECONDS, "claims stay")

    # --- Helpers

    def claim(self, name, *requests, configs=(), constraints=()):
        return self.cluster.api.call("POST", CLAIMS, {
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name},
            "spec": {"devices": {"requests": [*(requests or [request()])], "config": [*configs],
                                 "constraints": [*constraints]}}})

    def run_with(self, pod, *claims, containers=None, command=HOLD, **spec):
        """On the first node. `containers`: {name: [{name of a claim, request}]}; else one, which has all."""
        containers = containers or {"main": [{"name": claim} for claim in claims]}
        self.cluster.create(
            pod, {name: ({}, command, has) for name, has in containers.items()},
            resourceClaims=[{"name": claim, "resourceClaimName": claim} for claim in claims],
            **{"nodeSelector": {"kubernetes.io/hostname": self.node.name}, **spec})

    def run_alone(self, name, *requests, configs=(), constraints=(), **spec):
        """A Pod with a claim of its own, both of this name."""
        self.claim(name, *requests, configs=configs, constraints=constraints)
        self.run_with(name, name, **spec)

    def policy(self, pod, container="main"):
        return self.tenant(pod, container)["policy"]

    def is_running(self, name):
        return self.cluster.pod(name)["status"]["phase"] == "Running"

    def unscheduled(self, name):
        """Why; None while nothing has tried."""
        for condition in self.cluster.pod(name)["status"].get("conditions", []):
            if condition["type"] == "PodScheduled" and condition["status"] == "False":
                return condition["message"]
        return None

    def calls(self, node, call):
        """Of the kubelet's log: [(uid of a claim, seconds)] of each that was answered."""
        stamp, began, took = r"^[IWE]\d{4} (\d\d):(\d\d):([\d.]+) .*", {}, []
        for line in node.programs.log("kubelet").splitlines():
            found = re.search(stamp + rf'"(Calling|Done calling) {call}\w* rpc".*', line)
            uids = found and set(re.findall(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", line.split("err=")[0]))
            if not found:
                continue
            at = int(found[1]) * 3600 + int(found[2]) * 60 + float(found[3])
            for uid in uids:
                if found[4] == "Calling":
                    began[uid] = at
                elif uid in began:
                    took.append((uid, at - began.pop(uid)))
        return took

    def prepared(self, claims):
        """Seconds of NodePrepareResources for each."""
        uids = {claim["metadata"]["uid"] for claim in claims}
        return [s for node in self.nodes for uid, s in self.calls(node, "NodePrepare") if uid in uids]

    def restart_allotd(self, node, how=signal.SIGTERM):
        n = node.programs.log("allotd").count(REGISTERED)
        node.programs.stop("allotd", how)
        node.start_allotd()
        wait(lambda: node.programs.log("allotd").count(REGISTERED) > n, SECONDS,
             lambda: node.programs.log("allotd"))

    def through_proxy(self, node):
        """allotd asks the API server by a way that can be closed, until the test's end."""
        proxy = Proxy("127.0.0.1", 16443)
        self.addCleanup(proxy.close)

        def use(url):
            node.api = url
            self.restart_allotd(node)
        use(f"https://127.0.0.1:{proxy.port}")
        self.addCleanup(use, cluster.API)
        return proxy

    def refused(self, method, path, token, body=None):
        """In the API server's words."""
        with self.assertRaises(urllib.error.HTTPError) as raised:
            self.cluster.api.call(method, path, body, token)
        self.assertIn(raised.exception.code, (403, 422))
        return raised.exception.read().decode()

    # --- What the API server takes

    def test_slices(self):
        """As they were written: what no gate lets through would be missing."""
        for node in self.nodes:
            spec = node.slice()["spec"]
            self.assertEqual(len(spec["devices"]), GPUS)
            for device in spec["devices"]:
                self.assertTrue(device["allowMultipleAllocations"])
                self.assertEqual(device["capacity"]["memory"]["value"], f"{GPU_GIB}Gi")
                self.assertEqual(device["capacity"]["memory"]["requestPolicy"]["default"], f"{GPU_GIB // 4}Gi")
                self.assertEqual(device["capacity"]["cores"]["requestPolicy"]["default"], "25")
            self.assertEqual((spec["pool"]["name"], spec["pool"]["resourceSliceCount"]), (node.name, 1))

    def test_slices_of_one_node(self):
        """By the token of one node's Pod, nothing of another node's, nor of another driver's."""
        mine, other = (node.slice() for node in self.nodes)
        path = f"{SLICES}/{other['metadata']['name']}"
        words = f"allotd on node {self.node.name} may write the ResourceSlices of that node alone"
        self.assertIn(words, self.refused("PUT", path, self.node.token, other))
        self.assertIn(words, self.refused("DELETE", path, self.node.token))
        theirs = {**mine, "metadata": {"name": "theirs"}, "spec": {**mine["spec"], "driver": "gpu.nvidia.com"}}
        self.assertIn("of driver gpu.allot.dev alone", self.refused("POST", SLICES, self.node.token, theirs))
        for forbidden in ("/api/v1/secrets", "/api/v1/pods", f"{RESOURCE_API}/resourceclaims"):
            self.refused("GET", forbidden, self.node.token)

    def define(self, kind):
        """A kind of Prometheus' operator, which takes everything."""
        plural = kind.lower() + "s"
        anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        with contextlib.suppress(urllib.error.HTTPError):  # it is there already
            self.cluster.api.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", {
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": f"{plural}.monitoring.coreos.com"},
                "spec": {"group": "monitoring.coreos.com", "scope": "Namespaced",
                         "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
                         "versions": [{"name": "v1", "served": True, "storage": True,
                                       "schema": {"openAPIV3Schema": anything}}]}})

        def served():
            with contextlib.suppress(urllib.error.HTTPError):  # its storage is being made
                return self.cluster.api.find(f"/apis/monitoring.coreos.com/v1/{plural}")
            return None
        wait(served, SECONDS, f"there is no {kind}")

    def test_overlays(self):
        """Each is taken as it is, and so is every example."""
        self.define("PodMonitor")
        self.define("PrometheusRule")
        overlays = SOURCE / "deploy/kubernetes/overlays"
        self.addCleanup(self.cluster.apply, overlays / "dra")
        for overlay in sorted(overlays.iterdir()):
            self.cluster.apply(overlay, "--dry-run=server")
            self.cluster.apply(overlay)
        for example in sorted((SOURCE / "examples/kubernetes").glob("*.yaml")):
            self.cluster.kubectl("apply", "--dry-run=server", "-f", example)
        path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
        policies = self.cluster.api.call("GET", path)["items"]
        told(f"admission policies: {sorted(p['metadata']['name'] for p in policies)}")

    # --- Shares

    def test_quota(self):
        start = time.monotonic()
        self.run_alone("one", request(memory="3Gi", cores="30"))
        self.wait_ready("one")
        told(f"a Pod with a claim is ready after {time.monotonic() - start:.2f} s")
        self.assertEqual(self.quota_said("one", "main"), 3 << 10)
        self.assertEqual(self.policy("one")[0]["share_permille"], 300)
        self.assertEqual(self.tenant("one", "main")["pod"]["uid"], self.cluster.pod("one")["metadata"]["uid"])

    def test_third_waits(self):
        """Two of 40 % fit on a GPU. The third one runs when there is room."""
        part = request(memory=f"{GPU_GIB * 2 // 5}Gi", cores="40", gpu=0)
        for name in ("first", "second", "third"):
            self.run_alone(name, part, command=["/bin/sleep", "infinity"])
        waits = wait(lambda: [n for n in ("first", "second", "third") if self.unscheduled(n)], SECONDS,
                     "none waits")
        self.assertEqual(len(waits), 1)
        run = sorted({"first", "second", "third"} - {*waits})
        self.wait_ready(*run)
        self.assertEqual(self.policy(run[0])[0]["uuid"], self.policy(run[1])[0]["uuid"])
        told(f"the third one waits: {self.unscheduled(waits[0])}")
        self.assertIn("cannot allocate all claims", self.unscheduled(waits[0]))
        start = time.monotonic()
        self.cluster.delete(run[0])
        wait(lambda: self.is_running(waits[0]), SECONDS, lambda: self.what_of(waits[0]))
        told(f"the third one runs {time.monotonic() - start:.2f} s after a deletion")

    def test_many(self):
        """At once, on both nodes."""
        claims, start = [], time.monotonic()
        for i in range(MANY):
            claims.append(self.claim(f"many-{i}", request(memory=f"{i + 1}Gi", cores="2")))
            self.run_with(f"many-{i}", f"many-{i}", nodeSelector={})
        self.wait_ready(*(f"many-{i}" for i in range(MANY)))
        told(f"{MANY} Pods with claims are ready after {time.monotonic() - start:.1f} s")
        self.assertEqual({w: q for w, (_, q) in self.all_tenants().items()},
                         {f"default/many-{i}/main": i + 1 for i in range(MANY)})
        took = self.prepared(claims)
        self.assertEqual(len(took), MANY)
        told(f"NodePrepareResources in a burst of {MANY}: p50 {1000 * statistics.median(took):.1f} ms, "
             f"at most {1000 * max(took):.1f}")

    def test_prepare_alone(self):
        claims = []
        for i in range(10):
            claims.append(self.claim(f"alone-{i}"))
            self.run_with(f"alone-{i}", f"alone-{i}", command=["/bin/sleep", "infinity"])
            self.wait_ready(f"alone-{i}")
        took = self.prepared(claims)
        self.assertEqual(len(took), len(claims))
        told(f"NodePrepareResources alone: p50 {1000 * statistics.median(took):.1f} ms, "
             f"at most {1000 * max(took):.1f}")

    def test_shared_claim(self):
        """Two Pods of one claim are one tenant, until both are gone."""
        self.claim("shared", request(memory="4Gi"))
        for name in ("a", "b"):
            self.run_with(name, "shared", command=["/bin/sleep", "infinity"])
        self.wait_ready("a", "b")
        said = self.node.said()
        self.assertEqual(len(said["tenants"]), 1, said)
        self.assertEqual(said["tenants"][0]["policy"][0]["limit_bytes"], 4 << 30)
        name = said["tenants"][0]["name"]
        self.cluster.delete("a")
        wait(lambda: not self.cluster.pod("a"), SECONDS, "the Pod stays")
        time.sleep(5)
        self.assertEqual([t["name"] for t in self.node.said()["tenants"]], [name])
        self.assertTrue(self.is_running("b"))

    def test_two_requests(self):
        """Of one claim, for a container each: two tenants."""
        self.claim("two", request("small", "2Gi", "10"), request("large", "6Gi", "30"))
        self.run_with("two", "two", containers={r: [{"name": "two", "request": r}] for r in ("small", "large")})
        self.wait_ready("two")
        self.assertEqual({w: q for w, (_, q) in self.all_tenants().items()},
                         {"default/two/small": 2, "default/two/large": 6})
        self.assertEqual([self.policy("two", c)[0]["share_permille"] for c in ("small", "large")], [100, 300])

    def test_extended_resource(self):
        """A quarter, and no claim of the user's."""
        self.cluster.create("quarter", {"main": ({"allot.dev/quarter": 1}, HOLD)})
        self.wait_ready("quarter")
        self.assertEqual(self.quota_said("quarter", "main"), GPU_GIB << 8)
        self.assertEqual(self.policy("quarter")[0]["share_permille"], 250)

    def test_configuration(self):
        self.run_alone("limit", request(cores="20"), configs=[config(limit=True, priority="low", swappable=True)])
        self.wait_ready("limit")
        tenant = self.tenant("limit", "main")
        self.assertEqual(tenant["compute"]["policy"], "cap")
        told(f"opaque configuration: {tenant['compute']}, {tenant.get('swap')}")

    def indices(self, pod):
        """Of the GPUs that its container has."""
        by_uuid = {d["attributes"]["uuid"]["string"]: d["attributes"]["index"]["int"]
                   for d in self.node.slice()["spec"]["devices"]}
        return sorted(by_uuid[d["uuid"]] for d in self.policy(pod))

    def two_of(self, *indices):
        """A request for two GPUs, of these."""
        asked = request()
        asked["exactly"] |= {"count": 2, "selectors": [
            {"cel": {"expression": f'device.attributes["{DRIVER}"].index in {[*indices]}'}}]}
        return asked

    def test_two_gpus(self):
        """Those of one request are different ones; those of two are, as long as the claim says so."""
        self.run_alone("one", self.two_of(0, 3))
        self.run_alone("none", self.two_of(0))
        requests, containers = [request(name, gpu=0) for name in "ab"], {
            name: [{"name": "both", "request": name}] for name in "ab"}
        self.claim("both", *requests)
        self.run_with("both", "both", containers=containers, command=["/bin/sleep", "infinity"])
        self.run_alone("apart", *requests, constraints=[{"distinctAttribute": f"{DRIVER}/uuid"}])
        self.wait_ready("one", "both")
        self.assertEqual(self.indices("one"), [0, 3])
        for name in ("none", "apart"):
            wait(lambda name=name: self.unscheduled(name), SECONDS, lambda name=name: self.what_of(name))

    def test_island(self):
        """Two GPUs with NVLinks between them: here 0 and 1, 2 and 3, 4 and 5, 6 and 7."""
        linked = [{"matchAttribute": f"{DRIVER}/nvlinkIsland"}]
        self.run_alone("one", self.two_of(0, 2, 4, 5, 7), constraints=linked)
        self.run_alone("none", self.two_of(0, 2, 4, 7), constraints=linked)
        self.wait_ready("one")
        self.assertEqual(self.indices("one"), [4, 5])
        told(f"no two of the others: {wait(lambda: self.unscheduled('none'), SECONDS, 'it does not wait')}")

    # --- Errors

    def check_refused(self, name, words):
        wait(lambda: words in self.what_of(name), SECONDS, lambda: self.what_of(name))
        self.assertFalse(self.is_running(name))

    def test_bad_configuration(self):
        """That claim's error alone."""
        self.run_alone("bad", configs=[config(limit="much")])
        self.run_alone("high", configs=[config(priority="high")])
        self.run_alone("good")
        self.wait_ready("good")
        self.check_refused("bad", "limit")
        self.check_refused("high", "priority-max")
        told("\n".join(line for line in self.what_of("bad").splitlines()[1:] if "limit" in line)[:600])

    def test_bad_capacity(self):
        """More than a GPU has waits, and says so. Less than the unit is rounded up to it."""
        self.run_alone("large", request(memory=f"{GPU_GIB + 1}Gi"))
        self.run_alone("tiny", request(memory="1", cores="1"), command=["/bin/sleep", "infinity"])
        self.wait_ready("tiny")
        self.assertEqual(self.policy("tiny")[0]["limit_bytes"], 1 << 20)
        told(f"more than a GPU has: {wait(lambda: self.unscheduled('large'), SECONDS, 'it does not wait')}")

    def test_hanging_api_server(self):
        """The claim fails within the kubelet's time, others run on, and it runs when there is an answer."""
        proxy = self.through_proxy(self.node)
        self.run_alone("before")
        self.wait_ready("before")
        proxy.hang()
        start = time.monotonic()
        self.run_alone("during")
        wait(lambda: "does not answer" in self.what_of("during"), SECONDS, lambda: self.what_of("during"))
        told(f"the claim's error is there after {time.monotonic() - start:.1f} s")
        self.kill_container(self.node, "before", "main")
        wait(lambda: self.status("before")["main"]["restartCount"] == 1 and self.status("before")["main"]["ready"],
             SECONDS, lambda: self.what_of("before"))
        proxy.go_on()
        self.wait_ready("during")

    def test_deleted_claim(self):
        """It is gone by force between its allocation and its preparation."""
        proxy = self.through_proxy(self.node)
        proxy.hang()
        self.run_alone("gone")
        self.run_alone("stays")
        wait(lambda: self.in_flight(self.node, "gone"), SECONDS, lambda: self.what_of("gone"))
        self.cluster.api.call("DELETE", f"{CLAIMS}/gone")
        self.cluster.api.call("PATCH", f"{CLAIMS}/gone", {"metadata": {"finalizers": None}})
        proxy.go_on()
        self.check_refused("gone", "there is no such claim any more")
        self.wait_ready("stays")

    def test_wrong_uid(self):
        """Another claim has the name by the time of the preparation: it is none of the Pod's."""
        proxy = self.through_proxy(self.node)
        proxy.hang()
        self.run_alone("again")
        wait(lambda: self.in_flight(self.node, "again"), SECONDS, lambda: self.what_of("again"))
        self.cluster.api.call("DELETE", f"{CLAIMS}/again")
        self.cluster.api.call("PATCH", f"{CLAIMS}/again", {"metadata": {"finalizers": None}})
        self.claim("again")
        proxy.go_on()
        self.check_refused("again", "has uid ")

    def in_flight(self, node, claim):
        """The kubelet has asked for it, to be prepared or undone, and has no answer."""
        uid = self.cluster.api.call("GET", f"{CLAIMS}/{claim}")["metadata"]["uid"]
        lines = [line for line in node.programs.log("kubelet").splitlines()
                 if re.search(r'"(Calling|Done calling) Node\w+ rpc', line) and uid in line]
        return bool(lines) and '"Calling' in lines[-1]

    # --- Restarts

    def test_kubelet_restarts(self):
        """No Pod is restarted, no descriptor stays open, and the next Pod runs."""
        for name in ("a", "b"):
            self.run_alone(name, request(memory="2Gi"))
        self.wait_ready("a", "b")
        before, tenants, descriptors = self.containers(), self.all_tenants(), {}
        times, slices = [], []
        for _ in range(RESTARTS):
            for node in self.nodes:
                n = node.programs.log("allotd").count(REGISTERED)
                self.begin_kubelet_anew(node)
                start = time.monotonic()
                wait(lambda node=node, n=n: node.programs.log("allotd").count(REGISTERED) > n, SECONDS,
                     lambda node=node: node.programs.log("allotd"))
                times.append(time.monotonic() - start)
                time.sleep(0.2)  # the kubelet deletes the slices of its node at its start
                wait(node.slice, SECONDS, lambda node=node: node.programs.log("allotd"))
                slices.append(time.monotonic() - start)
                descriptors.setdefault(node.name, []).append(self.open_files_of(node))
        told(f"registered at most {max(times):.2f} s after the kubelet made its sockets, slices there after "
             f"{statistics.median(slices):.1f} s, at most {max(slices):.1f}; descriptors {descriptors}")
        for counts in descriptors.values():
            self.assertLessEqual(counts[-1], max(counts[:3]))
        self.assertEqual(self.containers(), before)
        self.assertEqual(self.all_tenants(), tenants)
        self.run_alone("next", request(memory="3Gi"))
        self.wait_ready("next")
        self.assertEqual(self.quota_said("next", "main"), 3 << 10)
        self.assertTrue(all(node.slice() for node in self.nodes))

    def test_allotd_is_killed(self):
        """All run on as they were; what is made meanwhile runs afterwards, and what goes meanwhile is gone."""
        for i in range(20):
            self.run_alone(f"many-{i}", request(memory=f"{i + 1}Gi", cores="2"), nodeSelector={})
        self.wait_ready(*(f"many-{i}" for i in range(20)))
        before, tenants = self.containers(), self.all_tenants()
        self.assertEqual(len(tenants), 20)
        for node in self.nodes:
            node.programs.stop("allotd", signal.SIGKILL)
        self.assertEqual(self.all_tenants(), tenants)
        self.cluster.delete("many-1")
        self.run_alone("meanwhile", request(memory="30Gi"))
        time.sleep(3)
        self.assertFalse(self.is_running("meanwhile"))
        for node in self.nodes:
            node.start_allotd()
        self.wait_ready("meanwhile")
        wait(lambda: not self.cluster.pod("many-1"), SECONDS, "the Pod stays")
        for gone in (before, tenants):
            del gone["default/many-1/main"]

        def now(what):
            return {w: x for w, x in what.items() if "meanwhile" not in w}
        wait(lambda: now(self.all_tenants()) == tenants, SECONDS, lambda: f"{self.all_tenants()}, not {tenants}")
        self.assertEqual(now(self.containers()), before)

    def test_reboot(self):
        """Containers come back with what they had, and not before allotd is there."""
        for name, quota in (("a", "2Gi"), ("b", "3Gi")):
            self.run_alone(name, request(memory=quota))
        self.wait_ready("a", "b")
        before = {w: q for w, (_, q) in self.all_tenants().items()}
        self.node.crash()
        self.node.start_containerd()
        self.node.start_kubelet()
        wait(lambda: "FailedPrepareDynamicResources" in self.node.programs.log("kubelet"), SECONDS,
             lambda: self.what_of("a"))
        self.assertEqual(self.node.tenants(), {})
        self.node.start_allotd()
        wait(lambda: {w: q for w, (_, q) in self.all_tenants().items()} == before, 2 * SECONDS,
             lambda: self.what_of("a"))
        self.wait_ready("a", "b")

    def kill_main(self, name):
        """Its container's first process, by the runtime."""
        ident = self.status(name)["main"]["containerID"].split("//")[1]
        self.node.run("ctr", "-n", "k8s.io", "tasks", "kill", "--signal", "SIGKILL", ident)

    def test_quota_is_lost(self):
        """The tenant's files go, the container is killed: it starts with the same quota."""
        self.run_alone("lost", request(memory="6Gi"))
        self.wait_ready("lost")
        self.node.run("rm", "-r", f"/run/allot/{self.tenant('lost', 'main')['name']}")
        self.kill_main("lost")
        self.assertEqual(self.quota_said("lost", "main", 1), 6 << 10)
        wait(lambda: {w: q for w, (_, q) in self.all_tenants().items()} == {"default/lost/main": 6}, SECONDS,
             lambda: f"{self.all_tenants()}")

    def test_grant_is_lost(self):
        """The CDI file goes, the container is killed: it does not start. A Pod of the same claim later does."""
        self.run_alone("lost", request(memory="6Gi"))
        self.wait_ready("lost")
        for path in self.node.grants().values():
            self.node.run("rm", path)
        self.kill_main("lost")
        wait(lambda: "waiting" in self.status("lost")["main"]["state"] and "CDI" in self.what_of("lost"), SECONDS,
             lambda: self.what_of("lost"))
        time.sleep(3)
        self.assertIsNone(self.node.log_of(self.cluster.pod("lost"), "main", 1))
        told(self.what_of("lost").splitlines()[-1][:300])
        self.cluster.delete("lost")
        wait(lambda: not self.cluster.pod("lost"), SECONDS, "the Pod stays")
        self.run_with("lost", "lost")
        self.wait_ready("lost")
        self.assertEqual(self.quota_said("lost", "main"), 6 << 10)

    def test_set_and_suspend(self):
        """By the node's command, as any tenant."""
        self.run_alone("set", request(memory="6Gi"), configs=[config(swappable=True)], command=[*HOLD, "--no-arrays"])
        self.wait_ready("set")
        name = self.tenant("set", "main")["name"]
        self.node.run(self.cluster.allot, "set", name, "--memory", "9GiB", env=self.node.sim)
        self.assertEqual(self.policy("set")[0]["limit_bytes"], 9 << 30)

        def used():
            return self.tenant("set", "main")["devices"][0]["used_bytes"]
        before = used()
        self.node.run(self.cluster.allot, "suspend", name, env=self.node.sim)
        wait(lambda: used() < before // 4, SECONDS, lambda: f"{used()} of {before} bytes are on the device")
        self.node.run(self.cluster.allot, "resume", name, env=self.node.sim)
        wait(lambda: used() == before, SECONDS, lambda: f"{used()} of {before} bytes are on the device")
        self.assertTrue(self.is_running("set"))
        self.kill_main("set")
        wait(lambda: self.status("set")["main"]["restartCount"] == 1 and self.status("set")["main"]["ready"],
             SECONDS, lambda: self.what_of("set"))
        self.assertEqual(self.quota_said("set", "main", 1), 9 << 10)

    def begin_prepare(self, name):
        """A Pod whose claim is being prepared, for as long as the API server does not answer allotd."""
        proxy = self.through_proxy(self.node)
        proxy.hang()
        self.run_alone(name, request(memory="7Gi"))
        wait(lambda: self.in_flight(self.node, name), SECONDS, lambda: self.what_of(name))
        return proxy

    def restart_kubelet(self, how=signal.SIGKILL):
        self.node.programs.stop("kubelet", how)
        self.node.start_kubelet()

    def check_one(self, name, gib):
        self.wait_ready(name)
        self.assertEqual({w: q for w, (_, q) in self.all_tenants().items()}, {f"default/{name}/main": gib})
        self.assertEqual(len(self.node.grants()), 1)

    def test_prepare_and_the_kubelet_dies(self):
        proxy = self.begin_prepare("flight")
        self.restart_kubelet()
        proxy.go_on()
        self.check_one("flight", 7)

    def test_prepare_and_allotd_dies(self):
        proxy = self.begin_prepare("flight")
        proxy.go_on()
        self.restart_allotd(self.node, signal.SIGKILL)
        self.check_one("flight", 7)

    def begin_unprepare(self, name):
        """The Pod goes, and allotd does not answer."""
        self.run_alone(name)
        self.wait_ready(name)
        allotd = self.allotd_of(self.node)
        os.kill(allotd, signal.SIGSTOP)
        self.addCleanup(self.continue_if_it_lives, allotd)
        self.cluster.delete(name)
        wait(lambda: self.in_flight(self.node, name), SECONDS, lambda: self.what_of(name))

    @staticmethod
    def continue_if_it_lives(pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)

    def check_none(self, name):
        wait(lambda: not self.cluster.pod(name), SECONDS, "the Pod stays")
        wait(lambda: not self.node.grants() and not self.node.tenants(), SECONDS, "the grant stays")

    def test_unprepare_and_the_kubelet_dies(self):
        self.begin_unprepare("flight")
        self.restart_kubelet()
        os.kill(self.allotd_of(self.node), signal.SIGCONT)
        self.check_none("flight")

    def test_unprepare_and_allotd_dies(self):
        self.begin_unprepare("flight")
        self.restart_allotd(self.node, signal.SIGKILL)
        self.check_none("flight")

    # --- Another driver of the Pod

    OTHER = "other.allot.dev"

    def start_other(self):
        """One more allotd on the node, as a driver of its own with files of its own."""
        node, account = self.node, self.node.top / "other"
        cluster.write(account / "token", cluster.TOKEN)
        shutil.copy(self.cluster.top / "certs/apiserver.crt", account / "ca.crt")
        conf = cluster.CONF.format(way="dra", name=node.name, api=cluster.API, account=account,
                                   more=f"driver = {self.OTHER}\ncdi = /etc/cdi\n")
        node.start("other", self.cluster.allotd, "--foreground", "--config", cluster.write(node.top / "other.conf", conf),
                   "--listen", f"{node.address}:9479", env={**node.sim, "ALLOT_RUNTIME_DIR": "/run/other"})
        wait(lambda: node.programs.log("other").count(f"has registered driver {self.OTHER}"), SECONDS,
             lambda: node.programs.log("other"))

    def stop_other(self):
        self.node.programs.stop("other")
        (self.node.top / "other.log").unlink()

    def has_slice_of_other(self):
        return any(s["spec"]["driver"] == self.OTHER for s in self.cluster.api.call("GET", SLICES)["items"])

    def grants_of_other(self):
        return self.node.run("sh", "-c", "ls /etc/cdi").split()

    def run_of_both(self, name):
        """A Pod with a container of each driver, which takes a GPU that the other has given out for a sick one."""
        theirs = request(gpu=7)
        theirs["exactly"]["deviceClassName"] = "other"
        self.claim(f"{name}-mine", request(gpu=0))
        self.claim(f"{name}-theirs", theirs)
        claims = [f"{name}-mine", f"{name}-theirs"]
        self.run_with(name, *claims, containers={c: [{"name": claim}] for c, claim in zip("ab", claims)})

    def test_two_drivers(self):
        """A Pod of both waits for either, runs when it is there, and ends when both have undone what is theirs."""
        self.cluster.api.call("POST", f"{RESOURCE_API}/deviceclasses", {
            "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "other"},
            "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{self.OTHER}"'}}]}})
        self.addCleanup(self.cluster.api.call, "DELETE", f"{RESOURCE_API}/deviceclasses/other")
        self.start_other()
        self.addCleanup(lambda: "other" in self.node.programs.running and self.stop_other())
        wait(self.has_slice_of_other, SECONDS, lambda: self.node.programs.log("other"))
        self.run_of_both("both")
        self.wait_ready("both")
        self.assertEqual((len(self.node.grants()), len(self.grants_of_other())), (1, 1))
        self.assertEqual({*self.all_tenants()}, {"default/both/a", "default/both/b"})
        self.stop_other()
        self.run_of_both("waits")
        wait(lambda: "FailedPrepareDynamicResources" in self.node.programs.log("kubelet") and
             self.OTHER in self.what_of("waits"), SECONDS, lambda: self.what_of("waits"))
        self.assertFalse(self.is_running("waits"))
        self.cluster.delete("both")
        wait(lambda: not [w for w in self.all_tenants() if "both" in w], SECONDS, "its tenants stay")
        self.assertTrue(self.cluster.pod("both"))
        self.start_other()
        self.wait_ready("waits")
        wait(lambda: not self.cluster.pod("both"), SECONDS, "the Pod stays")
        self.cluster.delete("waits")
        wait(lambda: not self.cluster.pod("waits"), SECONDS, "the Pod stays")
        wait(lambda: not self.node.grants() and not self.grants_of_other(), SECONDS, self.grants_of_other)

    # --- Devices and ends

    def device(self, index):
        return next(d for d in self.node.slice()["spec"]["devices"] if d["attributes"]["index"]["int"] == index)

    def health(self, name):
        """[(resource, health, message)] of its container, as the Pod's status has it."""
        said = self.status(name)["main"].get("allocatedResourcesStatus", [])
        return [(s["name"], r["health"], r.get("message", "")) for s in said for r in s["resources"]]

    def test_sick_device(self):
        """It is tainted, what runs there says so in its Pod's status, and nothing new comes there."""
        self.run_alone("here", request(gpu=2))
        self.wait_ready("here")
        wait(lambda: [h for _, h, _ in self.health("here")] == ["Healthy"], SECONDS, lambda: self.what_of("here"))
        start = time.monotonic()
        self.node.lose(2)
        self.addCleanup(self.node.lose, 2, False)
        wait(lambda: self.device(2).get("taints"), SECONDS, "it is not tainted")
        told(f"a sick device is tainted after {time.monotonic() - start:.1f} s: {self.device(2)['taints']}")
        wait(lambda: [h for _, h, _ in self.health("here")] == ["Unhealthy"], SECONDS,
             lambda: self.what_of("here"))
        told(f"the Pod's status has it after {time.monotonic() - start:.1f} s: {self.health('here')}")
        self.run_alone("next", request(gpu=2))
        told(f"the next one waits: {wait(lambda: self.unscheduled('next'), SECONDS, 'it does not wait')}")
        start = time.monotonic()
        self.node.lose(2, False)
        self.wait_ready("next")
        told(f"it is ready {time.monotonic() - start:.1f} s after the device is well")
        wait(lambda: [h for _, h, _ in self.health("here")] == ["Healthy"], SECONDS, lambda: self.what_of("here"))
        told(f"the Pod's status has that after {time.monotonic() - start:.1f} s")
        self.assertTrue(self.is_running("here"))

    def test_deletion(self):
        self.run_alone("gone")
        self.wait_ready("gone")
        start = time.monotonic()
        self.cluster.delete("gone")
        wait(lambda: not self.node.tenants(), SECONDS, "the tenant stays")
        told(f"the tenant is gone {time.monotonic() - start:.1f} s after the Pod's deletion was asked for")
        self.check_none("gone")
        self.assertEqual(self.node.run("find", "/run/allot", "-mindepth", "1", "-name", "default.gone*"), "")


if __name__ == "__main__":
    cluster.main(unittest.main)
