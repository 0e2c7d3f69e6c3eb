# SPDX-License-Identifier: Apache-2.0
"""A Kubernetes of real parts on this machine: etcd, API server, scheduler, controllers, and nodes that have
containerd, a kubelet and allotd each, with simulated GPUs.

All of it lives in namespaces of its own (mounts, processes, network; see main), so that it ends with them
and changes nothing of the machine's: what the kubelet writes to the kernel's settings goes into files."""

import contextlib
import fcntl
import hashlib
import io
import json
import os
import pathlib
import re
import shutil
import signal
import ssl
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.error
import urllib.request

from proxy import Proxy

BUILD = pathlib.Path(os.environ["ALLOT_BUILD"]).resolve()
PARTS = pathlib.Path(os.environ["KUBERNETES"]).resolve()  # what tools/kubernetes made, or found
SOURCE = pathlib.Path(__file__).resolve().parents[2]
os.environ["PATH"] = ":".join([*(f"{PARTS}/{part}" for part in ("bin", "root/usr/bin", "root/usr/sbin")),
                               os.environ["PATH"]])
IMAGE = "docker.io/library/allot-check:1"
GPUS, GPU_GIB = 8, 512
SLOTS, MEMORY, CORES = ("huawei.com/vgpu-number", "huawei.com/vgpu-memory.1Gi", "huawei.com/vgpu-cores")
RESOURCES = (SLOTS, MEMORY, CORES)
# The kubelet sets these for the whole machine.
SETTINGS = {"vm/overcommit_memory": 1, "vm/panic_on_oom": 0, "kernel/panic": 10, "kernel/panic_on_oops": 1,
            "kernel/keys/root_maxkeys": 1000000, "kernel/keys/root_maxbytes": 25000000}
PRIVATE = ("/var/lib/kubelet", "/var/lib/containerd", "/var/log/pods", "/var/log/containers", "/etc/cdi",
           "/opt/cni", "/etc/cni/net.d", "/var/lib/cni", "/etc/kubernetes", "/usr/libexec/kubernetes", "/var/lib/allot", "/etc/xpu")
RUNTIME = "unix:///run/containerd/containerd.sock"
TOKEN, ISSUER = "check", "https://kube.test"
API = "https://127.0.0.1:16443"

CONTAINERD = """version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{image}"
  restrict_oom_score_adj = true
  enable_cdi = true
  cdi_spec_dirs = ["/etc/cdi", "/var/run/cdi"]
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "/etc/cni/net.d"
"""
# Most Pods have the node's network. Without a network's configuration the node is not ready, though.
NO_NETWORK = {"cniVersion": "0.4.0", "name": "none", "plugins": [{"type": "loopback"}]}
SERVICE = "10.0.0.1"  # the API server's, for Pods
CONF = """[kubernetes]
ways = {way}
nvidia-cdi = none
node = {name}
api = {api}
account = {account}
{more}"""
DRIVER, SPACE = "gpu.allot.dev", "allot-system"
RESOURCE_API = "/apis/resource.k8s.io/v1"


def must(*args, **kwargs):
    done = subprocess.run([str(a) for a in args], text=True, capture_output=True, timeout=120,
                          stdin=subprocess.DEVNULL, check=False, **kwargs)
    assert done.returncode == 0, (args, done.stdout, done.stderr)
    return done.stdout


def version_of_kubelet():
    """(major, minor)"""
    found = re.search(r"v(\d+)\.(\d+)\.", must("kubelet", "--version"))
    return int(found[1]), int(found[2])


VERSION = version_of_kubelet()
HAS_DRA = VERSION >= (1, 34)
# What is on by itself from 1.36 on.
GATES = ["--feature-gates=" + ",".join(f"{gate}=true" for gate in (
    "DRAConsumableCapacity", "DRADeviceTaints", "DRAExtendedResource", "ResourceHealthStatus"))
         ] if (1, 34) <= VERSION < (1, 36) else []


def wait(condition, seconds, why):
    """What the condition answers, once that is something."""
    end = time.monotonic() + seconds
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > end:
            raise AssertionError(why() if callable(why) else why)
        time.sleep(0.05)


class Programs:
    """Those that were started, each with a log of its own."""

    def __init__(self, top):
        self.top = top
        self.running = {}

    def start(self, name, *args, env=None, prefix=()):
        with open(self.top / f"{name}.log", "ab") as log:
            self.running[name] = subprocess.Popen(
                [*prefix, *(str(a) for a in args)], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                cwd="/", start_new_session=True, env={**os.environ, **(env or {})})

    def stop(self, name, how=signal.SIGTERM):
        program = self.running.pop(name)
        program.send_signal(how)
        program.wait(30)

    def lives(self, name):
        return self.running[name].poll() is None

    def log(self, name):
        return (self.top / f"{name}.log").read_text(encoding="utf-8", errors="replace")


def write(path, what):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(what if isinstance(what, str) else json.dumps(what), encoding="utf-8")
    return path


class Api:
    """The API server's client."""

    def __init__(self):
        self.context = ssl._create_unverified_context()  # its certificate is its own

    def call(self, method, path, body=None, token=TOKEN):
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        request = urllib.request.Request(
            API + path, method=method, data=json.dumps(body).encode() if body else None,
            headers={"Authorization": "Bearer " + token, "Content-Type": kind})
        with urllib.request.urlopen(request, context=self.context, timeout=30) as answer:
            text = answer.read()
        return json.loads(text) if text[:1] == b"{" else text.decode()

    def ready(self):
        try:
            return self.call("GET", "/readyz") == "ok"
        except (OSError, urllib.error.URLError):
            return False

    def find(self, path):
        try:
            return self.call("GET", path)
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise
            return None


class Image:
    """An image of this machine's files, as `docker save` has it."""

    PROGRAMS = ("sh", "cat", "env", "sleep", "echo")

    def __init__(self, top):
        root = top / "root"
        for folder in ("bin", "etc", "proc", "dev", "sys", "run", "tmp"):
            (root / folder).mkdir(parents=True)
        needed = set()
        for program in [*map(shutil.which, self.PROGRAMS), BUILD / "examples/fill"]:
            shutil.copy(program, root / "bin")
            needed.update(re.findall(r"(/\S+) \(0x", must("ldd", program)))
        for library in needed:
            (root / library[1:]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, root / library[1:])
        self.archive = top / "image.tar"
        self.pack(root)

    def pack(self, root):
        layer = io.BytesIO()
        with tarfile.open(fileobj=layer, mode="w") as tar:
            tar.add(root, ".")
        layer = layer.getvalue()
        config = json.dumps({
            "architecture": "amd64", "os": "linux",
            "config": {"Env": ["PATH=/bin"], "Cmd": ["/bin/sleep", "infinity"]},
            "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]}})
        manifest = json.dumps([{"Config": "config.json", "RepoTags": [IMAGE], "Layers": ["layer.tar"]}])
        with tarfile.open(self.archive, "w") as tar:
            for name, text in (("layer.tar", layer), ("config.json", config.encode()),
                               ("manifest.json", manifest.encode())):
                info = tarfile.TarInfo(name)
                info.size = len(text)
                tar.addfile(info, io.BytesIO(text))


class Node:
    def __init__(self, cluster, number):
        self.cluster, self.number = cluster, number
        self.name = f"node{number}"
        self.address = f"10.99.0.{number}"
        self.top = cluster.top / self.name
        self.devices = self.top / "devices"
        self.devices.mkdir(parents=True)
        self.programs = Programs(self.top)
        self.sim = {"ALLOT_SIM_DIR": str(self.devices), "LD_LIBRARY_PATH": str(cluster.sim),
                    "ALLOT_SIM_GPUS": str(GPUS), "ALLOT_SIM_MEMORY": f"{GPU_GIB}GiB",
                    "ALLOT_SIM_CONTEXT": "520MiB", "ALLOT_SIM_ISLAND": "2"}
        self.account = self.top / "account"
        self.account.mkdir()
        self.api = API  # as its allotd reaches it
        self.write_files()
        self.enter()

    # --- Namespace and files

    def write_files(self):
        write(self.top / "containerd.toml", CONTAINERD.format(image=IMAGE))
        write(self.top / "private/etc/cni/net.d/10-network.conflist", self.network())
        # A runtime's address is an option of older kubelets.
        newer = {"failCgroupV1": False, "containerRuntimeEndpoint": RUNTIME} if HAS_DRA else {}
        write(self.top / "kubelet.json", {
            **newer, "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"}, "address": self.address,
            "healthzBindAddress": self.address, "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self.cluster.cgroup}/{self.name}", "failSwapOn": False,
            "makeIPTablesUtilChains": False, "enforceNodeAllocatable": [], "resolvConf": "",
            # How soon a Pod is tried again whose claim could not be prepared; a minute where nothing is said.
            "syncFrequency": "10s", "nodeStatusUpdateFrequency": "1s", "imageGCHighThresholdPercent": 100,
            "evictionHard": {"memory.available": "0%", "nodefs.available": "0%"}})

    def network(self):
        """For the DaemonSet, a network of Pods as clusters have one."""
        if self.cluster.way != "daemonset":
            return NO_NETWORK
        subnet = f"10.88.{self.number}.0/24"
        return {"cniVersion": "0.4.0", "name": "pods", "plugins": [
            {"type": "bridge", "bridge": f"pods{self.number}", "isGateway": True,
             "ipam": {"type": "host-local", "ranges": [[{"subnet": subnet}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}

    def enter(self):
        """A mount namespace where what a node writes is its own, and a program that keeps it."""
        lines = ["set -e", "mount -t tmpfs -o mode=755 none /run",
                 f"mkdir /run/devices; mount --bind {self.devices} /run/devices"]
        for path in PRIVATE:
            own = self.top / f"private{path}"
            own.mkdir(parents=True, exist_ok=True)
            pathlib.Path(path).mkdir(parents=True, exist_ok=True)
            lines.append(f"mount --bind {own} {path}")
        for name, value in SETTINGS.items():
            if os.path.exists(f"/proc/sys/{name}"):
                own = write(self.top / f"settings/{name}", f"{value}\n")
                lines.append(f"mount --bind {own} /proc/sys/{name}")
        lines += [f": >{self.top}/entered", "exec sleep infinity"]
        self.programs.start("namespace", "unshare", "--mount", "--propagation", "private", "sh", "-c",
                            "\n".join(lines))
        wait((self.top / "entered").exists, 10, lambda: self.programs.log("namespace"))
        self.prefix = ("nsenter", f"--mount=/proc/{self.programs.running['namespace'].pid}/ns/mnt")

    def run(self, *args, env=None):
        return must(*self.prefix, *args, env={**os.environ, **(env or {})}, cwd="/")

    def start(self, name, *args, env=None):
        self.programs.start(name, *args, env=env, prefix=self.prefix)

    # --- Programs

    def start_containerd(self):
        self.start("containerd", "containerd", "--config", self.top / "containerd.toml")

        def has_image():
            with contextlib.suppress(AssertionError):
                for archive in filter(None, (self.cluster.archive, self.cluster.image.archive)):
                    done = self.run("ctr", "-n", "k8s.io", "images", "import", archive)
                return done
            return None
        wait(has_image, 30, lambda: self.programs.log("containerd"))

    def begin(self):
        self.start_containerd()
        self.truth = subprocess.Popen([BUILD / "tests/e2e/swap/swap_truth"], env={**os.environ, **self.sim},
                                      stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        wait(lambda: any(self.devices.iterdir()), 10, "there are no simulated devices")
        for path in (self.devices, *self.devices.rglob("*")):
            path.chmod(0o777)
        self.start_kubelet()
        if self.cluster.way == "daemonset":
            return
        # Every node of a cluster has such a one. allotd takes a list of no Pod at all for one that is not whole.
        self.create_own_pod("kube-system", "network")
        if self.cluster.way == "dra":
            self.take_account()
        self.start_allotd()

    def create_own_pod(self, space, name, **spec):
        """A Pod that stays on the node, whatever the tests do; not called as a static one, NAME-NODE."""
        return self.cluster.api.call("POST", f"/api/v1/namespaces/{space}/pods", {
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"{name}-{self.number}"},
            "spec": {"nodeName": self.name, "hostNetwork": True, "terminationGracePeriodSeconds": 1, **spec,
                     "containers": [{"name": name, "image": IMAGE, "imagePullPolicy": "Never"}]}})

    def take_account(self):
        """The token that a Pod of the DaemonSet would have on this node: it names the node."""
        pod = self.create_own_pod(SPACE, "allotd", serviceAccountName="allotd")
        path = f"/api/v1/nodes/{self.name}"
        wait(lambda: self.cluster.api.find(path), 60, lambda: self.programs.log("kubelet")[-4000:])
        said = self.cluster.api.call("POST", f"/api/v1/namespaces/{SPACE}/serviceaccounts/allotd/token", {
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": {"audiences": [ISSUER], "boundObjectRef": {
                "apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"],
                "uid": pod["metadata"]["uid"]}}})
        self.token = said["status"]["token"]
        write(self.account / "token", self.token)
        shutil.copy(self.cluster.top / "certs/apiserver.crt", self.account / "ca.crt")

    def start_kubelet(self):
        older = () if HAS_DRA else ("--container-runtime", "remote", "--container-runtime-endpoint", RUNTIME)
        self.start("kubelet", "kubelet", "--config", self.top / "kubelet.json", "--kubeconfig",
                   self.cluster.kubeconfig, "--hostname-override", self.name, "--node-ip", self.address,
                   *older, *GATES, "--v", "4" if self.cluster.way == "dra" else "2")

    def start_allotd(self):
        write(self.top / "allotd.conf", CONF.format(way=self.cluster.way, name=self.name, api=self.api,
                                                    account=self.account, more=self.cluster.more))
        self.start("allotd", self.cluster.allotd, "--foreground", "--config", self.top / "allotd.conf",
                   "--listen", f"{self.address}:9478",
                   env={**self.sim, "ALLOT_SIM_NVML_LOST": str(self.top / "lost")})

    def lose(self, index, lost=True):
        """The device falls off the bus for allotd, or is there again."""
        path = self.top / f"lost{index}"
        if lost:
            path.touch()
        else:
            path.unlink(missing_ok=True)

    def own_processes(self):
        """But for what keeps the namespace; and what is in containers."""
        space = os.readlink(f"/proc/{self.programs.running['namespace'].pid}/ns/mnt")
        keeper = self.programs.running["namespace"].pid
        cgroup = pathlib.Path("/sys/fs/cgroup/memory", self.cluster.cgroup, self.name)
        for path in cgroup.rglob("cgroup.procs"):
            yield from map(int, path.read_text().split())
        for path in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if os.readlink(path / "ns/mnt") == space and int(path.name) != keeper:
                    yield int(path.name)

    def crash(self):
        """All ends at once, and what is in memory is lost, as when the machine does."""
        for _ in range(3):
            for pid in [*self.own_processes()]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        for name in ("containerd", "kubelet", "allotd"):
            self.programs.running.pop(name).wait(30)
        self.run("sh", "-c", "tac /proc/self/mounts | while read -r _ at _; do "
                 "case $at in /run/devices) ;; /run/* | /var/lib/kubelet/?*) umount -l $at;; esac; done; "
                 "find /run -mindepth 1 -maxdepth 1 ! -name devices -exec rm -rf {} +")

    # --- What it says

    def said(self):
        """By `allot ps`."""
        return json.loads(self.run(self.cluster.allot, "ps", "--json", env=self.sim))

    def tenants(self):
        """{namespace/pod/container: tenant} of Pods."""
        return {"{namespace}/{name}/{container}".format(**t["pod"]): t
                for t in self.said()["tenants"] if t.get("pod")}

    def slice(self):
        """Of its devices, where allotd has written one."""
        found = [s for s in self.cluster.api.call("GET", f"{RESOURCE_API}/resourceslices")["items"]
                 if s["spec"].get("nodeName") == self.name and s["spec"]["driver"] == DRIVER]
        return found[0] if found else None

    def metrics(self):
        with urllib.request.urlopen(f"http://{self.address}:9478/metrics", timeout=30) as page:
            return page.read().decode()

    def allocatable(self):
        node = self.cluster.api.find(f"/api/v1/nodes/{self.name}")
        said = node["status"].get("allocatable", {}) if node else {}
        return {resource: int(said.get(resource, 0)) for resource in RESOURCES}

    def is_ready(self):
        node = self.cluster.api.find(f"/api/v1/nodes/{self.name}")
        return bool(node) and not node["spec"].get("taints") and any(
            c["type"] == "Ready" and c["status"] == "True" for c in node["status"]["conditions"])

    def log_of(self, pod, container, start=0):
        """Of a container's n-th start; None where there is none."""
        meta = pod["metadata"]
        path = (self.top / "private/var/log/pods" /
                f"{meta['namespace']}_{meta['name']}_{meta['uid']}" / container / f"{start}.log")
        return path.read_text(encoding="utf-8") if path.exists() else None

    def grants(self):
        """{slot or claim: its CDI file, by its path in the node}"""
        begin, end = "/run/cdi/allot.dev-grant-", ".json"
        paths = self.run("sh", "-c", f"ls {begin}*{end} 2>/dev/null || :").split()
        return {path[len(begin):-len(end)]: path for path in paths}


class Cluster:
    """
    `way` is how allotd runs: "device-plugin"; "dra", with the rights that deploy/kubernetes gives it; or "daemonset",
    where it is left to the DaemonSet of deploy/kubernetes, in `archive`, an image. `more` are further lines of its
    [kubernetes].
    """

    def __init__(self, nodes, way="device-plugin", archive=None, more=""):
        self.way, self.archive, self.more = way, archive, more
        self.top = pathlib.Path(os.environ["CLUSTER"])
        self.cgroup = self.top.name
        self.programs = Programs(self.top)
        must("ip", "link", "set", "lo", "up")
        self.copy_allot()
        self.image = Image(self.top)
        self.start_control()
        if way == "dra":
            self.apply(SOURCE / "deploy/kubernetes/overlays/dra")
        for controller in pathlib.Path("/sys/fs/cgroup").iterdir():
            for number in range(nodes):
                (controller / self.cgroup / f"node{number + 1}").mkdir(parents=True)
            # Nobody gets into one of these that names no processor.
            if controller.name == "cpuset":
                self.fill_cpuset(controller, nodes)
        for number in range(nodes):
            must("ip", "address", "add", f"10.99.0.{number + 1}/32", "dev", "lo")
        if way == "daemonset":
            self.serve_pods()
        self.nodes = [Node(self, number + 1) for number in range(nodes)]
        for node in self.nodes:
            node.begin()
        for node in self.nodes:
            wait(node.is_ready, 90, lambda node=node: node.programs.log("kubelet")[-4000:])
            wait(lambda node=node: self.offers(node), 30, lambda node=node: node.programs.log("allotd"))

    def serve_pods(self):
        """What kube-proxy does elsewhere: the service `kubernetes` is the API server."""
        must("ip", "address", "add", f"{SERVICE}/32", "dev", "lo")
        self.service = Proxy("127.0.0.1", 16443, (SERVICE, 443))

    def offers(self, node):
        return {"device-plugin": lambda: node.allocatable()[SLOTS] == 10 * GPUS, "dra": node.slice,
                "daemonset": lambda: True}[self.way]()

    def apply(self, folder, *args):
        """An API server that has just started does not say yet which fields there are."""
        refused = []

        def applied():
            try:
                return self.kubectl("apply", "-k", folder, *args)
            except AssertionError as error:
                if "openapi" not in str(error):
                    raise
                refused.append(error)
                return None
        return wait(applied, 60, lambda: refused[-1])

    def kubectl(self, *args):
        return must("kubectl", "--kubeconfig", self.kubeconfig, f"--cache-dir={self.top}/kubectl", *args)

    def fill_cpuset(self, controller, nodes):
        for path in (controller / self.cgroup, *(controller / self.cgroup / f"node{n + 1}"
                                                 for n in range(nodes))):
            for name in ("cpuset.cpus", "cpuset.mems"):
                value = (path.parent / name).read_text() if (path.parent / name).exists() else ""
                if value.strip():
                    (path / name).write_text(value)

    def copy_allot(self):
        """Where the node keeps it, as every user reaches it."""
        self.sim = self.top / "sim"
        for name in ("src/cli/allot", "src/daemon/allotd", "src/guest/liballot.so", "src/cdi/ld.so.preload",
                     "sim/libcuda.so.1", "sim/libnvidia-ml.so.1"):
            (self.top / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(BUILD / name, self.top / name)
        self.allot, self.allotd = self.top / "src/cli/allot", self.top / "src/daemon/allotd"

    def start_control(self):
        write(self.top / "tokens.csv", f'{TOKEN},admin,1,"system:masters"\n')
        must("openssl", "genrsa", "-out", self.top / "sa.key", "2048")
        self.kubeconfig = write(self.top / "kubeconfig", {
            "apiVersion": "v1", "kind": "Config", "current-context": "check",
            "clusters": [{"name": "check", "cluster": {"server": API, "insecure-skip-tls-verify": True}}],
            "users": [{"name": "check", "user": {"token": TOKEN}}],
            "contexts": [{"name": "check", "context": {"cluster": "check", "user": "check"}}]})
        self.start_etcd()
        self.start_api()
        self.api = Api()
        wait(self.api.ready, 90, lambda: self.programs.log("kube-apiserver")[-4000:])
        self.programs.start("kube-scheduler", "kube-scheduler", "--kubeconfig", self.kubeconfig,
                            "--authentication-kubeconfig", self.kubeconfig,
                            "--authorization-kubeconfig", self.kubeconfig, "--leader-elect=false", *GATES)
        self.start_controllers()

    def start_controllers(self):
        controllers = ["nodelifecycle", "podgc", "namespace", "garbagecollector"]
        if HAS_DRA:
            controllers.append("resourceclaim-controller")
        if self.way == "daemonset":
            controllers += ["daemonset-controller", "serviceaccount-controller",
                            "root-ca-certificate-publisher-controller"]
        self.programs.start("kube-controller-manager", "kube-controller-manager", "--kubeconfig",
                            self.kubeconfig, "--leader-elect=false", "--controllers", ",".join(controllers),
                            f"--root-ca-file={self.top}/certs/apiserver.crt", *GATES)

    def start_etcd(self):
        client, peer = "http://127.0.0.1:2379", "http://127.0.0.1:2380"
        self.programs.start("etcd", "etcd", "--data-dir", self.top / "etcd", "--listen-client-urls", client,
                            "--advertise-client-urls", client, "--listen-peer-urls", peer,
                            "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}",
                            "--unsafe-no-fsync")

    def start_api(self):
        key = self.top / "sa.key"
        self.programs.start("kube-apiserver", "kube-apiserver", "--etcd-servers=http://127.0.0.1:2379",
                            "--service-cluster-ip-range=10.0.0.0/24", f"--cert-dir={self.top}/certs",
                            "--secure-port=16443", "--bind-address=127.0.0.1",
                            "--advertise-address=10.99.0.1", "--kubelet-preferred-address-types=InternalIP",
                            f"--token-auth-file={self.top}/tokens.csv", "--authorization-mode=RBAC",
                            f"--service-account-key-file={key}", f"--service-account-signing-key-file={key}",
                            f"--service-account-issuer={ISSUER}",
                            *([] if self.way == "daemonset" else ["--disable-admission-plugins=ServiceAccount"]),
                            *GATES)

    # --- Pods

    PODS = "/api/v1/namespaces/default/pods"

    def container(self, name, limits, command, claims=(), **more):
        """With the simulated driver, as NVIDIA's CDI device brings the real one. `more`: variables of its own."""
        env = {**self.nodes[0].sim, "ALLOT_SIM_DIR": "/devices", **more}
        return {"name": name, "image": IMAGE, "imagePullPolicy": "Never", "command": command,
                "env": [{"name": k, "value": v} for k, v in env.items()],
                "volumeMounts": [{"name": "sim", "mountPath": str(self.sim), "readOnly": True},
                                 {"name": "devices", "mountPath": "/devices"}],
                "resources": {"limits": {k: str(v) for k, v in limits.items()},
                              **({"claims": [*claims]} if claims else {})}}

    def create(self, name, containers, env=None, **spec):
        """containers: {name: (limits, command[, claims])}; `env`: variables that the Pod's user gives them."""
        # The devices are each node's own, by one path.
        volumes = [{"name": "sim", "hostPath": {"path": str(self.sim)}},
                   {"name": "devices", "hostPath": {"path": "/run/devices"}}]
        return self.api.call("POST", self.PODS, {
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"hostNetwork": True, "terminationGracePeriodSeconds": 1,
                     "enableServiceLinks": False, "volumes": volumes, **spec,
                     "containers": [self.container(c, *what, **(env or {})) for c, what in containers.items()]}})

    def pod(self, name):
        return self.api.find(f"{self.PODS}/{name}")

    def delete(self, name, how=""):
        self.api.call("DELETE", f"{self.PODS}/{name}{how}")

    def node_of(self, pod):
        return next(n for n in self.nodes if n.name == pod["spec"].get("nodeName"))


def main(tests):
    """Runs `tests` in namespaces of their own, and leaves nothing of it."""
    if "CLUSTER" in os.environ:
        tests()
        return
    if not os.path.isdir("/sys/fs/cgroup/memory"):
        print("there are no cgroups of version 1, which is what is told to these kubelets", file=sys.stderr)
        sys.exit(77)
    # One at a time: the places to mount on are removed at the end.
    lock = open("/tmp/allot-kubernetes.lock", "wb")  # pylint: disable=consider-using-with
    fcntl.flock(lock, fcntl.LOCK_EX)
    top = pathlib.Path(tempfile.mkdtemp(prefix="allot-kubernetes-"))
    top.chmod(0o755)
    made = [path for path in PRIVATE if not os.path.exists(path)]
    try:
        done = subprocess.run(["unshare", "--mount", "--propagation", "private", "--net", "--pid", "--fork",
                               "--kill-child", "--mount-proc", sys.executable, *sys.argv],
                              env={**os.environ, "CLUSTER": str(top)}, check=False)
    finally:
        forget(top, made)
    sys.exit(done.returncode)


def forget_cgroups(name):
    """Once the last processes have left them: whether they are gone."""
    for controller in pathlib.Path("/sys/fs/cgroup").iterdir():
        for path, _, _ in os.walk(controller / name, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(path)
    return not [*pathlib.Path("/sys/fs/cgroup").glob(f"*/{name}")]


def forget(top, made):
    with contextlib.suppress(AssertionError):
        wait(lambda: forget_cgroups(top.name), 10, "")
    for path in made:  # places to mount on
        with contextlib.suppress(OSError):
            os.rmdir(path)
    if "KEEP" in os.environ:
        print(f"logs are in {top}", file=sys.stderr)
    else:
        shutil.rmtree(top, ignore_errors=True)
