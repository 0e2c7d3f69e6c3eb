# SPDX-License-Identifier: Apache-2.0
"""allotd itself as a DRA driver, on a node with simulated GPUs."""

import fcntl
import os
import re
import tempfile
import unittest

import dra_lib
from dra_lib import DRIVER, SECONDS, free_port, grpc, health, registration, result, wait_for


class Daemon(dra_lib.Case):
    def setUp(self):
        self.env = dra_lib.simulate_gpus(self)
        lost = tempfile.TemporaryDirectory(prefix="allot-lost-")
        self.addCleanup(lost.cleanup)
        self.env["ALLOT_SIM_NVML_LOST"] = self.lost = lost.name + "/"
        super().setUp()

    def start(self):
        self.host = dra_lib.start_allotd(self, "dra", free_port())
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

    def hear(self, stream, *wanted):
        """The stream says these of the devices within its time."""
        for message in stream:
            if [(d.health, d.message) for d in message.devices] == [*wanted]:
                return
        self.fail("the stream ended")

    def test_lost_device(self):
        """One that does not answer NVML is sick until it does, and the driver lists it all the time."""
        well = (health.HEALTHY, "")
        sick = (health.UNHEALTHY, "it does not answer its driver any more")
        stream = self.channel.unary_stream(
            "/v1.DRAResourceHealth/NodeWatchResources",
            response_deserializer=health.NodeWatchResourcesResponse.FromString)(b"", timeout=SECONDS)
        self.hear(stream, well, well)
        with open(self.lost + "1", "wb"):
            self.hear(stream, well, sick)
        self.assertIn("is sick: it does not answer", self.refused(
            self.api.add({**result(), "device": self.name_of_lost()})))
        os.unlink(self.lost + "1")
        self.hear(stream, well, well)
        self.assertIn("is well again", self.said())

    def name_of_lost(self):
        uuid = re.search(r"device GPU-(\S+) is sick: it does not answer its driver any more", self.said())[1]
        return f"gpu-{uuid}"

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

    def test_killed_writer(self):
        """What it had begun to write is removed at the next start; what is being written stays, and what is others'."""
        begun, written, others = (os.path.join(self.cdi, name) for name in (
            "allot.dev-grant-slot-gpu-1.0of2.aZ09bc", "allot.dev-grant-slot-gpu-1.1of2.aZ09bc",
            "other.com-grant-a.aZ09bc"))
        os.makedirs(self.cdi, exist_ok=True)
        for path in (begun, written, others):
            with open(path, "w", encoding="ascii"):
                pass
        self.kill()
        with open(written, "rb") as writer:
            fcntl.flock(writer, fcntl.LOCK_EX)
            self.start()
            self.assertFalse(os.path.exists(begun))
            self.assertTrue(os.path.exists(written))
            self.assertTrue(os.path.exists(others))

    def test_registration(self):
        """The slices are looked after whenever a kubelet has taken the driver."""
        self.register()
        wait_for(lambda: any("node1" in path for path in self.api.asked))
        self.assertIn(f"the kubelet has registered driver {DRIVER}", self.said())


unittest.main()
