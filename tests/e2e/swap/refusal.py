# SPDX-License-Identifier: Apache-2.0
"""The exit status of `allot suspend` and `allot resume` for the reason that they give."""

import re

LATE = re.compile("still has work on the device|is stopped, by a signal|cannot be asked|does not get on")
NO_ROOM = re.compile("has no room for|there is not enough host memory|--host-memory is|for what has no room|"
                     "have its place on the device")


def status_of(said):
    return 124 if LATE.search(said) else 123 if NO_ROOM.search(said) else 125
