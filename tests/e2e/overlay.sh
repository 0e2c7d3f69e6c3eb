#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# overlay.sh ALLOT FILL: in a container /tmp and /run are an overlay, whose mappings do not keep a
# lock. A tenant there is refused, and root's default place is another one.
set -uo pipefail
allot=$(realpath "$1") fill=$(realpath "$2")

if [[ -z ${INSIDE:-} ]]; then
	unshare -m --propagation private true 2>/dev/null || {
		echo "no right to mount here"
		exit 77
	}
	dir=$(mktemp -d)
	mkdir "$dir"/{lower,memory,merged}
	INSIDE=$dir unshare -m --propagation private "$0" "$allot" "$fill"
	status=$?
	rm -rf "$dir"
	exit $status
fi

cd "$INSIDE" || exit 1
mount -t tmpfs none memory && mkdir memory/{upper,work} &&
	mount -t overlay none -o lowerdir=lower,upperdir=memory/upper,workdir=memory/work merged ||
	exit 77
mkdir merged/run merged/shm
unset XDG_RUNTIME_DIR ALLOT_TENANT_DIR

said=$(ALLOT_RUNTIME_DIR=$INSIDE/merged/tenants "$allot" run --memory 1GiB -- true 2>&1)
status=$?
[[ $status = 125 && $said = *"loses locks"*ALLOT_RUNTIME_DIR* ]] || {
	echo "on an overlay: status $status: $said"
	exit 1
}

mount --bind merged/run /run && mount -t tmpfs none /dev/shm || exit 77
unset ALLOT_RUNTIME_DIR
said=$("$allot" sim -- "$allot" run --memory 1GiB -- "$fill" 2>&1) || {
	echo "by default: status $?: $said"
	exit 1
}
[[ $said = *"it has 1024 MiB"* && -d /dev/shm/allot && ! -e /run/allot ]] || {
	echo "by default: $said"
	exit 1
}

# The containers of a Pod have one /dev/shm, and limits of their own: two tenants. The first one ends, and
# its tenant goes when the third container comes.
container() { # NUMBER
	mkdir -p "memory/$1"/{upper,work,root} && cd "memory/$1" &&
		mount -t overlay none -o lowerdir=/,upperdir=upper,workdir=work root && cd ../.. || return
	mount --rbind /dev "memory/$1/root/dev" && mount -t proc none "memory/$1/root/proc"
}
library=$(realpath "$(dirname "$allot")/../guest/liballot.so")
tenants() { ls -d /dev/shm/allot/drop-in-*; }
export -f container tenants
# shellcheck disable=SC2016 # the inner shell expands it
said=$("$allot" sim -- bash -c 'for n in 1 2 3; do
	container $n || exit 77
	LD_PRELOAD=$0 CUDA_DEVICE_MEMORY_LIMIT=${n}g chroot memory/$n/root "$1" &
	[ $n = 2 ] || wait $! || exit
	tenants
done; wait' "$library" "$fill" 2>&1)
status=$?
((status != 77)) || exit 77
[[ $status = 0 && $said = *"it has 1024 MiB"* && $said = *"it has 2048 MiB"* && $said = *"it has 3072 MiB"* ]] || {
	echo "containers: status $status: $said"
	exit 1
}
[[ $(grep '^/dev/shm/' <<<"$said" | sort -u | wc -l) -ge 2 && $(tenants | wc -l) -le 2 ]] || {
	echo "tenants of containers: $(tenants): $said"
	exit 1
}
