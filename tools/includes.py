#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/includes.py [ROOT]: what includes what in src and sim, and what CONTRIBUTING.md says of it.

A module is a .c and a .h of one name. A _priv.h is its module's, and so is hook_<name>.c where only
<name>.h stands beside it. A room is a folder; one that USES does not name is part of the one around
it. Prints rooms that may use each other, each include of a room that the module's own may not use,
each that is part of a circle of modules, files of a room that call each other in a circle, each
function that one room declares and another defines, where CONTRIBUTING's lines and the folders of
src differ, folders of too many files, and each hop of docs/architecture.md's walks that is not in
the room that it names, or goes back to one. Exits 1 when there is any."""
import re
import sys
from pathlib import Path

INCLUDE = re.compile(r'^\s*#\s*include "(.+\.h)"', re.M)
NO_CODE = re.compile(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.S)
DECLARED = re.compile(r"\b([a-z]\w+)\(")
STARTS = re.compile(r"^(?!static\b|typedef\b|return\b|else\b)[a-z][\w\s*]*?\b([a-z]\w+)"
                    r"\([^;{}]*\)(\s*\{|[^;{}]*;)", re.M)
DEFINED = re.compile(r"^(?!static\b|typedef\b)\w[^;={}#]*?\b([a-z]\w+)\([^;{}]*\)\s*\{", re.M)

LEDGER = ("ledger", "ledger/role", "ledger/trace", "ledger/reader")
LOW = ("base", "sched", *LEDGER, "nvidia", "amd")
NODE = ("node", "node/process")
GUEST_LOW = (*LOW, "guest/process", "guest/core")
SIM = ("sim", "sim/cuda", "sim/nvml", "sim/kfd", "sim/opencl", "sim/vulkan")
CLI_LOW = (*LOW, "roles", "control", "dropin", "image", "guard", "text", *NODE, "cdi", *SIM)
CLI = ("cli/say", "cli/device", "cli/tenant", "cli/exec", "cli/checkpoint", "cli/container",
       "cli/doctor", "cli/top", "cli/ps", "cli/bench", "cli/simulation")

KUBE = ("kube/state", "kube/wire", "kube/slices", "kube/schedulers", "kube/grants", "kube/claims",
        "kube/pods", "kube/slots")

# What each room may use beside itself.
USES = {
    "base": (),
    "sched": ("base",),
    "ledger": ("base", "sched"),
    "ledger/role": ("base", "ledger"),
    "ledger/trace": ("base", "ledger"),
    "ledger/reader": ("base", "sched", "ledger", "ledger/trace"),
    "roles": ("base", "sched", *LEDGER),
    "control": ("base", "sched", *LEDGER),
    "dropin": ("base", "sched", *LEDGER),
    "nvidia": ("base", "sched", *LEDGER),
    "amd": ("base", "sched", *LEDGER),
    "vulkan": (),
    "opencl": ("base",),
    "image": LOW,
    "criu/kfd": (*LOW, "image"),
    "criu/gpu": ("base", "amd", "image", "criu/kfd"),
    "criu": ("base", "amd", "image", "criu/kfd", "criu/gpu"),
    "guard": ("base", *LEDGER, "nvidia", "amd"),
    "text": ("base", *LEDGER, "nvidia", "amd"),
    "node/process": ("base", "text"),
    "node": (*LOW, "guard", "text", "node/process"),
    "cdi": (*LOW, "text", *NODE),
    "peer": ("base", *LEDGER, "nvidia", "amd"),
    "tools": ("base", *LEDGER, "nvidia", "amd"),
    "guest/process": (*LOW, "dropin"),
    "guest/core": (*LOW, "dropin", "guest/process"),
    "guest/lend": GUEST_LOW,
    "guest/account": GUEST_LOW,
    "guest/memory": (*GUEST_LOW, "guest/lend", "guest/account"),
    "guest/movable": (*GUEST_LOW, "guest/lend", "guest/account", "guest/memory"),
    "guest/meter": GUEST_LOW,
    "guest/amd": GUEST_LOW,
    "guest/amd/memory": (*GUEST_LOW, "guest/lend", "guest/amd"),
    "guest/amd/queue": (*GUEST_LOW, "roles", "guest/amd"),
    "guest/opencl": (*GUEST_LOW, "guest/account", "opencl"),
    "guest/nvml": (*GUEST_LOW, "guest/account"),
    "guest/vulkan": (*GUEST_LOW, "vulkan", "guest/lend", "guest/account"),
    "tenant": (*LOW, "dropin", "guest/process"),
    "guest/launch": (*GUEST_LOW, "roles", "guest/account", "guest/meter", "guest/amd"),
    "guest/swap": (*GUEST_LOW, "roles", "guest/lend", "guest/account", "guest/memory",
                   "guest/movable", "guest/amd", "guest/amd/memory", "guest/amd/queue"),
    "guest/interpose": GUEST_LOW,  # but for hooks, see may_use
    # rooms.c alone, which is above all
    "guest": ("guest/core", "guest/lend", "guest/account", "guest/memory", "guest/movable",
              "guest/swap", "guest/opencl", "guest/vulkan"),
    "kube/state": (*LOW, "text", *NODE),
    "kube/wire": (*LOW, "text", "kube/state"),
    "kube/slices": (*LOW, "text", *NODE, "kube/state", "kube/wire"),
    "kube/schedulers": (*LOW, "text", *NODE, "kube/state", "kube/wire"),
    "kube/grants": (*LOW, "text", *NODE, "cdi", "kube/state", "kube/schedulers"),
    "kube/pods": (*LOW, "text", *NODE, "cdi", "kube/state", "kube/wire", "kube/schedulers",
                  "kube/grants"),
    "kube/claims": (*LOW, "text", *NODE, "cdi", "kube/state", "kube/wire", "kube/grants",
                    "kube/pods"),
    "kube/slots": (*LOW, "text", *NODE, "cdi", "kube/state", "kube/wire", "kube/schedulers",
                   "kube/grants", "kube/pods"),
    "kube": (*LOW, "text", *NODE, "cdi", *KUBE),
    "daemon/energy": (*LOW, "roles", "text"),
    "daemon/audit": (*LOW, "text", *NODE, "kube/state", "daemon/energy"),
    "daemon/site": (*LOW, "control", "text", "kube/state", "daemon/web"),
    "daemon/users": (*LOW, "roles", "control", "text", *NODE, "daemon/site"),
    "daemon/web": (*LOW, "text", *NODE, "kube/state", "daemon/audit"),
    "daemon/switch": (*LOW, "control", "text", *NODE, "daemon/users", "daemon/web"),
    "daemon": (*LOW, "roles", "control", "guard", "text", *NODE, "cdi", "kube",
               "kube/state", "daemon/audit", "daemon/energy", "daemon/site", "daemon/switch", "daemon/users",
               "daemon/web"),
    "cli/say": CLI_LOW,
    "cli/device": (*CLI_LOW, "peer", "tools", "cli/say"),
    "cli/tenant": (*CLI_LOW, "cli/say", "cli/device"),
    "cli/exec": (*CLI_LOW, "cli/say", "cli/device", "cli/tenant"),
    "cli/checkpoint": (*CLI_LOW, "cli/say", "cli/tenant"),
    "cli/container": (*CLI_LOW, "cli/say", "cli/tenant", "cli/exec"),
    "cli/doctor": (*CLI_LOW, "cli/say", "cli/tenant", "cli/checkpoint"),
    "cli/top": (*CLI_LOW, "cli/say", "cli/device", "cli/tenant", "cli/exec"),
    "cli/ps": (*CLI_LOW, "cli/say"),
    "cli/bench": (*CLI_LOW, "tools", "cli/say"),
    "cli/simulation": (*CLI_LOW, "cli/say"),
    "cli/cmd": (*CLI_LOW, *CLI),
    "cli": (*CLI_LOW, "cli/say", "cli/cmd"),
    **{room: ("base", "nvidia", "amd", "opencl", "vulkan", *SIM) for room in SIM},
}

# A folder of more files holds several ideas.
FILES = 40

# Above their folders, each of which has to be a room of its own.
TOPS = ("guest", "cli", "kube")


def room_of(path):
    """The room of a file, by its path from src or, of sim, from the root; None."""
    room = next((str(folder) for folder in Path(path).parents if str(folder) in USES), None)
    return room if room not in TOPS or str(Path(path).parent) == room else None


def may_use(path, room):
    """A file's own room and what that one may use; the guest's hooks, every room of the guest."""
    own = room_of(path)
    hook = own == "guest/interpose" and Path(path).name.startswith("hook_")
    return room == own or room in USES[own] or (hook and room.startswith("guest/"))


def files_of(root):
    """{path as #include has it: text}"""
    found = {}
    for base, folder in ((root / "src", root / "src"), (root, root / "sim")):
        for path in sorted(folder.rglob("*.[ch]")):
            found[str(path.relative_to(base))] = path.read_text(encoding="utf-8")
    return found


def module(path, files):
    name = re.sub(r"(_priv)?\.[ch]$", "", path)
    of = str(Path(name).with_name(Path(name).name.removeprefix("hook_")))
    return of if name != of and f"{of}.h" in files and f"{of}.c" not in files else name


def arrows(files):
    """{(module, module that it includes): the files in which it does}"""
    found = {}
    for path, text in files.items():
        for other in INCLUDE.findall(text):
            if other in files and module(other, files) != module(path, files):
                found.setdefault((module(path, files), module(other, files)), {})[path] = other
    return found


def in_circles(found):
    """Those of the arrows whose two ends reach each other."""
    to = {}
    for begin, end in found:
        to.setdefault(begin, set()).add(end)

    def reached(begin):
        seen, left = set(), [begin]
        while left:
            for other in to.get(left.pop(), set()) - seen:
                seen.add(other)
                left.append(other)
        return seen

    reach = {name: reached(name) for name in to}
    return {(begin, end) for begin, end in found if begin in reach.get(end, ())}


def rooms_wrong(uses):
    """Rooms that may use each other. The simulator is one part."""
    found = {(room, other) for room, others in uses.items() for other in others
             if room not in SIM and room != other}
    return [f"{begin} may use {end}, which may use it, by others or itself"
            for begin, end in sorted(in_circles(found))]


def wrong(files):
    said = [f"{path}: in none of the rooms" for path in files if not room_of(path)]
    if said or not files:
        return said or ["no sources"]
    found = arrows(files)
    up = {arrow for arrow, by in found.items()
          if not all(may_use(path, room_of(other)) for path, other in by.items())}
    circles = in_circles(found.keys() - up)
    for begin, end in sorted(up | circles):
        why = (f"which {room_of(begin + '.c')} may not use" if (begin, end) in up
               else "which includes it, by others or itself")
        said.append(f"{begin} includes {end}, {why}")
    return said


def calls(files):
    """{(file, file of the same room): what is named there of its functions that headers declare}"""
    code = {path: NO_CODE.sub("", text) for path, text in files.items()}
    declared = {(room_of(path), name) for path, text in code.items() if path.endswith(".h")
                for name in DECLARED.findall(text)}
    sources = {path: text for path, text in code.items() if path.endswith(".c")}
    defined = {(room_of(path), name): path for path, text in sources.items()
               for name in DEFINED.findall(text) if (room_of(path), name) in declared}
    found = {}
    for path, text in sources.items():
        for name in sorted({*re.findall(r"\w+", text)}):
            other = defined.get((room_of(path), name), path)
            if other != path:
                found.setdefault((path, other), []).append(name)
    return found


def calls_wrong(files):
    found = calls(files)
    return [f"{begin} calls {other} ({', '.join(found[begin, other])}), which calls it, by others "
            "or itself" for begin, other in sorted(in_circles(found))]


def upward(files):
    """Functions that a header of one room declares and a file of another defines: whoever calls one
    calls a room that its own may not even know."""
    declared, defined = {}, {}
    for path, text in files.items():
        found = declared if path.endswith(".h") else defined
        for match in STARTS.finditer(NO_CODE.sub("", text)):
            if (match[2][-1] == "{") == path.endswith(".c"):
                found.setdefault(match[1], set()).add(path)
    return [f"{header} declares {name}, which {source} defines, in another room"
            for name in sorted(declared.keys() & defined.keys())
            for header in sorted(declared[name]) for source in sorted(defined[name])
            if room_of(header) not in map(room_of, defined[name])]


def tree_wrong(root):
    """Each folder of src with sources has its line in CONTRIBUTING.md, and each line its folder."""
    text = (root / "CONTRIBUTING.md").read_text(encoding="utf-8")
    lines = re.findall(r"^ {4}([a-z][\w/]*)/ +\S", text, re.M)
    folders = {str(path.parent.relative_to(root)) for path in (root / "src").rglob("*")
               if path.suffix in (".c", ".h", ".def", ".S")}
    return ([f"CONTRIBUTING.md has no line for {folder}/" for folder in sorted(folders - {*lines})]
            + [f"CONTRIBUTING.md names {line}/, which is no folder" for line in lines
               if not (root / line).is_dir()]
            + [f"CONTRIBUTING.md names {line}/ twice" for line in sorted({*lines})
               if lines.count(line) > 1])


def full_folders(root):
    """Each folder of src with more files than a folder may have."""
    found = {}
    for path in (root / "src").rglob("*"):
        if path.suffix in (".c", ".h", ".def", ".S"):
            folder = str(path.parent.relative_to(root))
            found[folder] = found.get(folder, 0) + 1
    return [f"{folder} has {n} files, {FILES} allowed"
            for folder, n in sorted(found.items()) if n > FILES]


def walks_wrong(text, sources):
    """text: docs/architecture.md; sources: {room: text of its files}. A hop is a line of a room and
    a name, of a function or a file, which must stand in that room. A step begins with a line that
    is indented less, and comes to no room twice."""
    said, step = [], []
    walks = text.partition("## Three walks")[2].partition("\n## ")[0]
    for line in walks.splitlines():
        hop = re.match(r" {6}([a-z]+(?:/[a-z]+)*) {2,}([\w.>-]+)", line)
        if re.match(r" {0,4}\S", line):
            step = []
        if not hop or hop[1] == "driver":
            continue
        room, name = hop.groups()
        if room in step[:-1]:
            said.append(f"docs/architecture.md walks back to {room}, to {name}, in one step")
        step = step if step[-1:] == [room] else [*step, room]
        if room not in sources:
            said.append(f"docs/architecture.md walks through {room}, which is no room")
        elif not re.search(rf"\b{re.escape(name)}\b", sources[room]):
            said.append(f"docs/architecture.md walks to {name} in {room}, which does not have it")
    return said if walks else ["docs/architecture.md has no walks"]


def rooms_of(root):
    """{room: its files' names and text}"""
    found = {}
    for path in sorted((root / "src").rglob("*.[ch]")):
        room = str(path.parent.relative_to(root / "src"))
        found[room] = found.get(room, "") + path.name + "\n" + path.read_text(encoding="utf-8")
    return found


def main():
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[1]
    files = files_of(root)
    said = rooms_wrong(USES) + wrong(files) + calls_wrong(files) + upward(files) + tree_wrong(root) + full_folders(root) + walks_wrong(
        (root / "docs/architecture.md").read_text(encoding="utf-8"), rooms_of(root))
    print("\n".join(said) or "nothing new")
    return bool(said)


if __name__ == "__main__":
    sys.exit(main())
