/* SPDX-License-Identifier: Apache-2.0 */
/* The container in a process's cgroup: 64 hexadecimal digits, and neither more nor fewer. */
#include "node/container.h"

#include <string.h>
#include <unistd.h>

#include "tests/check.h"

#define A32 "0123456789abcdef0123456789abcdef"
#define A64 A32 A32
#define B64 "ffffffffffffffffffffffffffffffff" A32

static void check(const char *text, const char *container)
{
	char found[CONTAINER_BYTES] = "junk";

	container_of_cgroup(text, found);
	if (strcmp(found, container)) {
		fprintf(stderr, "\"%s\" for %s\n", found, text);
		exit(1);
	}
}

int main(void)
{
	char found[CONTAINER_BYTES] = "junk";

	check("", "");
	check("0::/user.slice/user-0.slice/session-1.scope\n", "");
	check("0::/system.slice/docker-" A64 ".scope\n", A64);
	check("12:pids:/docker/" A64 "\n0::/docker/" A64 "\n", A64);
	check("0::/kubepods.slice/cri-containerd-" A64 ".scope", A64);
	check("0::/machine.slice/libpod-" A64 ".scope/container\n", A64);
	check("0::/docker/" B64 "/docker/" A64 "\n", A64); /* the inner one */
	check("0::/" A32 "\n", "");
	check("0::/" A64 "0\n", "");
	check("0::/0" A64 "\n", "");
	container_of_process(1 << 30, found);
	CHECK(!*found);
	return 0;
}
