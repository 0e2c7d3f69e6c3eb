#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/includes.py [ROOT]: what includes what under src/guest. A module is a .c and a .h of one
name, and a _priv.h is its module's. Exits 1 where modules include each other in a circle, or where
one room includes another that stands above it."""
import re
import sys
from pathlib import Path

# Each room may include those before it.
ROOMS = ("guest/meter", "guest/launch")
INCLUDE = re.compile(r'^#include "(.+)\.h"$', re.M)


def module(path):
    return re.sub(r"(_priv)?(\.[ch])?$", "", path)


def arrows(source):
    """{module: modules that it includes}, of the rooms."""
    found = {}
    for room in ROOMS:
        for path in sorted((source / room).glob("*.[ch]")):
            name = module(str(path.relative_to(source)))
            to = {module(other) for other in INCLUDE.findall(path.read_text())} - {name}
            found.setdefault(name, set()).update(other for other in to if room_of(other))
    return found


def room_of(name):
    room = str(Path(name).parent)
    return room if room in ROOMS else None


def circle(found):
    """A way from a module back to itself; None."""
    done = set()

    def walk(name, way):
        if name in way:
            return [*way[way.index(name):], name]
        if name in done:
            return None
        for other in sorted(found.get(name, ())):
            back = walk(other, [*way, name])
            if back:
                return back
        done.add(name)
        return None

    return next((back for back in (walk(name, []) for name in sorted(found)) if back), None)


def wrong(source):
    found = arrows(source)
    back = circle(found)
    said = ["in a circle: " + " -> ".join(back)] if back else []
    for name, to in found.items():
        said += [f"{name} includes {other}, which stands above it" for other in sorted(to)
                 if ROOMS.index(room_of(other)) > ROOMS.index(room_of(name))]
    return said if found else [f"no sources of {', '.join(ROOMS)}"]


def main():
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[1]
    said = wrong(root / "src")
    print("\n".join(said) or "no circle")
    return bool(said)


if __name__ == "__main__":
    sys.exit(main())
