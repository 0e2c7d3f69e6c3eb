# SPDX-License-Identifier: Apache-2.0
"""
What we write, decoded by Kubernetes' own Go types (golang-k8s-api-dev 0.34 or newer):
those of this machine, or of a tree that KUBERNETES_GO names, into which packages of a newer Debian were
unpacked. Skipped where there are none.
"""

import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
CLIENT = os.environ["CLIENT"]
TREE = os.environ.get("KUBERNETES_GO", "")
SOURCES = f"{TREE}/usr/share/gocode"
# Beside the program, as another run takes seconds then, not half a minute.
CACHE = os.path.join(os.path.dirname(CLIENT), "strict-cache")


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def find_go():
    """The newest of the tree's, or the machine's."""
    found = sorted(glob.glob(f"{TREE}/usr/lib/go-*/bin/go")) if TREE else []
    return found[-1] if found else shutil.which("go")


for package in ("k8s.io/api/resource/v1/types.go", "sigs.k8s.io/yaml/yaml.go"):
    if not os.path.exists(f"{SOURCES}/src/{package}"):
        skip(f"no {package} in {SOURCES}/src: golang-k8s-api-dev 0.34 or newer is not there; unpack it and what "
             "it depends on into a folder, and name that in KUBERNETES_GO")
GO = find_go()
if not GO:
    skip("golang-go is not installed")


def build(folder):
    environment = {**os.environ, "GOPATH": SOURCES, "GO111MODULE": "off", "GOCACHE": CACHE,
                   "GOFLAGS": "-p=2"}
    if TREE:
        environment["GOROOT"] = os.path.dirname(os.path.dirname(GO))
    program = f"{folder}/strict"
    subprocess.run([GO, "build", "-o", program, f"{HERE}/../../../tools/strict.go"], env=environment, check=True)
    return program


class Strict(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="allot-strict-")
        cls.addClassCleanup(folder.cleanup)
        cls.program = build(folder.name)

    def check(self, lines):
        done = subprocess.run([self.program, "--same"], input="\n---\n".join(lines), capture_output=True, text=True,
                              timeout=60)
        return done.returncode, done.stdout.strip()

    def slices(self, devices):
        done = subprocess.run([CLIENT, "print", "node-1", str(devices)], capture_output=True, text=True,
                              timeout=60, check=True)
        return done.stdout.splitlines()

    def test_slices(self):
        for devices in (0, 1, 3, 64):
            self.assertEqual(self.check(self.slices(devices)), (0, "decoded: 4"))

    def test_can_fail(self):
        """A wrong name, a wrong case, a quantity in another form than Kubernetes' own."""
        for path, key, value in ((["spec"], "devicez", []), (["spec"], "nodename", "a"),
                                 (["spec", "devices", 0], "allowMultiple", True),
                                 (["spec", "devices", 0, "capacity", "memory"], "value", "1024Mi")):
            body = json.loads(self.slices(1)[0])
            at = body
            for step in path:
                at = at[step]
            at[key] = value
            self.assertEqual(self.check([json.dumps(body)])[0], 1, key)


unittest.main()
