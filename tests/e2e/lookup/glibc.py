# SPDX-License-Identifier: Apache-2.0
"""liballot.so loads in images with an older C library: it asks for no version of a symbol that
glibc 2.17 does not have, and for no library but the C library."""

import re
import subprocess
import sys

OLDEST = (2, 17)


def main():
    said = subprocess.run(["readelf", "--dynamic", "--dyn-syms", "--wide", sys.argv[1]], text=True,
                          check=True, capture_output=True).stdout
    needed = set(re.findall(r"\(NEEDED\).*\[(.+)\]", said))
    asked = re.findall(r" UND (\S+)@GLIBC_(\d+)\.(\d+)", said)
    newer = [f"{name} of {major}.{minor}" for name, major, minor in asked
             if (int(major), int(minor)) > OLDEST]
    if not asked:
        sys.exit("no symbol of glibc is asked for: is this the library?")
    if newer:
        sys.exit(f"newer than glibc {OLDEST[0]}.{OLDEST[1]}: {', '.join(newer)}")
    if needed - {"libc.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}:
        sys.exit(f"it needs {needed}")


main()
