# SPDX-License-Identifier: Apache-2.0
"""`allot cdi`: what container runtimes are told of devices, and a hook that is told nonsense."""

import json
import os
import pathlib
import subprocess

import cli_lib
from cli_lib import ALLOT

BUILD = pathlib.Path(os.environ["ALLOT_BUILD"])
# What the specification (0.5.0) takes, and no more: readers refuse a file with anything else.
FIELDS = {"": {"cdiVersion", "kind", "devices"}, "devices": {"name", "containerEdits"},
          "containerEdits": {"env", "deviceNodes", "mounts", "hooks"},
          "deviceNodes": {"path"}, "mounts": {"hostPath", "containerPath", "options"},
          "hooks": {"hookName", "path", "args"}}


class Case(cli_lib.Case):
    def setUp(self):
        super().setUp()
        self.dir = self.path("cdi")

    def sim(self, *args, options=("--gpus", "2")):
        return self.ok("sim", *options, "--", ALLOT, *args)

    def generate(self, *names, options=("--gpus", "2")):
        return self.sim("cdi", "generate", "--dir", self.dir, *names, options=options).split()

    def listed(self):
        return self.ok("cdi", "list", "--dir", self.dir).split()

    def check_fields(self, value, section=""):
        if isinstance(value, dict):
            self.assertLessEqual({*value}, FIELDS[section])
            for key, inner in value.items():
                self.check_fields(inner, key)
        elif isinstance(value, list):
            for inner in value:
                self.check_fields(inner, section)

    def edits(self, name):
        """Of the one file that is about it."""
        path = pathlib.Path(self.dir, f"allot.dev-gpu-{name}.json")
        said = json.loads(path.read_text(encoding="utf-8"))
        self.check_fields(said)
        self.assertEqual((said["cdiVersion"], said["kind"]), ("0.5.0", "allot.dev/gpu"))
        self.assertEqual([device["name"] for device in said["devices"]], [name])
        self.assertEqual(path.stat().st_mode & 0o777, 0o644)
        return said["devices"][0]["containerEdits"]


class Files(Case):
    def test_each_device(self):
        names = ["allot.dev/gpu=0", "allot.dev/gpu=1", "allot.dev/gpu=all"]
        self.assertEqual(self.generate(), names)
        self.assertEqual(self.listed(), names)
        visible = [e for e in self.edits("1")["env"] if e.startswith("CUDA_VISIBLE_DEVICES=")]
        self.assertRegex(visible[0], r"=GPU-[-0-9a-f]{36}$")
        self.assertEqual(self.edits("1")["hooks"][0]["args"],
                         ["allot", "cdi", "hook", "--gpu", visible[0].partition("=")[2]])
        self.assertEqual(self.edits("all")["env"], ["ALLOT_TENANT_DIR=/opt/allot/tenant"])
        self.assertEqual(self.edits("all")["hooks"][0]["args"], ["allot", "cdi", "hook"])

    def test_sizes(self):
        """They need no driver, unless they are of one device."""
        self.ok("cdi", "generate", "--dir", self.dir, "8GiB-25", "1.5G")
        self.assertEqual(self.edits("8GiB-25")["hooks"],
                         [{"hookName": "createRuntime", "path": os.path.realpath(ALLOT),
                           "args": ["allot", "cdi", "hook", "--memory", "8GiB", "--compute", "25"]}])
        mounts = {m["containerPath"]: m for m in self.edits("1.5G")["mounts"]}
        self.assertEqual({*mounts}, {"/opt/allot/liballot.so", "/etc/ld.so.preload"})
        for path, mount in mounts.items():
            self.assertIn("ro", mount["options"])
            self.assertTrue(os.path.samefile(mount["hostPath"], {
                "liballot.so": os.environ["LIBALLOT"],
                "ld.so.preload": BUILD / "src/cdi/ld.so.preload"}[os.path.basename(path)]))
        # By a path that says who had it loaded (guest/process/environment.h).
        self.assertEqual(pathlib.Path(mounts["/etc/ld.so.preload"]["hostPath"]).read_text(
            encoding="ascii"), "/opt/allot/./liballot.so\n")
        self.generate("1:2GiB-12.5")
        args = self.edits("1:2GiB-12.5")["hooks"][0]["args"]
        self.assertEqual(args[5:], ["--memory", "2GiB", "--compute", "12.5"])
        self.fails(125, "cdi", "generate", "--dir", self.dir, "0:1GiB", says=("no GPU here",))

    def test_amd(self):
        """The nodes of its GPUs come with the file."""
        amd = ("--amd", "2")
        self.generate("0", "8GiB", options=amd)
        one, both = (self.edits(name)["deviceNodes"] for name in ("0", "8GiB"))
        self.assertEqual((len(one), len(both)), (2, 3))
        self.assertEqual(one[0], {"path": "/dev/kfd"})
        self.assertRegex(one[1]["path"], r"^/dev/dri/renderD\d+$")
        self.assertEqual(both[:2], one)
        self.assertEqual(self.edits("0")["env"], ["ALLOT_TENANT_DIR=/opt/allot/tenant"])

    def test_place(self):
        """It is made where there is none, as a user's runtimes have it in ~/.config."""
        place = pathlib.Path(self.dir, "a/b")
        for _ in range(2):
            self.ok("cdi", "generate", "--dir", str(place), "8GiB")
        self.assertEqual([f.name for f in place.iterdir()], ["allot.dev-gpu-8GiB.json"])
        self.assertEqual(place.stat().st_mode & 0o777, 0o755)

    def test_again_and_removed(self):
        self.generate("8GiB", "4GiB")
        file = pathlib.Path(self.dir, "allot.dev-gpu-8GiB.json")
        first = file.stat().st_ino
        self.generate("8GiB")
        self.assertNotEqual(file.stat().st_ino, first)
        # Others' files are theirs.
        others = ["nvidia.json", "allot.dev-gpu-.json", "allot.dev-gpu-x.yaml"]
        for name in others:
            self.path("cdi/" + name, "{}")
        self.assertEqual(self.listed(), ["allot.dev/gpu=4GiB", "allot.dev/gpu=8GiB"])
        self.ok("cdi", "remove", "--dir", self.dir, "4GiB")
        self.fails(125, "cdi", "remove", "--dir", self.dir, "4GiB", says=("4GiB", "cdi list"))
        self.fails(125, "cdi", "remove", "--dir", self.dir, "../x", says=("../x",))
        self.ok("cdi", "remove", "--dir", self.dir)
        self.assertEqual(sorted(os.listdir(self.dir)), sorted(others))
        self.assertEqual(self.ok("cdi", "list", "--dir", self.path("nowhere")), "")

    def test_words(self):
        for name in ("8GiB%", "8 GiB", "-8GiB", ""):
            self.fails(125, "cdi", "generate", "--dir", self.dir, "--", name,
                       says=(f'"{name}"', "8GiB-25"))
        self.fails(125, "cdi", "generate", "--dir", self.path("file", "") + "/b", "8GiB",
                   says=("--dir",))
        self.fails(125, "cdi", "make", says=('"make" is not an action; write: allot cdi generate',))
        self.fails(125, "cdi", says=("allot cdi: no action; write: allot cdi generate",))
        self.fails(125, "cdi", "list", "--dir", self.dir, "8GiB", says=("8GiB",))
        done = self.allot("sim", "--", ALLOT, "cdi", "generate", "--dir", self.dir, "7:8GiB")
        self.assertEqual(done.returncode, 125)
        self.assertNotIn("--gpu", done.stderr)
        self.assertIn('generate "7": there is no GPU 7, this machine has one; write generate 0',
                      done.stderr)
        self.assertFalse(os.path.exists(self.dir))


class Hook(Case):
    """Whatever goes wrong, the runtime hears of it, and no tenant is left."""

    def hook(self, state, *args):
        text = state if isinstance(state, str) else json.dumps(state)
        done = subprocess.run([ALLOT, "cdi", "hook", *args], input=text, text=True, timeout=60,
                              capture_output=True, env=self.env, check=False)
        self.assertEqual(done.returncode, 125, done.stderr)
        self.assertTrue(done.stderr.startswith("allot cdi hook: "), done.stderr)
        self.assertEqual([d for d in os.listdir(self.tmp + "/run") if d[0] != "."]
                         if os.path.exists(self.tmp + "/run") else [], [])
        return done.stderr

    def bundle(self, config):
        os.makedirs(self.path("bundle"), exist_ok=True)
        return self.path("bundle/config.json", json.dumps(config)) and self.path("bundle")

    def test_nonsense(self):
        self.assertIn("no JSON", self.hook("nonsense"))
        self.assertIn("no JSON", self.hook(""))
        good = {"id": "c1", "pid": os.getpid(), "bundle": self.path("bundle")}
        for key, value in (("id", None), ("id", ""), ("id", "x" * 300), ("pid", 0), ("pid", "1"),
                           ("pid", 1 << 40), ("bundle", 3), ("bundle", "x" * 5000)):
            self.assertIn("no id, no pid, or no bundle", self.hook({**good, key: value}))
        self.assertIn("config.json: No such file", self.hook(good))
        process = {"args": ["sh"], "cwd": "/", "env": ["PATH=/bin"]}
        for config in ([], {}, {"root": {"path": "rootfs"}}, {"process": process},
                       {"root": {"path": 7}, "process": process},
                       {"root": {"path": "r"}, "process": {**process, "cwd": ""}}):
            self.bundle(config)
            self.assertIn("no root, or no process", self.hook(good))

    def test_refusals(self):
        state = {"id": "c1", "pid": os.getpid(), "bundle": self.bundle(
            {"root": {"path": "rootfs"}, "process": {"args": ["sh"], "cwd": "/"}})}
        # Our own mounts: there is no such root among them.
        self.assertRegex(self.hook(state, "--memory", "1GiB"),
                         "(bundle/rootfs: No such file|cannot be entered: Operation not permitted)")
        self.assertIn("not a size", self.hook(state, "--memory", "much"))
        self.assertIn("names", self.hook(state, "--gpu", "0"))
        self.assertIn("1 to 63 letters", self.hook({**state, "id": "a/b"}))
        with subprocess.Popen(["unshare", "--user", "sh", "-c", "echo in; cat"], text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE) as stranger:
            if stranger.stdout.readline():
                self.assertIn("user namespace has no root", self.hook({**state, "pid": stranger.pid}))
            stranger.stdin.close()
        gone = subprocess.Popen(["true"])
        gone.wait()
        self.assertTrue(self.hook({**state, "pid": gone.pid}))


if __name__ == "__main__":
    cli_lib.main()
