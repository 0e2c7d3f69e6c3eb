# SPDX-License-Identifier: Apache-2.0
"""Containers that ask for devices of allot, by podman with runc and crun, as root and as another
user, with images made of this machine's files. Skipped where podman is not there, or cannot run."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest

BUILD = pathlib.Path(os.environ["ALLOT_BUILD"])
NEEDED = ("podman", "runc", "unshare", "setpriv")
GIB = 1 << 30
USER = 54321
# As large as the library takes it to be where NVML knows a process by another number.
CONTEXT = "520MiB"
# Less is lost at the end of a quota, of each of the families that `fill` tries.
LOST = 5 << 20
CONF = """[containers]
default_ulimits = []
[engine]
events_logger = "none"
"""


def run(*args, **kwargs):
    return subprocess.run([str(a) for a in args], text=True, capture_output=True, timeout=120,
                          stdin=subprocess.DEVNULL, check=False, **kwargs)


def must(*args, **kwargs):
    done = run(*args, **kwargs)
    assert done.returncode == 0, (args, done.stdout, done.stderr)
    return done.stdout


class World:
    """Files that every user reaches, and in a mount namespace of our own a /run, where runtimes look
    for what is told of devices."""

    def __init__(self):
        memory = os.path.isdir("/dev/shm") and not os.statvfs("/dev/shm").f_flag & os.ST_NOEXEC
        self.top = pathlib.Path(tempfile.mkdtemp(prefix="allot-cdi-",
                                                 dir="/dev/shm" if memory else None))
        self.top.chmod(0o755)
        must("mount", "-t", "tmpfs", "-o", "nosuid,nodev,mode=755", "none", "/run")
        self.allot = self.copy(os.environ["ALLOT"], "src/cli/allot")
        self.granter = os.environ.get("GRANTER") and self.copy(os.environ["GRANTER"], "src/daemon/granter")
        self.library = self.copy(os.environ["LIBALLOT"], "src/guest/liballot.so")
        self.preload = self.copy(BUILD / "src/cdi/ld.so.preload", "src/cdi/ld.so.preload")
        for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
            self.copy(BUILD / "sim" / name, "sim/" + name)
        self.sim = self.top / "devices"
        (self.top / "containers.conf").write_text(CONF, encoding="utf-8")
        self.env = {"PATH": os.environ["PATH"], "HOME": str(self.top),
                    "CONTAINERS_CONF": str(self.top / "containers.conf")}
        self.sim_env = {"ALLOT_SIM_DIR": str(self.sim), "LD_LIBRARY_PATH": str(self.top / "sim"),
                        "ALLOT_SIM_GPUS": "2", "ALLOT_SIM_MEMORY": "8GiB",
                        "ALLOT_SIM_CONTEXT": CONTEXT}
        self.root = self.image("glibc")
        self.archives = {"glibc": self.pack("glibc"), **self.pack_others()}
        self.podman = ["podman", "--runtime", "runc", "--cgroup-manager", "cgroupfs",
                       "--storage-driver", "vfs", "--root", self.top / "store",
                       "--runroot", "/run/containers", "--tmpdir", "/run/libpod"]

    def copy(self, what, to):
        (self.top / to).parent.mkdir(parents=True, exist_ok=True)
        return pathlib.Path(shutil.copy(what, self.top / to))

    def image(self, name):
        """A root with a shell and a few programs, and the libraries that these have here."""
        root = self.top / name
        for folder in ("bin", "etc", "proc", "dev", "sys", "run", "tmp"):
            (root / folder).mkdir(parents=True)
        needed = set()
        for program in [*map(shutil.which, ("sh", "cat", "env", "ln", "sleep")), os.environ["FILL"]]:
            shutil.copy(program, root / "bin")
            needed.update(re.findall(r"(/\S+) \(0x", must("ldd", program)))
        for library in needed:
            (root / library[1:]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, root / library[1:])
        return root

    def pack(self, name):
        archive = self.top / f"{name}.tar"
        must("tar", "-C", self.top / name, "--owner=0", "--group=0", "-cf", archive, ".")
        return archive

    def pack_others(self):
        """Images that the library does not reach. The loader's own name is in each program."""
        plain = (self.root / "bin/sh").read_bytes()
        loader = re.search(rb"/lib\w*/ld-linux[^\0]*", plain)[0]
        musl = self.root.with_name("musl")
        shutil.copytree(self.root, musl)
        (musl / "bin/sh").write_bytes(
            plain.replace(loader, b"/lib/ld-musl.so.1".ljust(len(loader), b"\0")))
        # Another loader by glibc's name, as there are for musl.
        named = self.root.with_name("named")
        shutil.copytree(self.root, named)
        (named / os.fsdecode(loader)[1:]).write_bytes(plain)
        bare = self.root.with_name("bare")
        shutil.copytree(self.root, bare)
        (bare / os.fsdecode(loader)[1:]).unlink()
        return {path.name: self.pack(path.name) for path in (musl, named, bare)}

    def forget(self):
        shutil.rmtree(self.top, ignore_errors=True)


class Case(unittest.TestCase):
    prefix = always = ()
    images = ("glibc", "musl", "named", "bare")
    runtime = pathlib.Path("/run/allot")

    @classmethod
    def setUpClass(cls):
        cls.env, cls.podman = WORLD.env, WORLD.podman
        cls.add_images()

    @classmethod
    def add_images(cls):
        for name in cls.images:
            if cls.run_podman("import", WORLD.archives[name], "allot-test-" + name).returncode:
                raise unittest.SkipTest("podman cannot make images here")
        if cls.run_podman("run", "--rm", "--network=none", *cls.always, "allot-test-glibc", "/bin/sh",
                          "-c", ":").returncode:
            raise unittest.SkipTest("podman cannot run a container here")

    @classmethod
    def run_podman(cls, *args):
        return run(*cls.prefix, *cls.podman, *args, env=cls.env, cwd="/")

    def must_podman(self, *args):
        done = self.run_podman(*args)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def setUp(self):
        self.sim = WORLD.sim
        self.sim.mkdir()
        self.addCleanup(shutil.rmtree, self.sim)
        self.truth_program = subprocess.Popen(
            [os.environ["TRUTH"]], env={**WORLD.env, **WORLD.sim_env}, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(self.truth_program.communicate)
        self.truth()
        # Whoever is in a container uses the devices.
        for path in (self.sim, *self.sim.rglob("*")):
            path.chmod(0o777)
        shutil.rmtree("/run/cdi", ignore_errors=True)
        must(WORLD.allot, "cdi", "generate", "--dir", "/run/cdi", "1GiB", "2GiB", env=WORLD.env)
        self.addCleanup(self.remove_all)

    def remove_all(self):
        """What podman itself leaves running behind a container's end may be in the way for a moment."""
        for _ in range(100):
            done = self.run_podman("rm", "--all", "--force", "--time", "0")
            if not done.returncode:
                return
            time.sleep(0.05)
        self.fail(done.stderr)

    def truth(self):
        """What the simulated devices say that is used of the first one, and was at most."""
        self.truth_program.stdin.write("\n")
        self.truth_program.stdin.flush()
        said = json.loads(self.truth_program.stdout.readline())
        return said["used"][0], said["peak"][0]

    def allot(self, *args, env=None):
        return run(*self.prefix, WORLD.allot, *args, env={**self.env, **(env or {})}, cwd="/")

    def tenants(self):
        done = self.allot("ps", "--json", env=WORLD.sim_env)
        self.assertEqual(done.returncode, 0, done.stderr)
        return {tenant["name"]: tenant for tenant in json.loads(done.stdout)["tenants"]}

    def arguments(self, *args, device="1GiB", options=(), image="glibc"):
        """Of podman, for a container with the simulated driver, as NVIDIA's device brings the real
        one."""
        volumes = (f"{WORLD.top}/sim:{WORLD.top}/sim:ro", f"{self.sim}:{self.sim}")
        return ["run", "--network=none", *self.always, f"--device=allot.dev/gpu={device}",
                *(f"--volume={volume}" for volume in volumes),
                *(f"--env={k}={v}" for k, v in WORLD.sim_env.items()), *options,
                "allot-test-" + image, *args]

    def run_in(self, *args, **kwargs):
        return self.run_podman(*self.arguments(*args, **kwargs))

    def refused(self, says, **kwargs):
        done = self.run_in("/bin/sh", "-c", "echo started", **kwargs)
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.assertNotIn("started", done.stdout)
        self.assertIn(says, done.stderr)

    @contextlib.contextmanager
    def filling(self, **kwargs):
        """A container that holds all that it gets: its tenant's name."""
        known = {*self.tenants()}
        options = ("--interactive", *kwargs.pop("options", ()))
        args = [*self.prefix, *self.podman,
                *self.arguments("/bin/fill", "--json", options=options, **kwargs)]
        process = subprocess.Popen([str(a) for a in args], env=self.env, cwd="/", text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            self.assertIn("CUDA_ERROR_OUT_OF_MEMORY", process.stdout.readline())
            new = {*self.tenants()} - known
            self.assertEqual(len(new), 1)
            yield new.pop()
        finally:
            process.communicate()


class Tests:
    def test_quotas(self):
        """Of containers with the same device each has its own, as the device itself counts."""
        wanted, names = 0, []
        with contextlib.ExitStack() as stack:
            for device, quota in (("1GiB", GIB), ("1GiB", GIB), ("2GiB", 2 * GIB)):
                names.append(stack.enter_context(self.filling(device=device)))
                wanted += quota
                used, peak = self.truth()
                self.assertLessEqual(peak, wanted)
                self.assertGreater(used, wanted - len(names) * LOST)
            tenants = self.tenants()
            self.assertEqual({*self.must_podman("ps", "--format={{.ID}}").split()}, {*names})
            for name in names:
                self.assertEqual(tenants[name]["state"], "running")
                process = tenants[name]["processes"][0]
                self.assertEqual(process["pid"], 1)
                self.assertIn(b"/bin/fill", pathlib.Path(
                    f"/proc/{process['host_pid']}/cmdline").read_bytes())
        self.assertEqual(self.tenants(), {})
        self.assertEqual(self.truth()[0], 0)

    def test_ways_in(self):
        """Processes that know nothing of the tenant's variables are of the tenant, too."""
        device = [f"{k}={v}" for k, v in WORLD.sim_env.items()]
        with self.filling() as name:
            for way in ((), ("/bin/env", "-i", *device)):
                done = self.run_podman("exec", name, *way, "/bin/fill")
                self.assertIn("CUDA_ERROR_OUT_OF_MEMORY", done.stderr)
            self.assertLessEqual(self.truth()[0], GIB)
            self.assertEqual({*self.tenants()}, {name})
            # Live; and whoever is in the container can read it still.
            self.assertEqual(self.allot("set", name, "--memory", "2GiB").returncode, 0)
            done = self.run_podman("exec", "--user=1000", name, "/bin/fill")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertGreater(self.truth()[1], 2 * GIB - LOST)
            self.assertLessEqual(self.truth()[1], 2 * GIB)

    def forge(self):
        """A tenant with more than the container has, by its own path in it."""
        said = self.allot("run", "--print-env", "--name", "forged", "--memory", "4GiB")
        self.assertEqual(said.returncode, 0, said.stderr)
        self.addCleanup(self.allot, "rm", "forged")
        path, = re.findall(r"^ALLOT_TENANT_DIR=(.*)$", said.stdout, re.M)
        return path

    def test_library_by_other_names(self):
        """LD_PRELOAD comes before /etc/ld.so.preload. Whatever it names, the container's tenant stays."""
        forged = self.forge()
        done = self.run_in("/bin/sh", "-c", """
            library=/opt/allot/liballot.so
            ln -s $library /tmp/link.so
            ln -s /opt/allot /tmp/linked
            cat $library >/tmp/copy.so
            for preload in $library /opt/allot/./liballot.so /tmp/link.so /tmp/linked/liballot.so /tmp/copy.so
            do
                export LD_PRELOAD=$preload
                echo "$LD_PRELOAD"
                env ALLOT_TENANT_DIR=$0 fill >&2 || exit
                env -u ALLOT_TENANT_DIR fill >&2 || exit
                env -u ALLOT_TENANT_DIR CUDA_DEVICE_MEMORY_LIMIT=4g fill >&2 || exit
            done""", forged, options=(f"--volume={forged}:{forged}",))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(done.stdout.split()), 5, done.stdout)
        self.assertEqual(done.stderr.count("the device says it has 1024 MiB"), 15, done.stderr)
        self.assertLessEqual(self.truth()[1], GIB)
        self.assertGreater(self.truth()[1], GIB - LOST)

    def test_environment_stays(self):
        """The library comes by /etc/ld.so.preload, in each program: none needs a variable for it."""
        done = self.run_in("/bin/sh", "-c", "sh -c env; env -i /bin/sh -c env")
        self.assertIn("ALLOT_TENANT_DIR", done.stdout)
        self.assertNotIn("LD_PRELOAD", done.stdout)

    def test_policy_is_read_only(self):
        done = self.run_in("/bin/sh", "-c", """
            cd /opt/allot/tenant
            for file in policy new ../liballot.so /etc/ld.so.preload; do
                (: >>$file) 2>/dev/null && echo wrote $file
            done
            [ -f lock ] && echo "writers of the policy can be kept off"
            : >>ledger && cat policy >/dev/null && echo reads""")
        self.assertEqual(done.stdout, "reads\n", done.stderr)

    def test_life(self):
        """As long as the container's first process, whether that uses a device or not."""
        done = self.run_in("/bin/sleep", "1000", options=("--detach", "--name=idle"))
        name = done.stdout[:12]
        for _ in range(2):
            self.assertEqual(self.tenants()[name]["state"], "idle")
            self.assertIn("lives", self.allot("rm", name).stderr)
            self.must_podman("kill", "idle")
            self.must_podman("wait", "idle")
            self.assertEqual(self.tenants(), {})
            self.must_podman("start", "idle")

    def test_fails_closed(self):
        """Without any of what it takes the container does not start."""
        self.refused("allot.dev/gpu=3GiB", device="3GiB")
        for path in (WORLD.allot, WORLD.library, WORLD.preload):
            path.rename(f"{path}.away")
            try:
                self.refused("")
            finally:
                pathlib.Path(f"{path}.away").rename(path)
        self.assertEqual(self.tenants(), {})
        shutil.rmtree(self.runtime, ignore_errors=True)
        for mode in (0o777, 0o755):
            self.runtime.mkdir()
            self.runtime.chmod(mode)
            shutil.chown(self.runtime, self.runtime.parent.stat().st_uid)
            self.refused("chmod 0700")
            shutil.rmtree(self.runtime)

    def test_user_namespaces(self):
        """Whoever owns the tenant's files there, all users of the container are of the tenant."""
        for options in self.namespaces:
            with self.subTest(options=options):
                done = self.run_in("/bin/sleep", "1000", options=("--detach", *options))
                self.assertEqual(done.returncode, 0, done.stderr)
                name = done.stdout[:12]
                for user in (0, 5, 1000, *self.own_users):
                    done = self.run_podman("exec", f"--user={user}", name, "/bin/fill")
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertIn("the device says it has 1024 MiB", done.stderr + done.stdout, user)
                # Live, and read by all of them; nobody there writes it.
                self.assertEqual(self.allot("set", name, "--memory", "2GiB").returncode, 0)
                for user in (0, 1000, *self.own_users):
                    done = self.run_podman("exec", f"--user={user}", name, "/bin/sh", "-c", """
                        cd /opt/allot/tenant && cat policy >/dev/null && : >>ledger && fill
                        for file in policy new ../liballot.so; do (: >>$file) && echo wrote $file; done""")
                    self.assertIn("the device says it has 2048 MiB", done.stderr + done.stdout, user)
                    self.assertNotIn("wrote", done.stdout)
                self.assertEqual({*self.tenants()}, {name})
                self.must_podman("kill", name)
                self.must_podman("wait", name)
                self.assertEqual(self.tenants(), {})
        self.assertLessEqual(self.truth()[1], 2 * GIB)


class Rootful(Tests, Case):
    namespaces = (("--uidmap=0:100000:5000",), ("--uidmap=0:100000:5000", "--user=1000"))
    own_users = ()

    def test_options(self):
        for options in (("--user=1000:1000",), ("--read-only",), ("--env=LD_PRELOAD=/x",),
                        ("--env=ALLOT_TENANT_DIR=/x", "--env=CUDA_DEVICE_MEMORY_LIMIT=4g"),
                        ("--tmpfs=/opt",)):
            with self.subTest(options=options), self.filling(options=options):
                self.assertLessEqual(self.truth()[1], GIB)

    def test_images(self):
        for image in ("musl", "named", "bare"):
            self.refused("its programs would run without a limit; take an image with glibc",
                         image=image)
        self.assertEqual(self.tenants(), {})


class Crun(Case):
    """Another runtime: it takes no cgroups but of version 2, and is silent about what hooks say."""
    always = ("--cgroups=disabled",)
    images = ("glibc", "musl")

    @classmethod
    def setUpClass(cls):
        if not shutil.which("crun"):
            raise unittest.SkipTest("no crun")
        if run("mount", "-t", "cgroup2", "none", "/sys/fs/cgroup").returncode:
            raise unittest.SkipTest("no cgroups of version 2")
        cls.addClassCleanup(must, "umount", "/sys/fs/cgroup")
        cls.env = WORLD.env
        cls.podman = ["crun" if word == "runc" else word for word in WORLD.podman]
        cls.add_images()

    def test_quota(self):
        said = WORLD.top / "said"
        with self.filling() as name:
            self.assertLessEqual(self.truth()[1], GIB)
            self.assertGreater(self.truth()[0], GIB - LOST)
            self.assertEqual(self.tenants()[name]["state"], "running")
        self.refused("src/cli/allot", image="musl",
                     options=(f"--annotation=run.oci.hooks.stderr={said}",))
        self.assertIn("its programs would run without a limit", said.read_text(encoding="utf-8"))


class Rootless(Tests, Case):
    """The files that root made serve every user, and each has tenants of their own."""
    namespaces = ((), ("--userns=keep-id",), ("--userns=keep-id", "--user=0"),
                  ("--userns=keep-id", "--user=1000"), ("--userns=keep-id:uid=7,gid=7",),
                  ("--uidmap=0:1:60000",))
    own_users = (USER,)
    images = ("glibc",)

    @classmethod
    def setUpClass(cls):
        if not shutil.which("newuidmap") or not os.path.exists("/etc/subuid"):
            raise unittest.SkipTest("no newuidmap, by which rootless containers have users")
        cls.home, runtime = WORLD.top / "home", pathlib.Path(f"/run/user/{USER}")
        cls.runtime = runtime / "allot"
        for name, line in (("passwd", f"allot-test:x:{USER}:{USER}::{cls.home}:/bin/sh"),
                           ("group", f"allot-test:x:{USER}:"), ("subuid", "allot-test:600000:65536"),
                           ("subgid", "allot-test:600000:65536")):
            copy = WORLD.copy(f"/etc/{name}", name)
            copy.write_text(f"{copy.read_text(encoding='utf-8')}{line}\n", encoding="utf-8")
            must("mount", "--bind", copy, f"/etc/{name}")
            cls.addClassCleanup(must, "umount", f"/etc/{name}")
        for path in (cls.home, runtime):
            path.mkdir(parents=True, exist_ok=True)
            path.chmod(0o700)
            os.chown(path, USER, USER)
        cls.prefix = ("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups")
        cls.env = {**WORLD.env, "HOME": str(cls.home), "XDG_RUNTIME_DIR": str(runtime)}
        cls.podman = WORLD.podman[:WORLD.podman.index("--root")]
        # It leaves a process that holds the user's namespaces.
        cls.addClassCleanup(cls.run_podman, "system", "migrate")
        cls.add_images()

    def test_file(self):
        LimitFile.test_file(self)

    def test_own_user(self):
        with self.filling(options=("--userns=keep-id",)):
            self.assertLessEqual(self.truth()[1], GIB)


class Grants(Case):
    """What Kubernetes gave to a container: the tenant has a name, and stays over the container's ends."""
    images = ("glibc",)
    grant = "0a1b-gpu"
    pod = {"sandbox-namespace": "default", "sandbox-name": "train-0", "container-name": "main",
           "sandbox-uid": "6f1c"}

    @classmethod
    def setUpClass(cls):
        if not WORLD.granter:
            raise unittest.SkipTest("built without what Kubernetes is told")
        super().setUpClass()

    def setUp(self):
        super().setUp()
        self.addCleanup(shutil.rmtree, self.runtime, ignore_errors=True)
        self.uuid = self.allot("topo", "--json", env=WORLD.sim_env)
        self.uuid = re.findall(r"GPU-[0-9a-f-]{36}", self.uuid.stdout)[0]
        self.give()

    def granter(self, *args):
        done = run(WORLD.granter, "/run/cdi", *args, env=self.env)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.split("\n")[:-1]

    def give(self, grant=grant, tenant="default.train-0.main", size=GIB):
        self.granter("put", grant, tenant, self.uuid, size, 250)

    def run_granted(self, *args, grants=(grant,), pod=pod, options=()):
        annotations = [f"--annotation=io.kubernetes.cri.{k}={v}" for k, v in pod.items()]
        args = self.arguments(*args, options=(*annotations, *options))
        at = args.index("--device=allot.dev/gpu=1GiB")
        args[at:at + 1] = [f"--device=allot.dev/grant={grant}" for grant in grants]
        return self.run_podman(*args)

    def fill(self, **kwargs):
        done = self.run_granted("/bin/fill", **kwargs)
        self.assertEqual(done.returncode, 0, done.stderr)
        return int(re.search("the device says it has ([0-9]+) MiB", done.stdout + done.stderr)[1])

    def test_names(self):
        """Whose it is, and what it may use; the next container of the Pod finds it as it was left."""
        self.assertEqual(self.fill(), 1024)
        tenant = self.tenants()["default.train-0.main"]
        self.assertEqual(tenant["pod"], {"namespace": "default", "name": "train-0",
                                         "container": "main", "uid": "6f1c"})
        self.assertEqual((tenant["state"], tenant["compute"]["policy"]), ("kept", "share"))
        self.assertEqual([d["share_permille"] for d in tenant["policy"]], [250])
        self.assertIn("default/train-0/main", self.allot("ps", env=WORLD.sim_env).stdout)
        self.assertEqual(self.allot("set", "default.train-0.main", "--memory", "2GiB").returncode, 0)
        self.assertEqual(self.fill(), 2048)
        self.assertLessEqual(self.truth()[1], 2 * GIB)

    def test_run_is_emptied(self):
        """As by a reboot, for as long as the grant's file is there; without it nothing starts."""
        self.assertEqual(self.fill(), 1024)
        shutil.rmtree(self.runtime)
        self.assertEqual(self.fill(), 1024)
        self.granter("drop", self.grant)
        done = self.run_granted("/bin/sh", "-c", "echo started")
        self.assertNotEqual(done.returncode, 0)
        self.assertNotIn("started", done.stdout)

    def test_end(self):
        """The tenant goes with the grant, but not while a process is in it."""
        self.give("other", "other", GIB)
        done = self.run_granted("/bin/fill", "--hold", options=("--detach",))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.fill(grants=("other",)), 1024)
        for _ in range(100):
            if self.tenants()["default.train-0.main"]["state"] == "running":
                break
            time.sleep(0.05)
        self.granter("drop", self.grant)
        self.granter("drop", self.grant)
        self.assertEqual(self.granter("sweep", self.runtime), ["1"])
        self.assertIn("default.train-0.main", self.tenants())
        self.remove_all()
        self.assertEqual(self.granter("sweep", self.runtime), ["0"])
        self.assertEqual([*self.tenants()], ["other"])

    def test_next_of_a_slot(self):
        """The grant is another tenant's by now: the first one's goes all the same."""
        self.assertEqual(self.fill(), 1024)
        self.give(tenant="default.train-1.main")
        self.assertEqual(self.granter("sweep", self.runtime), ["0"])
        self.assertEqual([*self.tenants()], [])
        self.assertEqual(self.fill(), 1024)
        self.assertEqual(self.granter("sweep", self.runtime), ["0"])
        self.assertEqual([*self.tenants()], ["default.train-1.main"])

    def test_two_grants(self):
        """One tenant for a container: it does not run in the one that happened to come last."""
        self.give("other", "other", 2 * GIB)
        done = self.run_granted("/bin/sh", "-c", "echo started", grants=(self.grant, "other"))
        self.assertNotEqual(done.returncode, 0)
        self.assertNotIn("started", done.stdout)
        self.assertIn("one tenant", done.stderr)

    def test_vgpu_config(self):
        """Programs that read such a file find what they expect, and cannot change it."""
        where = WORLD.top / "xpu"
        self.granter("put", self.grant, "xpu", self.uuid, GIB, 250, where)
        done = self.run_granted("/bin/sh", "-c", """
            cat /etc/xpu/vgpu.config; (: >>/etc/xpu/vgpu.config) 2>/dev/null && echo wrote; fill""")
        self.assertTrue(done.stdout.startswith("UsedMem:1024\nUsedCores:25\n"), done.stdout)
        self.assertNotIn("wrote", done.stdout)
        self.assertIn("the device says it has 1024 MiB", done.stdout + done.stderr)
        self.granter("drop", self.grant)

    def test_two_of_a_container(self):
        self.granter("beside", "0a1b-gpu-2", self.grant)
        self.assertEqual(self.fill(grants=(self.grant, "0a1b-gpu-2")), 1024)
        self.assertEqual({*self.granter("list", "0a1b")}, {self.grant, "0a1b-gpu-2"})
        self.assertEqual(self.granter("memo", self.grant), [f"for {self.grant}"])

    def test_another_grant(self):
        """A Pod's name is its user's: whoever finds one that gives another Pod's tenant gets no part of it."""
        self.assertEqual(self.fill(), 1024)
        self.give("0a1c-gpu", size=2 * GIB)
        done = self.run_granted("/bin/fill", grants=("0a1c-gpu",))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("0a1b-gpu", done.stderr)
        self.assertEqual(self.fill(), 1024)

    def test_another_pod_of_a_slot(self):
        """A later Pod of the same name has what it asks for, whatever its former one was given."""
        self.give("slot-0")
        self.assertEqual(self.fill(grants=("slot-0",)), 1024)
        self.assertEqual(self.allot("set", "default.train-0.main", "--memory", "2GiB").returncode, 0)
        self.assertEqual(self.fill(grants=("slot-0",)), 2048)
        self.assertEqual(self.fill(grants=("slot-0",), pod={**self.pod, "sandbox-uid": "7a2d"}), 1024)

    def test_shared(self):
        """Two Pods with one claim are one tenant."""
        done = self.run_granted("/bin/fill", "--hold", options=("--detach",))
        self.assertEqual(done.returncode, 0, done.stderr)
        for _ in range(100):
            if self.truth()[0] > GIB - LOST:
                break
            time.sleep(0.05)
        done = self.run_granted("/bin/fill", pod={**self.pod, "sandbox-name": "train-1"})
        self.assertIn("CUDA_ERROR_OUT_OF_MEMORY", done.stderr)
        self.assertLessEqual(self.truth()[1], GIB)
        self.assertEqual(len(self.tenants()), 1)


class LimitFile:
    """Containers with no device of allot, and with a file by which the library limits itself: the machine
    sees tenants."""

    def test_file(self):
        file = WORLD.top / "vgpu.config"
        file.write_text("UsedMem:1024\n", encoding="utf-8")
        mounts = (f"{file}:/etc/xpu/vgpu.config", f"{WORLD.top}/sim:{WORLD.top}/sim:ro", f"{self.sim}:{self.sim}",
                  f"{WORLD.library}:/opt/liballot.so")
        env = {**WORLD.sim_env, "LD_PRELOAD": "/opt/liballot.so"}
        args = [*self.prefix, *self.podman, "run", "--network=none", "--interactive", "--name=limited",
                *(f"--volume={mount}" for mount in mounts), *(f"--env={k}={v}" for k, v in env.items()),
                "allot-test-glibc", "/bin/fill", "--json"]
        with subprocess.Popen([str(a) for a in args], env=self.env, cwd="/", text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            try:
                self.assertEqual(json.loads(process.stdout.readline())["total"], GIB)
                full = self.must_podman("inspect", "--format={{.Id}}", "limited").strip()
                owner = f"@{USER}" if self.prefix else ""
                # Without a cgroup of its own there is no id.
                name = rf"^({full[:12]}|elsewhere-[0-9a-f.]+)/drop-in{owner}$"
                for who in {(), self.prefix}:
                    done = run(*who, WORLD.allot, "ps", "--json", cwd="/",
                               env={**(self.env if who else WORLD.env), **WORLD.sim_env})
                    shown = json.loads(done.stdout)
                    self.assertEqual(shown["outside"], [])
                    tenant, = shown["tenants"]
                    self.assertRegex(tenant["name"], name)
                    self.assertIn(tenant["container"], (full, None))
                    self.assertEqual([d["quota_bytes"] for d in tenant["devices"] if d["used_bytes"]], [GIB])
            finally:
                process.communicate()


    def run_by_mounts(self, folder):
        """As a kubelet mounts what Allocate answers where the runtime has no CDI."""
        preload = WORLD.top / "ld.so.preload"
        preload.write_text("/opt/allot/liballot.so\n", encoding="ascii")
        mounts = (f"{folder}:/etc/xpu:ro", f"{preload}:/etc/ld.so.preload:ro",
                  f"{WORLD.library}:/opt/allot/liballot.so:ro", f"{WORLD.top}/sim:{WORLD.top}/sim:ro",
                  f"{self.sim}:{self.sim}")
        args = [*self.prefix, *self.podman, "run", "--rm", "--network=none",
                *(f"--volume={mount}" for mount in mounts), *(f"--env={k}={v}" for k, v in WORLD.sim_env.items()),
                "allot-test-glibc", "/bin/fill", "--json"]
        return subprocess.run([str(a) for a in args], env=self.env, cwd="/", text=True, capture_output=True,
                              stdin=subprocess.DEVNULL, check=False)

    def test_folder(self):
        folder = WORLD.top / "limits"
        folder.mkdir()
        self.addCleanup(shutil.rmtree, folder)
        (folder / "vgpu.config").write_text("UsedMem:1024\nUsedCores:25\n", encoding="ascii")
        done = self.run_by_mounts(folder)
        self.assertEqual(json.loads(done.stdout.splitlines()[0])["total"], GIB, done.stderr)
        (folder / "vgpu.config").unlink()
        done = self.run_by_mounts(folder)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("/etc/xpu is mounted and has no vgpu.config", done.stderr)


class RootfulLimitFile(LimitFile, Case):
    images = ("glibc",)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class ByDaemon(Rootless):
    """allotd makes them as it makes all tenants of users: it shows them, bounds them and ends nobody."""

    def setUp(self):
        super().setUp()
        config = WORLD.top / "allotd.conf"
        config.write_text("[default]\nmemory-max = 5GiB\n", encoding="utf-8")
        self.log = WORLD.top / "log"
        with open(self.log, "w", encoding="utf-8") as log:
            self.daemon = subprocess.Popen(
                [os.environ["ALLOTD"], "--listen", f"127.0.0.1:{free_port()}", "--outside", "kill", "--config", config],
                env={**WORLD.env, **WORLD.sim_env}, stderr=log)
        self.addCleanup(self.end)
        for _ in range(600):
            if os.path.exists("/run/allot-users/control"):
                break
            time.sleep(0.05)

    def end(self):
        self.daemon.terminate()
        self.daemon.wait(60)
        self.assertNotIn("limited: ", self.log.read_text(encoding="utf-8"))
        shutil.rmtree("/run/allot-users", ignore_errors=True)

    def tenants(self):
        """Without the user, which people leave out as well; it is root's list, too."""
        shown = super().tenants()
        done = run(WORLD.allot, "ps", "--json", env={**WORLD.env, **WORLD.sim_env})
        self.assertEqual({t["name"] for t in json.loads(done.stdout)["tenants"]}, {*shown})
        for name in shown:
            self.assertTrue(name.endswith(f"@{USER}"), name)
        return {name.partition("@")[0]: tenant for name, tenant in shown.items()}

    def test_bound(self):
        with contextlib.ExitStack() as stack:
            for _ in range(2):
                stack.enter_context(self.filling(device="2GiB"))
            self.refused("allotd refuses", device="2GiB")
            time.sleep(2.5)  # two looks of allotd's
            self.assertGreater(self.truth()[0], 4 * GIB - 2 * LOST)

    def test_others_do_not_reach_it(self):
        with self.filling() as name:
            for user, answer in ((USER, 0), (USER + 1, 1)):
                done = run("setpriv", f"--reuid={user}", f"--regid={USER}", "--clear-groups", "head", "-c0",
                           f"/run/allot-users/{name}@{USER}/ledger")
                self.assertEqual(done.returncode, answer, done.stderr)

    def test_fails_closed(self):
        """Where allotd was killed, its socket is still there, and nobody answers."""
        self.daemon.kill()
        self.daemon.wait(60)
        self.refused("allotd does not answer")
        self.assertEqual(self.tenants(), {})


if __name__ == "__main__":
    if os.geteuid() or not all(map(shutil.which, NEEDED)):
        print("not root, or without one of", *NEEDED)
        sys.exit(77)
    if "ALLOT_UNSHARED" not in os.environ:
        if run("unshare", "--mount", "true").returncode:
            print("no right to mount here")
            sys.exit(77)
        os.environ["ALLOT_UNSHARED"] = "1"
        os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", sys.executable,
                              *sys.argv])
    os.umask(0o022)
    WORLD = World()
    try:
        result = unittest.main(argv=[*sys.argv, "-v"], exit=False).result
    finally:
        WORLD.forget()
    sys.exit(not result.wasSuccessful() if result.testsRun else 77)
