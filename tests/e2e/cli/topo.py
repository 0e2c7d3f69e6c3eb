# SPDX-License-Identifier: Apache-2.0
"""allot topo: simulated devices of the one vendor, written sysfs trees of the other."""

import json
import os
import shutil

import cli_lib
from cli_lib import ALLOT, GIB

TOPOLOGY = "sys/devices/virtual/kfd/kfd/topology"
PCIE, XGMI = 2, 11


class Tree:
    """A machine with AMD GPUs, as the kernel shows it: node 0 is the CPU."""

    def __init__(self, root, gpus, hive=0):
        self.root, self.gpus, self.hive = root, gpus, hive
        self.links = {}  # (from, to): (type, weight, MB/s)
        self.name = "aldebaran"
        for gpu in range(1, gpus + 1):
            self.join(0, gpu, PCIE, 20, 63000)
            for other in range(1, gpu if hive else 0):
                self.join(gpu, other, XGMI, 15, 200000)

    def join(self, a, b, *link):
        self.links[a, b] = self.links[b, a] = link

    def put(self, path, text):
        path = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="latin-1") as file:
            file.write(text)

    def write(self):
        self.put(f"{TOPOLOGY}/generation_id", "1\n")
        for node in range(self.gpus + 1):
            self.write_node(node, f"{TOPOLOGY}/nodes/{node}")

    def write_node(self, node, path):
        gpu = node > 0
        links = [(to, link) for (source, to), link in sorted(self.links.items()) if source == node]
        self.put(f"{path}/gpu_id", f"{gpu and 1000 + node:d}\n")
        self.put(f"{path}/name", f"{self.name if gpu else ''}\n")
        self.put(f"{path}/properties",
                 f"cpu_cores_count {0 if gpu else 64}\nsimd_count {440 if gpu else 0}\n"
                 f"mem_banks_count 1\ncaches_count 0\nio_links_count {len(links)}\n"
                 f"p2p_links_count 0\ngfx_target_version {90010 if gpu else 0}\n"
                 f"location_id {(node << 8) if gpu else 0}\ndomain 0\n"
                 f"drm_render_minor {127 + node if gpu else 0}\nhive_id {self.hive}\n"
                 f"unique_id {(1 << 60) + node if gpu and node != 2 else 0}\n")
        self.put(f"{path}/mem_banks/0/properties",
                 f"heap_type {1 if gpu else 0}\nsize_in_bytes {64 * GIB}\n")
        for i, (to, (kind, weight, speed)) in enumerate(links):
            self.put(f"{path}/io_links/{i}/properties",
                     f"type {kind}\nnode_from {node}\nnode_to {to}\nweight {weight}\n"
                     f"min_bandwidth {speed // 4}\nmax_bandwidth {speed}\n")
        if gpu:
            self.put(f"dev/dri/renderD{127 + node}", "")


class Topo(cli_lib.Case):
    def setUp(self):
        super().setUp()
        self.root = self.path("amd")

    def tree(self, *args, **kwargs):
        """A tree that allot is told to look at."""
        self.env["ALLOT_AMD_ROOT"] = self.root
        return Tree(self.root, *args, **kwargs)

    def simulated(self, *args, gpus=2):
        done = self.allot("sim", "--gpus", str(gpus), "--", ALLOT, "topo", *args)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def without_driver(self):
        if os.path.exists("/dev/nvidiactl") or os.path.exists("/dev/kfd"):
            self.skipTest("this machine has a driver")

    def test_nothing(self):
        self.without_driver()
        done = self.allot("topo")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, r"\Aallot topo: no GPU here: the NVIDIA driver is missing .*"
                         r', the AMD driver is missing .*; .* "allot sim"\n\Z')
        done = self.allot("topo", "--json")
        self.assertEqual(done.returncode, 1)
        top = json.loads(done.stdout)
        self.assertEqual((top["devices"], top["links"], top["nvidia_error"], top["amd_error"]),
                         ([], [], None, None))
        # A tree without a GPU is no error either.
        self.tree(0).write()
        self.fails(1, "topo", says=("no GPU here", "the AMD driver shows no device"))

    def test_simulated(self):
        out = self.simulated()
        self.assertRegex(out, r"(?m)^DEVICE +MODEL +MEMORY +PCI +ID +REACHES$")
        self.assertRegex(out, r"(?m)^nvidia1 +allot simulated GPU +24 GiB +0000:27:00\.0 "
                         r"+GPU-[0-9a-f]{8} +all others$")
        self.assertRegex(out, r"(?m)^LINK +TYPE +COUNT +MAX GB/S\n"
                         r"nvidia0 <-> nvidia1 +NVLink +18 +478\.1$")
        self.assertNotIn("AMD", out)
        one = self.simulated(gpus=1)
        self.assertNotIn("REACHES", one)
        self.assertNotIn("LINK", one)

    def test_measured(self):
        out = self.simulated("--measure")
        self.assertRegex(out, r"(?m)^LINK +TYPE +COUNT +MAX GB/S +MEASURED GB/S\n"
                         r"nvidia0 <-> nvidia1 +NVLink +18 +478\.1 +[0-9]+\.[0-9]$")
        links = json.loads(self.simulated("--measure", "--json", gpus=3))["links"]
        self.assertEqual(len(links), 6)
        for link in links:
            self.assertGreater(link["measured_mb_per_s"], 0)
        self.assertIsNone(json.loads(self.simulated("--json"))["links"][0]["measured_mb_per_s"])
        self.assertNotIn("LINK", self.simulated("--measure", gpus=1))
        # What has no room for the copies: the rest is shown, and it is said.
        done = self.allot("sim", "--gpus", "2", "--memory", "600MiB", "--", ALLOT, "topo", "-m")
        self.assertEqual(done.returncode, 125)
        self.assertIn("allot-links: ", done.stderr)
        self.assertIn("256 MiB free", done.stderr)
        self.assertIn("nvidia0 <-> nvidia1", done.stdout)

    def test_json_is_as_documented(self):
        shapes = cli_lib.documented()
        self.tree(2, hive=1 << 63).write()
        top = json.loads(self.simulated("--json"))
        self.check_shape(top, "topo", shapes)
        for device in top["devices"]:
            self.check_shape(device, "topo_device", shapes)
        for link in top["links"]:
            self.check_shape(link, "topo_link", shapes)
        self.assertEqual([(d["name"], d["vendor"], d["reaches"]) for d in top["devices"]],
                         [("nvidia0", "nvidia", ["nvidia1"]), ("nvidia1", "nvidia", ["nvidia0"]),
                          ("amd1", "amd", ["amd2"]), ("amd2", "amd", ["amd1"])])
        self.assertEqual(
            top["devices"][2],
            {"name": "amd1", "vendor": "amd", "index": 1, "id": "GPU-1000000000000001",
             "model": "aldebaran gfx90a", "pci": "0000:01:00.0", "memory_bytes": 64 * GIB,
             "gpu_id": 1001, "hive_id": "0x8000000000000000", "reaches": ["amd2"]})
        # One that does not tell a number of its own goes by where it sits.
        self.assertEqual(top["devices"][3]["id"], "0000:02:00.0")
        self.assertEqual(len(top["links"]), 4)
        self.assertEqual(
            top["links"][2],
            {"from": "amd1", "to": "amd2", "type": "xGMI", "count": None, "path": None,
             "weight": 15, "min_mb_per_s": 50000, "max_mb_per_s": 200000,
             "measured_mb_per_s": None})

    def test_amd(self):
        self.without_driver()
        self.tree(8, hive=5).write()
        done = self.allot("topo")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"(?m)^amd8 +aldebaran gfx90a +64 GiB +0000:08:00\.0 "
                         r"+GPU-1000000000000008 +all others$")
        self.assertRegex(done.stdout, r"(?m)^LINK +TYPE +WEIGHT +MIN GB/S +MAX GB/S\n"
                         r"amd1 <-> amd2 +xGMI +15 +50\.0 +200\.0$")
        self.assertEqual(done.stdout.count("<->"), 28)
        self.assertIn("not been tried on a real AMD GPU", done.stdout)
        self.assertTrue(all(len(line) <= 100 for line in done.stdout.splitlines()), done.stdout)

    def test_directions(self):
        self.without_driver()
        tree = self.tree(3, hive=5)
        del tree.links[1, 2]
        tree.links[1, 3] = (XGMI, 41, 50000)
        tree.write()
        out = self.ok("topo")
        self.assertRegex(out, r"(?m)^amd1 .* amd3$")
        self.assertRegex(out, r"(?m)^amd2 .* all others$")
        self.assertRegex(out, r"(?m)^amd2 -> amd1 +xGMI +15 ")
        self.assertRegex(out, r"(?m)^amd1 -> amd3 +xGMI +41 .*\namd3 -> amd1 +xGMI +15 ")
        self.assertNotIn("amd1 -> amd2", out)
        devices = json.loads(self.ok("topo", "--json"))["devices"]
        self.assertEqual({d["name"]: d["reaches"] for d in devices},
                         {"amd1": ["amd3"], "amd2": ["amd1", "amd3"], "amd3": ["amd1", "amd2"]})

    def test_few_that_are_not_reached(self):
        self.without_driver()
        tree = self.tree(40, hive=5)
        del tree.links[3, 4], tree.links[3, 40]
        for other in range(7, 41):
            del tree.links[5, other]
        tree.write()
        out = self.ok("topo")
        self.assertRegex(out, r"(?m)^amd3 .* all but amd4 amd40$")
        self.assertRegex(out, r"(?m)^amd5 .* GPU-\d+ +amd1 amd2 amd3 amd4 amd6$")
        self.assertRegex(out, r"(?m)^amd4 .* all others$")

    def test_no_links(self):
        self.without_driver()
        self.tree(2).write()
        out = self.ok("topo")
        self.assertRegex(out, r"(?m)^amd1 .* none$")
        self.assertNotIn("LINK", out)

    def test_no_render_node(self):
        self.without_driver()
        tree = self.tree(3, hive=5)
        tree.write()
        os.remove(os.path.join(self.root, "dev/dri/renderD129"))
        done = self.allot("topo")
        self.assertEqual(done.returncode, 0)
        # Those behind it move up.
        self.assertRegex(done.stdout, r"(?m)^amd2 .* 0000:03:00\.0 ")
        self.assertNotIn("amd3", done.stdout)
        self.assertIn(f"1 AMD GPU has no render node in {self.root}/dev/dri", done.stderr)
        shutil.rmtree(os.path.join(self.root, "dev"))
        done = self.allot("topo")
        self.assertEqual(done.returncode, 1)
        self.assertIn("3 AMD GPUs have no render node", done.stderr)
        self.assertIn("no GPU here", done.stderr)

    def test_damaged_trees(self):
        for path, text, says in (
                ("nodes/1/properties", "simd_count x\n", ("line 1", "simd_count", '"x"')),
                ("nodes/1/properties", "simd_count 1", ("line 1 has no end",)),
                ("nodes/1/io_links/0/properties",
                 "type 2\nnode_from 1\nnode_to 9\nweight 1\n", ("node_to",)),
                ("nodes/1/mem_banks/0/properties",
                 f"heap_type 1\nsize_in_bytes {1 << 64}\n", ("size_in_bytes", "out of range")),
                ("nodes/2/gpu_id", "-1\n", ('"-1"',)),
                ("nodes/3/gpu_id", "4\n", ("nodes/3/properties", "No such file")),
                ("generation_id", "", ("empty",))):
            with self.subTest(path=path):
                self.tree(2, hive=5).write()
                Tree(self.root, 0).put(f"{TOPOLOGY}/{path}", text)
                self.fails(125, "topo", says=("ALLOT_AMD_ROOT", self.root, TOPOLOGY, *says))
                done = self.allot("topo", "--json")
                self.assertEqual(done.returncode, 125)
                self.assertIn(os.path.dirname(path), json.loads(done.stdout)["amd_error"])
                shutil.rmtree(self.root)

    def test_what_is_right_is_shown_beside_what_is_wrong(self):
        self.tree(1).write()
        Tree(self.root, 0).put(f"{TOPOLOGY}/nodes/1/gpu_id", "x\n")
        done = self.allot("sim", "--", ALLOT, "topo")
        self.assertEqual(done.returncode, 125)
        self.assertIn("nvidia0 ", done.stdout)
        self.assertIn("nodes/1/gpu_id", done.stderr)

    def test_no_such_tree(self):
        self.env["ALLOT_AMD_ROOT"] = self.root
        self.fails(125, "topo", says=("ALLOT_AMD_ROOT", self.root, "No such file"))
        self.env["ALLOT_AMD_ROOT"] = "/" + "x" * 5000
        self.fails(125, "topo", says=("ALLOT_AMD_ROOT", "too long"))

    def test_name_that_is_no_text(self):
        self.without_driver()
        tree = self.tree(1)
        tree.name = "\xff\x1b[31m" + "n" * 100
        tree.write()
        self.assertIn("??[31mnnn", self.ok("topo"))
        (device,) = json.loads(self.ok("topo", "--json"))["devices"]
        self.assertIn("\ufffd\x1b[31mnnn", device["model"])

    def test_bad_arguments(self):
        for args in (("x",), ("--json", "gpu0"), ("--jsonx",), ("-x",)):
            with self.subTest(args=args):
                done = self.allot("topo", *args)
                self.assertEqual((done.returncode, done.stdout), (125, ""))
                self.assertIn(args[-1].lstrip("-"), done.stderr)


if __name__ == "__main__":
    cli_lib.main()
