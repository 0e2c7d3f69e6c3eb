#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# next.sh ALLOT PROGRAM BEFORE AFTER OPENED: RTLD_NEXT answers the same with and without liballot.
set -eu
allot=$(realpath "$1") program=$2 before=$3 after=$4 opened=$5
with=$(mktemp) without=$(mktemp)
trap 'rm -f "$with" "$without"' EXIT
LD_PRELOAD="$before $after" "$program" "$opened" "$before" "$after" >"$without"
LD_PRELOAD="$before $allot $after" "$program" "$opened" "$before" "$after" >"$with"
[ -s "$with" ]
diff "$without" "$with"
