# SPDX-License-Identifier: Apache-2.0
"""What a tenant is shown: its GPUs alone, each as large as its quota, wherever it asks."""
import re
import shutil

from harness import mib, run

ASKED = {"topology": "KFD's topology", "info": "amdgpu's INFO", "available": "KFD's AVAILABLE_MEMORY",
         "sysfs": "sysfs mem_info_vram_total"}


def of_tools(machine, quota):
    """rocminfo says pools in KB."""
    if not shutil.which("rocminfo"):
        machine.results.skip("view", "rocminfo in a tenant", "no rocminfo")
        return
    status, out, err = run(machine.command(machine.tenant(), f"{quota >> 20}MiB", ["rocminfo"],
                                           ("--gpu", machine.gpu["uuid"])), 60)
    gpus = len(re.findall(r"Device Type: +GPU", out))
    pools = {int(kb) << 10 for kb in re.findall(r"Size: +(\d+)\(0x", out)}
    machine.results.check("view", "rocminfo in a tenant", status == 0 and gpus == 1 and quota in pools,
                          f"{gpus} GPU, exit {status}" + (f": {err[-200:]}" if status else ""),
                          f"1 GPU, a pool of {mib(quota)}")


def rocm_smi(machine, slack):
    """The tool's figure of the GPU, outside of tenants, against sysfs."""
    name = "rocm-smi's figure of the GPU in use"
    if not shutil.which("rocm-smi"):
        machine.results.skip("view", name, "no rocm-smi")
        return
    status, out, err = run(["rocm-smi", "--showmeminfo", "vram", "--csv"], 60)
    figures = re.findall(r"(?m)^card\d+,(\d+),(\d+)", out)
    if status or not figures:
        machine.results.skip("view", name, f"rocm-smi ended with {status}: {(err or out)[-120:].strip()}")
        return
    total, used = (machine.figure(machine.gpu, f"mem_info_vram_{word}") for word in ("total", "used"))
    said = [(int(t), int(u)) for t, u in figures]
    machine.results.check("view", name, any(t == total and abs(u - used) <= slack for t, u in said),
                          ", ".join(f"{mib(u)} of {mib(t)}" for t, u in said),
                          f"sysfs's {mib(used)} of {mib(total)}")


def part(machine):
    quota, slack = machine.quota()
    before = [machine.allot, "run", "--name", machine.tenant(), "--gpu", machine.gpu["uuid"],
              "--memory", f"{quota >> 20}MiB", "--"]
    _, seen = machine.seen(before)
    names = [gpu["uuid"] for gpu in seen]
    machine.results.check("view", "GPUs in a tenant", names == [machine.gpu["uuid"]],
                          ", ".join(names), "the one that it has")
    for key, name in ASKED.items():
        outside, inside = machine.gpu[key], seen[0][key]
        if not outside:
            machine.results.skip("view", name, "the driver does not have it")
        else:
            machine.results.check("view", name, inside == quota and outside > quota,
                                  f"{mib(inside)}; outside {mib(outside)}", mib(quota))
    of_tools(machine, quota)
    rocm_smi(machine, slack)
