# SPDX-License-Identifier: Apache-2.0
"""Holds opencl_api.def and opencl/abi/opencl.h to Khronos' headers.

    opencl.py khronos --cc CC    against the installed headers; exit 77 where there are none
    opencl.py self --cc CC       the same with one thing changed at a time: each must be noticed

One program includes Khronos' headers alone: it asserts the place of each row in the table of functions,
that the row's prototype is the one there, and every value, size and offset that our header has."""
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
ABI = (ROOT / "src/opencl/abi/opencl.h").read_text(encoding="utf-8")
LIST = (ROOT / "src/opencl/opencl_api.def").read_text(encoding="utf-8")
INCLUDE = ("#define CL_TARGET_OPENCL_VERSION 300\n#define CL_USE_DEPRECATED_OPENCL_1_1_APIS\n"
           "#include <stddef.h>\n#include <CL/cl.h>\n#include <CL/cl_ext.h>\n#include <CL/cl_icd.h>\n")
CHANGES = [("OPENCL_HOOK(14, ", "OPENCL_HOOK(15, "), ("size_t size, void *host_ptr", "int size, void *host_ptr"),
           ("CL_DEVICE_GLOBAL_MEM_SIZE    0x101F", "CL_DEVICE_GLOBAL_MEM_SIZE    0x101E"),
           ("OPENCL_HOOK(126, 20", "OPENCL_HOOK(126, 12"),
           ("	size_t image_width;\n", ""), ("typedef cl_ulong cl_bitfield", "typedef cl_uint cl_bitfield")]


def rows(listing):
    text = re.sub(r"/\*.*?\*/", "", listing, flags=re.S)
    return re.findall(r"^OPENCL_(?:HOOK|CALL)\((\d+), (\d+), ([\w *]+?), (\w+),\s*(\(.*?\))\)$", text,
                      flags=re.M | re.S)


def sections():
    """{name: version} by the comments of Khronos' table."""
    header = next((Path(p) / "CL/cl_icd.h" for p in ("/usr/include", "/usr/local/include")
                   if (Path(p) / "CL/cl_icd.h").exists()), None)
    if not header:
        return None
    text = header.read_text(encoding="utf-8")
    table = text[text.index("typedef struct _cl_icd_dispatch {"):]
    found, version = {}, None
    for comment, name in re.findall(r"/\* (.*?) \*/|cl_api_\w+\s+(\w+);", table):
        match = re.match(r"OpenCL (\d)\.(\d)", comment)
        version = int(match[1] + match[2]) if match else version
        if name:
            found[name] = version
    return found


def program(abi, listing):
    lines = [INCLUDE]
    for index, _, result, name, params in rows(listing):
        lines += [f"_Static_assert(offsetof(cl_icd_dispatch, {name}) == {index} * sizeof(void *), \"{name}\");",
                  f"void check_{name}(cl_icd_dispatch *at, {result} (*own){' '.join(params.split())});",
                  f"void check_{name}(cl_icd_dispatch *at, {result} (*own){' '.join(params.split())}) "
                  f"{{ at->{name} = own; }}"]
    for name, value in re.findall(r"^#define (CL_\w+)\s+(\S.*)$", abi, flags=re.M):
        lines.append(f"_Static_assert({name} == {value}, \"{name}\");")
    lines.append(re.sub(r"\bcl_(\w+)", r"own_\1", types(abi)))
    for name in re.findall(r"^typedef [\w ]+ (cl_\w+);", abi, flags=re.M):
        lines.append(f"_Static_assert(sizeof({name}) == sizeof(own_{name[3:]}) && (({name})-1 < 0) == "
                     f"((own_{name[3:]})-1 < 0), \"{name}\");")
    for body, name in re.findall(r"^typedef struct \w+ \{(.*?)^\} (cl_\w+);", abi, flags=re.M | re.S):
        lines.append(f"_Static_assert(sizeof({name}) == sizeof(own_{name[3:]}), \"{name}\");")
        for member in re.findall(r"(\w+);", re.sub(r"/\*.*?\*/", "", body)):
            lines.append(f"_Static_assert(offsetof({name}, {member}) == offsetof(own_{name[3:]}, {member}), "
                         f"\"{member}\");")
    return "\n".join(lines) + "\n"


def types(abi):
    """Our types under names of their own."""
    text = re.sub(r"/\*.*?\*/|^#.*?$", "", abi, flags=re.M | re.S)
    return re.sub(r"struct (_cl_\w+)", r"struct own\1", text)


def check(cc, abi, listing):
    """What differs, or an empty text."""
    versions = sections()
    wrong = [f"{name}: brought by {versions.get(name)}, not {version}" for _, version, _, name, _ in rows(listing)
             if name != "clGetExtensionFunctionAddressForPlatform" and versions.get(name) != int(version)]
    if wrong:
        return "\n".join(wrong)
    done = subprocess.run([*cc, "-std=gnu11", "-Werror=incompatible-pointer-types", "-fsyntax-only", "-xc",
                           "-"], input=program(abi, listing), text=True, capture_output=True, check=False)
    return done.stderr if done.returncode else ""


def main():
    mode, cc = sys.argv[1], shlex.split(sys.argv[3])
    if not sections():
        print("skipped: opencl-c-headers is not installed", file=sys.stderr)
        return 77
    assert len(rows(LIST)) == len(re.findall(r"^OPENCL_(?:HOOK|CALL)\(", LIST, flags=re.M)), "a row is not read"
    assert len(rows(LIST)) > 20
    told = check(cc, ABI, LIST)
    if told:
        print(told, file=sys.stderr)
        return 1
    for old, new in CHANGES if mode == "self" else []:
        assert old in ABI + LIST, old
        if not check(cc, ABI.replace(old, new, 1), LIST.replace(old, new, 1)):
            print(f"not noticed: {old!r} as {new!r}", file=sys.stderr)
            return 1
    return 0


sys.exit(main())
