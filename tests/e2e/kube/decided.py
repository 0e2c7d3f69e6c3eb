# SPDX-License-Identifier: Apache-2.0
"""Pods that a scheduler with annotations placed: what it decided is what their containers get."""

import http.server
import json
import os
import threading
import unittest

from plugin_case import CORES, GIB, MEMORY, SLOTS, Node, uuid

NODE = "node-1"
PATH = f"/api/v1/nodes/{NODE}"


class Api:
    """An API server that has Pods and one node: {path: object}."""

    def __init__(self):
        self.objects = {PATH: {"metadata": {"annotations": {}}}}
        self.broken = False  # requests get no answer of use
        self.unwritable = set()  # paths of objects that cannot be written
        self.version = 0
        self.on_get = {}  # path: what happens right behind a GET of it
        self.asked = []
        api = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def answer(self, status, value):
                data = value if isinstance(value, bytes) else json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def find(self):
                api.asked.append((self.command, self.path))
                if api.broken or (self.command == "PATCH" and self.path in api.unwritable):
                    self.answer(500, {"message": "etcd is slow today"})
                elif self.path not in api.objects:
                    self.answer(404, {"message": "not found"})
                else:
                    return api.objects[self.path]
                return None

            def do_GET(self):
                found = self.find()
                if found is not None:
                    self.answer(200, found)
                api.on_get.pop(self.path, lambda: None)()

            def do_PATCH(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                assert self.headers["Content-Type"] == "application/merge-patch+json"
                assert [*body] == ["metadata"], body
                assert {*body["metadata"]} - {"resourceVersion"} == {"annotations"}, body
                found = self.find()
                if found is None:
                    return
                seen = body["metadata"].get("resourceVersion")
                if seen is not None and seen != found["metadata"].get("resourceVersion"):
                    self.answer(409, {"message": "the object has been modified"})
                    return
                api.touch(self.path)
                for key, value in body["metadata"]["annotations"].items():  # as RFC 7386 has it
                    if value is None:
                        found["metadata"]["annotations"].pop(key, None)
                    else:
                        found["metadata"]["annotations"][key] = value
                self.answer(200, found)

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.handle_error = lambda *_: None  # whoever asked has ended
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()

    def touch(self, path):
        self.version += 1
        self.objects[path]["metadata"]["resourceVersion"] = str(self.version)

    def notes(self, path):
        return self.objects[path]["metadata"]["annotations"]


class Hami(Node):
    devices, left, phase = ("hami.io/vgpu-devices-allocated", "hami.io/vgpu-devices-to-allocate",
                            "hami.io/bind-phase")
    registered, handshake = "hami.io/node-nvidia-register", "hami.io/node-handshake"
    scheduler = "hami"
    ids = False  # there is no vgpu-ids.config
    unit = 1  # MiB that it counts as one
    lock = "hami.io/mutex.lock"
    memory, cores = "nvidia.com/gpumem", "nvidia.com/gpucores"

    def asked(self, gib, cores):
        """Limits of a container as the API server writes them."""
        return {self.memory: str((gib << 10) // self.unit), self.cores: str(cores)}

    def setUp(self):
        super().setUp()
        self.api = Api()
        self.addCleanup(self.api.stop)
        self.conf = (f"scheduler={self.scheduler}", f"api={self.api.url}", f"account={self.top}",
                     f"node={NODE}")
        self.begin()

    def place(self, pod, decision, *containers, limits=()):
        """The scheduler's part: `containers` are (name, how many slots); `limits` are each one's others."""
        path = f"/api/v1/namespaces/default/pods/{pod}"
        self.api.objects[path] = {
            "metadata": {"uid": f"uid-of-{pod}", "annotations": {self.devices: decision, self.left: decision,
                                         self.phase: "allocating"}},
            "spec": {"nodeName": NODE, "containers": [
                {"name": name, "resources": {"limits": {SLOTS: str(n), **dict(limits)} if n else {}}}
                for name, n in containers]}}
        self.api.notes(PATH)[self.lock] = "x"
        return path

    def device(self, gpu, mib, cores):
        return f"{uuid(gpu)},NVIDIA,{mib // self.unit},{cores}:"

    def test_decision(self):
        """Devices, memory and cores are the scheduler's, whatever slots the kubelet picked."""
        path = self.place("a", f"{self.device(3, 4096, 30)};;{self.device(1, 2048, 0)}"
                               f"{self.device(2, 1024, 0)};", ("x", 1), ("none", 0), ("y", 2))
        answers = self.kubelet.admit("default", "a", {"x": {SLOTS: 1}, "y": {SLOTS: 2}})
        names = [d.name for d in answers["y"][SLOTS].cdi_devices]
        self.assertEqual([n for n in names if not n.startswith("allot")], ["nvidia.com/gpu=all"])
        self.assertEqual(len(names), 3)
        # Before any container starts: its image may be on its way for minutes.
        self.wait(lambda: self.api.notes(path)[self.phase] == "success", lambda: self.api.notes(path))
        self.wait(lambda: self.lock not in self.api.notes(PATH), "the node is locked")
        self.assertEqual(self.api.notes(path)[self.left], "")
        self.assertEqual(self.grants(), {})
        for name in ("x", "y"):
            self.kubelet.start_container("default", "a", name)
        slots = self.kubelet.pods["default", "a"]
        told = self.granted(*slots["x"][SLOTS])
        self.assertEqual((told["--gpu"], told["--memory"], told["--compute"]),
                         (uuid(3), str(4 * GIB), "30.0"))
        told = self.granted(min(slots["y"][SLOTS]))
        self.assertEqual((told["--gpu"], told["--memory"], told["--compute"]),
                         (f"{uuid(1)},{uuid(2)}", f"{2 * GIB},{GIB}", "10.0,10.0"))
        self.assertTrue(told["--tenant"].startswith("default.a.y-"))
        self.assertEqual(len(self.grants()), 3)

    def test_vgpu_config(self):
        """Where the XPU pool's own plugin has it: by the Pod's uid and the container's name."""
        self.place("a", f"{self.device(0, 2048, 20)};{self.device(1, 1024, 10)};", ("x", 1), ("y", 1))
        self.run_pod("a", {"x": {SLOTS: 1}, "y": {SLOTS: 1}})
        folder = self.top / "xpu/uid-of-a"
        self.assertEqual(sorted(os.listdir(folder)), ["x", "y"])
        self.assertEqual((folder / "x/vgpu.config").read_text(), "UsedMem:2048\nUsedCores:20\n")
        self.assertEqual((folder / "y/vgpu.config").read_text(), "UsedMem:1024\nUsedCores:10\n")
        ids = folder / "x/vgpu-ids.config"
        self.assertEqual(ids.exists() and ids.read_text(), self.ids)
        (folder / "x/.vgpu.config.new").touch()  # of a writer that was killed
        self.kubelet.delete("default", "a")
        self.wait(lambda: not self.grants(), "its grants stay")
        self.assertEqual(os.listdir(self.top / "xpu"), [])

    def test_folder_of_the_slots_next_pod(self):
        """A Pod that has the slots before the sweep has come: the folder of the Pod before is not left."""
        first, second = (f"{uuid(0).lower()}.{n}of10" for n in range(2))
        for pod, slots in (("a", [second]), ("b", [second]), ("c", [first, second])):
            self.place(pod, "".join(self.device(g, 1024, 10) for g in range(len(slots))) + ";", ("x", len(slots)))
            self.kubelet.pods = {("default", pod): {"x": {SLOTS: slots}}}
            self.kubelet.start_container("default", pod, "x")
            self.assertEqual(os.listdir(self.top / "xpu"), [f"uid-of-{pod}"])
        self.kubelet.delete("default", "c")
        self.wait(lambda: not self.grants(), "its grants stay")
        self.assertEqual(os.listdir(self.top / "xpu"), [])

    def test_twice_on_one_gpu(self):
        self.place("a", f"{self.device(0, 1024, 20)}{self.device(0, 1024, 20)};", ("x", 2))
        self.refused_start("this GPU already")

    def refused_start(self, *words):
        self.kubelet.admit("default", "a", {"x": {SLOTS: 1}})
        error = self.refused(self.kubelet.start_container, "default", "a", "x")
        for word in ("default/a, container x", *words):
            self.assertIn(word, error.details())
        self.assertEqual(self.grants(), {})

    def test_no_pod(self):
        self.refused_start("404")

    def test_another_scheduler(self):
        path = self.place("a", "", ("x", 1))
        del self.api.notes(path)[self.devices]
        self.refused_start(self.devices, "schedulerName")

    def test_another_node(self):
        path = self.place("a", self.device(0, 1, 1) + ";", ("x", 1))
        self.api.objects[path]["spec"]["nodeName"] = "node-2"
        self.refused_start("node-2")

    def test_another_gpu(self):
        self.place("a", self.device(0, 1024, 1).replace(uuid(0), "GPU-22222222-1111-1111-1111-111111111111") + ";",
                   ("x", 1))
        self.refused_start("GPU-22222222")

    def test_nonsense(self):
        """Users write annotations, too."""
        for decision in ("x", ";" * 1000, self.device(0, -1, 0) + ";", self.device(0, 2 ** 63, 0) + ";",
                         self.device(0, 81 << 10, 0) + ";", self.device(0, 1, 1) * 1000, "\0", "{" * 9999,
                         self.device(0, 1, 1) * 20000, "x" * (1 << 20)):
            self.place("a", decision, ("x", 1))
            self.refused_start()
            self.kubelet.delete("default", "a")
        for pod in (b"{", b"[" * 100000, b"[]", b"null", b"{\"spec\": []}", b"\xff"):
            self.api.objects["/api/v1/namespaces/default/pods/a"] = pod
            self.refused_start()
            self.kubelet.delete("default", "a")

    def test_more_than_asked_for(self):
        """A Pod's annotations are its user's where another scheduler, or none, placed it."""
        for memory, cores, words in ((9, 0, self.memory), (8, 51, self.cores)):
            self.place("a", self.device(0, memory << 10, cores) + ";", ("x", 1),
                       limits=self.asked(8, 50))
            self.refused_start(words)
            self.kubelet.delete("default", "a")
        for limits in ({self.memory: "-1"}, {self.cores: "x"}):
            self.place("a", self.device(0, 1024, 1) + ";", ("x", 1), limits=limits)
            self.refused_start(*limits)
            self.kubelet.delete("default", "a")
        self.place("a", f"{self.device(0, 8192, 50)}{self.device(1, 8192, 50)};", ("x", 2),
                   limits=self.asked(8, 50))
        self.run_pod("a", {"x": {SLOTS: 2}})
        self.assertEqual(len(self.grants()), 2)

    def test_no_room(self):
        """Memory that another container has is not given again, whoever says so."""
        self.place("a", self.device(0, 60 << 10, 0) + ";", ("x", 1))
        self.place("b", self.device(0, 21 << 10, 0) + ";", ("x", 1))
        self.run_pod("a", {"x": {SLOTS: 1}})
        self.kubelet.admit("default", "b", {"x": {SLOTS: 1}})
        error = self.refused(self.kubelet.start_container, "default", "b", "x")
        self.assertIn("other containers were given", error.details())
        self.kubelet.start_container("default", "a", "x")  # its own is none of another's
        self.kubelet.delete("default", "a")
        self.kubelet.start_container("default", "b", "x")

    def test_api_fails(self):
        """The container's error alone; when the kubelet tries again it starts."""
        self.place("a", self.device(0, 1024, 5) + ";", ("x", 1))
        self.api.broken = True
        self.refused_start("500")
        self.api.broken = False
        self.kubelet.start_container("default", "a", "x")
        self.assertEqual(len(self.grants()), 1)

    def admitted(self, lock=None):
        """The path of a Pod that is placed and allocated, and waits for its image."""
        path = self.place("a", self.device(0, 1024, 5) + ";", ("x", 1))
        self.api.notes(PATH)[self.lock] = lock or "x"
        self.kubelet.admit("default", "a", {"x": {SLOTS: 1}})
        return path

    def announced(self):
        self.wait(lambda: self.handshake in self.api.notes(PATH), "the node is not announced")

    def told(self, path):
        self.wait(lambda: self.api.notes(path)[self.phase] == "success", lambda: self.api.notes(path))

    def unlocked(self):
        self.wait(lambda: self.lock not in self.api.notes(PATH), lambda: self.api.notes(PATH))

    def test_api_fails_before_start(self):
        """The scheduler hears of the Pod as soon as it can be told."""
        self.api.broken = True
        path = self.admitted()
        self.wait(lambda: ("GET", path) in self.api.asked, "the Pod is not asked for")
        self.api.broken = False
        self.told(path)
        self.unlocked()

    def test_same_pod_again(self):
        """A StatefulSet's Pod has the name and the slot of the one before; its scheduler waits to hear of it, too."""
        self.told(self.admitted())
        self.unlocked()
        slots = self.kubelet.used(SLOTS)
        self.kubelet.delete("default", "a")
        path = self.admitted()
        self.assertEqual(self.kubelet.used(SLOTS), slots)
        self.told(path)
        self.unlocked()

    def test_node_cannot_be_written(self):
        """The node's lock is removed when that is possible again, although the Pod counts as taken."""
        self.announced()
        patches, self.api.unwritable = self.patches(), {PATH}
        path = self.admitted()
        self.told(path)
        self.wait(lambda: self.patches() > patches, "the lock is left")
        self.api.unwritable = set()
        self.unlocked()

    def test_lock_of_another(self):
        """Who holds the lock is in it, where the scheduler writes that."""
        path = self.admitted("2026-11-29T10:08:04Z,default,b")
        self.told(path)
        self.wait(lambda: self.api.asked[-1][1] != path, "the node is not asked for")
        self.kubelet.start_container("default", "a", "x")
        self.assertEqual(self.api.notes(PATH)[self.lock], "2026-11-29T10:08:04Z,default,b")

    def test_lock_of_its_own(self):
        self.told(self.admitted("2026-11-29T10:08:04Z,default,a"))
        self.unlocked()

    def test_lock_changes_hands(self):
        """Another Pod takes the lock between the look at it and its removal."""
        def take():
            self.api.notes(PATH)[self.lock] = "2026-11-29T10:09:04Z,default,b"
            self.api.touch(PATH)

        path = self.place("a", self.device(0, 1024, 5) + ";", ("x", 1))
        self.api.notes(PATH)[self.lock] = "2026-11-29T10:08:04Z,default,a"
        self.announced()
        self.api.on_get[PATH] = take
        self.kubelet.admit("default", "a", {"x": {SLOTS: 1}})
        self.told(path)
        self.wait(lambda: PATH not in self.api.on_get, "the node is not asked for")
        self.kubelet.start_container("default", "a", "x")
        self.assertEqual(self.api.notes(PATH)[self.lock], "2026-11-29T10:09:04Z,default,b")

    def test_before_us(self):
        """A Pod that was allocated when the daemon ended: its scheduler hears of it from the next one."""
        self.kubelet.pods["default", "a"] = {"x": {SLOTS: [f"{uuid(0).lower()}.1of10"]}}
        path = self.place("a", self.device(0, 1024, 5) + ";", ("x", 1))
        self.node.kill()
        self.node.wait()
        self.node.stdin.close()
        self.node.stdout.close()
        self.assertTrue(self.start_node())
        self.wait(lambda: self.api.notes(path)[self.phase] == "success", lambda: self.api.notes(path))


    def patches(self):
        return self.api.asked.count(("PATCH", PATH))

    def test_announced(self):
        """The node's devices; a sign of life when it is asked for; a sick device; and no more."""
        notes = self.api.notes(PATH)
        self.wait(lambda: self.handshake in notes, notes)
        self.assertTrue(notes[self.handshake].startswith("Reported"), notes)
        registered = notes[self.registered]
        for i in range(4):
            self.assertIn(uuid(i), registered)
        self.assertEqual(self.patches(), 1)
        self.say("sick 1")
        self.wait(lambda: notes[self.registered] != registered, notes)
        self.say("well 1")
        self.wait(lambda: notes[self.registered] == registered, notes)
        notes[self.handshake] = "Requesting_2026.11.29 14:00:00"
        self.wait(lambda: notes[self.handshake].startswith("Reported"), notes)
        patches, asked = self.patches(), len(self.api.asked)
        self.wait(lambda: len(self.api.asked) > asked, "nobody looks")
        self.assertEqual(self.patches(), patches)


class Xpu(Hami):
    devices, left, phase = ("huawei.com/vgpu-ids-new", "huawei.com/vgpu-devices-to-allocate",
                            "huawei.com/bind-phase")
    registered, handshake = "huawei.com/node-vgpu-register", "huawei.com/node-vgpu-handshake"
    scheduler = "xpu"
    lock = "vxpu"
    ids = f"{uuid(0)}-2\n"
    unit = 1
    memory, cores = MEMORY, CORES

    def asked(self, gib, cores):
        return {self.memory: str(gib), self.cores: str(cores)}

    def device(self, gpu, mib, cores):
        return f"{gpu},{uuid(gpu)},GPU-H200,{mib},{cores},2:"


class Volcano(Hami):
    devices, left, phase = ("volcano.sh/vgpu-ids-new", "volcano.sh/devices-to-allocate",
                            "volcano.sh/bind-phase")
    registered, handshake = "volcano.sh/node-vgpu-register", "volcano.sh/node-vgpu-handshake"
    scheduler = "volcano"
    unit = 1024  # that of the resource of memory
    lock = "hamivgpu"
    memory, cores = MEMORY, CORES


unittest.main()
