# SPDX-License-Identifier: Apache-2.0
"""The DaemonSet of deploy/kubernetes, overlay dra, by the image that `make image` builds."""

import json
import os
import re
import time
import unittest

import cluster
from case import HOLD, SECONDS, Case, told
from cluster import BUILD, GPU_GIB, HAS_DRA, SOURCE, SPACE, VERSION, wait, write

ARCHIVE = BUILD / "allot-image.tar"
CONF = """[kubernetes]
ways = dra
nvidia-cdi = none
"""
PODS = f"/api/v1/namespaces/{SPACE}/pods"


def missing():
    if not HAS_DRA:
        return "Kubernetes {}.{} has no resource.k8s.io/v1, 1.34 does".format(*VERSION)
    return None if ARCHIVE.exists() else f"there is no {ARCHIVE}: make image"


class DaemonSet(Case):
    @classmethod
    def setUpClass(cls):
        if missing():
            raise unittest.SkipTest(missing())
        cls.cluster = cluster.Cluster(1, "daemonset", ARCHIVE)
        cls.nodes = cls.cluster.nodes
        cls.node = cls.nodes[0]
        cls.install()

    @staticmethod
    def lines_of_page(source):
        """The page's kustomization.yaml, for a source at that place."""
        page = (SOURCE / "docs/kubernetes.md").read_text(encoding="utf-8")
        lines = re.findall(r"^ {7}((?:resources|images): .*\n)", page, re.M)
        assert len(lines) == 2, lines
        return "".join(lines).replace("../allot/", f"{source}/").replace("VERSION", "0.1.0")

    @classmethod
    def install(cls):
        """As docs/kubernetes.md says, step by step. Beyond that devices are simulated."""
        folder, node = cls.cluster.top / "own", cls.node
        write(folder / "allotd.conf", CONF)
        env = {**node.sim, "ALLOT_SIM_DIR": "/devices"}
        add = [{"op": "add", "path": "/spec/template/spec/containers/0/env/-",
                 "value": {"name": name, "value": value}} for name, value in env.items()]
        for name, on_node, inside in (("sim", cls.cluster.sim, cls.cluster.sim),
                                      ("devices", "/run/devices", "/devices")):
            add += [{"op": "add", "path": "/spec/template/spec/volumes/-",
                     "value": {"name": name, "hostPath": {"path": str(on_node)}}},
                    {"op": "add", "path": "/spec/template/spec/containers/0/volumeMounts/-",
                     "value": {"name": name, "mountPath": str(inside)}}]
        write(folder / "patch.yaml", add)
        more = {"configMapGenerator": [{"name": "allotd", "namespace": SPACE, "behavior": "replace",
                                        "files": ["allotd.conf"]}],
                "patches": [{"target": {"kind": "DaemonSet", "name": "allotd"}, "path": "patch.yaml"}]}
        write(folder / "kustomization.yaml", cls.lines_of_page(os.path.relpath(SOURCE, folder)) + "".join(
            f"{key}: {json.dumps(value)}\n" for key, value in more.items()))
        cls.cluster.apply(folder)
        # An API server of OpenShift mounts this beside each token, and waits for it. Others do not look at it.
        cls.cluster.kubectl("-n", SPACE, "create", "configmap", "openshift-service-ca.crt",
                            "--from-literal=service-ca.crt=")
        cls.cluster.kubectl("label", "node", node.name, "allot.dev/gpu=shared")

    def tearDown(self):
        super().tearDown()
        self.cluster.kubectl("delete", "resourceclaims", "--all")

    def said(self):
        """Of allotd's Pods and what they logged."""
        pods = self.cluster.api.call("GET", PODS)["items"]
        return [p["status"] for p in pods], self.cluster.kubectl(
            "-n", SPACE, "get", "events"), self.cluster.kubectl(
            "-n", SPACE, "logs", "ds/allotd") if pods else ""

    def run_share(self, name, memory):
        self.cluster.api.call("POST", f"{cluster.RESOURCE_API}/namespaces/default/resourceclaims", {
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name},
            "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {
                "deviceClassName": "allot", "capacity": {"requests": {"memory": memory, "cores": "10"}}}}]}}})
        self.cluster.create(name, {"main": ({}, HOLD, [{"name": "gpu"}])}, automountServiceAccountToken=False,
                            hostNetwork=False, resourceClaims=[{"name": "gpu", "resourceClaimName": name}])

    def test_it_runs(self):
        """From an empty node to `allot ps`, and over an upgrade, which restarts no Pod."""
        start = time.monotonic()
        wait(self.node.slice, SECONDS, self.said)
        told(f"slices are there {time.monotonic() - start:.1f} s after the label")
        self.run_share("one", "3Gi")
        self.cluster.create("quarter", {"main": ({"allot.dev/quarter": 1}, HOLD)},
                            automountServiceAccountToken=False)
        self.wait_ready("one", "quarter")
        pods = [self.cluster.pod("one"), *self.cluster.api.call("GET", PODS)["items"]]
        for pod in pods:  # each has an address of the network's, and none of the node's
            self.assertRegex(pod["status"]["podIP"], r"^10\.88\.1\.")
        self.assertEqual(self.quota_said("one", "main"), 3 << 10)
        self.assertEqual(self.quota_said("quarter", "main"), GPU_GIB << 8)
        words = self.cluster.kubectl("-n", SPACE, "exec", "ds/allotd", "--", "allot", "ps")
        self.assertIn("default/one/main", words)
        told(words)
        told(f"the Pod is named by allot ps {time.monotonic() - start:.1f} s after the label")
        [on_node] = self.node.run("sh", "-c", "ls /var/lib/allot/*/bin/allot").split()
        self.assertIn("default/one/main", self.node.run(on_node, "ps", env=self.node.sim))
        before = self.containers()
        self.cluster.kubectl("-n", SPACE, "rollout", "restart", "ds/allotd")
        told(self.cluster.kubectl("-n", SPACE, "rollout", "status", "ds/allotd", "--timeout=60s"))
        self.run_share("next", "4Gi")
        self.wait_ready("next")
        self.assertEqual({w: x for w, x in self.containers().items() if "next" not in w}, before)
        told(self.cluster.kubectl("-n", SPACE, "logs", "ds/allotd"))


if __name__ == "__main__":
    cluster.main(unittest.main)
