# SPDX-License-Identifier: Apache-2.0
"""The DRA driver as a kubelet meets it: registration, claims, health, and all that goes wrong."""

import os
import subprocess
import unittest

import dra_lib
from dra_lib import DRIVER, GPUS, SECONDS, config, dra, grpc, health, registration, result, wait_for

GIB = 1 << 30


class Registration(dra_lib.Case):
    def setUp(self):
        super().setUp()
        self.registry = grpc.insecure_channel(f"unix:{self.kubelet}/plugins_registry/{DRIVER}-reg.sock")
        self.addCleanup(self.registry.close)

    def call(self, method, request, response):
        return self.registry.unary_unary(
            f"/pluginregistration.Registration/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=response.FromString)(request, timeout=SECONDS)

    def notify(self, registered, error=""):
        self.call("NotifyRegistrationStatus",
                  registration.RegistrationStatus(plugin_registered=registered, error=error),
                  registration.RegistrationStatusResponse)

    def test_info(self):
        info = self.call("GetInfo", registration.InfoRequest(), registration.PluginInfo)
        self.assertEqual((info.type, info.name), ("DRAPlugin", DRIVER))
        self.assertEqual(info.endpoint, f"{self.kubelet}/plugins/{DRIVER}/dra.sock")
        self.assertEqual(list(info.supported_versions), [
            "v1.DRAPlugin", "v1.DRAResourceHealth", "v1beta1.DRAResourceHealth",
            "v1alpha1.DRAResourceHealth"])

    def test_status(self):
        """Each kubelet that takes it may have removed the slices."""
        for _ in range(3):
            self.notify(True)
            self.expect("registered")
        self.notify(False, "the version is too new")
        self.notify(True)
        self.expect("registered")
        self.assertIn(f"the kubelet does not take driver {DRIVER}: the version is too new", self.said())

    def test_sockets(self):
        for path in (f"plugins/{DRIVER}/dra.sock", f"plugins_registry/{DRIVER}-reg.sock"):
            self.assertEqual(os.stat(f"{self.kubelet}/{path}").st_mode & 0o777, 0o600)


class Refused(dra_lib.Case):
    """No directory, no driver: it says which, and ends."""

    def start(self):
        os.rmdir(self.kubelet)
        with open(self.log, "w", encoding="utf-8") as log:
            done = subprocess.run([self.path("bin/daemon/dra_host"), self.kubelet, self.cdi, self.api.url(),
                                   self.nvidia], input=b"", stderr=log, timeout=SECONDS,
                                  check=False)
        self.status = done.returncode

    def test_no_directory(self):
        self.assertEqual(self.status, 1)
        self.assertIn(f"{self.kubelet}/plugins cannot be made: No such file", self.said())


class WithoutNvidia(Registration):
    """No CDI file brings NVIDIA's driver: that is said when it is registered, and of each claim."""
    nvidia = ""

    def test_status(self):
        self.notify(True)
        self.expect("registered")
        self.assertIn("will not be prepared: no CDI file in", self.said())

    def test_claim(self):
        self.assertIn("nvidia-ctk cdi generate", self.refused(self.api.add()))
        with open(f"{self.path('cdi')}/nvidia.json", "w", encoding="ascii") as file:
            file.write('{"kind":"nvidia.com/gpu","devices":[{"name":"GPU-%s"}]}' % GPUS[0])
        devices = self.prepare(self.api.add()).popitem()[1].devices
        self.assertEqual(devices[0].cdi_device_ids[1], f"nvidia.com/gpu=GPU-{GPUS[0]}")

    def setUp(self):
        super().setUp()
        os.makedirs(self.path("cdi"), exist_ok=True)

    def grants(self, claim=None):
        return [name for name in os.listdir(self.cdi) if "grant" in name]


class Claims(dra_lib.Case):
    def test_prepare(self):
        claim = self.api.add()
        device, = self.prepared(claim)
        grant = f"claim.{claim.uid}.main"
        self.assertEqual(self.grants(), [grant])
        self.assertEqual(list(device.request_names), ["main"])
        self.assertEqual((device.pool_name, device.device_name), ("node1", f"gpu-{GPUS[0]}"))
        self.assertEqual(device.share_id, self.api.claims[claim.name]["status"]["allocation"]["devices"]
                         ["results"][0]["shareID"])
        self.assertEqual(list(device.cdi_device_ids),
                         [f"allot.dev/grant={grant}", f"nvidia.com/gpu=GPU-{GPUS[0]}"])
        hook = self.hook(grant)
        self.assertEqual(hook["--memory"], str(8 * GIB))
        self.assertEqual((hook["--policy"], hook["--compute"]), ("share", "25.0"))
        self.assertTrue(hook["--tenant"].startswith("default.claim-0.main-"))

    def test_again(self):
        """A prepared claim needs no API server any more."""
        claim = self.api.add(result("a"), result("b", gpu=1))
        first = self.prepared(claim)
        asked = len(self.api.asked)
        self.assertEqual(self.prepared(claim), first)
        self.api.claims.clear()
        self.assertEqual(self.prepared(claim), first)
        self.assertEqual(len(self.api.asked), asked)

    def test_requests(self):
        """Two requests are two tenants; several devices of one are one."""
        claim = self.api.add(result("a"), result("b", memory="4Gi", cores="10"), result("a", gpu=1))
        devices = self.prepared(claim)
        self.assertEqual([list(d.request_names) for d in devices], [["a"], ["b"], ["a"]])
        a, b = f"claim.{claim.uid}.a", f"claim.{claim.uid}.b"
        self.assertEqual(self.grants(claim), [a, b])
        self.assertEqual([list(d.cdi_device_ids) for d in devices], [
            [f"allot.dev/grant={a}", f"nvidia.com/gpu=GPU-{GPUS[0]}", f"nvidia.com/gpu=GPU-{GPUS[1]}"],
            [f"allot.dev/grant={b}", f"nvidia.com/gpu=GPU-{GPUS[0]}"], []])
        self.assertNotEqual(self.hook(a)["--tenant"], self.hook(b)["--tenant"])
        self.assertEqual(self.hook(a)["--memory"], f"{8 * GIB},{8 * GIB}")
        self.assertEqual(self.hook(b)["--compute"], "10.0")

    def test_subrequests(self):
        """Containers, and so the kubelet, know the request's name alone."""
        claim = self.api.add(result("a/big"), result("b"))
        self.assertEqual([list(d.request_names) for d in self.prepared(claim)], [["a"], ["b"]])
        self.assertEqual(self.grants(claim), [f"claim.{claim.uid}.a_big", f"claim.{claim.uid}.b"])
        self.assertEqual([list(d.request_names) for d in self.prepared(claim)], [["a"], ["b"]])

    def test_configuration(self):
        claim = self.api.add(configs=[config(limit=True, priority="low"), config(["main"], overcommit=True)])
        self.prepared(claim)
        hook = self.hook(f"claim.{claim.uid}.main")
        self.assertEqual((hook["--policy"], hook["--priority"]), ("cap", "low"))
        self.assertIn("--overcommit", hook)
        self.assertIn('no field "limits"', self.refused(self.api.add(configs=[config(limits=True)])))

    def test_other_drivers(self):
        nic = {"request": "nic", "driver": "nic.example", "pool": "x", "device": "eth0"}
        claim = self.api.add(nic, result())
        self.assertEqual(len(self.prepared(claim)), 1)
        self.assertEqual(len(self.grants(claim)), 1)
        self.assertIn("no device of driver", self.refused(self.api.add(nic)))

    def test_unprepare(self):
        """As often as it is asked, of whatever, and without the API server."""
        claims = [self.api.add(result("a"), result("b")), self.api.add()]
        self.prepare(*claims)
        other = self.api.add()
        self.prepared(other)
        self.api.close()
        never = dra.Claim(namespace="default", name="never", uid="00000000-0000-0000-0000-000000000000")
        odd = dra.Claim(namespace="../x", name="*", uid="../../etc")
        for _ in range(2):
            errors = self.unprepare(*claims, never, odd)
            self.assertEqual(set(errors.values()), {""})
            self.assertEqual(self.grants(), self.grants(other))

    def test_unprepare_fails(self):
        """It is said, and the next one does it; claims beside it are not held up."""
        claim, other = self.api.add(), self.api.add()
        self.prepare(claim, other)
        path = f"{self.cdi}/allot.dev-grant-claim.{claim.uid}.main.json"
        os.unlink(path)
        os.makedirs(path + "/x")
        errors = self.unprepare(claim, other)
        self.assertIn("cannot be removed from", errors[claim.uid])
        self.assertEqual(errors[other.uid], "")
        os.rmdir(path + "/x")
        os.rmdir(path)
        self.assertEqual(self.unprepare(claim), {claim.uid: ""})

    def test_prepare_fails(self):
        """Of two grants one cannot be written: neither is left."""
        claim = self.api.add(result("a"), result("b"))
        path = f"{self.cdi}/allot.dev-grant-claim.{claim.uid}.b.json"
        os.makedirs(path + "/x")
        self.assertIn("cannot be written into", self.prepare(claim)[claim.uid].error)
        self.assertEqual(self.grants(), [f"claim.{claim.uid}.b"])
        os.rmdir(path + "/x")
        os.rmdir(path)
        self.assertEqual(len(self.prepared(claim)), 2)

    def test_prefix(self):
        """A claim whose uid begins as another's is another one."""
        claim, longer = self.api.add(), self.api.add()
        longer.uid = claim.uid[:8]
        self.api.claims[longer.name]["metadata"]["uid"] = longer.uid
        self.prepare(claim, longer)
        self.unprepare(longer)
        self.assertEqual(len(self.grants()), 1)
        self.assertEqual(self.grants(), self.grants(claim))

    def test_each_for_itself(self):
        good, uid, deleted, bad, refused, unallocated = [self.api.add() for _ in range(6)]
        self.api.claims[uid.name]["metadata"]["uid"] = "another"
        del self.api.claims[deleted.name]
        self.api.claims[bad.name]["status"]["allocation"]["devices"]["results"][0]["consumedCapacity"] = {
            "memory": "-8Gi"}
        self.api.status[refused.name] = 403
        self.api.claims[unallocated.name]["status"] = {}
        odd = dra.Claim(namespace="a/b", name="x", uid="6f1c")
        answer = self.prepare(good, uid, deleted, bad, refused, unallocated, odd)
        self.assertEqual(answer[good.uid].error, "")
        for claim, words in ((uid, "has uid another"), (deleted, "no such claim any more"),
                             (bad, 'memory: "-8Gi" is negative'), (refused, "needs `get` on resourceclaims"),
                             (unallocated, "it is not allocated"), (odd, "none that Kubernetes gives")):
            self.assertIn(words, answer[claim.uid].error)
            self.assertEqual(self.grants(claim), [])
        self.assertEqual(len(self.grants()), 1)
        self.api.claims[bad.name]["status"]["allocation"]["devices"]["results"][0] = result()
        self.prepared(bad)

    def test_capacities(self):
        for memory, cores in (("0", "1"), ("-1", "1"), ("8Gi", "-1"), ("9223372036854775808", "1"),
                              ("8GiB", "1"), ("1e99", "1"), ("25Gi", "1"), ("8Gi", "101"), ("8Gi", "0.01"),
                              ("8\0Gi", "1"), ("\U0001f600" * 100, "1"), ("9" * 100000, "1")):
            self.refused(self.api.add(result(memory=memory, cores=cores)))

    def test_malformed(self):
        deep = value = {}
        for _ in range(500):
            value["x"] = value = {}
        for parameters in (deep, {"x": "y" * (1 << 20)}, [], "text", {"\0": 1}):
            claim = self.api.add(configs=[{"opaque": {"driver": DRIVER, "parameters": parameters}}])
            self.refused(claim)
        with self.assertRaises(grpc.RpcError):
            self.channel.unary_unary(dra_lib.PLUGIN + "NodePrepareResources")(b"\xff" * 100, timeout=SECONDS)
        self.prepared(self.api.add())

    def test_no_server(self):
        self.api.close()
        claim = self.api.add()
        self.assertIn("the API server does not answer", self.refused(claim))


class Together(dra_lib.Case):
    def test_shared(self):
        """Two Pods begin at once with one claim: it is asked for once, and is one tenant."""
        claim = self.api.add()
        self.api.hanging.add(claim.name)
        calls = [self.prepare_later(claim) for _ in range(3)]
        wait_for(lambda: self.api.asked)
        self.prepared(self.api.add())
        self.api.hanging.clear()
        answers = [call.result().claims[claim.uid] for call in calls]
        self.assertEqual([len(answer.devices) for answer in answers], [1, 1, 1])
        self.assertEqual(answers[0], answers[1])
        self.assertEqual(len([path for path in self.api.asked if path.endswith("/" + claim.name)]), 1)
        self.assertEqual(len(self.grants(claim)), 1)

    def test_burst(self):
        claims = [self.api.add(result(memory="256Mi", cores="1")) for _ in range(40)]
        calls = [self.prepare_later(claim) for claim in claims]
        for call, claim in zip(calls, claims):
            self.assertEqual(call.result().claims[claim.uid].error, "")
        self.assertEqual(len(self.grants()), 40)
        answer = self.prepare(*claims)
        self.assertEqual([answer[claim.uid].error for claim in claims], [""] * 40)
        self.unprepare(*claims)
        self.assertEqual(self.grants(), [])

    def test_given_up(self):
        """The kubelet ends, or its time is up: nothing is there that nobody knows of."""
        claim, other = self.api.add(), self.api.add()
        self.api.hanging.add(claim.name)
        call = self.prepare_later(claim, other)
        wait_for(lambda: len(self.api.asked) == 2)
        both = self.prepare_later(claim)
        call.cancel()
        self.prepared(other)
        self.api.hanging.clear()
        self.assertEqual(both.result().claims[claim.uid].error, "")
        late = self.api.add()
        self.api.hanging.add(late.name)
        with self.assertRaises(grpc.RpcError):
            self.prepare_later(late, timeout=0.5).result()
        self.api.hanging.clear()
        wait_for(lambda: any(path.endswith("/" + late.name) for path in self.api.answered))
        self.prepared(self.api.add())
        self.assertEqual(self.grants(late), [])
        self.prepared(late)

    def test_unprepare_meanwhile(self):
        claim, other = self.api.add(), self.api.add()
        self.api.hanging.update((claim.name, other.name))
        calls = [self.prepare_later(claim, other), self.prepare_later(claim)]
        wait_for(lambda: len(self.api.asked) == 2)
        self.assertEqual(self.unprepare(claim), {claim.uid: ""})
        self.assertIn("given up meanwhile", calls[1].result().claims[claim.uid].error)
        self.api.hanging.clear()
        answer = calls[0].result().claims
        self.assertIn("given up meanwhile", answer[claim.uid].error)
        self.assertEqual(answer[other.uid].error, "")
        self.assertEqual(self.grants(), self.grants(other))
        self.assertEqual(len(self.grants()), 1)

    def test_same_claim_twice_in_a_call(self):
        claim = self.api.add()
        self.assertEqual(len(self.prepare(claim, claim)[claim.uid].devices), 1)
        self.assertEqual(self.unprepare(claim, claim), {claim.uid: ""})

    def test_descriptors(self):
        """Kubelets come and go."""
        def open_files():
            return len(os.listdir(f"/proc/{self.host.pid}/fd"))

        def once():
            claims = [self.api.add() for _ in range(10)]
            self.prepare(*claims)
            self.unprepare(*claims)
            with grpc.insecure_channel(f"unix:{self.kubelet}/plugins/{DRIVER}/dra.sock",
                                       [("grpc.use_local_subchannel_pool", 1)]) as channel:
                stream = channel.unary_stream("/v1alpha1.DRAResourceHealth/NodeWatchResources")(b"")
                next(stream)

        once()
        before = open_files()
        for _ in range(20):
            once()
        wait_for(lambda: open_files() <= before)


class Killed(dra_lib.Case):
    def again(self):
        self.kill()
        self.start()

    def test_prepared(self):
        claim = self.api.add(result("a"), result("b", gpu=1))
        first = self.prepared(claim)
        self.again()
        self.assertIn("grants of claims in", self.said())
        self.api.claims.clear()
        self.assertEqual(self.prepared(claim), first)
        self.again()
        self.assertEqual(self.unprepare(claim), {claim.uid: ""})
        self.assertEqual(self.grants(), [])

    def test_half(self):
        """Killed between two files: what is there does not answer for what is not."""
        claim = self.api.add(result("a"), result("b", gpu=1))
        first = self.prepared(claim)
        for request in "ab":
            os.unlink(f"{self.cdi}/allot.dev-grant-claim.{claim.uid}.{request}.json")
            self.again()
            self.assertEqual(self.prepared(claim), first)
            self.assertEqual(len(self.grants(claim)), 2)

    def test_damaged(self):
        claim = self.api.add()
        first = self.prepared(claim)
        with open(f"{self.cdi}/allot.dev-grant-claim.{claim.uid}.main.json", "w", encoding="ascii") as file:
            file.write("{")
        self.assertEqual(self.prepared(claim), first)

    def test_in_flight(self):
        claim = self.api.add()
        self.api.hanging.add(claim.name)
        call = self.prepare_later(claim)
        wait_for(lambda: self.api.asked)
        self.again()
        with self.assertRaises(grpc.RpcError):
            call.result()
        self.api.hanging.clear()
        self.assertEqual(self.grants(), [])
        self.prepared(claim)


class Health(dra_lib.Case):
    def watch(self, version="v1alpha1"):
        stream = self.channel.unary_stream(
            f"/{version}.DRAResourceHealth/NodeWatchResources",
            response_deserializer=health.NodeWatchResourcesResponse.FromString)(b"", timeout=SECONDS)
        self.addCleanup(stream.cancel)
        return stream

    def heard(self, stream):
        devices = next(stream).devices
        self.assertEqual([(d.device.pool_name, d.device.device_name) for d in devices],
                         [("node1", f"gpu-{uuid}") for uuid in GPUS])
        for d in devices:
            self.assertGreater(d.last_updated_time, 0)
            self.assertEqual(d.health_check_timeout_seconds, 30)
        return [(d.health, d.message) for d in devices]

    def test_stream(self):
        streams = [self.watch(version) for version in ("v1alpha1", "v1beta1", "v1")]
        well = [(health.HEALTHY, "")] * 2
        sick = [(health.HEALTHY, ""), (health.UNHEALTHY, "Xid 79: fallen off the bus")]
        for stream in streams:
            self.assertEqual(self.heard(stream), well)
        self.tell("sick 1 Xid 79: fallen off the bus")
        for stream in streams:
            self.assertEqual(self.heard(stream), sick)
        streams.pop().cancel()
        self.tell("well 1")
        for stream in streams:
            self.assertEqual(self.heard(stream), well)

    def test_many_streams(self):
        streams = [self.watch() for _ in range(8)]
        for stream in streams:
            self.heard(stream)
        with self.assertRaises(grpc.RpcError):
            next(self.watch())

    def test_sick(self):
        """Nothing new comes to a sick device, whatever is granted already, and what is there can go."""
        claim, other = self.api.add(), self.api.add(result(gpu=1))
        self.prepared(claim)
        self.tell("sick 0 Xid 79")
        del self.api.claims[claim.name]
        self.assertIn("is sick: Xid 79", self.refused(self.api.add()))
        self.assertIn("is sick: Xid 79", self.prepare(claim)[claim.uid].error)
        self.prepared(other)
        self.tell("well 0")
        self.prepared(claim)
        self.tell("sick 0 Xid 79")
        self.assertEqual(self.unprepare(claim), {claim.uid: ""})
        self.assertEqual(self.grants(claim), [])


unittest.main()
