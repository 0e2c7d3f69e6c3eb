#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts of a meson test run, and what failed in it: tally.py testlog.json prints "passed failed
skipped" on a line, and then the name of each test that failed, with the end of what it said."""
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
    said = test.get("stdout", "") + test.get("stderr", "")
    return [f"{test['name']}: {test['result']}",
            *(f"    {line}" for line in said.splitlines()[-LAST_LINES:])]


def main():
    with open(sys.argv[1], encoding="utf-8") as log:
        tests = [json.loads(line) for line in log]
    print(*tally(tests))
    for test in tests:
        if test["result"] not in PASSED | SKIPPED:
            print(*complaint(test), sep="\n")


if __name__ == "__main__":
    main()
