# SPDX-License-Identifier: Apache-2.0
"""What the framework programs share: they tell the harness where they are, one line of JSON each,
and wait for its word. A program loads every kernel that it will use, says what memory it sees,
takes memory in ever smaller steps until its framework says that there is none, holds it while the
driver's figure is read from outside, then frees a part and shows that it still computes."""
import ctypes
import json
import os
import signal
import sys

ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
signal.alarm(400)
MIB = 1 << 20


def say(stage, **what):
    print(json.dumps({"stage": stage, **what}), flush=True)


def take(allocate, steps, is_oom):
    """What was allocated, and the exception that ended it."""
    held, error = [], None
    for step in steps:
        while True:
            try:
                held.append(allocate(step))
            except Exception as e:  # each framework has its own
                if not is_oom(e):
                    raise
                error = e
                break
    return held, error


def main(warm, see, allocate, steps, is_oom, compute):
    """`see` answers (free, total); `compute` must answer True, before and after."""
    warm()
    good = bool(compute())
    free, total = see()
    say("ready", free=free, total=total, computes=good)
    sys.stdin.readline()
    held, error = take(allocate, steps, is_oom)
    free, total = see()
    say("full", free=free, total=total, pieces=len(held),
        error=f"{type(error).__module__}.{type(error).__qualname__}", text=str(error)[:200])
    sys.stdin.readline()
    del error
    del held[:max(1, len(held) // 4)]
    say("after", computes=bool(compute()))
    sys.stdin.readline()
    # Teardown is not what this tests: XLA aborts in its destructors after an allocation that
    # failed, on a bare driver whose memory is used up just as under a quota.
    os._exit(0)
