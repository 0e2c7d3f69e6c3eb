# SPDX-License-Identifier: Apache-2.0
"""The tools that judge the project are judged here: what they must count and must refuse."""
import tempfile
import unittest
from pathlib import Path

import api_coverage
import includes
import tally


class Tally(unittest.TestCase):
    def test_every_result_counts_once(self):
        results = ["OK", "EXPECTEDFAIL", "SKIP", "FAIL", "ERROR", "TIMEOUT", "UNEXPECTEDPASS",
                   "INTERRUPT"]
        self.assertEqual(tally.tally([{"name": "t", "result": r} for r in results]), (2, 5, 1))

    def test_no_tests(self):
        self.assertEqual(tally.tally([]), (0, 0, 0))

    def test_a_complaint_ends_with_the_last_that_was_said(self):
        said = tally.complaint({"name": "t", "result": "FAIL", "stderr": "why\n",
                                "stdout": "".join(f"{i}\n" for i in range(100))})
        self.assertEqual((said[0], said[-1], len(said)),
                         ("t: FAIL", "    why", 1 + tally.LAST_LINES))


class Lists(unittest.TestCase):
    def rows(self, text, kinds):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "x.def"
            path.write_text(text, encoding="utf-8")
            return api_coverage.rows_of(path, "CUDA", kinds)

    def test_rows(self):
        text = "/* CUDA_HOOK(no, A) */\nCUDA_HOOK(f, A,\n\t(int x), (x))\nCUDA_PASS(g, B)\n"
        self.assertEqual(self.rows(text, {"A": "", "B": ""}),
                         {"A": {"f": "hooked"}, "B": {"g": "passed through"}})

    def refused(self, text):
        with self.assertRaises(SystemExit):
            self.rows(text, {"A": "", "B": ""})

    def test_two_decisions_for_one_name(self):
        self.refused("CUDA_PASS(f, A)\nCUDA_PASS(f, B)\n")

    def test_unknown_kind(self):
        self.refused("CUDA_PASS(f, C)\n")

    def test_unknown_form(self):
        self.refused("CUDA_MAYBE(f, A)\n")

    def test_kind_with_two_decisions(self):
        self.refused("CUDA_PASS(f, A)\nCUDA_HOOK(g, A, (void), ())\n")

    def ioctls(self, text):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "x.def"
            path.write_text(text, encoding="utf-8")
            return api_coverage.ioctls_of(path, {"PASS": "", "VIEW": ""}, api_coverage.kfd_number)

    def test_ioctls(self):
        self.assertEqual(self.ioctls("/* KFD_OTHER(0x09, C, PASS) */\n"
                                     "KFD_IOCTL(0x01, A, a_args, VIEW)\nKFD_OTHER(0x80, B, PASS)"),
                         [(1, "A", "VIEW"), (0x80, "B", "PASS")])
        self.assertEqual(api_coverage.drm_number(["AMDGPU_GEM_OP", "COUNT"])[0], 0x50)
        self.assertEqual(api_coverage.drm_number(["GEM_CLOSE", "RELEASE"])[0], 0x09)

    def test_wrong_ioctls(self):
        for text in ("KFD_OTHER(0x01, A, MAYBE)",
                     "KFD_OTHER(0x01, A, PASS)\nKFD_OTHER(0x01, B, PASS)",
                     "KFD_OTHER(0x01, A, PASS)\nKFD_OTHER(0x02, A, PASS)"):
            with self.assertRaises(SystemExit):
                self.ioctls(text)


class Includes(unittest.TestCase):
    def wrong(self, **files):
        with tempfile.TemporaryDirectory() as folder:
            for name, to in files.items():
                room, stem = name.split("_", 1)
                path = Path(folder) / "guest" / room / stem.replace("__", ".")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("".join(f'#include "guest/{other}.h"\n' for other in to),
                                encoding="utf-8")
            return includes.wrong(Path(folder))

    def test_a_module_is_its_two_files_and_what_it_keeps_to_itself(self):
        self.assertEqual(self.wrong(meter_a__c=["meter/a_priv"], meter_a_priv__h=["meter/a"],
                                    launch_b__c=["launch/b", "meter/a"]), [])

    def test_a_circle(self):
        said = self.wrong(meter_a__c=["meter/b"], meter_b__h=["meter/c"], meter_c__c=["meter/a"])
        self.assertEqual(said, ["in a circle: guest/meter/a -> guest/meter/b -> guest/meter/c -> "
                                "guest/meter/a"])

    def test_a_room_above(self):
        said = self.wrong(meter_a__c=["launch/b"], launch_b__h=[])
        self.assertEqual(said, ["guest/meter/a includes guest/launch/b, which stands above it"])

    def test_nothing(self):
        self.assertTrue(self.wrong())


if __name__ == "__main__":
    unittest.main()
