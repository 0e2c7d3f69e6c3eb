# SPDX-License-Identifier: Apache-2.0
"""docs/from: the commands are done on a simulated GPU, allot's options in the tables exist, and links
lead somewhere."""

import os
import pathlib
import re
import subprocess

import cli_lib
from cli_lib import ALLOT

SOURCE = pathlib.Path(os.environ["ALLOT_SOURCE"])
PAGES = sorted((SOURCE / "docs" / "from").glob("*.md"))
LINES = 80
# What the pages call a program says how much memory it sees.
PROGRAM = "#!/bin/sh\nexec nvidia-smi --query-gpu=memory.total --format=csv,noheader\n"


def commands(page):
    return re.findall(r"^    \$ (.*)$", page.read_text(encoding="utf-8"), re.M)


def ours(page):
    """The second column of its tables."""
    for line in page.read_text(encoding="utf-8").splitlines():
        cells = re.split(r"(?<!\\)\|", line)
        if len(cells) == 4:
            yield cells[2]


class From(cli_lib.Case):
    def test_pages(self):
        self.assertEqual([page.stem for page in PAGES],
                         ["hami-core", "mig", "mps", "nvshare", "run-ai", "time-slicing"])
        for page in PAGES:
            with self.subTest(page.name):
                text = page.read_text(encoding="utf-8")
                self.assertLessEqual(len(text.splitlines()), LINES)
                for heading in ("What is better", "What is worse", "What is ignored"):
                    self.assertIn(f"\n## {heading}\n", text)
                for link in re.findall(r"\]\(([^)#]+)", text):
                    self.assertTrue((page.parent / link).exists(), link)

    def test_options(self):
        known = "".join(self.ok(command, "--help") for command in ("run", "set", "ps", "top", "trace"))
        known += "--metrics"  # allotd's
        for page in PAGES:
            for cell in ours(page):
                for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*", cell):
                    with self.subTest(page.name, option=option):
                        self.assertRegex(known, rf"{option}\b")

    def test_commands(self):
        """In one simulation for each page; each ends well, and the answer is that of a limited program."""
        os.mkdir(self.path("bin"))
        self.path("bin/python", PROGRAM)
        self.env["PATH"] = f"{self.path('bin')}:{os.path.dirname(ALLOT)}:{self.env['PATH']}"
        for page in PAGES:
            lines = commands(page)
            self.assertTrue(lines, page)
            # What the machine has no part in: the doctor finds fault with a machine without a GPU.
            script = "\n".join(f"{line}{' || true' if 'doctor' in line else ''}; printf '\\1'"
                               for line in lines)
            done = subprocess.run([ALLOT, "sim", "--gpus", "1", "--memory", "80GiB", "--", "bash",
                                   "-ec", script], env=self.env, text=True, timeout=200,
                                  stdin=subprocess.DEVNULL, capture_output=True, check=False)
            with self.subTest(page.name):
                self.assertEqual(done.returncode, 0, done.stderr)
                said = done.stdout.split("\1")
                self.assertEqual(len(said), len(lines) + 1)
                for line, answer in zip(lines, said):
                    if line.endswith(".py"):
                        self.assertRegex(answer, r"^\d+ MiB\n$", line)
                if page.stem == "hami-core":
                    self.assertEqual(said[:2], ["2048 MiB\n"] * 2)


if __name__ == "__main__":
    cli_lib.main()
