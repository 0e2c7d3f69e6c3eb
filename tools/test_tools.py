# SPDX-License-Identifier: Apache-2.0
"""The tools that judge the project are judged here: what they must count and must refuse."""
import contextlib
import importlib.machinery
import importlib.util
import io
import json
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock
from xml.etree import ElementTree

import api_coverage
import charts
import front_end
import includes
import moves
import tally
import words


class Tally(unittest.TestCase):
    def test_every_result_counts_once(self):
        results = ["OK", "EXPECTEDFAIL", "SKIP", "FAIL", "ERROR", "TIMEOUT", "UNEXPECTEDPASS",
                   "INTERRUPT"]
        self.assertEqual(tally.tally([{"name": "t", "result": r} for r in results]), (2, 5, 1))

    def test_no_tests(self):
        self.assertEqual(tally.tally([]), (0, 0, 0))

    def test_a_complaint_ends_with_the_last_that_was_said(self):
        said = tally.complaint({"name": "t", "result": "FAIL", "stderr": "why\n",
                                "stdout": "".join(f"{i}\n" for i in range(100))})
        self.assertEqual((said[0], said[-1], len(said)),
                         ("t: FAIL", "    why", 2 + tally.LAST_LINES))

    def test_a_test_that_was_skipped_says_why(self):
        self.assertEqual(tally.reason({"stdout": "a\nno GPU here\n\n"}), "no GPU here")
        self.assertEqual(tally.reason({}), "it does not say why")


class FrontEnd(unittest.TestCase):
    def test_what_is_not_built_is_read(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in ("built", "#error"), ("right", "int a;"), ("wrong", "int a = b;"):
                (Path(folder) / f"{name}.c").write_text(text, encoding="ascii")
            (Path(folder) / "built.o").touch()
            for names, status in (("built", "right"), 0), (("right", "wrong"), 1):
                commands = [{"directory": folder, "file": f"{name}.c", "output": f"{name}.o",
                             "command": f"cc -Wall -MD -MF {name}.d -o {name}.o -c {name}.c"} for name in names]
                (Path(folder) / "compile_commands.json").write_text(json.dumps(commands), encoding="ascii")
                done = subprocess.run([sys.executable, front_end.__file__, folder], text=True, capture_output=True,
                                      timeout=60, check=False)
                self.assertEqual(done.returncode, status, done.stderr)
                self.assertEqual("wrong.c" in done.stderr, status == 1)
            self.assertEqual(sorted(p.suffix for p in Path(folder).iterdir()), [".c", ".c", ".c", ".json", ".o"])


class Setup(unittest.TestCase):
    def test_a_folder_that_cannot_be_preloaded_from(self):
        """It is said before anything is built or looked for."""
        setup = Path(__file__).resolve().with_name("setup")
        for name in ("a b", "a:b", "a;b"):
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                copy = Path(folder) / name / "tools/setup"
                copy.parent.mkdir(parents=True)
                shutil.copy(setup, copy)
                done = subprocess.run([copy, "build"], env={"PATH": "/usr/bin:/bin"}, text=True,
                                      capture_output=True, timeout=60, check=False)
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                self.assertIn(f'"{Path(folder).resolve() / name / "build"}" has a space', done.stderr)


def load(name):
    """A tool without a suffix, as a module."""
    path = str(Path(__file__).parent / name)
    loader = importlib.machinery.SourceFileLoader(name, path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    with mock.patch.object(sys, "dont_write_bytecode", True):
        loader.exec_module(module)
    return module


class Install(unittest.TestCase):
    def setUp(self):
        self.tool = load("install")
        self.said = io.StringIO()
        self.files = ["/usr/local/bin/allot", "/usr/local/lib/systemd/system/allotd.service"]

    def next(self, prefix, files):
        with contextlib.redirect_stdout(self.said):
            self.tool.say_next(prefix, files)
        return self.said.getvalue()

    def test_programs_alone_are_built(self):
        targets = [{"installed": there, "filename": [f"/b/{name}"]} for name, there in
                   (("src/cli/allot", True), ("tests/e2e/holder", False), ("man/allot.1", True))]
        with mock.patch.object(self.tool, "introspect", lambda what: targets), \
                mock.patch.object(self.tool, "BUILD", "/b"):
            self.assertEqual(self.tool.programs(), ["src/cli/allot", "man/allot.1"])

    @mock.patch.dict("os.environ", {"PATH": "/usr/local/bin:/bin", "HOME": "/home/a"})
    def test_root_is_told_of_allotd(self):
        with mock.patch("os.geteuid", lambda: 0):
            said = self.next("/usr/local", self.files)
        for words in ("allot doctor", "systemctl enable --now allotd", "/etc/allot/allotd.conf",
                      "make uninstall"):
            self.assertIn(words, said)
        self.assertNotIn("PATH", said)

    @mock.patch.dict("os.environ", {"PATH": "/bin", "HOME": "/home/a"})
    def test_a_user_is_told_of_the_path(self):
        for uid in (0, 1000):
            with mock.patch("os.geteuid", lambda uid=uid: uid):
                said = self.next("/home/a/.local", self.files)
            self.assertIn("export PATH=/home/a/.local/bin:$PATH", said)
            self.assertNotIn("systemctl", said)

    def test_a_package_is_told_nothing(self):
        with mock.patch.object(self.tool, "ROOT", "/dest"):
            self.assertEqual(self.next("/usr", self.files), "")


class Charts(unittest.TestCase):
    def test_what_allot_bench_wrote_is_drawn(self):
        found = {"controller": "deficit", "kernel_us": 100, "seconds_each": 2, "bin_seconds": 0.1,
                 "bins": [0.1] * 20 + [0.5] * 20,
                 "caps": [{"target": 0.1, "share": 0.101, "share_low": 0.1, "share_high": 0.102},
                          {"target": 0.5, "share": 0.49, "share_low": 0.4, "share_high": 0.5}]}
        with tempfile.TemporaryDirectory() as folder:
            results = Path(folder) / "bench.json"
            results.write_text(json.dumps({"device": "GPU 0: <a>", "solo": [found]}),
                               encoding="utf-8")
            with mock.patch.object(sys, "argv", ["charts.py", str(results), folder]):
                charts.main()
            over_time, off = (ElementTree.parse(Path(folder) / name).getroot()
                              for name in ("over-time.svg", "off.svg"))
        self.assertEqual(len(over_time.findall("{*}polyline")), 2)
        self.assertEqual(len(over_time.findall("{*}line")), 5 + 2)
        self.assertEqual(len(off.findall("{*}circle")), 2 + 2)


class Moves(unittest.TestCase):
    TABLE = """s                       out  command                 back  command
cycle 1                 2.4   2.4593                0.332    0.338
cycle 2               0.327   0.3323  0.344                 0.3487
cycle 3               0.339   0.3446                0.337   0.3417
PCIe alone           0.3134                        0.3137
driver's checkpoint  8.9739                        3.1992
"""

    def test_times(self):
        rows = {name: (out, back) for name, out, back in moves.times(self.TABLE)}
        self.assertEqual(rows["allot, the first time"], (2.4, 0.332))
        self.assertEqual(rows["allot, host memory at hand"], (0.333, 0.3405))
        self.assertEqual(rows["PCIe alone"], (0.3134, 0.3137))
        self.assertEqual(len(list(moves.bars(moves.times(self.TABLE)))), 4 * (1 + 2 * 2))

    def test_no_table(self):
        with self.assertRaises(ValueError):
            moves.times("cycle 1  2.4  2.5  0.3  0.3\n")


class Lists(unittest.TestCase):
    def rows(self, text, kinds):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "x.def"
            path.write_text(text, encoding="utf-8")
            return api_coverage.rows_of(path, "CUDA", kinds)

    def test_rows(self):
        text = "/* CUDA_HOOK(no, A) */\nCUDA_HOOK(f, A,\n\t(int x), (x))\nCUDA_PASS(g, B)\n"
        self.assertEqual(self.rows(text, {"A": "", "B": ""}),
                         {"A": {"f": "hooked"}, "B": {"g": "passed through"}})

    def refused(self, text):
        with self.assertRaises(SystemExit):
            self.rows(text, {"A": "", "B": ""})

    def test_two_decisions_for_one_name(self):
        self.refused("CUDA_PASS(f, A)\nCUDA_PASS(f, B)\n")

    def test_unknown_kind(self):
        self.refused("CUDA_PASS(f, C)\n")

    def test_unknown_form(self):
        self.refused("CUDA_MAYBE(f, A)\n")

    def test_kind_with_two_decisions(self):
        self.refused("CUDA_PASS(f, A)\nCUDA_HOOK(g, A, (void), ())\n")

    def ioctls(self, text):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "x.def"
            path.write_text(text, encoding="utf-8")
            return api_coverage.ioctls_of(path, {"PASS": "", "VIEW": ""}, api_coverage.kfd_number)

    def test_ioctls(self):
        self.assertEqual(self.ioctls("/* KFD_OTHER(0x09, C, PASS) */\n"
                                     "KFD_IOCTL(0x01, A, a_args, VIEW)\nKFD_OTHER(0x80, B, PASS)"),
                         [(1, "A", "VIEW"), (0x80, "B", "PASS")])
        self.assertEqual(api_coverage.drm_number(["AMDGPU_GEM_OP", "COUNT"])[0], 0x50)
        self.assertEqual(api_coverage.drm_number(["GEM_CLOSE", "RELEASE"])[0], 0x09)

    def test_wrong_ioctls(self):
        for text in ("KFD_OTHER(0x01, A, MAYBE)",
                     "KFD_OTHER(0x01, A, PASS)\nKFD_OTHER(0x01, B, PASS)",
                     "KFD_OTHER(0x01, A, PASS)\nKFD_OTHER(0x02, A, PASS)"):
            with self.assertRaises(SystemExit):
                self.ioctls(text)


class Includes(unittest.TestCase):
    def wrong(self, files):
        """files: {"room/name.c": modules, below guest, that it includes}"""
        text = {f"guest/{name}": "".join(f'#include "guest/{other}.h"\n' for other in to)
                for name, to in files.items()}
        return includes.wrong(text)

    def test_a_module_is_its_two_files_and_what_it_keeps_to_itself(self):
        self.assertEqual(self.wrong({
            "meter/a.c": ["meter/a_priv"], "meter/a.h": [], "meter/a_priv.h": ["meter/a"],
            "launch/b.c": ["launch/b", "meter/a"], "launch/b.h": []}), [])

    CIRCLE = {"meter/a.h": [], "meter/b.h": ["meter/c"], "meter/c.h": [],
              "meter/a.c": ["meter/b"], "meter/c.c": ["meter/a"]}

    def test_a_circle(self):
        said = self.wrong(self.CIRCLE)
        self.assertEqual(said, [
            f"guest/meter/{a} includes guest/meter/{b}, which includes it, by others or itself"
            for a, b in ("ab", "bc", "ca")])

    def test_hooks_that_a_header_tells_of_are_its_module(self):
        self.assertEqual(len(self.wrong({"memory/pool.h": ["memory/charge"], "memory/charge.h": [],
                                         "memory/charge.c": ["memory/pool"]})), 2)
        self.assertEqual(len(self.wrong({"memory/pool.h": [], "memory/charge.h": [],
                                         "memory/charge.c": ["memory/pool"],
                                         "memory/hook_pool.c": ["memory/charge"]})), 2)

    def test_a_circle_of_calls_that_no_include_shows(self):
        files = {"base/x.h": "int a_do(void);\nint b_do(int n);\n",
                 "base/a.c": "int a_do(void)\n{\n\treturn b_do(1);\n}\n",
                 "base/b.c": "int b_do(int n)\n{\n\treturn n ? 0 : a_do();\n}\n",
                 "base/c.c": "static int b_do(void)\n{\n\treturn a_do();\n}\n"}
        self.assertEqual(includes.calls_wrong(files), [
            f"base/{a}.c calls base/{b}.c ({b}_do), which calls it, by others or itself"
            for a, b in ("ab", "ba")])
        files["base/b.c"] = "int b_do(int n)\n{\n\treturn n; /* not a_do() */\n}\n"
        self.assertEqual(includes.calls_wrong(files), [])

    def test_a_folder_with_too_many_files(self):
        with tempfile.TemporaryDirectory() as root:
            (Path(root) / "src/x").mkdir(parents=True)
            for i in range(includes.FILES + 1):
                (Path(root) / f"src/x/{i}.c").touch()
            self.assertEqual(includes.full_folders(Path(root)),
                             [f"src/x has {includes.FILES + 1} files, {includes.FILES} allowed"])
            (Path(root) / "src/x/0.c").unlink()
            self.assertEqual(includes.full_folders(Path(root)), [])

    def test_a_call_upward_that_no_include_shows(self):
        files = {"guest/core/a.h": "int x_start(struct guest *guest);\nint y_do(void);\n",
                 "guest/core/a.c": "int y_do(void)\n{\n\treturn x_start(0);\n}\n",
                 "guest/swap/x.c": "int x_start(struct guest *guest)\n{\n\treturn 0;\n}\n"
                                   "WAIT(cu, (void), (), y_do(), z)\n{\n}\n"}
        self.assertEqual(includes.upward(files), [
            "guest/core/a.h declares x_start, which guest/swap/x.c defines, in another room"])

    def test_a_room_above(self):
        said = self.wrong({"meter/a.c": ["launch/b"], "launch/b.h": []})
        self.assertEqual(said,
                         ["guest/meter/a includes guest/launch/b, which guest/meter may not use"])

    def test_rooms_that_may_use_each_other(self):
        self.assertEqual(includes.rooms_wrong({"cli/say": (), "cli/top": ("cli/say",),
                                               "sim": ("sim/cuda",), "sim/cuda": ("sim",)}), [])
        self.assertEqual(includes.rooms_wrong({"cli/a": ("cli/b",), "cli/b": ("cli/a", "base")}), [
            f"{begin} may use {end}, which may use it, by others or itself"
            for begin, end in (("cli/a", "cli/b"), ("cli/b", "cli/a"))])

    def test_a_hook_is_above_all_other_rooms_of_the_guest(self):
        to = {"launch/b.h": [], "nvml/c.h": []}
        self.assertEqual(self.wrong({"interpose/hook_a.c": ["launch/b", "nvml/c"], **to}), [])
        self.assertEqual(len(self.wrong({"interpose/a.c": ["launch/b", "nvml/c"], **to})), 2)
        self.assertEqual(len(self.wrong({"memory/hook_a.c": ["launch/b", "nvml/c"], **to})), 2)

    def test_walks_go_through_rooms_that_have_what_they_say(self):
        text = ("## Three walks\n\n    go\n      ledger   quota_x   sums\n"
                "      driver   cuX\n      guest/a  hook_x.c  asks\n\n## More\n      b  c\n")
        self.assertEqual(
            includes.walks_wrong(text, {"ledger": "int quota_x(void)", "guest/a": "hook_x.c"}), [])
        self.assertEqual(len(includes.walks_wrong(text, {"ledger": "int quota_xy(void)"})), 2)
        self.assertEqual(len(includes.walks_wrong("", {})), 1)

    def test_no_step_of_a_walk_goes_back(self):
        rooms = {"ledger": "quota_x", "base": "hash_x"}
        hops = ("      ledger   quota_x   sums\n      ledger   quota_x   again\n"
                "      base     hash_x\n{}      ledger   quota_x\n")
        for between, wrong in (("", 1), ("    and then\n", 0)):
            text = "## Three walks\n    go\n" + hops.format(between)
            self.assertEqual(len(includes.walks_wrong(text, rooms)), wrong)

    def test_a_folder_that_is_no_room(self):
        self.assertEqual(self.wrong({"attic/a.c": []}), ["guest/attic/a.c: in none of the rooms"])

    def test_nothing(self):
        self.assertTrue(self.wrong({}))

    def tree(self, text, *paths):
        with tempfile.TemporaryDirectory() as folder:
            for path in (Path(folder) / path for path in paths):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
            (Path(folder) / "CONTRIBUTING.md").write_text(text, encoding="utf-8")
            return includes.tree_wrong(Path(folder))

    def test_a_line_a_folder(self):
        text = "    src/a/    one\n    src/a/b/  two\n    sim/  three\n"
        self.assertEqual(self.tree(text, "src/a/x.c", "src/a/b/y.def", "sim/z.c"), [])
        self.assertEqual(self.tree(text, "src/a/b/y.h", "src/c/z.c"),
                         ["CONTRIBUTING.md has no line for src/c/",
                          "CONTRIBUTING.md names sim/, which is no folder"])
        self.assertEqual(self.tree(text + "    src/a/  again\n", "src/a/b/y.h", "sim/z.c"),
                         ["CONTRIBUTING.md names src/a/ twice"])


class Words(unittest.TestCase):
    def found(self, text, read=words.comments):
        now = words.counts(("src", "x.c", line, said) for line, said in read(text))
        return {habit: number for (part, habit), number in now.items() if part == "src" and number}

    def test_a_habit_is_counted_once_a_sentence(self):
        for comment, habit in (("What is left. Then more.", "opening"),
                               ("First this.\n * Whether it is.", "opening"),
                               ("A page (Whose it is).", "opening"),
                               ("A page is kept for who asks.", "who"),
                               ("It waits so long.", "so"),
                               ("One that ended is none.", "one that"),
                               ("The memory is away.", "away")):
            with self.subTest(comment):
                self.assertEqual(self.found(f"int a; /* {comment} */"), {habit: 1})
        self.assertEqual(self.found("/* Who leaves goes on. */"), {"opening": 1, "who": 1})

    def test_plain_sentences_are_not(self):
        for comment in ("The user who made it.", "Asks who has it.", "Who has it?",
                        "There are so many that none fits.", "It takes so much longer than this.",
                        "True if what it holds is free.", "Let in, and let go."):
            with self.subTest(comment):
                self.assertEqual(self.found(f"/* {comment} */"), {})

    def test_only_comments_are_read(self):
        self.assertEqual(self.found('x("/* Who */", \'"\'); char *y = "What is";'), {})
        self.assertEqual(self.found("// What is left.\n"), {"opening": 1})

    def test_a_line_is_that_of_the_comment(self):
        self.assertEqual(list(words.comments("a;\n/*\n * One\n * two.\n */\n/* three */")),
                         [(2, "One two."), (6, "three")])

    def test_a_manual_page_has_paragraphs(self):
        self.assertEqual(self.found("# NAME\n\n*-a*\n\tWhat a is.\n\n. Who asks\n",
                                    words.paragraphs), {"opening": 1, "who": 1})

    def test_a_count_may_only_fall(self):
        key = ("src", "who")
        for now, faults, notes, then in ((3, 1, 0, 2), (2, 0, 0, 2), (1, 0, 1, 1)):
            said = words.judge({key: now}, {key: 2})
            self.assertEqual(tuple(map(len, said)), (faults, notes))
            self.assertEqual(words.lowered({key: now}, {key: 2}), {key: then})
        self.assertEqual(words.judge({key: 1}, {})[1], [])

    def test_the_file_is_read_as_it_is_written(self):
        most = {("src", "one that"): 12, ("man", "so"): 0}
        self.assertEqual(words.read_most(words.written(most)), most)


if __name__ == "__main__":
    unittest.main()
