# SPDX-License-Identifier: Apache-2.0
"""The machine's GPUs, what the driver itself says of them, and programs that use them."""
import os
import re
import time
from pathlib import Path

from harness import MIB, Absent, Child, Tenants, Trouble, run

SECONDS = 60  # for a step of a program
PATIENCE = 10  # s until what was freed is free: the driver frees some of it later


class Machine(Tenants):
    def __init__(self, build, results, sim):
        super().__init__(build, results)
        self.sim = sim
        self.kfd, self.gpus = self.seen([])
        self.gpu = self.gpus[0]

    def program(self, name):
        return self.build / "tests/amd" / f"amd_{name}"

    def seen(self, before):
        """KFD's version, and each GPU as a program is told of it that is started by `before`."""
        with Child([*before, self.program("devices")]) as child:
            driver = child.hear("driver", SECONDS)
            gpus = [child.hear("gpu", SECONDS) for _ in range(driver["gpus"])]
        if not gpus:
            raise Trouble("KFD lists no GPU")
        return driver["kfd"], gpus

    # --- The driver's own figures, from outside of any tenant

    @staticmethod
    def text(gpu, name):
        try:
            path = Path(f"/sys/class/drm/renderD{gpu['minor']}/device/{name}")
            return path.read_text("ascii").strip()
        except OSError:
            return None

    def figure(self, gpu, name):
        """None where the driver has no such file, as for partitions of a board but the first."""
        text = self.text(gpu, name)
        return int(text) if text else None

    def used(self):
        """Bytes of the first GPU that the driver has given out, to all processes."""
        used = self.figure(self.gpu, "mem_info_vram_used")
        if used is None:
            raise Absent("the driver has no mem_info_vram_used for this GPU")
        return used

    def used_when(self, right):
        """The figure, when it is right or time is up."""
        end = time.monotonic() + PATIENCE
        while not right(self.used()) and time.monotonic() < end:
            time.sleep(0.05)
        return self.used()

    def used_comes_to(self, bytes_, slack):
        return self.used_when(lambda used: abs(used - bytes_) <= slack)

    def used_by(self, pid):
        """Of the first GPU by a process: what KFD says, and what fdinfo says of its files; None
        where it says nothing."""
        try:
            path = f"/sys/class/kfd/kfd/proc/{pid}/vram_{self.gpu['gpu_id']}"
            kfd = int(Path(path).read_text("ascii")) or None
        except OSError:
            kfd = None
        files = [used for node, used in files_of(pid).values()
                 if node.endswith(f"/renderD{self.gpu['minor']}")]
        return kfd, sum(files) if files else None

    def quota(self):
        """A quota, and how far a figure may be off: the driver has page tables and the like."""
        quota = min(self.gpu["topology"] // 8, 1 << 30) & ~(2 * MIB - 1)
        return quota, quota // 16

    # --- Tenants

    def tenant_on_first(self, name, quota, command, *options, env=None):
        return self.start(name, f"{quota >> 20}MiB", command, ("--gpu", self.gpu["uuid"], *options), env=env)

    def ps(self, name, gpu=None):
        """What `allot ps` says of a tenant's GPU, {} if nothing."""
        tenant, uuid = self.ps_tenant(name) or {}, (gpu or self.gpu)["uuid"]
        return next((d for d in tenant.get("devices", []) if d["uuid"] == uuid), {})

    def must(self, *words, timeout=120):
        status, out, err = run([self.allot, *words], timeout, env=dict(os.environ))
        if status:
            raise Trouble(f"allot {' '.join(map(str, words))}: {(err or out)[-600:].strip()}")
        return out


def files_of(pid):
    """Render nodes that a process has open, by the driver's number for the file, with bytes in VRAM."""
    found = {}
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        try:
            node, info = str(fd.readlink()), Path(f"/proc/{pid}/fdinfo/{fd.name}").read_text("ascii")
        except OSError:
            continue
        client = re.search(r"(?m)^drm-client-id:\s*(\d+)", info)
        vram = re.search(r"(?m)^drm-memory-vram:\s*(\d+) KiB", info)
        if client and vram:
            found[client[1]] = (node, int(vram[1]) << 10)
    return found


def hear_all(child, stage):
    """All of the program's lines of that stage, until it ends."""
    said = []
    while True:
        try:
            said.append(child.hear(stage, SECONDS))
        except Absent:
            raise
        except Trouble as trouble:
            if "\"stage\": \"end\"" in str(trouble):
                return said
            raise
