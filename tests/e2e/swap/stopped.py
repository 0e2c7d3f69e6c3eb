# SPDX-License-Identifier: Apache-2.0
"""Tenants of which a process is stopped, by a signal or by a debugger, while their memory leaves the
(simulated) device or comes back."""

import os
import signal
import subprocess
import time
import unittest

from swap import ALLOT, Sharing


class StoppedSharing(Sharing):
    """Processes that share memory."""

    def test_called_off_at_once(self):
        """Who asked is killed, and it is to come back while it is on its way out: who does not know
        whether the others leave has the memory that they have."""
        lender = self.lend(7, env={"ALLOT_FAULT": "GUEST_SWAP_COPIED/STOP"})
        borrowers = [self.borrow(), self.borrow(7)]
        done = self.allot("suspend", "t", env={"ALLOT_FAULT": "SWAP_ASKED:2"})
        self.assertEqual(done.returncode, -signal.SIGKILL)
        os.waitpid(lender.pid, os.WUNTRACED)
        resume = subprocess.Popen([ALLOT, "resume", "t"], env=self.env, stdout=subprocess.DEVNULL)
        self.addCleanup(self.end, resume)
        time.sleep(0.5)  # the others have heard of it
        lender.send_signal(signal.SIGCONT)
        self.assertEqual(resume.wait(60), 0)
        for process in (*borrowers, lender):
            self.good(process)


if __name__ == "__main__":
    unittest.main()
