# SPDX-License-Identifier: Apache-2.0
"""allotd's JSON: what allot ps --json says, and the devices; what others wrote stays text."""

import json
import os

import cli_lib
import daemon_lib
from cli_lib import GIB, MIB, UUID_A, UUID_B


class V1(daemon_lib.Case):
    def ask(self, path):
        status, kind, text = self.get(path)
        self.assertEqual((status, kind), (200, "application/json"))
        return json.loads(text)

    def node(self):
        return self.ask("/v1/node")

    def history(self):
        return self.ask("/v1/history")

    def test_tenants_are_those_of_ps(self):
        self.living("jobA", "--memory", "8GiB", "--compute", "25")
        self.living("jobB", "--memory", "25%", "--swappable")
        self.hold("jobA", f"{UUID_A}:context:{520 * MIB}", f"{UUID_A}:data:{GIB}",
                  f"{UUID_B}:array:{2 * MIB}", f"{UUID_A}:refuse:{GIB}")
        self.daemon()
        # Waits are known once somebody decides about turns.
        cli_lib.wait_for(lambda: any(t["waits"] for t in self.node()["tenants"]))
        said, ps = self.node(), json.loads(self.ok("ps", "--json"))
        for key in ("version", "runtime_dir", "tenants"):
            self.assertEqual(said[key], ps[key])
        self.assertEqual(len(said["tenants"]), 2)

    def test_without_a_driver(self):
        """Nobody looks who uses the devices, which is not the same as nobody."""
        self.daemon()
        said = self.node()
        self.assertEqual((said["devices"], said["outside"], said["audit_age_ns"]), ([], None, None))

    def test_devices(self):
        with_gpus = (cli_lib.ALLOT, "sim", "--gpus", "2", "--memory", "24GiB", "--")
        self.daemon(*with_gpus)
        first, second = self.node()["devices"]
        self.assertEqual((first["index"], second["index"]), (0, 1))
        self.assertEqual((first["vendor"], first["total_bytes"]), ("nvidia", 24 * GIB))
        self.living("jobA", "--memory", "8GiB")
        self.living("jobB", "--memory", "4GiB")
        for tenant in ("jobA", "jobB"):
            self.hold(tenant, f"{first['uuid']}:data:{GIB}")
        first, second = self.node()["devices"]
        self.assertEqual((first["promised_bytes"], first["used_bytes"]), (12 * GIB, 2 * GIB))
        self.assertEqual((second["promised_bytes"], second["used_bytes"]), (12 * GIB, 0))
        cli_lib.wait_for(lambda: self.node()["audit_age_ns"] is not None)
        said = self.node()
        self.assertEqual(said["outside"], [])
        self.assertEqual([d["lost"] for d in said["devices"]], [False, False])

    def test_damaged_tenant(self):
        self.keep("bad")
        with open(os.path.join(self.runtime, "bad", "policy"), "r+b") as policy:
            policy.write(b"\0" * 64)
        self.daemon()
        tenant, = self.node()["tenants"]
        self.assertTrue(tenant["error"])

    def test_history_begins_at_once(self):
        self.living("jobA", "--memory", "8GiB")
        self.hold("jobA", f"{UUID_A}:data:{GIB}", f"{UUID_A}:refuse:{16 * GIB}")
        self.daemon(cli_lib.ALLOT, "sim", "--memory", "24GiB", "--")
        cli_lib.wait_for(lambda: self.history()["samples"] == 1)
        said = self.history()
        self.assertLess(said["age_ns"], said["step_ns"])
        tenant, = said["tenants"]
        self.assertEqual((tenant["name"], tenant["uuid"]), ("jobA", UUID_A))
        self.assertEqual((tenant["used_bytes"], tenant["refusals"]), ([GIB], [0]))
        device, = said["devices"]
        self.assertEqual((device["used_bytes"], device["achieved_bp"]), ([0], [0]))

    def test_documented(self):
        """docs/json.md has each key of both pages and of what is in them, and no other."""
        self.living("jobA", "--memory", "8GiB")
        self.hold("jobA", f"{UUID_A}:data:{GIB}")
        self.daemon(cli_lib.ALLOT, "sim", "--")
        cli_lib.wait_for(lambda: self.history()["samples"])
        shapes, node, history = cli_lib.documented(), self.node(), self.history()
        index = json.loads(self.get("/v1")[2])
        self.check_shape(index, "index", shapes)
        for page in index["pages"]:
            self.check_shape(page, "index_page", shapes)
            self.assertEqual(self.get(page["path"])[0], 200, page)
        self.check_shape(node, "node", shapes)
        self.check_shape(node["devices"][0], "node_device", shapes)
        self.check_shape(history, "history", shapes)
        self.check_shape(history["devices"][0], "history_device", shapes)
        self.check_shape(history["tenants"][0], "history_tenant", shapes)

    def test_no_browser_guesses(self):
        self.daemon()
        for path in ("/", "/v1/node", "/v1/history", "/metrics", "/unknown"):
            headers = self.headers(path)
            self.assertEqual(headers["X-Content-Type-Options"], "nosniff")
            self.assertIn("default-src 'none'", headers["Content-Security-Policy"])
            self.assertEqual(headers["Cache-Control"], "no-store")


if __name__ == "__main__":
    cli_lib.main()
