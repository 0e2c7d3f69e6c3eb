# SPDX-License-Identifier: Apache-2.0
"""`allot suspend` and `allot resume`: what the GPU has meanwhile, and that all is there again."""
from harness import MIB, Absent, mib

from tries.machine import SECONDS

HELD = 16 * MIB  # by the program


def part(machine):
    quota, _ = machine.quota()
    name = machine.tenant()
    try:
        with machine.tenant_on_first(name, quota, [machine.program("hsa"), "hold"],
                                     "--swappable") as child:
            child.hear("ready", SECONDS)
            before = machine.used()
            machine.must("suspend", name)
            away = before - machine.used_when(lambda used: used <= before - HELD)
            machine.results.check("suspend", "memory that left", away >= HELD, mib(away),
                                  f"at least {mib(HELD)}")
            machine.must("resume", name)
            back = machine.used() - before + away
            machine.results.check("suspend", "memory that came back", back >= HELD, mib(back),
                                  f"at least {mib(HELD)}")
            child.say("look")
            wrong = child.hear("looked", SECONDS)["wrong"]
            machine.results.check("suspend", "content", wrong == 0, f"{wrong} wrong words", "none")
    except Absent as absent:
        machine.results.skip("suspend", "whole part", str(absent))
