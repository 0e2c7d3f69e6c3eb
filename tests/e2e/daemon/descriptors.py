# SPDX-License-Identifier: Apache-2.0
"""Figures of emulated AMD GPUs while a user has processes with as many descriptors as can be: those of
others are told all the same."""

import contextlib
import json
import os
import resource
import unittest

import cli_lib
import daemon_lib
import users_lib
from users_lib import MIB, user

HOSTILE = 20000
DESCRIPTORS = 2000000  # of all its processes
GPUS = 2
PROCESSOR_S = 10  # of allotd; to read them all takes twice as much
KFD = os.path.join(os.environ["PYTHONPATH"], "kfd.py")

# As many processes as its second argument says, each with as many descriptors as the first one says.
HOLDER = """
import os, sys
null = os.open("/dev/null", os.O_RDONLY)
for _ in range(int(sys.argv[1])):
    os.dup(null)
for _ in range(int(sys.argv[2]) - 1):
    if not os.fork():
        break
else:
    print("up", flush=True)
sys.stdin.read()
"""


def processor_s(daemon):
    """What the daemon's session, which is its own, has had of processors."""
    found = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
                fields = file.read().rpartition(")")[2].split()
            if int(fields[3]) == daemon.pid:
                found += int(fields[11]) + int(fields[12])
    return found / os.sysconf("SC_CLK_TCK")


@unittest.skipIf(cli_lib.NO_USERS, cli_lib.NO_USERS)
class Descriptors(daemon_lib.Case):
    def setUp(self):
        super().setUp()
        self.sim = (cli_lib.ALLOT, "sim", "--amd", str(GPUS), "--memory", "1GiB", "--dir",
                    self.path("devices"), "--")
        most = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.most = min(most[1], 60000)
        resource.setrlimit(resource.RLIMIT_NOFILE, (self.most, most[1]))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, most)

    def begin_hostile(self):
        each = self.most - 100
        process = self.start(*user(HOSTILE), "python3", "-c", HOLDER, str(each),
                             str(DESCRIPTORS // each))
        self.assertEqual(process.stdout.readline(), "up\n")

    def outside(self):
        """[bytes] of processes that are not limited, as allotd saw them last."""
        node = json.loads(self.get("/v1/node")[2])
        return [o["driver_bytes"] for o in node["outside"] or []]

    def test_others_are_seen(self):
        program = self.start(*self.sim, "python3", KFD)
        self.assertEqual(program.stdout.readline(), f"{GPUS}\n")
        self.begin_hostile()
        daemon = self.daemon(*self.sim)
        for i in range(1, 4):
            program.stdin.write(f"0 {64 * MIB}\n")
            program.stdin.flush()
            self.assertEqual(program.stdout.readline(), "ok\n")
            begin = processor_s(daemon)
            cli_lib.wait_for(lambda i=i: self.outside() == [i * 64 * MIB], 120)
            self.assertLess(processor_s(daemon) - begin, PROCESSOR_S)
        self.assertRegex(self.log(), r"user \d+ has processes with so many descriptors")


if __name__ == "__main__":
    cli_lib.main()
