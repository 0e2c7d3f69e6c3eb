# SPDX-License-Identifier: Apache-2.0
"""A kubelet's side of dynamic resource allocation by gRPC's own library, and an API server with claims."""

import http.server
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import uuid

from grpcio import grpc

SECONDS = 60  # for a hang
DRIVER = "gpu.allot.dev"
PLUGIN = "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/"
GPUS = [f"00000000-0000-0000-0000-00000000000{n}" for n in (1, 2)]


def messages():
    """The modules that protoc makes of the messages."""
    if not shutil.which("protoc"):
        print("protoc is not installed")
        sys.exit(77)
    folder = tempfile.mkdtemp(prefix="allot-proto-")
    try:
        subprocess.run(["protoc", f"--proto_path={os.environ['PROTO']}", f"--python_out={folder}",
                        "dra.proto", "health.proto", "registration.proto"], check=True)
        sys.path.insert(0, folder)
        import dra_pb2
        import health_pb2
        import registration_pb2
    finally:
        shutil.rmtree(folder)
    return dra_pb2, health_pb2, registration_pb2


dra, health, registration = messages()


def simulate_gpus(case):
    """
    The environment of programs that see two simulated GPUs, which are the same for all of them: they last as
    long as what `allot sim` runs, until the test's end.
    """
    sim = subprocess.Popen([os.environ["ALLOT"], "sim", "--gpus", "2", "--memory", "24GiB", "--",
                            "sh", "-c", "env; echo; cat"],
                           stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    for cleanup in (sim.wait, sim.stdout.close, sim.stdin.close):
        case.addCleanup(cleanup)
    return dict(line.rstrip("\n").split("=", 1) for line in iter(sim.stdout.readline, "\n") if "=" in line)


def start_allotd(case, ways, port):
    """allotd, as the case's node; who ends it is the caller."""
    conf = case.path("allotd.conf")
    with open(conf, "w", encoding="utf-8") as file:
        file.write(f"[kubernetes]\nways = {ways}\nnode = node1\nnvidia-cdi = nvidia.com/gpu\n"
                   f"kubelet = {case.kubelet}\ncdi = {case.cdi}\napi = {case.api.url()}\n"
                   f"account = {case.folder}\nxpu = {case.folder}/xpu\n")
    os.chmod(conf, 0o644)
    with open(case.log, "a", encoding="utf-8") as log:
        return subprocess.Popen(
            [os.environ["ALLOTD"], "--foreground", "--listen", f"127.0.0.1:{port}", "--config", conf],
            stdin=subprocess.DEVNULL, stderr=log,
            env={**case.env, "ALLOT_RUNTIME_DIR": case.path("run")})


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def wait_for(done, seconds=SECONDS):
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            raise AssertionError("it did not come to that")
        time.sleep(0.01)


def result(request="main", gpu=0, memory="8Gi", cores="25", **more):
    ret = {"request": request, "driver": DRIVER, "pool": "node1", "device": f"gpu-{GPUS[gpu]}", **more}
    if memory:
        ret["shareID"] = str(uuid.uuid4())
        ret["consumedCapacity"] = {"memory": memory, "cores": cores}
    return ret


def config(requests=(), **parameters):
    return {"source": "FromClaim", "requests": list(requests), "opaque": {"driver": DRIVER, "parameters": {
        "apiVersion": "allot.dev/v1", "kind": "GpuConfig", **parameters}}}


class Api:
    """Claims by name. Those in `hanging` are never answered until it is empty."""

    def __init__(self):
        self.claims = {}
        self.added = 0
        self.asked, self.answered = [], []
        self.hanging = set()
        self.status = {}
        self.bodies = {}
        api = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self):
                name = self.path.rsplit("/", 1)[1]
                api.asked.append(self.path)
                while name in api.hanging:
                    time.sleep(0.02)
                found = api.claims.get(name)
                status = api.status.get(name, 200 if found else 404)
                body = api.bodies.get(name) or json.dumps(found or {"kind": "Status", "code": 404, "reason": "NotFound",
                                            "details": {"name": name, "kind": "resourceclaims"}}).encode()
                try:
                    self.send_response(status)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)
                except OSError:
                    self.close_connection = True
                api.answered.append(self.path)

            def log_message(self, *args):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

        self.server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def url(self):
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def add(self, *results, configs=()):
        """A claim that is allocated, as the kubelet names it."""
        claim = dra.Claim(namespace="default", name=f"claim-{self.added}", uid=str(uuid.uuid4()))
        self.added += 1
        self.claims[claim.name] = {
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
            "metadata": {"namespace": "default", "name": claim.name, "uid": claim.uid},
            "status": {"allocation": {"devices": {"results": list(results or [result()]),
                                                  "config": list(configs)}}}}
        return claim

    def close(self):
        self.hanging.clear()
        self.server.shutdown()
        self.server.server_close()


class Case(unittest.TestCase):
    """A host of the driver, in a folder of its own."""
    nvidia = "nvidia.com/gpu"

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="allot-dra-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.kubelet, self.cdi = self.path("kubelet"), self.path("cdi")
        os.mkdir(self.kubelet)
        self.log = self.path("log")
        self.install()
        self.api = Api()
        self.addCleanup(self.api.close)
        self.host = None
        self.start()

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def install(self):
        """The program beside the files that grants name."""
        build = os.environ["BUILD"]
        for name in ("cli/allot", "guest/liballot.so", "cdi/ld.so.preload"):
            os.makedirs(os.path.dirname(self.path("bin", name)))
            os.symlink(os.path.join(build, "src", name), self.path("bin", name))
        os.mkdir(self.path("bin/daemon"))
        shutil.copy(os.environ["DRA_HOST"], self.path("bin/daemon/dra_host"))

    def start(self):
        with open(self.log, "a", encoding="utf-8") as log:
            self.host = subprocess.Popen(
                [self.path("bin/daemon/dra_host"), self.kubelet, self.cdi, self.api.url(), self.nvidia],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
        self.addCleanup(self.host.stdout.close)
        self.addCleanup(self.ended, self.host)
        self.addCleanup(self.host.stdin.close)
        self.expect("ready")
        self.connect()

    def ended(self, host):
        self.assertIn(host.wait(SECONDS), (0, -signal.SIGKILL), self.said())

    def connect(self):
        """By a connection of its own: none that a host before had."""
        self.channel = grpc.insecure_channel(f"unix:{self.kubelet}/plugins/{DRIVER}/dra.sock",
                                             [("grpc.use_local_subchannel_pool", 1)])
        self.addCleanup(self.channel.close)

    def kill(self):
        self.host.kill()
        self.host.wait(SECONDS)

    def expect(self, word):
        self.assertEqual(self.host.stdout.readline(), word + "\n", self.said())

    def said(self):
        with open(self.log, encoding="utf-8") as log:
            return log.read()

    def tell(self, line):
        self.host.stdin.write(line + "\n")
        self.host.stdin.flush()
        self.expect("told")

    def method(self, name, response):
        return self.channel.unary_unary(
            PLUGIN + name, request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=response.FromString)

    def prepare_later(self, *claims, timeout=SECONDS):
        call = self.method("NodePrepareResources", dra.NodePrepareResourcesResponse)
        return call.future(dra.NodePrepareResourcesRequest(claims=claims), timeout=timeout)

    def prepare(self, *claims):
        answer = self.prepare_later(*claims).result().claims
        self.assertEqual(sorted(answer), sorted({claim.uid for claim in claims}))
        return answer

    def prepared(self, claim):
        """Its devices; it has no error."""
        answer = self.prepare(claim)[claim.uid]
        self.assertEqual(answer.error, "")
        return list(answer.devices)

    def refused(self, claim):
        answer = self.prepare(claim)[claim.uid]
        self.assertTrue(answer.error)
        self.assertFalse(answer.devices)
        self.assertTrue(answer.error.startswith(f"ResourceClaim {claim.namespace}/{claim.name}: "),
                        answer.error)
        self.assertEqual(self.grants(claim), [])
        return answer.error

    def unprepare(self, *claims):
        call = self.method("NodeUnprepareResources", dra.NodeUnprepareResourcesResponse)
        answer = call(dra.NodeUnprepareResourcesRequest(claims=claims), timeout=SECONDS).claims
        self.assertEqual(sorted(answer), sorted({claim.uid for claim in claims}))
        return {uid: entry.error for uid, entry in answer.items()}

    def grants(self, claim=None):
        """Ids of what is on disk."""
        names = os.listdir(self.cdi) if os.path.exists(self.cdi) else []
        found = [re.fullmatch(r"allot\.dev-grant-(claim\..*)\.json", name) for name in names]
        self.assertNotIn(None, found)
        return sorted(one[1] for one in found if not claim or one[1].startswith(f"claim.{claim.uid}."))

    def hook(self, grant):
        """The options of its hook, as a dictionary."""
        with open(f"{self.cdi}/allot.dev-grant-{grant}.json", encoding="utf-8") as file:
            spec = json.load(file)
        words = spec["devices"][0]["containerEdits"]["hooks"][0]["args"]
        ret, last = {}, None
        for word in words:
            if word.startswith("--"):
                last, ret[word] = word, None
            elif last:
                ret[last], last = word, None
        return ret
