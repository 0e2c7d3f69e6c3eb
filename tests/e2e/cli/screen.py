# SPDX-License-Identifier: Apache-2.0
"""allot top in tmux, on simulated devices: what stands on the screen, and what the keys do."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import cli_lib
from cli_lib import ALLOT, GIB, MIB

# Outside of all tenants: holds memory of device 0, and was given words for a terminal.
STRAY = """
import ctypes, sys
cu = ctypes.CDLL("libcuda.so.1")
context, block = ctypes.c_void_p(), ctypes.c_uint64()
assert cu.cuInit(0) == 0 and cu.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cu.cuCtxSetCurrent(context) == 0
assert cu.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(510 << 20)) == 0
print("up", flush=True)
sys.stdin.read()
"""
# Uses device 0, and has a child by way of a shell that does so, too.
FAMILY = """
import ctypes, subprocess, sys
cu = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
assert cu.cuInit(0) == 0 and cu.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
if sys.argv[1] == "parent":
    subprocess.Popen(["sh", "-c", '"$0" "$1" child; true', sys.executable, sys.argv[0]])
else:
    print("up", flush=True)
sys.stdin.read()
"""
WORDS = "\x1b[2Jclear\x9b31m\u202ekcab"
BLOCKS = "▁▂▃▄▅▆▇█"
PARTS = "▏▎▍▌▋▊▉░"


class Screen(cli_lib.Case):
    gpus = 2

    def setUp(self):
        if not shutil.which("tmux"):
            self.skipTest("tmux is not installed")
        super().setUp()
        self.env["LC_ALL"] = "C.UTF-8"
        self.env["XDG_CONFIG_HOME"] = self.path("config")
        self.env.pop("TMUX", None)
        self.socket = self.path("tmux")
        self.sim = [ALLOT, "sim", "--gpus", str(self.gpus), "--memory", "24GiB", "--context",
                    "2MiB", "--dir", self.path("devices"), "--"]
        topo = json.loads(subprocess.run([*self.sim, ALLOT, "topo", "--json"], env=self.env,
                                         check=True, capture_output=True, timeout=60).stdout)
        self.device = [device["id"] for device in topo["devices"]]

    def tenants(self):
        """Two on device 0, one of them with a share, one on device 1; and somebody outside."""
        self.large = self.living("large", "--memory", "8GiB", "--compute", "25")
        self.living("small", "--memory", "1GiB")
        self.living("other", "--memory", "12GiB")
        self.holder = self.hold("large", f"{self.device[0]}:data:{4 * GIB}",
                                f"{self.device[0]}:busy:200")
        self.hold("small", f"{self.device[0]}:data:{1000 * MIB}",
                  f"{self.device[0]}:refuse:{GIB}")
        self.hold("other", f"{self.device[1]}:data:{3 * GIB}")
        self.stray = self.start(*self.sim, sys.executable, self.path("stray.py", STRAY), WORDS)
        self.assertEqual(self.stray.stdout.readline(), "up\n")

    def tmux(self, *words):
        return subprocess.run(["tmux", "-u", "-S", self.socket, "-f", self.path("tmux.conf"),
                               *words], env=self.env, check=True, capture_output=True, text=True,
                              timeout=60).stdout

    def shell(self, width, height, **env):
        """A shell on a terminal of its own, among the devices."""
        self.path("tmux.conf", "set -g status off\nset -g escape-time 0\n"
                  "set -g default-terminal screen-256color\n")
        shell = ["env", "PS1=READY ", *(f"{k}={v}" for k, v in env.items()), "bash", "--norc",
                 "--noprofile", "-i"]
        try:
            self.tmux("new-session", "-d", "-x", str(width), "-y", str(height), *self.sim, *shell)
        except subprocess.CalledProcessError as error:
            self.skipTest(f"tmux does not start here: {error.stderr}")
        self.addCleanup(self.tmux, "kill-server")
        self.wait("READY")

    def top(self, width, height, *options, **env):
        self.shell(width, height, **env)
        self.type(" ".join((ALLOT, "top", *options)) + "\n")
        self.wait(r"allot: ")

    def type(self, text):
        self.tmux("send-keys", "-l", "--", text)

    def key(self, *keys):
        self.tmux("send-keys", *keys)

    def lines(self):
        return [line.rstrip() for line in self.tmux("capture-pane", "-p").split("\n")]

    def wait(self, *patterns, absent=(), seconds=30):
        """Until all of these are on the screen, and none of those."""
        end = time.monotonic() + seconds
        while True:
            text = "\n".join(self.lines())
            if all(re.search(p, text, re.M) for p in patterns) and \
                    not any(re.search(p, text, re.M) for p in absent):
                return text.split("\n")
            if time.monotonic() > end:
                raise AssertionError(f"{patterns} without {absent} did not appear in\n{text}")
            time.sleep(0.05)

    def order(self):
        """The names in the list."""
        lines = self.lines()
        at = next(i for i, line in enumerate(lines) if "TENANT" in line)
        found = [re.match(r"[> ] (\S+)", line) for line in lines[at + 1:-1]]
        return [m[1] if not m[1].startswith("!") else "!" for m in found if m]

    def wait_order(self, *names):
        cli_lib.wait_for(lambda: self.order() == list(names))

    def is_sane(self):
        """The shell has its terminal back as it was."""
        cli_lib.wait_for(lambda: "\n".join(self.lines()).rstrip().split("\n")[-1] == "READY")
        self.type("clear; stty -a | tr ' ;' '\\n\\n' | grep -x -e echo -e icanon -e isig | sort | "
                  "tr '\\n' ,; echo DONE\n")
        self.wait(r"^echo,icanon,isig,DONE")
        self.assertEqual(self.tmux("display-message", "-p", "#{alternate_on} #{cursor_flag}"),
                         "0 1\n")


class Layout(Screen):
    def test_60_columns(self):
        self.tenants()
        self.top(60, 20)
        lines = self.wait(r"q quit", r"large")
        for line in lines:
            self.assertLessEqual(len(line), 60)
        self.assertEqual(lines[0], "allot: 3 tenants, 1 outside, 3 processes, by memory")
        self.assertEqual(lines[1].split(), ["GPU", "TOTAL", "USED", "PROMISED", "FREE", "UTIL",
                                            "TEMP", "POWER"])
        self.assertEqual(lines[2].split(), ["0", "24", "GiB", "512", "MiB", "21", "GiB", "23.5",
                                            "GiB", "0%", "40", "C", "120", "W"])
        self.assertEqual(lines[3].split(), ["1", "24", "GiB", "0", "21", "GiB", "24", "GiB", "0%",
                                            "40", "C", "120", "W"])
        self.assertEqual(lines[5].split(), ["TENANT", "GPU", "USED", "QUOTA", "MEM%", "SHARE",
                                            "OF"])
        self.assertRegex(lines[6], r"^> large +0 +4 GiB +8 GiB +50% +\d+\.\d% +25%$")
        self.assertRegex(lines[7], r"^  other +1 +3 GiB +12 GiB +25%$")
        self.assertRegex(lines[8], r"^  small +0 +1000 MiB +1 GiB +97%$")
        self.assertRegex(lines[9], r"^  !\d+ python\S* +0 +512 MiB +- +2%$")
        self.assertEqual(lines[10:19], [""] * 9)
        self.assertRegex(lines[19], r"^ q quit  \? help  / filter  m s n u r sort ")

    def test_a_long_name_at_80_columns(self):
        """It is cut in its middle, and costs no other column."""
        self.keep("a-team-of-researchers-0001", "--memory", "6GiB")
        self.keep("a-team-of-researchers-0002", "--memory", "6GiB", "--compute", "25")
        self.hold("a-team-of-researchers-0002", f"{self.device[0]}:data:{GIB}",
                  f"{self.device[0]}:busy:200", f"{self.device[0]}:refuse:{GIB}")
        self.top(80, 24)
        lines = self.wait(r"q quit", r"^> a-t\S*\.\.\S*0002 ")
        self.assertLessEqual({"USER", "QUOTA", "MEMORY", "SHARE", "OF", "REFUSED"},
                             set(lines[5].split()))
        self.assertRegex(lines[7], r"^  a-t\S*\.\.\S*0001 ")
        self.assertNotIn("no device", "\n".join(lines))

    def test_200_columns(self):
        self.tenants()
        self.top(200, 50)
        lines = self.wait(r"q quit", r"large")
        for line in lines:
            self.assertLessEqual(len(line), 200)
        self.assertRegex(lines[1], r"^GPU MODEL +TOTAL +USED +PROMISED +FREE +UTIL TEMP POWER "
                                   r"MEMORY +OVER TIME$")
        self.assertRegex(lines[2], r"^  0 allot simulated GPU +24 GiB +512 MiB +21 GiB +23.5 GiB "
                                   r"+0% 40 C 120 W ▊░{39} +▂+$")
        self.assertRegex(lines[5], r"^  TENANT +USER +GPU STATE +PROC +USED +QUOTA MEM% MEMORY +"
                                   r"OVER TIME +SHARE +OF LAST MINUTE +(HOW +)?REFUSED COMMAND$")
        row, program = lines[6], re.escape(cli_lib.HOLDER[:10])
        self.assertRegex(row, r"^> large +\S+ +0 +running +1 +4 GiB +8 GiB +50% █+▌?░+ +▅+ ")
        self.assertRegex(row, rf" 25% [{BLOCKS}]{{11,}} +cap +{program}")
        self.assertRegex(lines[8], rf"^  small .* 97% █+[{PARTS}]* +█+ +1 {program}")
        # Its words are shown, and moved nothing.
        self.assertRegex(lines[9], r"^  !\d+ python\S* +\S+ +0 +outside +512 MiB +- +2% [▏▎▍▌]░+ ")
        text = "\n".join(lines)
        self.assertNotIn("\x1b", text)
        self.assertEqual(lines[10:48], [""] * 38)
        self.key("End")
        self.wait(r"^> !")
        self.key("p")
        self.wait(r"^command .*stray.py \?\[2Jclear\?31m\?kcab$", r"^in no tenant",
                  rf"^memory \| +[{BLOCKS}]+$")

    def test_words_for_a_terminal(self):
        """A tenant's process says what it is called; it may be a command to the terminal."""
        self.living("evil", "--memory", "8GiB")
        holder = self.start(WORDS, os.path.join(self.runtime, "evil"),
                            f"{self.device[0]}:data:{MIB}", executable=cli_lib.HOLDER)
        self.assertEqual(holder.stdout.readline(), "held\n")
        shown = r" \?\[2Jclear\?31m\?kcab "
        for options in ((), ("evil",)):
            out = self.ok("top", "--once", *options)
            self.assertTrue(re.sub(f"[\n{BLOCKS}{PARTS}]", "", out).isprintable(), out)
            self.assertNotIn("\u202e", out)
        self.assertRegex(out, shown)
        self.top(200, 30)
        self.wait(rf"^> evil .*{shown}")
        self.key("Enter")
        self.wait(rf"^ +\d+ +\d+ +GPU-\w+ +1 MiB .*{shown}", r"q quit")

    def test_processes_of_one(self):
        """A child is below its parent; on a wide screen with its memory of the host, and its SMs."""
        family = self.start(*self.sim, ALLOT, "run", "--name", "family", "--", sys.executable,
                            self.path("family.py", FAMILY), "parent")
        self.assertEqual(family.stdout.readline(), "up\n")
        out = self.ok("top", "family")
        self.assertRegex(out, r"(?m)DRIVER  COMMAND\n +\d+ .*  [^ `]+.*\n +\d+ .*  `-\S+")
        self.top(200, 24, "family")
        self.wait(r"DRIVER +SM +HOST +COMMAND$", r" -  +[\d.]+ MiB  \S*python\S* \S+family.py parent$",
                  r" -  +[\d.]+ MiB  `-\S*python\S* \S+family.py child$")

    def test_history_grows(self):
        self.tenants()
        self.top(200, 50, "-i", "100ms")
        self.wait(r"large .* ▅{8}")
        self.hold("large", f"{self.device[0]}:pool:{4 * GIB}")
        self.wait(r"large .* 100% .* ▅+█+")

    def test_without_utf8(self):
        self.tenants()
        self.top(200, 50, LC_ALL="C", LANG="C")
        lines = self.wait(r"q quit", r"large .* 50% #+-?\.+ ")
        self.assertTrue("\n".join(lines).isascii())

    def test_resize(self):
        self.tenants()
        self.top(60, 20)
        self.wait(r"q quit", r"large")
        self.tmux("resize-window", "-x", "200", "-y", "50")
        self.wait(r"COMMAND$", r"K kill")
        for width, height in ((20, 5), (5, 2), (300, 80), (60, 20)):
            self.tmux("resize-window", "-x", str(width), "-y", str(height))
            time.sleep(0.1)
        self.wait(r"^> large +0 +4 GiB +8 GiB +50%", r"^ q quit", absent=(r"COMMAND",))
        self.key("q")
        self.wait("READY $|READY$")

    def test_scroll(self):
        for i in range(30):
            self.keep(f"t{i:02}", "--memory", "1GiB")
        self.top(60, 20, "--sort", "name")
        self.wait(r"^  0 more above, 18 more below$")
        self.assertEqual(self.order()[:2], ["t00", "t01"])
        for _ in range(12):
            self.type("j")
        self.wait(r"^> t12", r"^  1 more above, 17 more below$", absent=(r"t00",))
        self.key("End")
        self.wait(r"^> t29", r"^  18 more above, 0 more below$")
        self.key("PageUp")
        self.wait(r"^> t17")
        self.key("Home")
        self.wait(r"^> t00", r"^  0 more above, 18 more below$")


class Devices(Screen):
    gpus = 12

    def test_more_than_there_is_room_for(self):
        self.keep("a", "--memory", "1GiB")
        self.top(60, 20)
        lines = self.wait(r"^  7 more devices$", r"^> a ")
        self.assertRegex(lines[6], r"^  4 +24 GiB ")
        self.assertEqual(len(self.ok("top", env=self.sim_env()).splitlines()), 17)

    def test_what_a_driver_does_not_tell(self):
        machine = self.path("machine")
        sim = ("sim", "--gpus", "1", "--amd", "1", "--memory", "24GiB", "--dir", machine, "--")
        # The kernel has no such file for every GPU, and refuses to read that of some.
        for text, shown in (("37\n", "37%"), ("0\n", "0%"), ("100\n", "100%"), ("101\n", "-"),
                            ("x\n", "-"), ("", "-"), (None, "-")):
            out = self.ok(*sim, "sh", "-c",
                          'for f in $(find "$1" -name gpu_busy_percent); do rm "$f"; '
                          '[ "$2" = none ] || printf "$2" >"$f"; done; exec "$0" top',
                          ALLOT, machine, "none" if text is None else text)
            self.assertRegex(out, rf"(?m)^  1 24 GiB +0 +0 +24 GiB +{shown} +- +- ")

    def test_a_device_that_is_lost(self):
        self.env["ALLOT_SIM_NVML_LOST"] = self.path("lost")
        self.top(80, 24)
        self.wait(r"^  1 24 GiB +0 +0 +24 GiB +0% +40 C +120 W ", absent=(r" - ",))
        self.path("lost1", "")
        self.wait(r"^  1 24 GiB +- +0 +- +- +- +-$", r"^  0 24 GiB +0 +0 +24 GiB +0%")
        self.type("q")
        self.is_sane()

    def sim_env(self):
        """For a command of its own."""
        out = subprocess.run([*self.sim, "env"], env=self.env, check=True, capture_output=True,
                             text=True, timeout=60).stdout
        return dict(line.split("=", 1) for line in out.splitlines()
                    if line.startswith(("ALLOT_SIM", "LD_")))


class Keys(Screen):
    def setUp(self):
        super().setUp()
        self.tenants()

    def test_sort(self):
        self.top(80, 24)
        self.wait_order("large", "other", "small", "!")
        self.type("n")
        self.wait(r"by name")
        self.wait_order("!", "large", "other", "small")
        self.type("r")
        self.wait_order("small", "!", "large", "other")
        self.type("s")
        self.wait_order("large", "!", "other", "small")
        self.type("u")
        self.wait(r"by user")
        self.type("m")
        self.wait_order("large", "other", "small", "!")

    def test_filter(self):
        self.top(80, 24)
        self.type("/SMA")
        self.wait(r"show only what has: SMA$", r"^> small", absent=(r"large",))
        self.key("Enter")
        self.wait(r'with "SMA"', r"q quit")
        self.wait_order("small")
        self.key("Escape")
        self.wait_order("large", "other", "small", "!")
        # What outsiders run, too; and what is not there.
        self.type("/stray")
        self.key("Enter")
        self.wait(r"^> !\d+ python", r"^allot: 0 of 3 tenants, 1 of 1 outside, with \"stray\"")
        self.wait_order("!")
        self.type("/x")
        self.wait(r'nothing has "strayx"')
        self.key("Escape")
        self.wait(r"large", r"q quit")

    def test_help(self):
        self.top(80, 24)
        self.type("?")
        lines = self.wait(r"^keys of allot top$", r"^  t +end its processes", absent=(r"large",))
        self.assertLessEqual(max(map(len, lines[:-2])), 60)
        self.type("t")
        self.type("?")
        self.wait(r"^> large", r"q quit")

    def test_clocks(self):
        self.top(120, 24)
        self.wait(r"PROMISED")
        self.type("d")
        lines = self.wait(r"UTIL OVER TIME", absent=("PROMISED",))
        self.assertEqual(lines[1].split(), ["GPU", "MODEL", "UTIL", "ENC", "DEC", "SM", "MHZ", "MEM",
                                            "MHZ", "TEMP", "POWER", "LIMIT", "PCIE", "SENT/S",
                                            "RECV/S", "UTIL", "OVER", "TIME"])
        self.assertRegex(lines[2], r"^  0 allot sim.* +0% +0% +0% +1980 +3201 40 C 120 W 700 W  ?"
                                   r"5 x16 +0 +0 +▁")
        self.type("d")
        self.wait(r"PROMISED")

    def test_interval(self):
        self.top(80, 24, "--interval", "2s")
        self.wait(r"every 2 s")
        self.type("+")
        self.wait(r"every 5 s")
        self.type("---")
        self.wait(r"every 500 ms")
        self.type("----")
        self.wait(r"every 100 ms")

    def test_set(self):
        self.top(80, 24)
        self.type("e")
        self.wait(r"^memory of large, now 8 GiB \(enter: as it is\):")
        self.type("16GiB")
        self.key("Enter")
        self.wait(r"^compute of large, now cap 25%")
        self.key("Enter")
        self.wait(r"large each device: 8 GiB -> 16 GiB", r"^> large .* 16 GiB +25%")
        # Below what it uses, as allot set says it; a share as well.
        self.type("e1GiB")
        self.key("Enter")
        self.type("50")
        self.key("Enter")
        self.wait(r"large each device: 16 GiB -> 1 GiB", r"^> large .* 1 GiB +100% .* 50%$")
        (policy,) = json.loads(self.ok("ps", "--json", "large"))["tenants"][0]["policy"]
        self.assertEqual((policy["limit_bytes"], policy["share_permille"]), (GIB, 500))
        # An error is said, and nothing is changed.
        self.type("elots")
        self.key("Enter", "Enter")
        self.wait(r"allot set: --memory \"lots\"")
        self.assertIn("1 GiB", self.ok("ps", "large"))
        self.type("e9GiB")
        self.key("Escape")
        self.wait(r"nothing was changed")
        self.type("e")
        self.key("Enter", "Enter")
        self.wait(r"nothing was changed")
        self.key("End")
        self.wait(r"^> !")
        self.type("e")
        self.wait(r"is in no tenant: there is nothing to set")

    def test_kill_a_tenant(self):
        self.top(80, 24)
        self.wait(r"^> large")
        self.type("t")
        self.wait(r"^end tenant large of \S+, 2 processes \(y/n\)\?")
        self.type("n")
        self.wait(r"nothing was done")
        self.assertIsNone(self.holder.poll())
        self.assertIsNone(self.large.poll())
        self.type("t")
        self.wait(r"2 processes \(y/n\)\?")
        self.type("y")
        self.wait(r"SIGTERM sent to 2 processes", r"^> other", absent=(r"large",))
        self.assertEqual(self.holder.wait(100), -signal.SIGTERM)
        self.assertEqual(self.large.wait(100), -signal.SIGTERM)

    def test_kill_an_outsider(self):
        self.top(80, 24)
        self.key("End")
        self.wait(r"^> !\d+ python")
        pid = int(re.search(r"^> !(\d+)", "\n".join(self.lines()), re.M)[1])
        self.type("K")
        self.wait(rf"^kill process {pid} of \S+ \(y/n\)\? \S*python")
        self.key("Enter")
        self.wait(r"nothing was done")
        self.assertIsNone(self.stray.poll())
        self.type("Ky")
        self.wait(r"SIGKILL sent to 1 process", absent=(r"python",))
        self.stray.wait(100)

    def test_a_slot_names_no_stranger(self):
        """The pid in a slot is its process's word: one that is not of the tenant is left alone."""
        stranger = self.start("sleep", "600")
        self.hold("other", f"{self.device[1]}:pid:{stranger.pid}")
        self.top(80, 24, "--filter", "other")
        self.wait(r"^> other")
        self.type("t")
        self.wait(r"^end tenant other of \S+, 2 processes \(y/n\)\?")
        self.type("y")
        self.wait(r"SIGTERM sent to 2 processes")
        self.assertIsNone(stranger.poll())


class Ends(Screen):
    def test_signals(self):
        self.top(80, 24)
        self.is_put_back_by(signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGUSR1,
                            signal.SIGSEGV)

    def is_put_back_by(self, *signals):
        for i, sig in enumerate(signals):
            if i:
                self.type(f"{ALLOT} top\n")
            self.wait(r"q quit")
            os.kill(self.pid_of_top(), sig)
            self.is_sane()

    def pid_of_top(self):
        pids = []

        def seen():
            pids[:] = []
            for pid in filter(str.isdigit, os.listdir("/proc")):
                try:
                    with open(f"/proc/{pid}/cmdline", "rb") as file:
                        words = file.read().split(b"\0")
                    with open(f"/proc/{pid}/environ", "rb") as file:
                        ours = self.runtime.encode() in file.read()
                except OSError:
                    continue
                if ours and words[:2] == [ALLOT.encode(), b"top"]:
                    pids.append(int(pid))
            return len(pids) == 1

        cli_lib.wait_for(seen)
        return pids[0]

    def test_quit_and_control_c(self):
        self.top(80, 24)
        self.wait(r"q quit")
        self.type("q")
        self.is_sane()
        self.type(f"{ALLOT} top\n")
        self.wait(r"q quit")
        self.key("C-c")
        self.is_sane()

    def test_stopped_and_continued(self):
        self.top(80, 24)
        self.wait(r"q quit")
        self.key("C-z")
        self.is_sane()
        self.type("fg\n")
        self.wait(r"q quit")
        self.type("q")
        self.is_sane()

    def test_a_dumb_terminal(self):
        self.shell(80, 24, TERM="dumb")
        self.type(f"{ALLOT} top; echo status=$?\n")
        self.wait(r"^allot: 0 tenants", r"^status=0")
        self.type(f"TERM= {ALLOT} top; echo status=$?.\n")
        self.wait(r"^status=0\.")


if __name__ == "__main__":
    cli_lib.main()
