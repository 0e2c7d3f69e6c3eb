# SPDX-License-Identifier: Apache-2.0
"""What the tests of mode space share: simulated devices, and a stand-in for the MPS daemon."""

import contextlib
import os
import shutil
import signal
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "cli"))
import cli_lib
from cli_lib import ALLOT, wait_for  # noqa: F401

GUEST = os.environ["BAD_GUEST"]
BUILD = os.environ["ALLOT_BUILD"]
MPS_CONNECTION_FAILED = 805
PROGRAMS = ("nvidia-cuda-mps-control", "nvidia-cuda-mps-server")


class Case(cli_lib.Case):
    def setUp(self):
        super().setUp()
        for name in ("PIPE_DIRECTORY", "LOG_DIRECTORY", "ACTIVE_THREAD_PERCENTAGE",
                     "CLIENT_PRIORITY"):
            self.env.pop(f"CUDA_MPS_{name}", None)
        self.env.update({"ALLOT_SIM_DIR": self.path("devices"), "ALLOT_SIM_GPUS": "2",
                         "ALLOT_SIM_CONTEXT": "2MiB",
                         "LD_LIBRARY_PATH": os.path.join(BUILD, "sim")})
        os.mkdir(self.path("bin"))
        shutil.copy(os.path.join(HERE, PROGRAMS[0]), self.path("bin"))
        self.path(f"bin/{PROGRAMS[1]}", "#!/bin/sh\n")
        self.env["ALLOT_MPS_CONTROL"] = self.path(f"bin/{PROGRAMS[0]}")
        self.root = os.path.join(self.runtime, ".mps")
        self.pipe, self.log = os.path.join(self.root, "pipe"), os.path.join(self.root, "log")
        self.addCleanup(self.kill_daemon)

    def trick(self, word):
        self.path("bin/trick", word)

    def noted(self, name):
        try:
            with open(os.path.join(self.log, name), encoding="utf-8") as file:
                return file.read().splitlines()
        except FileNotFoundError:
            return []

    def starts(self):
        return len(self.noted("starts"))

    def kill_daemon(self):
        """Those that began, as nothing can refuse it; waits until the last is no more."""
        for pid in map(int, self.noted("starts")):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            wait_for(lambda pid=pid: not running(pid))

    def space(self, *command, name="a", compute="25", env=None):
        return self.allot("run", "--name", name, "--mode", "space", "--compute", compute, "--",
                          *command, env=env)

    def keep_space(self, name="a", compute="25"):
        self.keep(name, "--mode", "space", "--compute", compute)

    def tenants(self):
        try:
            return sorted(n for n in os.listdir(self.runtime) if n[0] != ".")
        except FileNotFoundError:
            return []


def running(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


main = cli_lib.main
