#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/api-coverage.md from the lists in src/nvidia and src/amd.

    tools/api_coverage.py            print the document
    tools/api_coverage.py --write    write docs/api-coverage.md
    tools/api_coverage.py --check    exit 1 when the committed document is stale

A row of a list is one entry point, or one ioctl, with one decision. What is wrong with the lists (a
name twice, a kind without a sentence, a kind hooked here and passed through there) or with the
table of ways in (a proof that is no file) is an error, so that the document cannot promise what is
not there.
"""
import difflib
import re
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "api-coverage.md"
AMD = ROOT / "src" / "amd"
WAYS = ROOT / "docs" / "ways-in.tsv"
APIS = (
    ("CUDA driver API", "CUDA", "cuda_api.def", "cuda_kind.def"),
    ("NVML", "NVML", "nvml_api.def", "nvml_kind.def"),
)
DECISIONS = {"HOOK": "hooked", "CALL": "passed through", "PASS": "passed through",
             "TEXT": "passed through"}


def die(what):
    sys.exit(f"api_coverage: {what}")


def text_of(path):
    """A source file without its comments."""
    return re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.S)


def kinds_of(path, macro="KIND"):
    pattern = rf'^{macro}\(\s*(\w+)\s*,(?:\s*[01],)?\s*((?:"(?:[^"\\]|\\.)*"\s*)+)\)'
    kinds = {}
    for name, strings in re.findall(pattern, text_of(path), flags=re.M):
        if name in kinds:
            die(f"{path.name}: kind {name} is there twice")
        kinds[name] = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', strings))
    return kinds


def rows_of(path, prefix, kinds):
    """{kind: {entry point: decision}}, in the order of the kinds."""
    by_kind = {kind: {} for kind in kinds}
    seen = set()
    pattern = rf"^{prefix}_(HOOK|CALL|PASS|TEXT)\(\s*(\w+)\s*,\s*(\w+)\s*[,)]"
    rows = re.findall(pattern, text_of(path), flags=re.M)
    if len(rows) != len(re.findall(rf"^{prefix}_\w+\(", text_of(path), flags=re.M)):
        die(f"{path.name}: a row that is no known form")
    for form, name, kind in rows:
        if name in seen:
            die(f"{path.name}: {name} is there twice")
        if kind not in by_kind:
            die(f"{path.name}: {name} has the unknown kind {kind}")
        seen.add(name)
        by_kind[kind][name] = DECISIONS[form]
    for kind, rows in by_kind.items():
        if len(set(rows.values())) > 1:
            die(f"{path.name}: kind {kind} is both hooked and passed through")
    return {kind: rows for kind, rows in by_kind.items() if rows}


def table(header, rows):
    yield "| " + " | ".join(header) + " |"
    yield "|" + "---|" * len(header)
    for row in rows:
        yield "| " + " | ".join(row) + " |"
    yield ""


def ways():
    rows = []
    for line in WAYS.read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        way, how, proof = (field.strip() for field in line.split("\t"))
        for path in proof.split():
            if not (ROOT / path).is_file():
                die(f"{WAYS.name}: the proof of '{way}' is no file: {path}")
        rows.append((way, how, ", ".join(f"[{Path(p).stem}](../{p})" for p in proof.split())))
    return rows


def api(title, by_kind, kinds):
    decisions = [d for rows in by_kind.values() for d in rows.values()]
    hooked = decisions.count("hooked")
    yield f"## {title}"
    yield ""
    yield (f"{len(decisions)} entry points: {hooked} hooked, {len(decisions) - hooked} "
           "passed through, none without a decision.")
    yield ""
    yield from table(("Kind", "Entry points", "Decision", "What or why"),
                     ((kind, str(len(rows)), next(iter(rows.values())), kinds[kind])
                      for kind, rows in by_kind.items()))
    yield "| Entry point | Decision | What or why |"
    yield "|---|---|---|"
    for kind, rows in by_kind.items():
        for name, decision in sorted(rows.items()):
            yield f"| `{name}` | {decision} | {kind}: {kinds[kind]} |"
    yield ""


def ioctls_of(path, kinds, number_of):
    """[(number, ioctl, decision)] in the order of the list."""
    rows = []
    for args in re.findall(r"^(?:KFD_IOCTL|KFD_OTHER|DRM_ROW)\(([^)]*)\)", text_of(path),
                           flags=re.M):
        fields = [field.strip() for field in args.split(",")]
        number, name = number_of(fields)
        if fields[-1] not in kinds:
            die(f"{path.name}: {name} has the unknown decision {fields[-1]}")
        if name in (row[1] for row in rows) or number in (row[0] for row in rows):
            die(f"{path.name}: {name} is there twice")
        rows.append((number, name, fields[-1]))
    return rows


def kfd_number(fields):
    return int(fields[0], 16), fields[1]


def drm_number(fields):
    pattern = rf"^#define DRM_NR_{fields[0]}\s+(?:\((DRM_COMMAND_BASE) \+ )?(0x[0-9a-f]+)"
    found = re.search(pattern, text_of(AMD / "abi" / "drm.h"), flags=re.M)
    if not found:
        die(f"drm_ioctl.def: {fields[0]} has no number in abi/drm.h")
    return int(found[2], 16) + (0x40 if found[1] else 0), fields[0]


def amd():
    kinds = kinds_of(AMD / "kfd_decision.def", "KFD_DECISION")
    yield "## AMD's ioctls"
    yield ""
    yield from prose(
        "AMD's driver is the kernel, and ROCm's library calls it by functions of the C library, of "
        "which `src/guest/process/libc_api.def` lists those that are hooked. An ioctl for one of its "
        "files is found by its number, and one of these is done about it.")
    yield ""
    yield from table(("Decision", "What"), kinds.items())
    for title, name, number_of in (("/dev/kfd", "kfd_ioctl.def", kfd_number),
                                   ("Render nodes", "drm_ioctl.def", drm_number)):
        yield f"### {title}"
        yield ""
        yield from table(("Number", "Ioctl", "Decision"),
                         ((f"0x{number:02x}", f"`{ioctl}`", decision) for number, ioctl, decision
                          in ioctls_of(AMD / name, kinds, number_of)))


def prose(text):
    return textwrap.wrap(text, 100, break_long_words=False, break_on_hyphens=False)


def document():
    yield "<!-- Generated by tools/api_coverage.py from src/*/*.def: edit those. -->"
    yield "# What allot does about each entry point"
    yield ""
    yield from prose(
        "Every function that the driver's libraries export has exactly one decision. *Hooked*: the "
        "call passes through `liballot.so`, which does what the last column says. *Passed "
        "through*: the program calls the driver itself, and the last column says why that is "
        "right. A function that only a newer driver has is passed through unseen; the tests hold "
        "the list against the installed `cuda.h`, so a new toolkit shows what it added.")
    yield ""
    if WAYS.is_file():
        yield "## Ways in"
        yield ""
        yield from prose("A program can reach the driver in each of these ways. All of them end "
                         "at the same hooks.")
        yield ""
        yield from table(("Way in", "How it ends at the hook", "Shown by"), ways())
    for title, prefix, api_def, kind_def in APIS:
        path = ROOT / "src" / "nvidia" / api_def
        if path.is_file():
            kinds = kinds_of(path.with_name(kind_def))
            yield from api(title, rows_of(path, prefix, kinds), kinds)
    yield from amd()


def main():
    fresh = "\n".join(document()).rstrip("\n") + "\n"
    if sys.argv[1:] == ["--write"]:
        DOCUMENT.write_text(fresh, encoding="utf-8")
    elif sys.argv[1:] == ["--check"]:
        old = DOCUMENT.read_text(encoding="utf-8") if DOCUMENT.is_file() else ""
        if old != fresh:
            sys.stdout.writelines(difflib.unified_diff(
                old.splitlines(True), fresh.splitlines(True), "committed", "generated", n=0))
            die("docs/api-coverage.md is stale; run: make docs")
    elif len(sys.argv) == 1:
        sys.stdout.write(fresh)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
