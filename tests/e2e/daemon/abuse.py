# SPDX-License-Identifier: Apache-2.0
"""A user who wants more than the site gives, or keeps others from allotd: by way of what is that
user's own, like processes and the ledgers of tenants."""

import os

import cli_lib
import users_lib
from users_lib import ALICE, MIB

# In a tenant, which nothing but its slot tells: neither environment nor descriptors.
HIDDEN = """
import ctypes, os, sys
cu = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
assert not cu.cuInit(0) and not cu.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
begin, end = open("/proc/self/stat").read().rsplit(")", 1)[1].split()[47:49]
ctypes.memset(int(begin), 0, int(end) - int(begin))
os.closerange(3, 1024)
print("up", flush=True)
sys.stdin.read()
"""


class Abuse(users_lib.Case):
    def test_removed_while_it_lives(self):
        """A tenant whose ledger its user made unreadable counts as long as a process is in it."""
        conf = self.path("allotd.conf", "[default]\nmemory-max = 1GiB\n", 0o644)
        self.program("python3", "-c", HIDDEN, daemon=("--config", conf))
        ledger = os.path.join(self.dir("f", ALICE), "ledger")
        size = os.path.getsize(ledger)
        self.user_fails(ALICE, "rm", "f", says=["lives"])
        for spoil, repair in ((lambda: os.chmod(ledger, 0o640), lambda: os.chmod(ledger, 0o600)),
                              (lambda: os.truncate(ledger, size + 1),
                               lambda: os.truncate(ledger, size))):
            spoil()
            self.user_fails(ALICE, "rm", "f", says=["lives"])
            self.user_fails(ALICE, "run", "--name", "g", "--memory", "1GiB", "--", "true",
                            says=["the site gives 1 GiB"])
            repair()
        self.assertEqual(self.quota(f"f@{ALICE}"), 512 * MIB)


if __name__ == "__main__":
    cli_lib.main()
