# SPDX-License-Identifier: Apache-2.0
"""allot doctor: each thing that can be wrong shows as FAIL or warn, with what to do."""

import ctypes
import errno
import os
import shutil
import struct
import tempfile

import cli_lib
from cli_lib import ALLOT, MIB, UUID_A


class Doctor(cli_lib.Case):
    def doctor(self, *args, env=None):
        """Against simulated devices, so that a machine without a driver is no finding."""
        return self.allot("sim", "--", ALLOT, "doctor", *args, env=env)

    def finds(self, level, pattern, *args, env=None):
        done = self.doctor(*args, env=env)
        self.assertRegex(done.stdout, rf"(?m)^{level} .*{pattern}.*\n      \S")
        self.assertEqual(done.returncode, 1 if level == "FAIL" else 0, done.stdout)

    def test_all_is_well(self):
        done = self.doctor("--", "true")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertNotIn("FAIL", done.stdout)
        for line in (r"allot \d", "driver ", "GPU 0: ", "liballot.so can be preloaded",
                     "can be mapped and locked", "wait for each other", "true can be limited"):
            self.assertRegex(done.stdout, rf"(?m)^ok    .*{line}")

    def test_no_driver(self):
        if os.path.exists("/dev/nvidiactl"):
            self.skipTest("this machine has a driver")
        done = self.allot("doctor")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, "(?m)^FAIL .*no GPU here: the NVIDIA driver is missing .*"
                         "the AMD driver is missing .*allot sim")

    def test_library(self):
        self.finds("FAIL", "liballot.so is not found", env={"ALLOT_LIBRARY": "/no/such"})
        self.finds("FAIL", "cannot be preloaded",
                   env={"ALLOT_LIBRARY": self.path("liballot.so", "no library")})

    def test_runtime_dir(self):
        os.mkdir(self.runtime)
        os.chmod(self.runtime, 0o777)
        self.finds("FAIL", "written by others")
        os.rmdir(self.runtime)
        self.path("run", "a file")
        self.finds("FAIL", "is not a directory")
        self.finds("FAIL", "cannot make", env={"ALLOT_RUNTIME_DIR": "/proc/allot"})

    def test_locks(self):
        if os.path.exists("/sys/kernel/security"):
            self.finds("FAIL", "cannot be locked",
                       env={"ALLOT_RUNTIME_DIR": "/sys/kernel/security"})

    def test_settings_of_other_systems(self):
        """Each that does nothing is named once, with what does; a malformed one fails."""
        for variable in ("ACTIVE_OOM_KILLER=true", "LIBCUDA_LOG_LEVEL=4", "CUDA_DISABLE_CONTROL=1",
                         "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=1G", "CUDA_MEM_LIMIT_0=1g",
                         "CUDA_DEVICE_MEMORY_LIMITS=1g", "GPU_CORE_UTILIZATION_POLICIES=force"):
            name, value = variable.split("=", 1)
            done = self.doctor(env={name: value})
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertEqual(done.stdout.count(name), 1, done.stdout)
            self.assertRegex(done.stdout, rf"(?m)^warn  {variable} does nothing\n      \S")
        for variable in ("CUDA_TASK_PRIORITY=0", "CUDA_OVERSUBSCRIBE=true",
                         "CUDA_DEVICE_MEMORY_LIMIT=1g"):
            done = self.doctor(env=dict([variable.split("=")]))
            self.assertRegex(done.stdout, f"(?m)^ok    {variable} holds for programs")
        for name, value in (("CUDA_DEVICE_MEMORY_LIMIT", "4k"), ("CUDA_TASK_PRIORITY", "high"),
                            ("CUDA_OVERSUBSCRIBE", "")):
            self.finds("FAIL", name, env={name: value})

    def test_no_futex(self):
        """In a sandbox that allows it within a process only, as the kernel's answer is ENOSYS."""
        futex = {"x86_64": 202, "aarch64": 98}.get(os.uname().machine)
        if not futex:
            self.skipTest("the number of futex(2) is not known here")

        def sandbox():
            load, equal, answer = 0x20, 0x15, 0x06
            program = b"".join(struct.pack("HBBI", *words) for words in (
                (load, 0, 0, 0), (equal, 0, 3, futex),  # the system call's number
                (load, 0, 0, 24), (equal, 0, 1, 0),     # its second argument: FUTEX_WAIT
                (answer, 0, 0, 0x50000 | errno.ENOSYS), (answer, 0, 0, 0x7fff0000)))
            block = ctypes.create_string_buffer(program)
            filters = ctypes.create_string_buffer(
                struct.pack("HxxxxxxP", 6, ctypes.addressof(block)))
            prctl = ctypes.CDLL(None).prctl
            if prctl(38, 1, 0, 0, 0) or prctl(22, 2, filters, 0, 0):
                os._exit(77)

        done = self.allot("sim", "--", ALLOT, "doctor", preexec_fn=sandbox)
        if done.returncode == 77:
            self.skipTest("no seccomp here")
        self.assertRegex(done.stdout, r"(?m)^FAIL .*\(futex\): .*\n      allow futex")
        self.assertEqual(done.returncode, 1)

    def criu(self, script, kernel=None):
        """Behind a criu that says so, on a kernel that calls itself 2.6 if `kernel` is "old"."""
        path = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, path)
        if script is not None:
            with open(os.path.join(path, "criu"), "w", encoding="utf-8") as out:
                out.write("#!/bin/sh\n" + script)
                os.chmod(out.name, 0o755)
            path += ":/usr/bin:/bin"

        def old():
            if kernel == "old" and ctypes.CDLL(None).personality(0x0020000) < 0:
                os._exit(77)

        return self.allot("sim", "--", ALLOT, "doctor", env={"PATH": path},
                          preexec_fn=old).stdout

    def test_criu(self):
        said = self.criu("echo Version: 4.1.1; echo GitID: v4.1.1")
        breakpoints = r"(; breakpoints never fire here, so it goes without)?$"  # the machine's affair
        self.assertRegex(said, r"(?m)^ok    CRIU 4\.1\.1" + breakpoints)
        self.assertRegex(self.criu("echo Version: 4.2"), r"(?m)^ok    CRIU 4\.2" + breakpoints)
        said = self.criu("echo Version: 3.17.1; echo GitID: 0")
        if tuple(map(int, os.uname().release.split(".")[:2])) >= (6, 13):
            self.assertRegex(said, r"(?m)^warn  CRIU 3\.17\.1 does not work on this kernel .*\n"
                                   r"      install CRIU 4\.0 or later.*Debian 13")
        said = self.criu("echo Version: 3.17.1", kernel="old")
        self.assertRegex(said, r"(?m)^ok    CRIU 3\.17\.1, which this kernel \(2\.6.*2025")

    def test_criu_plugin(self):
        """Which build of the plugin for AMD GPUs: told by what is in the file, where it is no script."""
        path = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, path)
        criu = os.path.join(path, "criu")
        env = {"PATH": f"/nowhere:{path}:/usr/bin:/bin"}
        for hooks in ("10", "15"):
            shutil.copy(os.environ[f"ALLOT_CRIU_LIKE_{hooks}"], criu)
            said = self.allot("sim", "--amd", "1", "--", ALLOT, "doctor", env=env).stdout
            self.assertRegex(said, rf"(?m)^ok    CRIU's plugin for AMD GPUs: criu-{hooks} \(man")
            self.assertNotIn("plugin", self.allot("sim", "--", ALLOT, "doctor", env=env).stdout)
        with open(criu, "w", encoding="utf-8") as script:
            script.write(f"#!/bin/sh\nexec {os.environ['ALLOT_CRIU_LIKE_15']} cr_plugin_dump_devices_late")
        said = self.allot("sim", "--amd", "1", "--", ALLOT, "doctor", env=env).stdout
        self.assertRegex(said, r"(?m)^ok    CRIU's plugin for AMD GPUs: criu-10, or criu-15 if")

    def test_untried_amd(self):
        """No emulated GPU stands for a real one, so each is told, once for GPUs of one name."""
        for model in ("gfx90a", "gfx1030"):
            said = self.allot("sim", "--amd", "2", "--model", model, "--", ALLOT, "doctor").stdout
            self.assertRegex(said, rf"(?m)^warn  AMD: never tried on this GPU \({model}\): tests/amd/run\n"
                                   r"      run that program .* send us the table")
            self.assertEqual(said.count("never tried"), 1)
        self.assertNotIn("never tried", self.allot("sim", "--", ALLOT, "doctor").stdout)

    def test_criu_that_does_not_say(self):
        for script in ("echo hello; exit 1", "exit 0", "echo Version: x", "kill -9 $$",
                       "yes | head -c 100000", "printf 'Version: \\033[2J9'"):
            said = self.criu(script)
            self.assertRegex(said, r"(?m)^warn  criu --version does not tell .*\n      install")
            self.assertNotIn("\033", said)

    def test_no_criu(self):
        self.assertRegex(self.criu(None), r"(?m)^ok    no CRIU here.*\n      install CRIU 4\.0")

    def test_nothing_stays_behind(self):
        self.doctor()
        self.assertEqual(os.listdir(self.runtime), [])

    def test_sweep(self):
        """What ended goes; what a living shell may still use stays."""
        self.living("shell")
        self.living("busy")
        self.hold("busy", f"{UUID_A}:data:{MIB}")
        self.ok("run", "--name", "over", "--", "true")
        self.assertRegex(self.doctor().stdout, "(?m)^ok .* 1 tenant with processes .*, 1 without$")
        done = self.doctor("--sweep")
        self.assertIn("tenant over removed", done.stdout)
        self.assertEqual(sorted(os.listdir(self.runtime)), [".ended", "busy", "shell"])

    def test_damaged_tenant(self):
        self.living("a")
        os.truncate(os.path.join(self.runtime, "a", "ledger"), 10)
        self.finds("FAIL", "tenant a ")

    def test_no_such_program(self):
        self.finds("FAIL", "no-such cannot be run", "--", "no-such")


if __name__ == "__main__":
    cli_lib.main()
