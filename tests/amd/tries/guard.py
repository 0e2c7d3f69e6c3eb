# SPDX-License-Identifier: Apache-2.0
"""`allot run --guard`: the same of a program that no library reaches, by bare system calls."""
from harness import run

from tries import quota as quotas


def part(machine):
    quota, slack = machine.quota()
    if not machine.program("bare").exists():
        machine.results.skip("guard", "whole part", "no static C library here")
        return
    # Without an argument it ends at once: whether this machine can have a guard for it.
    status, _, err = run([machine.allot, "run", "--guard", "--", machine.program("bare")], 30)
    if status != 2:
        machine.results.skip("guard", "whole part", err.strip()[-160:])
        return
    gpu = (machine.gpu["gpu_id"], machine.gpu["minor"], quota // 2, quota)

    def start(tenant, command):
        return machine.tenant_on_first(tenant, quota, command, "--guard")

    families = {"KFD, bare": "kfd", "render node, bare": "gem"}
    if machine.sim:
        del families["render node, bare"]
        machine.results.skip("guard", "render node, bare", "emulated for /dev/kfd alone")
    for name, family in families.items():
        quotas.family(machine, "guard", name, [machine.program("bare"), family, *gpu], quota // 2,
                      slack, start)
