# SPDX-License-Identifier: Apache-2.0
"""What a tenant sees through NVML: its quota, use and processes, on the devices it was given."""

import json
import os

from cli_lib import ALLOT, GIB, MIB, Case, main, wait_for

PROBE = os.environ["ALLOT_PROBE"]
TOTAL = 4 * GIB
CONTEXT = 64 * MIB


class Probe:
    """A running probe.c."""

    def __init__(self, process):
        self.process = process

    def ask(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise AssertionError(f"the probe died of: {command}")
        return json.loads(answer) if command == "show" else answer.strip()

    def tell(self, *commands):
        for command in commands:
            answer = self.ask(command)
            if answer not in ("ok", "0"):
                raise AssertionError(f"{command}: {answer}")
        return self

    @property
    def pid(self):
        return str(self.process.pid)


class View(Case):
    def setUp(self):
        super().setUp()
        self.env.update({"ALLOT_SIM_DIR": self.path("sim"), "ALLOT_SIM_GPUS": "2",
                         "ALLOT_SIM_MEMORY": str(TOTAL), "ALLOT_SIM_CONTEXT": str(CONTEXT),
                         "LD_LIBRARY_PATH": os.environ["ALLOT_SIM_LIBS"]})
        os.mkdir(self.env["ALLOT_SIM_DIR"])

    def bare(self, **env):
        self.env.update(env)
        return Probe(self.start(PROBE))

    def tenant(self, *args, visible=None):
        """A probe of a tenant: allot becomes it, so the pid is its own. What it may see through
        CUDA is set behind allot, which numbers by what itself may see."""
        sets = ["env", f"CUDA_VISIBLE_DEVICES={visible}"] if visible else []
        return Probe(self.start(ALLOT, "run", *args, "--", *sets, PROBE))

    def agrees(self, device):
        """No figure is above its total, and what is used is what the processes have together."""
        self.assertEqual(device["v1"][:2], device["v2"][:2])
        total, free, used, reserved = device["v2"]
        self.assertEqual(free + used + reserved, total)
        self.assertEqual(device["v1"][2], used + reserved)
        self.assertEqual(sum(device["processes"].values()), used)
        return total, used

    def test_orders_and_numbers(self):
        """Limits are the device's, whoever numbers it how, whichever library comes first."""
        uuid = [d["uuid"] for d in self.bare().tell("nvml").ask("show")]
        cases = [(None, 0), ("1,0", 1), ("0", 0), ("1", 1), (uuid[1], 1),
                 (f"{uuid[1]},{uuid[0]}", 1)]
        for visible, first in cases:
            for order in (("nvml", "cuda"), ("cuda", "nvml")):
                with self.subTest(visible=visible, order=order):
                    probe = self.tenant("--gpu", "0,1", "--memory", "768MiB,1GiB",
                                        visible=visible)
                    probe.tell(order[0])
                    if order[0] == "nvml":
                        before = probe.ask("show")
                        self.assertEqual([self.agrees(d) for d in before],
                                         [(768 * MIB, 0), (GIB, 0)])
                    probe.tell(order[1], f"alloc 0 {100 * MIB}")
                    after = probe.ask("show")
                    self.assertEqual([self.agrees(d)[0] for d in after], [768 * MIB, GIB])
                    self.assertEqual(self.agrees(after[first])[1], CONTEXT + 100 * MIB)
                    self.assertEqual(self.agrees(after[1 - first])[1], 0)
                    self.assertEqual(after[first]["processes"],
                                     {probe.pid: CONTEXT + 100 * MIB})
                    self.assertEqual(after[1 - first]["processes"], {})
                    probe.process.stdin.close()
                    probe.process.wait()

    def test_without_us(self):
        probe = self.bare().tell("nvml", "cuda", f"alloc 1 {100 * MIB}")
        self.assertEqual([self.agrees(d) for d in probe.ask("show")],
                         [(TOTAL, 0), (TOTAL, CONTEXT + 100 * MIB)])

    def test_not_given(self):
        probe = self.tenant("--gpu", "1", "--memory", "1GiB").tell("nvml")
        self.assertEqual([self.agrees(d) for d in probe.ask("show")], [(0, 0), (GIB, 0)])

    def test_processes_of_a_tenant(self):
        """Two processes of one tenant see each other and each other's use; nobody else's."""
        a = self.tenant("--name", "a", "--memory", "1GiB").tell("cuda", f"alloc 0 {100 * MIB}")
        b = self.tenant("--name", "a").tell("nvml", "cuda", f"alloc 0 {200 * MIB}")
        other = self.tenant("--name", "b", "--memory", "50%").tell(
            "nvml", "cuda", f"alloc 0 {300 * MIB}")
        seen = b.ask("show")[0]
        self.assertEqual(self.agrees(seen), (GIB, 2 * CONTEXT + 300 * MIB))
        self.assertEqual(seen["processes"], {a.pid: CONTEXT + 100 * MIB,
                                             b.pid: CONTEXT + 200 * MIB})
        seen = other.ask("show")[0]
        self.assertEqual(self.agrees(seen), (TOTAL // 2, CONTEXT + 300 * MIB))
        self.assertEqual(list(seen["processes"]), [other.pid])
        a.process.kill()
        a.process.wait()
        seen = b.ask("show")[0]
        self.assertEqual(self.agrees(seen), (GIB, CONTEXT + 200 * MIB))
        self.assertEqual(list(seen["processes"]), [b.pid])

    def test_neighbours_take_the_rest(self):
        """What is free is no more than what the device has."""
        big = self.bare().tell("cuda", f"alloc 0 {TOTAL - 500 * MIB - CONTEXT}")
        probe = self.tenant("--memory", "1GiB").tell("nvml")
        seen = probe.ask("show")[0]
        self.assertEqual(seen["v1"], [GIB, 500 * MIB, GIB - 500 * MIB])
        self.assertEqual(self.agrees(seen), (GIB, 0))
        big.process.kill()
        big.process.wait()
        self.assertEqual(probe.ask("show")[0]["v1"], [GIB, GIB, 0])

    def test_utilization(self):
        """One works, the other does not: each sees its own."""
        busy = self.tenant("--memory", "1GiB").tell("nvml", "cuda", f"alloc 0 {MIB}")
        idle = self.tenant("--memory", "1GiB").tell("nvml", "cuda", f"alloc 0 {MIB}")

        def works():
            busy.tell("spin 100000")
            seen = busy.ask("show")[0]
            self.assertIn(list(seen["samples"]), ([], [busy.pid]))
            return seen["gpu"] >= 50 and seen["samples"].get(busy.pid, 0) >= 50

        wait_for(works)
        seen = idle.ask("show")[0]
        self.assertEqual(seen["gpu"], 0)
        self.assertEqual(seen["samples"], {})

    def same(self, probe):
        """Both libraries tell the same; total, free and used of device 0."""
        seen = probe.ask("show")[0]
        total, used = self.agrees(seen)
        free = seen["v1"][1]
        self.assertEqual(probe.ask("info"), f"{free} {total}")
        self.assertEqual(probe.ask("total 0"), str(total))
        return total, free, used

    def test_changed_limit(self):
        """Below what is held all of a quota is used: a process has at most all of its device."""
        probe = self.tenant("--name", "a", "--memory", "1GiB").tell(
            "nvml", "cuda", f"alloc 0 {100 * MIB}")
        held = CONTEXT + 100 * MIB
        self.ok("set", "a", "--memory", "2GiB")
        self.assertEqual(self.same(probe), (2 * GIB, 2 * GIB - held, held))
        self.ok("set", "a", "--memory", "100MiB")
        self.assertEqual(self.same(probe), (100 * MIB, 0, 100 * MIB))
        other = self.tenant("--name", "a").tell("nvml")  # as nvidia-smi beside it
        seen = other.ask("show")[0]
        self.assertEqual(self.agrees(seen), (100 * MIB, 100 * MIB))
        self.assertEqual(seen["processes"], {probe.pid: 100 * MIB})
        self.assertEqual(probe.ask(f"alloc 0 {MIB}"), "2")  # what it holds gives it no more
        self.ok("set", "a", "--memory", "1GiB")
        self.assertEqual(self.same(probe), (GIB, GIB - held, held))

    def test_changed_limit_of_two(self):
        """The sum of two processes, by the ledger and by the driver's figures."""
        for accounting in ("ledger", "driver"):
            with self.subTest(accounting=accounting):
                name = f"two-{accounting}"
                a = self.tenant("--name", name, "--memory", "1GiB", "--accounting",
                                accounting).tell("nvml", "cuda", f"alloc 0 {100 * MIB}")
                b = self.tenant("--name", name).tell("nvml", "cuda", f"alloc 0 {200 * MIB}")
                self.ok("set", name, "--memory", "100MiB")
                for probe in (a, b):
                    self.assertEqual(self.same(probe), (100 * MIB, 0, 100 * MIB))

    def test_drop_in(self):
        """Limits by CUDA's numbers reach the right device, CUDA initialised or not."""
        probe = self.bare(LD_PRELOAD=os.environ["ALLOT_LIBRARY"], CUDA_VISIBLE_DEVICES="1",
                          CUDA_DEVICE_MEMORY_LIMIT_0="1g", XDG_RUNTIME_DIR=self.tmp,
                          CUDA_DEVICE_MEMORY_SHARED_CACHE=self.path("cache")).tell("nvml")
        self.assertEqual(self.agrees(probe.ask("show")[1]), (GIB, 0))
        probe.tell("cuda", f"alloc 0 {100 * MIB}")
        self.assertEqual(self.agrees(probe.ask("show")[1]), (GIB, CONTEXT + 100 * MIB))


if __name__ == "__main__":
    main()
