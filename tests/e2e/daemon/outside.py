# SPDX-License-Identifier: Apache-2.0
"""Programs that use a (simulated) device and are not limited: allotd sees them, and what it does."""

import json
import os
import shutil
import signal
import subprocess
import sys
import unittest

import cli_lib
import daemon_lib
from daemon_lib import key

FILL = os.environ["FILL"]
MIB = 1 << 20
# Has MIB (the second argument) by another copy of the driver (the first), beside a context that is counted.
ROGUE = """
import ctypes, sys

def check(error):
    assert not error, error

def driver(path):
    cuda, device, context = ctypes.CDLL(path), ctypes.c_int(), ctypes.c_void_p()
    check(cuda.cuInit(0))
    check(cuda.cuDeviceGet(ctypes.byref(device), 0))
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
    check(cuda.cuCtxSetCurrent(context))
    return cuda

driver("libcuda.so.1")
cuda = driver(sys.argv[1])
for i in range(int(sys.argv[2])):
    check(cuda.cuMemAlloc_v2(ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(1 << 20)))
print("has it", flush=True)
sys.stdin.readline()
"""


class Outside(daemon_lib.Case):
    def setUp(self):
        super().setUp()
        self.env.update(ALLOT_SIM_DIR=os.path.join(self.tmp, "sim"), ALLOT_SIM_MEMORY="4GiB", ALLOT_SIM_CONTEXT="16MiB",
                        LD_LIBRARY_PATH=os.environ["SIM_LIBRARIES"])

    def program(self, *before):
        """It has all of the device's memory that it can get, until the test ends."""
        process = self.start(*before, FILL, "--json")
        self.assertTrue(process.stdout.readline())
        return process

    def outside(self):
        """{pid: labels and bytes of a process that is not limited}"""
        return {int(dict(labels)["pid"]): {**dict(labels), "bytes": value}
                for (name, labels), value in self.samples().items()
                if name == "allot_outside_memory_bytes"}

    def test_program_without_a_tenant(self):
        self.daemon()
        cli_lib.wait_for(lambda: self.samples().get(key("allot_outside_processes")) == 0)
        tenant = self.program(cli_lib.ALLOT, "run", "--name", "in", "--memory", "512MiB", "--")
        program = self.program()
        cli_lib.wait_for(lambda: program.pid in self.outside())
        self.assertEqual(list(self.outside()), [program.pid])
        found = self.outside()[program.pid]
        self.assertEqual((found["user"], found["tenant"]), ("root", "")
                         if os.getuid() == 0 else (found["user"], ""))
        self.assertIn("fill --json", found["command"])
        self.assertGreater(found["bytes"], 1000 * MIB)
        self.assertIn(f"not limited: pid {program.pid} (", self.log())
        self.assertIn(", and is in no tenant", self.log())
        self.assertEqual(self.log().count(f"pid {program.pid} "), 1)
        self.assertNotIn(f"pid {tenant.pid} ", self.log())
        self.check_ps(program)
        program.communicate("\n")
        cli_lib.wait_for(lambda: not self.outside())
        self.assertEqual(json.loads(self.ok("ps", "--json"))["outside"], [])

    def check_ps(self, program):
        """allot ps says it without a daemon, too."""
        outsider, = json.loads(self.ok("ps", "--json"))["outside"]
        self.check_shape(outsider, "outsider", cli_lib.documented())
        self.assertEqual((outsider["pid"], outsider["tenant"]), (program.pid, None))
        self.assertGreater(outsider["driver_bytes"], 1000 * MIB)
        table = self.ok("ps").partition("in no tenant of ")[2]
        self.assertRegex(table, rf"- +{program.pid} +\S+ .* GiB +\S+fill --json")
        self.assertNotIn("NOT LIMITED", self.ok("ps", "in"))

    def test_tenant_that_lost_its_library(self):
        """In a tenant's environment, but nothing counts what it takes: started past the C library."""
        self.daemon()
        names = ("ALLOT_TENANT_DIR", *(n for n in self.env if n.startswith("ALLOT_SIM")), "LD_LIBRARY_PATH")
        program = self.program(cli_lib.ALLOT, "run", "--name", "t", "--memory", "512MiB", "--", "sh", "-c",
                               'exec "$0" syscall ' + " ".join(f'{n}="${n}"' for n in names) + ' "$@"',
                               os.environ["EXECS"])
        cli_lib.wait_for(lambda: self.outside())
        self.assertGreater(self.outside()[program.pid]["bytes"], 1000 * MIB)

    def test_none_is_held(self):
        """Users begin as many as they like: a descriptor is had of those alone that are to be ended."""
        daemon = self.daemon()
        program = self.program()
        cli_lib.wait_for(lambda: program.pid in self.outside())
        files = f"/proc/{daemon.pid}/fd"
        self.assertNotIn("anon_inode:[pidfd]", {os.readlink(os.path.join(files, fd))
                                                for fd in os.listdir(files)})

    def test_killed(self):
        self.daemon(options=("--outside", "kill"))
        tenant = self.program(cli_lib.ALLOT, "run", "--name", "in", "--memory", "512MiB", "--")
        program = self.program()
        self.assertEqual(program.wait(60), -signal.SIGKILL)
        self.assertIn(f"killed: pid {program.pid} (", self.log())
        cli_lib.wait_for(lambda: not self.outside())
        self.assertIsNone(tenant.poll())

    def rogue(self, mib, *options):
        """A program of a tenant of 512 MiB that has more by a second copy of the driver."""
        copy = self.path("libcudb.so.1")
        with open(os.path.join(os.environ["SIM_LIBRARIES"], "libcuda.so.1"), "rb") as library:
            code = library.read()
        with open(copy, "wb") as library:
            library.write(code.replace(b"libcuda.so.1", b"libcudb.so.1"))
        process = self.start(cli_lib.ALLOT, "run", "--name", "t", "--memory", "512MiB", *options, "--",
                             sys.executable, "-c", ROGUE, copy, str(mib))
        self.assertEqual(process.stdout.readline(), "has it\n")
        return process

    def test_second_copy_of_the_driver(self):
        """What a tenant has beyond its quota is seen in either mode of accounting."""
        self.daemon(options=("--outside", "kill"))
        honest = self.program(cli_lib.ALLOT, "run", "--name", "in", "--memory", "512MiB",
                              "--accounting", "driver", "--")
        for mode, knows in (("ledger", r"its tenant \"t\" knows of \d+ MiB"),
                            ("driver", r"its tenant \"t\" has a quota that leaves it 512 MiB")):
            rogue = self.rogue(1500, "--accounting", mode)
            self.assertEqual(rogue.wait(60), -signal.SIGKILL, mode)
            self.assertRegex(self.log(), rf"killed: pid {rogue.pid} \(.* has 1.\d GiB of .*, and {knows}")
            cli_lib.wait_for(lambda: not self.outside())
        self.assertIsNone(honest.poll())

    def test_quota_that_was_lowered(self):
        """What a tenant was given once is no ground to end it, in either mode of accounting."""
        self.daemon(options=("--outside", "kill"))
        for mode in ("ledger", "driver"):
            program = self.program(cli_lib.ALLOT, "run", "--name", mode, "--memory", "1GiB",
                                   "--accounting", mode, "--")
            self.ok("set", mode, "--memory", "64MiB")
            # By now the one without a tenant was seen twice, and so was this one.
            self.assertEqual(self.program().wait(60), -signal.SIGKILL)
            self.assertIsNone(program.poll(), mode)
            self.assertNotIn(f"pid {program.pid} ", self.log())

    def ledger(self, tenant):
        return os.path.join(self.env["ALLOT_RUNTIME_DIR"], tenant, "ledger")

    def check_is_let_be(self, spoil):
        """A limited program whose ledger the daemon cannot read any more, and one without any."""
        self.daemon(options=("--outside", "kill"))
        tenant = self.program(cli_lib.ALLOT, "run", "--name", "in", "--memory", "512MiB", "--")
        spoil(self.ledger("in"))
        program = self.program()
        self.assertEqual(program.wait(60), -signal.SIGKILL)
        cli_lib.wait_for(lambda: f"not known: pid {tenant.pid} (" in self.log())
        cli_lib.wait_for(lambda: self.samples()[key("allot_unread_processes")] == 1)
        cli_lib.wait_for(lambda: self.samples()[key("allot_outside_processes")] == 0)
        self.assertIsNone(tenant.poll())
        outsider, = json.loads(self.ok("ps", "--json"))["outside"]
        self.assertEqual((outsider["pid"], outsider["standing"]), (tenant.pid, "unread"))
        self.assertNotIn("NOT LIMITED", self.ok("ps"))
        self.assertIn("NOT SEEN", self.ok("ps"))
        tenant.communicate("\n")
        self.assertEqual(tenant.returncode, 0)

    def test_ledger_of_another_version(self):
        def spoil(ledger):
            with open(ledger, "r+b") as file:
                file.seek(8)
                version = int.from_bytes(file.read(4), "little")
                file.seek(8)
                file.write((version + 1).to_bytes(4, "little"))

        self.check_is_let_be(spoil)

    def test_ledger_that_is_open_to_others(self):
        self.check_is_let_be(lambda ledger: os.chmod(ledger, 0o644))

    @unittest.skipUnless(os.geteuid(), "root reads it by its mapping (apart.py)")
    def test_ledger_that_is_gone(self):
        self.check_is_let_be(lambda ledger: shutil.rmtree(os.path.dirname(ledger)))

    @unittest.skipIf(cli_lib.NO_USERS, cli_lib.NO_USERS)
    def test_killed_of_a_user(self):
        """For which it needs to be more than of that number: all that the unit leaves to it counts."""
        sim = self.env["ALLOT_SIM_DIR"]
        self.ok("sim", "--shared", "--dir", sim, "--memory", "4GiB", "--", "true")
        os.chmod(self.tmp, 0o755)
        self.daemon(options=("--outside", "kill"))
        program = self.program("setpriv", "--reuid=12345", "--regid=12345", "--clear-groups")
        self.assertEqual(program.wait(60), -signal.SIGKILL)
        self.assertIn(f"killed: pid {program.pid} (", self.log())

    def load(self, *before, program=os.environ["ALLOT_LOAD"]):
        """It, and the pid of its process that uses the device."""
        load = self.start(*before, program, "--loops-per-us", "1", "--seconds", "5",
                          stderr=subprocess.DEVNULL)
        return load, json.loads(load.stdout.readline())["pids"][0]

    def ended(self, load):
        """By allotd."""
        self.assertNotEqual(load[0].wait(60), 0)
        self.assertIn(f"killed: pid {load[1]} ", self.log())

    def standings(self):
        return {o["pid"]: o["standing"] for o in json.loads(self.get("/v1/node")[2])["outside"] or ()}

    def test_own_tools(self):
        """What allot bench and allot topo --measure run is in no tenant, and is root's to run: it is
        told, and let be. What others make of the same file, or call so, is ended."""
        self.daemon(options=("--outside", "kill"))
        tool, pid = self.load()
        cli_lib.wait_for(lambda: self.standings().get(pid) == "tool")
        fake = self.path("allot-load")
        shutil.copy(os.environ["ALLOT_LOAD"], fake)
        self.ended(self.load(program=fake))
        self.assertEqual(tool.wait(60), 0)
        self.assertNotIn(f"killed: pid {pid} ", self.log())
        self.assertEqual(self.samples()[key("allot_unread_processes")], 0)

    @unittest.skipIf(cli_lib.NO_USERS, cli_lib.NO_USERS)
    def test_own_tools_of_users(self):
        """A user has any code run in them (LD_PRELOAD): theirs are measured in a tenant."""
        sim = self.env["ALLOT_SIM_DIR"]
        self.env["ALLOT_SIM_GPUS"] = "2"
        self.ok("sim", "--shared", "--dir", sim, "--gpus", "2", "--memory", "4GiB", "--", "true")
        os.chmod(self.tmp, 0o755)
        self.daemon(options=("--outside", "kill"))
        user = ("setpriv", "--reuid=12345", "--regid=12345", "--clear-groups")
        self.ended(self.load(*user))
        # A capability less than all of root's is not root, as in a container.
        self.ended(self.load("setpriv", "--bounding-set=-sys_admin"))
        for before in ((), user):
            done = subprocess.run([*before, cli_lib.ALLOT, "topo", "--measure"], env=self.env, text=True,
                                  capture_output=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout, r"NVLink +18 +478.1 +\d")
        self.assertNotRegex(self.log(), "killed.*allot-links")

    def test_stopped(self):
        self.daemon(options=("--outside", "stop"))
        program = self.program()

        def state():
            with open(f"/proc/{program.pid}/stat", encoding="utf-8") as stat:
                return stat.read().rpartition(") ")[2][0]

        cli_lib.wait_for(lambda: state() == "T")
        cli_lib.wait_for(lambda: "stopped: pid" in self.log())
        self.assertIn(program.pid, self.outside())

    def test_device_is_lost(self):
        self.env.update(ALLOT_SIM_GPUS="2", ALLOT_SIM_NVML_LOST=os.path.join(self.tmp, "lost"))
        self.daemon()

        def lost():
            return [value for (name, _), value in sorted(self.samples().items())
                    if name == "allot_device_lost"]

        cli_lib.wait_for(lambda: lost() == [0, 0])
        program = self.program()
        cli_lib.wait_for(lambda: program.pid in self.outside())
        for index in "01":
            self.path("lost" + index, "")
        cli_lib.wait_for(lambda: lost() == [1, 1])
        self.assertEqual(self.outside(), {})
        os.unlink(os.path.join(self.tmp, "lost0"))
        cli_lib.wait_for(lambda: sorted(lost()) == [0, 1])
        cli_lib.wait_for(lambda: program.pid in self.outside())

    def test_what_it_can_do(self):
        done = subprocess.run([daemon_lib.ALLOTD, "--outside", "eat"], env=self.env, text=True,
                              capture_output=True, timeout=60, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn('--outside "eat": it is report, stop or kill', done.stderr)


if __name__ == "__main__":
    cli_lib.main()
