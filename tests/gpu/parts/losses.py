# SPDX-License-Identifier: Apache-2.0
"""No wrong number: a training beside a serving program, each of its losses against those of the
same training alone, ten runs each way, in new processes each time."""
import math
import shutil
import sys

from harness import HERE, have, run
from parts.loops import Items, Loop, alone, end_all, framework
from parts.serving import SHARE, daemon

PART = "losses"
SECONDS, RUNS, QUICK_RUNS = 6, 10, 2
LOAD = 60  # percent of the answers that the server could give alone
# The sums of a training are not made in the same order each time. Dropout, batches and the first
# weights are the same, so that a step's loss, of 10.9, is the same but for that.
TOLERANCE = 0.05

# way: (options of the serving tenant, of the training; an MPS of our own)
WAYS = {
    "alone": (None, None, False),
    "MPS": (None, None, True),
    "turns": ((*SHARE, "--priority", "high"), SHARE, False),
    "space": (("--mode", "space", "--compute", 60, "--priority", "high"),
              ("--mode", "space", "--compute", 40), False),
}


class Losses:
    def __init__(self, bench):
        self.bench, self.base, self.rows = bench, [], []

    def one(self, way, env):
        """One run: what the training said."""
        serve_options, train_options, _ = WAYS[way]
        train = Loop(self.bench, [sys.executable, HERE / "frameworks/torch_losses.py", SECONDS],
                     train_options, env)
        serve = None if way == "alone" else Loop(self.bench, framework("serve"), serve_options, env)
        try:
            train.ready()
            if serve:
                serve.ready()
                rate = alone(serve, 1.5, 0.5, what="decode")["rate"] * LOAD / 100
                serve.child.say(f"0 {SECONDS} 1 - what=decode rate={rate:.4f} seed=1")
            train.child.say("go")
            said = train.child.hear("losses", 4 * SECONDS + 60)
            if serve:
                serve.child.hear("load", 60)
                serve.end()
            train.end()
            return said
        finally:
            end_all([loop for loop in (train, serve) if loop])

    def judge(self, way, i, said):
        losses = said["losses"]
        bad = [(at, loss) for at, loss in enumerate(losses) if not math.isfinite(loss)]
        off = max((abs(loss - base) for loss, base in zip(losses, self.base)), default=math.inf)
        right = not bad and not said["wrong"] and not said["unfinite"] and off <= TOLERANCE
        self.bench.results.figure(PART, f"{way} {i}", said if not right else
                                  {"steps": len(losses), "last": losses[-1], "off": off})
        self.bench.results.check(
            PART, f"{way} {i}", right,
            f"{len(losses)} losses, the last {losses[-1]:.3f}, off by {off:.4f}"
            + (f"; not finite from step {bad[0][0]} on" if bad else "")
            + (f"; {said['wrong']} rows wrong" if said["wrong"] else "")
            + (f"; {len(said['unfinite'])} parameters not finite" if said["unfinite"] else ""),
            f"as alone, within {TOLERANCE:g}")
        if len(losses) > len(self.base) and right:
            self.base += losses[len(self.base):]
        return right, len(losses)

    def measure(self, way, items, runs):
        right = steps = done = 0
        with daemon(self.bench, WAYS[way][2]) as env:
            for i in range(runs):
                said = items.run(f"{way} {i}", self.one, way, env)
                if said:
                    good, n = self.judge(way, i, said)
                    right, steps, done = right + good, steps + n, done + 1
        self.rows.append((way, done, right, steps))


def part(bench):
    if bench.sim or not have("torch") or not have("transformers"):
        bench.results.skip(PART, "all", "needs a real driver, PyTorch and transformers")
        return
    losses, items = Losses(bench), Items(bench, PART)
    said = items.run("base", losses.one, "alone", {})
    if not said:
        return
    losses.base = said["losses"]
    try:
        for way in bench.chosen(PART, WAYS):
            if WAYS[way][2] and not shutil.which("nvidia-cuda-mps-control"):
                bench.results.skip(PART, way, "no nvidia-cuda-mps-control here")
                continue
            items.run(way, losses.measure, way, items, QUICK_RUNS if bench.quick else RUNS)
    finally:
        run([bench.allot, "doctor", "--sweep"], 60)
        bench.results.table(PART, ("way", "runs", "right", "steps"), losses.rows)
