# SPDX-License-Identifier: Apache-2.0
"""A simulated library exports the rows of its list, all of them and nothing else, under its name.

    exports.py LIBRARY LIST.def SONAME
"""
import re
import subprocess
import sys


def readelf(option, library):
    return subprocess.run(["readelf", "-W", option, library], check=True, text=True,
                          capture_output=True).stdout


def exported(library):
    rows = (line.split() for line in readelf("--dyn-syms", library).splitlines())
    return {f[7].split("@")[0] for f in rows
            if len(f) >= 8 and f[4] in ("GLOBAL", "WEAK") and f[6] != "UND"}


def listed(path):
    with open(path, encoding="utf-8") as text:
        source = re.sub(r"/\*.*?\*/", "", text.read(), flags=re.S)
    return set(re.findall(r"^(?:CUDA|NVML)_(?:HOOK|CALL|PASS|TEXT)\(\s*(\w+)", source, flags=re.M))


def main():
    library, path, soname = sys.argv[1:]
    names, wanted = exported(library), listed(path)
    if not wanted or names != wanted:
        sys.exit(f"{library}: exports beyond the list {sorted(names - wanted)}, "
                 f"missing {sorted(wanted - names)}")
    if f"[{soname}]" not in readelf("--dynamic", library):
        sys.exit(f"{library}: its name is not {soname}")


if __name__ == "__main__":
    main()
