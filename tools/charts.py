#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pictures of shares: tools/charts.py RESULTS.json... FOLDER writes over-time.svg, a load through
several caps for each kernel length, and off.svg, by how many points each measurement missed.
RESULTS is what tests/gpu/run leaves, or `allot bench --json`."""
import json
import sys
from pathlib import Path

import svg

WIDTH, LEFT, RIGHT, TOP = 860, 60, 24, 46
COLORS = ("#2f6fb0", "#d9822b", "#3d9a6a", "#a05195", "#b5473c", "#5c626b", "#c2a83e")
INK, FAINT, MUTED = "#22262c", "#e3e6ea", "#5c626b"


def text(x, y, words, anchor="start", color=INK, extra=""):
    return svg.text(x, y, words, f' text-anchor="{anchor}" fill="{color}"{extra}')


def page(height, title, shapes):
    head = text(LEFT, 28, title, extra=' font-size="16" font-weight="bold"')
    return svg.page(WIDTH, height, "#ffffff", ("sans-serif", 13), [head, *shapes])


def over_time(name, figure, top, height):
    """A panel: the load's share in each tenth of a second, faint, and in each second; the caps."""
    bins, width = figure["bins"], figure["bin_s"]
    seconds, plot = len(bins) * width, WIDTH - LEFT - RIGHT

    def at(second, share):
        return LEFT + plot * second / seconds, top + height * (1 - min(share, 1.04))

    yield text(LEFT, top - 10, name, extra=' font-weight="bold"')
    for percent in (0, 25, 50, 75, 100):
        y = top + height * (1 - percent / 100)
        yield svg.line(LEFT, y, WIDTH - RIGHT, y, FAINT)
        yield text(LEFT - 8, y + 4.5, f"{percent} %", "end", MUTED)
    for second in range(0, int(seconds) + 1, max(1, int(seconds / 10))):
        yield text(LEFT + plot * second / seconds, top + height + 18, f"{second} s", "middle",
                   MUTED)
    yield svg.path([at((i + 0.5) * width, share) for i, share in enumerate(bins)], COLORS[0],
                   ' stroke-opacity="0.35" stroke-width="1"')
    span = round(1 / width)
    yield svg.path([at((i + span / 2) * width, sum(bins[i:i + span]) / span)
                    for i in range(len(bins) - span + 1)], COLORS[0], ' stroke-width="1.8"')
    for row in figure["rows"]:
        (x1, y), (x2, _) = (at(row[key], row["cap"] / 100) for key in ("from_s", "to_s"))
        yield svg.line(x1, y, x2, y, COLORS[1], ' stroke-width="2" stroke-dasharray="6 4"')
        yield text(x2, y - 7, f"{row['got']:.1f} %", "end", COLORS[1])


def off(figures):
    """A row for each load, a dot for each cap: how many points off."""
    row_height, reach = 24, 4.0
    left, plot = 230, WIDTH - 230 - RIGHT
    bottom = TOP + 34 + row_height * len(figures)

    def x_of(points):
        return left + plot * (max(-reach, min(reach, points)) + reach) / (2 * reach)

    yield svg.rect(x_of(-1.5), TOP + 20, x_of(1.5) - x_of(-1.5), bottom - TOP - 24, "#eef5ee")
    for points in range(-int(reach), int(reach) + 1):
        yield svg.line(x_of(points), TOP + 20, x_of(points), bottom - 4, FAINT)
        yield text(x_of(points), bottom + 14, f"{points:+d}" if points else "0", "middle", MUTED)
    caps = sorted({row["cap"] for figure in figures.values() for row in figure["rows"]})
    for i, cap in enumerate(caps):
        x = left + 62 * i
        yield svg.dot(x, TOP + 4, COLORS[i % len(COLORS)])
        yield text(x + 9, TOP + 8.5, f"{cap:g} %")
    for i, (name, figure) in enumerate(figures.items()):
        y = TOP + 34 + row_height * i + 4
        yield text(left - 14, y + 4.5, name, "end")
        for row in figure["rows"]:
            color = COLORS[caps.index(row["cap"]) % len(COLORS)]
            yield svg.dot(x_of(row["got"] - row["cap"]), y, color, ' fill-opacity="0.8"')


def by_form_and_length(name):
    """Of "caps plain 0.1 ms"; others as they are called."""
    words = name.split()
    return words[0], words[1:-2], float(words[-2]) if words[-1] == "ms" else 0


def device_of(results):
    return results["device"] if "solo" in results else results["facts"]["devices"][0]["name"]


def figures_of(results):
    """(name, figure) of each load that went through caps."""
    for found in results.get("solo", ()):  # of allot bench
        seconds = found["seconds_each"]
        yield f"{found['controller']} plain {found['kernel_us'] / 1000:g} ms", {
            "bins": found["bins"], "bin_s": found["bin_seconds"],
            "rows": [{"cap": cap["target"] * 100, "got": cap["share"] * 100,
                      "from_s": i * seconds, "to_s": (i + 1) * seconds}
                     for i, cap in enumerate(found["caps"])]}
    for name, figure in results.get("figures", {}).get("compute", {}).items():
        if isinstance(figure, dict) and "rows" in figure and "bin_s" in figure:
            yield name, figure


def main():
    runs = [json.loads(Path(name).read_text(encoding="utf-8")) for name in sys.argv[1:-1]]
    device, folder = device_of(runs[0]), Path(sys.argv[-1])
    figures = {name: figure for results in runs for name, figure in figures_of(results)}
    figures = {name: figures[name] for name in sorted(figures, key=by_form_and_length)}
    folder.mkdir(parents=True, exist_ok=True)
    plain = {name: f for name, f in figures.items() if "plain" in name}
    panel, shapes = 230, []
    for i, (name, figure) in enumerate(plain.items()):
        shapes += over_time(name, figure, TOP + 34 + panel * i, panel - 74)
    (folder / "over-time.svg").write_text(
        page(TOP + panel * len(plain) + 10, f"One tenant through several caps: {device}", shapes),
        encoding="utf-8")
    (folder / "off.svg").write_text(
        page(TOP + 80 + 24 * len(figures), f"Points off the cap that was asked for: {device}",
             off(figures)), encoding="utf-8")


if __name__ == "__main__":
    main()
