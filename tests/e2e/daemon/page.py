# SPDX-License-Identifier: Apache-2.0
"""allotd's page for people, in a browser: what it shows is what is there, whoever wrote the words."""

import contextlib
import json
import os
import shutil
import sys
import tempfile

import browser
import cli_lib
import daemon_lib
from cli_lib import GIB, MIB

EVIL = "<img src=x onerror=\"document.title='caught'\"><b>&amp;"
WIDE, NARROW = (1280, 800), (390, 844)


class Page(daemon_lib.Case):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.mkdtemp(prefix="allot-browser-", dir=cli_lib.SHM)
        cls.addClassCleanup(shutil.rmtree, folder, ignore_errors=True)
        cls.browser = browser.Browser(folder)
        cls.addClassCleanup(cls.browser.close)

    def setUp(self):
        super().setUp()
        # The page of the test before asks on, whose daemon is gone.
        self.browser.go("about:blank")
        self.browser.size(*WIDE)
        self.browser.answers.clear()
        self.browser.events.clear()
        # One driver for the daemon, and for programs that it finds.
        self.env.update(ALLOT_SIM_DIR=os.path.join(self.tmp, "sim"), ALLOT_SIM_GPUS="2",
                        ALLOT_SIM_MEMORY="24GiB", ALLOT_SIM_CONTEXT="16MiB",
                        LD_LIBRARY_PATH=os.environ["SIM_LIBRARIES"])

    def go(self, live="live"):
        self.browser.go(f"http://127.0.0.1:{self.port}/")
        self.wait_for("#live", live)

    def wait_for(self, selector, *texts):
        """Until what is at `selector` has these texts."""
        last = []
        with contextlib.suppress(AssertionError):
            cli_lib.wait_for(lambda: last.append(self.texts(selector)) or last[-1] == list(texts))
        self.assertEqual(last[-1], list(texts), selector)

    def texts(self, selector):
        return self.browser.texts(selector)

    def node(self):
        return json.loads(self.get("/v1/node")[2])

    def check_calm(self):
        """Nothing that a browser complains of; nothing to scroll sideways."""
        self.assertEqual(self.browser.complaints(), [])
        for size in (WIDE, NARROW):
            self.browser.size(*size)
            wide, room = self.browser.value("[document.documentElement.scrollWidth, innerWidth]")
            self.assertEqual((wide, room), (size[0], size[0]))

    def tenants(self):
        """jobA on the first device and jobB on both, with what is known of them by another way."""
        first, second = (d["uuid"] for d in self.node()["devices"])
        self.living("jobA", "--memory", "8GiB", "--compute", "25")
        self.living("jobB", "--memory", "20GiB")
        self.hold("jobA", f"{first}:context:{512 * MIB}", f"{first}:data:{GIB}",
                  f"{first}:busy:249", f"{first}:refuse:{GIB}", f"{first}:refuse:{GIB}")
        self.hold("jobB", f"{first}:array:{2 * MIB}", f"{second}:pool:{3 * GIB}")

    def test_what_is_there(self):
        self.daemon()
        self.tenants()
        self.go()
        self.wait_for("#tenants .name", "jobA", "jobB")
        self.assertEqual(self.texts("#sum"),
                         ["2 devices \u00b7 2 tenants \u00b7 0 outside \u00b7 2 refusals"])
        self.assertEqual(self.texts("#tenants .memory p"),
                         ["1.5 GiB of 8 GiB", "2 MiB of 20 GiB", "3 GiB of 20 GiB"])
        self.assertEqual(self.texts(".line .index"), ["0", "0", "1"])
        self.assertEqual(self.texts(".refusals"), ["2 refused", "none refused", "none refused"])
        self.assertEqual(self.texts(".share p"), ["24.9% of 25%", "0.0% no limit", "0.0% no limit"])
        self.assertEqual(self.texts(".state"), ["running", "running"])
        self.assertEqual(self.texts(".legend .used b"), ["1.5 GiB", "3 GiB"])
        self.assertEqual(self.texts(".legend .promised b"), ["28 GiB", "28 GiB"])
        self.assertEqual(self.texts(".legend .free b"), ["22.4 GiB", "21 GiB"])
        self.assertEqual(self.texts(".card .model"), [d["model"] for d in self.node()["devices"]])
        self.assertEqual(self.texts(".card .flag"), ["4 GiB more is promised than there is"] * 2)
        width = self.browser.value("document.querySelector('#tenants .bar .layer').style.width")
        self.assertEqual(width, "18.75%")
        self.check_calm()

    def test_it_changes(self):
        self.daemon()
        self.go()
        self.wait_for("#tenants .name")
        tenant = self.living("new", "--memory", "1GiB")
        self.wait_for("#tenants .name", "new")
        self.wait_for("#tenants .state", "idle")
        tenant.communicate("\n")
        self.wait_for("#tenants .name")

    def test_who_is_outside(self):
        """A command is anybody's words: on the page they are words, too."""
        self.daemon()
        program = self.start("bash", "-c", 'exec -a "$0" "$1" --json', EVIL + "x" * 100,
                             os.environ["FILL"])
        self.assertTrue(program.stdout.readline())
        cli_lib.wait_for(lambda: self.node()["outside"])
        self.go()
        self.wait_for("#outside code", self.node()["outside"][0]["command"])
        command, = self.texts("#outside code")
        self.assertTrue(command.startswith(EVIL), command)
        self.assertEqual(self.browser.value("document.querySelectorAll('#outside img').length"), 0)
        self.assertNotEqual(self.browser.value("document.title"), "caught")
        self.assertEqual(self.texts("#outside .faint"),
                         [f"pid {program.pid}, user {self.node()['outside'][0]['user']}, device 0"])
        self.wait_for("#outside .bytes", "24 GiB")  # the audit may have seen less at first
        self.assertEqual(self.texts(".legend .outside b"), ["24 GiB", "0"])
        self.check_calm()
        program.communicate("\n")
        self.wait_for("#outside code")
        self.wait_for("#outside .none", "Nobody uses a device without being a tenant.")

    def test_nothing_is_there(self):
        for name in ("ALLOT_SIM_DIR", "LD_LIBRARY_PATH"):
            del self.env[name]
        self.daemon()
        self.go()
        self.wait_for("#sum", "0 devices \u00b7 0 tenants \u00b7 0 outside \u00b7 0 refusals")
        shown = self.browser.value("Array.from(document.querySelectorAll('.none'), e => !e.hidden)")
        self.assertEqual(shown, [True] * 3)
        self.assertEqual(self.texts("#outside .none"), ["Nobody has looked yet who uses the devices."])
        self.check_calm()

    def test_many_and_damaged(self):
        names = [f"tenant-{i:02}" for i in range(79)] + ["z" * 63]
        for name in names:
            self.keep(name, "--memory", "1GiB")
        with open(os.path.join(self.runtime, names[0], "policy"), "r+b") as policy:
            policy.write(b"\0" * 64)
        self.daemon()
        self.go()
        self.wait_for("#tenants .name", *names)
        self.assertEqual(self.texts(".state"), ["cannot be read"] + ["kept"] * 79)
        self.check_calm()

    def test_daemon_goes_and_comes(self):
        daemon = self.daemon()
        self.living("jobA", "--memory", "8GiB")
        self.go()
        self.wait_for("#tenants .name", "jobA")
        daemon_lib.kill_all(daemon)
        daemon.wait()
        self.wait_for("#live", "away")
        self.assertRegex(self.texts("#away")[0], r"^allotd does not answer. These figures are of .*\d")
        self.assertFalse(self.browser.value("document.querySelector('#away').hidden"))
        self.assertEqual(self.texts("#tenants .name"), ["jobA"])
        self.living("jobB", "--memory", "8GiB")
        self.daemon()
        self.wait_for("#live", "live")
        self.wait_for("#tenants .name", "jobA", "jobB")
        self.assertTrue(self.browser.value("document.querySelector('#away').hidden"))

    def test_minutes(self):
        """A share over time beside what was asked for; the device's memory, with those on top outside."""
        self.daemon()
        self.tenants()
        first, second = (d["uuid"] for d in self.node()["devices"])
        self.browser.answers["/v1/history"] = {
            "version": 1, "step_ns": 20 * 10**9, "samples": 4, "age_ns": 0,
            "devices": [{"uuid": first, "used_bytes": [6 * GIB] * 4, "achieved_bp": [5000] * 4,
                         "outside_bytes": [0, 0, 12 * GIB, 12 * GIB]}],
            "tenants": [{"name": "jobA", "uuid": first, "used_bytes": [6 * GIB] * 4,
                         "achieved_bp": [None, 5000, 10000, 0], "share_permille": [500] * 4,
                         "refusals": [None, 0, 1, 1]},
                        {"name": "jobB", "uuid": second, "used_bytes": [0] * 4,
                         "achieved_bp": [0] * 4, "share_permille": [None] * 4, "refusals": [0] * 4}]}
        self.go()
        self.wait_for(".refusals", "2 refused lately", "none refused", "none refused")

        def drawn(path):
            return self.browser.value(f"document.querySelector('{path}').getAttribute('d')")

        self.assertEqual(drawn(".spark .had"), "M27 50.0L28 0.0L29 100.0")
        self.assertEqual(drawn(".spark .asked"), "M26 50.0L27 50.0L28 50.0L29 50.0")
        # Of 24 GiB, 6 are jobA's, and the 12 of somebody else stand on them.
        self.assertEqual(drawn(".chart .outside"), "M26 75.0L27 75.0L28 25.0L29 25.0"
                         "L29 75.0L28 75.0L27 75.0L26 75.0Z")
        self.check_calm()

    def test_words_of_others(self):
        """Names that no tenant can have, if somebody brought them about."""
        self.daemon()
        self.tenants()
        node = self.node()
        node["tenants"][0]["name"] = node["devices"][0]["model"] = EVIL
        node["tenants"][1].update(state=EVIL, error=EVIL)
        node["audit_age_ns"] = 7 * 10**9
        self.browser.answers["/v1/node"] = node
        self.go()
        self.wait_for("#tenants .name", EVIL, "jobB")
        self.assertEqual(self.texts("#outside .none"), ["Nobody has looked for 7 seconds."])
        self.assertEqual(self.texts(".card .model")[0], EVIL)
        self.assertEqual(self.texts(".about")[1], EVIL)
        self.assertEqual(self.browser.value("document.querySelectorAll('img, section b b').length"), 0)
        self.check_calm()

    def test_policy(self):
        """No script but its own runs, and nobody else is asked for anything."""
        self.daemon()
        self.assertEqual(self.get("/")[:2], (200, "text/html; charset=utf-8"))
        policy = dict(part.split(" ", 1) for part in
                      self.headers("/")["Content-Security-Policy"].split("; "))
        self.assertEqual(policy["default-src"], "'none'")
        self.assertEqual(policy["connect-src"], "'self'")
        self.assertRegex(policy["script-src"], r"^'sha256-[\w+/]{43}='$")
        self.assertRegex(policy["style-src"], r"^'sha256-[\w+/]{43}='$")
        text = self.get("/")[2]
        self.assertNotRegex(text.replace("http://www.w3.org/2000/svg", ""), r"https?://|@import|url\(")
        self.assertNotRegex(text, r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b")


if __name__ == "__main__":
    if not browser.CHROMIUM:
        print("skipped: chromium is not installed")
        sys.exit(77)
    cli_lib.main()
