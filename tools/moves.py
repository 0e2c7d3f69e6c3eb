#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A picture of how long memory takes to leave a device and to come back: tools/moves.py RESULTS.txt
PICTURE.svg. RESULTS is a table of tests/gpu/run's part swap, as bench/results keeps them."""
import re
import statistics
import sys
from pathlib import Path

import svg

WIDTH, LEFT, RIGHT, TOP, ROW = 860, 250, 90, 56, 54
OUT, BACK = "#2f6fb0", "#d9822b"
INK, MUTED = "#22262c", "#5c626b"
SECONDS = re.compile(r"^(?P<name>cycle \d+|PCIe alone|driver's checkpoint)\s+(?P<figures>[\d. ]+)$",
                     re.M)


def times(text):
    """[(what, seconds out, seconds back)] of a table: the first cycle, the others' median, and what
    it is held against."""
    found = {}
    for row in SECONDS.finditer(text):
        figures = [float(word) for word in row["figures"].split()]
        # Cycles have the command's own time beside each.
        found[row["name"]] = figures[::2] if len(figures) == 4 else figures
    cycles = [found[name] for name in found if name.startswith("cycle")]
    if len(cycles) < 2 or any(len(figures) != 2 for figures in found.values()):
        raise ValueError("no table of cycles out and back")
    again = [statistics.median(side) for side in zip(*cycles[1:])]
    return [("PCIe alone", *found["PCIe alone"]),
            ("allot, host memory at hand", *again),
            ("allot, the first time", *cycles[0]),
            ("the driver's own checkpoint", *found["driver's checkpoint"])]


def bars(rows):
    plot = WIDTH - LEFT - RIGHT
    longest = max(max(out, back) for _, out, back in rows)
    for i, (name, *both) in enumerate(rows):
        y = TOP + ROW * i
        yield svg.text(LEFT - 14, y + 21, name, f' text-anchor="end" fill="{INK}"')
        for k, (seconds, color) in enumerate(zip(both, (OUT, BACK))):
            width = max(2, plot * seconds / longest)
            yield svg.rect(LEFT, y + 18 * k, width, 15, color)
            yield svg.text(LEFT + width + 8, y + 18 * k + 12, f"{seconds:.2f} s",
                           f' fill="{MUTED}"')


def legend():
    for k, (words, color) in enumerate((("out", OUT), ("back", BACK))):
        yield svg.rect(LEFT + 80 * k, 22, 12, 12, color)
        yield svg.text(LEFT + 80 * k + 18, 33, words, f' fill="{INK}"')


def main():
    rows = times(Path(sys.argv[1]).read_text(encoding="utf-8"))
    Path(sys.argv[2]).write_text(
        svg.page(WIDTH, TOP + ROW * len(rows), "#ffffff", ("sans-serif", 13),
                 [*legend(), *bars(rows)]), encoding="utf-8")


if __name__ == "__main__":
    main()
