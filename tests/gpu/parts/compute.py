# SPDX-License-Identifier: Apache-2.0
"""Shares of the device's time: what there is to measure, in which order, and what it takes. The
promises stand beside what measures them, in the other files of this name."""
import subprocess
import time
from collections import namedtuple

from harness import Trouble, have
from parts import compute_processor as processor
from parts import compute_solo as solo
from parts import compute_tenants as tenants
from parts import compute_torch as torch
from parts.compute_load import calibrate

# For all but the two lengths that matter most, in the groups below; by name all caps are measured.
FEW_CAPS = (90, 50, 10)
FULL_MS = (0.1, 1)

# Seconds it takes, and the measurement but for bench and name.
Item = namedtuple("Item", "seconds function args")


def kernel_words(kernel_ms):
    return f"{kernel_ms:g} ms"


def caps_items(bench, few):
    """Of a tenant alone, in the order of worth."""
    order = [("plain", ms) for ms in (1, 0.1, 10, 0.05, 100)]
    order += [(form, ms) for ms in (1, 0.1, 0.05, 10, 100)
              for form in solo.FORMS if form != "plain"]
    for form, ms in order:
        caps = solo.CAPS if not few or form == "plain" or ms in FULL_MS else FEW_CAPS
        if form != "graph50" or ms <= 10:
            yield f"caps {form} {kernel_words(ms)}", Item(
                solo.solo_seconds(bench, form, ms, caps), solo.solo, (form, ms, caps))


def other_items(bench):
    def item(seconds, function, *args):
        return Item(seconds(bench, *args), function, args)

    return {
        "weights 1 ms": item(tenants.weights_seconds, tenants.weights, 1),
        "weights 0.1 ms": item(tenants.weights_seconds, tenants.weights, 0.1),
        "weights four": item(tenants.four_seconds, tenants.four),
        "weights native": item(tenants.native_seconds, tenants.native),
        "idle and back": item(tenants.idle_seconds, tenants.idle),
        "priority beside 1 ms": item(tenants.priority_seconds, tenants.priority, 1000),
        "priority beside 0.2 ms": item(tenants.priority_seconds, tenants.priority, 200),
        "processor": item(processor.seconds, processor.part_of_one),
        **{f"torch {mode}": item(torch.caps_seconds, torch.caps, mode) for mode in torch.MODES},
        **{f"torch 100 % {mode}": item(torch.whole_seconds, torch.whole, mode)
           for mode in torch.WHOLE_MODES},
        **{f"torch two devices {model}": item(torch.ddp_seconds, torch.ddp, model)
           for model in torch.DDP_MODELS},
        "controllers": item(solo.controllers_seconds, solo.controllers),
    }


# What two calls need not have: another machine, and what only compares.
BY_NAME = ("torch two devices", "controllers")  # or what begins so
# Beside other parts.
QUICK = ("caps plain 1 ms", "weights 1 ms", "idle and back", "priority beside 1 ms", "processor")
# For --compute-seconds 10, at which each cap is measured for as long as is promised.
LONG = ("caps plain 1 ms", "caps plain 0.1 ms", "caps plain 10 ms", "caps plain 0.05 ms",
        "caps plain 100 ms", "caps processes4 1 ms", "caps streams4 1 ms", "caps graph50 0.1 ms")


def groups(bench):
    """{group: {item: Item}}. `first` has what is worth most, up to half of all time, `second` the
    rest."""
    named = dict(caps_items(bench, few=False))
    others = other_items(bench)
    few = dict(caps_items(bench, few=True))
    plain = {name: item for name, item in few.items() if "plain" in name}
    rest = {name: item for name, item in others.items() if not name.startswith(BY_NAME)}
    whole = {**plain, **rest, **few}
    half, first, second = sum(item.seconds for item in whole.values()) / 2, {}, {}
    for name, item in whole.items():
        first_now = sum(i.seconds for i in first.values())
        (first if not second and first_now + item.seconds <= half else second)[name] = item
    named.update(others)
    return {"first": first, "second": second, "long": {name: named[name] for name in LONG},
            "quick": {name: named[name] for name in QUICK}, "by name": named}


def total(items):
    return sum(item.seconds for item in items.values())


def plan(bench):
    """What the groups take, in words."""
    found = groups(bench)
    return ", ".join(f"compute:{name} {total(found[name]):.0f} s ({len(found[name])} items)"
                     for name in ("first", "second", "long")) + (
        f", with {bench.compute_seconds:g} s a limit after {solo.settle_s(bench):g} s to settle")


def choose(bench):
    words, found = bench.words.get("compute"), groups(bench)
    if words is None or bench.quick:
        return found["quick"]
    if not words:
        return {**found["first"], **found["second"]}
    picked = {}
    for word in words:
        picked.update(found.get(word, {}))
    bench.words["compute"] = [word for word in words if word not in found]
    if bench.words["compute"]:
        named = found["by name"]
        picked.update({name: named[name] for name in bench.chosen("compute", named)})
    return picked


def lacks(bench, name):
    """Why it cannot be measured here, or None."""
    if name.startswith("torch") and (bench.sim or not have("torch")):
        return "no torch here"
    if name.startswith("torch two devices") and len(bench.figures.devices) < 2:
        return "one device"
    return None


def part(bench):
    chosen = choose(bench)
    bench.results.note(f"{total(chosen):.0f} s; {plan(bench)}")
    calibrate(bench)
    for name, (seconds, function, args) in chosen.items():
        left = bench.until - time.monotonic()
        why = lacks(bench, name) or (
            f"takes {seconds:.0f} s of which {left:.0f} are left" if seconds + 2 > left else None)
        if why:
            bench.results.skip("compute", name, why)
            continue
        try:
            function(bench, name, *args)
        except (Trouble, OSError, subprocess.SubprocessError, ValueError, KeyError,
                ZeroDivisionError) as trouble:
            bench.results.check("compute", name, False, str(trouble)[:400], "runs to its end")
    if any(name.startswith("caps graph50") for name in chosen):
        bench.results.skip("compute", "caps graph50 100 ms",
                           "a launch is 5 s of work: 10 s do not show a share of it")
    solo.mean_error(bench)
