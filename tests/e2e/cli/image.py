# SPDX-License-Identifier: Apache-2.0
"""allot image: what is in an image, and what is wrong with one that is damaged."""

import os
import shutil

import cli_lib

GOLDEN = os.path.join(os.environ["ALLOT_SOURCE"], "tests/golden")


class Image(cli_lib.Case):
    def copy(self):
        at = os.path.join(self.tmp, "image")
        shutil.copytree(os.path.join(GOLDEN, "image-1"), at)
        return at

    def test_shows(self):
        said = self.ok("image", os.path.join(GOLDEN, "image-1"))
        self.assertIn("tenant jobA, written 2027-01-15 08:00:00 UTC\n", said)
        self.assertIn("device 0: GPU-11111111-1111-1111-1111-111111111111, 141 GiB, "
                      "Device \"0\"\n", said)
        self.assertIn("device 1: GPU-1234567890abcd02, ", said)
        self.assertIn("process 1001: python serve.py --worker 1\n", said)
        self.assertRegex(said, r"(?m)^ *OBJECT +DEVICE +SIZE +CONTENT +ADDRESS +HELD BY$")
        self.assertRegex(said, r"(?m)^ +0 +0 +\S+")
        self.assertRegex(said, r"(?m)^4 objects of .*each byte is as it was written$")

    def test_packed(self):
        done = self.allot("image", os.path.join(GOLDEN, "image-1-zstd"))
        if done.returncode:
            self.assertIn("built without it", done.stderr)
        else:
            self.assertIn("as it was written", done.stdout)

    def test_damaged(self):
        at = self.copy()
        with open(os.path.join(at, "objects"), "r+b") as file:
            file.seek(5000)
            byte = file.read(1)
            file.seek(5000)
            file.write(bytes([byte[0] ^ 1]))
        self.fails(1, "image", at, says=(at, "objects, byte ", "object ", "damaged (CRC)"))
        self.assertNotIn("as it was written", self.allot("image", at).stdout)

    def test_cut_off(self):
        at = self.copy()
        os.truncate(os.path.join(at, "objects"), 8000)
        self.fails(1, "image", at, says=("objects, byte 8000", "never finished"))

    def test_changed(self):
        at = self.copy()
        path = os.path.join(at, "manifest.json")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace("worker 1", "worker 2"))
        self.fails(1, "image", at, says=("manifest.json", "not as it was written"))

    def test_not_there(self):
        at = os.path.join(self.tmp, "nosuch")
        self.assertEqual(self.fails(125, "image", at).count(at), 1)

    def test_none(self):
        self.fails(125, "image", self.tmp, says=(self.tmp, "manifest.json"))
        self.fails(125, "image", os.path.join(self.tmp, "no"), says=("no",))
        self.fails(125, "image", says=("allot image DIR",))
        at = self.copy()
        os.rename(os.path.join(at, "objects"), os.path.join(at, "objects.partial"))
        self.fails(125, "image", at, says=("objects", "never finished"))


if __name__ == "__main__":
    cli_lib.main()
