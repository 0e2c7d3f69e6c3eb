# SPDX-License-Identifier: Apache-2.0
"""Tenants apart: made where nobody outside looks for tenants, as by the drop-in file of a container, and
known by the ledger that a process on a device has mapped."""

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

FILL, LOAD = os.environ["FILL"], os.environ["ALLOT_LOAD"]
LIBRARY = os.path.join(os.environ["ALLOT_BUILD"], "src/guest/liballot.so")
MIB = 1 << 20
QUOTA = 512 * MIB
# src/ledger/layout.h
ROWS, ROWS_BYTES = 532480, 1024 * 64
USER = 12345
# What a runtime does for a container that is given a limit file: folders of its own.
CONTAINER = """
mount -t tmpfs none /etc && mkdir /etc/xpu && echo UsedMem:512 > /etc/xpu/vgpu.config &&
mount -t tmpfs none /run || exit 99
unset ALLOT_RUNTIME_DIR; export LD_PRELOAD="$1"; shift; exec "$@"
"""


# Has a context on the device, and copies of the files in a folder mapped; slots live that somebody locks.
FAKE = """
import ctypes, fcntl, mmap, shutil, struct, sys
cuda, device, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), ctypes.c_void_p()
assert not cuda.cuInit(0) and not cuda.cuDeviceGet(ctypes.byref(device), 0)
assert not cuda.cuCtxCreate_v2(ctypes.byref(context), 0, device)
kept = []
for name in "ledger", "policy":
    shutil.copyfile(f"{sys.argv[1]}/{name}", f"/mnt/{name}")
    kept.append(open(f"/mnt/{name}", "r+b"))
    kept.append(mmap.mmap(kept[-1].fileno(), 0, prot=mmap.PROT_READ))
F_OFD_SETLK = 37
fcntl.fcntl(kept[0], F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 1 << 41, 1, 0))
print("ready", flush=True)
sys.stdin.readline()
"""


def has_namespaces():
    return not os.geteuid() and not subprocess.run(
        ["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"], check=False, capture_output=True).returncode


@unittest.skipUnless(shutil.which("unshare") and has_namespaces(), "mounts are made by root alone")
class Apart(daemon_lib.Case):
    def setUp(self):
        super().setUp()
        self.env.update(ALLOT_SIM_DIR=self.path("sim"), ALLOT_SIM_MEMORY="4GiB", ALLOT_SIM_CONTEXT="16MiB",
                        LD_LIBRARY_PATH=os.environ["SIM_LIBRARIES"])

    def container(self):
        """It has all of its limit, until the test ends."""
        program = self.start("unshare", "-m", "sh", "-c", CONTAINER, "sh", LIBRARY, FILL, "--json")
        self.assertEqual(json.loads(program.stdout.readline())["total"], QUOTA)
        return program

    def ledger(self, program):
        return f"/proc/{program.pid}/root/run/allot/drop-in/ledger"

    def ps(self):
        return json.loads(self.ok("ps", "--json"))

    def tenants(self):
        return {t["name"]: t for t in json.loads(self.get("/v1/node")[2])["tenants"]}

    def outside(self):
        return {o["pid"]: o for o in json.loads(self.get("/v1/node")[2])["outside"] or ()}

    def check_tenant(self, tenant, program, name=r"^elsewhere-[0-9a-f]+\.[0-9a-f]+/drop-in$"):
        shapes = cli_lib.documented()
        self.check_shape(tenant, "tenant", shapes)
        self.assertRegex(tenant["name"], name)
        self.assertEqual((tenant["apart"], tenant["error"], tenant["state"]), (True, None, "running"))
        device, = tenant["devices"]
        self.assertEqual(device["quota_bytes"], QUOTA)
        self.assertGreater(device["used_bytes"], QUOTA - 64 * MIB)
        process, = tenant["processes"]
        self.assertEqual(process["host_pid"], program.pid)

    def test_container(self):
        """A tenant like any other, for everybody who looks, and never ended."""
        self.daemon(options=("--outside", "kill"))
        program = self.container()
        around = self.start(FILL, "--json")
        shown = self.ps()
        tenant, = shown["tenants"]
        self.check_tenant(tenant, program)
        self.assertEqual(around.wait(60), -signal.SIGKILL)
        cli_lib.wait_for(self.tenants)
        self.check_tenant(self.tenants()[tenant["name"]], program)
        cli_lib.wait_for(lambda: not self.outside())
        found = self.samples()
        at = {"tenant": tenant["name"], "device": tenant["devices"][0]["uuid"]}
        self.assertEqual(found[key("allot_memory_quota_bytes", **at)], QUOTA)
        self.assertEqual(found[key("allot_tenant_processes", tenant=tenant["name"])], 1)
        self.assertEqual((found[key("allot_outside_processes")], found[key("allot_unread_processes")]),
                         (0, 0))
        table = self.ok("ps")
        self.assertIn(tenant["name"], table)
        self.assertNotIn("NOT ", table)
        self.assertIn(tenant["name"], self.ok("top", "--once", "--sort", "name"))
        self.assertNotIn(f"pid {program.pid} ", self.log())
        self.assertIn("there is no tenant", self.allot("set", tenant["name"], "--memory", "1GiB").stderr)
        program.communicate("\n")
        self.assertEqual(program.returncode, 0)
        cli_lib.wait_for(lambda: not self.tenants())

    def test_name_of_a_container(self):
        """By its id, as whoever runs containers names its cgroup."""
        roots = [root for root in ("/sys/fs/cgroup", "/sys/fs/cgroup/freezer")
                 if os.path.exists(os.path.join(root, "cgroup.procs"))]
        if not roots or not os.access(roots[0], os.W_OK):
            self.skipTest("cgroups cannot be made here")
        path = os.path.join(roots[0], os.urandom(32).hex())
        os.mkdir(path)
        programs = [self.container(), self.container()]
        self.addCleanup(os.rmdir, path)
        for program in programs:
            self.addCleanup(lambda p=program: (p.kill(), p.wait(60)))
            with open(os.path.join(path, "cgroup.procs"), "w", encoding="utf-8") as procs:
                procs.write(str(program.pid))
        # Two of one name in it are told apart.
        names = [t["name"] for t in self.ps()["tenants"]]
        short = os.path.basename(path)[:12]
        for name in names:
            self.assertRegex(name, rf"^{short}/~[0-9a-f]+\.[0-9a-f]+$")
        self.assertEqual(len(set(names)), 2)
        programs[1].communicate("\n")
        tenant, = self.ps()["tenants"]
        self.check_tenant(tenant, programs[0], rf"^{short}/drop-in$")
        self.assertEqual(tenant["container"], os.path.basename(path))

    def test_ledger_without_a_name(self):
        """A file that was removed is there as long as it is mapped."""
        self.daemon()
        program = self.container()
        shutil.rmtree(os.path.dirname(self.ledger(program)))
        cli_lib.wait_for(self.tenants)
        self.check_tenant(*self.tenants().values(), program)

    @unittest.skipIf(cli_lib.NO_USERS, cli_lib.NO_USERS)
    def test_users(self):
        """A user finds one's own tenants, by their paths, and nobody else's."""
        sim = self.env["ALLOT_SIM_DIR"]
        self.ok("sim", "--dir", sim, "--memory", "4GiB", "--", cli_lib.ALLOT, "topo")
        for path, mode in ((self.tmp, 0o755), (sim, 0o777), (os.path.join(sim, "region"), 0o666)):
            os.chmod(path, mode)
        user = ("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups")
        runtime = self.path("own")
        os.mkdir(runtime)
        os.chown(runtime, USER, USER)
        program = self.start(*user, "env", f"ALLOT_RUNTIME_DIR={runtime}/allot", cli_lib.ALLOT, "run",
                             "--name", "train", "--memory", "512MiB", "--", FILL, "--json")
        self.assertTrue(program.stdout.readline())
        roots = self.container()
        done = subprocess.run([*user, "env", f"ALLOT_RUNTIME_DIR={self.tmp}/none", cli_lib.ALLOT, "ps",
                               "--json"], env=self.env, text=True, capture_output=True, timeout=60,
                              check=True)
        shown = json.loads(done.stdout)
        tenant, = shown["tenants"]
        self.check_tenant(tenant, program, rf"^elsewhere-[0-9a-f.]+/train@{USER}$")
        self.assertEqual((tenant["uid"], tenant["container"]), (USER, None))
        self.assertEqual([(o["pid"], o["standing"]) for o in shown["outside"]], [(roots.pid, "hidden")])
        self.assertEqual({t["uid"] for t in self.ps()["tenants"]}, {None, USER})

    def test_tenants_that_take_turns(self):
        """The process that arranges their turns has the ledgers of all of them mapped."""
        own = {**self.env, "ALLOT_RUNTIME_DIR": self.path("own")}
        for name in "ab":
            process = subprocess.Popen(
                [cli_lib.ALLOT, "run", "--name", name, "--compute", "40", "--", LOAD, "--loops-per-us", "1",
                 "--seconds", "30"], env=own, stdout=subprocess.PIPE, start_new_session=True)
            self.addCleanup(process.wait)
            self.addCleanup(daemon_lib.kill_all, process)
            self.assertTrue(process.stdout.readline())

        def ledgers(pid):
            with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
                return len({line.split()[4] for line in maps if line.endswith("/ledger\n")})

        def users():
            return [p["host_pid"] for t in self.ps()["tenants"] for p in t["processes"]]

        cli_lib.wait_for(lambda: 2 in map(ledgers, users()))
        shown = self.ps()
        self.assertEqual(shown["outside"], [])
        self.assertEqual(sorted(t["name"].rpartition("/")[2] for t in shown["tenants"]), ["a", "b"])

    # --- What is not believed ------------------------------------------------------------------

    def check_unread(self, spoil):
        daemon = self.daemon(options=("--outside", "kill"))
        program = self.container()
        cli_lib.wait_for(self.tenants)
        spoil(self.ledger(program))
        self.assertEqual(self.tenants(), {})
        # A process more, so that ledgers are looked at again.
        self.assertEqual(self.start(FILL, "--json").wait(60), -signal.SIGKILL)
        cli_lib.wait_for(lambda: self.outside().get(program.pid, {}).get("standing") == "unread")
        self.assertEqual(self.samples()[key("allot_unread_processes")], 1)
        shown = self.ps()
        self.assertEqual((shown["tenants"], [o["standing"] for o in shown["outside"]]), ([], ["unread"]))
        self.assertIsNone(program.poll())
        self.assertIsNone(daemon.poll())

    def test_ledger_that_is_cut(self):
        self.check_unread(lambda ledger: os.truncate(ledger, 4096))

    def test_ledger_of_another_version(self):
        def spoil(ledger):
            with open(ledger, "r+b") as file:
                file.seek(8)
                file.write((99).to_bytes(4, "little"))

        self.check_unread(spoil)

    def standing(self, pid):
        return {o["pid"]: o["standing"] for o in self.ps()["outside"]}.get(pid)

    def test_copies(self):
        """A program that has copies of another's files mapped is not what they say. Where another program
        may be what answers for a file system, as on all that are not known, nobody waits for that."""
        real = self.container()
        for kind, tenants in (("tmpfs", 2), ("ramfs", 1)):
            fake = self.start("unshare", "-m", "sh", "-c", 'mount -t "$1" none /mnt && exec "$2" -c "$3" "$4"',
                              "sh", kind, sys.executable, FAKE, os.path.dirname(self.ledger(real)))
            self.assertTrue(fake.stdout.readline())
            self.assertEqual(len(self.ps()["tenants"]), tenants)
            self.assertEqual((self.standing(fake.pid), self.standing(real.pid)), ("unread", None))
            fake.communicate("\n")

    def test_ledger_that_is_forged(self):
        """It is said that there is more than the ledger says, which is no proof."""
        self.daemon(options=("--outside", "kill"))
        program = self.container()
        cli_lib.wait_for(self.tenants)
        name, = self.tenants()
        with open(self.ledger(program), "r+b") as file:
            file.seek(ROWS)
            file.write(bytes(ROWS_BYTES))
        other = self.start(FILL, "--json")
        self.assertEqual(other.wait(60), -signal.SIGKILL)
        cli_lib.wait_for(lambda: self.outside().get(program.pid, {}).get("tenant") == name)
        cli_lib.wait_for(lambda: self.samples()[key("allot_outside_processes")] == 1)
        self.assertIn(f"not limited: pid {program.pid} (", self.log())
        third = self.start(FILL, "--json")
        self.assertEqual(third.wait(60), -signal.SIGKILL)
        self.assertIsNone(program.poll())


if __name__ == "__main__":
    cli_lib.main()
