# SPDX-License-Identifier: Apache-2.0
"""allot top: one frame without a terminal; keys, resizing and a clean end on one (a pty)."""

import fcntl
import os
import re
import select
import signal
import struct
import termios
import time

import cli_lib
from cli_lib import ALLOT, GIB, MIB, UUID_A, UUID_B


class Screen:
    """allot top on a pty, and what it drew, without the escape sequences."""

    def __init__(self, case, *args, size=(24, 80)):
        self.pid, self.fd = cli_lib.fork_on_terminal()
        if not self.pid:
            env = {**case.env, "TERM": "xterm"}
            os.execve(ALLOT, [ALLOT, "top", *args], env)
        self.resize(*size)
        self.case = case
        self.ended = None
        self.raw = b""
        case.addCleanup(self.close)

    def close(self):
        if self.ended is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.fd)

    def resize(self, lines, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def text(self):
        text = re.sub(rb"\x1b\[(\d+)X", rb" ", self.raw)
        text = re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][A-Z0-9]|\x1b[=>78]|[\x0e\x0f]", rb"", text)
        return text.decode(errors="replace")

    def wait(self, pattern, seconds=20):
        end = time.monotonic() + seconds
        while not re.search(pattern, self.text()):
            if time.monotonic() > end:
                raise AssertionError(f"{pattern!r} did not appear in {self.text()!r}")
            if select.select([self.fd], [], [], 0.1)[0]:
                try:
                    self.raw += os.read(self.fd, 65536)
                except OSError:
                    break
        self.case.assertRegex(self.text(), pattern)

    def key(self, key):
        self.raw = b""
        os.write(self.fd, key.encode())

    def end(self):
        while True:
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                data = b""
            if not data:
                break
            self.raw += data
        self.ended = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.ended


class Top(cli_lib.Case):
    def setUp(self):
        super().setUp()
        self.living("small", "--memory", "1GiB")
        self.living("large", "--memory", "8GiB")
        self.hold("small", f"{UUID_A}:data:{1000 * MIB}", f"{UUID_A}:refuse:{GIB}")
        self.holder = self.hold("large", f"{UUID_B}:data:{4 * GIB}")

    def test_once(self):
        for args in (("--once",), ()):
            lines = self.ok("top", *args).splitlines()
            self.assertIn("2 tenants, 2 processes, by memory", lines[0])
            self.assertRegex(lines[1], r"^  large +GPU-aaaaaaaa +1 process +4 GiB of 8 GiB +50%$")
            self.assertEqual(lines[2], "[" + "#" * 38 + "." * 39 + "]")
            self.assertRegex(lines[3], r"^  small .* 1 refused +1000 MiB of 1 GiB +97%$")
            self.assertEqual({len(line) for line in lines[1:]}, {79})

    def test_sort(self):
        def order(key):
            return re.findall(r"(?m)^  (\w+) +GPU", self.ok("top", "--sort", key))
        self.assertEqual(order("memory"), ["large", "small"])
        self.assertEqual(order("name"), ["large", "small"])
        self.assertEqual(order("refusals"), ["small", "large"])
        self.assertEqual(order("compute"), ["large", "small"])
        self.assertEqual(self.allot("top", "--sort", "age").returncode, 125)

    def test_one_tenant(self):
        out = self.ok("top", "large")
        self.assertNotIn("small", out)
        self.assertRegex(out, rf"(?m)^ +{self.holder.pid} +{self.holder.pid} +GPU-aaaaaaaa +4 GiB")
        self.fails(125, "top", "nobody", says=('"nobody"',))

    def test_compute(self):
        """A line and a bar more, against what the tenant may count on; then its last minute."""
        self.ok("set", "small", "--compute", "25", "--priority", "high")
        self.hold("small", f"{UUID_A}:busy:200", f"{UUID_A}:owed:1500000000000")
        lines = self.ok("top").splitlines()
        self.assertEqual(len(lines), 7)
        self.assertRegex(lines[5],
                         r"^  compute +cap, high, owes \d+ s +(20|0)\.0% of 25% +(80|0)%$")
        self.assertRegex(lines[6], r"^\[#*\.+\]$")
        self.assertEqual({len(line) for line in lines[1:]}, {79})
        out = self.ok("top", "small")
        self.assertRegex(out, r"(?m)^    25%\|-{60}$")
        self.assertRegex(out, r"(?m)^    20%\|#{40,}")
        self.assertIn("60 s ago", out)
        self.assertLess(max(len(line) for line in out.splitlines()[:14]), 80)
        self.assertNotIn("60 s ago", self.ok("top", "large"))
        self.assertEqual(re.findall(r"(?m)^  (\w+) +GPU", self.ok("top", "--sort", "compute")),
                         ["small", "large"])

    def test_compute_in_space(self):
        """A part of the SMs, and of the time on them: a full bar is all of the time."""
        self.living("space", "--compute", "25")
        self.ok("set", "space", "--mode", "space")
        self.hold("space", f"{UUID_A}:busy:900", f"{UUID_A}:owed:9000000000",
                  f"{UUID_A}:longest:900000000")
        done = self.allot("top", "space")
        self.assertRegex(done.stdout,
                         r"(?m)^  compute +cap, 25% of the SMs +(90|0)\.0% of 100% +(90|0)%$")
        self.assertRegex(done.stdout, r"(?m)^   100%\|")
        self.assertEqual(self.allot("ps", "space").stderr, "")

    def test_compute_on_a_screen(self):
        for i in range(6):
            self.living(f"c{i}", "--compute", "10")
            self.hold(f"c{i}", f"{UUID_A}:busy:{700 - 100 * i}")
        screen = Screen(self)
        screen.wait(r"c compute")
        screen.key("c")
        screen.wait(r"compute")
        # The selection stays with its tenant, which others are before now.
        screen.key("\x0c")
        screen.wait(r"by compute")
        screen.wait(r"> large")
        screen.key("k")
        screen.key("\x0c")
        screen.wait(r"> c5")
        screen.key("p")
        screen.wait(r"60 s ago")
        screen.resize(12, 40)
        screen.wait(r"HOST PID")
        screen.key("q")
        self.assertEqual(screen.end(), 0)

    def test_keys(self):
        screen = Screen(self)
        screen.wait(r"> large .*50%")
        screen.wait(r"small .* 1 refused")
        screen.wait(r"q quit")
        screen.key("j")
        screen.key("\x0c")
        screen.wait(r"> small")
        screen.key("p")
        screen.wait(r"HOST PID")
        screen.key("\x1b")
        screen.wait(r"choose")
        screen.key("r")
        screen.wait(r"refusals")
        screen.key("n")
        screen.wait(r"name")
        screen.key("q")
        self.assertEqual(screen.end(), 0)
        self.assertIn(b"\x1b[?1049l", screen.raw, "the terminal is put back")

    def test_it_is_live(self):
        screen = Screen(self)
        screen.wait(r"50%")
        screen.raw = b""
        self.hold("large", f"{UUID_B}:pool:{3 * GIB}")
        screen.wait(r"87|7 GiB")
        screen.key("q")
        self.assertEqual(screen.end(), 0)

    def test_resize(self):
        screen = Screen(self)
        screen.wait(r"q quit")
        for lines, columns in ((10, 40), (3, 20), (1, 5), (60, 200), (24, 80)):
            screen.resize(lines, columns)
            time.sleep(0.05)
        screen.raw = b""
        screen.wait(r"large")
        screen.key("q")
        self.assertEqual(screen.end(), 0)

    def test_signals_put_the_terminal_back(self):
        screen = Screen(self)
        screen.wait(r"q quit")
        os.kill(screen.pid, signal.SIGTERM)
        self.assertEqual(screen.end(), -signal.SIGTERM)
        self.assertIn(b"\x1b[?1049l", screen.raw)

    def test_many_tenants_on_a_small_screen(self):
        for i in range(30):
            self.living(f"t{i}", "--memory", "1GiB")
        screen = Screen(self)
        screen.wait(r"32 tenants")
        screen.wait(r"q quit")
        for _ in range(31):
            os.write(screen.fd, b"j")
        screen.key("\x0c")
        screen.wait(r"> t9 ")
        screen.key("q")
        self.assertEqual(screen.end(), 0)


if __name__ == "__main__":
    cli_lib.main()
