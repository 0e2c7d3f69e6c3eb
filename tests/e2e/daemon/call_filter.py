# SPDX-License-Identifier: Apache-2.0
"""call_filter.py NUMBER,NUMBER... COMMAND...: runs a command that is killed by any other system call.

As systemd's SystemCallFilter, but for the end: the unit has the call refused, which a test would not
see.
"""

import ctypes
import os
import struct
import sys

PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, KILL = 0x7fff0000, 0x80000000


def step(code, value, yes=0, no=0):
    return struct.pack("HBBI", code, yes, no, value)


def program(numbers):
    steps = [step(LOAD, 0)]  # the call's number
    for number in numbers:
        steps += [step(EQUAL, number, no=1), step(RETURN, ALLOW)]
    return steps + [step(RETURN, KILL)]


def main():
    steps = program([int(number) for number in sys.argv[1].split(",")])
    code = ctypes.create_string_buffer(b"".join(steps))
    filters = struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filters, 0, 0):
        sys.exit(f"call_filter.py: {os.strerror(ctypes.get_errno())}")
    os.execvp(sys.argv[2], sys.argv[2:])


main()
