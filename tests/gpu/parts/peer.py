# SPDX-License-Identifier: Apache-2.0
"""What allot topo measures of the link. And peer memory: what one device has, written by another
and by a second process, in one tenant whose quota has room for it once."""

import json

from harness import Trouble, run

QUOTA = "2GiB"  # of both devices: the memory, a copy of it, and contexts
LEAST = 300     # GB/s over NVLink, of about 396 on two H200


def judge_rate(bench, name, nvlink, gb_per_s):
    if bench.sim or not nvlink:
        bench.results.skip("peer", name, f"{gb_per_s} GB/s; no NVLink")
    else:
        bench.results.check("peer", name, gb_per_s >= LEAST, f"{gb_per_s} GB/s",
                            f"at least {LEAST} GB/s")


def topo(bench):
    status, out, err = run([bench.allot, "topo", "--measure", "--json"], 60)
    if status:
        raise Trouble(f"allot topo --measure: {err}")
    for link in json.loads(out)["links"]:
        bench.results.figure("peer", f"topo {link['from']} {link['to']}", link)
        judge_rate(bench, f"allot topo: {link['from']} reads {link['to']}",
                   link["type"] == "NVLink", link["measured_mb_per_s"] / 1000)


def part(bench):
    if len(bench.figures.devices) < 2:
        bench.results.skip("peer", "two devices", "there is one")
        return
    topo(bench)
    with bench.start(bench.tenant(), QUOTA, [bench.program("peer")]) as child:
        link = child.hear("link", 90)
        bench.results.figure("peer", "link", link)
        if not link["reaches"]:
            bench.results.skip("peer", "memory of device 0", "device 1 does not reach it")
            return
        imported, exported = child.hear("imported", 90), child.hear("exported", 90)
    bench.results.figure("peer", "exported", exported)
    bench.results.check("peer", "written by device 1", exported["wrong"] == 0,
                        f"{exported['wrong']} wrong bytes", "none")
    bench.results.check("peer", "seen by a second process", imported["wrong"] == 0,
                        f"{imported['wrong']} wrong bytes", "none")
    bench.results.check("peer", "written by a second process", exported["wrong_of_importer"] == 0,
                        f"{exported['wrong_of_importer']} wrong bytes", "none")
    judge_rate(bench, "read by device 1", link["type"] == "NVLink", exported["gb_per_s"])
