# SPDX-License-Identifier: Apache-2.0
"""A program in mode space sees its part of the SMs; cuBLASLt, which leaves results unwritten when it
plans for a part, sees the whole device's."""

import os
import sys

import space_lib

ASK = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
assert cuda.cuInit(0) == 0
for path in sys.argv[1:]:
    library = ctypes.CDLL(path)
    print(library.asks_by_name(), library.asks_by_proc_address(), library.asks_by_name())
"""


class Processors(space_lib.Case):
    def asked(self, *options):
        return self.ok("run", "--name", "a", *options, "--", sys.executable, "-c", ASK,
                       os.environ["ASKS_CUBLASLT"], os.environ["ASKS"]).splitlines()

    def test_in_space(self):
        self.assertEqual(self.asked("--mode", "space", "--compute", "40"),
                         ["132 132 132", "52 52 52"])

    def test_in_turns(self):
        self.assertEqual(self.asked("--compute", "40"), ["132 132 132"] * 2)

    def test_without_nvml(self):
        """The part, and a line that says what may be wrong."""
        self.path("lost0", "")
        done = self.allot("run", "--name", "a", "--mode", "space", "--compute", "40", "--",
                          sys.executable, "-c", ASK, os.environ["ASKS_CUBLASLT"],
                          env={"ALLOT_SIM_NVML_LOST": self.path("lost")})
        self.assertEqual(done.stdout, "52 52 52\n")
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn("cuBLAS may be wrong", done.stderr)


space_lib.main()
