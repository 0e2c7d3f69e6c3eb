# SPDX-License-Identifier: Apache-2.0
"""Copies between each two GPUs in a tenant: what arrives, and how fast."""
from harness import Absent

from tries.machine import hear_all

LEAST = 2  # GB/s; PCIe 3.0 with eight lanes has 7


def part(machine):
    if len(machine.gpus) < 2:
        machine.results.skip("peers", "two GPUs", "there is one")
        return
    quota, _ = machine.quota()
    try:
        with machine.start(machine.tenant(), f"{quota >> 20}MiB", [machine.program("hsa"), "peers"]) as child:
            copies = hear_all(child, "copied")
    except Absent as absent:
        machine.results.skip("peers", "whole part", str(absent))
        return
    machine.results.check("peers", "pairs that copied", len(copies) == len(machine.gpus[:8])
                          * (len(machine.gpus[:8]) - 1), len(copies), "each two, both ways")
    for copy in copies:
        rate = copy["gb_per_s"]
        machine.results.check("peers", f"GPU {copy['from']} to GPU {copy['to']}",
                              not copy["wrong"] and (machine.sim or rate >= LEAST),
                              f"{copy['wrong']} wrong words, {rate} GB/s", "none" if machine.sim else f"none, {LEAST} GB/s")
