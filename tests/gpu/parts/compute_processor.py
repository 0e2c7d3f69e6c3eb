# SPDX-License-Identifier: Apache-2.0
"""What a share of compute takes of the processor; what it adds to a launch is in overheads.py."""
from parts.compute_load import START_S, begin, go_and_end, spin

PROCESSOR = 2.0
PROCESSOR_S = 4


def sides():
    return {"native": None, "no limit": (), "25 %": ("--compute", 25), "90 %": ("--compute", 90)}


def seconds(_):
    return len(sides()) * (START_S + PROCESSOR_S)


def part_of_one(bench, name):
    """What a process under a limit takes of a processor, of which a load that watches itself would
    take more than that."""
    found = {}
    for side, options in sides().items():
        command = spin(bench, ("--lean",), 1000, PROCESSOR_S, canary=False)
        (said,) = go_and_end([begin(bench, command, options)], PROCESSOR_S)
        found[side] = 100 * said["cpu_seconds"] / PROCESSOR_S
    bench.results.figure("compute", name, found)
    limited = max(found["25 %"], found["90 %"])
    bench.results.check("compute", name, limited < PROCESSOR, ", ".join(
        f"{side} {value:.2f} %" for side, value in found.items()),
        f"< {PROCESSOR:g} % of a processor under a limit")
