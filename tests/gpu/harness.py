# SPDX-License-Identifier: Apache-2.0
"""What all parts of tests/gpu/run share: children that cannot outlive it or hang it, the driver's
own figures read from outside of any tenant, what the command says, and the record of results."""
import contextlib
import importlib.util
import itertools
import json
import os
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
HERE = Path(__file__).resolve().parent
MIB = 1 << 20
GIB = 1 << 30
GRANULE = 2 * MIB
POOL_GRANULE = 32 * MIB
# What the driver may take for itself after everything was loaded: stated in docs/threat-model.md.
SLACK = 16 * MIB


class Trouble(Exception):
    """A child that ended, hung or said something else than expected."""


class Absent(Trouble):
    """A child does not find here what it is about."""


class OutOfTime(Exception):
    """The run's time is used up: no part may take this for the failure of one of its items."""


class Child:
    """A program in a session of its own that speaks JSON lines. Killed with its whole group."""

    running = set()

    def __init__(self, command, env=None, cwd=None):
        self.command = [str(word) for word in command]
        self.errors = tempfile.TemporaryFile()
        self.lines = queue.Queue()
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            self.command, env=env, cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self.errors, start_new_session=True)
        self.pid = self.process.pid
        Child.running.add(self)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line.decode(errors="replace"))
        self.lines.put(None)

    def _tail(self):
        """The process writes where this file is at: it is read without a seek."""
        fd = self.errors.fileno()
        return os.pread(fd, os.fstat(fd).st_size, 0).decode(errors="replace")[-1500:].strip()

    def hear(self, stage, timeout):
        """The next JSON line; it must be of that stage. Other output is passed over."""
        end = time.monotonic() + timeout
        while True:
            try:
                line = self.lines.get(timeout=max(0.01, end - time.monotonic()))
            except queue.Empty:
                raise Trouble(f"no word in {timeout} s, waiting for \"{stage}\": "
                              f"{self._tail()}") from None
            if line is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.process.wait(5)
                raise Trouble(f"ended with {self.process.poll()} before \"{stage}\": "
                              f"{self._tail()}")
            try:
                said = json.loads(line)
            except ValueError:
                continue
            if not isinstance(said, dict) or "stage" not in said:
                continue
            if said["stage"] == "absent":
                raise Absent(said["why"])
            if said["stage"] != stage:
                raise Trouble(f"said {line.strip()[:300]} instead of \"{stage}\"")
            return said

    def say(self, word):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(word.encode() + b"\n")
            self.process.stdin.flush()

    def end(self, timeout=20):
        """Closes its input and waits; answers the exit status."""
        with contextlib.suppress(BrokenPipeError, OSError):
            self.process.stdin.close()
        try:
            status = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            status = None
        self.kill()
        return status

    def kill(self):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(10)
        Child.running.discard(self)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()

    @staticmethod
    def kill_all():
        for child in list(Child.running):
            child.kill()


def run(command, timeout, env=None, **kwargs):
    """A program to its end, its whole group killed if it takes too long: (status, out, err)."""
    process = subprocess.Popen([str(w) for w in command], env=env, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               errors="replace", start_new_session=True, **kwargs)
    try:
        out, err = process.communicate(timeout=timeout)
        return process.returncode, out, err
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        return None, out, err + f"\nkilled after {timeout} s"


class Figures:
    """The driver's per-process figures, by NVML in a process of its own (which also keeps the
    device awake between tests)."""

    def __init__(self, device=None):
        self.child = Child([sys.executable, HERE / "figures.py",
                            *([] if device is None else [device])])
        self.devices = self.child.hear("devices", 60)["devices"]

    def look(self):
        """{uuid: {pid: bytes}}, and {uuid: bytes} that the device has given out in all."""
        self.child.say("figures")
        said = self.child.hear("figures", 20)
        return {uuid: {int(pid): used for pid, used in of.items()}
                for uuid, of in said["figures"].items()}, said["used"]

    def all(self):
        """{uuid: {pid: bytes}}"""
        return self.look()[0]

    def of(self, pid, device=0):
        return self.all()[self.devices[device]["uuid"]].get(pid, 0)


class Results:
    """Checks against a target (which may fail), figures, and what was left out."""

    def __init__(self, out):
        self.out, self.checks, self.figures, self.skips, self.facts = out, [], {}, [], {}
        self.tables = {}

    def check(self, part, name, ok, value, target, remark=None):
        self.checks.append({"part": part, "name": name, "ok": bool(ok), "value": value,
                            "target": target, "remark": remark})
        mark = "ok  " if ok else "FAIL"
        print(f"  {mark} {name:<44} {value!s:<36} target: {target}", flush=True)
        if remark:
            self.note(remark)
        self.save()

    def figure(self, part, name, value):
        self.figures.setdefault(part, {})[name] = value

    def note(self, text):
        print(f"       {text}", flush=True)

    def skip(self, part, name, why):
        self.skips.append({"part": part, "name": name, "why": why})
        print(f"  skip {name:<44} {why}", flush=True)
        self.save()

    def table(self, part, head, rows):
        """A part's figures at a glance, which the run prints once more at its end."""
        if rows:
            self.tables[part] = (head, rows)
            self.figure(part, "table", [head, *rows])
            self.print_table(part)

    def print_table(self, part):
        head, rows = self.tables[part]
        lines = [[str(cell) for cell in row] for row in (head, *rows)]
        widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
        print(f"\n-- {part}")
        for line in lines:
            print("  ".join([line[0].ljust(widths[0]),
                             *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:]))]))
        print(flush=True)

    def save(self):
        if not self.out:
            return
        whole = {"facts": self.facts, "checks": self.checks, "skipped": self.skips,
                 "figures": self.figures}
        partial = Path(f"{self.out}.part")
        partial.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
        partial.replace(self.out)

    def failed(self):
        return [c for c in self.checks if not c["ok"]]


class Tenants:
    """Where a build's programs are, and how tenants of a runtime directory of its own start."""

    kept = frozenset()  # children that live for longer than a part

    def __init__(self, build, results):
        self.build, self.results = build, results
        self.until = None  # when the run's time is used up, by time.monotonic()
        self.allot = build / "src/cli/allot"
        self.library = build / "src/guest/liballot.so"
        # In memory, as /run is.
        shm = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.tmp = Path(tempfile.mkdtemp(prefix="allot-gpu-", dir=shm))
        self.runtime = self.tmp / "run"
        self.runtime.mkdir(mode=0o700)
        os.environ["ALLOT_RUNTIME_DIR"] = str(self.runtime)
        self.names = itertools.count(1)

    def tenant(self):
        return f"t{next(self.names)}"

    def command(self, name, memory, command, options=()):
        return [self.allot, "run", "--name", name, "--memory", memory, *options, "--", *command]

    def start(self, name, memory, command, options=(), env=None):
        return Child(self.command(name, memory, command, options),
                     env={**os.environ, **env} if env else None)

    def set(self, name, *options):
        status, _, err = run([self.allot, "set", name, *options], 30)
        if status:
            raise Trouble(f"allot set: {err}")

    def ps_tenant(self, name):
        """What `allot ps` says of a tenant, or None."""
        status, out, err = run([self.allot, "ps", "--json", name], 20)
        if status:
            raise Trouble(f"allot ps: {err}")
        return next((t for t in json.loads(out)["tenants"] if t["name"] == name), None)


class Bench(Tenants):
    """Everything a part needs: where things are, which mode, the driver's figures."""

    def __init__(self, args, build, results):
        super().__init__(build, results)
        self.quick, self.sim = args.quick, args.sim
        self.trials = args.trials
        self.compute_seconds, self.cycles = args.compute_seconds, args.cycles
        self.cap_errors = []  # of all caps that were measured, in points
        self.words = {}  # parts in the order asked for, each with the items asked for
        for part, words in args.only or ():
            self.words.setdefault(part, []).extend(words)
        self.load = build / "src/tools/allot-load"
        self.allotd = args.allotd or build / "src/daemon/allotd"
        self.figures = Figures(args.device)
        self.kept = {self.figures.child}

    def simulates_more_than(self, most, part, name):
        """Says so where the simulated device is too large for a part that fills it."""
        total = self.figures.devices[0]["memory"]
        if not self.sim or total <= most:
            return False
        self.results.skip(part, name, f"simulated, and as large as {total >> 30} GiB")
        return True

    def chosen(self, part, names):
        """Those of a part's items that the command line asks for: all, where it names none. A word
        is an item's whole name, or else a piece of the names of several."""
        words, names = self.words.get(part), list(names)
        if not words:
            return names
        picked = set()
        for word in words:
            found = ([n for n in names if n.lower() == word]
                     or [n for n in names if word in n.lower()])
            if not found:
                raise Trouble(f"{part} has nothing called \"{word}\", but {', '.join(names)}")
            picked.update(found)
        return [name for name in names if name in picked]

    def program(self, name):
        return self.build / "tests/gpu" / f"gpu_{name}"

    def ps(self, name, device=0):
        """What `allot ps` says of a tenant's device."""
        tenant, uuid = self.ps_tenant(name) or {}, self.figures.devices[device]["uuid"]
        return next((d for d in tenant.get("devices", []) if d["uuid"] == uuid), None)


def mib(count):
    text = f"{count / MIB:.1f}".removesuffix(".0")
    return f"{text} MiB"


def size(text):
    number, unit = re.fullmatch(r"(\d+)([MG])iB", text).groups()
    return int(number) * {"M": MIB, "G": GIB}[unit]


def library_path(soname):
    """Where the dynamic loader finds a library, asked in a process of its own."""
    ask = (f"import ctypes; ctypes.CDLL({soname!r}); "
           "print(next(w[-1] for w in map(str.split, open('/proc/self/maps')) "
           f"if w[-1].rsplit('/', 1)[-1].startswith({soname.split('.so')[0]!r})))")
    status, out, _ = run([sys.executable, "-c", ask], 30)
    return out.strip() if status == 0 else None


def have(module):
    """Is a Python module here? Asked without importing it."""
    return importlib.util.find_spec(module) is not None

