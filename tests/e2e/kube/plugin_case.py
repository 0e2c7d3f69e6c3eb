# SPDX-License-Identifier: Apache-2.0
"""The device plugin on a node of its own, for the tests of it; exits 77 where Python has no gRPC."""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

from grpcio import grpc

if not shutil.which("protoc"):
    print("protoc is not installed")
    sys.exit(77)

from kubelet import SECONDS, Kubelet  # noqa: E402

BUILD = pathlib.Path(os.environ["ALLOT_BUILD"])
SLOTS, MEMORY, CORES = ("huawei.com/vgpu-number", "huawei.com/vgpu-memory.1Gi",
                        "huawei.com/vgpu-cores")
RESOURCES = (SLOTS, MEMORY, CORES)
GPUS = 4
GIB = 1 << 30
GPU_GIB = 80


def uuid(gpu):
    return f"GPU-11111111-1111-1111-1111-1111111111{gpu:02x}"


def slot(gpu, n, of=10):
    return f"{uuid(gpu).lower()}.{n}of{of}"


def gpu_of(slot_id):
    return int(slot_id.split(".")[0][-2:], 16)


class Node(unittest.TestCase):
    version = "1.34"
    conf = ()
    settled = True
    umask = -1  # as the test's own

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="allot-kube-")
        self.addCleanup(folder.cleanup)
        self.top = pathlib.Path(folder.name)
        self.cdi = self.top / "cdi"
        self.cdi.mkdir()
        (self.cdi / "nvidia.yaml").write_text(
            "kind: nvidia.com/gpu\n" + "".join(f"- name: {uuid(i)}\n" for i in range(GPUS)),
            encoding="ascii")
        (self.top / "kubelet").mkdir()
        # Where the command and the library are is told by where the program is.
        for file in ("src/cli/allot", "src/guest/liballot.so", "src/cdi/ld.so.preload"):
            (self.top / file).parent.mkdir(parents=True)
            (self.top / file).symlink_to(BUILD / file)
        (self.top / "src/daemon").mkdir()
        self.program = shutil.copy(os.environ["NODE"], self.top / "src/daemon/node")
        self.kubelet = Kubelet(self.top / "kubelet", self.version)
        self.addCleanup(self.kubelet.stop)

    def begin(self):
        self.kubelet.start(self.settled)
        self.start_node()
        self.kubelet.wait_registered(RESOURCES)

    def start_node(self, *conf, gpus=GPUS):
        with open(self.top / "log", "ab") as log:
            self.node = subprocess.Popen(
                [self.program, str(gpus), "ways=device-plugin", f"kubelet={self.top}/kubelet",
                 f"cdi={self.cdi}", f"xpu={self.top}/xpu", *(conf or self.conf)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
                umask=self.umask)
        self.addCleanup(self.end_node, self.node)
        return self.node.stdout.readline() == "ready\n"

    def end_node(self, node):
        if node.stdin.closed:
            return
        node.stdin.close()
        self.assertEqual(node.wait(SECONDS), 0)
        node.stdout.close()

    def log(self):
        return (self.top / "log").read_text(encoding="utf-8")

    def say(self, words):
        self.node.stdin.write(words + "\n")
        self.node.stdin.flush()

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.node.pid}/fd"))

    def wait(self, condition, why):
        for _ in range(SECONDS * 50):
            if condition():
                return
            time.sleep(0.02)
        self.fail(why() if callable(why) else why)

    def grants(self):
        """{slot: what the runtime is told}"""
        begin = "allot.dev-grant-slot-"
        found = {}
        for path in self.cdi.glob(begin + "*.json"):
            with contextlib.suppress(FileNotFoundError):  # removed meanwhile
                spec = json.loads(path.read_text(encoding="utf-8"))
                found[path.name[len(begin):-len(".json")]] = spec
        return found

    @staticmethod
    def options(spec):
        """The hook's words: {"--memory": "1,2"}; {} for one that brings no tenant."""
        edits = spec["devices"][0]["containerEdits"]
        if "hooks" not in edits:
            return {}
        words = edits["hooks"][0]["args"]
        return {word: words[i + 1] for i, word in enumerate(words[:-1]) if word.startswith("--")}

    def granted(self, slot_id):
        return self.options(self.grants()[slot_id])

    def run_pod(self, pod, wanted, namespace="default"):
        answers = self.kubelet.admit(namespace, pod, wanted)
        for container in wanted:
            self.kubelet.start_container(namespace, pod, container)
        return answers

    def refused(self, function, *args):
        with self.assertRaises(grpc.RpcError) as raised:
            function(*args)
        return raised.exception
