# SPDX-License-Identifier: Apache-2.0
"""Quotas by every family of calls: half of the quota is there, by the driver's figure and by
`allot ps`; as much as the quota beside it is refused and takes nothing; what is given back can be had
again, also when the program is killed."""
import signal

from harness import Absent, mib

from tries.machine import SECONDS

TARGET_TAKEN = "what was asked, by both"


def programs(machine, half, quota):
    take = machine.program("take")
    gpu = (machine.gpu["gpu_id"], machine.gpu["minor"])
    return {
        "KFD, ALLOC_MEMORY_OF_GPU": [take, "kfd", *gpu, half, quota],
        "render node, GEM_CREATE": [take, "gem", *gpu, half, quota],
        "dma-buf, two files": [take, "shared", *gpu, half, quota],
        "SVM, fetched": [take, "svm", *gpu, half, quota],
        "ROCm, memory pool": [machine.program("hsa"), "pool", half, quota],
        "HIP, hipMalloc": [machine.program("hip"), "malloc", half, quota],
    }


def step(child, stage):
    child.say("go")
    return child.hear(stage, SECONDS)


def check_taken(machine, part, name, tenant, child, half, slack):
    """Takes half; the figure before, or None if that was refused."""
    before, counted = machine.used(), machine.ps(tenant).get("used_bytes", 0)
    said = step(child, "taken")
    there = machine.used_comes_to(before + half, slack) - before
    charged = machine.ps(tenant).get("used_bytes", 0) - counted
    good = not said["result"] and abs(there - half) <= slack and half <= charged <= half + slack
    machine.results.check(part, f"{name}: half", good,
                          said["error"] or f"driver {mib(there)}, ps {mib(charged)}", TARGET_TAKEN)
    return None if said["result"] else before


def check_process(machine, name, child, half, slack):
    """What the driver says of the process: KFD's figure, and those of its files of render nodes."""
    kfd, files = machine.used_by(child.pid)
    title = f"{name}: the process's figures"
    if kfd is None and files is None:
        machine.results.skip("quota", title, "KFD has none of it, and amdgpu's fdinfo says nothing")
        return
    machine.results.check("quota", title, max(kfd or 0, files or 0) >= half - slack,
                          f"KFD {mib(kfd or 0)}, fdinfo {mib(files or 0)}", f"one at least {mib(half)}")


def check_refused(machine, part, name, tenant, child, slack):
    before, refused = machine.used(), machine.ps(tenant).get("refusals", 0)
    said = step(child, "more")
    grown, times = machine.used() - before, machine.ps(tenant).get("refusals", 0) - refused
    machine.results.check(part, f"{name}: above the quota",
                          said["result"] and grown <= slack and times > 0,
                          f"{said['error'] or 'it was had'}, driver +{mib(grown)}, refused {times} times",
                          "refused, and nothing taken")


def check_back(machine, part, name, child, before, slack):
    """The ledger need not know at once what went by munmap or close: it does when that is needed."""
    step(child, "given")
    left = machine.used_comes_to(before, slack) - before
    again = step(child, "again")
    machine.results.check(part, f"{name}: given back", left <= slack and not again["result"],
                          f"driver +{mib(left)}, again {again['error'] or 'had'}",
                          "nothing left, and to be had again")


def family(machine, part, name, command, half, slack, start):
    """Absent where the machine lacks what it takes."""
    tenant = machine.tenant()
    try:
        with start(tenant, command) as child:
            child.hear("open", SECONDS)
            before = check_taken(machine, part, name, tenant, child, half, slack)
            if before is None:
                return
            if part == "quota":
                check_process(machine, name, child, half, slack)
            check_refused(machine, part, name, tenant, child, slack)
            check_back(machine, part, name, child, before, slack)
            child.say("end")
            child.end()
    except Absent as absent:
        machine.results.skip(part, name, str(absent))


def killed(machine, half, quota, slack):
    tenant = machine.tenant()
    before = machine.used()
    command = programs(machine, half, quota)["KFD, ALLOC_MEMORY_OF_GPU"]
    with machine.tenant_on_first(tenant, quota, command) as child:
        child.hear("open", SECONDS)
        step(child, "taken")
        there = machine.used() - before
        child.kill()
    left = machine.used_comes_to(before, slack) - before
    machine.results.check("quota", "killed with half", there >= half - slack and left <= slack
                          and child.process.returncode == -signal.SIGKILL,
                          f"driver {mib(there)}, then {mib(left)}", "nothing left")


def part(machine):
    quota, slack = machine.quota()
    half = quota // 2

    def start(tenant, command):
        return machine.tenant_on_first(tenant, quota, command)

    for name, command in programs(machine, half, quota).items():
        family(machine, "quota", name, command, half, slack, start)
    killed(machine, half, quota, slack)
