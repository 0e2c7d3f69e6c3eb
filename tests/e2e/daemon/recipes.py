# SPDX-License-Identifier: Apache-2.0
"""What man/allot-recipes.7.scd tells people to write: read out of it, and done."""

import os
import re
import shlex
import subprocess
import types

import cli_lib
import daemon_lib
import users_lib
from users_lib import ALICE, BOB

GIB = 1 << 30
PAGE = os.path.join(os.environ["ALLOT_SOURCE"], "man", "allot-recipes.7.scd")
CONF = re.compile(r"#.*|\[[a-z]+( \S+)?\]|[a-z-]+ = \S+")


def read_page():
    with open(PAGE, encoding="utf-8") as page:
        return re.split(r"\n{2,}", page.read())


def read_blocks():
    """(heading, lines) of each block that is to be written as it stands: one begins with a tab."""
    heading = None
    for paragraph in read_page():
        if paragraph.startswith("#"):
            heading = paragraph.lstrip("# ")
        elif paragraph.startswith("\t"):
            yield heading, [re.sub(r"\\(.)", r"\1", line.removesuffix("++"))
                            for line in paragraph[1:].rstrip("\n").split("\n")]


def kind(lines):
    if all(CONF.fullmatch(line) for line in lines) and any("=" in line for line in lines):
        return "conf"
    return "python" if lines[0].startswith("c.") else "shell"


BLOCKS = list(read_blocks())


def block(heading, what):
    """The only one of that kind there."""
    (lines,) = [lines for h, lines in BLOCKS if h == heading and kind(lines) == what]
    return "\n".join(lines) + "\n"


def known(conf, user=ALICE):
    """With users and groups that a machine need not have as numbers."""
    return re.sub(r"\[(user|group) \S+\]", rf"[\1 {user}]", conf)


class Written(cli_lib.Case):
    """By whoever runs this, without allotd."""

    def setUp(self):
        super().setUp()
        for name in ("bin/python", "bin/jupyterhub-singleuser", "serve", "serve-a", "serve-b"):
            os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
            self.path(name, '#!/bin/sh\necho "$0 in $ALLOT_TENANT_DIR"\n')
        self.env.update(PATH=f"{self.path('bin')}:{os.path.dirname(cli_lib.ALLOT)}:"
                             f"{self.env['PATH']}", USER="somebody",
                        ALLOT_MPS_CONTROL=self.path("none"))

    def test_found(self):
        """None is passed over, because the page is written otherwise than it is read here."""
        kinds = [kind(lines) for _, lines in BLOCKS]
        self.assertEqual([kinds.count(what) for what in ("conf", "python", "shell")], [4, 1, 8])

    def test_configurations(self):
        for heading, lines in BLOCKS:
            if kind(lines) == "conf":
                path = self.path("allotd.conf", known("\n".join(lines) + "\n"))
                done = subprocess.run([daemon_lib.ALLOTD, "--check", "--config", path],
                                      env=self.env, text=True, capture_output=True, timeout=60,
                                      check=False)
                self.assertEqual((done.returncode, done.stderr), (0, ""), heading)

    def test_commands(self):
        """Each on devices as they were measured on; mode space wants what is of the driver."""
        lines = [line for heading, lines in BLOCKS for line in lines
                 if kind(lines) == "shell" and heading != "Slurm"]
        self.assertEqual([line for line in lines if not line.startswith("allot run ")], [])
        for line in lines:
            done = self.allot("sim", "--memory", "141GiB", "--", "sh", "-euc", line, cwd=self.tmp)
            if "--mode space" in line:
                self.assertRegex(done.stderr, "^allot run: --mode space: .*nvidia-cuda-mps-control",
                                 line)
            else:
                self.assertEqual((done.returncode, done.stderr), (0, ""), line)

    def test_named_in_text(self):
        """Commands and options that sentences name are there, and values are of those there are."""
        options = {}
        for word in ("run", "ps", "set", "rm", "suspend"):
            text = self.ok(word, "--help")
            options[word] = dict(re.findall(r"^ {2,6}(?:-., )?(--[a-z-]+)(?:=(\S+))?", text, re.M))
        text = subprocess.run([daemon_lib.ALLOTD, "--help"], env=self.env, text=True,
                              capture_output=True, timeout=60, check=True).stdout
        options["allotd"] = dict(re.findall(r"^ {2,6}(?:-., )?(--[a-z-]+)(?:=(\S+))?", text, re.M))
        every = {name: value for known_of in options.values() for name, value in known_of.items()}
        text = "\n\n".join(p for p in read_page() if p[0] not in "#\t")
        named = re.findall(r"\*((?:allotd?\s|--)[^*]+)\*", text)
        self.assertGreater(len(named), 10)
        for words in map(shlex.split, named):
            there = every
            if words[0] == "allotd":
                there = options["allotd"]
            elif words[0] == "allot":
                self.assertIn(words[1], options)
                there = options[words[1]]
            words = words[:words.index("--")] if "--" in words else words
            for i, word in enumerate(words):
                if word.startswith("--"):
                    self.assertIn(word, there, words)
                    if "|" in there[word]:
                        self.assertIn(words[i + 1], there[word].split("|"), words)


class Sites(users_lib.Case):
    """By users and root, with allotd."""

    def setUp(self):
        super().setUp()
        self.env["PATH"] = (f"{self.path('bin')}:{os.path.dirname(cli_lib.ALLOT)}:"
                            f"{self.env['PATH']}")
        self.env["ALLOT_SIM_MEMORY"] = "64GiB"
        os.mkdir(self.path("bin"), 0o755)
        self.share_devices()

    def site(self, conf):
        return self.daemon(options=("--config", self.path("allotd.conf", conf, 0o644)))

    def test_workstation(self):
        self.site(known(block("A workstation of several people", "conf"), BOB))
        self.alive(ALICE, "a")
        self.user_fails(ALICE, "run", "--memory", "60%", "--", "true", says=["gives 32 GiB"])
        self.user_fails(ALICE, "run", "--weight", "2", "--", "true", says=["weights of 2"])
        self.user_ok(BOB, "run", "--weight", "4", "--", "true")
        for uid in (ALICE, BOB):
            self.user_fails(uid, "run", "--priority", "high", "--", "true", says=["priority-max = normal"])
            self.user_fails(uid, "run", "--floor", "50", "--", "true", says=["floor-max"])

    def test_jupyterhub(self):
        """The command that its spawner starts as the user."""
        self.site(block("JupyterHub", "conf"))
        c = types.SimpleNamespace(Spawner=types.SimpleNamespace())
        exec(block("JupyterHub", "python"), {"c": c})  # pylint: disable=exec-used
        self.path("bin/jupyterhub-singleuser", '#!/bin/sh\necho "$ALLOT_TENANT_DIR"\nread x\n')
        for uid in (ALICE, BOB):
            notebook = self.start(*users_lib.user(uid), *c.Spawner.cmd)
            self.assertEqual(notebook.stdout.readline(), self.dir("notebook", uid) + "\n")
            self.assertEqual(self.quota(f"notebook@{uid}"), 8 * GIB)
            self.user_fails(uid, "set", "notebook", "--memory", "9GiB", says=["gives 8 GiB"])
            self.user_fails(uid, "run", "--", "true", says=["1 tenants are there"])

    def test_gitlab(self):
        self.site(known(block("GitLab's runner", "conf")))
        for name in ("a", "b"):
            self.alive(ALICE, name)
            self.assertEqual(self.quota(f"{name}@{ALICE}"), 8 * GIB)
        self.user_fails(ALICE, "run", "--", "true", says=["2 tenants are there"])

    def slurm(self, name, as_user=False):
        """One of Slurm's three, by the comment that it begins with, as slurmd runs it."""
        (lines,) = [lines for heading, lines in BLOCKS
                    if heading == "Slurm" and lines[0] == f"# {name}"]
        script = self.path(name, "\n".join(["#!/bin/sh", *lines, ""])
                           .replace("/run/allot-users", self.users))
        return subprocess.run([*(users_lib.user(BOB) if as_user else ()), script], text=True,
                              env={**self.env, "SLURM_JOB_ID": "7", "SLURM_JOB_USER": "nobody"},
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=60,
                              check=False)

    def test_slurm(self):
        """A job of nobody's, who cannot get more by its tenant nor beside it."""
        if not self.nobody_is(BOB):
            self.skipTest("no user nobody is here, or one with another number")
        self.site(block("Slurm", "conf"))
        done = self.slurm("Prolog")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        done = self.slurm("TaskProlog", as_user=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        names = re.findall(r"^export ([A-Z_]+)=(.*)$", done.stdout, re.M)
        self.assertEqual(len(names), len(done.stdout.splitlines()))
        self.assertEqual(dict(names)["ALLOT_TENANT_DIR"], self.dir("job7", BOB))
        self.assertTrue(os.path.exists(dict(names)["LD_PRELOAD"]))
        self.assertEqual(self.quota(f"job7@{BOB}"), 20 * GIB)
        self.user_fails(BOB, "set", "job7", "--memory", "21GiB", says=["the site gives 20 GiB"])
        self.user_fails(BOB, "set", "job7", "--weight", "2", says=["weights of 1"])
        self.user_fails(BOB, "run", "--name", "job8", "--", "true", says=["1 tenants are there"])
        done = self.slurm("Epilog")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(os.listdir(self.users), ["control"])
        self.assertEqual([name for name in os.listdir(self.tmp) if "job" in name], [])

    def test_slurm_fails_closed(self):
        """No tenant, no job: a prolog's status drains the node, a task prolog's ends the task."""
        self.site(block("Slurm", "conf"))
        self.assertNotEqual(self.slurm("TaskProlog", as_user=True).returncode, 0)
        self.alive(BOB, "job7", "--memory", "1GiB")
        self.assertEqual(self.slurm("Prolog").returncode, 125)


if __name__ == "__main__":
    cli_lib.main()
