# SPDX-License-Identifier: Apache-2.0
"""What bash, zsh and fish complete after "allot ...": asked of the shells themselves."""

import os
import re
import select
import shutil
import signal
import subprocess
import time

import cli_lib

COMPLETION = os.path.join(os.environ["ALLOT_SOURCE"], "deploy", "completion")
ALLOTD = os.path.join(os.environ["ALLOT_BUILD"], "src", "daemon", "allotd")
DEVICES = 3

BASH = r"""
source "$1"
compopt() { :; } # readline's, which is not here
shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_allot
printf '%s\n' "${COMPREPLY[@]}"
"""

FISH = r"""
source $argv[1]
complete -C $argv[2]
"""

# Each match goes to a file on its way to the screen; what _describe asks for itself does not.
ZSH = r"""
PS1= PS2= LISTMAX=10000
autoload -Uz compinit && compinit -u -d $OUT.dump
compadd() {
	if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then
		builtin compadd "$@"
		return
	fi
	local -a __hits
	builtin compadd -A __hits "$@"
	(($#__hits == 0)) || print -rl -- "$__hits[@]" >>$OUT
	builtin compadd "$@"
}
over() { BUFFER=; print >$OUT.over }
zle -N over
bindkey '^I' list-choices '^X' over
print >$OUT.over
"""


def bash(case, *words):
    return subprocess.run(["bash", "--norc", "-c", BASH, "bash", f"{COMPLETION}/allot.bash",
                           *words], env=case.env, text=True, capture_output=True, timeout=60,
                          check=True)


def fish(case, *words):
    return subprocess.run(["fish", "--no-config", "-c", FISH, f"{COMPLETION}/allot.fish",
                           " ".join(words)], env=case.env, text=True, capture_output=True,
                          timeout=60, check=True)


class ZshShell:
    """An interactive zsh on a terminal of its own."""

    def __init__(self, case):
        self.out = case.path("zsh")
        functions = case.path("functions")
        os.makedirs(functions)
        shutil.copy(f"{COMPLETION}/allot.zsh", f"{functions}/_allot")
        with open(case.path(".zshrc"), "w", encoding="ascii") as rc:
            rc.write(f"fpath=({functions} $fpath)\n" + ZSH)
        env = {**case.env, "OUT": self.out, "ZDOTDIR": case.tmp, "TERM": "dumb"}
        self.pid, self.terminal = cli_lib.fork_on_terminal()
        if not self.pid:
            os.execvpe("zsh", ["zsh", "-d", "-i"], env)
        case.addCleanup(self.end)
        self.wait()

    def end(self):
        os.close(self.terminal)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)

    def wait(self):
        end = time.monotonic() + 60  # for a hang
        while not os.path.exists(f"{self.out}.over"):
            assert time.monotonic() < end, "zsh hangs"
            if select.select([self.terminal], [], [], 0.02)[0]:
                os.read(self.terminal, 65536)
        os.remove(f"{self.out}.over")

    def asked(self, line):
        """Each match once; it is shown again where a file fits in two ways."""
        with open(self.out, "w", encoding="utf-8"):
            pass
        os.write(self.terminal, f"{line}\t\x18".encode())
        self.wait()
        with open(self.out, encoding="utf-8") as file:
            return list(dict.fromkeys(file.read().splitlines()))


class Completion:
    """What all shells have in common; `asked` is each one's own."""

    shell = None

    def setUp(self):
        if not shutil.which(self.shell):
            self.skipTest(f"{self.shell} is not installed")
        super().setUp()
        self.env["PATH"] = (f"{os.path.dirname(cli_lib.ALLOT)}:{os.path.dirname(ALLOTD)}:"
                            f"{self.env['PATH']}")
        self.env["HOME"] = self.tmp
        # The simulated devices, for the shell and for all that it starts.
        for line in self.ok("sim", "--gpus", str(DEVICES), "--dir", self.path("sim"), "--", "env"
                            ).splitlines():
            name, _, value = line.partition("=")
            if name.startswith(("ALLOT_SIM", "LD_")):
                self.env[name] = value

    def asked(self, line):
        """{word: what is said of it} that may follow; the last word is what is typed of it."""
        raise NotImplementedError

    def offers(self, line, *expected):
        self.assertEqual(sorted(self.asked(line)), sorted(expected), line)

    @staticmethod
    def listed_in(text):
        """{--option: name of its value or None} by the help."""
        return dict(re.findall(r"^ {2,6}(?:-., )?(--[a-z-]+)(?:=(\S+))?", text, re.M))

    def options(self, word):
        return self.listed_in(self.ok(word, "--help"))

    def words(self):
        return re.findall(r"^  allot (\w+) ", self.ok("--help"), re.M)

    def test_words(self):
        self.assertLessEqual(set(self.words()), set(self.asked("allot ")))
        self.offers("allot susp", "suspend")

    def test_every_option(self):
        for word in self.words():
            self.assertEqual(set(self.asked(f"allot {word} --")) - {"--"}, set(self.options(word)),
                             word)

    def test_every_value_of_a_list(self):
        lists = [(word, option, value) for word in self.words()
                 for option, value in self.options(word).items() if "|" in value]
        self.assertGreater(len(lists), 8)
        for word, option, value in lists:
            self.assertLessEqual(set(value.split("|")) - {"FILE"},
                                 set(self.asked(f"allot {word} {option} ")), (word, option))
        self.offers("allot run --mode=tu", self.joined("--mode", "turns"))
        self.offers("allot run -a l", "ledger")

    def joined(self, option, value):
        return f"{option}={value}"

    def test_daemon(self):
        """It has options, and no words."""
        if not os.path.exists(ALLOTD):
            self.skipTest("built without allotd")
        done = subprocess.run([ALLOTD, "--help"], env=self.env, text=True, capture_output=True,
                              timeout=60, check=True)
        options = self.listed_in(done.stdout)
        self.assertIn("--config", options)
        for line in ("allotd --", "allotd --check --"):
            self.assertEqual(set(self.asked(line)) - {"--"}, set(options))
        lists = [(option, value) for option, value in options.items() if "|" in value]
        self.assertGreater(len(lists), 1)
        for option, value in lists:
            self.offers(f"allotd {option} ", *value.split("|"))
        self.offers("allotd -o k", "kill")
        self.offers("allotd --metrics=ha", self.joined("--metrics", "hami"))
        self.offers("allotd --listen ")
        self.path("allotd.conf", "")
        self.assertEqual([os.path.basename(word) for word in
                          self.asked(f"allotd --check --config {self.path('allotd.c')}")],
                         ["allotd.conf"])

    def test_what_a_word_does(self):
        """One of several, and nothing of tenants after it: names are others there."""
        if "generate|list|remove" not in self.ok("cdi", "--help").splitlines()[0]:
            self.skipTest("built without allot cdi")
        self.keep("jobA")
        self.offers("allot cdi ", "generate", "list", "remove")
        self.offers("allot cdi rem", "remove")
        self.offers("allot cdi remove ")
        self.offers("allot cdi generate ")

    def test_help(self):
        self.assertLessEqual(set(self.words()), set(self.asked("allot help ")))
        self.offers("allot help susp", "suspend")

    def test_tenants(self):
        for line in ("allot set ", "allot run --name ", "allot run -n "):
            self.offers(line)
        self.keep("jobA")
        self.keep("jobB", "--memory", "1GiB")
        for line in ("allot ps ", "allot top ", "allot set ", "allot suspend ", "allot resume ",
                     "allot checkpoint ", "allot rm jobA ", "allot run --name ", "allot run -n "):
            self.offers(line, "jobA", "jobB")
        self.offers("allot set --memory 1GiB jobB", "jobB")

    def test_devices(self):
        self.offers("allot run --gpu ", *map(str, range(DEVICES)))
        self.offers("allot bench -g ", *map(str, range(DEVICES)))
        self.offers("allot run --gpu 0,", *(self.listed("0,", i) for i in range(DEVICES)))

    def listed(self, head, device):
        return f"{head}{device}"

    def test_files(self):
        os.makedirs(self.path("at/image.1"))
        self.path("at/figures.json", "")
        at = self.path("at/")
        for line, expected in ((f"allot image {at}", "image.1"),
                               (f"allot bench --json {at}fig", "figures.json")):
            self.assertEqual([os.path.basename(word.rstrip("/")) for word in self.asked(line)],
                             [expected])

    def test_program(self):
        self.path("a-program-of-ours", "#!/bin/sh\n")
        self.env["PATH"] += f":{self.tmp}"
        self.offers("allot run --memory 1GiB -- a-program-of-o", "a-program-of-ours")

    def test_nothing_is_said(self):
        self.env["ALLOT_RUNTIME_DIR"] = "relative"  # an error, which is not for here
        self.offers("allot set ")
        self.offers("allot nosuchword --x")


class Bash(Completion, cli_lib.Case):
    shell = "bash"

    def asked(self, line):
        # As readline has them in words: "=" is one.
        done = bash(self, *re.sub(r"(\S)=(\S*)$", r"\1 = \2", line).split(" "))
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    def joined(self, option, value):
        return value


class Fish(Completion, cli_lib.Case):
    shell = "fish"

    def asked(self, line):
        done = fish(self, line)
        self.assertEqual(done.stderr, "")
        return [word.partition("\t")[0] for word in done.stdout.splitlines()]

    def test_descriptions(self):
        self.assertIn("--once\tprint one frame", fish(self, "allot top --").stdout)
        self.assertIn("--mode\tturns (default)", fish(self, "allot set --").stdout)


class Zsh(Completion, cli_lib.Case):
    shell = "zsh"
    zsh = None

    def asked(self, line):
        self.zsh = self.zsh or ZshShell(self)
        return self.zsh.asked(line)

    def joined(self, option, value):
        return value

    def listed(self, head, device):
        return str(device)


if __name__ == "__main__":
    cli_lib.main()
