# SPDX-License-Identifier: Apache-2.0
"""NVML takes longer to open than all else that the library does at the start of a process: it is
opened by a thread of the library's own, and only where a figure is needed."""

import os
import time

from cli_lib import ALLOT, GIB, MIB, Case, main, wait_for
from view import Probe

CONTEXT = 520 * MIB
GUESS = 520 * MIB  # is charged for a context that nobody looked at
SHARE = ("--compute", "50")
LOAD_EARLY = "import ctypes, sys; ctypes.CDLL(sys.argv[1])"


class Start(Case):
    def setUp(self):
        super().setUp()
        self.env.update({"ALLOT_SIM_DIR": self.path("sim"), "ALLOT_SIM_MEMORY": str(24 * GIB),
                         "ALLOT_SIM_CONTEXT": str(CONTEXT),
                         "ALLOT_SIM_NVML_STARTS": self.path("starts"),
                         "LD_LIBRARY_PATH": os.environ["ALLOT_SIM_LIBS"]})
        os.mkdir(self.env["ALLOT_SIM_DIR"])

    def tenant(self, *args):
        return Probe(self.start(ALLOT, "run", *args, *SHARE, "--", os.environ["ALLOT_PROBE"]))

    def begun(self, *args):
        """A program that has all that most programs have, and asked for no figure."""
        probe = self.tenant(*args)
        self.began = time.monotonic()
        return probe.tell("cuda", f"alloc 0 {MIB}", "spin 1000")

    def begun_quickly(self, *args, more=(), opens=False):
        """Which has it opened by its own thread, or not at all, and all that within the second after
        which it is opened in any case."""
        for _ in range(20):
            probe = self.begun(*args).tell(*more)
            threads = self.opened(probe)
            if time.monotonic() < self.began + 1:
                self.assertEqual(threads, [int(probe.pid)] if opens else [])
                return probe
            probe.process.kill()
            probe.process.wait()
        self.fail("it took longer than a second each time")

    def opened(self, probe, what="begins"):
        """By which threads of the process NVML was opened."""
        try:
            with open(self.path("starts"), encoding="ascii") as file:
                lines = [line.split() for line in file]
        except FileNotFoundError:
            return []
        return [int(tid) for word, pid, tid in lines if (word, pid) == (what, probe.pid)]

    def by_another(self, probe):
        """It was opened once, and by none of the program's own threads: the probe has one."""
        (thread,) = self.opened(probe)
        self.assertNotEqual(thread, int(probe.pid))

    def loaded(self, probe):
        with open(f"/proc/{probe.pid}/maps", encoding="utf-8") as maps:
            return "libnvidia-ml" in maps.read()

    def test_not_without_need(self):
        probe = self.begun_quickly("--memory", "16GiB")
        # The library is there, since a child may not be able to load it: see forks.c.
        self.assertTrue(self.loaded(probe))
        free, total = map(int, probe.ask("info").split())
        self.assertEqual((len(self.opened(probe)), total), (1, 16 * GIB))
        self.assertLessEqual(free, total - CONTEXT - MIB)
        self.assertGreater(free, total - CONTEXT - 8 * MIB)

    def test_children_of_one_that_loads_libraries(self):
        for program in "ALLOT_FORKS", "ALLOT_FORKS_LINKED":
            out = self.ok("run", "--memory", "2GiB", "--", os.environ[program])
            self.assertEqual(out, "0\n", program)

    def test_without_a_quota(self):
        """Where a quota does not bind, what the driver says is free is all there is to know."""
        probe = self.begun_quickly()
        free, total = map(int, probe.ask("info").split())
        self.assertEqual(total, 24 * GIB)
        self.assertLessEqual(free, total - CONTEXT - MIB)

    def test_where_the_limit_is_near(self):
        self.by_another(self.begun("--memory", "1GiB"))

    def test_beside_others_of_the_tenant(self):
        first = self.begun("--name", "a", "--memory", "4GiB")
        second = self.begun("--name", "a")
        self.by_another(first)
        self.by_another(second)

    def test_a_smaller_quota(self):
        """Whose context and code are still far from the limit."""
        self.begun_quickly("--memory", "8GiB")

    def test_after_others_of_the_tenant(self):
        """Of those that live the driver is asked ahead of cuInit, of those that died it is not."""
        first = self.begun("--name", "a", "--memory", "2GiB")
        second = self.tenant("--name", "a").tell("cuda")
        wait_for(lambda: self.opened(second))
        self.by_another(second)
        for probe in first, second:
            probe.process.kill()
            probe.process.wait()
        third = self.tenant("--name", "a", "--memory", "2GiB").tell("cuda")
        self.assertEqual(self.opened(third), [])
        third.tell(f"alloc 0 {MIB}")
        self.by_another(third)

    def test_where_the_limit_comes_near(self):
        """Who comes there in the first second opens it, and nobody before."""
        allocates = f"alloc 0 {GIB}"
        self.begun_quickly("--memory", "20GiB", more=8 * [allocates])
        self.begun_quickly("--memory", "20GiB", more=14 * [allocates], opens=True)

    def test_a_second_later(self):
        """The look that is due each second waits for it, and the program does not."""
        self.env["ALLOT_SIM_NVML_INIT_MS"] = "4000"
        probe = self.begun("--memory", "16GiB")
        time.sleep(1.2)
        probe.tell(f"alloc 0 {MIB}", f"alloc 0 {MIB}", f"alloc 0 {MIB}")
        wait_for(lambda: self.opened(probe))
        self.assertEqual(self.opened(probe, "done"), [])
        self.by_another(probe)
        wait_for(lambda: self.opened(probe, "done"))
        probe.tell(f"alloc 0 {MIB}")
        self.assertEqual(len(self.opened(probe)), 1)

    def test_the_quota_holds(self):
        """What the context took more than was guessed is known before more is admitted."""
        context = GUESS + 10 * MIB
        self.env.update({"ALLOT_SIM_NVML_INIT_MS": "300", "ALLOT_SIM_CONTEXT": str(context)})
        probe = self.tenant("--memory", "1GiB").tell("cuda")
        self.assertEqual(probe.ask(f"alloc 0 {GIB - GUESS}"), "2")
        self.assertEqual(probe.ask(f"alloc 0 {GIB - context + 2 * MIB}"), "2")
        self.assertEqual(probe.ask(f"alloc 0 {GIB - context}"), "0")
        self.assertEqual(probe.ask("alloc 0 1"), "2")

    def test_exit_meanwhile(self):
        """The process ends when it is open, since its library goes with the process."""
        self.env["ALLOT_SIM_NVML_INIT_MS"] = "4000"
        probe = self.begun("--memory", "16GiB")
        time.sleep(1.2)
        probe.tell(f"alloc 0 {MIB}")
        wait_for(lambda: self.opened(probe))
        self.assertEqual(self.opened(probe, "done"), [])
        probe.process.stdin.close()
        self.assertEqual(probe.process.wait(100), 0)
        self.assertEqual(len(self.opened(probe, "done")), 1)

    def test_in_a_constructor(self):
        """Whoever loads a library holds a lock that the thread of ours must not need."""
        self.env["ALLOT_SIM_NVML_INIT_MS"] = "100"
        out = self.ok("run", "--memory", "1GiB", *SHARE, "--", "python3", "-c", LOAD_EARLY,
                      os.environ["ALLOT_EARLY"])
        self.assertEqual(int(out), GIB - CONTEXT)


if __name__ == "__main__":
    main()
