# SPDX-License-Identifier: Apache-2.0
"""The MPS daemon goes when no tenant needs it, and not before; allot doctor tells."""

import os

import space_lib


class End(space_lib.Case):
    def alive(self):
        return any(space_lib.running(int(pid)) for pid in self.noted("starts"))

    def ended(self):
        self.assertIn("quit", self.noted("heard"))
        space_lib.wait_for(lambda: not self.alive())

    def test_with_the_last_tenant(self):
        process = self.living("a", "--mode", "space", "--compute", "25")
        self.living("other")
        self.ok("ps")
        self.assertTrue(self.alive(), "a tenant lives")
        process.kill()
        process.wait()
        self.assertEqual(self.space("true", name="b").returncode, 0)
        self.assertEqual(self.starts(), 1, "who needs it himself does not end it first")
        self.ok("ps")
        self.assertEqual(self.tenants(), ["other"])
        self.ended()
        self.ok("run", "--mode", "space", "--compute", "25", "--", "true")
        self.assertEqual(self.starts(), 2)

    def test_not_before(self):
        self.keep_space()
        self.ok("ps")
        self.ok("run", "--", "true")
        self.assertTrue(self.alive())
        os.chmod(os.path.join(self.runtime, "a", "policy"), 0o600)
        os.truncate(os.path.join(self.runtime, "a", "policy"), 10)
        self.allot("ps")
        self.assertTrue(self.alive(), "what cannot be read may be in use")

    def test_doctor(self):
        done = self.allot("doctor")
        self.assertNotIn("MPS", done.stdout)
        self.keep_space()
        self.assertRegex(self.allot("doctor").stdout,
                         "(?m)^ok    MPS daemon .*1 tenant in mode space")
        self.kill_daemon()
        done = self.allot("doctor")
        self.assertRegex(done.stdout, "(?m)^warn  no MPS daemon .*1 tenant in mode space.*\n"
                                      "      .*allot run")
        self.hold("a")
        done = self.allot("doctor")
        self.assertRegex(done.stdout, "(?m)^FAIL  no MPS daemon .*1 tenant in mode space.*\n"
                                      "      .*allot run")
        self.assertEqual(done.returncode, 1)

    def test_doctor_ends_it(self):
        self.space("true")
        done = self.allot("doctor", "--sweep")
        self.assertRegex(done.stdout, "(?m)^ok    MPS daemon .*told to quit")
        self.ended()


if __name__ == "__main__":
    space_lib.main()
