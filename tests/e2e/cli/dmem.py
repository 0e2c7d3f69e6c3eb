# SPDX-License-Identifier: Apache-2.0
"""The kernel's own limit on AMD GPUs' memory, by plain files that behave as cgroups do."""

import os
import time

import cli_lib
from cli_lib import ALLOT, GIB

CGROUPS = os.environ["ALLOT_CGROUPS"]
GPUS = [f"drm/0000:0{i}:00.0/vram" for i in (1, 2)]
OWN = "/user.slice/run-1.scope"


class Dmem(cli_lib.Case):
    def setUp(self):
        super().setUp()
        self.root = self.path("cgroups")
        for cgroup in ("", "/user.slice", OWN):
            os.mkdir(self.root + cgroup)
            self.put(cgroup, "cgroup.procs", "")
            self.put(cgroup, "cgroup.subtree_control", "")
        self.put("", "dmem.capacity", f"drm/0000:00:02.0/stolen 65536\n{GPUS[0]} {24 * GIB}\n"
                 f"{GPUS[1]} {24 * GIB}\ndrm/0000:09:00.0/vram0 {8 * GIB}\n")
        self.put("", "self", f"1:name=systemd:/elsewhere\n0::{OWN}\n")
        self.env["ALLOT_CGROUP_ROOT"] = self.root
        self.env["LD_PRELOAD"] = CGROUPS

    def put(self, cgroup, name, text):
        self.path(f"cgroups{cgroup}/{name}", text)

    def get(self, cgroup, name):
        with open(f"{self.root}{cgroup}/{name}", encoding="ascii") as file:
            return file.read()

    def sim(self, *args):
        return self.allot("sim", "--amd", "2", "--dir", self.path("devices"), "--", ALLOT, *args)

    def well(self, *args):
        done = self.sim(*args)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def begin(self, *args):
        """A command that waits; its cgroup."""
        process = self.start(ALLOT, "sim", "--amd", "2", "--dir", self.path("devices"), "--",
                             ALLOT, "run", *args, "--", "sh", "-c", "echo $$; read x")
        name = args[args.index("--name") + 1]
        return process, f"{OWN}/allot-{name}-{process.stdout.readline().strip()}"

    def finish(self, process):
        process.stdin.write("\n")
        process.stdin.flush()
        self.assertEqual(process.wait(20), 0)

    def limits(self, cgroup):
        """{region: limit} of those that are memory of AMD GPUs, and nothing on others."""
        lines = dict(line.split(" ") for line in self.get(cgroup, "dmem.max").splitlines())
        self.assertEqual({name: lines.pop(name) for name in list(lines) if name not in GPUS},
                         {"drm/0000:00:02.0/stolen": "max", "drm/0000:09:00.0/vram0": "max"})
        return [lines[name] if lines[name] == "max" else int(lines[name]) for name in GPUS]

    def below(self, cgroup=OWN):
        return sorted(name for name in os.listdir(self.root + cgroup)
                      if os.path.isdir(f"{self.root}{cgroup}/{name}"))

    def notes(self):
        directory = os.path.join(self.runtime, ".cgroups")
        return sorted(os.listdir(directory)) if os.path.exists(directory) else []

    def age(self):
        old = time.time() - 3600
        for name in self.notes():
            os.utime(os.path.join(self.runtime, ".cgroups", name), (old, old),
                     follow_symlinks=False)


class Run(Dmem):
    def test_limits(self):
        for i, (args, want) in enumerate((
                (("--memory", "8GiB"), [8 * GIB, 8 * GIB]),
                (("--memory", "25%"), [6 * GIB, 6 * GIB]),
                (("--memory", "1GiB,50%"), [GIB, 12 * GIB]),
                (("--memory", "30GiB"), [24 * GIB, 24 * GIB]),
                (("--gpu", "1,0", "--memory", "2GiB,100%"), ["max", 2 * GIB]),
                (("--gpu", "1", "--memory", "2GiB"), [0, 2 * GIB]),
                ((), ["max", "max"]))):
            process, cgroup = self.begin("--name", f"t{i}", *args)
            self.assertEqual(self.limits(cgroup), want, args)
            self.assertEqual(self.get(cgroup, "cgroup.procs"), f"{cgroup.rsplit('-')[-1]}\n")
            self.assertEqual(self.notes(), [cgroup[len(OWN) + len("/allot-"):]])
            self.finish(process)
            self.age()
            self.ok("ps")

    def test_on_the_way(self):
        """Each cgroup has to pass the controller on, and what is set there already stays."""
        self.put("", "cgroup.subtree_control", "memory dmem pids\n")
        done = self.well("run", "-v", "--name", "t", "--memory", "1GiB", "--", "true")
        self.assertIn(f"dmem.max of cgroup {OWN}/allot-t-", done.stderr)
        self.assertEqual(self.get("", "cgroup.subtree_control"), "memory dmem pids\n")
        self.assertEqual(self.get("/user.slice", "cgroup.subtree_control"), "dmem\n")
        self.assertEqual(self.get(OWN, "cgroup.subtree_control"), "dmem\n")

    def test_below_the_root(self):
        """Where processes are no hindrance."""
        self.put("", "self", "0::/\n")
        self.put("", "cgroup.procs", f"1\n{os.getpid()}\n")
        self.well("run", "--name", "t", "--memory", "1GiB", "--", "true")
        (cgroup,) = (name for name in self.below("") if name.startswith("allot-t-"))
        self.assertEqual(self.limits("/" + cgroup), [GIB, GIB])

    def test_back_out_of_the_root(self):
        """Others that run below it have come to rely on what it passes on."""
        self.put("", "self", "0::/\n")
        self.put("", "dmem.capacity", f"{GPUS[0]} 0\n")
        done = self.well("run", "-v", "--memory", "1GiB", "--", "true")
        self.assertRegex(done.stderr, r"no dmem.max: cgroup \S+ gets no limits")
        self.assertEqual(self.get("", "cgroup.subtree_control"), "dmem\n")
        self.assertEqual((self.below(""), self.notes()), (["user.slice"], []))

    def test_root_of_a_container(self):
        """What is shown as the root is a cgroup like others: no processes beside what it has."""
        self.put("", "self", "0::/\n")
        self.put("", "cgroup.type", "domain\n")
        self.put("", "cgroup.procs", f"{os.getpid()}\n")
        done = self.well("run", "-v", "--memory", "1GiB", "--", "true")
        self.assertIn("no dmem.max: other processes are in the cgroup of allot (/)", done.stderr)
        self.put("", "cgroup.procs", f"{os.getpid()}\n")
        self.assertRegex(self.well("doctor").stdout, "(?m)^warn  other processes are in the cgroup")

    def unlimited(self, *says):
        """The command runs, all is as it was, and doctor and -v say why."""
        before = self.get(OWN, "cgroup.procs")
        done = self.well("run", "-v", "--memory", "1GiB", "--", "echo", "it ran")
        self.assertEqual(done.stdout, "it ran\n")
        self.put(OWN, "cgroup.procs", before)  # which the kernel would do, as the command ended
        doctor = self.well("doctor").stdout
        for word in says:
            self.assertIn(f"no dmem.max: {word}", done.stderr)
            self.assertRegex(doctor, rf"(?m)^warn  {word}.*\n      .*is not limited then")
        if not says:
            self.assertNotIn("dmem", done.stderr)
        self.assertEqual((self.below(), self.notes()), ([], []))
        self.assertEqual(self.get(OWN, "cgroup.subtree_control"), "")
        return doctor

    def test_others_in_the_cgroup(self):
        self.put(OWN, "cgroup.procs", f"{os.getpid()}\n")
        doctor = self.unlimited("other processes are in the cgroup of allot")
        self.assertRegex(doctor, r"(?m)^ +begin with: systemd-run --scope -p Delegate=yes")
        self.assertIn(f"({OWN})", doctor)

    def test_no_right(self):
        os.remove(f"{self.root}/cgroup.subtree_control")
        self.unlimited("cgroup / does not pass the dmem controller on")

    def test_elsewhere(self):
        for text in ("1:name=systemd:/\n", "0::/../../other\n", "0::/user.slice/gone\n", "\n"):
            self.put("", "self", text)
            self.unlimited("allot's own cgroup is not found")

    def test_no_controller(self):
        os.remove(f"{self.root}/dmem.capacity")
        self.assertRegex(self.unlimited(), r"(?m)^warn  .*no dmem cgroup controller \(Linux 6\.14"
                         r".*\n      .*is not limited then")

    def test_no_region_of_ours(self):
        self.put("", "dmem.capacity", "drm/0000:09:00.0/vram0 65536\n")
        self.assertRegex(self.unlimited(), r"(?m)^warn  .*does not tell its dmem .*\n      .*then")

    def test_wild_capacity(self):
        """Lines that are none, and names that only look like a GPU's, are no GPU's."""
        self.put("", "dmem.capacity", "\n \nx\nx y\n" + "a" * 500 + " 1\n" + GPUS[0] + "\n"
                 f"{GPUS[0]} -1\n{GPUS[0]}x 1\n{GPUS[0]}/0 1\n{GPUS[0][4:]} 1\n"
                 "drm/0000:01:00.1/vram 1\ndrm/0000:01:00.0/gtt 1\n")
        self.unlimited()

    def test_limits_that_the_kernel_refuses(self):
        """A GPU that goes away meanwhile: as if none of it had been tried."""
        self.put("", "dmem.capacity", f"{GPUS[0]} 0\n")
        done = self.well("run", "-v", "--memory", "1GiB", "--", "true")
        self.assertRegex(done.stderr, r"no dmem.max: cgroup \S+ gets no limits: Invalid argument")
        self.assertEqual((self.below(), self.notes()), ([], []))
        self.assertEqual(self.get(OWN, "cgroup.subtree_control"), "")

    def test_all_is_well(self):
        self.assertRegex(self.well("doctor").stdout, "(?m)^ok    the kernel limits .*dmem.max")
        self.assertEqual((self.below(), self.notes()), ([], []))

    def test_command_that_does_not_begin(self):
        script = self.path("script", "#!/no/such/interpreter\n")
        self.assertEqual(self.sim("run", "--memory", "1GiB", "--", script).returncode, 127)
        self.assertEqual((self.below(), self.notes()), ([], []))
        self.assertEqual(self.get(OWN, "cgroup.subtree_control"), "")

    def test_nvidia_alone(self):
        self.ok("sim", "--", ALLOT, "run", "--memory", "1GiB", "--", "true")
        self.assertEqual((self.below(), self.notes()), ([], []))


class Later(Dmem):
    def test_set(self):
        _, first = self.begin("--name", "t", "--memory", "8GiB")
        self.well("set", "t", "--memory", "4GiB")
        self.assertEqual(self.limits(first), [4 * GIB, 4 * GIB])
        self.well("set", "t", "--memory", "50%")
        self.assertEqual(self.limits(first), [12 * GIB, 12 * GIB])
        self.well("set", "t", "--compute", "25")
        self.assertEqual(self.limits(first), [12 * GIB, 12 * GIB])

    def test_set_is_for_one_tenant(self):
        """Another's name may begin or end alike."""
        cgroups = []
        for name in ("t", "t-1", "tt"):
            cgroups.append(self.begin("--name", name, "--memory", "8GiB")[1])
        self.well("set", "t", "--memory", "4GiB")
        self.assertEqual([self.limits(cgroup)[0] // GIB for cgroup in cgroups], [4, 8, 8])

    def test_joining(self):
        """The limits are the tenant's, so they are those of its other commands, too."""
        _, first = self.begin("--name", "t", "--memory", "4GiB")
        _, second = self.begin("--name", "t")
        self.assertEqual(self.limits(first) + self.limits(second), [4 * GIB] * 4)

    def test_set_below_use(self):
        _, cgroup = self.begin("--name", "t", "--memory", "8GiB")
        self.put(cgroup, "dmem.current", f"{GPUS[0]} {5 * GIB}\n")
        self.assertNotIn("kernel", self.well("set", "t", "--memory", "6GiB").stdout)
        self.put("", "no-reclaim", "")
        self.assertIn("the kernel keeps to the old quota (dmem.max) as long as",
                      self.well("set", "t", "--memory", "4GiB").stdout)
        self.assertEqual(self.limits(cgroup), [6 * GIB, 4 * GIB])

    def test_set_that_fails(self):
        _, cgroup = self.begin("--name", "t", "--memory", "8GiB")
        os.remove(f"{self.root}{cgroup}/dmem.max")
        os.mkdir(f"{self.root}{cgroup}/dmem.max")
        done = self.well("set", "t", "--memory", "4GiB")
        self.assertIn("t each device: 8 GiB -> 4 GiB", done.stdout)
        self.assertIn("warning: the kernel keeps to the old quota", done.stderr)
        # Of a command that is over nothing is to be changed.
        os.rmdir(f"{self.root}{cgroup}/dmem.max")
        os.rename(self.root + cgroup, self.path("gone"))
        self.assertNotIn("kernel", self.well("set", "t", "--memory", "2GiB").stderr)

    def test_removal(self):
        process, cgroup = self.begin("--name", "t", "--memory", "8GiB")
        self.age()
        self.ok("ps")
        self.assertEqual(self.below(), [os.path.basename(cgroup)], "somebody is in it")
        self.finish(process)
        self.ok("ps")
        self.assertEqual((self.below(), self.notes()), ([], []))
        self.assertEqual(os.listdir(self.runtime), [".ended"])

    def test_removal_within_the_grace(self):
        """What is young may be about to be used."""
        self.well("run", "--name", "t", "--memory", "8GiB", "--", "true")
        self.ok("ps")
        self.assertEqual(len(self.below()), 1)
        self.well("doctor", "--sweep")
        self.assertEqual(len(self.below()), 1)
        self.age()
        self.well("doctor", "--sweep")
        self.assertEqual((self.below(), self.notes()), ([], []))

    def test_removal_by_a_guard(self):
        """It is there until the end, and need not leave anything to others."""
        done = self.sim("run", "--guard", "--name", "t", "--memory", "8GiB", "--", "sh", "-c",
                        f"cat {self.root}{OWN}/allot-t-*/dmem.max")
        if "seccomp" in done.stderr:
            self.skipTest(done.stderr)
        self.assertIn(f"{GPUS[0]} {8 * GIB}\n", done.stdout)
        self.assertEqual((self.below(), self.notes()), ([], []))
        self.assertEqual(self.get(OWN, "cgroup.subtree_control"), "")

    def test_guard_of_what_goes_on(self):
        """A process that outlives the command keeps its limits."""
        procs = f"{self.root}{OWN}/allot-t-*/cgroup.procs"
        done = self.sim("run", "--guard", "--name", "t", "--memory", "8GiB", "--", "sh", "-c",
                        f"(printf 0 >$(echo {procs}); exec sleep 3) >/dev/null 2>&1 & "
                        f"until grep -q $! {procs}; do :; done")
        if "seccomp" in done.stderr:
            self.skipTest(done.stderr)
        (left,) = self.below()
        self.assertEqual(self.limits(f"{OWN}/{left}"), [8 * GIB] * 2)

    def test_notes_that_lead_elsewhere(self):
        """Nobody is made to remove or to write what is not a command's cgroup."""
        elsewhere = [self.path("allot-x"), self.root + "/allot-x", self.root + OWN + "/mine"]
        for path in elsewhere:
            os.mkdir(path)
        self.living("t")
        os.mkdir(os.path.join(self.runtime, ".cgroups"))
        for pid, text in enumerate(("/../allot-x", f"{OWN}/../../allot-x", f"{OWN}/mine", "mine",
                                    "/", "allot-x", "/allot-x/.."), 1):
            os.symlink(text, os.path.join(self.runtime, ".cgroups", f"t-{pid}"))
        self.age()
        self.ok("ps")
        self.well("set", "t", "--memory", "4GiB")
        for path in elsewhere:
            self.assertTrue(os.path.isdir(path), path)

    def test_removal_from_where_they_are_not_seen(self):
        self.well("run", "--name", "t", "--memory", "8GiB", "--", "true")
        self.age()
        self.env["ALLOT_CGROUP_ROOT"] = self.path("container")
        self.ok("ps")
        self.assertEqual(len(self.notes()), 1)
        self.assertEqual(len(self.below()), 1)


if __name__ == "__main__":
    cli_lib.main()
