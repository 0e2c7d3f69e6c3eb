# SPDX-License-Identifier: Apache-2.0
"""What tests of Pods on a cluster share: what Pods and nodes say, and that nothing is left of a test."""

import pathlib
import re
import sys
import unittest

from cluster import wait

HOLD = ["/bin/fill", "--hold"]
SECONDS = 60


def told(what):
    """Figures, which decide nothing."""
    print(what, file=sys.stderr, flush=True)


class Case(unittest.TestCase):
    """`cluster` and `nodes` are those of the class."""

    cluster, nodes = None, ()

    def tearDown(self):
        for pod in self.cluster.api.call("GET", self.cluster.PODS)["items"]:
            # These kubelets take a minute to say that all of a Pod is gone.
            self.cluster.delete(pod["metadata"]["name"], "?gracePeriodSeconds=0")
        wait(lambda: not self.cluster.api.call("GET", self.cluster.PODS)["items"], SECONDS, "Pods stay")
        # By the list of a kubelet that has just started no grant goes.
        wait(lambda: not any(n.tenants() or n.grants() for n in self.nodes), 2 * SECONDS, "tenants stay")

    # --- Helpers

    def status(self, name):
        """Of its containers: {name: status}."""
        pod = self.cluster.pod(name)
        return {s["name"]: s for s in pod["status"].get("containerStatuses", [])}

    def what_of(self, name):
        pod = self.cluster.pod(name)
        events = self.cluster.api.call("GET", "/api/v1/namespaces/default/events")["items"]
        return "\n".join([str(pod and pod["status"]), *(
            e["message"] for e in events if e["involvedObject"]["name"] == name)])

    def wait_ready(self, *names):
        for name in names:
            wait(lambda n=name: self.status(n) and all(s["ready"] for s in self.status(n).values()), SECONDS,
                 lambda n=name: self.what_of(n))

    def quota_said(self, name, container, start=0):
        """MiB, by the container's first process."""
        pod = self.cluster.pod(name)
        node = self.cluster.node_of(pod)

        def said():
            log = node.log_of(pod, container, start)
            return log and re.search(r"the device says it has (\d+) MiB", log)
        return int(wait(said, SECONDS, lambda: node.log_of(pod, container, start))[1])

    def tenant(self, name, container):
        return self.cluster.node_of(self.cluster.pod(name)).tenants()[f"default/{name}/{container}"]

    def containers(self):
        """What runs of each: {namespace/pod/container: (id, restarts)}."""
        return {f"default/{pod['metadata']['name']}/{s['name']}": (s.get("containerID"), s["restartCount"])
                for pod in self.cluster.api.call("GET", self.cluster.PODS)["items"]
                for s in pod["status"].get("containerStatuses", [])}

    def all_tenants(self):
        """{namespace/pod/container: (tenant's name, its quota in GiB)}, of both nodes."""
        return {words: (t["name"], t["policy"][0]["limit_bytes"] >> 30)
                for node in self.nodes for words, t in node.tenants().items()}

    def kill_container(self, node, name, container):
        """Its first process; the kubelet starts it again."""
        tenant = node.tenants()[f"default/{name}/{container}"]
        node.run("kill", "-9", str(tenant["processes"][0]["host_pid"]))

    @staticmethod
    def allotd_of(node):
        """nsenter becomes it."""
        return node.programs.running["allotd"].pid

    def open_files_of(self, node):
        return len(list(pathlib.Path(f"/proc/{self.allotd_of(node)}/fd").iterdir()))

    @staticmethod
    def begin_kubelet_anew(node):
        """Returns when it has made its sockets."""
        node.programs.stop("kubelet")
        sockets = node.top / "private/var/lib/kubelet/device-plugins/kubelet.sock"
        sockets.unlink(missing_ok=True)
        node.start_kubelet()
        wait(sockets.exists, SECONDS, "the kubelet does not start")
