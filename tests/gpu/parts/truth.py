# SPDX-License-Identifier: Apache-2.0
"""What is billed against what the device did, as CUPTI says: kernels, copies on the device and
memsets, united, gaps below 0.1 ms closed. Each program runs under a share with nobody else there
("free"), then under caps of device time; the same program without allot, and without CUPTI, says
what its throughput is natively."""
import glob
import json
import sysconfig
from collections import namedtuple
from pathlib import Path

from harness import HERE, Trouble, have, run
from parts.compute_load import calibrate
from parts.loops import Items, Loop, alone, end_all, framework, ms, pattern, percent

CAPS = (50, 25)
BILLED_PERCENT = 3.0
# Of bursts too brief to be measured better, in all that a round has.
BILLED_LEAST_MS = 2.0
POINTS = 2.0
SHARE = ("--policy", "share", "--weight", 1)
SETTLE_S = 1.0
AT_ONCE = 4

Program = namedtuple("Program", "module command")


def programs(bench):
    forms = {"persistent": "persistent", "by turns": "alternate", "tail": "tail",
             "copies": "copies", "two streams": "events", "stream beside": "beside"}
    kinds = {"triton": "triton", "sdpa": "torch", "amp": "torch", "compile": "torch",
             "jax": "jax", "cupy": "cupy"}
    return {**{name: Program(None, pattern(bench, form)) for name, form in forms.items()},
            **{kind: Program(module, framework(kind)) for kind, module in kinds.items()}}


def places():
    """Where CUPTI's headers and its library may be: (header's folder, library), best first."""
    roots = sorted(glob.glob("/usr/local/cuda*"), key=len)
    site = sysconfig.get_paths()["purelib"]
    headers = [f"{root}/{sub}" for root in roots
               for sub in ("extras/CUPTI/include", "include", "targets/x86_64-linux/include")]
    headers += glob.glob(f"{site}/nvidia/*/include")
    # The one that the frameworks load anyway comes first: a process shall have one.
    libraries = [*sorted(glob.glob(f"{site}/nvidia/*/lib/libcupti.so.*")),
                 *(path for root in roots
                   for sub in ("extras/CUPTI/lib64", "lib64", "lib", "targets/x86_64-linux/lib")
                   for path in sorted(glob.glob(f"{root}/{sub}/libcupti.so.*")))]
    headers = [h for h in headers if Path(h, "cupti.h").exists()]
    cuda = [h for h in (*headers, *(f"{root}/include" for root in roots),
                        *glob.glob(f"{site}/nvidia/*/include")) if Path(h, "cuda.h").exists()]
    return headers, cuda, libraries


def collector(bench):
    """The library that CUPTI's records go to, built here."""
    headers, cuda, libraries = places()
    if not headers or not cuda or not libraries:
        raise Trouble(f"no CUPTI: {len(headers)} folders with cupti.h, {len(cuda)} with cuda.h, "
                      f"{len(libraries)} libraries")
    out, errors = bench.tmp / "libcupti_truth.so", ""
    for header in headers:
        for library in libraries:
            status, said, err = run([
                "gcc", "-std=gnu11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-I", header,
                *(word for folder in cuda for word in ("-I", folder)),
                HERE / "programs/cupti_truth.c", "-o", out, library,
                f"-Wl,-rpath,{Path(library).parent}", "-lpthread"], 60)
            if status == 0:
                bench.results.note(f"CUPTI: {header}, {library}")
                return out
            errors = said + err
    raise Trouble(f"the collector does not build: {errors[-400:]}")


class Truth:
    """What CUPTI said of one round."""

    def __init__(self, path):
        self.said = json.loads(Path(path).read_text(encoding="utf-8"))
        if self.said["failed"]:
            raise Trouble(f"CUPTI: {self.said['failed']} of {self.said['what']}")
        if not self.said["kernels"] + self.said["copies"] + self.said["memsets"]:
            raise Trouble("CUPTI saw nothing")

    def ns(self, from_ns, to_ns, which="busy"):
        """Busy between two instants; a bin that is cut counts by its part."""
        found, width, total = self.said[which], self.said["bin_ns"], 0.0
        for i, value in enumerate(found["bins"]):
            if value:
                begin = found["from_ns"] + i * width
                inside = min(begin + width, to_ns) - max(begin, from_ns)
                total += value * max(0, min(width, inside)) / width
        return total

    def share(self, said, which="busy"):
        """Of the time after settling, in percent."""
        from_ns = said["at_ns"] + int(1e9 * said["settle"])
        to_ns = said["at_ns"] + int(1e9 * said["asked_s"])
        return 100 * self.ns(from_ns, to_ns, which) / (to_ns - from_ns)

    def whole_ns(self, said, which="busy"):
        """All of the round, which begins and ends with nothing to do."""
        return self.ns(said["at_ns"] - 10**7, said["at_ns"] + 10**12, which)


def look(bench, loop, name, seconds, settle, library):
    """A round of a tenant, and what CUPTI said of it, or why it said nothing."""
    path = bench.tmp / f"truth-{loop.tenant}.json"
    said = alone(loop, seconds, settle, path if library else None)
    row = {"rate": said["rate"], "n": said["n"], "billed_ms": (said["billed_ns"] or 0) / 1e6,
           "billed": said["billed"], "wall_s": said["wall_s"], "p99_us": said["p99_us"],
           "true": None, "true_ms": None, "strict": None, "ratio": None}
    words = ""
    if library:
        try:
            words = see(row, said, Truth(path))
        except (Trouble, OSError, ValueError) as trouble:
            words = f"; CUPTI: {trouble}"
        path.unlink(missing_ok=True)
    bench.results.note(
        f"{name}: {row['rate']:.1f}/s, device {percent(row['true'])} % (strictly "
        f"{percent(row['strict'])}), billed {percent(row['billed'])} %, billed / true "
        f"{percent(row['ratio'])} %, p99 {ms(row['p99_us'])} ms{words}")
    return row


def see(row, said, saw):
    counts = {key: saw.said[key] for key in ("kernels", "copies", "memsets", "host_copies",
                                             "host_copies_ns", "lost", "unfinished")}
    row.update(true=saw.share(said), true_ms=saw.whole_ns(said) / 1e6,
               strict=saw.share(said, "strict"), strict_ms=saw.whole_ns(said, "strict") / 1e6,
               **counts)
    if not row["true_ms"]:
        raise Trouble("nothing that it saw was in this round")
    row["ratio"] = 100 * row["billed_ms"] / row["true_ms"]
    return "".join(f", {value} {key}" for key, value in counts.items()
                   if value and key != "host_copies_ns")


def billed_well(row):
    off_ms = abs(row["billed_ms"] - row["true_ms"])
    return off_ms <= max(BILLED_PERCENT / 100 * row["true_ms"], BILLED_LEAST_MS)


def measure(bench, name, native, tenant, library, table):
    """Natively, free under a share, and under each cap."""
    rows = {}
    if native:
        native.ready()
        rows["native"] = {"rate": alone(native, 2.5, 0.5)["rate"]}
    tenant.ready()
    rows["free"] = look(bench, tenant, "free", 2.5, 0.5, library)
    for cap in CAPS:
        tenant.set("--policy", "cap", "--compute", cap)
        rows[cap] = look(bench, tenant, f"cap {cap}", SETTLE_S + (3 if bench.quick else 4),
                         SETTLE_S, library)
    tenant.set("--compute", "off")
    bench.results.figure("truth", name, rows)
    judge(bench, name, rows, table)


def judge(bench, name, rows, table):
    free, measured = rows["free"], [rows["free"], *(rows[cap] for cap in CAPS)]
    truth = all(row["ratio"] for row in measured)
    which = "true" if truth else "billed"
    work = {cap: 100 * rows[cap]["rate"] / free["rate"] for cap in CAPS}
    native = rows["native"]["rate"] if "native" in rows else None
    table.append((name, "?" if native is None else f"{native:.1f}", f"{free['rate']:.1f}",
                  percent(free[which]), percent(free["ratio"]),
                  *(text for cap in CAPS for text in (
                      percent(rows[cap][which]), percent(rows[cap]["ratio"]),
                      percent(work[cap])))))
    if not truth:
        bench.results.skip("truth", name, "no word of CUPTI's")
        return
    bench.results.check("truth", f"{name}: billed / true", all(map(billed_well, measured)),
                        " ".join(percent(row["ratio"]) for row in measured) + " %",
                        f"100 ±{BILLED_PERCENT:g} %", "free, "
                        + ", ".join(f"cap {cap}" for cap in CAPS) + "; true "
                        + " ".join(f"{row['true_ms']:.0f}" for row in measured) + " ms")
    # What the program's own host leaves idle nobody can give it.
    wanted = {cap: min(cap, free[which]) for cap in CAPS}
    good = all(-POINTS <= rows[cap][which] - wanted[cap] <= POINTS if free[which] >= cap + POINTS
               else rows[cap][which] <= cap + POINTS for cap in CAPS)
    bench.results.check(
        "truth", f"{name}: device time", good,
        " ".join(percent(rows[cap][which]) for cap in CAPS),
        "/".join(map(str, CAPS)) + f" ±{POINTS:g}",
        f"free it has {percent(free[which])} % of the device; of its throughput "
        + " and ".join(f"{work[cap]:.1f} %" for cap in CAPS)
        + ("" if native is None else f"; free is {100 * free['rate'] / native:.1f} % of native"))


def begin(bench, program, library):
    env = {"CUDA_INJECTION64_PATH": str(library)} if library else {}
    env["TORCHINDUCTOR_COMPILE_THREADS"] = "4"
    native = None if bench.quick else Loop(bench, program.command, None,
                                           {"TORCHINDUCTOR_COMPILE_THREADS": "4"})
    return native, Loop(bench, program.command, SHARE, env)


def part(bench):
    items, table = Items(bench, "truth"), []
    items.run("calibrate", calibrate, bench)
    if not getattr(bench, "loops_per_us", None):
        return
    known = programs(bench)
    names, library = [], None
    for name in bench.chosen("truth", known):
        module = known[name].module
        if module and (bench.sim or not have(module)):
            bench.results.skip("truth", name, f"no {module} here")
        else:
            names.append(name)
    if bench.sim:
        bench.results.skip("truth", "CUPTI", "the simulated driver has none")
    else:
        library = items.run("collector", collector, bench)
    # Those of a batch start together, so that importing and compiling takes the time of one.
    for batch in (names[i:i + AT_ONCE] for i in range(0, len(names), AT_ONCE)):
        loops = {name: begin(bench, known[name], library) for name in batch}
        everyone = [loop for pair in loops.values() for loop in pair if loop]
        try:
            for loop in everyone:
                items.run("start", loop.ready)
            for name in batch:
                native, tenant = loops[name]
                items.run(name, measure, bench, name, native, tenant, library, table)
                end_all([loop for loop in (native, tenant) if loop])
        finally:
            end_all(everyone)
    bench.results.table("truth", (
        "program", "native/s", "free/s", "device %", "billed/true",
        *(text for cap in CAPS for text in (f"{cap}: device %", "billed/true", "work %"))),
        table)
