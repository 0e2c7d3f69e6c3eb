# SPDX-License-Identifier: Apache-2.0
"""allotd beside another driver of the same GPUs, and what Prometheus reads of it all."""

import contextlib
import os
import pathlib
import re
import subprocess
import tempfile
import unittest
import urllib.error
import urllib.request

import dra_lib
from dra_lib import DRIVER, SECONDS, health, wait_for
from kubelet import Kubelet

SLOTS = "huawei.com/vgpu-number"
POD_UID = "5cd0a5b2-1c2d-4e3f-8a9b-0123456789ab"


class SharedCard(dra_lib.Case):
    ways = "dra device-plugin"

    def setUp(self):
        errors = tempfile.TemporaryDirectory(prefix="allot-errors-")
        self.addCleanup(errors.cleanup)
        self.errors, self.lost = f"{errors.name}/xid", f"{errors.name}/lost"
        self.env = {**dra_lib.simulate_gpus(self), "ALLOT_SIM_NVML_ERRORS": self.errors,
                    "ALLOT_SIM_NVML_LOST": self.lost}
        super().setUp()

    def restart(self):
        self.host.terminate()
        self.host.wait(SECONDS)
        self.host = dra_lib.start_allotd(self, self.ways, self.port)
        self.addCleanup(self.host.wait, SECONDS)
        self.addCleanup(self.host.terminate)
        wait_for(self.answers)

    def answers(self):
        with contextlib.suppress(urllib.error.URLError):
            return bool(self.metrics("allot_device_info"))
        return False

    def start(self):
        self.fake = Kubelet(self.kubelet)
        self.addCleanup(self.fake.stop)
        self.fake.start(settled=True)
        self.port = dra_lib.free_port()
        self.host = dra_lib.start_allotd(self, self.ways, self.port)
        self.addCleanup(self.host.wait, SECONDS)
        self.addCleanup(self.host.terminate)
        wait_for(self.answers)
        if "device-plugin" in self.ways:
            self.fake.wait_registered([SLOTS])
        if "dra" in self.ways:
            wait_for(lambda: os.path.exists(f"{self.kubelet}/plugins/{DRIVER}/dra.sock"))
            self.connect()

    def metrics(self, name):
        """{labels: value}, as they stand there."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=SECONDS) as page:
            lines = page.read().decode().splitlines()
        return {line.split(" ")[0][len(name):]: line.split(" ")[-1] for line in lines
                if line.startswith((name + " ", name + "{"))}

    def uuids(self):
        """By their numbers, which simulated UUIDs do not follow."""
        found = [re.search('device="([^"]+)",index="([0-9]+)"', labels).groups()
                 for labels in self.metrics("allot_device_info")]
        return [uuid for uuid, _ in sorted(found, key=lambda device: int(device[1]))]

    def give(self, ours=(), **theirs):
        """What the containers of a Pod have; `claims` of DRA drivers."""
        claims = theirs.pop("claims", [])
        with self.fake.changed:
            self.fake.claims["team", "theirs", "main"] = claims
            self.fake.pods["team", "theirs"] = {"main": dict(ours, **theirs)}

    def well(self):
        health_of = self.metrics("allot_device_health")
        return [health_of[f'{{device_uuid="{uuid}"}}'] for uuid in self.uuids()]


class Both(SharedCard):
    def stream(self):
        """Of each device by the kubelet's health stream, whether it is well, and the words."""
        stream = self.channel.unary_stream(
            "/v1.DRAResourceHealth/NodeWatchResources",
            response_deserializer=health.NodeWatchResourcesResponse.FromString)(b"", timeout=SECONDS)
        devices = {d.device.device_name: (d.health == health.HEALTHY, d.message)
                   for d in next(stream).devices}
        stream.cancel()
        return [devices[uuid.lower()] for uuid in self.uuids()]

    def healthy(self):
        """How many slots of each device the kubelet is told of as well ones."""
        names = self.fake.endpoints[SLOTS].healthy()
        return [sum(uuid.lower() in name for name in names) for uuid in self.uuids()]

    def test_a_device_of_nvidias_plugin(self):
        first, second = self.uuids()
        self.assertEqual(self.healthy(), [10, 10])
        self.give({"nvidia.com/gpu": [second]})
        wait_for(lambda: self.well() == ["1", "0"])
        self.fake.wait(lambda: self.healthy() == [10, 0], "its slots are offered on")
        words = "nvidia.com/gpu has given it to Pod team/theirs"
        self.assertEqual(self.stream(), [(True, ""), (False, words)])
        self.assertIn(words, self.said())
        self.give({"nvidia.com/gpu.shared": [first + "::2"]})
        wait_for(lambda: self.well() == ["0", "1"])
        self.give()
        wait_for(lambda: self.well() == ["1", "1"])
        self.fake.wait(lambda: self.healthy() == [10, 10], "it is not free again")

    def report(self, index, xid):
        """As the driver does it; the next look of allotd finds it."""
        with open(f"{self.errors}{index}", "a", encoding="ascii") as file:
            file.write(f"{xid}\n")

    def need(self, index, action):
        """What the driver says that the device needs: 0 nothing, 1 a reset."""
        path = pathlib.Path(f"{self.errors}{index}.recovery")
        path.with_suffix(".new").write_text(str(action), encoding="ascii")
        path.with_suffix(".new").rename(path)

    def test_a_device_that_reports_errors(self):
        """Errors of programs are none of the device's; others are, until the driver asks for nothing any more."""
        self.need(1, 1)
        for xid in (13, 31, 43, 45, 68, 109):
            self.report(0, xid)
        self.report(1, 79)
        wait_for(lambda: self.well() == ["1", "0"])
        self.fake.wait(lambda: self.healthy() == [10, 0], "its slots are offered on")
        words = "the driver reported Xid 79; reset it (nvidia-smi --gpu-reset)"
        wait_for(lambda: self.stream() == [(True, ""), (False, words)])
        self.assertIn(f"device {self.uuids()[1]} is sick: {words}", self.said())
        self.need(1, 0)
        wait_for(lambda: self.well() == ["1", "1"])
        self.fake.wait(lambda: self.healthy() == [10, 10], "it is not well again")
        self.assertIn(f"device {self.uuids()[1]} is well again", self.said())
        self.report(0, 48)
        wait_for(lambda: self.well() == ["0", "1"])

    def test_a_device_that_waits_for_a_reset(self):
        """Its error came before allotd."""
        self.need(1, 1)
        self.restart()
        wait_for(lambda: self.well() == ["1", "0"])
        self.assertIn("is sick: the driver wants it mended; reset it (nvidia-smi --gpu-reset)", self.said())
        self.need(1, 0)
        wait_for(lambda: self.well() == ["1", "1"])

    def test_a_device_that_does_not_answer(self):
        pathlib.Path(self.lost + "1").touch()
        wait_for(lambda: self.well() == ["1", "0"])
        wait_for(lambda: self.stream()[1] == (False, "it does not answer its driver any more"))
        os.unlink(self.lost + "1")
        wait_for(lambda: self.well() == ["1", "1"])

    def test_a_device_of_nvidias_dra_driver(self):
        self.give(claims=[("gpu.nvidia.com", "gpu-1")])
        wait_for(lambda: self.well() == ["1", "0"])
        self.assertEqual(self.stream()[1][1], "gpu.nvidia.com has given it to Pod team/theirs")

    def test_what_we_gave_ourselves(self):
        first, second = self.uuids()
        lists = self.fake.lists
        self.give({SLOTS: [first.lower() + ".0of10"]}, claims=[(DRIVER, second.lower())])
        self.fake.wait(lambda: self.fake.lists >= lists + 2, "nobody lists")
        self.assertEqual(self.well(), ["1", "1"])

    def test_kubelet_that_has_just_started(self):
        """It lists no Pod yet: that frees nothing."""
        self.give({"nvidia.com/gpu": [self.uuids()[1]]})
        wait_for(lambda: self.well() == ["1", "0"])
        self.fake.stop()
        with self.fake.changed:
            self.fake.pods = {}
        self.fake.start()
        lists = self.fake.lists
        self.fake.wait(lambda: self.fake.lists >= lists + 2, "nobody lists")
        self.assertEqual(self.well(), ["1", "0"])
        self.fake.settle()
        wait_for(lambda: self.well() == ["1", "1"])

    def status_of(self, program):
        """(threads, KiB of memory that it has)"""
        words = pathlib.Path(f"/proc/{program.pid}/status").read_text(encoding="ascii")
        return [int(re.search(rf"^{key}:\s+(\d+)", words, re.M)[1]) for key in ("Threads", "VmRSS")]

    def test_what_it_takes(self):
        """Beside an allotd that says nothing to Kubernetes: no further thread, and 8 MiB at most."""
        for claim in [self.api.add({**dra_lib.result(memory="256Mi", cores="1"), "device": uuid.lower()})
                      for uuid in self.uuids() for _ in range(20)]:
            self.prepared(claim)
        for i in range(10):
            self.fake.admit("team", f"pod-{i}", {"main": {SLOTS: 1}})
        port, run = dra_lib.free_port(), self.path("without")
        with open(os.devnull, "w", encoding="ascii") as log, subprocess.Popen(
                [os.environ["ALLOTD"], "--foreground", "--listen", f"127.0.0.1:{port}"], stdin=subprocess.DEVNULL,
                stderr=log, env={**self.env, "ALLOT_RUNTIME_DIR": run}) as without:
            self.addCleanup(without.wait, SECONDS)
            self.addCleanup(without.terminate)
            self.port, mine = port, self.port
            wait_for(self.answers)
            self.port = mine
            self.assertTrue(self.answers())
            (threads, kib), (threads_without, kib_without) = self.status_of(self.host), self.status_of(without)
            print(f"allotd with Kubernetes: {threads} threads, {kib} KiB; without: {threads_without}, {kib_without}")
            self.assertEqual(threads, threads_without)
            self.assertLessEqual(kib - kib_without, 8 << 10)
            without.terminate()

    def test_calls_are_counted(self):
        self.assertEqual(self.metrics("allot_registration_state")[f'{{resource="{SLOTS}"}}'], "1")
        self.assertEqual(self.metrics("allot_registration_state")[f'{{resource="{DRIVER}"}}'], "0")
        self.assertEqual(self.metrics("allot_allocate_seconds_count"), {"": "0"})
        [device] = self.uuids()[:1]
        self.prepare(self.api.add({**dra_lib.result(), "device": device.lower()}))
        self.assertEqual(self.metrics("allot_prepare_seconds_count"), {"": "1"})
        self.fake.admit("team", "ours", {"main": {SLOTS: 1}})
        self.assertEqual(self.metrics("allot_allocate_seconds_count"), {"": "1"})
        self.assertEqual(self.metrics("allot_allocate_seconds_bucket")['{le="+Inf"}'], "1")
        try:
            self.fake.start_container("team", "ours", "main")
        except dra_lib.grpc.RpcError:
            pass  # NVIDIA's driver is nowhere here
        self.assertEqual(self.metrics("allot_prestart_seconds_count"), {"": "1"})


class Claims(SharedCard):
    """Nobody but this asks for lists."""
    ways = "dra"

    def test_claims_that_nobody_unprepares(self):
        """What neither the kubelet's list nor the API server has is removed."""
        result = {**dra_lib.result(memory="1Gi", cores="1"), "device": self.uuids()[0].lower()}
        gone, listed, here, elsewhere, another, free, refused, unserved = claims = [
            self.api.add({**result}) for _ in range(8)]
        names = {claim.uid: self.prepared(claim)[0].cdi_device_ids[0] for claim in claims}
        self.assertEqual(len(self.grants()), len(claims))
        self.give(claims=[(DRIVER, "gpu", names[listed.uid])])
        for claim in (gone, listed):
            del self.api.claims[claim.name]
        self.api.claims[elsewhere.name]["status"]["allocation"]["devices"]["results"][0]["pool"] = "node2"
        self.api.claims[another.name]["metadata"]["uid"] = here.uid
        del self.api.claims[free.name]["status"]["allocation"]
        self.api.status[refused.name] = 403
        self.api.status[unserved.name] = 404
        self.api.bodies[unserved.name] = b"404 page not found"
        left = sorted(grant for claim in (listed, here, refused, unserved) for grant in self.grants(claim))
        asked = len(self.api.asked)
        self.restart()

        def times_asked():
            return [sum(path.endswith("/" + claim.name) for path in self.api.asked[asked:]) for claim in claims]

        # Each once, but for the one that the kubelet lists.
        wait_for(lambda: times_asked() == [1, 0, 1, 1, 1, 1, 1, 1], 4 * SECONDS)
        wait_for(lambda: self.grants() == left)
        lists = self.fake.lists
        self.fake.wait(lambda: self.fake.lists >= lists + 2, "nobody lists")
        self.assertEqual(sum(times_asked()), 7)
        self.assertEqual(self.grants(), left)
        self.assertIn(f"ResourceClaim default/{gone.name}, uid {gone.uid}, is not this node's", self.said())

    def test_a_device_of_nvidias_plugin(self):
        self.give({"nvidia.com/gpu": [self.uuids()[0]]})
        wait_for(lambda: self.well() == ["0", "1"])
        self.give()
        wait_for(lambda: self.well() == ["1", "1"])


class Unenforced(SharedCard):
    ways = "device-plugin"

    def run_in_container(self, *words):
        """A program in a namespace of mounts as the kubelet makes it for each container."""
        folder = pathlib.Path(self.path("pods", POD_UID, "containers", "main"))
        folder.mkdir(parents=True)
        (folder / "5f21a3c7").touch()
        target = pathlib.Path(self.path("termination-log"))
        target.touch()
        command = ["unshare", "-m", "sh", "-c", 'mount --bind "$1" "$2" || exit 99; shift 2; exec "$@"',
                   "sh", str(folder / "5f21a3c7"), str(target), *words]
        program = subprocess.Popen(command, env=self.env, text=True, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE)
        self.addCleanup(program.stdout.close)
        self.addCleanup(program.wait, SECONDS)
        self.addCleanup(program.kill)
        self.addCleanup(program.stdin.close)
        return program

    def unenforced(self):
        return self.metrics("allot_unenforced_containers")

    @unittest.skipIf(os.geteuid(), "only root has namespaces of mounts")
    def test_a_container_that_is_not_held(self):
        program = self.run_in_container(os.environ["FILL"], "--json")
        self.assertTrue(program.stdout.readline())
        wait_for(lambda: self.metrics("allot_outside_memory_bytes"))
        lists = self.fake.lists
        self.fake.wait(lambda: self.fake.lists >= lists + 1, "nobody lists")
        self.assertEqual(self.unenforced(), {})
        # A Pod that has no part of the device uses it: nothing of ours is to come there.
        wait_for(lambda: sorted(self.well()) == ["0", "1"])
        self.assertIn(f"container main of the Pod with uid {POD_UID} uses it without a part of it", self.said())
        first, second = self.uuids()
        self.give({SLOTS: [f"{first.lower()}.0of10", f"{second.lower()}.0of10"]})
        wait_for(self.unenforced)
        wait_for(lambda: self.well() == ["1", "1"])
        self.assertEqual(self.unenforced(), {
            f'{{namespace="",pod="",container="main",uid="{POD_UID}"}}': "1"})
        program.kill()
        wait_for(lambda: not self.unenforced())

    @unittest.skipIf(os.geteuid(), "only root has namespaces of mounts")
    def test_a_container_that_is_held(self):
        first, second = self.uuids()
        self.give({SLOTS: [f"{first.lower()}.0of10", f"{second.lower()}.0of10"]})
        self.env["ALLOT_RUNTIME_DIR"] = self.path("run")
        program = self.run_in_container(os.environ["ALLOT"], "run", "--memory", "8GiB", "--",
                                        os.environ["FILL"], "--json")
        self.assertTrue(program.stdout.readline())
        wait_for(lambda: self.metrics("allot_tenant_processes"))
        lists = self.fake.lists
        self.fake.wait(lambda: self.fake.lists >= lists + 2, "nobody lists")
        self.assertEqual(self.unenforced(), {})


unittest.main()
