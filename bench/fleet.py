#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a fleet costs an API server, and how fractions pack.

    bench/fleet.py CLIENT [--nodes N] [--of 5000] [--rest SECONDS] [--pictures FOLDER]

CLIENT is tests/e2e/kube/api_client of a build: it is a node that is hollow, allotd's part that keeps
ResourceSlices and nothing else. N of them have 8 GPUs each and speak to the tests' API server, which counts;
what that makes for a fleet is each count times its size. Packing is a simulation with a seed."""
import argparse
import collections
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path += [str(ROOT / "tests/e2e/kube"), str(ROOT / "tools")]
import charts  # noqa: E402
import slices_server  # noqa: E402
import svg  # noqa: E402

GPUS, WATCH_S = 8, 600
NODE_GPUS, GPU_GIB = 8, 80
# GiB, percent of the time, how often.
MIX = [(8, 10, 40), (10, 15, 20), (20, 25, 20), (40, 50, 15), (80, 100, 5)]


# --- What it costs -------------------------------------------------------------------------------

class Hollow:
    def __init__(self, client, name, url, folder):
        self.process = subprocess.Popen(
            [client, "slices", name, str(GPUS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, env={**os.environ, "API": url, "ACCOUNT": folder})
        assert self.process.stdout.readline() == "ready\n"

    def do(self, *words):
        self.process.stdin.write("".join(word + "\n" for word in words))
        self.process.stdin.flush()

    def settle(self):
        assert self.process.stdout.readline() == "settled\n"

    def end(self):
        self.process.stdin.close()
        self.process.wait(30)


def kind_of(request):
    method, path = request
    return "watch" if "watch=1" in path else "list" if method == "GET" and "?" in path else method.lower()


def measure(client, nodes, rest_s):
    """Requests of a node, by their kind, in each phase; bytes of its slices."""
    server = slices_server.Server()
    for i in range(nodes):
        server.nodes[f"node-{i}"] = f"uid-{i}"
    phases, before = {}, 0
    with tempfile.TemporaryDirectory() as folder:
        fleet = [Hollow(client, f"node-{i}", server.url, folder) for i in range(nodes)]

        def phase(name, *words):
            nonlocal before
            for hollow in fleet:
                hollow.do(*words)
            for hollow in fleet if "sync" in words else ():
                hollow.settle()
            time.sleep(rest_s if not words else 2)
            counts = collections.Counter(map(kind_of, server.requests[before:]))
            before = len(server.requests)
            phases[name] = {kind: n / nodes for kind, n in counts.items()}

        phase("allotd begins", "sync")
        phase("a kubelet is started anew", "sync")
        phase("a GPU is sick", "sick 0", "sync")
        phase("it is well again", "well 0", "sync")
        phase(f"rest, {rest_s} s")
        objects = [len(json.dumps(body, separators=(",", ":"))) for body in server.objects.values()]
        for hollow in fleet:
            hollow.end()
    server.stop()
    return phases, sum(objects) / nodes


def tell_cost(phases, slice_bytes, fleet):
    kinds = ["get", "list", "watch", "post", "put", "delete"]
    print(f"Requests of {fleet} nodes with {GPUS} GPUs each")
    print(f"{'':28}" + "".join(f"{kind:>9}" for kind in kinds))
    for name, counts in phases.items():
        print(f"{name:28}" + "".join(f"{counts.get(kind, 0) * fleet:9.0f}" for kind in kinds))
    print(f"at rest a list and a watch each {WATCH_S} s a node: {2 * fleet / WATCH_S:.1f} requests a second, no write")
    print(f"slices: {slice_bytes:.0f} bytes a node, {slice_bytes * fleet / 2**20:.1f} MiB in all; "
          f"{fleet} watches are open")


def draw_cost(phases, fleet):
    top, row, left = charts.TOP + 20, 46, 230
    most = max(sum(counts.values()) for counts in phases.values()) * fleet or 1
    shapes, colors = [], {"get": 0, "list": 1, "watch": 2, "post": 3, "put": 4, "delete": 5}
    for i, (name, counts) in enumerate(phases.items()):
        y, x = top + i * row, left
        shapes.append(charts.text(left - 10, y + 17, name, "end"))
        for kind, color in colors.items():
            width = (charts.WIDTH - left - 90) * counts.get(kind, 0) * fleet / most
            if width:
                shapes.append(svg.rect(x, y, width, 24, charts.COLORS[color]))
            x += width
        shapes.append(charts.text(x + 8, y + 17, f"{sum(counts.values()) * fleet:.0f}", color=charts.MUTED))
    y = top + len(phases) * row + 14
    for i, (kind, color) in enumerate(colors.items()):
        shapes.append(svg.rect(left + i * 90, y - 11, 12, 12, charts.COLORS[color]))
        shapes.append(charts.text(left + i * 90 + 18, y, kind))
    return charts.page(y + 20, f"What {fleet} nodes with {GPUS} GPUs each ask of the API server", shapes)


# --- How it packs --------------------------------------------------------------------------------

def whole(gpus, gib, cores):
    return next((gpu for gpu in gpus if gpu == [GPU_GIB, 100]), None), GPU_GIB, 100


def quarters(gpus, gib, cores):
    """As many quarters of one GPU as the request takes."""
    n = max(-(-gib * 4 // GPU_GIB), -(-cores * 4 // 100))
    need = [n * GPU_GIB // 4, n * 25]
    return next((gpu for gpu in gpus if gpu[0] >= need[0] and gpu[1] >= need[1]), None), *need


def first_fit(gpus, gib, cores):
    return next((gpu for gpu in gpus if gpu[0] >= gib and gpu[1] >= cores), None), gib, cores


def spread(gpus, gib, cores):
    fits = [gpu for gpu in gpus if gpu[0] >= gib and gpu[1] >= cores]
    return max(fits, key=lambda gpu: gpu[0] + gpu[1], default=None), gib, cores


WAYS = {"whole cards": whole, "quarters": quarters, "capacity, first that fits": first_fit,
        "capacity, the emptiest": spread}


def pack(way, nodes, seed):
    """
    Requests come until none of a hundred in a row has a place: the parts of memory and time that were asked for
    and given, how many Pods have them, and which part of the cards was whole when half of the memory was given.
    """
    draw = random.Random(seed)
    gpus = [[GPU_GIB, 100] for _ in range(nodes * NODE_GPUS)]
    refused = gib_sum = cores_sum = count = 0
    whole_then = None
    while refused < 100:
        gib, cores, _ = draw.choices(MIX, [often for *_, often in MIX])[0]
        gpu, took_gib, took_cores = way(gpus, gib, cores)
        refused = 0 if gpu else refused + 1
        if gpu:
            gpu[0] -= took_gib
            gpu[1] -= took_cores
            gib_sum, cores_sum, count = gib_sum + gib, cores_sum + cores, count + 1
            if whole_then is None and 2 * gib_sum >= len(gpus) * GPU_GIB:
                whole_then = gpus.count([GPU_GIB, 100]) / len(gpus)
    return gib_sum / (len(gpus) * GPU_GIB), cores_sum / (len(gpus) * 100), count, whole_then or 0


def draw_packing(packed):
    top, row, left = charts.TOP + 20, 80, 230
    width, shapes = charts.WIDTH - left - 90, []
    for i, (name, (memory, time_part, count, whole_then)) in enumerate(packed.items()):
        y = top + i * row
        shapes.append(charts.text(left - 10, y + 36, name, "end"))
        for k, part in enumerate((memory, time_part, whole_then)):
            shapes.append(svg.rect(left, y + 20 * k, width * part, 17, charts.COLORS[k]))
            shapes.append(charts.text(left + width * part + 8, y + 20 * k + 13, f"{part:.0%}", color=charts.MUTED))
        shapes.append(charts.text(left + 8, y + 13, f"{count} Pods", color="#ffffff"))
    y = top + len(packed) * row + 10
    for k, words in enumerate(("of memory is given", "of time", "of cards are whole, at half")):
        shapes.append(svg.rect(left + 170 * k, y - 11, 12, 12, charts.COLORS[k]))
        shapes.append(charts.text(left + 18 + 170 * k, y, words))
    return charts.page(y + 20, "What a hundred nodes give before a hundred Pods in a row find no place", shapes)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("client")
    parser.add_argument("--nodes", type=int, default=40)
    parser.add_argument("--of", type=int, default=5000)
    parser.add_argument("--rest", type=int, default=30)
    parser.add_argument("--pictures", type=Path)
    args = parser.parse_args()
    phases, slice_bytes = measure(args.client, args.nodes, args.rest)
    tell_cost(phases, slice_bytes, args.of)
    packed = {name: pack(way, 100, 1) for name, way in WAYS.items()}
    print()
    for name, (memory, time_part, count, whole_then) in packed.items():
        print(f"{name:26} {count:5} Pods, {memory:5.1%} of memory, {time_part:5.1%} of time; "
              f"{whole_then:5.1%} of the cards are whole at half of the memory")
    if args.pictures:
        (args.pictures / "fleet-cost.svg").write_text(draw_cost(phases, args.of), encoding="utf-8")
        (args.pictures / "fleet-packing.svg").write_text(draw_packing(packed), encoding="utf-8")


if __name__ == "__main__":
    main()
