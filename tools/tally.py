#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts of a meson test run, and what failed in it: tally.py testlog.json prints "passed failed
skipped" on a line, then the name of each test that failed, with the end of what it said. tally.py
--skipped testlog.json prints the name of each that was skipped, and why."""
import json
import sys

PASSED = {"OK", "EXPECTEDFAIL"}
SKIPPED = {"SKIP", "IGNORED"}
LAST_LINES = 12


def tally(tests):
    passed = sum(t["result"] in PASSED for t in tests)
    skipped = sum(t["result"] in SKIPPED for t in tests)
    return passed, len(tests) - passed - skipped, skipped


def complaint(test):
    said = (test.get(stream, "").splitlines()[-LAST_LINES:] for stream in ("stdout", "stderr"))
    return [f"{test['name']}: {test['result']}", *(f"    {line}" for last in said for line in last)]


def reason(test):
    """What a test that skipped itself said last."""
    said = (test.get("stdout", "") + test.get("stderr", "")).split("\n")
    return next((line.strip() for line in reversed(said) if line.strip()), "it does not say why")


def main():
    skipped = sys.argv[1] == "--skipped"
    with open(sys.argv[-1], encoding="utf-8") as log:
        tests = [json.loads(line) for line in log]
    if skipped:
        for test in tests:
            if test["result"] in SKIPPED:
                print(f"{test['name']}: {reason(test)}")
        return
    print(*tally(tests))
    for test in tests:
        if test["result"] not in PASSED | SKIPPED:
            print(*complaint(test), sep="\n")


if __name__ == "__main__":
    main()
