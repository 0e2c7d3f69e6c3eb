# SPDX-License-Identifier: Apache-2.0
"""allot top: one frame without a terminal; keys, resizing and a clean end on one (a pty)."""

import fcntl
import json
import os
import re
import select
import signal
import struct
import subprocess
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
        # Nobody's own settings.
        self.env["XDG_CONFIG_HOME"] = self.path("config")
        self.living("small", "--memory", "1GiB")
        self.large = self.living("large", "--memory", "8GiB")
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

    def test_reverse(self):
        for sort in ("memory", "name", "refusals"):
            order = list(self.rows("--sort", sort))
            self.assertEqual(list(self.rows("--sort", sort, "--reverse")), order[::-1], sort)
        self.assertIn(", by memory reversed", self.ok("top", "--once", "-r").splitlines()[0])

    def test_columns(self):
        """As they were asked for, also where they are empty."""
        def headings(columns):
            out = self.ok("top", "--once", "--columns", columns)
            return out[out.index("TENANT"):].splitlines()[0].split()

        self.assertEqual(headings("quota,user,away"), ["TENANT", "QUOTA", "USER", "AWAY"])
        self.assertEqual(headings("used  mem%, used"), ["TENANT", "USED", "MEM%"])
        self.assertIn("REFUSED", headings(""))
        self.assertNotIn("REFUSED", headings("tenant,last-minute,command"))
        for wrong in ("age", "user,age", "x" * 200):
            done = self.allot("top", "--once", "--columns", wrong)
            self.assertEqual(done.returncode, 125)
            self.assertIn(f"there is no column \"{wrong[-3:]}", done.stderr)

    def test_json(self):
        """A line for each look; what is on it is documented."""
        shapes = cli_lib.documented()
        line = self.ok("sim", "--gpus", "1", "--dir", self.path("devices"), "--", ALLOT, "top",
                       "--json", "--once")
        self.assertEqual(line.count("\n"), 1)
        live = json.loads(line)
        self.check_shape(live, "live", shapes)
        self.check_shape(live["devices"][0], "live_device", shapes)
        self.assertEqual((live["devices"][0]["power_limit_mw"], live["devices"][0]["sm_mhz"]),
                         (700000, 1980))
        for tenant in live["tenants"]:
            self.check_shape(tenant, "tenant", shapes)
        for options, names in (((), ["large", "small"]), (("--reverse",), ["small", "large"]),
                               (("--filter", "sma"), ["small"]), (("small",), ["small"])):
            live = json.loads(self.ok("top", "--json", "--once", *options))
            self.assertEqual([tenant["name"] for tenant in live["tenants"]], names)
            self.assertEqual(live["devices"], [])

    def test_json_goes_on(self):
        top = self.start(ALLOT, "top", "--json", "--interval", "100ms")
        times = [json.loads(top.stdout.readline())["time_ms"] for _ in range(3)]
        self.assertEqual(times, sorted(times))
        top.stdout.close()
        self.assertEqual(top.wait(100), -signal.SIGPIPE)

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

    def test_mouse(self):
        """A click selects, another one opens; headings sort, one way and the other; the wheel moves."""
        terminal = subprocess.run(["infocmp", "-1", "xterm"], capture_output=True, text=True, check=False)
        if "kmous=\\E[<," not in terminal.stdout:
            self.skipTest("xterm's clicks are written in another way here")
        # The title, no device, an empty line, the headings, two tenants.
        def click(button, column, line):
            press = f"\x1b[<{button};{column};{line}M"
            return press if button else press + press.lower()

        screen = Screen(self)
        screen.wait(r"> large")
        screen.wait(r"q quit")
        screen.key(click(0, 5, 6))
        screen.key("\x0c")
        screen.wait(r"> small")
        screen.key(click(64, 5, 5))
        screen.key("\x0c")
        screen.wait(r"> large")
        screen.key(click(0, 5, 4))
        screen.key("\x0c")
        screen.wait(r"by name, every")
        screen.key(click(0, 5, 4))
        screen.wait(r"reversed")
        screen.key(click(0, 5, 6))
        screen.key("\x0c")
        screen.wait(r"HOST PID")
        # Elsewhere it does nothing.
        for line in (1, 2, 3, 20, 24):
            screen.key(click(0, 70, line))
        screen.key("M")
        self.quit(screen)
        self.assertIn(b"1000l", screen.raw)

    def settings(self, text=None):
        folder = os.path.join(self.env["XDG_CONFIG_HOME"], "allot")
        if text is not None:
            os.makedirs(folder, exist_ok=True)
            with open(os.path.join(folder, "top"), "w", encoding="utf-8") as file:
                file.write(text)
        return os.path.join(folder, "top")

    def quit(self, screen):
        screen.key("q")
        self.assertEqual(screen.end(), 0)

    def test_settings_are_kept(self):
        screen = Screen(self)
        screen.wait(r"q quit")
        screen.key("nR+c")
        screen.wait(r"columns \(none: as many as fit\): ")
        screen.key("age\r")
        screen.wait(r"there is no column \"age\"")
        screen.key("cquota user\r")
        screen.key("\x0c")
        screen.wait(r"TENANT +QUOTA +USER")
        screen.key("W")
        screen.wait(r"saved in \S+")
        self.quit(screen)
        with open(self.settings(), encoding="utf-8") as file:
            self.assertEqual(file.read().splitlines()[1:],
                             ["sort name", "reverse yes", "interval 2000ms", "clocks no",
                              "no-mouse no", "columns quota user"])
        self.assertEqual(os.listdir(os.path.dirname(self.settings())), ["top"])
        screen = Screen(self)
        screen.wait(r"by name reversed, every 2 s")
        screen.wait(r"TENANT +QUOTA +USER")
        self.quit(screen)
        # Options go before; and what is no terminal's is as ever.
        screen = Screen(self, "--sort", "memory", "--interval", "5s", "--columns", "used")
        screen.wait(r"by memory, every 5 s")
        self.quit(screen)
        self.assertIn(", by memory\n", self.ok("top", "--once"))

    def test_damaged_settings(self):
        """They stop nothing, and what is understood counts."""
        for text, said in (("sort age\nreverse yes\n", "line 1 of "),
                           ("reverse yes\n\n# x\nlater version\n", "line 4 of "),
                           ("reverse yes\ninterval 1\n\xff\x00", "line 2 of "),
                           ("reverse yes\ncolumns " + "x" * 5000, "line 2 of ")):
            self.settings(text)
            screen = Screen(self, size=(24, 160))
            screen.wait(said)
            screen.wait(r"reversed")
            self.quit(screen)
        path = self.settings()
        os.unlink(path)
        os.mkfifo(path)
        screen = Screen(self, size=(24, 160))
        screen.wait(r"settings are not read: ")
        self.quit(screen)
        os.unlink(path)
        os.mkdir(path)
        screen = Screen(self, size=(24, 160))
        screen.wait(r"settings are not read: ")
        screen.key("W")
        screen.wait(r"not saved: ")
        self.quit(screen)

    def test_any_signal(self):
        screen = Screen(self)
        screen.wait(r"> large")
        screen.key("Sage\r")
        screen.wait(r"\"age\" is no signal")
        for words, name in (("hup", "SIGHUP"), ("SIGINT", "SIGINT"), ("44", "signal 44")):
            screen.key(f"S{words}\r")
            screen.wait(rf"send {name} to tenant large of \S+, 2 processes \(y/n\)\?")
            screen.key("n")
            screen.wait(r"nothing was done")
        screen.key("SUSR1\r")
        screen.wait(r"2 processes \(y/n\)\?")
        screen.key("y")
        screen.wait(r"SIGUSR1 sent to 2 processes")
        self.assertEqual(self.holder.wait(100), -signal.SIGUSR1)
        self.quit(screen)

    def test_a_signal_is_for_who_was_selected(self):
        """Who ends while the signal's name is typed leaves it to nobody."""
        screen = Screen(self)
        screen.wait(r"> large")
        screen.key("SKILL")
        for process in (self.holder, self.large):
            process.kill()
            process.wait()
        screen.wait(r"1 process")
        screen.key("\r")
        screen.wait(r"large has ended: nothing was done")
        self.quit(screen)

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
