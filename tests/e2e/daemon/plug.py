# SPDX-License-Identifier: Apache-2.0
"""A device that comes while allotd runs: it is listed, bounded and audited like any."""

import json
import os
import struct

import cli_lib
import users_lib
from users_lib import ALICE, MIB

NDEVICES_AT = 12  # in the simulated devices' file


class Plug(users_lib.Case):
    def setUp(self):
        super().setUp()
        self.env["ALLOT_SIM_GPUS"] = "2"
        self.share_devices()
        self.show(1)

    def show(self, n):
        """So many of the two devices are there."""
        with open(os.path.join(self.env["ALLOT_SIM_DIR"], "region"), "r+b") as region:
            region.seek(NDEVICES_AT)
            region.write(struct.pack("<I", n))

    def devices(self):
        return json.loads(self.get("/v1/node")[2])["devices"]

    def test_found(self):
        conf = self.path("allotd.conf", "[default]\nmemory-max = 1GiB\ncompute-max = 50\n", 0o644)
        self.daemon(options=("--config", conf, "--outside", "report"))
        self.alive(ALICE, "before", "--memory", "512MiB", "--compute", "10")
        self.assertEqual(len(self.devices()), 1)
        self.show(2)
        cli_lib.wait_for(lambda: len(self.devices()) == 2)
        second = self.devices()[1]
        self.assertEqual((second["total_bytes"], second["promised_bytes"]), (4096 * MIB, 512 * MIB))
        self.assertIn(f"device {second['uuid']} ", self.log())
        # Of both together, as on the first one.
        self.user_fails(ALICE, "run", "--gpu", "1", "--memory", "768MiB", "--compute", "10", "--",
                        "true", says=["would have 1.2 GiB of " + second["uuid"], "gives 1 GiB"])
        # Who is in no tenant is seen there, too; and turns are given.
        outside = self.start("env", "CUDA_VISIBLE_DEVICES=1", os.environ["FILL"], "--json")
        self.assertTrue(outside.stdout.readline())
        cli_lib.wait_for(lambda: {o["pid"]: o["uuid"] for o in json.loads(
            self.get("/v1/node")[2])["outside"]}.get(outside.pid) == second["uuid"])

    def test_turns(self):
        """Whose turn it is there is decided, and where it was decided before it goes on."""
        self.daemon()

        def load(name, gpu):
            self.start(cli_lib.ALLOT, "run", "--name", name, "--gpu", gpu, "--weight", "1", "--",
                       os.environ["ALLOT_LOAD"], "--loops-per-us", "1", "--seconds", "60")

        def turns():
            return {dict(labels)["tenant"]: value for (name, labels), value in
                    self.samples().items() if name == "allot_tenant_turns_total"}

        def goes_on(*names):
            before = turns()
            cli_lib.wait_for(lambda: all(turns()[n] > before[n] + 5 for n in names))

        for name in "ab":
            load(name, "0")
        cli_lib.wait_for(lambda: len(turns()) == 2)
        goes_on("a", "b")
        self.show(2)
        cli_lib.wait_for(lambda: len(self.devices()) == 2)
        for name in "cd":
            load(name, "1")
        cli_lib.wait_for(lambda: len(turns()) == 4)
        goes_on("a", "b", "c", "d")


if __name__ == "__main__":
    cli_lib.main()
