# SPDX-License-Identifier: Apache-2.0
"""Memory by every family at once, in threads and processes (tests/storm), against the driver's own
figure: never above the quota while it lasts, as far as samples show, and at the end the ledger says
what the driver says. First each hole that was once found, by itself; then seeds. --only storm:long
has forty more, and takes ten minutes with the others: --only storm:seed --only storm:long."""
import sys
import threading
import time

from harness import HERE, MIB, POOL_GRANULE, SLACK, Trouble, mib

sys.path.insert(0, str(HERE.parent / "storm"))
from storm import UNTOLD, Scenario  # noqa: E402

# An H200's takes 518 MiB, beside others in the same process less.
CONTEXT_MIB = 600
# So long the ledger may differ from a device at rest.
AGREE_S = 5
MOST_MIB, SEEDS, QUICK_SEEDS, LONG_SEEDS = 512, 20, 3, 60
# name: words of the program, quota beyond the contexts in MiB, devices
HOLES = {
    "pools in threads": (["--processes", 1, "--threads", 8, "--family", "async"], 2048, 1),
    "pools destroyed early": (["--processes", 1, "--threads", 4, "--family", "pool"], 2048, 1),
    "graphs on two devices": (["--processes", 1, "--threads", 2, "--devices", 2,
                               "--family", "graph"], 2048, 2),
    "imported handles": (["--processes", 2, "--threads", 2, "--share", "--family", "sent",
                          "--family", "received"], 2048, 1),
    "contexts reset": (["--processes", 2, "--threads", 4, "--resets", "--family", "large"],
                       2048 + 4 * CONTEXT_MIB, 1),
}


class Sampler:
    """The most that a device was seen to have given out since, by the driver's figure for all of
    it; and what its figures for each process came to just then, which are not of one instant and
    count twice what two processes share. Where more than `allowed` was held: for how long at once
    at most, in seconds, and what `allot ps` says of it."""

    def __init__(self, bench, tenant, allowed):
        self.bench, self.over, self.samples, self.most, self.sum = bench, False, 0, {}, {}
        self.tenant, self.allowed, self.since, self.longest, self.said = tenant, allowed, {}, {}, {}
        self.before = bench.figures.look()[1]
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.over:
            processes, used = self.bench.figures.look()
            for uuid, pids in processes.items():
                now = used[uuid] - self.before[uuid]
                if now > self.most.get(uuid, 0):
                    self.most[uuid], self.sum[uuid] = now, sum(pids.values())
                self.above(uuid, now, pids)
            self.samples += 1

    def above(self, uuid, now, pids):
        if now <= self.allowed:
            self.since.pop(uuid, None)
            return
        at = time.monotonic()
        lasts = at - self.since.setdefault(uuid, at)
        self.longest[uuid] = max(self.longest.get(uuid, 0), lasts)
        if uuid not in self.said:
            self.said[uuid] = {"held": now, "figures": dict(pids), "ps": self.bench.ps_tenant(self.tenant)}

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over = True
        self.thread.join()


def figures(bench, tenant, i, before):
    """What the tenant holds of a device by NVML, and what `allot ps` says of it."""
    uuid = bench.figures.devices[i]["uuid"]
    held = sum(bench.figures.all().get(uuid, {}).values()) - before.get(uuid, 0)
    return held, bench.ps(tenant, i) or {}


def one(bench, name, words, quota_mib, devices, beyond):
    tenant, quota = bench.tenant(), quota_mib * MIB
    before = {uuid: sum(pids.values()) for uuid, pids in bench.figures.all().items()}
    sampler = Sampler(bench, tenant, quota + beyond + SLACK)
    command = [bench.build / "tests/storm/storm", *map(str, words)]
    with bench.start(tenant, f"{quota_mib}MiB", command) as child:
        with sampler:
            child.hear("quiet", 300)
        for i in range(devices):
            uuid = bench.figures.devices[i]["uuid"]
            most = sampler.most.get(uuid, 0)
            summed = sampler.sum.get(uuid, 0) - before.get(uuid, 0)
            began = time.monotonic()
            held, first = figures(bench, tenant, i, before)
            said = first
            # The figure may have what was freed for a while; the library looks again, see later.h.
            while (time.monotonic() < began + AGREE_S and
                   abs(held - said.get("used_bytes", 0)) > SLACK):
                time.sleep(0.05)
                held, said = figures(bench, tenant, i, before)
            charged, after = said.get("used_bytes", 0), time.monotonic() - began
            bench.results.figure("storm", f"{name} {i}", {
                "quota": quota, "most": most, "sum": summed, "samples": sampler.samples,
                "above_s": sampler.longest.get(uuid, 0), "above": sampler.said.get(uuid),
                "held": held, "charged": charged, "after_s": after,
                "at_first": first.get("used_by_category"),
                "by_category": said.get("used_by_category"), "words": [*map(str, words)]})
            bench.results.check("storm", f"{name}: device {i}, the most held",
                                most <= quota + beyond + SLACK,
                                f"{mib(most)} in {sampler.samples} samples",
                                f"at most {mib(quota)}",
                                f"{mib(summed)} by its processes' figures" +
                                (f", above for {sampler.longest[uuid] * 1e3:.1f} ms"
                                 if uuid in sampler.longest else ""))
            bench.results.check("storm", f"{name}: device {i}, at the end",
                                abs(held - charged) <= SLACK,
                                f"{mib(held)} held, {mib(charged)} charged, after {after:.1f} s",
                                "the same")
        status = child.end(60)
    bench.results.check("storm", f"{name}: status", status == 0, str(status), "0")


def without_crossed(words):
    """A driver of 580 divides by zero where cuMemFree frees memory of a pool that was destroyed."""
    at = words.index("crossed") if "crossed" in words else None
    return words if at is None else words[:at - 1] + words[at + 1:]


def lazy_code(scenario):
    """Bytes: a library's code comes to each context at its first use there, unasked."""
    contexts = scenario.processes * (1 + scenario.threads)
    return ("library" in scenario.words) * scenario.threads * contexts * UNTOLD["library"]


def items(bench):
    steps = 100 if bench.quick else 400
    for name, (words, beyond, devices) in HOLES.items():
        contexts = words[words.index("--processes") + 1] * CONTEXT_MIB
        yield name, ["--seed", 1, "--steps", steps, "--most", MOST_MIB, *words], \
            contexts + beyond, devices, POOL_GRANULE
    for seed in range(1, 1 + (QUICK_SEEDS if bench.quick else LONG_SEEDS)):
        scenario = Scenario(seed, MOST_MIB, False, CONTEXT_MIB, len(bench.figures.devices))
        scenario.words = without_crossed(scenario.words)
        yield (f"{'seed' if seed <= SEEDS else 'long'} {seed}", scenario.words,
               scenario.quota_mib, scenario.devices, scenario.beyond + lazy_code(scenario))


def part(bench):
    every = {name: rest for name, *rest in items(bench)}
    asked = bench.words.get("storm")
    for name in bench.chosen("storm", [n for n in every if asked or not n.startswith("long")]):
        words, quota_mib, devices, beyond = every[name]
        if devices > len(bench.figures.devices):
            bench.results.skip("storm", name, f"needs {devices} devices")
            continue
        try:
            one(bench, name, words, quota_mib, devices, beyond)
        except Trouble as trouble:
            bench.results.check("storm", name, False, str(trouble)[:400], "runs to its end")
