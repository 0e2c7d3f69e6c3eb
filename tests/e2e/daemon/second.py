# SPDX-License-Identifier: Apache-2.0
"""Two allotd on one machine, as an upgrade or a mistake has them: when the first one ends the second
one takes over."""

import os
import signal
import time

import cli_lib
import daemon_lib
import users_lib
from daemon_lib import key
from users_lib import ALICE


class Second(users_lib.Case):
    def another(self, options=()):
        """A daemon more, on a port and with a log of its own, which get() and log() are about then."""
        self.port = daemon_lib.free_port()
        self.log_name = "log2"
        return self.daemon(options=options)

    def decides(self):
        return self.samples()[key("allot_arbiter")] == 1

    def takes_over(self, end, options=()):
        first = self.daemon(options=options)
        cli_lib.wait_for(self.decides)
        self.alive(ALICE, "a")
        second = self.another(options)
        self.assertIn("another allotd decides whose turn it is", self.log())
        self.assertFalse(self.decides())
        end(first)
        self.assertIsNotNone(first.wait(60))
        began = time.monotonic()
        cli_lib.wait_for(self.decides)
        print(f"took over after {(time.monotonic() - began) * 1000:.0f} ms", flush=True)
        cli_lib.wait_for(lambda: "this allotd decides by now whose turn it is" in self.log())
        # Users are served by it, those who were there and those who come.
        self.user_ok(ALICE, "set", "a", "--weight", "2")
        self.user_ok(ALICE, "run", "--name", "b", "--", "true")
        return second

    def test_ends(self):
        self.takes_over(lambda first: first.send_signal(signal.SIGTERM))

    def test_killed(self):
        self.end(self.takes_over(lambda first: first.kill()))

    def test_bounds(self):
        """Those of the site are in force before and after."""
        conf = self.path("allotd.conf", "[default]\ntenants = 2\n", 0o644)
        self.takes_over(lambda first: first.send_signal(signal.SIGTERM), ("--config", conf))
        self.alive(ALICE, "c")
        self.user_fails(ALICE, "run", "--", "true", says=["2 tenants are there"])

    def test_second_ends_first(self):
        """While it waits it ends by a signal, and changes nothing for the first one."""
        self.daemon()
        port, name = self.port, self.log_name
        self.end(self.another())
        self.port, self.log_name = port, name
        self.assertTrue(self.decides())
        self.user_ok(ALICE, "run", "--", "true")

    def test_cannot_make(self):
        """A site bounds its users: a daemon that they cannot ask ends, and says so."""
        conf = self.path("allotd.conf", "[default]\ntenants = 1\n", 0o644)
        first = self.daemon(options=("--config", conf))
        cli_lib.wait_for(self.decides)
        second = self.another(("--config", conf))
        os.mkdir(os.path.join(self.users, "control.new"))
        first.kill()
        self.assertEqual(second.wait(60), 1)
        self.assertIn("would bound nobody: allotd ends", self.log())


if __name__ == "__main__":
    cli_lib.main()
