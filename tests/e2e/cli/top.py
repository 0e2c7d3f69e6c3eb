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

    def rows(self, *options):
        """{name: its line}; the list is the last table."""
        out = self.ok("top", "--once", *options)
        lines = out[out.index("  TENANT"):].splitlines()[1:]
        return {line.split()[0]: line for line in lines}

    def test_once(self):
        for args in (("--once",), ()):
            lines = self.ok("top", *args, env={"LC_ALL": "C"}).splitlines()
            self.assertEqual(lines[0], "allot: 2 tenants, 2 processes, by memory")
            self.assertEqual(lines[1], 'no device is seen here; "allot doctor" says why')
            self.assertEqual(lines[2], "")
            del lines[1:3]
            self.assertEqual(lines[1].split(),
                             ["TENANT", "USER", "GPU", "STATE", "PROC", "USED", "QUOTA", "MEM%",
                              "MEMORY", "REFUSED"])
            self.assertRegex(lines[2], r"^  large +\S+ +GPU-aaaaaaaa +running +1 +4 GiB +8 GiB "
                                       r"+50% #+-?\.+$")
            self.assertRegex(lines[3], r"^  small .* 1000 MiB +1 GiB +97% #+-?\.? +1$")
            self.assertEqual(len(lines), 4)
            self.assertLess(max(map(len, lines)), 80)

    def test_sort(self):
        self.assertEqual(list(self.rows("--sort", "memory")), ["large", "small"])
        self.assertEqual(list(self.rows("--sort", "name")), ["large", "small"])
        self.assertEqual(list(self.rows("--sort", "refusals")), ["small", "large"])
        self.assertEqual(list(self.rows("--sort", "share")), ["large", "small"])
        self.assertEqual(list(self.rows("--sort", "user")), ["large", "small"])
        self.assertEqual(self.allot("top", "--sort", "age").returncode, 125)

    def test_filter(self):
        self.assertEqual(list(self.rows("--filter", "LAR")), ["large"])
        self.assertIn('nothing has "x!"', self.ok("top", "-f", "x!"))
        for text, words in (("LAR", "1 of 2 tenants, with \"LAR\", 1 process,"),
                            ("x!", "0 of 2 tenants, with \"x!\", 0 processes,")):
            title = self.ok("top", "--filter", text).splitlines()[0]
            self.assertTrue(title.startswith(f"allot: {words}"), title)
        done = self.allot("top", "--filter", "x" * 64)
        self.assertEqual(done.returncode, 125)
        self.assertIn("at most 63 characters", done.stderr)

    def test_interval(self):
        self.ok("top", "--once", "--interval", "500ms")
        for wrong in ("5", "99ms", "2h", "3601s", "-1s", "x"):
            done = self.allot("top", "--once", f"--interval={wrong}")
            self.assertEqual(done.returncode, 125, wrong)
            self.assertIn(wrong, done.stderr)

    def test_one_tenant(self):
        out = self.ok("top", "large")
        self.assertNotIn("small", out)
        self.assertRegex(out, rf"(?m)^ +{self.holder.pid} +{self.holder.pid} +GPU-aaaaaaaa +4 GiB")
        self.fails(125, "top", "nobody", says=('"nobody"',))

    def test_compute(self):
        """The part of the time, of what the tenant may count on; then its last minute."""
        self.ok("set", "small", "--compute", "25", "--priority", "high")
        self.hold("small", f"{UUID_A}:busy:200", f"{UUID_A}:owed:1500000000000")
        self.assertRegex(self.rows()["small"], r" (20|0)\.0% +25%")
        out = self.ok("top", "small")
        self.assertRegex(out, r"(?m)^share   (20|0)\.0% of 25%, cap, high, owes \d+ s$")
        self.assertRegex(out, r"(?m)^    25%\|-{60}$")
        self.assertRegex(out, r"(?m)^    20%\|[#█]{40,}")
        self.assertIn("60 s ago", out)
        self.assertLess(max(len(line) for line in out.splitlines()[:14]), 80)
        self.assertNotIn("60 s ago", self.ok("top", "large"))
        self.assertEqual(list(self.rows("--sort", "share")), ["small", "large"])

    def test_compute_in_space(self):
        """A part of the SMs, and of the time on them: all of it is the whole."""
        self.living("space", "--compute", "25")
        self.ok("set", "space", "--mode", "space")
        self.hold("space", f"{UUID_A}:busy:900", f"{UUID_A}:owed:9000000000",
                  f"{UUID_A}:longest:900000000")
        done = self.allot("top", "space")
        self.assertRegex(done.stdout, r"(?m)^share   (90|0)\.0% of 100%, cap, 25% of the SMs")
        self.assertRegex(done.stdout, r"(?m)^   100%\|")
        self.assertEqual(self.allot("ps", "space").stderr, "")

    def test_selection(self):
        for i in range(6):
            self.living(f"c{i}", "--compute", "10")
            self.hold(f"c{i}", f"{UUID_A}:busy:{700 - 100 * i}")
        screen = Screen(self)
        screen.wait(r"q quit")
        screen.key("s")
        screen.wait(r"share")
        # The selection stays with its tenant, which others are before now.
        screen.key("\x0c")
        screen.wait(r"by share")
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
        self.assertIn(b"\x1b[?1049l", screen.raw, "the terminal is put back")

    def test_signals_put_the_terminal_back(self):
        screen = Screen(self)
        screen.wait(r"q quit")
        os.kill(screen.pid, signal.SIGTERM)
        self.assertEqual(screen.end(), -signal.SIGTERM)
        self.assertIn(b"\x1b[?1049l", screen.raw)

    def test_a_terminal_that_goes_away(self):
        """Nobody is left to be shown anything: it ends, and does not go round."""
        screen = Screen(self)
        screen.wait(r"q quit")
        os.close(screen.fd)
        screen.fd = os.open("/dev/null", os.O_RDONLY)
        self.assertIn(os.waitstatus_to_exitcode(os.waitpid(screen.pid, 0)[1]), (0, -signal.SIGHUP))
        screen.ended = 0


if __name__ == "__main__":
    cli_lib.main()
