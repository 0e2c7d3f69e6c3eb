# SPDX-License-Identifier: Apache-2.0
"""Unmodified frameworks under a quota: what they see, how much of it they get by the driver's own
figure, and that they end with their own out-of-memory error. Several run at the same time, each a
tenant of its own: none of it is timed."""
import sys
import threading
import time

from harness import HERE, SLACK, Trouble, have, mib, size

QUOTA = "8GiB"
LEAST = 0.95
AT_ONCE = 5
TORCH_OOM = ("torch.OutOfMemoryError", "torch.cuda.OutOfMemoryError")
CUPY_OOM = ("cupy.cuda.memory.OutOfMemoryError", "cudaErrorMemoryAllocation")
JAX_OOM = ("RESOURCE_EXHAUSTED",)  # the text, whatever the class is called this year

# name: (module, program, environment, its own errors)
FRAMEWORKS = {
    "PyTorch": ("torch", ["torch_eager.py"], {}, TORCH_OOM),
    "PyTorch, expandable segments": (
        "torch", ["torch_eager.py"],
        {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}, TORCH_OOM),
    "PyTorch, CUDA graph": ("torch", ["torch_graph.py"], {}, TORCH_OOM),
    "PyTorch, cudaMallocAsync": (
        "torch", ["torch_eager.py"],
        {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}, TORCH_OOM),
    "Triton": ("triton", ["triton_add.py"], {}, TORCH_OOM),
    "CuPy": ("cupy", ["cupy_fill.py"], {}, CUPY_OOM),
    "CuPy, async pool": ("cupy", ["cupy_fill.py", "async"], {}, CUPY_OOM),
    "JAX, growing": ("jax", ["jax_fill.py"], {"XLA_PYTHON_CLIENT_PREALLOCATE": "false",
                                             "XLA_PYTHON_CLIENT_MEM_FRACTION": "1.0"}, JAX_OOM),
    "JAX, preallocating": ("jax", ["jax_fill.py"],
                           {"XLA_PYTHON_CLIENT_MEM_FRACTION": ".95"}, JAX_OOM),
    "numba": ("numba", ["numba_fill.py"], {}, ("CUDA_ERROR_OUT_OF_MEMORY",)),
}
QUICK = ("PyTorch", "CuPy")


class Watch:
    """The greatest figure of a process while it fills."""

    def __init__(self, bench, lock, pid):
        self.bench, self.lock, self.pid, self.most, self.on = bench, lock, pid, 0, True
        self.thread = threading.Thread(target=self.loop, daemon=True)
        self.thread.start()

    def look(self):
        with self.lock:
            figure = self.bench.figures.of(self.pid)
        self.most = max(self.most, figure)
        return figure

    def loop(self):
        while self.on:
            try:
                self.look()
            except Trouble:
                return
            time.sleep(0.05)

    def stop(self):
        self.on = False
        self.thread.join(10)


def one(bench, lock, name):
    _, program, env, errors = FRAMEWORKS[name]
    tenant, limit, began = bench.tenant(), size(QUOTA), time.monotonic()
    command = [sys.executable, HERE / "frameworks" / program[0], *program[1:]]
    with bench.start(tenant, QUOTA, command, env=env) as child:
        ready = child.hear("ready", 180)
        with lock:
            loaded = bench.figures.of(child.pid)
        watch = Watch(bench, lock, child.pid)
        child.say("fill")
        full = child.hear("full", 120)
        watch.stop()
        with lock:
            figure = bench.figures.of(child.pid)
            ledger = bench.ps(tenant)
        child.say("go on")
        after = child.hear("after", 60)
        with lock:
            end = bench.figures.of(child.pid)
        child.say("end")
        status = child.end(60)
    most = max(watch.most, figure, end)
    return {"name": name, "quota": limit, "ready": ready, "full": full, "loaded_figure": loaded,
            "figure": figure, "greatest_figure": most, "figure_after": end,
            "ledger": ledger["used_bytes"], "by_category": ledger["used_by_category"],
            "refusals": ledger["refusals"], "computes_after": after["computes"],
            "exit": status, "errors": errors, "seconds": round(time.monotonic() - began, 1)}


def own_error(said, errors):
    return any(e == said["error"] or e in said["error"] or e in said["text"] for e in errors)


def report(bench, r):
    name, results, limit = r["name"], bench.results, r["quota"]
    results.figure("frameworks", name, r)
    results.check("frameworks", f"{name}: figure",
                  LEAST * limit <= r["figure"] and r["greatest_figure"] <= limit + SLACK,
                  f"{mib(r['figure'])} ({r['figure'] / limit:.1%}), most "
                  f"{mib(r['greatest_figure'])}", f"95 % of {mib(limit)} to +{mib(SLACK)}")
    seen = (r["ready"]["total"] == limit and 0 <= r["full"]["free"] <= r["ready"]["free"] <= limit
            and limit - r["ready"]["free"] >= r["loaded_figure"] - SLACK)
    results.check("frameworks", f"{name}: view and end",
                  seen and own_error(r["full"], r["errors"]) and r["ready"]["computes"]
                  and r["computes_after"] and r["exit"] == 0,
                  f"total {mib(r['ready']['total'])}, free {mib(r['ready']['free'])} then "
                  f"{mib(r['full']['free'])}, {r['full']['error'].rsplit('.', 1)[-1]}",
                  f"total {mib(limit)}, own error, computes after")


def part(bench):
    names, lock = [], threading.Lock()
    for name in bench.chosen("frameworks", FRAMEWORKS):
        module = FRAMEWORKS[name][0]
        if bench.quick and name not in QUICK:
            continue
        if bench.sim or not have(module):
            bench.results.skip("frameworks", name,
                               "needs a real driver" if bench.sim else f"no {module} here")
        else:
            names.append(name)
    done, slots = {}, threading.Semaphore(AT_ONCE)

    def work(name):
        with slots:
            try:
                done[name] = one(bench, lock, name)
            except (Trouble, KeyError, TypeError) as trouble:
                done[name] = str(trouble)

    threads = [threading.Thread(target=work, args=(name,), daemon=True) for name in names]
    for thread in threads:
        thread.start()
    for name, thread in zip(names, threads):
        thread.join(400)
        answer = done.get(name, "did not end")
        if isinstance(answer, str):
            bench.results.check("frameworks", name, False, answer[-600:], "runs to its end")
        else:
            report(bench, answer)


