# SPDX-License-Identifier: Apache-2.0
"""Tenants that take turns on memory, whichever GPU it is: what a test asks of them, and sees."""
import json
import time

LONG = 400


class Turning:
    """Beside a Case, with HOLDS of the module's tests, in MiB, and `options` of all tenants."""

    def setUp(self):
        super().setUp()
        self.started = {}

    def run_one(self, name, *what, quota=None, options=(), env=None):
        process = self.guest(*what, name=name, env=env, options=(
            "--overcommit", "--memory", quota or self.QUOTA, *options))
        self.started[name] = process
        return process

    def compute(self, name, seed, holds=None, **more):
        return self.run_one(name, "compute", str(holds or self.HOLDS), str(seed), **more)

    def serve(self, name, seed, holds=None, **more):
        return self.run_one(name, "serve", str(holds or self.HOLDS), str(seed), **more)

    @staticmethod
    def ask(process, word=""):
        """What it answers; nothing: it is dead."""
        try:
            process.stdin.write(word + "\n")
            process.stdin.flush()
        except BrokenPipeError:
            return ""
        return process.stdout.readline().strip()

    def quit(self, process):
        out, err = process.communicate("q\n", timeout=LONG)
        self.assertEqual((out, process.returncode), ("good\n", 0), err)

    def tenants(self):
        return {t["name"]: t for t in json.loads(self.must("ps", "--json"))["tenants"]}

    def places(self):
        return {n: t["state"] for n, t in self.tenants().items()}

    def until(self, what, seconds=LONG):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if what():
                return
            time.sleep(0.1)
        self.fail(str({n: (t["state"], [p["state"] for p in t["processes"]])
                       for n, t in self.tenants().items()}) +
                  "".join(f"; {n} died: {p.returncode}, {p.stderr.read()}"
                          for n, p in self.started.items() if p.poll() is not None))

    def not_overfull(self):
        """At any time, where that can be asked for."""

    def changes(self, names, times):
        """Each of them has been seen to run so often after it was away."""
        seen = dict.fromkeys(names, 0)
        away = dict.fromkeys(names, False)

        def look():
            self.not_overfull()
            for name, state in self.places().items():
                if state == "suspended" and name in names:
                    away[name] = True
                elif state == "running" and name in names and away[name]:
                    seen[name] += 1
                    away[name] = False
            return min(seen.values()) >= times
        self.until(look)
