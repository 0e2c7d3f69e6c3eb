# SPDX-License-Identifier: Apache-2.0
"""Another version is installed while tenants run: each keeps the library that it began with."""

import os
import shutil
import subprocess
import sys
import unittest

import cli_lib

BUILD, SOURCE = os.environ["ALLOT_BUILD"], os.environ["ALLOT_SOURCE"]
# Takes a MiB for each line that it reads, and says what the driver answered and which library it
# and a program that it starts just then have.
PROGRAM = """
import ctypes, re, subprocess
cu = ctypes.CDLL("libcuda.so.1")
context, block = ctypes.c_void_p(), ctypes.c_uint64()
cu.cuInit(0), cu.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), cu.cuCtxSetCurrent(context)
libraries = lambda maps: sorted({*re.findall("liballot[-.][^ /]*so", maps)})
print("up", flush=True)
while input():
    r = cu.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(1 << 20))
    child = subprocess.run(["cat", "/proc/self/maps"], capture_output=True, text=True).stdout
    print(r, *libraries(open("/proc/self/maps").read()), *libraries(child), flush=True)
"""


class Upgrade(cli_lib.Case):
    def setUp(self):
        super().setUp()
        self.env.update(ALLOT_SIM_DIR=self.path("sim"), ALLOT_SIM_CONTEXT="16MiB",
                        LD_LIBRARY_PATH=os.path.join(BUILD, "sim"))
        self.prefix = self.path("usr")
        os.makedirs(f"{self.prefix}/bin")
        os.makedirs(f"{self.prefix}/lib/allot")
        cli_lib.ALLOT, self.build = f"{self.prefix}/bin/allot", cli_lib.ALLOT
        self.addCleanup(setattr, cli_lib, "ALLOT", self.build)
        shutil.copy(self.build, cli_lib.ALLOT)
        shutil.copy(os.path.join(SOURCE, "deploy/keep-library"), f"{self.prefix}/lib/allot")
        self.install(1)

    def unpack(self, version):
        """A library with this content is where packages put it."""
        library = f"{self.prefix}/lib/liballot.so"
        shutil.copy(os.path.join(BUILD, "src/guest/liballot.so"), f"{library}.new")
        with open(f"{library}.new", "ab") as file:
            file.write(b"version %d" % version)
        os.replace(f"{library}.new", library)

    def install(self, version):
        before = self.kept()
        self.unpack(version)
        subprocess.run([f"{self.prefix}/lib/allot/keep-library"], env=self.env, check=True)
        new = self.kept() - before
        return new.pop() if new else None

    def kept(self):
        kept = f"{self.prefix}/lib/allot/kept"
        return {*os.listdir(kept)} if os.path.exists(kept) else set()

    def program(self, tenant):
        program = self.start(cli_lib.ALLOT, "run", "--name", tenant, "--memory", "1GiB", "--",
                             sys.executable, "-c", PROGRAM)
        self.assertEqual(program.stdout.readline(), "up\n")
        return program

    def libraries(self, program):
        """Its own, then that of a program that it starts now. It takes memory, too."""
        program.stdin.write("go\n")
        program.stdin.flush()
        answer, *names = program.stdout.readline().split()
        self.assertEqual(answer, "0")
        return names

    def end(self, program):
        program.stdin.write("\n")
        program.stdin.flush()
        self.assertEqual(program.wait(60), 0)

    def test_each_tenant_has_one(self):
        first, = self.kept()
        old = self.program("a")
        second = self.install(2)
        self.assertEqual(self.libraries(old), [first, first])
        new = self.program("b")
        self.assertEqual(self.libraries(new), [second, second])
        joins = self.program("a")
        self.assertEqual(self.libraries(joins), [first, first])
        third = self.install(3)
        self.assertEqual(self.kept(), {first, second, third})
        for program in (old, joins):
            self.end(program)
        self.ok("ps")
        self.install(3)
        if os.geteuid() == 0:
            self.assertEqual(self.kept(), {second, third})
        self.assertEqual(self.libraries(new), [second, second])

    def test_between_unpacking_and_naming(self):
        """What is started just then has the new library, by its plain name."""
        self.unpack(2)
        self.assertEqual(self.libraries(self.program("a")), ["liballot.so", "liballot.so"])

    def test_a_tenant_without_a_process(self):
        first, = self.kept()
        preload, = (line for line in self.keep("a").splitlines() if line.startswith("LD_PRELOAD="))
        self.assertEqual(os.path.basename(preload), first)
        second = self.install(2)
        self.assertEqual(self.kept(), {first, second})
        self.assertEqual(self.libraries(self.program("b")), [second, second])
        self.ok("rm", "a")
        self.install(2)
        if os.geteuid() == 0:
            self.assertEqual(self.kept(), {second})

    @unittest.skipIf(os.geteuid(), "users are had by root alone")
    def test_a_tenant_of_a_user(self):
        """The same of one that root prepared, whose processes are another's."""
        first, = self.kept()
        self.ok("run", "--user", "12345:12345", "--name", "a", "--print-env")
        second = self.install(2)
        self.assertEqual(self.kept(), {first, second})
        self.ok("rm", "a@12345")
        self.install(2)
        self.assertEqual(self.kept(), {second})

    def test_gone(self):
        """Somebody removed what a tenant has: nobody joins it, with another version or without one."""
        first, = self.kept()
        self.living("a")
        os.unlink(f"{self.prefix}/lib/allot/kept/{first}")
        self.install(2)
        self.fails(125, "run", "--name", "a", "--", "true",
                   says=("\"a\" began with another library", "begin it anew"))
        self.ok("run", "--name", "a", "--", "true", env={"ALLOT_LIBRARY":
                                                         f"{self.prefix}/lib/liballot.so"})

    def test_another_root(self):
        """There the library has the name that people know."""
        chroot, root = self.path("chroot", "#!/bin/sh\nexit 0\n"), self.path("root")
        os.makedirs(f"{root}{self.prefix}/lib")
        self.fails(125, "run", "--", chroot, root, "true", says=(f"{root} has no /",))
        shutil.copy(f"{self.prefix}/lib/liballot.so", f"{root}{self.prefix}/lib")
        self.ok("run", "--", chroot, root, "true")

    def test_formats(self):
        """Files of an older version, or of a newer one, are refused in words, and close the GPU."""
        env = dict(line.split("=", 1) for line in self.keep("a").splitlines())
        program = self.path("program", "import ctypes; print(ctypes.CDLL('libcuda.so.1').cuInit(0))")

        def answer():
            return subprocess.run([sys.executable, program], env={**self.env, **env}, text=True,
                                  capture_output=True, timeout=60).stdout

        self.assertEqual(answer(), "0\n")
        for name in ("policy", "ledger"):
            path = os.path.join(self.runtime, "a", name)
            os.chmod(path, 0o600)
            for step in (-1, 1):
                with open(path, "r+b") as file:
                    file.seek(8)
                    was = file.read(4)
                    file.seek(8)
                    file.write((int.from_bytes(was, sys.byteorder) + step).to_bytes(4, sys.byteorder))
                self.assertNotEqual(answer(), "0\n")
                self.assertIn("another version", self.allot("ps").stderr)
                self.fails(125, "run", "--name", "a", "--", "true",
                           says=("another version of allot", "take another --name"))
                with open(path, "r+b") as file:
                    file.seek(8)
                    file.write(was)
        self.assertEqual(answer(), "0\n")
        with open(path, "ab") as file:
            file.write(b"what a newer version has more")
        self.fails(125, "run", "--name", "a", "--", "true",
                   says=("another version of allot", "take another --name"))
        self.assertNotEqual(answer(), "0\n")

    def test_removed(self):
        subprocess.run([f"{self.prefix}/lib/allot/keep-library", "--remove"], check=True)
        self.assertFalse(os.path.exists(f"{self.prefix}/lib/allot/kept"))


if __name__ == "__main__":
    cli_lib.main()
