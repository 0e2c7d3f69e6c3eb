# SPDX-License-Identifier: Apache-2.0
"""The device plugin against a kubelet by gRPC's own library, as kubelets 1.20 and 1.34 behave."""

import contextlib
import json
import os
import shutil
import socket
import threading
import time
import unittest

from plugin_case import (BUILD, CORES, GIB, GPU_GIB, GPUS, MEMORY, RESOURCES, SECONDS, SLOTS, Node,
                         gpu_of, slot, uuid)
import grpc
from kubelet import PLUGIN


class New(Node):
    def test_registration(self):
        self.begin()
        slots, memory, cores = (self.kubelet.endpoints[r] for r in RESOURCES)
        self.assertEqual(len(slots.devices), GPUS * 10)
        self.assertEqual(len(memory.devices), GPUS * GPU_GIB)
        self.assertEqual(len(cores.devices), GPUS * 100)
        self.assertTrue(slots.options.pre_start_required)
        self.assertTrue(slots.options.get_preferred_allocation_available)
        self.assertFalse(memory.options.pre_start_required)
        self.assertEqual([n.ID for n in slots.devices[slot(3, 9)].topology.nodes], [1])
        self.assertEqual(len(memory.devices[f"{uuid(3).lower()}.m79"].topology.nodes), 0)
        self.assertLessEqual(max(len(d) for e in (slots, memory, cores) for d in e.devices), 63)
        self.assertEqual({p.name for p in self.kubelet.plugins.iterdir()},
                         {"kubelet.sock"} | {f"allot-{r.replace('/', '-')}.sock" for r in RESOURCES})

    def test_kubelet_comes_later(self):
        """Its directory, too."""
        self.kubelet.plugins.rmdir()
        self.assertTrue(self.start_node())
        time.sleep(0.2)
        self.kubelet.plugins.mkdir()
        self.kubelet.start()
        self.kubelet.wait_registered(RESOURCES)

    def test_restarts(self):
        """20 of them: each registers all of it again, and nothing is left of those before."""
        self.begin()
        self.run_pod("stays", {"main": {SLOTS: 1, MEMORY: 7}})
        before, grants = None, self.grants()
        for i in range(20):
            self.kubelet.stop()
            self.kubelet.start(self.settled)
            self.kubelet.wait_registered(RESOURCES)
            if i == 2:
                before = self.descriptors()
        self.wait(lambda: self.descriptors() <= before, lambda: f"{self.descriptors()} > {before}")
        self.assertEqual(self.grants(), grants)
        self.kubelet.start_container("default", "stays", "main")
        self.assertEqual(self.grants(), grants)

    def test_own_socket_is_removed(self):
        self.begin()
        before = self.kubelet.endpoints[SLOTS]
        (self.kubelet.plugins / "allot-huawei.com-vgpu-number.sock").unlink()
        self.kubelet.wait(lambda: self.kubelet.endpoints[SLOTS] is not before, "it is not registered again")
        self.kubelet.wait_registered(RESOURCES)
        self.run_pod("a", {"main": {SLOTS: 1}})

    def test_kubelet_forgets(self):
        """The stream of devices ends, and nothing else tells that it is not registered any more."""
        self.begin()
        before = self.kubelet.endpoints[SLOTS]
        before.watch.cancel()
        self.kubelet.wait(lambda: self.kubelet.endpoints[SLOTS] is not before, "it is not registered again")

    def test_refused(self):
        """A socket on which nobody listens yet, then a kubelet that refuses for a while."""
        kubelet = self.kubelet
        with socket.socket(socket.AF_UNIX) as sock:
            sock.bind(str(kubelet.plugins / "kubelet.sock"))
            self.assertTrue(self.start_node())
            time.sleep(0.5)
        kubelet.refuse = "not today: 100 %"
        kubelet.start()
        self.wait(lambda: "not today: 100 %" in self.log(), self.log)
        kubelet.refuse = None
        kubelet.wait_registered(RESOURCES)

    def test_health(self):
        self.begin()
        endpoints = [self.kubelet.endpoints[r] for r in RESOURCES]
        self.say("sick 2")
        self.kubelet.wait(lambda: all(e.lists == 2 for e in endpoints), "nobody says it")
        for endpoint, n in zip(endpoints, (10, GPU_GIB, 100)):
            sick = {*endpoint.devices} - endpoint.healthy()
            self.assertEqual({gpu_of(i) for i in sick}, {2})
            self.assertEqual(len(sick), n)
        self.say("sick 2\nwell 2")
        self.kubelet.wait(lambda: all(len(e.healthy()) == len(e.devices) for e in endpoints),
                          "it is not well again")

    def test_names(self):
        """What the runtime is asked for: a name of ours for each slot, and NVIDIA's for each GPU."""
        self.begin()
        answer = self.run_pod("pod", {"main": {SLOTS: 5, MEMORY: 3, CORES: 20}})["main"]
        slots = self.kubelet.pods["default", "pod"]["main"][SLOTS]
        names = [d.name for d in answer[SLOTS].cdi_devices]
        gpus = {gpu_of(s) for s in slots}
        self.assertEqual({*names}, {f"allot.dev/grant=slot-{s}" for s in slots} |
                         {f"nvidia.com/gpu={uuid(g)}" for g in gpus})
        self.assertEqual(len(names), 5 + GPUS)
        self.assertEqual(dict(answer[SLOTS].annotations),
                         {"cdi.k8s.io/allot-huawei.com-vgpu-number": ",".join(names)})
        for resource in (MEMORY, CORES):
            self.assertEqual(answer[resource].ByteSize(), 0)
        first, *others = sorted(slots)
        told = self.granted(first)
        quotas = {g: 3 * GIB * sum(gpu_of(s) == g for s in slots) for g in gpus}
        self.assertEqual(told["--gpu"].split(","), [uuid(g) for g in sorted(gpus)])
        self.assertEqual(told["--memory"], ",".join(str(quotas[g]) for g in sorted(gpus)))
        self.assertEqual(told["--compute"], ",".join(f"{quotas[g] // GIB // 3 * 20}.0"
                                                     for g in sorted(gpus)))
        self.assertEqual(told["--policy"], "share")
        self.assertTrue(told["--tenant"].startswith("default.pod.main"), told)
        self.assertEqual({*self.grants()}, {*slots})
        for other in others:
            self.assertEqual(self.granted(other), {})

    def test_slot_alone(self):
        """Who asks for neither memory nor cores has as much as a slot is of a GPU."""
        self.begin()
        self.run_pod("pod", {"main": {SLOTS: 1}})
        [told] = (self.options(spec) for spec in self.grants().values())
        self.assertEqual((told["--memory"], told["--compute"], told["--policy"]),
                         (str(GPU_GIB * GIB // 10), "10.0", "share"))

    def test_same_pod_again(self):
        """A container that starts again has its tenant; a later Pod of the same name has another."""
        self.begin()
        self.run_pod("web-0", {"main": {SLOTS: 1, MEMORY: 2}})
        [slot_id] = self.grants()
        tenant = self.granted(slot_id)["--tenant"]
        self.kubelet.start_container("default", "web-0", "main")
        self.assertEqual(self.granted(slot_id)["--tenant"], tenant)
        self.kubelet.delete("default", "web-0")
        self.run_pod("web-0", {"main": {SLOTS: 1, MEMORY: 3}})
        self.assertEqual([*self.grants()], [slot_id])
        self.assertEqual(self.granted(slot_id)["--memory"], str(3 * GIB))
        self.assertNotEqual(self.granted(slot_id)["--tenant"], tenant)

    def test_lost_grant(self):
        """What was removed is there before the container starts again."""
        self.begin()
        self.run_pod("pod", {"main": {SLOTS: 2, MEMORY: 2}})
        before = self.grants()
        for path in self.cdi.glob("allot*"):
            path.unlink()
        self.kubelet.start_container("default", "pod", "main")
        self.assertEqual(self.grants(), before)

    def test_folder_needs_its_file(self):
        """What is made first has to be found again: no folder of vgpu.config that no grant names."""
        self.begin()
        self.kubelet.admit("default", "pod", {"main": {SLOTS: 1, MEMORY: 2}})
        self.cdi.rename(self.top / "aside")
        self.cdi.touch()
        error = self.refused(self.kubelet.start_container, "default", "pod", "main")
        self.assertIn("cannot be written", error.details())
        self.assertEqual([*self.top.glob("xpu/*")], [])
        self.cdi.unlink()
        (self.top / "aside").rename(self.cdi)
        self.kubelet.start_container("default", "pod", "main")
        [folder] = self.top.glob("xpu/*")
        self.kubelet.delete("default", "pod")
        self.wait(lambda: not self.grants() and not folder.exists(), "its folder stays")

    def prefer(self, n, free, must=()):
        request = PLUGIN.PreferredAllocationRequest()
        request.container_requests.add(available_deviceIDs=free, must_include_deviceIDs=must,
                                       allocation_size=n)
        answer = self.kubelet.endpoints[SLOTS].ask("GetPreferredAllocation", request,
                                                   PLUGIN.PreferredAllocationResponse)
        return [*answer.container_responses[0].deviceIDs]

    def test_preferred(self):
        self.begin()
        every = [slot(g, n) for g in range(GPUS) for n in range(10)]
        # The GPU that has the most free ones, since containers say how much they want.
        self.assertEqual(gpu_of(*self.prefer(1, [s for s in every if s != slot(0, 4)])), 1)
        # Two GPUs of one node, of which the second is emptier; these stay together.
        free = [s for s in every if s not in (slot(0, 0), slot(1, 0))]
        self.assertEqual(sorted(map(gpu_of, self.prefer(2, free))), [2, 3])
        self.assertEqual(sorted(map(gpu_of, self.prefer(2, free, [slot(0, 3)]))), [0, 1])
        self.assertEqual(sorted(map(gpu_of, self.prefer(4, every))), [0, 1, 2, 3])
        self.assertEqual(len({*self.prefer(11, every)}), 11)
        self.assertIn("gone", self.prefer(2, [slot(0, 0), "gone"]))
        self.assertEqual(self.prefer(0, every), [])
        error = self.refused(self.prefer, 3, every[:2])
        self.assertEqual(error.code(), grpc.StatusCode.INVALID_ARGUMENT)

    def test_too_much(self):
        """GPUs are filled side by side. On one whose memory is given away, who comes last does not
        start, and is told why."""
        self.begin()
        for gpu in range(GPUS):
            self.run_pod(f"first-{gpu}", {"main": {SLOTS: 1, MEMORY: 60}})
        self.assertEqual({gpu_of(s) for s in self.kubelet.used(SLOTS)}, {*range(GPUS)})
        self.kubelet.admit("default", "second", {"main": {SLOTS: 1, MEMORY: 30}})
        error = self.refused(self.kubelet.start_container, "default", "second", "main")
        for words in ("default/second", "main", "30 GiB", uuid(0), "60 GiB", "80 GiB",
                      "delete the Pod"):
            self.assertIn(words, error.details())
        self.assertEqual(len(self.grants()), GPUS)
        self.kubelet.start_container("default", "first-0", "main")
        self.kubelet.delete("default", "first-0")
        self.wait(lambda: len(self.grants()) < GPUS, "the first one's grant stays")
        self.kubelet.start_container("default", "second", "main")
        self.kubelet.admit("default", "third", {"main": {SLOTS: 1, MEMORY: 90}})
        error = self.refused(self.kubelet.start_container, "default", "third", "main")
        self.assertIn("90 GiB", error.details())

    def test_deleted(self):
        """Also while the daemon was away; those of others stay."""
        self.begin()
        for pod in ("a", "b", "c"):
            self.run_pod(pod, {"main": {SLOTS: 2}})
        self.kubelet.delete("default", "a")
        self.wait(lambda: {*self.grants()} == self.kubelet.used(SLOTS), self.grants)
        self.node.kill()
        self.node.wait()
        self.node.stdin.close()
        self.node.stdout.close()
        self.kubelet.delete("default", "b")
        self.assertEqual(len(self.grants()), 4)
        self.assertTrue(self.start_node())
        self.wait(lambda: {*self.grants()} == self.kubelet.used(SLOTS), self.grants)
        self.assertEqual(len(self.grants()), 2)

    def test_kubelet_that_knows_no_pod_yet(self):
        """One that has just started: what it does not list may be running."""
        self.begin()
        self.run_pod("a", {"main": {SLOTS: 1}})
        pods, self.kubelet.pods = self.kubelet.pods, {}
        self.kubelet.stop()
        self.kubelet.start(settled=False)
        lists = self.kubelet.lists
        self.wait(lambda: self.kubelet.lists >= lists + 3, "nobody asks")
        self.assertEqual(len(self.grants()), 1)
        self.kubelet.settle()
        self.wait(lambda: not self.grants(), self.grants)
        self.kubelet.pods = pods
        self.kubelet.start_container("default", "a", "main")
        self.assertEqual(len(self.grants()), 1)

    def test_kubelet_without_an_api_server(self):
        """It knows no Pod but those of its own files, for as long as that is: a node always has others."""
        self.conf = (*self.conf, "node=worker-1")
        self.begin()
        self.run_pod("a", {"main": {SLOTS: 1, MEMORY: 60}})
        grants = self.grants()
        self.kubelet.stop()
        pods, self.kubelet.pods = self.kubelet.pods, {}
        self.kubelet.start(settled=True)
        for own in ([], ["nginx-proxy-worker-1"]):
            self.kubelet.daemons = own
            lists = self.kubelet.lists
            self.wait(lambda: self.kubelet.lists >= lists + 3, "nobody asks")
            self.assertEqual(self.grants(), grants)
        # It is heard again: what runs has its memory, and what it does not tell of has not.
        with self.kubelet.changed:
            self.kubelet.daemons, self.kubelet.pods = ["nginx-proxy-worker-1", "network-x7k2p"], pods
        self.kubelet.wait_registered(RESOURCES)
        gpu = gpu_of(*grants)
        free = next(s for s in (slot(gpu, n) for n in range(10)) if s not in grants)
        pods["default", "b"] = {"main": {SLOTS: [free], MEMORY: [f"m{n}" for n in range(30)]}}
        error = self.refused(self.kubelet.start_container, "default", "b", "main")
        self.assertIn("60 GiB", error.details())
        self.kubelet.pods = {}
        self.wait(lambda: not self.grants(), self.grants)

    def test_nobody_has_it(self):
        self.begin()
        request = PLUGIN.PreStartContainerRequest(devices_ids=[slot(0, 0)])
        ask = self.kubelet.endpoints[SLOTS].ask
        error = self.refused(ask, "PreStartContainer", request, PLUGIN.PreStartContainerResponse)
        self.assertEqual(error.code(), grpc.StatusCode.NOT_FOUND)
        self.assertIn(slot(0, 0), error.details())
        self.run_pod("a", {"main": {SLOTS: 2}})
        one = PLUGIN.PreStartContainerRequest(
            devices_ids=self.kubelet.pods["default", "a"]["main"][SLOTS][:1])
        self.assertEqual(self.refused(ask, "PreStartContainer", one,
                                      PLUGIN.PreStartContainerResponse).code(),
                         grpc.StatusCode.NOT_FOUND)

    def test_allocate_does_not_wait(self):
        """For a kubelet that does not say whose slots these are; the container's start does."""
        self.begin()
        self.kubelet.slow = 1.5
        self.kubelet.admit("default", "a", {"main": {SLOTS: 1}})
        thread = threading.Thread(target=self.kubelet.start_container, args=("default", "a", "main"))
        thread.start()
        self.kubelet.wait(lambda: self.kubelet.listing, "nobody asks")
        self.kubelet.admit("default", "b", {"main": {SLOTS: 1}})
        self.assertEqual(self.grants(), {})
        thread.join()
        self.assertEqual(len(self.grants()), 1)

    def test_no_list(self):
        """The kubelet's list is not there at once, and then refused a few times: the start waits."""
        self.begin()
        self.kubelet.admit("default", "a", {"main": {SLOTS: 1}})
        self.kubelet.servers.pop(0).stop(0).wait()
        thread = threading.Thread(target=self.kubelet.start_container, args=("default", "a", "main"))
        thread.start()
        time.sleep(0.3)
        self.kubelet.too_many = 3
        self.kubelet.serve_pods()
        thread.join()
        self.assertEqual(len(self.grants()), 1)

    def test_pod_is_listed_late(self):
        self.begin()
        self.kubelet.admit("default", "a", {"main": {SLOTS: 1}})
        pods, self.kubelet.pods = self.kubelet.pods, {}
        request = PLUGIN.PreStartContainerRequest(devices_ids=pods["default", "a"]["main"][SLOTS])
        call = self.kubelet.endpoints[SLOTS].channel.unary_unary("/v1beta1.DevicePlugin/PreStartContainer")
        answer = call.future(request.SerializeToString(), timeout=SECONDS)
        self.kubelet.wait(lambda: self.kubelet.lists, "nobody asks")
        self.kubelet.pods = pods
        answer.result()
        self.assertEqual(len(self.grants()), 1)

    def test_gives_up(self):
        """The kubelet gives up a call whose answer comes later, and asks again."""
        self.begin()
        self.kubelet.admit("default", "a", {"main": {SLOTS: 1}})
        self.kubelet.slow = 1
        error = self.refused(self.kubelet.start_container, "default", "a", "main", 0.2)
        self.assertEqual(error.code(), grpc.StatusCode.DEADLINE_EXCEEDED)
        self.kubelet.start_container("default", "a", "main")
        self.assertEqual(len(self.grants()), 1)

    def ask_raw(self, method, data, resource=SLOTS):
        call = self.kubelet.endpoints[resource].channel.unary_unary(f"/v1beta1.DevicePlugin/{method}")
        return call(data, timeout=SECONDS)

    def test_malformed(self):
        self.begin()
        methods = ("Allocate", "GetPreferredAllocation", "PreStartContainer")
        for data in (b"\xff" * 100, b"\x0a\xff\xff\xff\xff\x0f", b"\x0a\x05\x0a\x03\xff",
                     b"\x0a\x04\x0a\x02a\0", b"\x0a\x03\x18\xff\xff", b"x" * (4 << 20)):
            for method in methods:
                for resource in RESOURCES:
                    try:
                        self.ask_raw(method, data, resource)
                    except grpc.RpcError as error:
                        self.assertIn(error.code(), (grpc.StatusCode.INVALID_ARGUMENT,
                                                     grpc.StatusCode.NOT_FOUND), (method, data[:20]))
        for name in ("", "a", slot(0, 10), slot(0, 0, 0), slot(9, 0), slot(0, 0) + "x", "." * 300,
                     slot(0, 1).replace(".1of", ".01of"), slot(0, 0).replace("10", "9" * 30),
                     "../../etc/passwd", "a\0b"):
            request = PLUGIN.AllocateRequest()
            request.container_requests.add(devices_ids=[name])
            error = self.refused(self.ask_raw, "Allocate", request.SerializeToString())
            self.assertEqual(error.code(), grpc.StatusCode.INVALID_ARGUMENT, name)
        request = PLUGIN.AllocateRequest()
        for _ in range(60000):
            request.container_requests.add()
        self.refused(self.ask_raw, "Allocate", request.SerializeToString())
        self.refused(self.prefer, -1 & 0x7fffffff, [slot(0, 0)])
        self.refused(self.prefer, 1, [slot(0, 0)] * 60000)
        for _ in range(20):
            stream = self.kubelet.endpoints[SLOTS].channel.unary_stream(
                "/v1beta1.DevicePlugin/ListAndWatch")(b"", timeout=SECONDS)
            # One that is dropped before its headers are on their way is reset all the same by gRPC's own library:
            # a reset of a stream that never was ends the connection.
            with contextlib.suppress(grpc.RpcError):
                next(stream)
        self.run_pod("a", {"main": {SLOTS: 1}})
        self.assertIsNone(self.node.poll())

    def test_too_many_devices(self):
        """More than one message has room for: not at start, and the number is said."""
        self.kubelet.start()
        self.assertFalse(self.start_node("resource=example.com/gpu slots 4",
                                         "resource=example.com/memory memory 1MiB", gpus=8))
        self.assertEqual(self.node.wait(SECONDS), 1)
        self.node.stdin.close()
        self.node.stdout.close()
        self.assertIn(f"example.com/memory has {8 * GPU_GIB * 1024} devices", self.log())

    def test_cores_are_a_limit(self):
        self.conf = ("cores=limit",)
        self.begin()
        self.run_pod("a", {"main": {SLOTS: 1, CORES: 35}})
        [told] = (self.options(spec) for spec in self.grants().values())
        self.assertEqual((told["--policy"], told["--compute"]), ("cap", "35.0"))

    def test_no_driver(self):
        """Never a container with our library and without a GPU."""
        (self.cdi / "nvidia.yaml").unlink()
        self.begin()
        error = self.refused(self.kubelet.admit, "default", "a", {"main": {SLOTS: 1}})
        self.assertIn("nvidia-ctk", error.details())

    def test_no_gpu_without_the_grant(self):
        """A runtime that knows no CDI has no GPU for the container, whatever its image asks NVIDIA's for."""
        self.begin()
        answer = self.run_pod("a", {"main": {SLOTS: 2}})["main"]
        self.assertEqual(dict(answer[SLOTS].envs), {"NVIDIA_VISIBLE_DEVICES": "void"})
        for spec in self.grants().values():
            env = spec["devices"][0]["containerEdits"]["env"]
            self.assertFalse([line for line in env if line.startswith("NVIDIA")], env)

    def test_driver_by_runtime_class(self):
        """There the GPU comes by a variable, which the grant sets."""
        (self.cdi / "nvidia.yaml").unlink()
        self.conf = ("nvidia-cdi=none",)
        self.begin()
        answer = self.run_pod("a", {"main": {SLOTS: 1}})["main"][SLOTS]
        self.assertEqual(dict(answer.envs), {"NVIDIA_VISIBLE_DEVICES": "void"})
        [[slot_id, spec]] = self.grants().items()
        env = spec["devices"][0]["containerEdits"]["env"]
        self.assertIn(f"NVIDIA_VISIBLE_DEVICES={uuid(gpu_of(slot_id))}", env)

    def test_kind_of_another_file(self):
        """A kind that ends alike is another one, and a GPU that is only mentioned is no device."""
        others = f"containerEdits: {{env: [ONE={uuid(0)}]}}\n# nvidia.com/gpu\n"
        (self.cdi / "nvidia.yaml").write_text("kind: nvidia.com/gpu\n- name: 'all'\n" + others,
                                              encoding="ascii")
        device = {"kind": "k8s.device-plugin.nvidia.com/gpu",
                  "devices": [{"name": uuid(i)} for i in range(GPUS)]}
        (self.cdi / "plugin.json").write_text(json.dumps(device), encoding="ascii")
        self.begin()
        answer = self.kubelet.admit("default", "a", {"main": {SLOTS: 1}})["main"][SLOTS]
        kinds = [d.name.split("=")[0] for d in answer.cdi_devices]
        self.assertEqual(kinds, ["allot.dev/grant", "k8s.device-plugin.nvidia.com/gpu"])

    def test_long_resource(self):
        """A socket's path has its bound."""
        name = "a" * 60 + ".example.com/" + "b" * 60
        self.kubelet.start()
        self.assertTrue(self.start_node(f"resource={name} slots 2"))
        self.kubelet.wait_registered([name])
        self.kubelet.admit("default", "a", {"main": {name: 1}})
        self.kubelet.start_container("default", "a", "main")
        self.assertEqual(len(self.grants()), 1)


class Mounts(Node):
    """For runtimes without CDI."""
    conf = ("delivery=mounts",)
    umask = 0o077  # as services have it

    def test_mounts(self):
        self.begin()
        self.kubelet.admit("default", "a", {"main": {SLOTS: 2, MEMORY: 7, CORES: 25}})
        slots = self.kubelet.pods["default", "a"]["main"][SLOTS]
        answer = self.kubelet.endpoints[SLOTS].ask(
            "Allocate", PLUGIN.AllocateRequest(container_requests=[{"devices_ids": slots[::-1]}]),
            PLUGIN.AllocateResponse).container_responses[0]
        folder = self.top / "xpu" / f"slot-{min(slots)}"
        self.assertEqual([*answer.cdi_devices], [])
        self.assertEqual([*answer.annotations], [])
        self.assertEqual({(m.container_path, m.host_path, m.read_only) for m in answer.mounts},
                         {("/etc/xpu", str(folder), True),
                          ("/etc/ld.so.preload", str(self.top / "xpu/ld.so.preload"), True),
                          ("/opt/allot/liballot.so", str(self.top / "xpu/liballot.so"), True)})
        self.assertEqual({*answer.envs}, {"NVIDIA_VISIBLE_DEVICES"})
        self.assertEqual({*answer.envs["NVIDIA_VISIBLE_DEVICES"].split(",")}, {uuid(gpu_of(s)) for s in slots})
        self.assertFalse(folder.exists())
        self.kubelet.start_container("default", "a", "main")
        self.assertEqual((folder / "vgpu.config").read_text(), "UsedMem:7168\nUsedCores:25\n")
        self.assertEqual((self.top / "xpu/ld.so.preload").read_text(), "/opt/allot/liballot.so\n")
        # Programs of any user read all of it.
        self.assertEqual([f.stat().st_mode & 0o7777 for f in (folder.parent, folder)], [0o755, 0o755])
        # Lost, as after a crash: it is there again before the container is.
        shutil.rmtree(self.top / "xpu")
        self.kubelet.start_container("default", "a", "main")
        self.assertEqual((folder / "vgpu.config").read_text(), "UsedMem:7168\nUsedCores:25\n")
        self.kubelet.delete("default", "a")
        self.wait(lambda: not folder.exists(), "its folder stays")

    def mounted(self):
        """The library as a container has it that starts now."""
        return (self.top / "xpu/liballot.so").open("rb")

    def test_upgrade(self):
        """What is mounted by Allocate's only answer is there at each start, whatever became of that version's files."""
        self.begin()
        self.run_pod("a", {"main": {SLOTS: 1}})
        with self.mounted() as first:
            self.assertEqual(first.read(), (BUILD / "src/guest/liballot.so").read_bytes())
            self.kubelet.start_container("default", "a", "main")
            with self.mounted() as same:
                self.assertEqual(os.fstat(same.fileno()).st_ino, os.fstat(first.fileno()).st_ino)
            library = self.top / "src/guest/liballot.so"
            library.unlink()
            library.write_bytes(b"another version")
            self.kubelet.start_container("default", "a", "main")
            # One that runs has what it had.
            first.seek(0)
            self.assertEqual(first.read(), (BUILD / "src/guest/liballot.so").read_bytes())
        path = self.top / "xpu/liballot.so"
        self.assertEqual((path.read_bytes(), path.stat().st_mode & 0o7777), (b"another version", 0o644))
        self.assertEqual(sorted(p.name for p in path.parent.iterdir() if p.name.startswith((".", "l"))),
                         ["ld.so.preload", "liballot.so"])

    def test_folder_in_place_of_the_library(self):
        """As a runtime leaves it that was to mount what was not there."""
        self.begin()
        (self.top / "xpu/liballot.so").mkdir(parents=True)
        self.run_pod("a", {"main": {SLOTS: 1}})
        with self.mounted() as library:
            self.assertEqual(library.read(), (BUILD / "src/guest/liballot.so").read_bytes())

    def test_ways_that_need_cdi(self):
        for conf in (("ways=dra",), ("scheduler=hami", "api=http://127.0.0.1:1", f"account={self.top}", "node=n")):
            self.assertFalse(self.start_node("delivery=mounts", *conf))
            self.assertEqual(self.node.wait(SECONDS), 2)
            self.node.stdin.close()
            self.node.stdout.close()
            self.assertIn("delivery = mounts: that needs ways = device-plugin", self.log())


class Old(Node):
    """What kubelets before 1.26 do otherwise."""

    version = "1.20"

    def test_pod(self):
        self.begin()
        self.assertEqual(self.kubelet.endpoints[SLOTS].options.pre_start_required, True)
        answer = self.run_pod("a", {"main": {SLOTS: 1, MEMORY: 4}})["main"][SLOTS]
        [slot_id] = self.grants()
        self.assertEqual(self.granted(slot_id)["--memory"], str(4 * GIB))
        self.assertTrue(answer.annotations)

    def test_restarts(self):
        self.begin()
        for _ in range(20):
            self.kubelet.stop()
            self.kubelet.start()
            self.kubelet.wait_registered(RESOURCES)


class Many(Node):
    conf = (f"resource={SLOTS} slots 40", f"resource={MEMORY} memory 256MiB",
            f"resource={CORES} cores 1")

    def test_at_once(self):
        """50 Pods of two containers, each of which has a quota of its own, start at the same time."""
        self.begin()
        wanted = {}
        for pod in range(50):
            wanted[f"pod-{pod}"] = {name: {SLOTS: 1, MEMORY: 1 + (2 * pod + i) % 12, CORES: 1 + pod % 2}
                                    for i, name in enumerate(("main", "side"))}
        for pod, containers in wanted.items():
            self.kubelet.admit("default", pod, containers)
        self.kubelet.slow = 0.05
        errors = []

        def start(pod, container):
            try:
                self.kubelet.start_container("default", pod, container)
            except grpc.RpcError as error:
                errors.append((pod, container, error.details()))

        threads = [threading.Thread(target=start, args=(pod, c)) for pod in wanted for c in wanted[pod]]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(errors, [])
        self.assertEqual(self.kubelet.most_listing, 1)
        tenants = set()
        for pod, containers in wanted.items():
            for name, resources in containers.items():
                [slot_id] = self.kubelet.pods["default", pod][name][SLOTS]
                told = self.granted(slot_id)
                self.assertEqual(told["--memory"], str(resources[MEMORY] * GIB // 4), (pod, name))
                self.assertEqual(told["--compute"], f"{resources[CORES]}.0")
                self.assertRegex(told["--tenant"], f"^default\\.{pod}\\.{name}-[0-9a-f]{{8}}$")
                tenants.add(told["--tenant"])
        self.assertEqual(len(tenants), 100)
        self.assertEqual(len(self.grants()), 100)


unittest.main()
