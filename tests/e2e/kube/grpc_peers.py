# SPDX-License-Identifier: Apache-2.0
"""Our gRPC against gRPC's own library, in both directions, and against those who speak HTTP/2 badly."""

import contextlib
import os
import re
import resource
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import unittest

from grpcio import grpc

PEER = os.environ["PEER"]
SECONDS = 60  # for a hang
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS, PING, RST, HEADERS, DATA, CONTINUATION = 4, 6, 3, 1, 0, 9
# HPACK without a table: :method POST, :scheme http, :path, :authority, content-type.
BLOCK = b"\x83\x86" + b"".join(
    b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value
    for name, value in ((b":path", b"/test.Echo/Never"), (b":authority", b"localhost"),
                        (b"content-type", b"application/grpc")))


def frame(kind, flags, stream, payload=b""):
    return (len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big")
            + payload)


def message(payload):
    return b"\0" + len(payload).to_bytes(4, "big") + payload


class Peer(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="allot-grpc-")
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "a.sock")

    def start(self, *words):
        process = subprocess.Popen([PEER, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait, SECONDS)
        self.addCleanup(process.stdin.close)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process


class Served(Peer):
    def setUp(self):
        super().setUp()
        self.server = self.start("serve", self.path)
        self.channel = grpc.insecure_channel(f"unix:{self.path}")
        self.addCleanup(self.channel.close)

    def same(self, request=b"abc", method="Same", timeout=SECONDS):
        return self.channel.unary_unary(f"/test.Echo/{method}")(request, timeout=timeout)

    def refused(self, method, request=b"", timeout=SECONDS):
        with self.assertRaises(grpc.RpcError) as raised:
            self.same(request, method, timeout)
        return raised.exception

    def alive(self):
        self.assertEqual(self.same(), b"abc")
        self.assertIsNone(self.server.poll())

    def rss(self):
        with open(f"/proc/{self.server.pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def test_unary(self):
        for n in (0, 1, 5, 16384, 70000, 4 << 20):
            self.assertEqual(self.same(b"x" * n), b"x" * n)
        self.assertEqual(self.same(b"x", "Later"), b"\0")
        self.assertEqual(os.stat(self.path).st_mode & 0o777, 0o600)

    def test_errors(self):
        error = self.refused("Fail")
        self.assertEqual(error.code(), grpc.StatusCode.NOT_FOUND)
        self.assertEqual(error.details(), "100 % gone: \"\u00e4\"")
        self.assertEqual(self.refused("Other").code(), grpc.StatusCode.UNIMPLEMENTED)
        error = self.refused("Same", b"x" * ((4 << 20) + 1))
        self.assertEqual(error.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
        self.alive()

    def test_many_at_once(self):
        calls = [self.channel.unary_unary("/test.Echo/Later").future(b"x") for _ in range(50)]
        self.assertEqual([call.result(SECONDS) for call in calls], [b"\0"] * 50)

    @unittest.skipUnless(shutil.which("h2load"), "h2load is not installed: nghttp2-client has it")
    def test_h2load(self):
        """20,000 requests on ten connections, of which 50 are open at once on each."""
        with tempfile.NamedTemporaryFile() as body:
            body.write(message(b"abc"))
            body.flush()
            done = subprocess.run(
                ["h2load", "-n", "20000", "-c", "10", "-m", "50", "-B", f"unix:{self.path}",
                 "-H", "content-type: application/grpc", "-H", "te: trailers", "-d", body.name,
                 "http://localhost/test.Echo/Same"], text=True, capture_output=True, timeout=10 * SECONDS)
        self.assertIn("20000 succeeded, 0 failed, 0 errored, 0 timeout", done.stdout, done.stderr)
        self.alive()

    def test_stream(self):
        """More than fits into what is sent ahead."""
        call = self.channel.unary_stream("/test.Echo/Count")(b"x" * 200)
        self.assertEqual([len(m) for m in call], [100000] * 200)

    def test_slow_reader(self):
        before = self.rss()
        call = self.channel.unary_stream("/test.Echo/Count")(b"x" * 1000)
        time.sleep(0.5)
        self.assertLess(self.rss() - before, 12 << 20)
        call.cancel()
        self.assertEqual(self.server.stdout.readline(), "gone\n")

    def test_gives_up(self):
        self.assertEqual(self.refused("Never", timeout=0.2).code(),
                         grpc.StatusCode.DEADLINE_EXCEEDED)
        self.assertEqual(self.server.stdout.readline(), "gone\n")
        self.alive()

    def raw(self):
        sock = socket.socket(socket.AF_UNIX)
        self.addCleanup(sock.close)
        sock.settimeout(SECONDS)
        sock.connect(self.path)
        sock.sendall(PREFACE + frame(SETTINGS, 0, 0))
        return sock

    @staticmethod
    def send_until_closed(sock, frames):
        """Whether it was closed before all of it was sent."""
        try:
            for data in frames:
                sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
            while sock.recv(65536):
                pass
        except (BrokenPipeError, ConnectionResetError):
            return True
        return False

    def test_rapid_reset(self):
        cancel = (8).to_bytes(4, "big")
        frames = (frame(HEADERS, 4, 2 * i + 1, BLOCK) + frame(RST, 0, 2 * i + 1, cancel)
                  for i in range(10000))
        self.assertTrue(self.send_until_closed(self.raw(), frames))
        self.alive()

    def test_continuation_flood(self):
        before = self.rss()
        frames = [frame(HEADERS, 0, 1, BLOCK)]
        frames += [frame(CONTINUATION, 0, 1, b"\x00\x01a\x7fb" * 100)] * 20000
        self.send_until_closed(self.raw(), frames)
        self.assertLess(self.rss() - before, 2 << 20)
        self.alive()

    @staticmethod
    def send_streams(sock):
        """The server may close it before all of them are sent: it has refused too many."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            sock.sendall(b"".join(frame(HEADERS, 5, 2 * i + 1, BLOCK) + frame(DATA, 1, 2 * i + 1)
                                  for i in range(1000)))

    def test_streams(self):
        """More than are let in at once, none of which ends."""
        self.send_streams(self.raw())
        self.alive()

    def test_half_frames(self):
        socks = [self.raw() for _ in range(20)]
        for i, sock in enumerate(socks):
            sock.sendall((frame(HEADERS, 4, 1, BLOCK) + frame(DATA, 1, 1, message(b"x")))[:i + 1])
        self.alive()

    def abuse(self):
        """All of it at once; it returns when the server has closed what it will."""
        cancel = (8).to_bytes(4, "big")
        socks = [self.raw() for _ in range(10)]
        for i, sock in enumerate(socks[:8]):  # half frames
            sock.sendall((frame(HEADERS, 4, 1, BLOCK) + frame(DATA, 1, 1, message(b"x" * 100)))[:20 * i + 1])
        self.send_streams(socks[8])
        five_mib = message(b"x" * (5 << 20))
        self.send_until_closed(socks[9], [frame(HEADERS, 4, 1, BLOCK), *(
            frame(DATA, 0, 1, five_mib[i:i + 16384]) for i in range(0, len(five_mib), 16384))])
        self.send_until_closed(self.raw(), (frame(HEADERS, 4, 2 * i + 1, BLOCK) + frame(RST, 0, 2 * i + 1, cancel)
                                            for i in range(10000)))
        self.send_until_closed(self.raw(), [frame(HEADERS, 0, 1, BLOCK), *[
            frame(CONTINUATION, 0, 1, b"\x00\x01a\x7fb" * 100)] * 20000])
        error = self.refused("Same", five_mib)
        self.assertEqual(error.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
        for sock in socks:
            sock.close()

    def test_memory(self):
        """10,000 calls, and abuse again and again: at most 2 MiB more than before."""
        self.abuse()
        self.alive()
        before = self.rss()
        for _ in range(10):
            calls = [self.channel.unary_unary("/test.Echo/Same").future(b"x" * 100) for _ in range(1000)]
            self.assertEqual({call.result(SECONDS) for call in calls}, {b"x" * 100})
        self.assertLess(self.rss() - before, 2 << 20)
        for _ in range(3):
            self.abuse()
            self.alive()
        self.assertLess(self.rss() - before, 2 << 20)

    def read_frame(self, sock):
        """(type, flags, stream) of the next frame."""
        head = b""
        while len(head) < 9:
            more = sock.recv(9 - len(head))
            self.assertTrue(more, "the connection is closed")
            head += more
        left = int.from_bytes(head[:3], "big")
        while left:
            left -= len(sock.recv(left))
        return head[3], head[4], int.from_bytes(head[5:], "big")

    def test_torn_and_compressed(self):
        """Of a method that never answers there are no headers, or it was refused."""
        for data in (b"", b"\0\0\0", message(b"a")[:-1], message(b"a") * 2, b"\1\0\0\0\1x",
                     b"\0\xff\xff\xff\xff"):
            sock = self.raw()
            sock.sendall(frame(HEADERS, 4, 1, BLOCK) + frame(DATA, 1, 1, data))
            while (seen := self.read_frame(sock))[0] != HEADERS:
                pass
            self.assertEqual(seen, (HEADERS, 5, 1), data)
        self.alive()

    def test_authority_is_a_path(self):
        """As kubelets before 1.26 say it."""
        channel = grpc.insecure_channel(
            f"unix:{self.path}", options=[("grpc.default_authority", self.path.replace("/", "%2F"))])
        self.assertEqual(channel.unary_unary("/test.Echo/Same")(b"a", timeout=SECONDS), b"a")
        channel.close()

    def test_connections(self):
        """Those that are too many are closed; when some have gone others are let in."""
        socks = []
        for _ in range(100):
            socks.append(socket.socket(socket.AF_UNIX))
            socks[-1].settimeout(SECONDS)
            socks[-1].connect(self.path)
        greeted = [sock.recv(100) != b"" for sock in socks]
        self.assertEqual(sum(greeted), 32)
        for sock in socks:
            sock.close()
        # The server may not have heard of that yet, and close this one, too, which is tried again then.
        again = self.channel.unary_unary("/test.Echo/Same")(b"abc", timeout=SECONDS, wait_for_ready=True)
        self.assertEqual(again, b"abc")

    def test_no_descriptor_is_left(self):
        """Whoever connects waits, and the server sleeps meanwhile."""
        self.alive()
        limit = len(os.listdir(f"/proc/{self.server.pid}/fd"))
        soft, hard = resource.prlimit(self.server.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(self.server.pid, resource.RLIMIT_NOFILE, (limit, hard))
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(SECONDS)
        sock.connect(self.path)
        before, end = self.switches(), time.monotonic() + SECONDS
        while self.switches() < before + 2:
            self.assertLess(time.monotonic(), end, "it spins")
            time.sleep(0.1)
        resource.prlimit(self.server.pid, resource.RLIMIT_NOFILE, (soft, hard))
        self.assertNotEqual(sock.recv(100), b"")
        sock.close()
        self.alive()

    def switches(self):
        """How often the server has gone to sleep by itself: never while it spins."""
        with open(f"/proc/{self.server.pid}/status", encoding="ascii") as file:
            return int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", file.read(), re.M)[1])

    def test_successor(self):
        """A server that ends leaves the socket of one that took its place."""
        with socket.socket(socket.AF_UNIX) as successor:
            os.unlink(self.path)
            successor.bind(self.path)
            self.server.stdin.close()
            self.server.wait(SECONDS)
            self.assertTrue(os.path.exists(self.path))

    def test_end(self):
        self.server.stdin.close()
        self.server.wait(SECONDS)
        self.assertFalse(os.path.exists(self.path))


class Generic(grpc.GenericRpcHandler):
    def service(self, details):
        def unary(request, context):
            if details.method.endswith("Fail"):
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, "bad: 100 %")
            if details.method.endswith("Slow"):
                time.sleep(2)
            return request[::-1]

        def stream(request, context):
            for i in range(5):
                yield request * (i + 1)

        if details.method.endswith("Stream"):
            return grpc.unary_stream_rpc_method_handler(stream)
        return grpc.unary_unary_rpc_method_handler(unary)


class Called(Peer):
    def setUp(self):
        super().setUp()
        from concurrent import futures
        self.server = grpc.server(futures.ThreadPoolExecutor(4), handlers=[Generic()])
        self.server.add_insecure_port(f"unix:{self.path}")
        self.server.start()
        self.addCleanup(self.server.stop, 0)

    def call(self, method, word="abc", timeout=20000):
        process = self.start("call", self.path, f"/test.Echo/{method}", str(timeout), word)
        return process.stdout.read().splitlines()

    def test_calls(self):
        self.assertEqual(self.call("Same"), ["heard 3 cba", "ended 0 "])
        self.assertEqual(self.call("Fail"), ["ended 3 bad: 100 %"])
        self.assertEqual(self.call("Stream")[-2:], ["heard 15 " + "abc" * 5, "ended 0 "])
        self.assertEqual(self.call("Same", "x" * 100000)[0][:12], "heard 100000")
        self.assertEqual(self.call("Slow", timeout=100)[-1], "ended 4 there was no answer in time")

    def test_server_ends(self):
        threading.Timer(0.3, self.server.stop, [0]).start()
        self.assertIn(self.call("Slow")[-1][:8], ("ended 14", "ended 1 "))

    def test_nobody_there(self):
        self.server.stop(0).wait()
        done = subprocess.run([PEER, "call", self.path + "x", "/a", "100", ""],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS)
        self.assertEqual(done.returncode, 1)


unittest.main()
