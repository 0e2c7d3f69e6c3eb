# SPDX-License-Identifier: Apache-2.0
"""README.md's commands and those of the manual pages' EXAMPLES, read out of them and done on
simulated GPUs, by root in a tree of their own; what README.md shows of their output is what comes.
What is not done here stands in a list, with the reason."""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess

import cli_lib
import daemon_lib

SOURCE = pathlib.Path(os.environ["ALLOT_SOURCE"])
FILL, SESSION = os.environ["FILL"], "allot sim --gpus 2 --memory 8GiB --shared -- bash"
PAGES_SESSION = SESSION.replace("8GiB", "141GiB")  # what the pages have in mind
ALICE = 12345
HOST_GIB = 8  # what leaves, and the devices' own memory as it is read
SECONDS = 240  # a bound for a hang
PROMPT = re.compile(r"[$#] ")

CRIU = "wants CRIU 4; the tests checkpoint do it"
SYSTEMD = "wants systemd as the first process"
NOT_DONE = {
    "README.md": {
        "make demo      # build, then two tenants fill one GPU until each is refused":
            "builds; with a prompt it is done",
        "make check     # every test": "would run this",
        "make install   # the programs, no tests; PREFIX=~/.local for yourself; make uninstall takes it away":
            "cli-install and cli-uninstall do it",
        "make deb       # Debian packages; make dist: a source tarball": "make check-packages does it",
        "podman run --device nvidia.com/gpu=all --device allot.dev/gpu=8GiB-25 IMAGE python "
        "train.py": "wants an image; the test containers makes one",
    },
    "allot-bench.1": {
        "allot bench --json bench.json && tools/charts.py bench.json pictures/":
            "takes minutes; cli-bench and tools do its parts",
        "allot sim -- allot bench --quick": "takes minutes; cli-bench does its parts",
    },
    "allot-checkpoint.1": {"allot checkpoint train --to /var/lib/train.1": CRIU,
                           "allot restore /var/lib/train.1": CRIU},
    "allot-restore.1": {"allot restore /var/lib/train.1": CRIU},
    "allot-run.1": {
        "allot run --name infer --mode space --compute 25 -- ./infer":
            "wants NVIDIA's MPS; the tests space have a stand-in",
        "allot run --guard --memory 8GiB -- ./statically-linked-rocm-app":
            "wants AMD devices alone; the test guard has them",
    },
    "allot-sim.1": {"allot sim --amd 8 --memory 64GiB -- rocminfo":
                        "wants ROCm; cli-sim-amd does it where that is",
                    "allot sim --report report.xml --error-exitcode 1 -- ./tests":
                        "wants tests; cli-sim-report has some"},
    "allotd.8": {"xdg-open http://localhost:9478/": "wants a desktop; daemon-page has a browser",
                 "systemctl enable --now allotd": SYSTEMD, "systemctl reload allotd": SYSTEMD},
}
FIGURES = "program under an 8 GiB quota "  # begins a table in README.md that is no command's
IN_C = "allot_peer.3"  # its example is no command; tests of sim have such programs
# What an example takes for granted.
BEFORE = {
    "allot-resume.1": ["allot run --swappable --name serve -- python serve.py &",
                       "allot suspend serve"],
    "allot-rm.1": ["allot run --print-env --name jobA"],
    "allot-set.1": ["allot run --print-env --name jobA"],
}


def readme_blocks():
    """Lists of lines: what is indented, and behind a prompt the paragraphs of its output."""
    blocks, was_indented = [], False
    for paragraph in (SOURCE / "README.md").read_text(encoding="utf-8").split("\n\n"):
        lines = paragraph.strip("\n").split("\n")
        indented = all(line.startswith("    ") for line in lines)
        if indented:
            lines = [line[4:] for line in lines]
            if was_indented and PROMPT.match(blocks[-1][0]) and not PROMPT.match(lines[0]):
                blocks[-1] += ["", *lines]
            else:
                blocks.append(lines)
        was_indented = indented
    return blocks


def page_commands():
    """{page: its lines} of those that have EXAMPLES, as they are shown."""
    found = {}
    for path in sorted((SOURCE / "man").glob("*.scd")):
        for section in re.findall(r"^# EXAMPLES?\n(.*?)(?=^# |\Z)",
                                  path.read_text(encoding="utf-8"), re.M | re.S):
            found[path.stem] = [re.sub(r"\\(.)", r"\1", line.strip().removesuffix("++"))
                                for paragraph in section.strip("\n").split("\n\n")
                                if paragraph.startswith("\t") for line in paragraph.split("\n")]
    return found


def comparable(text):
    """Without what differs from run to run: names of devices, pids, times, and so widths."""
    text = re.sub(r"GPU-[0-9a-f]{8}[-0-9a-f]*", "GPU", text)
    text = re.sub(r"\d+(\.\d+)? [mu]?s\b", "s", text)
    text = re.sub(r"^(\S+ +(?:\S+ +)?)\d+(?= +GPU)", r"\1PID", text, flags=re.M)
    text = re.sub(r"@\d+", "@UID", text)
    return [re.sub(r"-{2,}| {2,}", " ", line).strip() for line in text.strip("\n").split("\n")]


class Case(daemon_lib.Case):
    def setUp(self):
        super().setUp()
        os.chmod(self.tmp, 0o755)
        for name in ("bin", "config", "etc", "held", "run"):
            os.mkdir(self.path(name))
        os.chmod(self.path("held"), 0o1777)
        self.path("etc/passwd", "root:x:0:0::/root:/bin/sh\n"
                  f"alice:x:{ALICE}:{ALICE}::/tmp:/bin/sh\n", 0o644)
        self.path("etc/group", f"root:x:0:\nalice:x:{ALICE}:\n", 0o644)
        self.path("bin/allotd", f'#!/bin/sh\nexec {daemon_lib.ALLOTD} "$@" '
                  f"--listen 127.0.0.1:{self.port} 2>{self.path('log')}\n")
        self.env.update(PATH=f"{self.path('bin')}:{os.path.dirname(cli_lib.ALLOT)}:"
                             f"{self.env['PATH']}", XDG_CONFIG_HOME=self.path("config"))
        self.tree = ["unshare", "--mount", "sh", "-c",
                     'mount --bind "$1/etc" /etc && mount --bind "$1/run" /run && shift && '
                     'exec "$@"', "sh", self.tmp]
        self.no_tree = cli_lib.NO_USERS
        if os.geteuid() or subprocess.run([*self.tree, "true"], capture_output=True,
                                          check=False).returncode:
            self.tree = []
            self.no_tree = self.no_tree or "nothing can be mounted here"

    def programs(self, holder, *names):
        """What the examples call by these names: fill, and holder where the line ends with &."""
        for name in names:
            self.path(name, f'#!/bin/sh\n[ -n "$HOLD" ] || exec {FILL}\n'
                            f"exec {holder} >{self.path('held')}/$$\n")

    def script(self, commands):
        """For bash. A command in the background is waited for until its program has said something."""
        yield "exec 2>&1"
        held = 0
        for command in commands:
            yield "printf '\\001'"
            if not command.endswith("&"):
                yield command.replace("localhost:9478", f"localhost:{self.port}")
            elif command.startswith("allotd"):
                yield command
                yield (f"until (: </dev/tcp/127.0.0.1/{self.port}) 2>/dev/null; do sleep 0.1; "
                       "kill -0 $! || exit; done")
            else:
                held += 1
                yield f"HOLD=1 {command.removesuffix('&')} 2>{self.path('background')} &"
                yield (f"until [ $(find {self.path('held')} -type f -size +0 | wc -l) -ge {held} ]; "
                       f"do sleep 0.1; kill -0 $! || {{ cat {self.path('background')}; exit; }}; done")
            yield "printf '\\002%s\\n' $?"
        yield "kill $(jobs -p); wait"

    def done(self, commands, session=SESSION):
        """[(status, output)] of commands in one shell on simulated devices."""
        for name in os.listdir(self.path("held")):
            os.unlink(os.path.join(self.path("held"), name))
        path = self.path("session", "\n".join([*self.script(commands), ""]))
        sim = [cli_lib.ALLOT, *session.split()[1:], path]
        process = subprocess.Popen([*self.tree, *sim], cwd=self.tmp, env=self.env, text=True,
                                   start_new_session=True, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        try:
            said, _ = process.communicate(timeout=SECONDS)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        answers = re.findall("\001([^\001\002]*)\002([0-9]+)", said)
        self.assertEqual(len(answers), len(commands), said)
        return [(int(status), output) for output, status in answers]

    def left_out(self, command):
        """Why it cannot be done by this user or on this machine, which is noted; or None."""
        words = command.split()
        why = self.no_tree if words[0] == "#" or words[:2] == ["allot", "cdi"] else None
        if words[0] == "curl" and not shutil.which("curl"):
            why = "no curl is here"
        if why:
            self.notes.append(f"{command}: {why}")
        return why


class Readme(Case):
    def setUp(self):
        super().setUp()
        self.notes = []
        self.programs(f"{FILL} --hold --no-arrays", "bin/python", "app", "serve")
        self.blocks = [block for block in readme_blocks() if not block[0].startswith(FIGURES)]

    def test_found(self):
        """None is passed over, because the page is written otherwise than it is read here."""
        lines = [line for block in self.blocks for line in block]
        for line in (SESSION, *NOT_DONE["README.md"]):
            self.assertIn(line, lines)
        for block in self.blocks:
            self.assertRegex(block[0], "^([$#] )?(allotd?|make) ")

    def test_demo(self):
        (block,) = [block for block in self.blocks if block[0] == "$ make demo"]
        done = subprocess.run([SOURCE / "tools/demo"], stdin=subprocess.DEVNULL, text=True,
                              env={**self.env, "BUILD": os.environ["ALLOT_BUILD"]},
                              capture_output=True, timeout=60, check=True)
        if not done.stdout.startswith("no GPU"):
            self.skipTest("a GPU is here, and what is shown is of none")
        self.assertEqual(comparable(done.stdout)[:len(block) - 1],
                         comparable("\n".join(block[1:])))

    def test_alone(self):
        """Commands without a prompt, each on devices of its own."""
        for command in [line for block in self.blocks for line in block
                        if not PROMPT.match(block[0]) and line != SESSION
                        and line not in NOT_DONE["README.md"] and not self.left_out(line)]:
            ((status, output),) = self.done([command])
            self.assertEqual(status, 0, f"{command}: {output}")
        self.say_notes()

    def test_session(self):
        """Commands with a prompt, one after the other in the shell that is shown."""
        meminfo = pathlib.Path("/proc/meminfo").read_text(encoding="ascii")
        if int(re.search(r"MemAvailable: +(\d+)", meminfo)[1]) >> 20 < HOST_GIB:
            self.skipTest(f"what leaves the devices wants {HOST_GIB} GiB of free memory")
        shown = []  # commands, and the lines behind each
        for block in self.blocks:
            for line in block if PROMPT.match(block[0]) and block[0] != "$ make demo" else []:
                if PROMPT.match(line):
                    shown.append((line, []))
                else:
                    shown[-1][1].append(line)
        shown = [(line[2:], lines) for line, lines in shown if not self.left_out(line)]
        answers = self.done([command for command, _ in shown])
        for (command, lines), (status, output) in zip(shown, answers):
            self.assertEqual(status, 0, f"{command}: {output}")
            if lines:
                said, lines = comparable(output), comparable("\n".join(lines))
                if lines[-1] == "...":
                    lines.pop()
                    said = said[:len(lines)]
                self.assertEqual(said, lines, f"{command}: {output}")
        self.say_notes()

    def say_notes(self):
        if self.notes:
            self.skipTest("all but this: " + "; ".join(self.notes))


class Pages(Case):
    def test_examples(self):
        self.notes = []
        self.programs(f"{cli_lib.LOAD} --loops-per-us 1 --seconds 600", "bin/python", "app", "serve")
        pages = page_commands()
        del pages[IN_C]
        self.assertEqual({*NOT_DONE, *BEFORE} - {*pages}, {"README.md"})
        for page, lines in pages.items():
            self.assertEqual({*NOT_DONE.get(page, ())} - {*lines}, set())
            commands = [line for line in lines
                        if line not in NOT_DONE.get(page, ()) and not self.left_out(line)]
            if commands:
                commands = BEFORE.get(page, []) + commands
                for command, (status, output) in zip(commands, self.done(commands, PAGES_SESSION)):
                    self.assertEqual(status, 0, f"{page}: {command}: {output}")
        if self.notes:
            self.skipTest("all but this: " + "; ".join(self.notes))


if __name__ == "__main__":
    cli_lib.main()
