# SPDX-License-Identifier: Apache-2.0
"""allotd itself as a DRA driver, on a node with simulated GPUs."""

import os
import signal
import subprocess
import unittest

import dra_lib
from dra_lib import DRIVER, SECONDS, free_port, grpc, health, registration, result, wait_for


class Daemon(dra_lib.Case):
    def setUp(self):
        """The same GPUs for each daemon: simulated ones last as long as what `allot sim` runs."""
        sim = subprocess.Popen([os.environ["ALLOT"], "sim", "--gpus", "2", "--memory", "24GiB", "--",
                                "sh", "-c", "env; echo; cat"],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for cleanup in (sim.wait, sim.stdout.close, sim.stdin.close):
            self.addCleanup(cleanup)
        self.env = dict(line.rstrip("\n").split("=", 1) for line in iter(sim.stdout.readline, "\n")
                        if "=" in line)
        super().setUp()

    def start(self):
        conf = self.path("allotd.conf")
        with open(conf, "w", encoding="utf-8") as file:
            file.write("[kubernetes]\nways = dra\nnode = node1\nnvidia-cdi = nvidia.com/gpu\n"
                       f"kubelet = {self.kubelet}\ncdi = {self.cdi}\napi = {self.api.url()}\n"
                       f"account = {self.folder}\n")
        os.chmod(conf, 0o644)
        with open(self.log, "a", encoding="utf-8") as log:
            self.host = subprocess.Popen(
                [os.environ["ALLOTD"], "--foreground", "--listen", f"127.0.0.1:{free_port()}",
                 "--config", conf],
                stdin=subprocess.DEVNULL, stderr=log,
                env={**self.env, "ALLOT_RUNTIME_DIR": self.path("run")})
        self.addCleanup(self.kill)
        wait_for(lambda: os.path.exists(self.registry()), 3 * SECONDS)
        self.connect()

    def registry(self):
        return f"{self.kubelet}/plugins_registry/{DRIVER}-reg.sock"

    def kill(self):
        self.host.kill()
        self.host.wait(SECONDS)
        if os.path.exists(self.registry()):
            os.unlink(self.registry())

    def gpus(self):
        stream = self.channel.unary_stream(
            "/v1.DRAResourceHealth/NodeWatchResources",
            response_deserializer=health.NodeWatchResourcesResponse.FromString)(b"", timeout=SECONDS)
        devices = next(stream).devices
        stream.cancel()
        self.assertEqual([(d.device.pool_name, d.health) for d in devices], [("node1", health.HEALTHY)] * 2)
        return [d.device.device_name for d in devices]

    def register(self):
        with grpc.insecure_channel(f"unix:{self.registry()}",
                                   [("grpc.use_local_subchannel_pool", 1)]) as channel:
            channel.unary_unary("/pluginregistration.Registration/NotifyRegistrationStatus")(
                registration.RegistrationStatus(plugin_registered=True).SerializeToString(), timeout=SECONDS)

    def test_claims_over_its_end(self):
        gpus = self.gpus()
        claim = self.api.add({**result("a"), "device": gpus[0]},
                             {**result("b", memory="1Gi", cores="10"), "device": gpus[1]})
        first = self.prepared(claim)
        self.assertEqual([d.device_name for d in first], gpus)
        self.kill()
        self.start()
        self.assertEqual(self.gpus(), gpus)
        self.api.claims.clear()
        self.assertEqual(self.prepared(claim), first)
        self.assertEqual(self.unprepare(claim), {claim.uid: ""})
        self.assertEqual(self.grants(), [])

    def test_registration(self):
        """The slices are looked after whenever a kubelet has taken the driver."""
        self.register()
        wait_for(lambda: any("node1" in path for path in self.api.asked))
        self.assertIn(f"the kubelet has registered driver {DRIVER}", self.said())


signal.alarm(150)
unittest.main()
