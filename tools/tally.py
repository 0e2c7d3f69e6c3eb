#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts of a meson test run: tally.py testlog.json prints "passed failed skipped"."""
import json
import sys

PASSED = {"OK", "EXPECTEDFAIL"}
SKIPPED = {"SKIP", "IGNORED"}


def tally(lines):
    passed = failed = skipped = 0
    for line in lines:
        result = json.loads(line)["result"]
        if result in PASSED:
            passed += 1
        elif result in SKIPPED:
            skipped += 1
        else:
            failed += 1
    return passed, failed, skipped


def main():
    with open(sys.argv[1], encoding="utf-8") as log:
        print(*tally(log))


if __name__ == "__main__":
    main()
