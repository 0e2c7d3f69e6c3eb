#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/licences.py BUILD: whether CRIU's plugin may be loaded into CRIU.

CRIU is under GPL-2.0-only, so all that allot_amdgpu.so is made of has to be to be had under that: each
file of ours that the compiler read for it, as the build's own record of dependencies says. Prints
each whose SPDX line does not offer it, and each file of the project without an SPDX line of a
licence in LICENSES. Exits 1 when there is any."""
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLUGIN = re.compile(r"^src/criu/criu-\d+/\S+: #deps ")
SPDX = re.compile(r"SPDX-License-Identifier: ([\w.-]+(?: OR [\w.-]+)*)")
COMMENTED = {".c", ".h", ".def", ".S", ".py", ".sh"}


def licences(file):
    """What its first lines offer, by SPDX's names."""
    head = file.read_text(encoding="utf-8", errors="replace")[:400]
    found = SPDX.search(head)
    return found[1].split(" OR ") if found else []


def inputs(told, build):
    """Files that the plugin's objects were compiled from, of `ninja -t deps`."""
    of_plugin, found = False, set()
    for line in told.splitlines():
        if not line.startswith(" "):
            of_plugin = bool(PLUGIN.match(line))
        elif of_plugin:
            found.add((build / line.strip()).resolve())
    return sorted(file for file in found if file.is_relative_to(ROOT) and not file.is_relative_to(build))


def tracked():
    told = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, check=True).stdout
    return [ROOT / name for name in told.decode().split("\0") if name]


def without_licence(files, known):
    for file in files:
        if file.suffix in COMMENTED and file.is_file() and file.stat().st_size and not set(licences(file)) & known:
            yield f"{file.relative_to(ROOT)}: no SPDX line of a licence in LICENSES"


def main():
    build = Path(sys.argv[1]).resolve()
    ninja = subprocess.run([ROOT / "tools/meson", "--find-ninja"], capture_output=True, text=True,
                           check=True).stdout.strip()
    told = subprocess.run([ninja, "-C", build, "-t", "deps"], capture_output=True, text=True,
                          check=True).stdout
    files = inputs(told, build)
    known = {file.stem for file in (ROOT / "LICENSES").iterdir()}
    faults = [f"{file.relative_to(ROOT)}: {' OR '.join(licences(file)) or 'no licence'}, and it is part of "
              "CRIU's plugin: add \"OR GPL-2.0-only\"" for file in files if "GPL-2.0-only" not in licences(file)]
    if not files:
        faults.append(f"{build}: its record of dependencies names nothing of CRIU's plugin; build it first")
    if (ROOT / ".git").exists():
        faults += without_licence(tracked(), known)
    print("\n".join(faults) or f"{len(files)} files of CRIU's plugin are to be had under GPL-2.0-only")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
