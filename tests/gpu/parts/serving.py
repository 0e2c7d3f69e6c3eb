# SPDX-License-Identifier: Apache-2.0
"""What people share a GPU for: requests to a transformer beside training that takes what is left.
Requests come by chance at a part of what the program could answer alone, the same instants in every
mode. How long they take against alone, and what the training keeps of its own speed: without allot,
under MPS, under MPS with its client priority, and in allot's two modes with priority."""
import contextlib
import os
import shutil

from harness import Trouble, have, run
from parts.loops import Items, Loop, alone, end_all, framework, ms, together

KINDS = ("encoder", "decode")
LOADS = (10, 30, 60)
MIDDLE = 30
SETTLE_S = 1.0
P99, TRAINING = 1.25, 60.0
SEED = 11

# Of MPS's client priorities 0 is the higher one.
LOW = {"CUDA_MPS_CLIENT_PRIORITY": "1"}
SHARE = ("--policy", "share", "--weight", 1)
# mode: (options of the serving tenant and its environment, the same of the training). Parts of
# space may overlap: the sum is more than the device.
MODES = {
    "without allot": ((None, {}), (None, {})),
    "turns": (((*SHARE, "--priority", "high"), {}), (SHARE, {})),
    "MPS": ((None, {}), (None, {})),
    "MPS, priority": ((None, {}), (None, LOW)),
    "space": ((("--mode", "space", "--compute", 90, "--priority", "high"), {}),
              (("--mode", "space", "--compute", 65, "--priority", "low"), {})),
}
# Those that are there at the same time; a server of MPS wants its clients to itself.
BATCHES = (("without allot", "turns"), ("MPS", "MPS, priority"), ("space",))


@contextlib.contextmanager
def daemon(bench, wanted):
    """An MPS daemon of its own, and the environment of its clients."""
    if not wanted:
        yield {}
        return
    folder = bench.tmp / "mps-bare"
    env = {"CUDA_MPS_PIPE_DIRECTORY": str(folder / "pipe"),
           "CUDA_MPS_LOG_DIRECTORY": str(folder / "log")}
    for name in ("pipe", "log"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    status, out, err = run(["sh", "-c", "nvidia-cuda-mps-control -d >/dev/null 2>&1 </dev/null"],
                           20, {**os.environ, **env})
    if status:
        raise Trouble(f"no MPS daemon: {status} {(out + err)[-300:]}")
    try:
        yield env
    finally:
        run(["sh", "-c", "echo quit | nvidia-cuda-mps-control"], 30, {**os.environ, **env})


class Pair:
    """Serving and training in one mode, both there from the start."""

    def __init__(self, bench, mode, env):
        (serve, serve_env), (train, train_env) = MODES[mode]
        self.serve = Loop(bench, framework("serve"), serve, {**env, **serve_env})
        self.train = Loop(bench, framework("train"), train, {**env, **train_env})

    def ready(self):
        self.serve.ready()
        self.train.ready()
        return self

    def end(self):
        """As clients of MPS must: first told, then gone."""
        for loop in (self.serve, self.train):
            with contextlib.suppress(Trouble, OSError):
                loop.end()


class Serving:
    """What each has alone, and the figures of all modes."""

    def __init__(self, bench):
        self.bench, self.table, self.found = bench, [], {}
        self.seconds = 6.0 if bench.quick else 8.0
        self.loads = (MIDDLE,) if bench.quick else LOADS
        self.capacity, self.alone, self.training = {}, {}, None

    def requests(self, kind, load):
        return {"what": kind, "rate": f"{self.capacity[kind] * load / 100:.4f}", "seed": SEED}

    def measure_alone(self, pair):
        """Without allot: how many it could answer, how long each load takes, the training."""
        pair.ready()
        for kind in KINDS:
            self.capacity[kind] = alone(pair.serve, 2.5, 0.5, what=kind)["rate"]
        self.training = alone(pair.train, 3.0, 1.0)["rate"]
        self.bench.results.note(
            ", ".join(f"{kind} {rate:.1f}/s" for kind, rate in self.capacity.items())
            + f", training {self.training:.1f}/s")
        for kind in KINDS:
            for load in self.loads:
                said = alone(pair.serve, self.seconds, SETTLE_S, **self.requests(kind, load))
                self.alone[kind, load] = said
                self.add("alone", kind, load, said, None, None)

    def add(self, mode, kind, load, said, idle, train):
        """A row; how it compares. `idle`: the same requests while the training does nothing, since
        one process is slower than the next, whatever is beside it."""
        base = self.alone[kind, load]
        row = {"n": said["n"], "p50_us": said["p50_us"], "p99_us": said["p99_us"],
               "idle_p99_us": idle and idle["p99_us"],
               "max_us": said["max_us"], "times": said["p99_us"] / base["p99_us"],
               "training": None if train is None else 100 * train["rate"] / self.training}
        self.found.setdefault(mode, {})[f"{kind} {load}"] = row
        self.table.append((mode, kind, f"{load} %", row["n"], ms(row["p50_us"]), ms(row["p99_us"]),
                           "" if idle is None else ms(idle["p99_us"]),
                           f"{row['times']:.2f}",
                           "" if train is None else f"{row['training']:.1f}"))
        self.bench.results.figure("serving", mode, self.found[mode])

    def measure(self, mode, pair):
        pair.ready()
        for kind in KINDS:
            for load in self.loads:
                idle = alone(pair.serve, self.seconds, SETTLE_S, **self.requests(kind, load))
                said, train = together([(pair.serve, None, self.requests(kind, load)),
                                        (pair.train, None, {})], self.seconds, SETTLE_S)
                self.add(mode, kind, load, said, idle, train)

    def judge(self):
        """At the middle load, in the better of our two modes."""
        ours = [mode for mode in ("turns", "space") if mode in self.found]
        if not ours:
            return
        for kind in KINDS:
            rows = {mode: self.found[mode].get(f"{kind} {MIDDLE}") for mode in ours}
            rows = {mode: row for mode, row in rows.items() if row}
            if not rows:
                continue
            good = [mode for mode, row in rows.items()
                    if row["times"] <= P99 and row["training"] >= TRAINING]
            self.bench.results.check(
                "serving", f"{kind} at {MIDDLE} %", bool(good),
                "; ".join(f"{mode} x{row['times']:.2f}, training {row['training']:.1f} %"
                          for mode, row in rows.items()),
                f"x{P99:g} and {TRAINING:g} % in one of them")


def wants_mps(batch):
    return batch[0] != "without allot"


def run_batch(bench, items, serving, batch, chosen):
    """Programs of several modes that are there at once, measured one mode after the other."""
    with daemon(bench, batch[0].startswith("MPS")) as env:
        pairs = {mode: Pair(bench, mode, env) for mode in batch
                 if mode in chosen or mode == "without allot"}
        try:
            if "without allot" in pairs:
                items.run("alone", serving.measure_alone, pairs["without allot"])
            for mode in batch:
                if mode in chosen and serving.training:
                    items.run(mode, serving.measure, mode, pairs[mode])
        finally:
            for pair in pairs.values():
                pair.end()
            end_all([loop for pair in pairs.values() for loop in (pair.serve, pair.train)])


def part(bench):
    results = bench.results
    if bench.sim or not have("torch"):
        results.skip("serving", "all", "needs a real driver and PyTorch")
        return
    chosen, items, serving = bench.chosen("serving", MODES), Items(bench, "serving"), Serving(bench)
    try:
        for batch in BATCHES:
            if not wants_mps(batch):
                items.run("first", run_batch, bench, items, serving, batch, chosen)
            elif not serving.training or not any(mode in chosen for mode in batch):
                continue
            elif not shutil.which("nvidia-cuda-mps-control"):
                results.skip("serving", ", ".join(batch), "no nvidia-cuda-mps-control here")
            else:
                items.run(" and ".join(batch), run_batch, bench, items, serving, batch, chosen)
    finally:
        run([bench.allot, "doctor", "--sweep"], 60)
        serving.judge()
        results.table("serving", ("mode", "requests", "load", "n", "p50 ms", "p99 ms", "idle p99",
                                  "of alone", "training %"), serving.table)
