# SPDX-License-Identifier: Apache-2.0
"""Processes of every kind: crowds, forks, new programs, threads, deaths, namespaces."""

import os
import shutil
import signal
import subprocess
import sys

import bad_lib
from bad_lib import CONTEXT, GUEST, LIMIT


class Processes(bad_lib.Case):
    def test_crowd(self):
        """300 at once, of which not all fit: whoever fits gets it all, the others are refused."""
        crowd = [subprocess.Popen([GUEST, "init", "alloc", "4", "wait"], text=True,
                                  env={**self.env, **self.guest_env}, stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
                 for _ in range(300)]
        begun = held = 0
        for process in crowd:
            said = self.until_waiting(process)
            self.assertIn(said[0], ("init 0", "init 2"))
            self.assertIn(said[1], ("alloc 0", "alloc 2", "alloc 201"))
            begun += said[0] == "init 0"
            held += said[1] == "alloc 0"
        self.assertEqual(self.truth(), begun * CONTEXT + held * 4)
        self.assertEqual(self.used(), self.truth())
        self.assertLessEqual(self.truth(), LIMIT)
        self.assertGreater(self.truth(), LIMIT - 8)
        for process in crowd:
            process.kill()
        for process in crowd:
            process.wait()
            process.stdin.close()
            process.stdout.close()
        self.check_empty()

    def run_in(self, *words):
        """The words by `allot run`: the results, and what was said on stderr."""
        done = self.allot("run", "--name", "a", "--", GUEST, *words)
        return done.stdout.splitlines(), done.stderr

    def test_cleared_environment(self):
        """What a program does to its environment before its first call changes no limit."""
        full = ["init 0", f"alloc {bad_lib.OUT_OF_MEMORY}"]
        for words in ((), ("clear",), ("unset", "ALLOT_TENANT_DIR")):
            said, _ = self.run_in(*words, "init", "alloc", str(LIMIT))
            self.assertEqual(said, full)
        # Nor does what a new program finds in it, whatever limit it brings.
        said, _ = self.run_in("unset", "ALLOT_TENANT_DIR", "exec", "init", "alloc", str(LIMIT))
        self.assertEqual(said, full)
        done = self.allot("run", "--name", "a", "--", "env", "-u", "ALLOT_TENANT_DIR",
                          "CUDA_DEVICE_MEMORY_LIMIT=64g", GUEST, "init", "alloc", str(LIMIT))
        self.assertEqual(done.stdout.splitlines(), full)
        # One that is started past the C library has lost its tenant for good: it gets no GPU.
        for limit in ((), ("CUDA_DEVICE_MEMORY_LIMIT=64g",)):
            done = self.allot("run", "--name", "a", "--", "sh", "-c", 'exec "$0" syscall LD_PRELOAD="$LD_PRELOAD" '
                              'LD_LIBRARY_PATH="$LD_LIBRARY_PATH" ALLOT_SIM_DIR="$ALLOT_SIM_DIR" "$@"',
                              os.environ["EXECS"], *limit, GUEST, "init")
            self.assertEqual(done.stdout.splitlines(), [f"init {bad_lib.INVALID_VALUE}"])
            self.assertIn("ALLOT_TENANT_DIR is gone", done.stderr)
        self.check_empty()

    def test_tenant_beside_the_library(self):
        """As in a container: whatever the environment says of limits, or does not say."""
        beside = os.path.join(self.tmp, "beside")
        os.mkdir(beside)
        shutil.copy(os.environ["LIBALLOT"], beside)
        os.rename(self.tenant, beside + "/tenant")
        self.assertEqual(self.allot("run", "--name", "larger", "--memory", "1GiB",
                                    "--print-env").returncode, 0)
        larger = os.path.join(os.path.dirname(self.tenant), "larger")
        for library in ("/./liballot.so", "/liballot.so"):
            for env in ({}, {"CUDA_DEVICE_MEMORY_LIMIT": "1GiB"}, {"ALLOT_TENANT_DIR": larger},
                        {"ALLOT_TENANT_DIR": "nonsense"}):
                self.held_beside(beside + library, **env)

    def test_library_by_other_names(self):
        """Whatever name it has when it is loaded, and whatever other copies are: the tenant stays."""
        beside, elsewhere = os.path.join(self.tmp, "beside"), os.path.join(self.tmp, "elsewhere")
        for place in (beside, elsewhere):
            os.mkdir(place)
            shutil.copy(os.environ["LIBALLOT"], place + "/x.so")
        os.rename(self.tenant, beside + "/tenant")
        os.symlink(beside + "/x.so", self.tmp + "/link.so")
        os.symlink(beside, self.tmp + "/linked")
        own, copy = beside + "/./x.so", elsewhere + "/x.so"
        self.ok("run", "--name", "larger", "--memory", "1GiB", "--print-env")
        larger = os.path.join(os.path.dirname(self.tenant), "larger")
        for preload in (self.tmp + "/link.so", self.tmp + "/linked/x.so", f"{copy}:{own}",
                        f"{own}:{copy}", f"{self.tmp}/link.so:{copy}:{own}"):
            for env in ({}, {"ALLOT_TENANT_DIR": larger}):
                self.held_beside(preload, **env)
        # A relative name means another file where the program goes.
        self.guest_env = {"LD_PRELOAD": "./x.so"}
        said, _ = self.guest(f"chdir / init alloc {LIMIT}", prefix=("env", "-C", beside))
        self.assertEqual(said, ["init 0", f"alloc {bad_lib.OUT_OF_MEMORY}"])

    def test_what_is_no_tenant(self):
        """A folder of that name beside the library, which holds something else, is no limit."""
        beside = os.path.join(self.tmp, "beside")
        os.makedirs(beside + "/tenant/of_the_house")
        shutil.copy(os.environ["LIBALLOT"], beside)
        self.guest_env = {"LD_PRELOAD": beside + "/liballot.so"}
        said, err = self.guest(f"init alloc {LIMIT}")
        self.assertEqual((said, err), (["init 0", "alloc 0"], ""))

    def test_container_without_its_tenant(self):
        """Where the runtime called no hook: the list has the library, whatever LD_PRELOAD names first."""
        beside = os.path.join(self.tmp, "beside")
        os.mkdir(beside)
        shutil.copy(os.environ["LIBALLOT"], beside)
        prefix = ("unshare", "--mount", "sh", "-c", "mount -t tmpfs none /etc && "
                  f'echo {beside}/./liballot.so >/etc/ld.so.preload && exec "$@"', "sh")
        if os.geteuid() or subprocess.run([*prefix, GUEST], check=False,
                                          capture_output=True).returncode:
            self.skipTest("no mount namespace to be had")
        shutil.copy(os.environ["LIBALLOT"], beside + "/copy.so")
        for name in ("liballot.so", "copy.so"):
            for env in ({}, {"CUDA_DEVICE_MEMORY_LIMIT": "1GiB"}):
                self.guest_env = {"LD_PRELOAD": f"{beside}/{name}", **env}
                said, err = self.guest("init", prefix=prefix)
                self.assertEqual(said, [f"init {bad_lib.INVALID_VALUE}"], name)
                self.assertIn("ALLOT_TENANT_DIR is gone", err)

    def held_beside(self, preload, **env):
        self.guest_env = {"LD_PRELOAD": preload, **env}
        said, err = self.guest(f"init alloc {LIMIT - CONTEXT} alloc 4")
        self.assertEqual(said, ["init 0", "alloc 0", f"alloc {bad_lib.OUT_OF_MEMORY}"],
                         (self.guest_env, err))

    def test_fork_before(self):
        said, _ = self.guest("child init alloc 100 end clone init alloc 200 end init alloc 250")
        self.assertEqual(said, ["init 0", "alloc 0", "child 0", "init 0", "alloc 0", "clone 0",
                                "init 0", "alloc 0"])
        self.check_empty()

    def test_fork_after(self):
        """A child of a process that used the GPU cannot (as with the driver alone); no harm."""
        for fork in ("child", "clone"):
            said, _ = self.guest(f"init alloc 100 {fork} alloc 1 end alloc 200 free alloc 200")
            self.assertEqual(said, ["init 0", "alloc 0", "alloc 3", f"{fork} 0", "alloc 2",
                                    "free 0", "alloc 0"])
        self.check_empty()

    def test_child_outlives_its_parent(self):
        """What the parent held is free at its death, though the child has its memory still."""
        process, said = self.live("init alloc 200 orphan wait end die")
        self.assertEqual(said, ["init 0", "alloc 0"])
        self.assertEqual(process.wait(100), -signal.SIGKILL)
        bad_lib.wait_for(lambda: self.truth() == 0)
        self.check_empty()

    def test_new_programs(self):
        """They begin anew; an exec gives up what the program before it held."""
        for way in ("vfork", "spawn"):
            said, _ = self.guest(f"init alloc 100 {way} init alloc 200 alloc 100 end alloc 100")
            self.assertEqual(said, ["init 0", "alloc 0", "init 0", "alloc 2", "alloc 0", f"{way} 0",
                                    "alloc 0"])
        said, _ = self.guest(f"init alloc 100 exec init alloc {LIMIT - CONTEXT}")
        self.assertEqual(said, ["init 0", "alloc 0", "init 0", "alloc 0"])
        self.check_empty()

    def test_threads_constructor_and_exit(self):
        said, _ = self.guest("threads 8 init threads 8 alloc 4 atexit",
                             env={"BAD_CONSTRUCTOR": "1"})
        self.assertEqual(said, ["constructor init 0", "constructor alloc 0", "threads 0", "init 0",
                                "threads 0", "alloc 0", "atexit free 0", "atexit alloc 0"])
        self.check_empty()

    def test_signals_stay_the_programs(self):
        said, _ = self.guest("signals init alloc 100 alloc 200 free threads 4")
        self.assertEqual(said[-1], "signals 0")

    def test_nobody_listens(self):
        """The line that says why the GPU is refused ends no program: its stderr leads nowhere."""
        read, write = os.pipe()
        os.close(read)
        env = {**self.env, **self.guest_env, "ALLOT_TENANT_DIR": self.path("nowhere")}
        try:
            done = subprocess.run([GUEST, "init"], env=env, stdin=subprocess.DEVNULL, text=True,
                                  stdout=subprocess.PIPE, stderr=write, timeout=100,
                                  restore_signals=True, check=False)
        finally:
            os.close(write)
        self.assertEqual((done.returncode, done.stdout), (0, f"init {bad_lib.INVALID_VALUE}\n"))

    def test_library_comes_and_goes(self):
        program = """
import ctypes, _ctypes
for _ in range(20):
    cu = ctypes.CDLL("libcuda.so.1")
    context, block = ctypes.c_void_p(), ctypes.c_uint64()
    assert cu.cuInit(0) == 0 and cu.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert cu.cuCtxSetCurrent(context) == 0
    assert cu.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(200 << 20)) == 0
    assert cu.cuMemAlloc_v2(ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(200 << 20)) == 2
    assert cu.cuMemFree_v2(block) == 0
    _ctypes.dlclose(cu._handle)
"""
        subprocess.run([sys.executable, "-c", program], check=True, timeout=100,
                       env={**self.env, **self.guest_env})
        self.check_empty()

    def test_pid_namespaces(self):
        """Two processes that are number 1, each in its namespace: one quota, no mistaken death."""
        prefix = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
        if os.geteuid() or subprocess.run([*prefix, "true"], check=False,
                                          capture_output=True).returncode:
            self.skipTest("no PID namespaces to be had")
        # The driver lists them by other numbers; what a context takes the tenant learns out here.
        self.guest("init alloc 1")
        first, said = self.live("init alloc 100 wait", prefix)
        self.assertEqual(said, ["init 0", "alloc 0"])
        second, said = self.live("init alloc 100 alloc 100 wait alloc 100", (*prefix, *prefix))
        self.assertEqual(said, ["init 0", "alloc 0", "alloc 2"])
        self.assertEqual((self.truth(), self.used()), (204, 204))
        first.kill()
        first.wait()
        bad_lib.wait_for(lambda: self.truth() == 102)
        self.assertEqual(self.finish(second), ["alloc 0"])
        bad_lib.wait_for(lambda: self.truth() == 0)
        self.check_empty()

    def test_hidden_processes(self):
        """With hidepid, where a process cannot see others' /proc."""
        prefix = ("unshare", "--mount", "sh", "-c",
                  'mount -t proc -o hidepid=2 proc /proc && exec setpriv --reuid 65534 '
                  '--regid 65534 --clear-groups --bounding-set=-all "$0" "$@"')
        if os.geteuid() or subprocess.run([*prefix, GUEST], check=False,
                                          capture_output=True).returncode:
            self.skipTest("no hidepid to be had")
        for directory, _, files in os.walk(self.tmp):
            for name in (".", *files):
                os.chown(os.path.join(directory, name), 65534, 65534, follow_symlinks=False)
        first, said = self.live("init alloc 100 wait", prefix)
        self.assertEqual(said, ["init 0", "alloc 0"])
        said, _ = self.guest("init alloc 200 alloc 100", prefix=prefix)
        self.assertEqual(said, ["init 0", "alloc 2", "alloc 0"])
        first.kill()
        first.wait()
        said, _ = self.guest("init alloc 200", prefix=prefix)
        self.assertEqual(said, ["init 0", "alloc 0"])


if __name__ == "__main__":
    bad_lib.main()
