# SPDX-License-Identifier: Apache-2.0
"""Tenants switched by HTTP: by whom, in allot's words and in those of vLLM's sleep mode."""

import base64
import contextlib
import http.client
import json
import os
import signal
import socket
import threading

import cli_lib
import daemon_lib

TOKEN = "a-token-of-24-characters"
FILL = os.environ["FILL"]


class Case(daemon_lib.Case):
    def setUp(self):
        super().setUp()
        self.control = daemon_lib.free_port()
        self.conf = os.path.join(self.tmp, "conf")
        self.token = os.path.join(self.tmp, "token")
        self.put_token(TOKEN)
        self.put(self.conf, f"control = {self.control}\ncontrol-token = {self.token}\n", 0o644)
        self.env.update(ALLOT_SIM_DIR=os.path.join(self.tmp, "sim"), ALLOT_SIM_MEMORY="1GiB",
                        ALLOT_SIM_CONTEXT="16MiB", LD_LIBRARY_PATH=os.environ["SIM_LIBRARIES"])
        self.ok("sim", "--shared", "--dir", self.env["ALLOT_SIM_DIR"], "--", "true")

    @staticmethod
    def put(path, text, mode):
        with open(path, "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), mode)
            file.write(text)

    def put_token(self, token, mode=0o600):
        self.put(self.token, token + "\n", mode)

    def begin(self):
        return self.daemon(options=("--config", self.conf))

    def ask(self, method, path, token=TOKEN, body=None, **headers):
        """(status, headers, what the body says) of one request."""
        connection = http.client.HTTPConnection("127.0.0.1", self.control, timeout=120)
        with contextlib.closing(connection):
            if token:
                headers["Authorization"] = f"Bearer {token}"
            connection.request(method, path, body=body, headers=headers)
            answer = connection.getresponse()
            text = answer.read().decode()
            if text:
                self.assertEqual(answer.headers["Content-Type"], "application/json")
            self.assertNotIn("Access-Control-Allow-Origin", answer.headers)
            return answer.status, answer.headers, json.loads(text) if text else None

    def post(self, path, **kwargs):
        status, _, said = self.ask("POST", path, **kwargs)
        return status, said

    def fits(self, said):
        """What a state has is what docs/json.md says."""
        kinds = cli_lib.documented()["switched"]
        self.assertEqual(set(kinds) - {"words"}, set(said) - {"words"})
        for key, value in said.items():
            self.assertTrue(cli_lib.fits(value, kinds[key]), (key, value))

    def state(self, name="f"):
        status, _, said = self.ask("GET", f"/v1/tenants/{name}/state")
        self.assertEqual(status, 200, said)
        self.fits(said)
        return said

    def holds(self, name="f", memory="256MiB", options=("--swappable",), words=("--no-arrays",)):
        """A tenant whose process has as much of the device as its quota lets it."""
        process = self.start(cli_lib.ALLOT, "run", "--name", name, "--memory", memory, *options,
                             "--", FILL, "--json", *words)
        self.assertTrue(process.stdout.readline())
        return process


class Allowed(Case):
    def refused(self, status, *args, says="", **kwargs):
        was, headers, said = self.ask(*args, **kwargs)
        self.assertEqual(was, status, said)
        self.assertIn(says, said["error"])
        return headers

    def test_token(self):
        """Nothing is said or done without it, whatever is asked for."""
        self.begin()
        self.holds()
        for token in (None, "", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "x" * 3000):
            for method, path in (("POST", "/v1/tenants/f/suspend"), ("GET", "/v1/tenants/f/state"),
                                 ("GET", "/v1/tenants/none/state"), ("GET", "/"),
                                 ("POST", "/tenants/f/sleep"), ("OPTIONS", "/tenants/f/sleep")):
                headers = self.refused(401, method, path, token=token, says="control-token")
                self.assertEqual(headers["WWW-Authenticate"], "Bearer")
        self.refused(401, "GET", "/v1/tenants/f/state", token=None, Authorization=TOKEN)
        self.refused(401, "GET", "/v1/tenants/f/state", token=None, Authorization="Basic !!")
        self.assertEqual(self.state()["state"], "running")

    def test_basic(self):
        """As clients make it of http://allot:TOKEN@HOST/."""
        self.begin()
        self.keep("k")
        def ask(user):
            coded = base64.b64encode(user.encode()).decode()
            return self.ask("GET", "/tenants/k/is_sleeping", token=None,
                            Authorization=f"Basic {coded}")[0]
        self.assertEqual(ask(f"allot:{TOKEN}"), 200)
        for user in (f"root:{TOKEN}", "allot:", TOKEN, f"allot:{TOKEN}x", "allot:" + "y" * 24):
            self.assertEqual(ask(user), 401)

    def test_token_changes(self):
        """From one request to the next; a file that others can read lets nobody in."""
        self.begin()
        self.keep("k")
        self.put_token("another-token-of-the-site")
        self.refused(401, "GET", "/v1/tenants/k/state")
        self.assertEqual(self.ask("GET", "/v1/tenants/k/state",
                                  token="another-token-of-the-site")[0], 200)
        for wrong in (lambda: self.put_token(TOKEN, 0o640), lambda: self.put_token(TOKEN, 0o604),
                      lambda: self.put_token("short"), lambda: self.put_token("with a space in it"),
                      lambda: os.unlink(self.token)):
            self.put_token(TOKEN)
            wrong()
            self.refused(500, "GET", "/v1/tenants/k/state", says="log says why")
        self.assertIn("others may read it; chmod 600", self.log())
        self.put_token(TOKEN)
        self.assertEqual(self.state("k")["state"], "kept")
        self.assertIn("is right again", self.log())

    def test_browsers(self):
        """A page of another site changes nothing, by whichever way a browser has."""
        self.begin()
        self.keep("k")
        path = "/v1/tenants/k/state"
        for host in ("evil.example", f"evil.example:{self.control}", "192.0.2.1"):
            self.refused(421, "GET", path, Host=host, says="http://localhost")
        self.assertEqual(self.ask("GET", path, Host=f"localhost:{self.control}")[0], 200)
        for origin in ("http://evil.example", "null", f"http://127.0.0.1:{self.port}"):
            self.refused(403, "POST", "/v1/tenants/k/suspend", Origin=origin, says="Origin")

    def test_paths(self):
        self.begin()
        self.keep("k")
        for path in ("/", "/v1/tenants/k", "/v1/tenants/k/", "/v1/tenants//state", "/tenants/k/state",
                     "/v1/tenants/k/sleep", "/v1/tenants/a/b/state", "/metrics", "/v1/node",
                     "/v1/tenants/" + "x" * 64 + "/state", "/v1/tenants/k/state/"):
            self.refused(404, "GET", path)
        for name in ("none", "..", ".", "%2e%2e", "k%00", "a%2fb", "%0a", "@", "k@0"):
            self.refused(404, "GET", f"/v1/tenants/{name}/state")
            self.refused(404, "POST", f"/v1/tenants/{name}/suspend")
        self.refused(404, "POST", "/v1/tenants/none/suspend", says='there is no tenant "none" in ')
        for method, path, allow in (("GET", "/v1/tenants/k/suspend", "POST"),
                                    ("PUT", "/tenants/k/sleep", "POST"),
                                    ("OPTIONS", "/tenants/k/wake_up", "POST"),
                                    ("POST", "/v1/tenants/k/state", "GET, HEAD"),
                                    ("DELETE", "/tenants/k/is_sleeping", "GET, HEAD")):
            self.assertEqual(self.refused(405, method, path)["Allow"], allow)
        for query in ("timeout=0", "timeout=601s", "timeout=x", "timeout="):
            self.refused(400, "POST", f"/v1/tenants/k/suspend?{query}", says="timeout")
        for move in ("suspend?notice=soon", "suspend?notice=61s", "resume?notice=1s"):
            self.refused(400, "POST", f"/v1/tenants/k/{move}", says="notice")
        for query in ("level=0", "level=3", "level=", "level=1x", "tags=kv_cache"):
            self.refused(400, "POST", f"/tenants/k/sleep?{query}")

    def test_pages_change_nothing(self):
        """The address of the pages stays one that only reads; without a line there is no other."""
        self.begin()
        self.holds()
        for path in ("/v1/tenants/f/suspend", "/tenants/f/sleep"):
            self.assertEqual(self.get(path, method="POST")[0], 405)
            self.assertEqual(self.get(path)[0], 404)
        self.assertEqual(self.state()["state"], "running")

    def test_no_line(self):
        self.put(self.conf, "# nothing\n", 0o644)
        self.begin()
        with self.assertRaises(ConnectionRefusedError):
            self.ask("GET", "/v1/tenants/f/state")

    def test_loopback_alone(self):
        self.begin()
        with open("/proc/net/tcp", encoding="ascii") as table:
            local = [line.split()[1] for line in table
                     if line.split()[1].endswith(f":{self.control:04X}")]
        self.assertEqual(set(local), {f"0100007F:{self.control:04X}"})


class Moved(Case):
    def test_there_and_back(self):
        self.begin()
        self.holds()
        before = self.state()
        self.assertEqual((before["tenant"], before["state"], before["host_bytes"], before["why"]),
                         ("f", "running", 0, None))
        status, said = self.post("/v1/tenants/f/suspend")
        self.assertEqual((status, said["state"]), (200, "suspended"), said)
        self.assertIn("of 1 process left in ", said["words"])
        self.fits(said)
        self.assertEqual(said["host_bytes"], before["resident_bytes"])
        self.assertEqual(said["resident_bytes"], 0)
        self.assertEqual(self.post("/v1/tenants/f/suspend?notice=50s")[0], 200)  # to nobody
        status, said = self.post("/v1/tenants/f/resume?timeout=10s")
        self.assertEqual((status, said["state"], said["host_bytes"]), (200, "running", 0), said)
        self.assertEqual(self.post("/v1/tenants/f/resume")[0], 200)
        self.assertEqual(self.state()["resident_bytes"], before["resident_bytes"])

    def test_refused(self):
        """409, with what the command says; and the state says it afterwards."""
        self.begin()
        self.holds(memory="512MiB", words=())
        status, said = self.post("/v1/tenants/f/suspend")
        self.assertEqual(status, 409)
        self.assertIn("holds 1 array (cudaMallocArray, textures), which cannot leave", said["error"])
        self.assertIn('tenant "f" goes on as it was', said["error"])
        self.assertNotIn("allot:", said["error"])
        self.assertEqual(self.state()["state"], "running")
        self.assertEqual(self.state()["why"], said["error"])
        self.holds("g", options=())
        status, said = self.post("/tenants/g/sleep")
        self.assertEqual(status, 409)
        self.assertIn("is not swappable", said["error"])
        self.assertIn("not swappable", self.state("g")["why"])

    def test_no_room(self):
        """503: it fits again when another one has left."""
        self.begin()
        self.holds("f", "640MiB")
        self.assertEqual(self.post("/v1/tenants/f/suspend")[0], 200)
        self.holds("g", "640MiB")
        status, headers, said = self.ask("POST", "/v1/tenants/f/resume")
        self.assertEqual((status, headers["Retry-After"]), (503, "1"), said)
        self.assertIn("the device has no room", said["error"])
        self.assertIn("the device has no room", self.state()["why"])
        self.assertEqual(self.state()["state"], "suspended")
        self.assertEqual(self.post("/v1/tenants/g/suspend")[0], 200)
        self.assertEqual(self.post("/v1/tenants/f/resume")[0], 200)

    def stop(self, name):
        for process in next(tenant["processes"]
                            for tenant in json.loads(self.ok("ps", "--json"))["tenants"]
                            if tenant["name"] == name):
            os.kill(process["pid"], signal.SIGSTOP)
            self.addCleanup(os.kill, process["pid"], signal.SIGCONT)

    def test_late(self):
        """504: a process is stopped. Another request meanwhile finds a move under way."""
        self.begin()
        self.holds()
        self.stop("f")
        status, said = self.post("/v1/tenants/f/suspend?timeout=500ms")
        self.assertEqual(status, 504, said)
        self.assertIn("is stopped, by a signal or by a debugger", said["error"])

    @staticmethod
    def children(daemon):
        with open(f"/proc/{daemon.pid}/task/{daemon.pid}/children", encoding="ascii") as file:
            return file.read().split()

    def test_at_once(self):
        """No more than eight moves, and whoever goes away leaves its own to its end."""
        daemon = self.begin()
        self.holds()
        self.stop("f")
        clients = []
        for i in range(9):
            self.holds(f"t{i}", "32MiB")
            self.stop(f"t{i}")

        def children():
            return len(self.children(daemon))

        for i in range(8):
            client = socket.create_connection(("127.0.0.1", self.control))
            self.addCleanup(client.close)
            client.sendall(f"POST /v1/tenants/t{i}/suspend?timeout=100s HTTP/1.1\r\nHost: localhost\r\n"
                           f"Authorization: Bearer {TOKEN}\r\nContent-Length: 0\r\n\r\n".encode())
            clients.append(client)
            cli_lib.wait_for(lambda: children() == i + 1)
        status, headers, said = self.ask("POST", "/v1/tenants/t8/suspend")
        self.assertEqual((status, headers["Retry-After"]), (503, "1"))
        self.assertIn("8 moves are under way", said["error"])
        self.assertEqual(self.state("t8")["state"], "running")
        clients[0].close()
        for process in json.loads(self.ok("ps", "--json", "t0"))["tenants"][0]["processes"]:
            os.kill(process["pid"], signal.SIGCONT)
        cli_lib.wait_for(lambda: self.state("t0")["state"] == "suspended")
        cli_lib.wait_for(lambda: children() == 7)
        self.end(daemon)

    def sends_suspend(self, *names):
        client = socket.create_connection(("127.0.0.1", self.control))
        self.addCleanup(client.close)
        client.settimeout(60)
        for name in names:
            client.sendall(
                f"POST /v1/tenants/{name}/suspend?timeout=100s HTTP/1.1\r\nHost: localhost\r\n"
                f"Authorization: Bearer {TOKEN}\r\nContent-Length: 0\r\n\r\n".encode())
        return client

    def test_ends(self):
        """With moves under way, and requests that have just come: none of these is begun."""
        daemon = self.begin()
        self.keep("k")
        for _ in range(2 * 8 - 2): # the next two have the last places, and others the first
            self.assertEqual(self.post("/v1/tenants/k/suspend")[0], 409)
        for name in "abcd":
            self.holds(name, "32MiB")
            self.stop(name)
        waiting = [self.sends_suspend(*names) for names in ("ac", "bd")]
        cli_lib.wait_for(lambda: len(self.children(daemon)) == 2)
        daemon.send_signal(signal.SIGSTOP)
        daemon.send_signal(signal.SIGTERM)
        late = [self.sends_suspend(name) for name in "cd"]
        daemon.send_signal(signal.SIGCONT)
        for client in waiting:
            self.assertIn(b" 503 ", client.recv(4096).partition(b"\r\n")[0])
        self.assertEqual(daemon.wait(60), 0)
        for client in late: # closed, or refused
            with contextlib.suppress(ConnectionResetError):
                self.assertIn(client.recv(4096).partition(b"\r\n")[0].split(b" ")[1:2], ([], [b"503"]))

    def test_why_is_over(self):
        """A move that failed explains the state only until that is what was asked for."""
        self.begin()
        self.holds()
        self.stop("f")
        self.assertEqual(self.post("/v1/tenants/f/suspend?timeout=500ms")[0], 504)
        self.assertIn("is stopped", self.state()["why"])
        for process in json.loads(self.ok("ps", "--json", "f"))["tenants"][0]["processes"]:
            os.kill(process["pid"], signal.SIGCONT)
        self.ok("suspend", "f")
        self.assertIsNone(self.state()["why"])

    def test_bodies(self):
        """What clients send is read and not used; too much of it is not read."""
        self.begin()
        self.holds()
        self.assertEqual(self.post("/tenants/f/sleep", body='{"level": 1}')[0], 200)
        with self.assertRaises((http.client.HTTPException, ConnectionError)):
            self.post("/tenants/f/wake_up", body="x" * 100000)
        self.assertEqual(self.state()["state"], "suspended")
        self.assertEqual(self.post("/tenants/f/wake_up", body="x" * 4096)[0], 200)

    def test_slow(self):
        """Clients that say nothing, or a byte now and then, keep nobody out."""
        self.begin()
        self.keep("k")
        slow = [socket.create_connection(("127.0.0.1", self.control)) for _ in range(300)]
        for client in slow:
            self.addCleanup(client.close)
        self.assertEqual(self.state("k")["state"], "kept")

    def test_users_tenants(self):
        """By their whole names."""
        if cli_lib.NO_USERS:
            self.skipTest(cli_lib.NO_USERS)
        os.chmod(self.tmp, 0o755)
        self.begin()
        process = self.start("setpriv", "--reuid=12345", "--regid=12345", "--clear-groups",
                             cli_lib.ALLOT, "run", "--name", "f", "--swappable", "--memory", "64MiB",
                             "--", FILL, "--json", "--no-arrays")
        self.assertTrue(process.stdout.readline())
        self.assertEqual(self.post("/v1/tenants/f/suspend")[0], 404)
        for path in ("/v1/tenants/f@12345/suspend", "/tenants/f%4012345/wake_up"):
            status, said = self.post(path)
            self.assertEqual(status, 200, said)

    def test_many_clients(self):
        """Answers are each client's own."""
        self.begin()
        for i in range(4):
            self.holds(f"t{i}", "64MiB")
        said = {}

        def switch(i):
            said[i] = [self.post(f"/v1/tenants/t{i}/{verb}") for verb in ("suspend", "resume") * 3]

        threads = [threading.Thread(target=switch, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for i in range(4):
            self.assertEqual([(status, body["tenant"], body["state"]) for status, body in said[i]],
                             [(200, f"t{i}", "suspended"), (200, f"t{i}", "running")] * 3)


class Gateways(Case):
    """Requests that others send, as docs/switching.md lists them."""

    def sleeping(self):
        status, _, said = self.ask("GET", "/tenants/f/is_sleeping")
        self.assertEqual(status, 200)
        self.assertEqual(list(said), ["is_sleeping"])
        return said["is_sleeping"]

    def sends(self, path, body=None, **headers):
        status, said = self.post(path, body=body, **headers)
        self.assertEqual((status, said), (200, None), path)

    def test_vllm(self):
        """Its documentation's examples; levels and tags are those of docs/switching.md."""
        self.begin()
        self.holds()
        self.assertFalse(self.sleeping())
        self.sends("/tenants/f/sleep?level=1")
        self.assertTrue(self.sleeping())
        self.sends("/tenants/f/wake_up")
        self.assertFalse(self.sleeping())
        self.sends("/tenants/f/sleep")
        self.sends("/tenants/f/sleep?level=1&mode=abort")
        self.sends("/tenants/f/wake_up?tags=weights")
        self.assertFalse(self.sleeping())
        self.sends("/tenants/f/wake_up?tags=kv_cache")

    def test_level_2(self):
        """With contexts, where the driver can; content is never thrown away."""
        self.begin()
        self.holds()
        status, said = self.post("/tenants/f/sleep?level=2")
        self.assertIn(status, (200, 409), said)
        if status == 409:
            self.assertIn("contexts", said["error"])
            self.assertFalse(self.sleeping())
        else:
            self.assertTrue(self.sleeping())
            self.sends("/tenants/f/wake_up?tags=weights")

    def test_llm_d(self):
        """Its dual-Pods controller: no query, no body, no header but Go's own."""
        self.begin()
        self.holds()
        go = {"User-Agent": "Go-http-client/1.1", "Accept-Encoding": "gzip"}
        for verb, sleeping in (("sleep", True), ("wake_up", False)):
            self.sends(f"/tenants/f/{verb}", **go)
            status, _, said = self.ask("GET", "/tenants/f/is_sleeping", **go)
            self.assertEqual((status, said), (200, {"is_sleeping": sleeping}))

    def test_llama_swap(self):
        """The endpoints of its sleep mode, as absolute addresses; a body is JSON."""
        self.begin()
        self.holds()
        go = {"User-Agent": "Go-http-client/1.1", "Content-Type": "application/json"}
        self.sends("/tenants/f/sleep?level=1", **go)
        self.sends("/tenants/f/wake_up", body="{}", **go)
        self.assertFalse(self.sleeping())


if __name__ == "__main__":
    cli_lib.main()
