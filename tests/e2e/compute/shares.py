# SPDX-License-Identifier: Apache-2.0
"""Shares of a device's time are what was asked for: alone, against others, in several processes."""

import compute_lib

POINTS = 0.02
SECONDS = ("--seconds", 3.7, "--warm-up", 0.7)


def off(name, share, target, points):
    """What is wrong with a share, in words; None if nothing is."""
    if abs(share - target) <= points:
        return None
    return f"{name}: {share:.1%} instead of {target:.1%}"


class Shares(compute_lib.Case):
    def test_caps(self):
        """Five tenants that each have a device, and a program without a limit that has another."""
        caps = (10, 25, 50, 75, 90)

        def play(machine):
            for gpu, cap in enumerate(caps):
                machine.load(*SECONDS, run=("--name", f"cap{cap}", "--gpu", gpu, "--compute", cap))
            machine.load(*SECONDS, "--device", len(caps))
            machine.start()
            machine.finish()

        def judge(machine, _):
            alone = machine.loads[-1].share
            wrong = [off(f"{cap} %", load.share / alone, cap / 100, POINTS)
                     for cap, load in zip(caps, machine.loads)]
            return "; ".join(filter(None, wrong))

        self.measure(len(caps) + 1, play, judge)

    def test_forms(self):
        """However the kernels come, a quarter is a quarter."""
        forms = {"ex": ("--form", "ex"), "cooperative": ("--form", "cooperative"),
                 "graph": ("--form", "graph", "--nodes", 5), "streams": ("--form", "streams"),
                 "lean": ("--lean",)}

        def play(machine):
            for gpu, (form, words) in enumerate(forms.items()):
                machine.load(*SECONDS, *words,
                             run=("--name", form, "--gpu", gpu, "--compute", 25))
            machine.start()
            machine.finish()

        def judge(machine, _):
            # Four streams run four kernels at once, in the time of one.
            wrong = [off(form, load.share / (4 if form == "streams" else 1), 0.25, POINTS)
                     for form, load in zip(forms, machine.loads)]
            return "; ".join(filter(None, wrong))

        self.measure(len(forms), play, judge)

    def test_streams_stay_abreast(self):
        """A launch that is held keeps no other stream from working beside the rest."""
        caps = (50, 90)

        def play(machine):
            for gpu, cap in enumerate(caps):
                machine.load(*SECONDS, "--form", "streams", "--kernel-us", 10000,
                             run=("--name", f"cap{cap}", "--gpu", gpu, "--compute", cap))
            machine.start()
            machine.finish()

        def judge(machine, _):
            wrong = [off(f"{cap} %", load.share / 4, cap / 100, POINTS)
                     for cap, load in zip(caps, machine.loads)]
            return "; ".join(filter(None, wrong))

        self.measure(len(caps), play, judge)

    def test_four_processes_have_one_share(self):
        """
        Of devices that lose nothing by switching between them: held ones switch less often, so that
        what they lose would say less of the time that they had. Of long kernels one process is
        billed while another's is not done, which must cost no credit.
        """
        caps = ((25, 1000), (50, 1000), (75, 1000), (90, 10000))

        def play(machine):
            for name in ("ALLOT_SIM_SWITCH_US", "ALLOT_SIM_DRY_SWITCH_US"):
                machine.env[name] = "0"
            for gpu, (cap, kernel_us) in enumerate(caps):
                machine.load(*SECONDS, "--processes", 4, "--kernel-us", kernel_us,
                             run=("--name", f"cap{cap}", "--gpu", gpu, "--compute", cap))
            machine.start()
            machine.finish()

        def judge(machine, _):
            wrong = [off(f"{cap} %", load.share, cap / 100, POINTS)
                     for (cap, _), load in zip(caps, machine.loads)]
            return "; ".join(filter(None, wrong))

        self.measure(len(caps), play, judge)

    def test_four_processes_that_wait_for_each_kernel(self):
        """The device turns from one to the other all the time, and that time is theirs, too."""
        words = ("--processes", 4, "--form", "sync", "--kernel-us", 50)

        def play(machine):
            machine.load(*SECONDS, *words, run=("--name", "a", "--gpu", 0, "--compute", 50))
            machine.load(*SECONDS, *words, "--device", 1)
            machine.start()
            machine.finish()

        def judge(machine, _):
            tenant, alone = (load.share for load in machine.loads)
            part = tenant / alone
            return None if 0.25 < part < 0.65 else f"{part:.1%} of {alone:.1%} instead of 50 %"

        self.measure(2, play, judge)

    def test_four_processes_pause_as_one(self):
        """
        What they may have in flight is the tenant's: else they work, and pause, for several times
        as long as one process does, which pauses for 60 ms at a time. Of long kernels two have one,
        and no third before these are paid for: 20 ms of work, 180 ms of pause.
        """
        # Where nothing else runs there are 25 and more, of long kernels 15.
        least = {1000: 14, 100: 14, 10000: 12}
        most_s = {1000: 0.2, 100: 0.2, 10000: 0.25}

        def play(machine):
            for gpu, kernel_us in enumerate(most_s):
                machine.load(*SECONDS, "--bin-ms", 10, "--processes", 4, "--kernel-us", kernel_us,
                             "--device", gpu, run=("--name", f"k{kernel_us}", "--compute", 10))
            machine.start()
            machine.finish()

        def judge(machine, _):
            wrong = []
            for kernel_us, load in zip(most_s, machine.loads):
                pauses = load.stretches(0.7, 3.7, busy=False)
                wrong.append(off(f"{kernel_us} us", load.share, 0.1, POINTS))
                longest = max(pauses, default=1)
                if len(pauses) < least[kernel_us] or longest > most_s[kernel_us]:
                    wrong.append(f"{kernel_us} us: {len(pauses)} pauses, "
                                 f"of at most {longest:.2f} s")
            return "; ".join(filter(None, wrong))

        self.measure(len(most_s), play, judge)

    def test_long_kernels_one_by_one(self):
        """None begins before the one before it was seen to end and is paid for: where it should end
        says no more than how long others took."""
        gpus, kernel_ms, seconds = 4, 25, 12

        def play(machine):
            for gpu in range(gpus):
                machine.load("--seconds", seconds, "--warm-up", 1, "--bin-ms", 1, "--kernel-us",
                             1000 * kernel_ms,
                             run=("--name", f"long{gpu}", "--gpu", gpu, "--compute", 25))
            machine.start()
            machine.finish()

        def judge(machine, _):
            busy = [b for load in machine.loads for b in load.stretches(1, seconds, busy=True)]
            longest = max(busy, default=0)
            # Where nothing else runs there are 110 for each.
            if len(busy) > gpus * 80 and longest < 1.5 * kernel_ms / 1e3:
                return None
            return f"{len(busy)} times, for up to {longest:.3f} s"

        self.measure(gpus, play, judge)

    def test_long_kernels_beside_short_ones(self):
        """What one process does meanwhile hides nothing of another's long kernels."""
        def play(machine):
            run = ("--name", "a", "--compute", 50)
            machine.load(*SECONDS, "--kernel-us", 20000, run=run)
            machine.load(*SECONDS, "--kernel-us", 200, "--form", "request", "--period-ms", 2,
                         run=run)
            machine.start()
            machine.finish()

        def judge(machine, _):
            share = sum(load.share for load in machine.loads)
            # Two contexts that take turns on the device lose some of it.
            return None if 0.4 < share < 0.53 else f"{share:.1%} instead of 50 %"

        self.measure(1, play, judge)

    def test_long_units(self):
        """Graphs and kernels far longer than a turn are owed for, no more and no less."""
        units = {"graph": (("--form", "graph"), 90), "kernel": (("--kernel-us", 50000), 50),
                 "less": (("--kernel-us", 20000), 10)}

        def play(machine):
            for gpu, (name, (words, cap)) in enumerate(units.items()):
                machine.load(*SECONDS, *words, run=("--name", name, "--gpu", gpu, "--compute", cap))
            machine.start()
            machine.finish()

        def judge(machine, _):
            wrong = [off(name, load.share, cap / 100, POINTS)
                     for (name, (_, cap)), load in zip(units.items(), machine.loads)]
            return "; ".join(filter(None, wrong))

        self.measure(len(units), play, judge)

    def test_weights(self):
        """Two tenants on a device with kernels of 1 ms, and two on another with short ones."""
        weights, kernels_us = (1, 3), (1000, 100)

        def play(machine):
            for gpu, kernel_us in enumerate(kernels_us):
                for weight in weights:
                    machine.load(*SECONDS, "--kernel-us", kernel_us,
                                 run=("--name", f"g{gpu}w{weight}", "--gpu", gpu, "--policy",
                                      "share", "--weight", weight))
            machine.start()
            machine.finish()

        def judge(machine, _):
            wrong = []
            for gpu, kernel_us in enumerate(kernels_us):
                shares = [load.share for load in machine.loads[2 * gpu:2 * gpu + 2]]
                together = sum(shares)
                if together < 0.9:
                    wrong.append(f"{kernel_us} us: together they have {together:.1%}")
                wrong += [off(f"{kernel_us} us, weight {w}", share / together,
                              w / sum(weights), 0.03)
                          for w, share in zip(weights, shares)]
            return "; ".join(filter(None, wrong))

        self.measure(2, play, judge)

    def test_cap_beside_share(self):
        """Who pays for its long kernels in between finds the device free when it has paid."""
        def play(machine):
            machine.load(*SECONDS, "--kernel-us", 10000, run=("--name", "a", "--compute", 30))
            machine.load(*SECONDS, run=("--name", "b", "--policy", "share", "--weight", 1))
            machine.start()
            machine.finish()

        def judge(machine, _):
            a, b = (load.share for load in machine.loads)
            if a + b < 0.95:
                return f"together they have {a + b:.1%}"
            return off("the cap", a, 0.3, POINTS)

        self.measure(1, play, judge)

    def test_idle_time_goes_to_who_wants_it(self):
        def play(machine):
            machine.load("--seconds", 4, "--warm-up", 0.5, "--idle", "1.5:3",
                         run=("--name", "a", "--policy", "share", "--weight", 1))
            machine.load("--seconds", 4, "--warm-up", 0.5,
                         run=("--name", "b", "--policy", "share", "--weight", 1))
            machine.start()
            machine.finish()

        def judge(machine, _):
            _, b = machine.loads
            wrong = (off("both", b.bins(0.5, 1.4), 0.5, 0.05),
                     off("alone", b.bins(1.7, 3), 1, 0.05),
                     off("both again", b.bins(3.2, 4), 0.5, 0.05))
            return "; ".join(filter(None, wrong))

        self.measure(1, play, judge)

    def test_beside_a_program_without_a_limit(self):
        """The limit holds; the neighbour, of whom allot knows nothing, keeps most of the rest."""
        def play(machine):
            machine.load(*SECONDS, run=("--name", "a", "--compute", 25))
            machine.load(*SECONDS)
            machine.start()
            machine.finish()

        def judge(machine, _):
            tenant, neighbour = machine.loads
            if tenant.share > 0.25 + POINTS:
                return f"the tenant has {tenant.share:.1%} instead of at most 25 %"
            if tenant.share < 0.05 or neighbour.share < 0.5:
                return f"{tenant.share:.1%} and {neighbour.share:.1%}"
            return None

        self.measure(1, play, judge)


if __name__ == "__main__":
    compute_lib.main()
