# SPDX-License-Identifier: Apache-2.0
"""The library of the last release in tenants of this command and this daemon: whoever began before an
upgrade goes on with it. Where nothing is released yet, it is the last one that had no words for
allotd in its ledger. It is built from git, once in a build folder."""

import json
import os
import shutil
import subprocess
import sys

import cli_lib
import daemon_lib
from cli_lib import GIB, MIB
from daemon_lib import key

SOURCE, BUILD = os.environ["ALLOT_SOURCE"], os.environ["ALLOT_BUILD"]
FIRST = "b609963"
# For each line a number of MiB to take; says what the driver answered, and what it has in all.
PROGRAM = """
import ctypes
cu = ctypes.CDLL("libcuda.so.1")
context, block = ctypes.c_void_p(), ctypes.c_uint64()
free, total = ctypes.c_size_t(), ctypes.c_size_t()
print(cu.cuInit(0), cu.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0),
      cu.cuCtxSetCurrent(context), flush=True)
while True:
    r = cu.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(int(input()) << 20))
    cu.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
    print(r, total.value, flush=True)
"""


def git(*words):
    done = subprocess.run(["git", "-C", SOURCE, *words], capture_output=True, check=False)
    return done.stdout if done.returncode == 0 else None


def former():
    """The library's path; None: it cannot be had."""
    if not shutil.which("git") or git("rev-parse", "--git-dir") is None:
        return None
    tags = (git("tag", "--list", "v*", "--sort=-version:refname") or b"").decode().split()
    commit = (git("rev-parse", "--verify", "--quiet", (tags or [FIRST])[0] + "^{commit}") or b"")
    commit = commit.decode().strip()
    tree = git("archive", commit) if commit else None
    if tree is None:
        return None
    place = os.path.join(BUILD, f"former-{commit[:12]}")
    library = os.path.join(place, "build/src/guest/liballot.so")
    if os.path.exists(library):
        return library
    shutil.rmtree(place, ignore_errors=True)
    os.makedirs(f"{place}/tree")
    subprocess.run(["tar", "-x", "-C", f"{place}/tree"], input=tree, check=True)
    meson = os.path.join(SOURCE, "tools/meson")
    for words in (("setup", f"{place}/build", f"{place}/tree", "-Dwerror=false"),
                  ("compile", "-C", f"{place}/build", "allot:shared_library")):
        done = subprocess.run([meson, *words], capture_output=True, text=True, check=False)
        if done.returncode:
            shutil.rmtree(place, ignore_errors=True)
            raise AssertionError(done.stdout[-4000:] + done.stderr[-4000:])
    return library


class Former(daemon_lib.Case):
    def setUp(self):
        super().setUp()
        self.env.update(ALLOT_SIM_DIR=self.path("sim"), ALLOT_SIM_MEMORY="4GiB",
                        ALLOT_SIM_CONTEXT="16MiB", LD_LIBRARY_PATH=os.environ["SIM_LIBRARIES"])

    def begin(self, name, library, *options):
        """A program in a tenant that has that library."""
        self.env["ALLOT_LIBRARY"] = library
        program = self.start(cli_lib.ALLOT, "run", "--name", name, *options, "--",
                             sys.executable, "-c", PROGRAM)
        del self.env["ALLOT_LIBRARY"]
        self.assertEqual(program.stdout.readline(), "0 0 0\n")
        with open(f"/proc/{program.pid}/maps", encoding="utf-8") as maps:
            self.assertIn(library, maps.read())
        return program

    def alloc(self, program, mib):
        program.stdin.write(f"{mib}\n")
        program.stdin.flush()
        return [int(word) for word in program.stdout.readline().split()]

    def test_memory(self):
        """It counts, is refused, hears of another quota, and is in every figure."""
        daemon = self.daemon()
        old = self.begin("a", LIBRARY, "--memory", "1GiB")
        self.assertEqual(self.alloc(old, 500), [0, GIB])
        self.assertEqual(self.alloc(old, 600), [2, GIB])
        self.ok("set", "a", "--memory", "2GiB")
        self.assertEqual(self.alloc(old, 600), [0, 2 * GIB])
        tenant, = json.loads(self.ok("ps", "--json"))["tenants"]
        device, = tenant["devices"]
        self.assertEqual(device["used_by_category"]["data"], 1100 * MIB)
        self.assertEqual(device["refusals"], 1)
        used = key("allot_memory_used_bytes", tenant="a", device=device["uuid"], category="data")
        self.assertEqual(self.samples()[used], 1100 * MIB)
        cli_lib.wait_for(lambda: self.samples().get(key("allot_outside_processes")) == 0)
        self.assertNotIn("not limited", self.log())
        # Who joins it has its library, and one quota with it.
        joins = self.start(cli_lib.ALLOT, "run", "--name", "a", "--", sys.executable, "-c", PROGRAM)
        self.assertEqual(joins.stdout.readline(), "0 0 0\n")
        with open(f"/proc/{joins.pid}/maps", encoding="utf-8") as maps:
            self.assertIn(LIBRARY, maps.read())
        self.assertEqual(self.alloc(joins, 1000), [2, 2 * GIB])
        self.end(daemon)
        self.assertEqual(self.alloc(old, 100), [0, 2 * GIB])

    def test_turns(self):
        """It takes turns with a new one, whose they are the daemon says."""
        self.daemon()
        for name, library in (("a", LIBRARY), ("b", None)):
            if library:
                self.env["ALLOT_LIBRARY"] = library
            load = self.start(cli_lib.ALLOT, "run", "--name", name, "--weight", "1", "--",
                              os.environ["ALLOT_LOAD"], "--loops-per-us", "1", "--seconds", "30")
            self.env.pop("ALLOT_LIBRARY", None)
            self.assertIsNone(load.poll())

        def turns():
            found = self.samples()
            return [found.get(key("allot_tenant_turns_total", tenant=name), 0) for name in "ab"]

        cli_lib.wait_for(lambda: min(turns()) > 5)


if __name__ == "__main__":
    LIBRARY = former()
    if not LIBRARY:
        print("the last release cannot be had: there is no git, or not all of its history")
        sys.exit(77)
    cli_lib.main()
