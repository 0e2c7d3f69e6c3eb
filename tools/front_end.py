#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Warnings of what is not built: front_end.py BUILD has the compiler of the folder BUILD read each
file that it would compile and has not, without making anything of it. Exits with 1 if a file is
refused."""
import concurrent.futures
import json
import os
import shlex
import subprocess
import sys

OF_THE_OUTPUT = {"-o", "-MF", "-MQ", "-MT"}  # with a word behind them


def reading(words):
    """The command without what it would write; a cache has nothing of what is not written."""
    kept, skips = [], False
    for word in words:
        if not skips and word not in OF_THE_OUTPUT | {"-c", "-MD"} and not word.endswith("ccache"):
            kept.append(word)
        skips = not skips and word in OF_THE_OUTPUT
    return [*kept, "-fsyntax-only"]


def is_read(entry):
    return subprocess.run(reading(shlex.split(entry["command"])), cwd=entry["directory"],
                          stdin=subprocess.DEVNULL, check=False).returncode == 0


def main():
    build = sys.argv[1]
    with open(f"{build}/compile_commands.json", encoding="utf-8") as file:
        entries = [e for e in json.load(file)
                   if e["file"].endswith(".c") and
                   not os.path.exists(os.path.join(e["directory"], e["output"]))]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as readers:
        read = [*readers.map(is_read, entries)]
    print(f"{sum(read)} of {len(read)} files that are not built are read without a warning")
    sys.exit(not all(read))


if __name__ == "__main__":
    main()
