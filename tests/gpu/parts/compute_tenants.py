# SPDX-License-Identifier: Apache-2.0
"""Tenants that share a device by weight and by priority. What one of them has alone, first thing in
the same run, is what all parts are parts of."""
from parts.compute_load import (ALONE_S, ALONE_SETTLE_S, SHARE, START_S, Bins, begin,
                                go_and_end, settle_s, sleep_until, spin)

POINTS = 2.0
TOGETHER = 98.0
RATIOS = (1, 3, 9)
FOUR = (1, 2, 3, 4)
FREE_MS, BACK_MS = 100, 50
# p99 in ms of a request of 1 ms each 10 ms, and what the neighbour keeps, by its kernels in us.
PRIORITY = {1000: (2.1, 85.0), 200: (1.5, None)}


def waiting(*words):
    """Words for a load that leaves the device to another one first."""
    return ("--idle", f"0:{ALONE_S}", *words)


def phase_s(bench):
    return settle_s(bench) + bench.compute_seconds


def weights_seconds(bench, _):
    return START_S + ALONE_S + phase_s(bench) * len(RATIOS)


def weights(bench, name, kernel_ms):
    """Two tenants that always want the device, 1:1, then 1:3, then 1:9."""
    seconds, tenants = phase_s(bench), [bench.tenant() for _ in range(2)]
    total = ALONE_S + seconds * len(RATIOS)
    children = [bench.start(tenant, "16GiB", spin(bench, words, kernel_ms * 1e3, total), SHARE)
                for tenant, words in zip(tenants, ((), waiting()))]

    def play(start):
        for i, ratio in enumerate(RATIOS[1:], 1):
            sleep_until(start + ALONE_S + i * seconds)
            bench.set(tenants[1], "--weight", ratio)

    bins = [Bins([said]) for said in go_and_end(children, total, play)]
    alone = bins[0].mean(ALONE_SETTLE_S, ALONE_S)
    rows = []
    for i, ratio in enumerate(RATIOS):
        end = ALONE_S + (i + 1) * seconds
        a, b = (100 * side.mean(end - bench.compute_seconds, end) / alone for side in bins)
        rows.append({"weights": f"1:{ratio}", "first": a, "second": b, "together": a + b,
                     "parts": (100 / (1 + ratio), 100 * ratio / (1 + ratio))})
    bench.results.figure("compute", name,
                         {"alone": alone, "rows": rows, "bins": [b.values for b in bins]})
    good = all(abs(r[side] - part) <= POINTS
               for r in rows for side, part in zip(("first", "second"), r["parts"]))
    bench.results.check(
        "compute", name, good,
        "; ".join(f"{r['weights']} {r['first']:.1f}+{r['second']:.1f}" for r in rows),
        f"by weight ±{POINTS:g}", f"percent of what the first had alone: {alone:.1%}")
    bench.results.check("compute", f"{name}, together",
                        all(r["together"] >= TOGETHER for r in rows),
                        " ".join(f"{r['together']:.1f}" for r in rows),
                        f"{TOGETHER:g} % of one alone")


def native_seconds(_):
    return START_S + 3


def native(bench, name):
    """Two that always want the device, without allot: what the driver makes of them."""
    children = [begin(bench, spin(bench, (), 1000, 3), None) for _ in range(2)]
    shares = [100 * said["share"] for said in go_and_end(children, 3)]
    bench.results.figure("compute", name, shares)
    bench.results.note(f"the driver alone: {shares[0]:.1f} + {shares[1]:.1f}")


def four_seconds(bench):
    return START_S + ALONE_S + phase_s(bench)


def four(bench, name):
    """1:2:3:4, after the first had the device alone."""
    total = ALONE_S + phase_s(bench)
    children = [begin(bench, spin(bench, waiting() if i else (), 1000, total),
                      ("--policy", "share", "--weight", weight)) for i, weight in enumerate(FOUR)]
    bins = [Bins([said]) for said in go_and_end(children, total)]
    alone = bins[0].mean(ALONE_SETTLE_S, ALONE_S)
    shares = [100 * b.mean(total - bench.compute_seconds, total) / alone for b in bins]
    wanted = [100 * weight / sum(FOUR) for weight in FOUR]
    bench.results.figure("compute", name, {"alone": alone, "shares": shares})
    bench.results.check("compute", name, all(abs(s - w) <= POINTS for s, w in zip(shares, wanted)),
                        " ".join(f"{s:.1f}" for s in shares) + f" = {sum(shares):.1f}",
                        "/".join(f"{w:g}" for w in wanted) + f" ±{POINTS:g}")


IDLE_S = 6


def idle_seconds(_):
    return START_S + IDLE_S


def idle(bench, name):
    """One of two pauses for two seconds: how soon the other has all of the device, and how soon
    each its half again."""
    children = [begin(bench, spin(bench, (*words, "--bin-ms", 10), 1000, IDLE_S), SHARE)
                for words in (("--idle", "2:4"), ())]
    pausing, other = (Bins([said]) for said in go_and_end(children, IDLE_S))

    def first(side, from_s, enough):
        """When, in ms from then on, a tenth of a second begins in which the share is enough."""
        for i in range(100):
            if side.mean(from_s + i / 100, from_s + i / 100 + 0.1) >= enough:
                return 10 * i
        return None

    took, back = first(other, 2, 0.95), first(pausing, 4, 0.45)
    alone = 100 * other.mean(2.3, 4)
    bench.results.figure("compute", name, {"others_ms": took, "back_ms": back, "alone": alone,
                                           "bins": [pausing.values, other.values]})
    bench.results.check("compute", name, took is not None and back is not None and took <= FREE_MS
                        and back <= BACK_MS and alone >= TOGETHER,
                        f"all of it after {took} ms ({alone:.1f} %), half again after {back} ms",
                        f"{FREE_MS} ms, {TOGETHER:g} %, {BACK_MS} ms")


def request_seconds(bench):
    """Long enough for 400 requests, of which four are beyond the 99th percentile."""
    return max(4.5, phase_s(bench))


def neighbour_alone(bench, us):
    (said,) = go_and_end([begin(bench, spin(bench, (), us, ALONE_S), None)], ALONE_S)
    return said["share"]


def request_beside(bench, us, options, alone):
    """A request of 1 ms each 10 ms, and a neighbour, which has so much alone; `options`: of each in
    a tenant, or None."""
    seconds = request_seconds(bench)
    commands = [spin(bench, ("--form", "request"), 1000, seconds)]
    if us:
        commands.append(spin(bench, (), us, seconds))
    children = [begin(bench, command, options and options[i]) for i, command in enumerate(commands)]
    said = go_and_end(children, seconds)
    return {"p50_ms": said[0]["latency_us"]["p50"] / 1e3,
            "p99_ms": said[0]["latency_us"]["p99"] / 1e3, "requests": said[0]["latency_us"]["n"],
            "neighbour": 100 * said[1]["share"] / alone if us else None}


def priority_sides(us):
    """The driver's own answer beside ours; what else there is to compare with, once."""
    sides = {"driver": (us, None), "high": (us, ((*SHARE, "--priority", "high"), SHARE))}
    return sides if us != 1000 else {"alone": (None, None), **sides, "same": (us, (SHARE, SHARE))}


def priority_seconds(bench, us):
    return START_S + ALONE_S + len(priority_sides(us)) * (START_S + request_seconds(bench))


def priority(bench, name, us):
    alone = neighbour_alone(bench, us)
    sides = {side: request_beside(bench, *how, alone) for side, how in priority_sides(us).items()}
    bench.results.figure("compute", name, sides)
    for side, s in sides.items():
        bench.results.note(f"{side:<7} p50 {s['p50_ms']:.2f}, p99 {s['p99_ms']:.2f} ms" + (
            f", neighbour {s['neighbour']:.1f} %" if s["neighbour"] is not None else ""))
    high, (p99_ms, keeps) = sides["high"], PRIORITY[us]
    bench.results.check("compute", name, high["p99_ms"] <= p99_ms
                        and (keeps is None or high["neighbour"] >= keeps),
                        f"p99 {high['p99_ms']:.2f} ms, neighbour {high['neighbour']:.1f} %",
                        f"p99 {p99_ms:g} ms" + (f", neighbour {keeps:g} %" if keeps else ""))
