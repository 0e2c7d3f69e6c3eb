#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/words.py [--list HABIT [--under FOLDER] | --write] [ROOT]: sentences that are hard to read.

Counts habits that CONTRIBUTING.md advises against, in the comments of src and in the manual pages.
words.most, beside this file, has the highest count that is allowed for each. Prints the counts that
are higher, and those that are lower; --write enters the lower ones there and never raises a number.
--list prints where one habit is. Exits 1 if a count is higher than allowed."""
import argparse
import re
import sys
from pathlib import Path

MOST = "words.most"

# A comment; or a string or a character, in which there is none.
TOKENS = re.compile(r"/\*(.*?)\*/|//([^\n]*)|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.S)
# A sentence begins with the text, after another sentence, or in parentheses.
BEGIN = r"(?:^|(?<=[.:;?!] )|(?<=[.?!]\) )|(?<=\())"
OPENING = (r"(?:So often|So much|So long|So many|What|Whatever|Whether|Who|Whoever|Whose|Of who|"
           r"Of what)\b")
QUESTION = r"(?![^.]*\?)"

# After these "who" is a noun of its own. It is none in "the user who"; "asks who" is left out, too.
BEFORE_WHO = (r"\b(?:of|to|for|by|with|without|than|but|from|and|or|as|on|at|in|before|after|"
              r"behind|if|when|while|because|until|so|that|only|no)")

HABITS = {
    "opening": ("a sentence that begins with What, Whether, Who, So often ...: begin with a noun",
                re.compile(BEGIN + OPENING + QUESTION)),
    "who": ("\"who\" and a verb as a noun: name the process, the thread, the tenant",
            re.compile(BEGIN + r"(?:Who|Whoever|who|whoever)\b" + QUESTION + "|" + BEFORE_WHO +
                       r" who(?:ever)?\b" + QUESTION)),
    "so": ("\"so much\", \"so long\" as a size: say how much, how long",
           re.compile(r"\b[Ss]o (?:often|much|long|many)\b"
                      r"(?!,? (?:that|as|of \w+ that|\w+er than)\b)")),
    "one that": ("a sentence that begins with One that, Those that: begin with a noun",
                 re.compile(BEGIN + r"(?:One|Those|That) (?:that|who|which|of|in|with|whose)\b")),
    "away": ("\"is away\", \"is let\": evicted, suspended, swapped out, permitted",
             re.compile(r"\b(?:is|are|was|were|be|been|being|stays?) "
                        r"(?:away\b(?! from)|let\b(?! in| go))|\blinger")),
}


def plain(text):
    """A comment's text in one line."""
    lines = (re.sub(r"^[ \t]*\*?[ \t]*", "", line).strip() for line in text.split("\n"))
    return " ".join(lines).strip()


def comments(text):
    """(line, words) of each comment of C."""
    for found in TOKENS.finditer(text):
        words = found[1] if found[1] is not None else found[2]
        if words is not None:
            yield text.count("\n", 0, found.start()) + 1, plain(words)


def paragraphs(text):
    """(line, words) of each paragraph of a manual page."""
    line, words = 0, []
    for number, here in enumerate([*text.split("\n"), ""], 1):
        if here.strip():
            line = line if words else number
            words.append(re.sub(r"^\. ", "", here.strip()))
            continue
        if words:
            yield line, " ".join(words)
        words = []


def places(root):
    """(part, path, line, words) of all that is read."""
    for part, pattern, read in (("src", "*.[ch]", comments), ("src", "*.def", comments),
                                ("man", "*.scd", paragraphs)):
        for path in sorted((root / part).rglob(pattern)):
            for line, words in read(path.read_text(encoding="utf-8")):
                yield part, path, line, words


def counts(found):
    """{(part, habit): how many}, of places."""
    said = {(part, habit): 0 for part in ("src", "man") for habit in HABITS}
    for part, _, _, words in found:
        for habit, (_, pattern) in HABITS.items():
            said[part, habit] += len(pattern.findall(words))
    return said


def read_most(text):
    lines = (line.split("#")[0].split(None, 2) for line in text.splitlines())
    return {(part, habit.strip()): int(most) for part, most, habit in filter(None, lines)}


def written(most):
    return ("# The highest count that tools/words.py allows for each habit; the numbers only fall.\n" +
            "".join(f"{part} {number:4} {habit}\n" for (part, habit), number in most.items()))


def judge(now, most):
    """(faults, notes), in words."""
    faults, notes = [], []
    for key, number in now.items():
        part, habit = key
        allowed = most.get(key, 0)
        if number > allowed:
            faults.append(f"{part}: {number} of \"{habit}\", {allowed} allowed: {HABITS[habit][0]} "
                          f"(tools/words.py --list \"{habit}\" says where)")
        elif number < allowed:
            notes.append(f"{part}: {number} of \"{habit}\", {allowed} allowed; "
                         "tools/words.py --write enters the lower one")
    return faults, notes


def lowered(now, most):
    return {key: min(number, most.get(key, number)) for key, number in now.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--list", metavar="HABIT", choices=sorted(HABITS))
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--under", default="", help="with --list: only files in this folder")
    parser.add_argument("root", nargs="?", type=Path,
                        default=Path(__file__).resolve().parent.parent)
    args = parser.parse_args()
    found = list(places(args.root))
    if args.list:
        for _, path, line, words in found:
            name = str(path.relative_to(args.root))
            for hit in HABITS[args.list][1].finditer(words):
                if name.startswith(args.under):
                    print(f"{name}:{line}: {words[max(0, hit.start() - 30):hit.end() + 60]}")
        return 0
    file = Path(__file__).resolve().with_name(MOST)
    now, most = counts(found), read_most(file.read_text(encoding="utf-8")) if file.exists() else {}
    if args.write:
        file.write_text(written(lowered(now, most)), encoding="utf-8")
        return 0
    faults, notes = judge(now, most)
    print("\n".join(faults + notes) or "words: each count is the highest that is allowed")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
