# SPDX-License-Identifier: Apache-2.0
"""Shares of compute units: what two tenants' queues are held to, and what a kernel notices of it."""
import os
import re
from pathlib import Path

from harness import Absent

from tries.machine import SECONDS

SHARES = (25, 40)
OFF = 0.25  # of what a rate may be off: groups come in whole rounds


def start(machine, share, command):
    name = machine.tenant()
    return name, machine.tenant_on_first(name, machine.quota()[0], command, "--compute", share)


def granted(machine):
    """`allot ps`: whole units, none more than the share, of two tenants at once."""
    tenants = [start(machine, str(share), [machine.program("hsa"), "queue"]) for share in SHARES]
    units = []
    try:
        for _, child in tenants:
            child.hear("queue", SECONDS)
        for (name, _), share in zip(tenants, SHARES):
            most = machine.gpu["units"] * share // 100
            has = (machine.ps(name).get("compute") or {}).get("compute_units") or 0
            units.append(has)
            machine.results.check("masks", f"units of a share of {share} %", most * 0.9 <= has <= most,
                                  f"{has} of {machine.gpu['units']}", f"at most {most}")
        for _, child in tenants:
            child.say("end")
            child.end()
    finally:
        for _, child in tenants:
            child.kill()
    return units


def of_trace(machine, units):
    """The emulator writes how many units each queue had as it ended."""
    trace = Path(os.environ["ALLOT_SIM_AMD_TRACE"]).read_text("ascii")
    had = {int(n) for n in re.findall(r" ended: type=2 cus=(\d+) ", trace)}
    machine.results.check("masks", "units that queues had", had == set(units),
                          ", ".join(map(str, sorted(had))), ", ".join(map(str, units)))


def of_kernels(machine):
    """A kernel's rate under a share, to that of a tenant with all units."""
    rates = {}
    for share in (100, *SHARES):
        _, child = start(machine, str(share), [machine.program("hip"), "rate"])
        with child:
            rates[share] = child.hear("rate", SECONDS)["per_s"]
    for share in SHARES:
        part = rates[share] / rates[100]
        machine.results.check("masks", f"rate of a kernel under {share} %",
                              abs(part * 100 / share - 1) <= OFF, f"{100 * part:.1f} %",
                              f"{share} %, within {100 * OFF:.0f} % of it")


def part(machine):
    try:
        units = granted(machine)
    except Absent as absent:
        machine.results.skip("masks", "whole part", str(absent))
        return
    if machine.sim:
        of_trace(machine, units)
    try:
        of_kernels(machine)
    except Absent as absent:
        machine.results.skip("masks", "rate of a kernel", str(absent))
