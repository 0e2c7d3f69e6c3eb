# SPDX-License-Identifier: Apache-2.0
"""Every bad argument: status 125, the argument named, a right one shown; help and version."""

import os
import re

import cli_lib


class Arguments(cli_lib.Case):
    def test_bad_memory(self):
        for bad in ("0", "0.0", "00GiB", "-1", "-8GiB", "+8GiB", "10XB", "25%x", "%", "101%",
                    "100.1%", "1e3", "0x10", " 8G", "8 G", "8GiB ", "8GB8", "nan", "inf",
                    "unlimited", "", "8GiB,", ",8GiB", "8GiB,,8GiB", "99999999T", "1.5.5G", "G",
                    "8g1", "8GiB,-1", "8", "1048575", "8,8GiB"):
            with self.subTest(bad=bad):
                self.fails(125, "run", "--memory", bad, "--", "true", says=("--memory", "8GiB"))
                self.fails(125, "set", "x", "--memory", bad, says=("--memory", "8GiB"))
        self.assertFalse(os.path.exists(self.runtime), "a bad argument left a tenant")

    def test_good_memory(self):
        for good, words in (("8GiB", "8 GiB"), ("008G", "8 GiB"), ("1.5g", "1.5 GiB"),
                            ("25%", "25%"), ("12.5%", "12.5%"), ("1GB", "953.6 MiB"),
                            ("1048576", "1 MiB"), ("2Ki", "2 KiB"), ("100%", "no limit"),
                            (".5GiB", "512 MiB"), ("8gib", "8 GiB"), ("8gB", "7.4 GiB"),
                            ("off", "no limit")):
            with self.subTest(good=good):
                done = self.allot("run", "-v", "--memory", good, "--", "true")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn(f"each device: {words}\n", done.stderr)

    def test_bare_numbers(self):
        self.fails(125, "run", "--memory", "8", "--", "true", says=("did you mean GiB?",))

    def test_one_hyphen(self):
        for word in ("memory", "name", "gpu", "compute", "priority", "verbose"):
            self.fails(125, "run", f"-{word}", "8GiB", "--", "true", says=(f"write --{word}",))
        self.fails(125, "set", "a", "-memory", "8GiB", says=("write --memory",))
        self.assertEqual(self.ok("run", "--", "echo", "-memory"), "-memory\n")
        for command in (("sim", "-gpus", "2", "--", "true"), ("sim", "-gpus=2", "--", "true"),
                        ("ps", "-json"), ("top", "-once"), ("topo", "-measure"),
                        ("doctor", "-sweep"), ("bench", "-quick"),
                        ("suspend", "a", "-timeout", "3s"), ("rm", "-help"), ("ps", "--ended", "-json")):
            with self.subTest(command=command):
                (word,) = (w for w in command if re.match("-[a-z]", w))
                self.fails(125, *command, says=(f"allot {command[0]}: {word}: one hyphen",
                                                f"write -{word}"))
        # A value, whatever it looks like.
        self.fails(125, "run", "-n", "-memory", "--", "true", says=("--name \"-memory\"",))

    def test_no_runtime_dir_yet(self):
        self.fails(125, "run", "--", "true", env={"ALLOT_RUNTIME_DIR": self.path("a/b/c")},
                   says=(self.path("a/b") + " does not exist", "ALLOT_RUNTIME_DIR"))
        done = self.allot("run", "--", "true", env={"ALLOT_RUNTIME_DIR": "/proc/x"})
        self.assertEqual(done.returncode, 125)
        self.assertIn("cannot create /proc/x: No such file or directory; ", done.stderr)

    def refused(self, *args, says):
        """By run and by set alike, and nothing is started."""
        self.fails(125, "run", *args, "--", "true", says=says)
        self.fails(125, "run", "--name", "a", *args, "--", "true", says=says)
        self.assertFalse(os.path.exists(self.runtime), "a bad argument left a tenant")

    def test_bad_compute(self):
        for bad in ("0", "0%", "0.0", "101", "100.1%", "nan", "inf", "1e1", "-1", "-25%", "+25",
                    "25.55", "0.05", "", "25,", ",25", "25,,25", "0x10", " 25", "25 ", "25 %",
                    "25%%", "half", "OFF", "off,25", "25,off", "99999999999999999999", ".5", "5."):
            with self.subTest(bad=bad):
                self.refused("--compute", bad, says=("--compute", bad, "like 25, 12.5% or off"))
                self.fails(125, "set", "x", "--compute", bad, says=("--compute", "like 25"))

    def test_bad_words(self):
        for option, bad, right in (
                ("--policy", ("", "CAP", "off", "fair", "cap "), "--policy cap or --policy share"),
                ("--priority", ("", "0", "highest", "High"),
                 "--priority normal, --priority low or"),
                ("--mode", ("", "mps", "turn"), "--mode turns or --mode space"),
                ("--controller", ("", "nvml", "Deficit", "0"), "--controller deficit"),
                ("--weight", ("", "0", "-1", "1001", "1.5", "2x", "1e2", "nan"), "--weight 2"),
                ("--inflight", ("", "0", "0ms", "2", "2m", "-2ms", "2s", "nanms", "1e1ms"),
                 "--inflight 2ms")):
            for word in bad:
                with self.subTest(option=option, word=word):
                    self.refused("--compute", "25", option, word,
                                 says=(f'{option} "{word}"', right))
                    self.fails(125, "set", "x", option, word, says=(option, right))

    def test_compute_that_says_nothing(self):
        for args in (("--policy", "share"), ("--policy", "cap"),
                     ("--policy", "cap", "--weight", "2"),
                     ("--policy", "cap", "--priority", "high"), ("--controller", "deficit"),
                     ("--mode", "space"), ("--inflight", "2ms")):
            with self.subTest(args=args):
                self.refused(*args, says=(" ".join(args), "--compute 25"))

    def test_compute_that_says_it_twice(self):
        self.refused("--compute", "25", "--weight", "2", "--policy", "share",
                     says=("--weight 2", "--compute 25", "one of the two"))
        self.refused("--compute", "off", "--weight", "2", says=("--compute off", "--weight 2"))

    def test_good_compute(self):
        for args, words in (
                ("--compute 25", "cap 25%"), ("--compute 12.5%", "cap 12.5%"),
                ("--compute 0.1", "cap 0.1%"), ("--compute 100", "cap 100%"),
                ("--compute 25.50", "cap 25.5%"), ("--compute 25 --policy share", "share 25%"),
                ("--weight 3", "weight 3"), ("--priority low", "share, low"),
                ("--policy share --weight 1000", "weight 1000"),
                ("--policy share --priority high", "share, high"),
                ("--compute 25 --weight 2 --priority high", "cap 25%, weight 2, high"),
                ("--compute 25 --controller deficit --mode turns", "cap 25%"),
                ("--compute 25 --inflight 500us", "cap 25%, 500 us in flight"),
                ("--weight 2 --inflight 1.5ms", "weight 2, 1.5 ms in flight")):
            with self.subTest(args=args):
                done = self.allot("run", "-v", *args.split(), "--", "true")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn(f"each device: no limit, compute {words}\n", done.stderr)
        for args in ("--compute off", "--memory 1GiB"):
            self.assertNotIn("compute", self.allot("run", "-v", *args.split(), "--", "true").stderr)

    def test_bad_names(self):
        for bad in ("", ".", "..", "a/b", "../x", ".hidden", "-x", "a b", "x" * 64, "ä"):
            with self.subTest(bad=bad):
                self.fails(125, "run", f"--name={bad}", "--", "true", says=("--name", "jobA"))

    def test_bad_accounting(self):
        self.fails(125, "run", "--accounting", "both", "--", "true",
                   says=("both", "--accounting ledger"))

    def test_gpu_without_driver(self):
        if os.path.exists("/dev/nvidiactl"):
            self.skipTest("this machine has a driver")
        self.fails(125, "run", "--gpu", "0", "--", "true", says=("--gpu", "allot sim"))
        self.fails(125, "run", "--memory", "1G,2G", "--", "true", says=("--memory",))
        self.fails(125, "run", "--compute", "25,50", "--", "true", says=("--compute", "allot sim"))

    def test_bad_sim(self):
        for bad in ("0", "-1", "65", "x", "", "1.5", "2 "):
            self.fails(125, "sim", f"--gpus={bad}", "--", "true", says=("--gpus", "--gpus 2"))
        for option in ("--memory", "--context"):
            for bad in ("0", "25%", "x", "-1G"):
                self.fails(125, "sim", f"{option}={bad}", "--", "true", says=(option, "24GiB"))
        self.fails(125, "sim", "--dir", "/nonexistent/x", "--", "true", says=("--dir",))

    def test_no_command(self):
        self.fails(125, "run", says=("allot run",))
        self.fails(125, "run", "--memory", "1G", "--", says=("allot run",))
        self.fails(125, "sim", says=("allot sim",))
        self.fails(125, "bogus", says=("bogus", "--help"))
        self.assertEqual(self.allot().returncode, 125)

    def test_unknown_option(self):
        for command in ("run", "ps", "top", "set", "doctor", "sim"):
            done = self.allot(command, "--bogus")
            self.assertEqual(done.returncode, 125)
            self.assertIn(f"allot {command}: ", done.stderr)

    def test_help_and_version(self):
        out = self.ok("--help")
        for command in ("run", "ps", "top", "set", "doctor", "sim"):
            self.assertRegex(out, rf"(?m)^  allot {command} ")
            self.assertIn(f"Usage: allot {command}", self.ok(command, "--help"))
            self.assertEqual(self.ok(command, "--help"), self.ok("help", command))
        # Each heading has commands under it.
        groups = re.findall(r"(?m)^\n(\w[^\n]*:)\n  allot (\w+) ", out)
        self.assertEqual([first for _, first in groups], ["run", "ps", "suspend", "cdi"])
        self.assertIn("\n NVIDIA GPUs:\n", self.ok("sim", "--help"))
        self.assertTrue(re.fullmatch(r"allot \d+\.\d+\.\d+\n", self.ok("--version")))
        self.assertEqual(self.ok("--version"), self.ok("run", "--version"))

    def test_lost_output(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            for args in (("--help",), ("ps",), ("ps", "--json")):
                import subprocess
                done = subprocess.run([cli_lib.ALLOT, *args], env=self.env, stdout=full,
                                      stderr=subprocess.PIPE, text=True, check=False)
                self.assertEqual(done.returncode, 125, args)
                self.assertIn("cannot write", done.stderr)

    def test_no_runtime_dir(self):
        if os.geteuid() == 0:
            self.fails(125, "ps", env={"ALLOT_RUNTIME_DIR": "relative"}, says=("absolute",))
            return
        self.fails(125, "ps", env={"ALLOT_RUNTIME_DIR": ""}, says=("ALLOT_RUNTIME_DIR",))


if __name__ == "__main__":
    cli_lib.main()
