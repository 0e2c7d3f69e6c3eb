# SPDX-License-Identifier: Apache-2.0
"""What is asked of an API server: answers, watches, TLS, tokens, and servers that fail."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
import unittest

import slices_server

CLIENT = os.environ["CLIENT"]
SECONDS = 60  # for a hang
MOST = 4 << 20
TIMED_OUT, REFUSED, IO, TOO_LONG, CANCELED = -110, -111, -5, -90, -125


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="allot-api-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def serve(self, **words):
        server = slices_server.Server(**words)
        self.addCleanup(server.stop)
        return server

    def start(self, url, environment=None):
        process = subprocess.Popen(
            [CLIENT, "ask"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "API": url, "ACCOUNT": self.folder, **(environment or {})})
        self.addCleanup(process.stdout.close)
        self.addCleanup(self.end, process)
        self.assertEqual(process.stdout.readline(), "ready\n")
        self.asked = 0
        return process

    def end(self, process):
        if process.stdin.closed:
            return
        process.stdin.close()
        self.assertEqual(process.wait(SECONDS), 0)

    def send(self, process, words):
        process.stdin.write(words + "\n")
        process.stdin.flush()

    def ask(self, process, words, number=None):
        """(status, length, text) of what is asked next."""
        self.send(process, words)
        n, kind, status, length, text = self.hear(process)
        self.assertEqual((n, kind), (self.asked if number is None else number, "ended"))
        self.asked += 1
        return status, length, text

    def hear(self, process):
        part = process.stdout.readline().rstrip("\n").split(" ", 4)
        if part[1] == "line":
            part[3:] = [" ".join(part[3:])]
            return int(part[0]), "line", int(part[2]), part[3]
        return int(part[0]), part[1], int(part[2]), int(part[3]), part[4]


class Plain(Case):
    def setUp(self):
        super().setUp()
        self.server = self.serve()
        self.client = self.start(self.server.url)

    def test_answers(self):
        self.server.routes["/big"] = lambda h: h.answer(200, b"x" * MOST)
        self.server.routes["/long"] = lambda h: h.answer(200, b"x" * (MOST + 1))
        self.server.routes["/empty"] = lambda h: h.answer(200, b"")
        self.assertIn('"uid": "uid-1"', self.ask(self.client, "GET /api/v1/nodes/node-1 5000")[2])
        self.assertEqual(self.ask(self.client, "GET /nothing 5000")[0], 404)
        self.assertEqual(self.ask(self.client, "GET /big 5000")[:2], (200, MOST))
        self.assertEqual(self.ask(self.client, "GET /long 5000")[0], TOO_LONG)
        self.assertEqual(self.ask(self.client, "GET /empty 5000"), (200, 0, ""))

    def test_body(self):
        seen = []

        def hear(handler):
            seen.append(dict(handler.headers))
            handler.answer(201, b"{}")

        self.server.routes["/post"] = hear
        self.assertEqual(self.ask(self.client, "POST /post 5000"), (201, 2, "{}"))
        self.assertEqual(seen[0]["Content-Type"], "application/json")
        self.assertEqual(seen[0]["Content-Length"], "7")
        self.assertNotIn("Expect", seen[0])

    def test_connection_is_kept(self):
        for _ in range(5):
            self.assertEqual(self.ask(self.client, "GET /api/v1/nodes/node-1 5000")[0], 200)
        self.assertEqual(self.server.connections, 1)

    def test_hang(self):
        """One that hangs ends in its time; others are answered meanwhile."""
        self.server.orders.append(("*", "hang"))
        self.send(self.client, "GET /hangs 1500")
        while not self.server.requests:
            time.sleep(0.01)
        self.asked = 1
        self.assertEqual(self.ask(self.client, "GET /api/v1/nodes/node-1 5000")[0], 200)
        number, kind, status, _, text = self.hear(self.client)
        self.assertEqual((number, kind, status), (0, "ended", TIMED_OUT))
        self.assertIn(self.server.url, text)

    def test_many(self):
        for _ in range(40):
            self.send(self.client, "GET /api/v1/nodes/node-1 10000")
        heard = [self.hear(self.client) for _ in range(40)]
        self.assertEqual(sorted(h[0] for h in heard), list(range(40)))
        self.assertEqual({h[2] for h in heard}, {200})
        self.assertLessEqual(self.server.connections, 16)

    def test_restart(self):
        port = self.server.server_address[1]
        self.assertEqual(self.ask(self.client, "GET /api/v1/nodes/node-1 5000")[0], 200)
        self.server.stop()
        self.assertIn(self.ask(self.client, "GET /api/v1/nodes/node-1 1000")[0],
                      (REFUSED, IO, TIMED_OUT))
        self.serve(port=port)
        self.assertEqual(self.ask(self.client, "GET /api/v1/nodes/node-1 5000")[0], 200)

    def test_forgotten(self):
        self.server.orders.append(("*", "hang"))
        self.send(self.client, "GET /hangs 60000")
        while not self.server.requests:
            time.sleep(0.01)
        self.send(self.client, "FORGET 0")
        self.asked = 1
        self.assertEqual(self.ask(self.client, "GET /api/v1/nodes/node-1 5000")[0], 200)

    def test_ends_under_way(self):
        self.server.orders.append(("*", "hang"))
        self.send(self.client, "GET /hangs 60000")
        while not self.server.requests:
            time.sleep(0.01)
        self.client.stdin.close()
        self.assertEqual(self.hear(self.client)[:3], (0, "ended", CANCELED))
        self.assertEqual(self.client.wait(SECONDS), 0)

    def test_no_token_in_the_clear(self):
        with open(f"{self.folder}/token", "w", encoding="ascii") as file:
            file.write("secret")
        self.assertEqual(self.ask(self.client, "GET /api/v1/nodes/node-1 5000")[0], 200)
        self.assertEqual(self.server.tokens_seen, [None])

    def test_not_http(self):
        """Bytes that are no answer, and connections that end in the middle."""
        for data in (b"", b"\0" * 100, b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc",
                     b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
                     b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 100000):
            with socket.create_server(("127.0.0.1", 0)) as listener:
                client = self.start(f"http://127.0.0.1:{listener.getsockname()[1]}")
                self.send(client, "GET /x 2000")
                peer = listener.accept()[0]
                peer.recv(1000)
                try:
                    peer.sendall(data)
                except ConnectionError:
                    pass
                peer.close()
                listener.close()
                self.assertLess(self.hear(client)[2], 0, data[:20])

    def test_dots_stay(self):
        self.ask(self.client, "GET /a/../api/v1/nodes/node-1 5000")
        self.assertEqual(self.server.requests[-1][1], "/a/../api/v1/nodes/node-1")

    def test_redirect_is_not_followed(self):
        def redirect(handler):
            handler.send_response(302)
            handler.send_header("Location", self.server.url + "/api/v1/nodes/node-1")
            handler.send_header("Content-Length", "0")
            handler.end_headers()

        self.server.routes["/moved"] = redirect
        self.assertEqual(self.ask(self.client, "GET /moved 5000")[0], 302)


class Watched(Case):
    def setUp(self):
        super().setUp()
        self.server = self.serve()
        self.client = self.start(self.server.url)

    def stream(self, *pieces, status=200, wait=False):
        def answer(handler):
            handler.send_response(status)
            handler.send_header("Transfer-Encoding", "chunked")
            handler.end_headers()
            for piece in pieces:
                handler.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                handler.wfile.flush()
            if wait:
                self.server.over.wait()
            handler.wfile.write(b"0\r\n\r\n")

        self.server.routes["/watch"] = answer
        self.send(self.client, "WATCH /watch 10000")

    def test_lines(self):
        self.stream(b'{"a":1}\n{"b"', b":2}\n\n", b"torn")
        self.assertEqual(self.hear(self.client), (0, "line", 7, '{"a":1}'))
        self.assertEqual(self.hear(self.client), (0, "line", 7, '{"b":2}'))
        self.assertEqual(self.hear(self.client), (0, "line", 0, ""))
        self.assertEqual(self.hear(self.client), (0, "ended", 200, 0, ""))

    def test_lines_come_at_once(self):
        self.stream(b"first\n", wait=True)
        self.assertEqual(self.hear(self.client), (0, "line", 5, "first"))
        self.send(self.client, "FORGET 0")
        self.asked = 1
        self.assertEqual(self.ask(self.client, "GET /api/v1/nodes/node-1 5000")[0], 200)

    def test_longest_line(self):
        self.stream(b"x" * MOST, b"\n")
        self.assertEqual(self.hear(self.client)[:3], (0, "line", MOST))
        self.assertEqual(self.hear(self.client), (0, "ended", 200, 0, ""))

    def test_line_is_too_long(self):
        self.stream(b"x" * MOST, b"x\n")
        self.assertEqual(self.hear(self.client)[:3], (0, "ended", TOO_LONG))

    def test_gone(self):
        """410 is an answer, whatever lines it has."""
        self.stream(b'{"code":410}\n', status=410)
        self.assertEqual(self.hear(self.client), (0, "ended", 410, 13, '{"code":410}'))

    def test_forgets_from_within(self):
        self.stream(b"forget\nnot heard\n", b"not heard\n")
        self.assertEqual(self.hear(self.client), (0, "line", 6, "forget"))
        self.asked = 1
        self.assertEqual(self.ask(self.client, "GET /api/v1/nodes/node-1 5000")[0], 200)

    def test_asks_from_within(self):
        self.server.routes["/again"] = lambda h: h.answer(200, b"ok")
        self.stream(b"again\n", b"more\n", wait=True)
        heard = [self.hear(self.client) for _ in range(3)]
        self.assertIn((1, "ended", 200, 2, "ok"), heard)
        self.assertIn((0, "line", 4, "more"), heard)


@unittest.skipUnless(shutil.which("openssl"), "openssl is not installed")
class Secure(Case):
    def setUp(self):
        super().setUp()
        cert, self.context = slices_server.make_authority(self.folder, "own")
        shutil.copy(cert, f"{self.folder}/ca.crt")
        self.server = self.serve(context=self.context)
        self.server.tokens = {"first"}

    def set_token(self, text):
        """As a kubelet replaces it: a link to another directory."""
        target = tempfile.mkdtemp(dir=self.folder)
        with open(f"{target}/token", "w", encoding="ascii") as file:
            file.write(text)
        os.symlink(target, f"{target}.link")
        os.replace(f"{target}.link", f"{self.folder}/..data")
        if not os.path.islink(f"{self.folder}/token"):
            os.symlink("..data/token", f"{self.folder}/token")

    def get(self, client):
        return self.ask(client, "GET /api/v1/nodes/node-1 5000")

    def test_token_is_read_anew(self):
        client = self.start(self.server.url)
        self.assertEqual(self.get(client)[0], 401)
        self.set_token("first\n")
        self.assertEqual(self.get(client)[0], 200)
        self.server.tokens = {"second"}
        self.assertEqual(self.get(client)[0], 401)
        self.set_token("second")
        self.assertEqual(self.get(client)[0], 200)
        self.assertEqual(self.server.connections, 1)

    def test_bad_tokens(self):
        client = self.start(self.server.url)
        for text in ("", "two words", "line\r\nX: y", "x" * 16384):
            self.set_token(text)
            self.send(client, "GET /api/v1/nodes/node-1 5000")
            self.assertEqual(client.stdout.readline().split()[1], "refused", text[:20])
        self.assertEqual(self.server.requests, [])

    def test_other_authority(self):
        os.unlink(f"{self.folder}/ca.crt")
        client = self.start(self.server.url)
        self.assertEqual(self.get(client)[0], IO)
        shutil.copy(slices_server.make_authority(self.folder, "other")[0], f"{self.folder}/ca.crt")
        status, _, text = self.get(client)
        self.assertEqual(status, IO)
        self.assertIn("certificate", text)
        shutil.copy(f"{self.folder}/own.crt", f"{self.folder}/ca.crt")
        self.assertEqual(self.get(client)[0], 401)

    def test_environment(self):
        """As a Pod is told; proxies of the environment are not asked."""
        self.set_token("first")
        client = self.start("", {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "https_proxy": "http://127.0.0.1:1",
                                 "KUBERNETES_SERVICE_PORT": str(self.server.server_address[1])})
        self.assertEqual(self.get(client)[0], 200)


class Nowhere(Case):
    def open(self, url):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("KUBERNETES_")}
        return subprocess.run([CLIENT, "ask"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=SECONDS, env={**environment, "API": url, "ACCOUNT": self.folder})

    def test_nowhere(self):
        self.assertIn("-2", self.open("").stderr)
        self.assertIn("-22", self.open("ftp://127.0.0.1").stderr)
        self.assertIn("-22", self.open("file:///etc/passwd").stderr)


unittest.main()
