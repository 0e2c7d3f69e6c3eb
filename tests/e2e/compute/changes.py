# SPDX-License-Identifier: Apache-2.0
"""What happens at an instant: a limit that is changed, a process that is killed, a request that
goes before a neighbour."""

import json
import os
import signal
import time

import compute_lib
from compute_lib import sleep_until


class Changes(compute_lib.Case):
    def test_set_takes_effect(self):
        def play(machine):
            machine.load("--seconds", 3.5, run=("--name", "a", "--compute", 20))
            start = machine.start()
            sleep_until(start + 1.5)
            machine.allot("set", "a", "--compute", 60)
            changed = time.monotonic() - start
            machine.finish()
            return changed

        def judge(machine, changed):
            (load,) = machine.loads
            before, after = load.bins(0.5, 1.4), load.bins(changed + 0.2, 3.4)
            first = load.bins(changed + 0.2, changed + 0.4)
            if abs(before - 0.2) > 0.02 or abs(after - 0.6) > 0.02 or abs(first - 0.6) > 0.1:
                return f"{before:.1%}, at once {first:.1%}, then {after:.1%}"
            return None

        self.measure(1, play, judge)

    def test_followers(self):
        """Controllers that follow NVML's utilisation, of which it has a long memory: what the
        device did before there was a limit says nothing."""
        followers = ("bucket", "pid")

        def play(machine):
            for gpu, name in enumerate(followers):
                machine.load("--seconds", 9, run=("--name", name, "--gpu", gpu))
            start = machine.start()
            sleep_until(start + 2)
            for name in followers:
                machine.allot("set", name, "--compute", 50, "--controller", name)
            machine.finish()

        def judge(machine, _):
            shares = [load.bins(5, 8.9) for load in machine.loads]
            if all(abs(share - 0.5) < 0.15 for share in shares):
                return None
            return ", ".join(f"{name} {s:.1%}" for name, s in zip(followers, shares))

        self.measure(len(followers), play, judge)

    def killed(self, order):
        """Three tenants; two are killed, one after the other. Whoever had the device, or decided
        who has it, the others go on."""
        kills = (1.0, 2.0)

        def play(machine):
            for name in "abc":
                machine.load("--seconds", 3, run=("--name", name, "--policy", "share",
                                                  "--weight", 1))
                machine.loads[-1].ready()  # so that the first of them decides first
            start = machine.start()
            for at, index in zip(kills, order):
                sleep_until(start + at)
                for pid in machine.loads[index].pids:
                    os.kill(pid, signal.SIGKILL)
            machine.finish()

        def judge(machine, _):
            (last,) = (load for i, load in enumerate(machine.loads) if i not in order)
            # A bin that begins 100 ms after the kill, and what follows: a half, then all.
            found = [last.bins(0.5, 1), last.bins(1.1, 1.2), last.bins(1.1, 2),
                     last.bins(2.1, 2.2), last.bins(2.1, 3)]
            least = (0.25, 0.3, 0.4, 0.8, 0.9)
            if any(share < bound for share, bound in zip(found, least)):
                return (f"{found[0]:.1%} of three; {found[1]:.1%} then {found[2]:.1%} of two; "
                        f"{found[3]:.1%} then {found[4]:.1%} alone")
            return None

        self.measure(1, play, judge)

    def test_killed_in_order(self):
        self.killed((0, 1))

    def test_killed_in_reverse(self):
        self.killed((2, 1))

    def test_a_capped_process_killed(self):
        """Of four processes that have one share, three die: the fourth has all of it."""
        def play(machine):
            machine.load("--seconds", 3, "--processes", 4, run=("--name", "a", "--compute", 50))
            start = machine.start()
            sleep_until(start + 1)
            for pid in machine.loads[0].pids[:3]:
                os.kill(pid, signal.SIGKILL)
            machine.finish()

        def judge(machine, _):
            (load,) = machine.loads
            soon, after = load.bins(1.1, 1.3), load.bins(1.1, 3)
            if abs(soon - 0.5) > 0.1 or abs(after - 0.5) > 0.02:
                return f"{soon:.1%}, then {after:.1%} instead of 50 %"
            return None

        self.measure(1, play, judge)

    def test_high_priority_goes_first(self):
        """A request of 1 ms each 10 ms beside a neighbour that always wants the device."""
        def play(machine):
            machine.load("--seconds", 3, "--form", "request",
                         run=("--name", "a", "--policy", "share", "--weight", 1,
                              "--priority", "high"))
            machine.load("--seconds", 3, run=("--name", "b", "--policy", "share", "--weight", 1))
            machine.start()
            machine.finish()

        def judge(machine, _):
            request, neighbour = machine.loads
            (result,) = request.results
            p50 = result["latency_us"]["p50"] / 1e3
            if p50 > 4 or neighbour.share < 0.75:
                return (f"half of the requests take {p50:.1f} ms; "
                        f"the neighbour has {neighbour.share:.1%}")
            return None

        self.measure(1, play, judge)

    def test_a_floor_beside_a_high_priority(self):
        """Which always wants the device: the other is not starved."""
        def play(machine):
            for name, options in (("a", ("--priority", "high")), ("b", ("--floor", 10)), ("c", ())):
                machine.load("--seconds", 5, "--warm-up", 0.5,
                             run=("--name", name, "--weight", 1, *options))
            machine.start()
            said = []
            for _ in range(5):  # one may fall between two launches of the first
                time.sleep(0.6)
                tenants = json.loads(machine.allot("ps", "--json"))["tenants"]
                said.append({t["name"]: t["devices"][0]["compute"]["target_permille"]
                             for t in tenants})
            machine.finish()
            return max(said, key=said.count)

        def judge(machine, said):
            high, tenth, default = (load.share for load in machine.loads)
            if said != {"a": 850, "b": 100, "c": 50}:
                return f"ps says {said}"
            if not 0.06 < tenth < 0.13 or not 0.03 < default < 0.07 or high < 0.75:
                return f"{high:.1%}, {tenth:.1%} and {default:.1%}, not 85, 10 and 5"
            return None

        self.measure(1, play, judge)

    def test_who_rarely_wants_it_waits_for_a_turn(self):
        """Not for all that a neighbour of the same weight could have in flight, here 20 ms."""
        def play(machine):
            for name, words in (("a", ("--form", "request", "--period-ms", 20)), ("b", ())):
                machine.load("--seconds", 3, *words, run=("--name", name, "--weight", 1))
            machine.start()
            machine.finish()

        def judge(machine, _):
            request, neighbour = machine.loads
            p50 = request.results[0]["latency_us"]["p50"] / 1e3
            if p50 > 12 or neighbour.share < 0.75:
                return (f"half of the requests take {p50:.1f} ms; "
                        f"the neighbour has {neighbour.share:.1%}")
            return None

        self.measure(1, play, judge)

    def test_a_latency_is_told(self):
        """What was asked, what was had, and behind whom; less than a kernel of 9 ms cannot be."""
        def play(machine):
            machine.load("--seconds", 4, "--kernel-us", 200,
                         run=("--name", "a", "--weight", 1, "--latency", "20ms"))
            machine.load("--seconds", 4, "--kernel-us", 9000, run=("--name", "b", "--weight", 1))
            sleep_until(machine.start() + 2.5)
            machine.allot("set", "a", "--latency", "5ms")
            time.sleep(0.1)
            said = json.loads(machine.allot("ps", "--json", "a"))["tenants"][0]
            table = machine.allot("ps", "a")
            machine.finish()
            return said, table

        def judge(_, found):
            said, table = found
            waits = said["waits"]
            if said["compute"]["latency_us"] != 5000 or not waits["n"]:
                return f"asked {said['compute']['latency_us']} us, had {waits}"
            if waits["behind"] != "b" or waits["least_latency_us"] < 9000:
                return f"{waits}"
            return None if " ASKED  WAIT P50 " in table else table

        self.measure(1, play, judge)


if __name__ == "__main__":
    compute_lib.main()
