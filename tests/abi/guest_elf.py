# SPDX-License-Identifier: Apache-2.0
"""What liballot.so shows the dynamic loader: guest_elf.py liballot.so LIST.def...

It is loaded into every program of a tenant, GPU or not. So it exports the hooked names of the
lists and the C library's lookup functions, nothing else; needs the C library alone; and gives an
attacker nothing that the program did not have before (RELRO, no executable stack, no relocations
in its text).
"""
import re
import subprocess
import sys

LOOKUP = {"dlsym", "dlvsym", "dlmopen", "dlopen"}
LIBC = {"libc.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}


def readelf(option, library):
    return subprocess.run(["readelf", "-W", option, library], check=True, text=True,
                          capture_output=True).stdout


def exported(library):
    names = set()
    for line in readelf("--dyn-syms", library).splitlines():
        fields = line.split()
        if len(fields) >= 8 and fields[4] in ("GLOBAL", "WEAK") and fields[6] != "UND":
            names.add(fields[7].split("@")[0])
    return names


def hooked(lists):
    names = set()
    for path in lists:
        with open(path, encoding="utf-8") as text:
            source = re.sub(r"/\*.*?\*/", "", text.read(), flags=re.S)
        names.update(re.findall(r"^(?:CUDA|NVML|LIBC)_HOOK\(\s*(\w+)", source, flags=re.M))
    return names


def main():
    library, lists = sys.argv[1], sys.argv[2:]
    wrong = []

    def check(good, what):
        if not good:
            wrong.append(what)

    names, wanted = exported(library), hooked(lists) | LOOKUP
    check(len(wanted) > 50, "the lists are empty")
    check(names == wanted, f"exports beyond the lists {sorted(names - wanted)}, "
                           f"missing {sorted(wanted - names)}")
    dynamic = readelf("--dynamic", library)
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic))
    check(needed <= LIBC, f"needs {sorted(needed - LIBC)}")
    check("(TEXTREL)" not in dynamic, "has relocations in its text")
    check(re.search(r"\bNOW\b", dynamic), "is bound lazily: its GOT stays writable")
    check("(RPATH)" not in dynamic and "(RUNPATH)" not in dynamic, "has a run path")
    segments = readelf("--segments", library)
    check("GNU_RELRO" in segments, "has no RELRO segment")
    stack = re.search(r"GNU_STACK(?:\s+0x[0-9a-f]+){5}\s+([RWE ]+)\s0x", segments)
    check(stack and "E" not in stack.group(1), "has an executable stack")
    for what in wrong:
        print(f"{library}: {what}", file=sys.stderr)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
