# SPDX-License-Identifier: Apache-2.0
"""Holds our lists and ABI headers to the vendor's headers.

    abi.py cuda|nvml --cc CC     against the installed header; exit 77 where there is none
    abi.py vulkan --cc CC        the same, but for the list, which is a part of Vulkan's
    abi.py self --cc CC          against headers made from our own, each with one thing changed:
                                 every change must be noticed

Three proofs: a function that the vendor declares is in the list once, and the other way round; each
row with a prototype is redeclared behind the vendor's header, which does not compile if it differs;
and one program that prints every size, offset and value that our header names, compiled with ours
and with the vendor's, prints the same.
"""
import argparse
import glob
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
ALIASES = {  # what the vendor's header says only through a macro, or not at all
    "ALLOT_CUDA_ABI_VERSION": "CUDA_VERSION",
}


class Api:
    """What there is to know about one list, which is in src/FOLDER."""

    def __init__(self, name, prefix, header, extra, defines, function, folder="nvidia"):
        self.name, self.prefix, self.header, self.defines = name, prefix, header, defines
        self.extra, self.extra_names = extra
        self.function = re.compile(function)
        self.list = ROOT / "src" / folder / f"{name}_api.def"
        self.abi = ROOT / "src" / folder / "abi" / f"{name}.h"


# Both defines make the header declare every version of a function under its own exported name.
CUDA = Api("cuda", "CUDA", "cuda.h", ("cudaProfiler.h", "cuProfiler"),
           ["-D__CUDA_API_VERSION_INTERNAL"],
           r"\bCUresult\s+(cu[A-Z]\w*)\s*\(")
NVML = Api("nvml", "NVML", "nvml.h", (None, None), ["-DNVML_NO_UNVERSIONED_FUNC_DEFS"],
           r"\b(?:nvmlReturn_t|const\s+char\s*\*)\s+(nvml[A-Z]\w*)\s*\(")


VULKAN = Api("vulkan", "VULKAN", "vulkan/vulkan_core.h", (None, None), [], r"\b(vk[A-Z]\w*)\(",
             "vulkan")


class Mismatch(Exception):
    pass


def run(cc, args, what, source=None):
    p = subprocess.run(cc + args, input=source, capture_output=True, text=True, check=False)
    if p.returncode:
        raise Mismatch(f"{what}:\n{p.stderr[:4000]}")
    return p.stdout


def vendor_source(api, header):
    """What to include; the extra header comes in a package of its own and may be missing."""
    extra = header.parent / api.extra if api.extra else None
    found = bool(extra and extra.is_file())
    return f'#include "{header}"\n' + (f'#include "{extra}"\n' if found else ""), found


def rows(api, listing=None):
    """[(form, name, parameters or None)] of a list."""
    text = re.sub(r"/\*.*?\*/", "", (listing or api.list).read_text(encoding="utf-8"), flags=re.S)
    found = []
    for form, name, rest in re.findall(rf"^{api.prefix}_(HOOK|CALL|PASS|TEXT)\((\w+), (.*?\)?)\)$",
                                       text, flags=re.M | re.S):
        if form == "PASS":
            found.append((form, name, None))
            continue
        start = rest.index("(")
        depth = 0
        for end in range(start, len(rest)):
            depth += (rest[end] == "(") - (rest[end] == ")")
            if not depth:
                break
        found.append((form, name, rest[start:end + 1]))
    return found


def check_names(api, cc, header, listing):
    source, with_extra = vendor_source(api, header)
    text = run(cc, ["-E", "-P", "-x", "c", f"-I{header.parent}", *api.defines, "-"],
               f"{header} does not preprocess", source)
    declared = set(api.function.findall(text))
    listed = [name for _, name, _ in rows(api, listing)]
    twice = sorted({n for n in listed if listed.count(n) > 1})
    new, gone = sorted(declared - set(listed)), sorted(set(listed) - declared)
    if api.extra and not with_extra:
        gone = [n for n in gone if not n.startswith(api.extra_names)]
    if twice or new or gone:
        raise Mismatch(f"{api.list.name}: listed twice: {twice}; declared but not listed: {new}; "
                       f"listed but not declared: {gone}")
    return len(declared)


def check_prototypes(api, cc, header, listing, tmp):
    include, _ = vendor_source(api, header)
    lines = []
    for form, name, params in rows(api, listing):
        if form != "PASS":
            result = {"TEXT": "const char *"}.get(form, "CUresult " if api is CUDA else
                                                  "nvmlReturn_t ")
            lines.append(f"{result}{name}{' '.join(params.split())};")
    source = tmp / "prototypes.c"
    source.write_text(include + "\n".join(lines) + "\n", encoding="utf-8")
    run(cc, ["-fsyntax-only", f"-I{header.parent}", *api.defines, str(source)], "prototypes differ")
    return len(lines)


def members(body):
    """Paths of the members in a struct's body, through unnamed inner structs too."""
    paths, depth, start = [], 0, 0
    for i, c in enumerate(body):
        depth += (c == "{") - (c == "}")
        if c != ";" or depth:
            continue
        member, start = body[start:i].strip(), i + 1
        inner = re.match(r"(?:struct|union)\b[^{;]*\{(.*)\}\s*(.*)$", member, flags=re.S)
        if inner:
            name = re.sub(r"\[.*", "", inner[2]).strip()
            index = "[0]" * inner[2].count("[")
            below = members(inner[1])
            paths += [name] + [f"{name}{index}.{p}" for p in below] if name else below
            continue
        pointer = re.search(r"\(\s*\w*\s*\*\s*(\w+)\s*\)\s*\(", member)
        if pointer:
            paths.append(pointer[1])
        elif ":" not in member:  # a bit-field has no offset
            paths += [re.search(r"(\w+)\s*(?:\[.*)?$", d.strip(), flags=re.S)[1]
                      for d in member.split(",")]
    return paths


def names_of(cc, header):
    """(types, {type: members}, enumerators, macros) that a header of ours defines."""
    own = header.read_text(encoding="utf-8")
    macros = [m for m in re.findall(r"^#define (\w+) \S", own, flags=re.M) if m != "CUDAAPI"]
    text, mine = [], False
    for line in run(cc, ["-E", str(header)], f"{header} does not preprocess").splitlines():
        marker = re.match(r'# \d+ "(.*?)"', line)
        if marker:
            mine = marker[1] == str(header)
        elif mine:
            text.append(line)
    text = "\n".join(text)
    types, structs, values, depth, start = [], {}, [], 0, 0
    for i, c in enumerate(text):
        depth += (c == "{") - (c == "}")
        if c != ";" or depth:
            continue
        item, start = text[start:i].strip(), i + 1
        # Passed on by pointer: nothing of it is ours.
        if re.fullmatch(r"(?:typedef )?struct \w+(?: \w+)?", item):
            continue
        if not item.startswith("typedef"):
            raise Mismatch(f"{header}: not a typedef: {item[:80]}")
        body = re.match(r"typedef (struct|union|enum)\b[^{]*\{(.*)\}\s*([^{}]*)$", item, flags=re.S)
        if not body:
            pointer = re.search(r"\(\s*\w*\s*\*\s*(\w+)\s*\)\s*\(", item)
            types.append(pointer[1] if pointer else re.search(r"(\w+)$", item)[1])
            continue
        aliases = [a.strip(" *\n") for a in body[3].split(",")]
        types += aliases
        if body[1] == "enum":
            values += [v.split("=")[0].strip() for v in body[2].split(",") if v.strip()]
        else:
            structs[aliases[0]] = [m for m in members(body[2]) if m != "opaque"]
    return types, structs, values, macros


def program(names):
    """The source that prints what a header says about the names."""
    types, structs, values, macros = names
    lines = ["#include <stddef.h>", "#include <stdint.h>", "#include <stdio.h>", "#include HEADER",
             "int main(void)", "{"]
    for t in types:
        lines.append(f'printf("{t} %zu %zu\\n", sizeof({t}), _Alignof({t}));')
    for t, paths in structs.items():
        for p in paths:
            lines.append(f'printf("{t}.{p} %zu %zu\\n", offsetof({t}, {p}), '
                         f"sizeof((({t} *)0)->{p}));")
    for v in values:
        lines.append(f'printf("{v} %lld\\n", (long long)({v}));')
    for m in macros:
        value = ALIASES.get(m, m)
        lines += [f"#ifdef VENDOR\n#define value_of {value}\n#else\n#define value_of {m}\n#endif",
                  f'printf("{m} %lld\\n", (long long)(intptr_t)(value_of));', "#undef value_of"]
    return "\n".join([*lines, "return 0;", "}", ""])


def check_layout(api, cc, header, ours, tmp):
    names = names_of(cc, ours)
    source = tmp / "layout.c"
    source.write_text(program(names), encoding="utf-8")
    said = []
    for which, path, args in (("ours", ours, []), ("theirs", header, ["-DVENDOR", *api.defines])):
        binary = str(tmp / which)
        run(cc, [f'-DHEADER="{path}"', *args, "-o", binary, str(source)],
            f"{which} does not have every name")
        said.append(run([binary], [], f"{which} does not run").splitlines())
    different = [f"  ours {a}, theirs {b}" for a, b in zip(*said) if a != b]
    if different or len(said[0]) != len(said[1]):
        raise Mismatch("layout differs:\n" + "\n".join(different))
    return len(said[0])


def check(api, cc, header, listing=None, ours=None):
    """Raises Mismatch; returns what was compared."""
    with tempfile.TemporaryDirectory() as tmp:
        tmp = Path(tmp)
        n = check_names(api, cc, header, listing)
        p = check_prototypes(api, cc, header, listing, tmp)
        f = check_layout(api, cc, header, ours or api.abi, tmp)
    return f"{n} functions, {p} prototypes, {f} sizes, offsets and values"


def installed(api):
    """The newest toolkit's header."""
    if api is VULKAN:
        header = Path("/usr/include") / api.header
        return header if header.is_file() else None
    places = [os.environ.get("CUDA_HOME", ""), os.environ.get("CUDA_PATH", ""),
              *sorted(glob.glob("/usr/local/cuda*"), reverse=True)]
    for place in filter(None, places):
        for inner in ("include", "targets/*/include"):
            for header in glob.glob(f"{place}/{inner}/{api.header}"):
                return Path(header)
    return None


def older(cc, header):
    """Whether the header belongs to a toolkit that our lists are ahead of."""
    cuda = header.parent / "cuda.h"
    if not cuda.is_file():
        return False
    theirs = re.search(r"^#define CUDA_VERSION (\d+)", cuda.read_text(encoding="utf-8"),
                       flags=re.M)
    ours = re.search(r"ALLOT_CUDA_ABI_VERSION (\d+)", CUDA.abi.read_text(encoding="utf-8"))
    return int(theirs[1]) < int(ours[1])


def made(api, directory):
    """A vendor's header made of our own, which agrees with us in everything."""
    text = api.abi.read_text(encoding="utf-8")
    lines = ["#define CUDA_VERSION ALLOT_CUDA_ABI_VERSION"] if api is CUDA else []
    for form, name, params in rows(api):
        result = {"TEXT": "const char *"}.get(form, "CUresult" if api is CUDA else "nvmlReturn_t")
        lines.append(f"{result} {name}{' '.join((params or '(void)').split())};")
    end = text.rindex("#endif")
    header = Path(directory) / api.header
    header.write_text(text[:end] + "\n".join(lines) + "\n" + text[end:], encoding="utf-8")
    return header


# (list, what is changed in the vendor's header, what it becomes)
CHANGES = (
    (CUDA, "CUresult cuInit(unsigned int Flags);", ""),
    (CUDA, "CUresult cuInit(unsigned int Flags);",
     "CUresult cuInit(unsigned int Flags); CUresult cuNewThing(void);"),
    (CUDA, "CUresult cuInit(unsigned int Flags);", "CUresult cuInit(unsigned long Flags);"),
    (CUDA, "CUDA_ERROR_OUT_OF_MEMORY = 2", "CUDA_ERROR_OUT_OF_MEMORY = 3"),
    (CUDA, "char bytes[16];", "char bytes[24];"),
    (CUDA, "#define CUDA_ARRAY3D_SPARSE 0x40", "#define CUDA_ARRAY3D_SPARSE 0x80"),
    (NVML, "const char * nvmlErrorString(", "const int * nvmlErrorString("),
    (NVML, "nvmlReturn_t nvmlShutdown(void);", ""),
    (NVML, "unsigned long long total;\n\tunsigned long long free;",
     "unsigned long long free;\n\tunsigned long long total;"),
    (NVML, "NVML_ERROR_INSUFFICIENT_SIZE = 7", "NVML_ERROR_INSUFFICIENT_SIZE = 17"),
    (NVML, "} utilization[NVML_MAX_GPU_UTILIZATIONS];", "} utilization[9];"),
)


def vulkan_prototypes(cc, header, tmp):
    """How many rows are as the vendor declares them. What only drivers export has no declaration."""
    text = re.sub(r"/\*.*?\*/", "", VULKAN.list.read_text(encoding="utf-8"), flags=re.S)
    found = re.findall(r"^VULKAN_(?:HOOK|CALL)\(\w+, (\w+), (vk[A-Z]\w+),\s*(\(.*?\))\)$", text,
                       flags=re.M | re.S)
    source = tmp / "prototypes.c"
    lines = [f"{result} {name}{' '.join(params.split())};" for result, name, params in found]
    source.write_text("\n".join([f'#include "{header}"', *lines, ""]), encoding="utf-8")
    run(cc, ["-fsyntax-only", f"-I{header.parent.parent}", str(source)], "prototypes differ")
    return len(lines)


def check_vulkan(cc, header):
    with tempfile.TemporaryDirectory() as tmp:
        p = vulkan_prototypes(cc, header, Path(tmp))
        f = check_layout(VULKAN, cc, header, VULKAN.abi, Path(tmp))
    return f"{p} prototypes, {f} sizes, offsets and values"


def self_test(cc):
    for api in (CUDA, NVML):
        with tempfile.TemporaryDirectory() as directory:
            header = made(api, directory)
            text = header.read_text(encoding="utf-8").replace("const char *nvml",
                                                              "const char * nvml")
            header.write_text(text, encoding="utf-8")
            print(f"{api.name}: {check(api, cc, header)}")
            for _, old, new in (c for c in CHANGES if c[0] is api):
                if old not in text:
                    sys.exit(f"{api.name}: nothing to change: {old!r}")
                header.write_text(text.replace(old, new, 1), encoding="utf-8")
                try:
                    check(api, cc, header)
                except Mismatch:
                    continue
                sys.exit(f"{api.name}: not noticed: {old!r} became {new!r}")
    print(f"{len(CHANGES)} changes noticed")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("api", choices=("cuda", "nvml", "vulkan", "self"))
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--header", type=Path)
    args = parser.parse_args()
    cc = shlex.split(args.cc)
    if args.api == "self":
        self_test(cc)
        return
    api = {"cuda": CUDA, "nvml": NVML, "vulkan": VULKAN}[args.api]
    header = args.header or installed(api)
    if not header:
        print(f"skipped: no {api.header} is installed")
        sys.exit(77)
    if api is not VULKAN and older(cc, header):
        print(f"skipped: {header} is older than the list")
        sys.exit(77)
    try:
        said = check_vulkan(cc, header) if api is VULKAN else check(api, cc, header)
        print(f"{header}: {said}")
    except Mismatch as e:
        sys.exit(f"{header}: {e}")


if __name__ == "__main__":
    main()
