# SPDX-License-Identifier: Apache-2.0
"""Pods on a node whose runtime knows no CDI files: their limits come by mounts (`delivery = mounts`)."""

import os
import pathlib
import re
import signal
import time
import unittest

import cluster
from case import HOLD, SECONDS, Case, told
from cluster import CORES, MEMORY, PARTS, SLOTS, must, wait

# Where the cluster's own containerd knows CDI, an older one beside it is taken.
os.environ["PATH"] = f"{PARTS}/old/usr/bin:{os.environ['PATH']}"
XPU = "/etc/xpu"


class Mounts(Case):
    @classmethod
    def setUpClass(cls):
        told(must("containerd", "--version").strip())
        cls.cluster = cluster.Cluster(1, more="delivery = mounts\n")
        cls.nodes = cls.cluster.nodes
        cls.node = cls.nodes[0]

    # --- Helpers

    def run_pod(self, name, gib, *command, cores=None, env=None, **spec):
        """Of one container, with so much of a GPU; it holds what it gets if no command is named."""
        limits = {SLOTS: 1, MEMORY: gib, **({CORES: cores} if cores else {})}
        self.cluster.create(name, {"main": (limits, [*command] or HOLD)}, env=env, **spec)
        self.wait_ready(name)

    def what_of(self, name):
        """With what its containers wrote."""
        pod = self.cluster.pod(name)
        logs = (self.node.top / "private/var/log/pods").glob(f"default_{name}_{pod['metadata']['uid']}/*/*.log")
        return "\n".join([super().what_of(name), *(f"{path}: {path.read_text(encoding='utf-8')}" for path in logs)])

    def check_quota(self, name, gib, start=0):
        self.assertEqual(self.quota_said(name, "main", start), gib << 10)

    def log(self, name):
        return self.node.log_of(self.cluster.pod(name), "main") or ""

    def kill(self, name):
        """The container's first process, by the runtime."""
        self.node.run("ctr", "-n", "k8s.io", "tasks", "kill", "--signal", "SIGKILL", self.container_of(name))

    def container_of(self, name):
        return self.status(name)["main"]["containerID"].split("//")[1]

    def wait_started(self, name, starts):
        """Again, so often."""
        def started():
            status = self.status(name)["main"]
            return status["restartCount"] == starts and status["ready"]
        wait(started, SECONDS, lambda: self.what_of(name))


    def folders(self):
        return self.node.run("sh", "-c", f"ls -d {XPU}/slot-* 2>/dev/null || :").split()

    def tearDown(self):
        if "allotd" not in self.node.programs.running:
            self.node.start_allotd()
        super().tearDown()
        wait(lambda: not self.folders(), SECONDS, "folders of vgpu.config stay")

    # --- Tests

    def test_quota(self):
        """It is in force in the first process; the runtime was given no CDI name."""
        start = time.monotonic()
        self.run_pod("one", 3, cores=25)
        told(f"a Pod is ready after {time.monotonic() - start:.2f} s")
        self.check_quota("one", 3)
        [folder] = self.folders()
        self.assertEqual(self.node.run("cat", f"{folder}/vgpu.config"), "UsedMem:3072\nUsedCores:25\n")
        spec = self.node.run("ctr", "-n", "k8s.io", "containers", "info",
                             self.container_of("one"))
        self.assertIn(f'"destination": "{XPU}"', spec)
        self.assertNotIn("cdi hook", spec)

    def test_many(self):
        """At once: each container has its own."""
        wanted = {f"many-{i}": {"a": 2 * i + 1, "b": 2 * i + 2} for i in range(10)}
        for name, quotas in wanted.items():
            self.cluster.create(name, {c: ({SLOTS: 1, MEMORY: q}, HOLD) for c, q in quotas.items()})
        self.wait_ready(*wanted)
        for name, quotas in wanted.items():
            self.assertEqual({c: self.quota_said(name, c) for c in quotas},
                             {c: q << 10 for c, q in quotas.items()})

    def test_files_are_lost(self):
        """The container starts with what it had; while allotd is away, not at all."""
        self.run_pod("lost", 4)
        self.node.run("sh", "-c", f"rm -rf {XPU}/*")
        self.kill("lost")
        self.wait_started("lost", 1)
        self.check_quota("lost", 4, 1)
        self.node.programs.stop("allotd", signal.SIGKILL)
        self.node.run("sh", "-c", f"rm -rf {XPU}/*")
        self.kill("lost")
        wait(lambda: "waiting" in self.status("lost")["main"]["state"], SECONDS, "it is not refused")
        time.sleep(3)
        self.assertIsNone(self.node.log_of(self.cluster.pod("lost"), "main", 2))
        self.node.start_allotd()
        self.wait_ready("lost")
        starts = self.status("lost")["main"]["restartCount"]
        self.check_quota("lost", 4, starts)

    def test_variables_raise_nothing(self):
        """Those of the Pod's user, all at once."""
        self.run_pod("more", 2, cores=30, env={
            "CUDA_DEVICE_MEMORY_LIMIT": "300g", "CUDA_DEVICE_MEMORY_LIMIT_0": "300g", "CUDA_DEVICE_SM_LIMIT": "100",
            "CUDA_DISABLE_CONTROL": "true", "CUDA_DEVICE_MEMORY_SHARED_CACHE": "/tmp/own", "LD_PRELOAD": "",
            "ALLOT_RUNTIME_DIR": "/tmp", "XDG_RUNTIME_DIR": "/tmp"})
        self.check_quota("more", 2)

    def test_files_stay(self):
        """Whoever is root in the container neither writes nor removes what limits it, nor starts a program without it."""
        words = ("for f in /etc/xpu/vgpu.config /etc/ld.so.preload /opt/allot/liballot.so; do "
                 "(: >$f) 2>/dev/null && echo written $f; done; "
                 "env -i LD_LIBRARY_PATH=$LD_LIBRARY_PATH ALLOT_SIM_DIR=$ALLOT_SIM_DIR ALLOT_SIM_GPUS=$ALLOT_SIM_GPUS "
                 "ALLOT_SIM_MEMORY=$ALLOT_SIM_MEMORY ALLOT_SIM_CONTEXT=$ALLOT_SIM_CONTEXT /bin/fill --hold")
        self.run_pod("root", 2, "/bin/sh", "-c", words)
        self.check_quota("root", 2)
        self.assertNotIn("written", self.log("root"))

    def test_folder_of_its_own(self):
        """A volume in the place of the limits brings none: the GPU is closed until the user writes limits there."""
        folder = {"name": "own", "emptyDir": {}}
        pod = self.cluster.api.call("POST", self.cluster.PODS, self.with_volume("own", folder, XPU))
        name = pod["metadata"]["name"]
        wait(lambda: self.log(name), SECONDS, lambda: self.what_of(name))
        time.sleep(2)
        self.assertIsNone(re.search(r"the device says it has", self.log(name)), self.log(name))
        told(self.log(name))

    def with_volume(self, name, volume, path):
        container = self.cluster.container("main", {SLOTS: 1, MEMORY: 2}, HOLD)
        container["volumeMounts"].append({"name": volume["name"], "mountPath": path})
        volumes = [{"name": "sim", "hostPath": {"path": str(self.cluster.sim)}},
                   {"name": "devices", "hostPath": {"path": "/run/devices"}}, volume]
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
                "spec": {"hostNetwork": True, "terminationGracePeriodSeconds": 1, "restartPolicy": "Never",
                         "enableServiceLinks": False, "volumes": volumes, "containers": [container]}}

    def test_upgrade(self):
        """A container that runs keeps its library; its next start has allotd's."""
        self.run_pod("old", 2)
        library = pathlib.Path(self.cluster.top / "src/guest/liballot.so")
        bytes_before = library.read_bytes()
        self.addCleanup(self.put_library, library, bytes_before)
        self.put_library(library, bytes_before + b"\0" * 16)  # another version, of another content
        self.node.programs.stop("allotd")
        self.node.start_allotd()
        wait(lambda: self.node.allocatable()[SLOTS], SECONDS, lambda: self.node.programs.log("allotd"))
        self.assertEqual(self.status("old")["main"]["restartCount"], 0)
        self.kill("old")
        self.wait_started("old", 1)
        self.check_quota("old", 2, 1)
        self.assertEqual(self.node.run("sh", "-c", f"wc -c <{XPU}/liballot.so").strip(),
                         str(len(bytes_before) + 16))

    @staticmethod
    def put_library(path, what):
        path.unlink()
        path.write_bytes(what)


if __name__ == "__main__":
    cluster.main(unittest.main)
