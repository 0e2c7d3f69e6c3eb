# SPDX-License-Identifier: Apache-2.0
"""An API server that knows one Node and ResourceSlices, and fails as it is told to."""

import http.server
import json
import queue
import re
import socket
import socketserver
import ssl
import subprocess
import threading
import urllib.parse

SLICES = "/apis/resource.k8s.io/v1/resourceslices"
SEMVER = re.compile(r"^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)$")
LABEL = re.compile(r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")
QUALIFIED = re.compile(r"^([a-z0-9.-]{1,63}/)?[A-Za-z_][A-Za-z0-9_]{0,31}$")
UNITS = {"": 1, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40}


def quantity(text):
    match = re.fullmatch(r"(\d+)(Ki|Mi|Gi|Ti)?", text)
    return int(match[1]) * UNITS[match[2] or ""]


def check_policy(value, policy):
    """As validateRequestPolicyRange of Kubernetes' resource API."""
    span = policy["validRange"]
    assert set(policy) == {"default", "validRange"} and set(span) <= {"min", "max", "step"}
    least, most, step, default = (quantity(q) for q in (span["min"], span["max"], span["step"],
                                                        policy["default"]))
    assert least <= default <= most <= value
    assert least + step <= value
    assert (most - least) % step == 0 and (default - least) % step == 0


def check_device(device):
    assert LABEL.match(device["name"]), device["name"]
    assert len(device["attributes"]) + len(device["capacity"]) <= 32
    for name, attribute in device["attributes"].items():
        assert QUALIFIED.match(name), name
        (kind, value), = attribute.items()
        assert kind in ("string", "int", "bool", "version")
        assert kind == "int" or len(value.encode()) <= 64
        assert kind != "version" or SEMVER.match(value), value
    for capacity in device["capacity"].values():
        assert "requestPolicy" not in capacity or device.get("allowMultipleAllocations")
        if "requestPolicy" in capacity:
            check_policy(quantity(capacity["value"]), capacity["requestPolicy"])
    for taint in device.get("taints", []):
        assert taint["effect"] in ("None", "NoSchedule", "NoExecute"), taint


def check_slice(body):
    """What Kubernetes' validation says of a slice that is written."""
    assert body["apiVersion"] == "resource.k8s.io/v1" and body["kind"] == "ResourceSlice"
    spec = body["spec"]
    assert set(spec) <= {"driver", "nodeName", "pool", "devices"}, set(spec)
    assert spec["pool"]["generation"] >= 0 and spec["pool"]["resourceSliceCount"] > 0
    assert len(spec["devices"]) <= 64
    assert len({device["name"] for device in spec["devices"]}) == len(spec["devices"])
    for device in spec["devices"]:
        check_device(device)
    for owner in body["metadata"]["ownerReferences"]:
        assert set(owner) <= {"apiVersion", "kind", "name", "uid", "controller"}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *args):
        pass

    def setup(self):
        super().setup()
        with self.server.lock:
            self.server.connections += 1
            self.server.open_now.append(self.connection)

    def answer(self, status, body):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def refuse(self, status, message="no"):
        self.answer(status, {"kind": "Status", "apiVersion": "v1", "status": "Failure",
                             "message": message, "code": status})

    def trouble(self):
        """What the test ordered for this request; True: that was its answer."""
        with self.server.lock:
            order = self.server.orders.pop(0) if self.server.orders else None
            if order and order[0] not in ("*", self.command):
                self.server.orders.insert(0, order)
                order = None
        if not order:
            return False
        if callable(order[1]):
            order[1](self)
            return False
        if order[1] == "hang":
            self.server.over.wait()
            self.close_connection = True
        elif isinstance(order[1], bytes):
            self.answer(200, order[1])
        else:
            self.refuse(order[1])
        return True

    def handle_any(self):
        server = self.server
        length = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(length) if length else b""
        url = urllib.parse.urlsplit(self.path)
        with server.lock:
            server.requests.append((self.command, self.path))
            server.tokens_seen.append(self.headers.get("Authorization"))
        if server.tokens and self.headers.get("Authorization") not in [
                f"Bearer {token}" for token in server.tokens]:
            self.refuse(401, "Unauthorized")
            return
        if self.trouble():
            return
        handler = server.routes.get(url.path)
        if handler:
            handler(self)
        elif url.path.startswith("/api/v1/nodes/"):
            self.node(url.path.rsplit("/", 1)[1])
        elif "watch=1" in url.query:
            self.watch()
        elif url.path.startswith(SLICES):
            with server.lock:
                self.slices(url, json.loads(body) if body else None)
        else:
            self.refuse(404)

    do_GET = do_POST = do_PUT = do_DELETE = handle_any

    def node(self, name):
        uid = self.server.nodes.get(name)
        if uid:
            self.answer(200, {"kind": "Node", "metadata": {"name": name, "uid": uid}})
        else:
            self.refuse(404, f'nodes "{name}" not found')

    def slices(self, url, body):
        name = url.path[len(SLICES) + 1:]
        if self.command == "GET":
            self.list(urllib.parse.parse_qs(url.query)["fieldSelector"][0])
        elif self.command == "DELETE":
            self.delete(name)
        else:
            self.write(name, body)

    def list(self, selector):
        want = dict(part.split("=") for part in selector.split(","))
        items = [item for item in self.server.objects.values()
                 if item["spec"]["driver"] == want["spec.driver"]
                 and item["spec"]["nodeName"] == want["spec.nodeName"]]
        self.answer(200, {"kind": "ResourceSliceList", "metadata": {"resourceVersion": "1"},
                          "items": items})

    def watch(self):
        """Events that the test tells of, until it ends them."""
        events = queue.Queue()
        self.server.watches.append(events)
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while (event := events.get()) is not None:
            data = json.dumps(event).encode() + b"\n"
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.write(b"0\r\n\r\n")

    def delete(self, name):
        self.server.writes.append(("DELETE", name))
        if self.server.objects.pop(name, None):
            self.answer(200, {"kind": "Status", "status": "Success"})
        else:
            self.refuse(404)

    def write(self, name, body):
        """As the registry does: gates drop fields, taints get their time."""
        server = self.server
        name = name or body["metadata"]["name"]
        was = server.objects.get(name)
        server.writes.append((self.command, name))
        try:
            check_slice(body)
        except (AssertionError, KeyError, ValueError) as error:
            server.invalid.append(repr(error))
            self.refuse(422, f"invalid: {error!r}")
            return
        if (self.command == "POST") == (was is not None):
            self.refuse(409 if was else 404, "AlreadyExists or NotFound")
            return
        if was and body["metadata"].get("resourceVersion") != was["metadata"]["resourceVersion"]:
            self.refuse(409, "the object has been modified")
            return
        server.put(name, body)
        self.answer(201 if self.command == "POST" else 200, body)


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, port=0, context=None):
        super().__init__(("127.0.0.1", port), Handler)
        if context:
            self.socket = context.wrap_socket(self.socket, server_side=True)
        self.lock = threading.RLock()
        self.over = threading.Event()
        self.connections = self.version = 0
        self.open_now = []
        self.nodes = {"node-1": "uid-1"}
        self.objects, self.routes, self.tokens = {}, {}, set()
        self.requests, self.writes, self.orders, self.invalid, self.tokens_seen = [], [], [], [], []
        self.watches = []
        self.sharing = self.taints = True
        self.url = f"{'https' if context else 'http'}://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, args=[0.05], daemon=True).start()

    def handle_error(self, request, client_address):
        pass  # those that hang up, or do not trust us

    def put(self, name, body):
        with self.lock:
            self.version += 1
            body["metadata"].update(name=name, resourceVersion=str(self.version))
            for device in body["spec"].get("devices", []):
                self.drop(device)
            self.objects[name] = body

    def tell(self, event):
        """To all who watch; None: no more is to be heard."""
        for events in self.watches:
            events.put(event)

    def drop(self, device):
        if not self.taints:
            device.pop("taints", None)
        for taint in device.get("taints", []):
            taint.setdefault("timeAdded", "2026-11-29T10:00:00Z")
        if not self.sharing:
            device.pop("allowMultipleAllocations", None)
            for capacity in device["capacity"].values():
                capacity.pop("requestPolicy", None)

    def stop(self):
        self.over.set()
        self.tell(None)
        self.shutdown()
        self.server_close()
        for connection in self.open_now:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it has ended by itself


def make_authority(folder, name):
    """A key and a certificate for 127.0.0.1 that is its own authority: the context that shows it."""
    key, cert = f"{folder}/{name}.key", f"{folder}/{name}.crt"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                    "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1", "-addext",
                    "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert],
                   check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return cert, context
