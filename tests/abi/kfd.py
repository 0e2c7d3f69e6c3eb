# SPDX-License-Identifier: Apache-2.0
"""Holds our list of /dev/kfd's ioctls, and the headers behind it, to the kernel's headers.

    kfd.py linux --cc CC     against the installed <linux/kfd_ioctl.h>; exit 77 where there is none
    kfd.py drm --cc CC       what we have of amdgpu's render nodes against the installed
                             <amdgpu_drm.h>; exit 77 where there is none
    kfd.py self --cc CC      against headers made from our own, each with one thing changed: every
                             change must be noticed

The interface grows: an older header lacks ioctls, structs and the last members of a struct. What it
lacks is passed over by name; what it has must be the same, and every ioctl that it has must be in
the list.
"""
import argparse
import re
import shlex
import sys
import tempfile
from pathlib import Path

from abi import ROOT, Mismatch, members, run

LIST = ROOT / "src/amd/kfd_ioctl.def"
TABLE = ROOT / "src/amd/kfd_ioctl.h"
OURS = ROOT / "src/amd/abi/kfd.h"
DRM = ROOT / "src/amd/abi/drm.h"
DRM_LIST = ROOT / "src/amd/drm_ioctl.def"
# What libdrm's headers got after 2.4.114, numbers first: passed over where they have not.
DRM_NEWER = ("SYNCOBJ_EVENTFD", "SET_CLIENT_NAME", "GEM_CHANGE_HANDLE", "AMDGPU_USERQ",
             "AMDGPU_USERQ_SIGNAL", "AMDGPU_USERQ_WAIT", "AMDGPU_GEM_LIST_HANDLES",
             "AMDGPU_PROC_OPTIONS",
             "AMDGPU_GEM_OP_GET_MAPPING_INFO", "AMDGPU_GEM_LIST_HANDLES_FLAG_IS_IMPORT",
             "drm_amdgpu_gem_vm_entry", "drm_amdgpu_gem_list_handles",
             "drm_amdgpu_gem_list_handles_entry", "drm_gem_change_handle")
# Members that older headers have under another name, as padding.
ONCE = {"kfd_ioctl_create_queue_args.metadata_ring_size": "pad",
        "kfd_ioctl_set_memory_policy_args.misc_process_flag": "pad"}
DRM_PLACES = ("/usr/include/libdrm", "/usr/include/drm")
OWN_DRIVER = 0x80  # from here on ioctls are not of the kernel's driver
NAME = "AMDKFD_IOC_"


def without_comments(text):
    return re.sub(r"/\*.*?\*/", "", text, flags=re.S)


def rows():
    """[(number, name, struct or None)]"""
    text = without_comments(LIST.read_text(encoding="utf-8"))
    found = re.findall(r"^KFD_(IOCTL|OTHER)\((\w+), (\w+), (?:(\w+), )?(\w+)\)$", text, flags=re.M)
    if len(found) != len(re.findall(r"^KFD_\w+\(", text, flags=re.M)) or not found:
        raise Mismatch(f"{LIST.name}: a row that is no known form")
    return [(int(number, 16), name, args or None) for _, number, name, args, _ in found]


class Header:
    """What a header declares."""

    def __init__(self, path):
        self.path = path
        text = without_comments(path.read_text(encoding="utf-8"))
        text = text.replace("\\\n", " ")
        self.structs = {name: members(body) for name, body in
                        re.findall(r"^struct\s+(\w+)\s*\{(.*?)^\};", text, flags=re.M | re.S)}
        self.values = re.findall(r"^\s*#define[ \t]+(KFD_\w+|NUM_OF_\w+|AMDKFD_IOCTL_BASE|"
                                 r"AMDGPU_(?:INFO|GEM|VA_OP|VM_PAGE)_\w+|DRM_COMMAND_BASE|"
                                 r"DRM_IOCTL_BASE)[ \t]+\S", text, flags=re.M)
        for body in re.findall(r"^enum \w+ \{(.*?)\};", text, flags=re.M | re.S):
            self.values += [v.split("=")[0].strip() for v in body.split(",") if v.strip()]
        self.renamed = []
        for where, once in ONCE.items():
            struct, name = where.split(".")
            if once in self.structs.get(struct, ()):
                self.structs[struct] = [name if member == once else member
                                        for member in self.structs[struct]]
                self.renamed.append(f"#define {name} {once}")
        self.ioctls = re.findall(rf"^#define[ \t]+{NAME}(\w+)", text, flags=re.M)

    def say(self, cc, lines, tmp):
        """{what: number} as a program of these lines prints it, with this header."""
        source, binary = tmp / "say.c", tmp / "say"
        source.write_text("\n".join(
            ["#include <stddef.h>", "#include <stdint.h>", "#include <stdio.h>",
             "#include <sys/ioctl.h>", f'#include "{self.path}"', *self.renamed, "int main(void)", "{", *lines,
             "return 0;", "}", ""]), encoding="utf-8")
        run(cc, ["-o", str(binary), str(source)], f"{self.path} does not have every name")
        said = run([str(binary)], [], "does not run").splitlines()
        return {what: int(number) for what, number in (line.split() for line in said)}


def show(what, value):
    return f'printf("{what} %lld\\n", (long long)({value}));'


def compare(cc, lines, tmp):
    """How many figures the two headers say, if they say the same."""
    ours, theirs = (header.say(cc, lines[header], tmp) for header in lines)
    wrong = [f"  {what}: ours {ours[what]}, theirs {theirs[what]}" for what in ours
             if ours[what] != theirs[what]]
    if wrong:
        raise Mismatch("layout differs:\n" + "\n".join(wrong))
    return len(ours)


def check_layout(cc, ours, theirs, tmp):
    """Sizes, offsets and values; returns how many were compared and what they lack."""
    lines = {ours: [], theirs: []}
    lacks = []
    for name, paths in ours.structs.items():
        if name not in theirs.structs:
            lacks.append(name)
            continue
        common = [p for p in paths if p in theirs.structs[name]]
        lacks += [f"{name}.{p}" for p in paths if p not in common]
        for header in (ours, theirs):
            for path in common:
                where, that = f"struct {name}, {path}", f"((struct {name} *)0)->{path}"
                lines[header].append(show(f"{name}.{path}", f"offsetof({where})"))
                if not that.endswith("attrs"):  # an array without a length
                    lines[header].append(show(f"{name}.{path}:size", f"sizeof({that})"))
        # An older struct ends where the first of the last members that it lacks begins. One that it
        # lacks before others is of a union, and takes no room of its own.
        last = max((i for i, p in enumerate(paths) if p in common), default=-1)
        end = paths[last + 1] if last + 1 < len(paths) else None
        lines[ours].append(show(name, f"offsetof(struct {name}, {end})" if end
                                else f"sizeof(struct {name})"))
        lines[theirs].append(show(name, f"sizeof(struct {name})"))
    for name in ours.values:
        if name not in theirs.values:
            lacks.append(name)
        elif not name.endswith("_VERSION"):
            for header in (ours, theirs):  # flags with the highest bit set are signed in some
                lines[header].append(show(name, f"(uint32_t)({name})"))
    return compare(cc, lines, tmp), lacks


def check_list(cc, theirs, tmp):
    listed = rows()
    numbers = [number for number, _, _ in listed]
    names = {name: number for number, name, _ in listed}
    if len(set(numbers)) != len(numbers) or len(names) != len(numbers):
        raise Mismatch(f"{LIST.name}: a number or a name twice")
    lines = [show(f"{name}:nr", f"_IOC_NR({NAME}{name})") for name in theirs.ioctls]
    lines += [show(f"{name}:type", f"_IOC_TYPE({NAME}{name}) == 'K'") for name in theirs.ioctls]
    sized = [(name, args) for _, name, args in listed if args and name in theirs.ioctls]
    lines += [show(f"{name}:block", f"_IOC_SIZE({NAME}{name}) == sizeof(struct {args})")
              for name, args in sized]
    said = theirs.say(cc, lines, tmp)
    wrong = [f"{name} is declared as {said[name + ':nr']}, listed as {names.get(name, 'none')}"
             for name in theirs.ioctls if names.get(name) != said[f"{name}:nr"]]
    wrong += [f"{name} is of another type" for name in theirs.ioctls if not said[f"{name}:type"]]
    wrong += [f"{name} does not take a struct {args}" for name, args in sized
              if not said[f"{name}:block"]]
    newest = max(said[f"{name}:nr"] for name in theirs.ioctls if
                 said[f"{name}:nr"] < OWN_DRIVER)
    wrong += [f"{name} is listed as {number:#x} and not declared" for number, name, _ in listed
              if number <= newest and name not in theirs.ioctls]
    if wrong:
        raise Mismatch(f"{LIST.name}: " + "; ".join(wrong))
    return len(theirs.ioctls), [name for _, name, _ in listed if name not in theirs.ioctls]


def check_version(header):
    """A header that is newer than our list may have given a known ioctl another meaning."""
    found = re.search(r"^#define[ \t]+KFD_IOCTL_MINOR_VERSION[ \t]+(\d+)",
                      header.read_text(encoding="utf-8"), flags=re.M)
    known = re.search(r"^#define KFD_LIST_MINOR (\d+)", TABLE.read_text(encoding="utf-8"),
                      flags=re.M)
    if not found or int(found[1]) > int(known[1]):
        raise Mismatch(f"{header} is of version 1.{found[1] if found else '?'}, and KFD_LIST_MINOR "
                       f"is {known[1]}: look at what is new, then raise that")


def check(cc, header):
    """Raises Mismatch; returns what was compared."""
    check_version(header)
    ours, theirs = Header(OURS), Header(header)
    with tempfile.TemporaryDirectory() as tmp:
        ioctls, lacks = check_list(cc, theirs, Path(tmp))
        figures, lacks_too = check_layout(cc, ours, theirs, Path(tmp))
    return (f"{ioctls} ioctls, {figures} sizes, offsets and values; it lacks "
            f"{', '.join(lacks + lacks_too) or 'nothing'}")


def made(tmp):
    """A kernel's header made of our own, which agrees with us in everything."""
    text = OURS.read_text(encoding="utf-8")
    lines = []
    for number, name, args in rows():
        size = f"struct {args}" if args else "int"
        lines.append(f"#define {NAME}{name} _IOWR(AMDKFD_IOCTL_BASE, {number:#04x}, {size})")
    end = text.rindex("#endif")
    header = Path(tmp) / "kfd_ioctl.h"
    header.write_text(text[:end] + "\n".join(lines) + "\n" + text[end:], encoding="utf-8")
    return header


SVM = f"#define {NAME}SVM _IOWR(AMDKFD_IOCTL_BASE, 0x20, struct kfd_ioctl_svm_args)"
# (what is changed in the kernel's header, what it becomes)
NOTICED = (
    (SVM, f"{SVM}\n#define {NAME}NEW _IO('K', 0x40)"),
    (SVM, SVM.replace("SVM", "SVN")),
    (SVM, SVM.replace("0x20", "0x40")),
    (SVM, SVM.replace("AMDKFD_IOCTL_BASE", "'k'")),
    (SVM, SVM.replace("kfd_ioctl_svm_args", "kfd_ioctl_criu_args")),
    ("uint32_t n_devices;\n\tuint32_t n_success;", "uint32_t n_success;\n\tuint32_t n_devices;"),
    ("uint64_t handle;\n};", "uint32_t handle;\n};"),
    ("int32_t xnack_enabled;", "int32_t xnack_enabled, more;"),
    ("KFD_IOCTL_SVM_ATTR_ACCESS,", "KFD_IOCTL_SVM_ATTR_ACCESS = 9,"),
    ("FLAGS_COHERENT      (1u << 26)", "FLAGS_COHERENT (1u << 24)"),
    ("#define AMDKFD_IOCTL_BASE 'K'", "#define AMDKFD_IOCTL_BASE 'L'"),
    ("#define KFD_IOCTL_MINOR_VERSION 17", "#define KFD_IOCTL_MINOR_VERSION 24"),
)
# The same, for what an older kernel has not yet: no difference.
OLDER = (
    ("\tuint32_t sdma_engine_id;     /* the first of those that 1.16 does not have */\n"
     "\tuint32_t metadata_ring_size; /* padding before 1.22 */\n", ""),
    ("misc_process_flag;", "pad;"),
    ("#define KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID 0x4", ""),
    (f"#define {NAME}PC_SAMPLE", "#define NO_SAMPLE"),
    (f"#define {NAME}DBG_TRAP ", "#define NO_TRAP "),
    (f"#define {NAME}CREATE_PROCESS ", "#define NO_PROCESS "),
    (f"#define {NAME}PROFILER ", "#define NO_PROFILER "),
)


NOTICED_DRM = (
    ("#define AMDGPU_INFO_MEMORY\t   0x19", "#define AMDGPU_INFO_MEMORY 0x18"),
    ("#define AMDGPU_INFO_MEMORY\t   0x19", ""),
    ("(DRM_IOCTL_BASE, DRM_NR_GET_CAP)", "(DRM_IOCTL_BASE, DRM_NR_VERSION)"),
    ("(DRM_IOCTL_BASE, DRM_NR_AMDGPU_USERQ)", "(DRM_IOCTL_BASE, DRM_NR_AMDGPU_VM)"),
    ("#define DRM_IOCTL_AMDGPU_GEM_VA", "#define DRM_IOCTL_AMDGPU_NEW 1\n"
     "#define DRM_IOCTL_AMDGPU_GEM_VA"),
    ("#define AMDGPU_GEM_DOMAIN_VRAM 0x4", "#define AMDGPU_GEM_DOMAIN_VRAM 0x40"),
    ("int32_t fd;", "int64_t fd;"),
    ("uint32_t gpu_counter_freq;", "uint64_t gpu_counter_freq;"),
    ("uint64_t name_len;", "uint32_t name_len;"),
    ("struct drm_amdgpu_heap_info vram;", "struct drm_amdgpu_heap_info vram[2];"),
    ("struct drm_amdgpu_info_vram_gtt {", "struct drm_amdgpu_info_gtt {"),
)


def made_drm(tmp):
    """The same for render nodes; in one file, beside an empty one."""
    text = DRM.read_text(encoding="utf-8")
    end = text.rindex("#endif")
    lines = [f"#define DRM_IOCTL_{name} _IO(DRM_IOCTL_BASE, DRM_NR_{name})"
             for name in re.findall(r"^#define DRM_NR_(\w+)", text, flags=re.M)]
    (Path(tmp) / "drm.h").touch()
    header = Path(tmp) / "amdgpu_drm.h"
    header.write_text(text[:end] + "\n".join(lines) + "\n" + text[end:], encoding="utf-8")
    return header


def change(text, old, new):
    if old not in text:
        sys.exit(f"nothing to change: {old!r}")
    return text.replace(old, new, 1)


def notices(changes, header, checked):
    """Each change of the header, by itself, is a mismatch."""
    text = header.read_text(encoding="utf-8")
    for old, new in changes:
        header.write_text(change(text, old, new), encoding="utf-8")
        try:
            checked()
        except Mismatch:
            continue
        sys.exit(f"not noticed: {old!r} became {new!r}")


def self_test(cc):
    with tempfile.TemporaryDirectory() as tmp:
        drm = made_drm(tmp)
        print(check_drm(cc, drm))
        notices(NOTICED_DRM, drm, lambda: check_drm(cc, drm))
    with tempfile.TemporaryDirectory() as tmp:
        header = made(tmp)
        text = header.read_text(encoding="utf-8")
        print(check(cc, header))
        notices(NOTICED, header, lambda: check(cc, header))
        for old, new in OLDER:
            text = change(text, old, new)
        header.write_text(text, encoding="utf-8")
        said = check(cc, header)
        for name in ("DBG_TRAP", "PC_SAMPLE", "kfd_ioctl_create_queue_args.sdma_engine_id"):
            if name not in said:
                sys.exit(f"{name} is not said to be lacking: {said}")
    print(f"{len(NOTICED) + len(NOTICED_DRM)} changes noticed")


def with_types(cc, directory):
    """A compiler for which there is a <drm/drm.h>, of which the header wants the integers alone:
    Debian has it in another place, and in another package."""
    (Path(directory) / "drm").mkdir()
    (Path(directory) / "drm/drm.h").write_text("#include <linux/types.h>\n", encoding="utf-8")
    return [*cc, "-idirafter", str(directory)]


def drm_numbers(ours, theirs, core):
    """The numbers to compare: all of ours, each in the list, and every one of amdgpu's."""
    numbers = re.findall(r"^#define DRM_NR_(\w+)", ours.path.read_text(encoding="utf-8"),
                         flags=re.M)
    listed = re.findall(r"^DRM_ROW\((\w+), \w+\)$", DRM_LIST.read_text(encoding="utf-8"),
                        flags=re.M)
    if sorted(listed) != sorted(numbers):
        raise Mismatch(f"{DRM_LIST.name} and {DRM.name}: only in one of them, or twice: "
                       f"{sorted(set(listed) ^ set(numbers))}")
    declared = [name for header in (theirs, core) for name in re.findall(
        r"^[ \t]*#define[ \t]+DRM_IOCTL_(\w+)", header.path.read_text(encoding="utf-8"),
        flags=re.M)]
    missing = [name for name in declared if name.startswith("AMDGPU_") and name not in numbers]
    if missing:
        raise Mismatch(f"{DRM_LIST.name}: no row for {', '.join(missing)}")
    return [name for name in numbers if name not in DRM_NEWER or name in declared]


def check_drm(cc, header):
    """We have the beginnings of what is long: whatever we name must be theirs, and where it is."""
    ours, theirs = Header(DRM), Header(header)
    core = Header(header.parent / "drm.h")
    theirs.structs.update(core.structs)
    theirs.values += core.values
    numbers = drm_numbers(ours, theirs, core)
    lines = {ours: [show(n, f"DRM_NR_{n}") for n in numbers],
             theirs: [show(n, f"_IOC_NR(DRM_IOCTL_{n})") for n in numbers]}
    for name in ours.values:
        if name not in theirs.values:
            if name in DRM_NEWER:
                continue
            raise Mismatch(f"{name} is not theirs")
        for header_lines in lines.values():
            header_lines.append(show(name, name))
    for name, paths in ours.structs.items():
        if name not in theirs.structs:
            if name in DRM_NEWER:
                continue
            raise Mismatch(f"struct {name} is not theirs")
        for path in paths:
            if path in theirs.structs[name]:
                for header_lines in lines.values():
                    header_lines += [
                        show(f"{name}.{path}", f"offsetof(struct {name}, {path})"),
                        show(f"{name}.{path}:size", f"sizeof(((struct {name} *)0)->{path})")]
        if paths == theirs.structs[name]:
            for header_lines in lines.values():
                header_lines.append(show(name, f"sizeof(struct {name})"))
    with tempfile.TemporaryDirectory() as tmp:
        return f"{compare(cc, lines, Path(tmp))} sizes, offsets and values"


def drm_installed():
    places = (Path(place) / "amdgpu_drm.h" for place in DRM_PLACES)
    return next((header for header in places if header.is_file()), None)


def installed(cc):
    """The header that the compiler finds."""
    try:
        text = run(cc, ["-E", "-xc", "-"], "none", "#include <linux/kfd_ioctl.h>\n")
    except Mismatch:
        return None
    found = re.search(r'^# \d+ "(.*linux/kfd_ioctl\.h)"', text, flags=re.M)
    return Path(found[1]) if found else None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("linux", "drm", "self"))
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--header", type=Path)
    args = parser.parse_args()
    cc = shlex.split(args.cc)
    try:
        if args.what == "self":
            self_test(cc)
            return
        with tempfile.TemporaryDirectory() as directory:
            cc = with_types(cc, directory)
            drm = args.what == "drm"
            header = args.header or (drm_installed() if drm else installed(cc))
            if not header:
                print(f"skipped: no {'amdgpu_drm.h' if drm else 'linux/kfd_ioctl.h'} is installed")
                sys.exit(77)
            said = check_drm(cc, header) if drm else check(cc, header)
            print(f"{header}: {said}")
    except Mismatch as e:
        sys.exit(str(e))


if __name__ == "__main__":
    main()
