# SPDX-License-Identifier: Apache-2.0
"""What a library for programs exports is what its header declares, and it needs nothing but libc.

    public_exports.py LIBRARY HEADER
"""
import re
import subprocess
import sys
from pathlib import Path

LIBC = {"libc.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}


def main():
    library, header = sys.argv[1:]
    text = re.sub(r"/\*.*?\*/", "", Path(header).read_text(encoding="utf-8"), flags=re.S)
    declared = set(re.findall(r"^[a-z][\w\s*]*?\b(allot_\w+)\(", text, flags=re.M))
    symbols = subprocess.run(["nm", "-D", "--defined-only", library], check=True,
                             capture_output=True, text=True).stdout
    exported = {line.split()[2].split("@")[0] for line in symbols.splitlines()
                if line.split()[1] != "A"}
    dynamic = subprocess.run(["readelf", "-d", library], check=True, capture_output=True,
                             text=True).stdout
    needed = set(re.findall(r"NEEDED.*\[(.*)\]", dynamic))
    if not declared or exported != declared:
        sys.exit(f"exported, not declared: {sorted(exported - declared)}; "
                 f"declared, not exported: {sorted(declared - exported)}")
    if needed - LIBC:
        sys.exit(f"it needs {sorted(needed - LIBC)}")


if __name__ == "__main__":
    main()
