# SPDX-License-Identifier: Apache-2.0
"""The ResourceSlices that a node keeps at an API server: what is written, and how seldom."""

import copy
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
import unittest

import slices_server

CLIENT = os.environ["CLIENT"]
SECONDS = 60  # for a hang
NAME = "node-1-gpu.allot.dev"


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="allot-slices-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.server = self.serve()

    def serve(self, **words):
        server = slices_server.Server(**words)
        self.addCleanup(server.stop)
        return server

    def start(self, devices=2, url=None, node="node-1", **environment):
        self.log = tempfile.TemporaryFile()
        self.addCleanup(self.log.close)
        self.client = subprocess.Popen(
            [CLIENT, "slices", node, str(devices)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self.log, text=True,
            env={**os.environ, "API": url or self.server.url, "ACCOUNT": self.folder, **environment})
        self.addCleanup(self.client.stdout.close)
        self.addCleanup(self.end)
        self.assertEqual(self.client.stdout.readline(), "ready\n")

    def end(self):
        if not self.client.stdin.closed:
            self.client.stdin.close()
        self.assertEqual(self.client.wait(SECONDS), 0)
        self.assertEqual(self.server.invalid, [])

    def send(self, words):
        self.client.stdin.write(words + "\n")
        self.client.stdin.flush()

    def until(self, what, *words):
        end = time.monotonic() + SECONDS
        while not what():
            self.assertLess(time.monotonic(), end, (words, self.server.requests[-10:], self.said()))
            time.sleep(0.02)

    def said(self):
        """The client writes where this file is at: it is read without a seek."""
        fd = self.log.fileno()
        return os.pread(fd, os.fstat(fd).st_size, 0).decode()

    def sync(self, words="sync"):
        """What is written until what is listed is what is wanted."""
        writes = len(self.server.writes)
        self.send(words)
        self.settle()
        return self.server.writes[writes:]

    def settle(self):
        self.assertEqual(self.client.stdout.readline(), "settled\n")

    def published(self):
        """Once it is there, and has come to rest."""
        self.assertEqual(self.sync(), [("POST", NAME)])
        return self.server.objects[NAME]

    def slice(self):
        return self.server.objects[NAME]

    def devices(self):
        return {device["name"][-2:]: device for device in self.slice()["spec"]["devices"]}


class Published(Case):
    def test_first(self):
        self.start()
        found = self.published()
        self.assertEqual(found["metadata"]["ownerReferences"],
                         [{"apiVersion": "v1", "kind": "Node", "name": "node-1", "uid": "uid-1",
                           "controller": True}])
        self.assertEqual(found["spec"]["pool"],
                         {"name": "node-1", "generation": 1, "resourceSliceCount": 1})
        self.assertEqual(sorted(self.devices()), ["01", "02"])
        self.assertEqual(self.server.connections, 1)

    def test_nothing_is_written_at_rest(self):
        self.start()
        self.published()
        for _ in range(3):
            self.assertEqual(self.sync(), [])

    def test_restart(self):
        self.start()
        self.published()
        self.end()
        self.start()
        self.assertEqual(self.sync(), [])

    def test_sick_and_well(self):
        self.start()
        self.published()
        self.assertEqual(self.sync("sick 1\nsync"), [("PUT", NAME)])
        self.assertEqual(self.devices()["01"]["taints"][0]["key"], "gpu.allot.dev/unhealthy")
        self.assertNotIn("taints", self.devices()["02"])
        self.assertEqual(self.slice()["spec"]["pool"]["generation"], 2)
        self.assertEqual(self.sync(), [])
        self.assertEqual(self.sync("well 1\nsync"), [("PUT", NAME)])
        self.assertNotIn("taints", self.devices()["01"])
        self.assertEqual(self.slice()["spec"]["pool"]["generation"], 3)

    def test_changes_are_not_written_each(self):
        """A device that comes and goes: the round after a write waits, and sees what is then."""
        self.start()
        self.published()
        self.sync("sick 0\nsync")
        for i in range(50):
            self.send("well 0\nsync" if i % 2 else "sick 1\nsync")
        self.settle()
        self.assertNotIn("taints", self.devices()["02"])
        self.assertLessEqual(len(self.server.writes), 7)

    def test_no_devices(self):
        self.start()
        self.published()
        self.assertEqual(self.sync("gone\nsync"), [("DELETE", NAME)])
        self.assertEqual(self.server.objects, {})
        self.assertEqual(self.sync(), [])

    def test_never_had_devices(self):
        self.start(0)
        self.assertEqual(self.sync(), [])

    def test_many_devices(self):
        self.start(64)
        self.published()
        self.assertEqual(len(self.devices()), 64)
        self.assertEqual(self.sync("sick 1\nsync"), [("PUT", NAME)])


    def test_devices_of_a_driver(self):
        """As NVML tells of them: here, that of simulated ones."""
        self.start("real", LD_LIBRARY_PATH=os.environ["SIM_LIBRARIES"], ALLOT_SIM_GPUS="5", ALLOT_SIM_ISLAND="2",
                   ALLOT_SIM_DIR=self.folder)
        self.published()
        devices = self.slice()["spec"]["devices"]
        attributes = {device["attributes"]["index"]["int"]: device["attributes"] for device in devices}
        self.assertEqual(sorted(attributes), [0, 1, 2, 3, 4])
        # Each is called as its first GPU; the last GPU has no neighbour.
        self.assertEqual([attributes[i].get("nvlinkIsland") for i in range(5)],
                         [attributes[0]["uuid"]] * 2 + [attributes[2]["uuid"]] * 2 + [None])
        self.assertEqual(devices[0]["attributes"]["architecture"], {"string": "Hopper"})
        self.assertIn("default", devices[0]["capacity"]["memory"]["requestPolicy"])


class Others(Case):
    """What others do to slices."""

    def test_deleted(self):
        self.start()
        self.published()
        self.server.objects.clear()
        self.assertEqual(self.sync(), [("POST", NAME)])

    def test_deleted_behind_our_back(self):
        """As a kubelet does that starts: it is there again, and nobody asked."""
        self.start()
        self.published()
        self.until(lambda: self.server.watches)
        self.server.objects.clear()
        self.server.tell({"type": "DELETED", "object": {}})
        self.until(lambda: NAME in self.server.objects)

    def test_events_without_end(self):
        """However often something happens, there is a look."""
        self.start()
        self.published()
        self.until(lambda: self.server.watches)
        self.server.objects.clear()
        said = iter(range(1000))

        def is_there():
            if next(said) % 5 == 0:
                self.server.tell({"type": "MODIFIED", "object": {}})
            return NAME in self.server.objects

        self.until(is_there)

    def test_watch_ends(self):
        """What has happened meanwhile is seen all the same."""
        self.start()
        self.published()
        self.until(lambda: self.server.watches)
        self.server.objects.clear()
        self.server.tell(None)
        self.until(lambda: NAME in self.server.objects)
        self.assertLessEqual(len(self.server.requests), 10)

    def test_no_right_to_watch(self):
        self.server.orders += [("GET", lambda h: None)] * 3 + [("GET", 403)] * 3
        self.start()
        self.published()
        self.until(lambda: "cannot be watched: HTTP 403" in self.said())
        self.server.objects.clear()
        self.until(lambda: NAME in self.server.objects)
        self.assertEqual(self.said().count("cannot be watched"), 1)

    def test_watch_from_the_list(self):
        self.start()
        self.published()
        self.until(lambda: self.server.watches)
        self.assertIn("&watch=1&timeoutSeconds=600&resourceVersion=1", self.server.requests[-1][1])

    def test_events_of_nothing(self):
        """Each is a look, and no write."""
        self.start()
        self.published()
        for i in range(3):
            self.until(lambda n=i: len(self.server.watches) > n)
            self.server.watches[i].put({"type": "BOOKMARK"})
            self.server.watches[i].put({"type": "ERROR", "object": {"code": 410}})
        self.until(lambda: len(self.server.watches) > 3)
        self.assertEqual(len(self.server.writes), 1)

    def test_changed(self):
        self.start()
        body = copy.deepcopy(self.published())
        body["spec"]["devices"][0]["capacity"]["memory"]["value"] = "1Ti"
        body["metadata"]["labels"] = {"a": "b"}
        self.server.put(NAME, body)
        self.assertEqual(self.sync(), [("PUT", NAME)])
        self.assertEqual(self.slice()["spec"]["devices"][0]["capacity"]["memory"]["value"], "143771Mi")
        self.assertEqual(self.slice()["metadata"]["labels"], {"a": "b"})

    def test_more_than_one(self):
        self.start()
        body = copy.deepcopy(self.published())
        for name in ("a", "z"):
            self.server.put(name, copy.deepcopy(body))
        self.assertEqual(sorted(self.sync()), [("DELETE", "a"), ("DELETE", "z")])
        self.assertEqual(list(self.server.objects), [NAME])

    def test_older_name_is_kept(self):
        self.start()
        body = copy.deepcopy(self.published())
        self.server.objects.clear()
        self.server.put("node-1-abcde", body)
        self.assertEqual(self.sync(), [])

    def test_other_pool(self):
        self.start()
        body = copy.deepcopy(self.published())
        body["spec"]["pool"]["name"] = "other"
        self.server.put(NAME, body)
        self.assertEqual(self.sync(), [("DELETE", NAME), ("POST", NAME)])

    def test_other_drivers_are_left(self):
        self.start()
        body = copy.deepcopy(self.published())
        for name, key in (("a", "driver"), ("b", "nodeName")):
            other = copy.deepcopy(body)
            other["spec"][key] = "other"
            self.server.put(name, other)
        self.assertEqual(self.sync(), [])
        self.assertEqual(len(self.server.objects), 3)

    def test_node_is_another(self):
        self.start()
        self.published()
        self.server.nodes["node-1"] = "uid-2"
        self.assertEqual(self.sync(), [("PUT", NAME)])
        self.assertEqual(self.slice()["metadata"]["ownerReferences"][0]["uid"], "uid-2")

    def test_conflict(self):
        """Somebody writes between the list and the update."""
        self.start()
        self.published()
        self.server.orders.append(("PUT", lambda h: self.server.put(NAME, self.slice())))
        self.sync("sick 0\nsync")
        self.until(lambda: "taints" in self.devices()["02"])
        self.assertEqual(self.server.writes[1:], [("PUT", NAME)] * 2)
        self.assertEqual(self.said(), "")

    def test_created_meanwhile(self):
        """A first attempt whose answer was lost."""
        self.start()
        self.published()
        body = self.server.objects.pop(NAME)
        self.server.orders.append(("POST", lambda h: self.server.put(NAME, body)))
        self.send("sync")
        self.settle()
        self.assertEqual(self.server.writes[1:], [("POST", NAME)])


class Failing(Case):
    def test_errors(self):
        self.start()
        self.server.orders += [("GET", 500), ("GET", 503), ("GET", 410), ("POST", 500), ("POST", 429)]
        self.send("sync")
        self.until(lambda: NAME in self.server.objects)
        self.assertIn("HTTP 500", self.said())

    def test_no_server_yet(self):
        port = self.server.server_address[1]
        self.server.stop()
        self.start()
        self.send("sync")
        self.until(lambda: "error" in self.said())
        self.server = self.serve(port=port)
        self.until(lambda: NAME in self.server.objects)
        self.until(lambda: "as it is to be again" in self.said())

    def test_server_restarts(self):
        """An API server that comes back without what it had."""
        self.start()
        self.published()
        port = self.server.server_address[1]
        self.server.stop()
        self.server = self.serve(port=port)
        self.send("sync")
        self.until(lambda: NAME in self.server.objects)

    def test_no_rights_yet(self):
        self.start()
        self.server.orders += [("GET", 403)] * 3
        self.send("sync")
        self.until(lambda: NAME in self.server.objects)
        self.assertEqual(self.said().count("give allotd's service account the rights"), 1)

    def test_no_node_yet(self):
        self.server.nodes.clear()
        self.start()
        self.send("sync")
        self.until(lambda: 'nodes "node-1" not found' in self.said())
        self.server.nodes["node-1"] = "uid-1"
        self.until(lambda: NAME in self.server.objects)

    def test_refused(self):
        """What is invalid for a server is not written again and again."""
        self.start()
        self.server.orders += [("POST", 422)] * 3
        self.send("sync")
        self.until(lambda: NAME in self.server.objects)
        self.assertEqual(self.said().count("422"), 1)

    def test_no_answers(self):
        """Of another kind, or not JSON: nothing is written, and the next one is asked for."""
        deep = b'{"items":' + b"[" * 100000 + b"]" * 100000 + b"}"
        self.start()
        for data in (b"", b"[]", b"{}", deep, b'{"items":3}', b"\0{}", b"{" * (1 << 20),
                     b'{"metadata":{"uid":7}}', b'{"metadata":{"uid":"' + b"x" * 5000 + b'"}}'):
            for skipped in range(2):
                self.server.orders += [("GET", lambda h: None)] * skipped + [("GET", data)]
                self.until(lambda: self.send("sync") or not self.server.orders, data[:20])
        self.until(lambda: self.send("sync") or NAME in self.server.objects)
        self.assertEqual(self.server.writes, [("POST", NAME)])

    def test_hostile_items(self):
        """Objects that are no slices, and names that would be another path."""
        spec = b'{"driver":"gpu.allot.dev","nodeName":"node-1","pool":{"name":"x"}}'
        items = b'{"items":[1,null,[],{},{"spec":' + spec + b'},{"metadata":{"name":"../nodes/node-1"},' \
                b'"spec":' + spec + b'},{"metadata":{"name":".."},"spec":' + spec + \
                b'},{"metadata":{"name":"a/b?c"},"spec":' + spec + b"}]}"
        self.server.orders += [("GET", lambda h: None), ("GET", items)]
        self.start()
        self.send("sync")
        self.until(lambda: NAME in self.server.objects)
        self.assertEqual(self.server.writes, [("POST", NAME)])

    def test_account_of_others(self):
        """Whoever can change its files can be the API server."""
        for name in ("token", "ca.crt"):
            path = pathlib.Path(self.folder, name)
            path.write_text("one", encoding="ascii")
            path.chmod(0o666)
            done = subprocess.run([CLIENT, "slices", "node-1", "2"], stdin=subprocess.DEVNULL, capture_output=True,
                                  text=True, timeout=SECONDS, check=False,
                                  env={**os.environ, "API": self.server.url, "ACCOUNT": self.folder})
            self.assertIn(f"{path} is not believed: {path}: others may write it", done.stderr)
            self.assertNotIn("ready", done.stdout)
            path.unlink()

    @unittest.skipUnless(shutil.which("openssl"), "openssl is not installed")
    def test_tokens(self):
        cert, context = slices_server.make_authority(self.folder, "own")
        shutil.copy(cert, f"{self.folder}/ca.crt")
        self.server = self.serve(context=context)
        self.server.tokens = {"one"}
        self.start()
        self.send("sync")
        self.until(lambda: "token of allotd's service account" in self.said())
        with open(f"{self.folder}/token", "w", encoding="ascii") as file:
            file.write("one")
        self.until(lambda: NAME in self.server.objects)
        self.assertNotIn("one", self.said().split())


class Gates(Case):
    """Clusters that drop fields: before Kubernetes 1.36, or with gates off."""

    def test_no_sharing(self):
        self.server.sharing = False
        self.start()
        self.published()
        self.assertNotIn("allowMultipleAllocations", self.devices()["01"])
        for _ in range(2):
            self.assertEqual(self.sync(), [])
        self.assertEqual(self.said().count("DRAConsumableCapacity"), 1)

    def test_no_taints(self):
        """A sick device is left out, as nothing else says so there."""
        self.server.taints = False
        self.start()
        self.published()
        self.assertEqual(self.sync("sick 1\nsync"), [("PUT", NAME)] * 2)
        self.assertEqual(list(self.devices()), ["02"])
        self.assertEqual(self.sync(), [])
        self.assertEqual(self.sync("well 1\nsync"), [("PUT", NAME)])
        self.assertEqual(sorted(self.devices()), ["01", "02"])
        self.assertEqual(self.said().count("DRADeviceTaints"), 1)


class Named(Case):
    def test_bad_names(self):
        for node in ("a/b", "a?b", "", "a,b=c", "ä", "A B"):
            done = subprocess.run([CLIENT, "slices", node, "1"], stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True, timeout=SECONDS,
                                  env={**os.environ, "API": self.server.url, "ACCOUNT": self.folder})
            self.assertIn("-22", done.stderr)
            self.assertIn("write node = ... in [kubernetes]", done.stderr)



unittest.main()
