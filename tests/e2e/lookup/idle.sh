#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# idle.sh ALLOT PROGRAM: a process that never touches a GPU has the library mapped, and that is all.
set -eu
allot=$(realpath "$1") program=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

"$program" >"$dir/without"
LD_PRELOAD=$allot "$program" >"$dir/with"
[ "$(grep -c '/liballot.so$' "$dir/with")" = 1 ]
grep -v '/liballot.so$' "$dir/with" | diff "$dir/without" -

# The system calls of its life, but for those with which the loader brings in one library more
# (open, read, look at, map, protect, close); and the files that it opens.
if ! strace -o "$dir/trace" true 2>/dev/null; then
	echo "strace is missing or not permitted: system calls not compared"
	exit 0
fi
loading='mmap|mprotect|munmap|openat|close|read|pread64|newfstatat|fstat|brk|write'
calls() {
	strace -f -o "$dir/trace" env "$1" "$program" >/dev/null
	sed -nE 's/^[0-9]+ +([a-z0-9_]+)\(.*/\1/p' "$dir/trace" | grep -Evx "$loading" |
		sort | uniq -c
	grep -o 'openat([^"]*"[^"]*"' "$dir/trace" | grep -v '/liballot.so"' | sort -u
}
calls NOTHING= >"$dir/without"
calls LD_PRELOAD="$allot" >"$dir/with"
[ -s "$dir/with" ]
diff "$dir/without" "$dir/with"
