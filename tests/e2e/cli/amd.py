# SPDX-License-Identifier: Apache-2.0
"""What the commands show of AMD devices."""

import json

import cli_lib
from cli_lib import GIB, MIB

A = "GPU-1234567890abcd01"
BY_PLACE = "0000:c1:00.0"  # a GPU without a unique id


class Shown(cli_lib.Case):
    """Names, in whatever shows a tenant; no device is asked."""

    def setUp(self):
        super().setUp()
        self.ok("run", "--name", "t", "--memory", "2GiB", "--compute", "25", "--", "true")
        self.hold("t", f"{A}:data:{GIB}", f"{A}:refuse:{GIB}", f"{BY_PLACE}:context:{512 * MIB}")

    def test_ps(self):
        out = self.ok("ps")
        self.assertRegex(out, rf"(?m)^t +{A} +2 GiB +1 GiB +50% +1 +1 GiB$")
        self.assertRegex(out, rf"(?m)^t +{BY_PLACE} +2 GiB +512 MiB +25% +0 +512 MiB$")
        self.assertRegex(out, rf"(?m)^t +{A} +cap +25% ")
        self.assertRegex(out, rf"(?m)^t +\d+ +{A} +1 GiB +\S+/cli_holder ")
        self.assertRegex(out, rf"(?m)^t +\d+ +{BY_PLACE} +512 MiB +\S+/cli_holder ")

    def test_json(self):
        shapes = cli_lib.documented()
        (tenant,) = json.loads(self.ok("ps", "--json"))["tenants"]
        for device in tenant["devices"]:
            self.check_shape(device, "device", shapes)
        self.assertEqual([(d["uuid"], d["used_bytes"], d["refusals"]) for d in tenant["devices"]],
                         [(A, GIB, 1), (BY_PLACE, 512 * MIB, 0)])
        self.assertEqual([d["uuid"] for d in tenant["processes"][0]["devices"]], [A, BY_PLACE])

    def test_top(self):
        out = self.ok("top", "t")
        self.assertRegex(out, rf"(?m)^> t +{BY_PLACE}  1 process +512 MiB of 2 GiB +25%$")
        heading, first, second = out.splitlines()[-3:]
        for row, device in (first, A), (second, BY_PLACE):
            self.assertEqual(row.index(device), heading.index("GPU"))
            self.assertEqual(row.index("/"), heading.index("COMMAND"), "columns are not aligned")
        out = self.ok("top")
        self.assertRegex(out, rf"(?m)^  t +{A}  1 process  1 refused +1 GiB of 2 GiB +50%$")

    def test_set(self):
        out = self.ok("set", "t", "--memory", "256MiB")
        self.assertIn("t each device: 2 GiB -> 256 MiB\n", out)
        for device, used in (A, "1 GiB"), (BY_PLACE, "512 MiB"):
            self.assertIn(f"  {device} uses {used}, above its new quota", out)


if __name__ == "__main__":
    cli_lib.main()
