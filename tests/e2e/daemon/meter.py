# SPDX-License-Identifier: Apache-2.0
"""--meter: what a tenant uses of a device is measured where nothing limits it, too; where it is not,
nothing is said of it, which is not the same as 0."""

import json
import os

import cli_lib
import daemon_lib
from cli_lib import ALLOT, wait_for
from daemon_lib import key

LOAD = os.environ["ALLOT_LOAD"]
MEASURED = ("achieved_1s_bp", "achieved_60s_bp", "busy_ns", "launches", "graph_launches",
            "throttles", "throttled_ns", "debt_ns", "longest_ns", "unmeasured_ns",
            "host_copy_bytes")
METRICS = ("allot_compute_had_ratio", "allot_compute_busy_seconds_total",
           "allot_compute_unmeasured_seconds_total", "allot_compute_debt_seconds",
           "allot_compute_throttled_seconds_total", "allot_compute_throttles_total",
           "allot_compute_launches_total", "allot_compute_graph_launches_total",
           "allot_copied_host_bytes_total", "kernel_launch_total", "kernel_throttle_total",
           "actual_sm_utilization", "hami_container_device_utilization_ratio",
           "available_tokens")


class Meter(daemon_lib.Case):
    def setUp(self):
        super().setUp()
        self.env.update(ALLOT_SIM_DIR=os.path.join(self.tmp, "sim"),
                        LD_LIBRARY_PATH=os.environ["SIM_LIBRARIES"])

    def busy(self, name, *options):
        """A tenant that keeps the device busy until the test ends."""
        self.start(ALLOT, "run", "--name", name, *options, "--", LOAD, "--seconds", "60")
        wait_for(lambda: self.allot("ps", name).returncode == 0, 30)

    def compute(self, name):
        tenant = json.loads(self.ok("ps", "--json", name))["tenants"][0]
        device, = tenant["devices"] or [None]
        return tenant["compute"]["measured"], device and device["compute"]

    def is_measured(self, name):
        def works():
            measured, compute = self.compute(name)
            return measured and compute and (compute["achieved_1s_bp"] or 0) > 3000
        wait_for(works, 30)
        compute = self.compute(name)[1]
        self.assertGreater(compute["launches"], 100)
        self.assertGreater(compute["busy_ns"], 300000000)
        self.assertEqual((compute["throttles"], compute["throttled_ns"]), (0, 0))
        self.assertRegex(self.ok("ps", name), rf"(?m)^{name} +GPU-\w+ +\S+ +\S+ +\d+\.\d% ")

    def is_not_measured(self, name):
        wait_for(lambda: self.compute(name)[1], 30)
        measured, compute = self.compute(name)
        self.assertFalse(measured)
        self.assertEqual({compute[field] for field in MEASURED}, {None})
        self.assertNotRegex(self.ok("ps", name), r"\d+\.\d%")

    def metrics_of(self, name):
        return {metric for metric, labels in self.samples()
                if {"tenant": name}.items() <= dict(labels).items()
                or {"pod": name}.items() <= dict(labels).items()} & set(METRICS)

    def test_default_where_allotd_runs(self):
        self.daemon(options=("--metrics", "hami"))
        self.busy("a", "--memory", "2GiB")
        self.is_measured("a")
        self.assertEqual(self.metrics_of("a"), set(METRICS) - {"allot_compute_debt_seconds",
                                                               "available_tokens"})
        (had,) = (v for (m, _), v in self.samples().items() if m == "allot_compute_had_ratio")
        self.assertGreater(had, 0.3)
        self.assertTrue(any(m == "hami_host_gpu_utilization_ratio" for m, _ in self.samples()))
        self.assertEqual(self.ok("set", "a", "--meter", "off"),
                         "a each device: compute off, measured -> off\n")
        self.is_not_measured("a")
        self.assertEqual(self.metrics_of("a"), set())
        self.assertFalse(any(m == "hami_host_gpu_utilization_ratio" for m, _ in self.samples()))
        self.ok("set", "a", "--meter", "on")
        self.is_measured("a")

    def test_all_of_the_time(self):
        """Which is no limit: measured, nobody is held, and no turns are taken beside others."""
        self.daemon()
        self.busy("all", "--compute", "100")
        self.busy("other", "--memory", "1GiB")
        self.is_measured("all")
        self.is_measured("other")

    def test_without_allotd(self):
        self.busy("a", "--memory", "2GiB")
        self.is_not_measured("a")
        self.busy("b", "--memory", "2GiB", "--meter", "on")
        self.is_measured("b")

    def test_not_what_can_go_to_a_disk(self):
        self.daemon()
        self.busy("a", "--swappable")
        self.is_not_measured("a")
        self.busy("b", "--swappable", "--meter", "on")
        self.is_measured("b")

    def test_said_wrong(self):
        self.fails(125, "run", "--meter", "yes", "--", "true", says=("--meter on", "--meter off"))


if __name__ == "__main__":
    cli_lib.main()
