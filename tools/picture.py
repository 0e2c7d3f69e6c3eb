#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A terminal's screen as a picture: tmux capture-pane -e -p -N | tools/picture.py COLUMNS."""
import re
import sys

import svg

CELL_W, CELL_H, MARGIN = 8.4, 18, 12
FOREGROUND, BACKGROUND = "#d8dee9", "#1d2129"
COLORS = ["#3b4252", "#e0575b", "#7fb069", "#e6b450", "#6d9bd1", "#b48ead", "#79b8c8", "#d8dee9"]


class Pen:
    def __init__(self):
        self.reset()

    def reset(self):
        self.color, self.bold, self.dim, self.reverse = FOREGROUND, False, False, False

    def apply(self, codes):
        for code in codes:
            if code == 0:
                self.reset()
            elif code == 1:
                self.bold = True
            elif code == 2:
                self.dim = True
            elif code == 7:
                self.reverse = True
            elif code == 39:
                self.color = FOREGROUND
            elif 30 <= code <= 37:
                self.color = COLORS[code - 30]


def runs(line, pen):
    """(text, drawn how) of a line; the pen goes on from line to line."""
    for part in re.split(r"(\x1b\[[0-9;]*m)", line):
        if part.startswith("\x1b["):
            pen.apply([int(code or 0) for code in part[2:-1].split(";")])
        elif part:
            yield part, (pen.color, pen.bold, pen.dim, pen.reverse)


def draw(line, row, pen):
    x, y = MARGIN, MARGIN + row * CELL_H
    column = 0
    for text, (color, bold, dim, reverse) in runs(line, pen):
        left, width = x + column * CELL_W, len(text) * CELL_W
        if reverse:
            yield svg.rect(left, y, width, CELL_H, color)
        if text.strip():
            style = (' font-weight="bold"' if bold else "") + (' opacity="0.45"' if dim else "")
            ink = BACKGROUND if reverse else color
            yield svg.text(left, y + 13.5, text, f' textLength="{width:.1f}" fill="{ink}"{style}'
                           ' xml:space="preserve"')
        column += len(text)


def main():
    columns = int(sys.argv[1])
    lines = sys.stdin.read().rstrip("\n").split("\n")
    width, height = columns * CELL_W + 2 * MARGIN, len(lines) * CELL_H + 2 * MARGIN
    pen = Pen()
    shapes = [shape for row, line in enumerate(lines) for shape in draw(line, row, pen)]
    print(svg.page(width, height, BACKGROUND, ("monospace", 14), shapes, ' rx="6"'), end="")


if __name__ == "__main__":
    main()
