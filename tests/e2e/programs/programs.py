# SPDX-License-Identifier: Apache-2.0
"""Programs that are built or started in other ways than plain C: docs/programs.md says of each what
works. Here each is built, and sees its quota, is held to it, and launches under a cap. A test is
skipped, and says so, where its compiler, library or namespace is not there."""

import glob
import json
import os
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "cli"))
import cli_lib  # noqa: E402
from cli_lib import ALLOT, MIB  # noqa: E402

OUT_OF_MEMORY = 2
QUOTA, CONTEXT, BLOCK, LAUNCHES = 256 * MIB, 64 * MIB, 16 * MIB, 20
LIMITS = ("--memory", "256MiB", "--compute", "50")
NAMESPACE = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc")


def tool(name):
    found = shutil.which(name)
    if not found:
        raise unittest.SkipTest(f"no {name} here")
    return found


class Programs(cli_lib.Case):
    def setUp(self):
        super().setUp()
        self.env.update({"ALLOT_SIM_DIR": self.path("devices"), "ALLOT_SIM_CONTEXT": "64MiB",
                         "LD_LIBRARY_PATH": os.path.join(os.environ["ALLOT_BUILD"], "sim"),
                         # What a library holds to the end, ours or the driver's, is no news.
                         "ASAN_OPTIONS": "detect_leaks=0"})

    def build(self, *command, cwd=None, env=None):
        done = subprocess.run(command, cwd=cwd, env={**os.environ, **(env or {})}, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=300)
        if done.returncode:
            self.skipTest(f"cannot be built here: {done.stderr.strip().splitlines()[-1:]}")

    def compile(self, *flags, compiler="gcc"):
        program = self.path("program")
        self.build(tool(compiler), "-g", "-o", program, str(HERE / "program.c"), *flags, "-ldl")
        return program

    def limited(self, *command, before=()):
        """Runs it in a tenant: its own word and, while it waits, the ledger's."""
        self.tenants = getattr(self, "tenants", 0) + 1
        name = f"t{self.tenants}"
        process = self.start(*before, ALLOT, "run", "--name", name, *LIMITS, "--", *command,
                             stderr=subprocess.PIPE)
        self.addCleanup(process.stderr.close)
        line = process.stdout.readline()
        if not line:
            process.wait(100)
            self.fail(f"ended by {process.returncode}: {process.stderr.read()}")
        said = json.loads(line)
        if "skip" in said:
            self.skipTest(said["skip"])
        ps = (*before, ALLOT, "ps", "--json")
        found = json.loads(subprocess.run(ps, env=self.env, text=True, check=True,
                                          capture_output=True).stdout)
        device, = next(t["devices"] for t in found["tenants"] if t["name"] == name)
        process.stdin.close()
        process.stdin = open(os.devnull, "w", encoding="utf-8")
        self.assertEqual(process.wait(100), 0, process.stderr.read())
        self.assertEqual((said["total"], said["error"]), (QUOTA, OUT_OF_MEMORY))
        self.assertGreaterEqual(device["used_bytes"], said["taken"] + CONTEXT)
        self.assertGreater(device["used_bytes"], QUOTA - BLOCK)
        self.assertLessEqual(device["used_bytes"], QUOTA)
        self.assertEqual(device["compute"]["launches"], LAUNCHES)
        self.assertGreater(device["compute"]["busy_ns"], 0)

    def refused(self, program):
        self.fails(125, "run", *LIMITS, "--", program, says=("statically linked",))

    def test_plain(self):
        self.limited(self.compile())

    def test_address_sanitizer_linked_statically(self):
        for compiler, flags in (("gcc", ["-static-libasan"]), ("clang", [])):
            with self.subTest(compiler):
                self.limited(self.compile("-fsanitize=address", *flags, compiler=compiler))

    def test_address_sanitizer_as_a_library(self):
        self.env["ASAN_OPTIONS"] += ":verify_asan_link_order=0"
        self.limited(self.compile("-fsanitize=address"))

    def test_undefined_behaviour_sanitizer(self):
        for compiler in ("gcc", "clang"):
            with self.subTest(compiler):
                self.limited(self.compile("-fsanitize=undefined", "-fno-sanitize-recover=all",
                                          compiler=compiler))

    def jemalloc(self):
        found = glob.glob("/usr/lib/*/libjemalloc.so.2")
        if not found:
            self.skipTest("no libjemalloc.so.2 here")
        return found[0]

    def test_jemalloc_linked(self):
        self.limited(self.compile("-Wl,--no-as-needed", self.jemalloc()))

    def test_jemalloc_preloaded(self):
        self.env["LD_PRELOAD"] = self.jemalloc()
        self.limited(self.compile())

    def test_static_pie(self):
        self.refused(self.compile("-static-pie"))

    def go(self, cgo, *sources):
        folder = Path(self.path("go"))
        folder.mkdir()
        for name, text in sources:
            (folder / name).write_text(text, encoding="utf-8")
        program = self.path("program")
        self.build(tool("go"), "build", "-o", program, ".", cwd=folder,
                   env={"CGO_ENABLED": cgo, "GO111MODULE": "on", "GOPROXY": "off",
                        "GOTOOLCHAIN": "local", "GOCACHE": self.path("cache"),
                        "GOPATH": self.path("gopath"), "GOFLAGS": "-mod=mod"})
        return program

    def test_go_with_cgo(self):
        self.limited(self.go("1", ("go.mod", "module program\n\ngo 1.18\n"),
                             *((name, (HERE / name).read_text(encoding="utf-8"))
                               for name in ("main.go", "program.c"))))

    def test_go_without_cgo(self):
        self.refused(self.go("0", ("go.mod", "module program\n\ngo 1.18\n"),
                             ("main.go", "package main\n\nfunc main() {}\n")))

    def test_io_uring(self):
        self.limited(self.compile(), "/dev/null")

    def namespace(self):
        tool("unshare")
        done = subprocess.run([*NAMESPACE, "true"], stdin=subprocess.DEVNULL, text=True,
                              capture_output=True)
        if done.returncode:
            self.skipTest(f"no namespaces here: {done.stderr.strip()}")

    def test_process_namespace_in_a_tenant(self):
        self.namespace()
        self.limited(*NAMESPACE, self.compile())

    def test_tenant_in_a_process_namespace(self):
        self.namespace()
        self.limited(self.compile(), before=NAMESPACE)


if __name__ == "__main__":
    cli_lib.main()
