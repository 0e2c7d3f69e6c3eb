# SPDX-License-Identifier: Apache-2.0
"""What pictures of the documentation are made of. `extra` is attributes, with a space before."""
from xml.sax.saxutils import escape


def text(x, y, words, extra=""):
    return f'<text x="{x:.1f}" y="{y:.1f}"{extra}>{escape(words)}</text>'


def line(x1, y1, x2, y2, color, extra=""):
    return (f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{color}"'
            f'{extra}/>')


def rect(x, y, width, height, color, extra=""):
    return (f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" '
            f'fill="{color}"{extra}/>')


def dot(x, y, color, extra=""):
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="{color}"{extra}/>'


def path(points, color, extra=""):
    """Through all of the (x, y)."""
    joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline fill="none" stroke="{color}"{extra} points="{joined}"/>'


def page(width, height, background, font, shapes, extra=""):
    """The whole file. `font`: its family and its size; `extra` is the background's."""
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'font-family="{font[0]}" font-size="{font[1]}">',
        f'<rect width="100%" height="100%" fill="{background}"{extra}/>', *shapes, "</svg>", ""])
