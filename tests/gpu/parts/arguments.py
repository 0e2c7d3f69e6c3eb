# SPDX-License-Identifier: Apache-2.0
"""Each hook with each of its pointers left out (gpu_arguments): under allot every call has the
driver's answer, and writes, takes and gives back what it does without. The driver's answers are
left beside the JSON as arguments.txt; tests/abi/arguments.txt has those of a device, which the
simulator answers, too."""
import re
from pathlib import Path

from harness import ROOT, Trouble, run

SWAPPABLE = ("swappable", "overcommit")
TENANTS = {
    "memory": (),
    "swappable": ("--swappable",),
    "compute": ("--compute", "50"),
    "overcommit": ("--overcommit",),
}
QUOTA, TIMEOUT_S = "4GiB", 150
KEPT = ROOT / "tests/abi/arguments.txt"
NOTHING, CRASH = "(no answer)", "Segmentation fault"
FREE_CHANGED = re.compile(", (took memory|gave memory back)")

# What a tenant is answered otherwise on purpose: (tenants, cases, answers, reason). Cases and
# answers are regular expressions that match as a whole.
LIMITS = (
    (TENANTS, "cuMemAllocManaged", "CUDA_SUCCESS, took memory, dptr some",
     "managed memory is charged in full when it is allocated, and the free memory that a program "
     "is told of is what its tenant can still have"),
    (TENANTS, "cuMemPoolImportPointer", "CUDA_SUCCESS, took memory, ptr_out some",
     "a pool of the process's own: what is imported of it outlives the pool, so it is charged "
     "beside the pool"),
    (SWAPPABLE, "cuMemGetHandleForAddressRange( without handle)?", "CUDA_ERROR_NOT_SUPPORTED",
     "a dma-buf would keep memory that can leave on the device"),
    (SWAPPABLE, "cuPointerSetAttribute", "CUDA_ERROR_NOT_SUPPORTED",
     "SYNC_MEMOPS is what RDMA asks for; the driver has it of no memory that can leave"),
    (SWAPPABLE, "cuImportExternalMemory", "CUDA_ERROR_(UNKNOWN|INVALID_HANDLE)",
     "a descriptor of memory that can leave is allot's, and other APIs do not know it"),
    (SWAPPABLE, "cu(DestroyExternalMemory|ExternalMemoryGetMapped.*)",
     "CUDA_ERROR_INVALID_VALUE, for want of cuImportExternalMemory", "likewise"),
)

# Where the simulator answers otherwise than the device: (cases, reason).
SIMULATED = (
    ("cu(Array(3D)?Create|CtxCreate|Mem(Alloc|AllocPitch|Free|GetInfo)|"
     "Memcpy(AtoA|AtoH|AtoHAsync|HtoA|HtoAAsync))( without .*)?",
     "the interface of CUDA 3, which a driver refuses in a context of a newer one; the simulator "
     "answers, so that the tests reach the hooks"),
    ("cuLaunch(Grid|GridAsync)?( without hStream)?",
     "the shape of a block and parameters by calls of their own are not simulated"),
    ("cuMemAllocManaged", "managed memory is on the device at once"),
    ("cuMemGetHandleForAddressRange", "dma-bufs are not simulated"),
    ("cuTexObjectCreate( without .*)?", "textures are not simulated"),
)


def read(text):
    return dict(line.split(": ", 1) for line in text.splitlines() if not line.startswith("#"))


def ask(command):
    """{case: answer}"""
    status, out, err = run(command, TIMEOUT_S)
    if status != 0 or not out:
        last = out.splitlines()[-1:]
        raise Trouble(f"exit {status}, the last answer was {last}: {err[-300:]}")
    return read(out)


def differences(expected, answers):
    """[(case, expected answer, answer)]. Where the driver itself ends the program there is nothing
    to be compared: no program makes such a call, and an error in its place harms none."""
    return [(case, expected.get(case, NOTHING), answers.get(case, NOTHING))
            for case in sorted({*expected, *answers})
            if expected.get(case) not in (CRASH, answers.get(case))]


def differences_of_tenant(bench, options, driver):
    """What differs in memory alone counts if it does so again, asked by itself: a figure may be put
    right while some case runs, such as what was guessed of a context."""
    def asked(*hooks):
        return ask(bench.command(bench.tenant(), QUOTA, [bench.program("arguments"), *hooks],
                                 options))

    differ = differences(driver, asked())
    doubtful = {d[0] for d in differ
                if FREE_CHANGED.sub("", d[1]) == FREE_CHANGED.sub("", d[2])}
    if not doubtful:
        return differ
    again = asked(*sorted({case.split()[0] for case in doubtful}))
    return [d for d in differ if d[0] not in doubtful or again.get(d[0]) != d[1]]


def is_limit(name, difference):
    case, _, answer = difference
    return any(name in tenants and re.fullmatch(cases, case) and re.fullmatch(answers, answer)
               for tenants, cases, answers, _ in LIMITS)


def check(results, name, differ, n, target, remark=""):
    results.check("arguments", name, not differ, f"{len(differ)} of {n} differ{remark}", target)
    results.figure("arguments", name, differ)


def compare_with_kept(bench, driver):
    """The simulator's answers are the kept ones. Another driver's may differ, which is said."""
    kept = read(KEPT.read_text(encoding="utf-8"))
    if not bench.sim:
        differ = differences(kept, driver)
        bench.results.figure("arguments", "kept", differ)
        bench.results.note(f"{len(differ)} answers are not as in {KEPT.relative_to(ROOT)}")
        return
    kept = {case: answer for case, answer in kept.items()
            if not any(re.fullmatch(cases, case) for cases, _ in SIMULATED)}
    differ = differences(kept, {case: driver[case] for case in kept if case in driver})
    check(bench.results, "the simulator", differ, len(kept), "as the device's")
    for difference in differ:
        bench.results.note(" | ".join(difference))


def part(bench):
    results, program = bench.results, bench.program("arguments")
    names = bench.chosen("arguments", TENANTS)
    driver = ask([program])
    # What the driver does not answer the same twice says nothing about allot.
    unsure = set() if bench.quick else {d[0] for d in differences(driver, ask([program]))}
    for case in sorted(unsure):
        results.note(f"not the same twice: {case}")
    sure = {case: answer for case, answer in driver.items() if case not in unsure}
    text = "".join(f"{case}: {answer}\n" for case, answer in sorted(sure.items()))
    Path(results.out).with_name("arguments.txt").write_text(text, encoding="utf-8")
    compare_with_kept(bench, driver)
    rows = {}
    for name in names:
        try:
            found = differences_of_tenant(bench, TENANTS[name], sure)
        except Trouble as trouble:
            results.check("arguments", name, False, str(trouble), "runs to its end")
            continue
        found = [d for d in found if d[0] not in unsure]
        limits = [d for d in found if is_limit(name, d)]
        differ = [d for d in found if d not in limits]
        check(results, name, differ, len(sure), "as the driver's",
              f", {len(limits)} on purpose" if limits else "")
        results.figure("arguments", f"{name}, on purpose", limits)
        for difference in differ:
            rows.setdefault(difference, []).append(name)
    results.table("arguments", ["case", "driver's", "allot's", "options"],
                  [[*difference, "+".join(of)] for difference, of in sorted(rows.items())])
