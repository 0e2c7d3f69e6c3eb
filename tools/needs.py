#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What tests need built: needs.py BUILD NAME... prints the files, from the folder BUILD, that the
tests or suites of these names say they depend on."""
import json
import os
import sys


def needs(tests, targets, names, build):
    files = {target["id"]: target["filename"] for target in targets}
    wanted = {needed for test in tests
              if names & {test["name"], *(suite.rpartition(":")[2] for suite in test["suite"])}
              for needed in test["depends"]}
    return sorted(os.path.relpath(file, build) for needed in wanted for file in files[needed])


def main():
    build = os.path.abspath(sys.argv[1])
    told = []
    for name in "tests", "targets":
        with open(f"{build}/meson-info/intro-{name}.json", encoding="utf-8") as file:
            told.append(json.load(file))
    print(*needs(*told, set(sys.argv[2:]), build), sep="\n")


if __name__ == "__main__":
    main()
