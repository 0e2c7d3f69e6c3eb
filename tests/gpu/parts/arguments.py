# SPDX-License-Identifier: Apache-2.0
"""Each hook with each of its pointers left out (gpu_arguments): under allot every call has the
driver's answer, and writes, takes and gives back what it does without. The driver's answers are
left beside the JSON as arguments.txt; tests/abi/arguments.txt has those of a device."""
from pathlib import Path

from harness import ROOT, Trouble, run

TENANTS = {
    "memory": (),
    "swappable": ("--swappable",),
    "compute": ("--compute", "50"),
    "overcommit": ("--overcommit",),
}
QUOTA, TIMEOUT_S = "4GiB", 150
KEPT = ROOT / "tests/abi/arguments.txt"
NOTHING = "(no answer)"


def read(text):
    return dict(line.split(": ", 1) for line in text.splitlines())


def ask(command):
    """{case: answer}"""
    status, out, err = run(command, TIMEOUT_S)
    if status != 0 or not out:
        last = out.splitlines()[-1:]
        raise Trouble(f"exit {status}, the last answer was {last}: {err[-300:]}")
    return read(out)


def differences(expected, answers):
    """[(case, expected answer, answer)]"""
    return [(case, expected.get(case, NOTHING), answers.get(case, NOTHING))
            for case in sorted({*expected, *answers})
            if expected.get(case) != answers.get(case)]


def check(results, name, differ, n, target):
    results.check("arguments", name, not differ, f"{len(differ)} of {n} differ", target)
    results.figure("arguments", name, differ)


def part(bench):
    results, program = bench.results, bench.program("arguments")
    names = bench.chosen("arguments", TENANTS)
    driver = ask([program])
    # What the driver does not answer the same twice says nothing about allot.
    unsure = set() if bench.quick else {d[0] for d in differences(driver, ask([program]))}
    for case in sorted(unsure):
        results.note(f"not the same twice: {case}")
    sure = {case: answer for case, answer in driver.items() if case not in unsure}
    text = "".join(f"{case}: {answer}\n" for case, answer in sorted(sure.items()))
    Path(results.out).with_name("arguments.txt").write_text(text, encoding="utf-8")
    if KEPT.exists():
        check(results, "the driver", differences(read(KEPT.read_text(encoding="utf-8")), sure),
              len(sure), "as the device's")
    rows = {}
    for name in names:
        command = bench.command(bench.tenant(), QUOTA, [program], TENANTS[name])
        try:
            differ = [d for d in differences(sure, ask(command)) if d[0] not in unsure]
        except Trouble as trouble:
            results.check("arguments", name, False, str(trouble), "runs to its end")
            continue
        check(results, name, differ, len(sure), "as the driver's")
        for difference in differ:
            rows.setdefault(difference, []).append(name)
    results.table("arguments", ["case", "driver's", "allot's", "options"],
                  [[*difference, "+".join(of)] for difference, of in sorted(rows.items())])
