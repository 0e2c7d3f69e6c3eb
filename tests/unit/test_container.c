/* SPDX-License-Identifier: Apache-2.0 */
/* The container in a process's cgroup: 64 hexadecimal digits, and neither more nor fewer. */
#include "node/process/container.h"

#include <string.h>
#include <unistd.h>

#include "node/process/pod.h"
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

#define POD_UID "5cd0a5b2-1c2d-4e3f-8a9b-0123456789ab"
#define MOUNT(root) "36 25 8:1 " root " /dev/termination-log rw,relatime - ext4 /dev/sda1 rw\n"

static void check_pod(void)
{
	struct pod pod = {.name = ""};

	CHECK(pod_of_mount(MOUNT("/var/lib/kubelet/pods/" POD_UID "/containers/main/5f21a3c7"), &pod));
	CHECK(!strcmp(pod.uid, POD_UID) && !strcmp(pod.container, "main") && !*pod.name);
	/* The kubelet's directory is a file system of its own. */
	CHECK(pod_of_mount(MOUNT("/pods/" POD_UID "/containers/side-car/5f21a3c7"), &pod));
	CHECK(!strcmp(pod.container, "side-car"));
	/* Volumes of a Pod, and words behind the first. */
	CHECK(!pod_of_mount(MOUNT("/pods/" POD_UID "/volumes/containers/x/y"), &pod));
	CHECK(!pod_of_mount(MOUNT("/x /pods/" POD_UID "/containers/main/5f21a3c7"), &pod));
	CHECK(!pod_of_mount(MOUNT("/pods//containers/main/5f21a3c7"), &pod));
	CHECK(!pod_of_mount(MOUNT("/pods/" POD_UID "/containers/main"), &pod));
	CHECK(!pod_of_mount(MOUNT("/pods/" A64 A64 "/containers/main/x"), &pod));
	CHECK(!pod_of_mount("", &pod));
	CHECK(!pod_of_logs("default_web-0_" POD_UID "x", &pod));
	CHECK(!pod_of_logs("default_web-0", &pod));
	CHECK(!pod_of_logs("." , &pod));
	CHECK(!*pod.name);
	CHECK(pod_of_logs("default_web-0.a_" POD_UID, &pod));
	CHECK(!strcmp(pod.space, "default") && !strcmp(pod.name, "web-0.a"));
	CHECK(!strcmp(pod.container, "side-car"));
	pod_of_process(getpid(), &pod);
	CHECK(!*pod.uid && !*pod.name);
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
	check_pod();
	container_of_process(1 << 30, found);
	CHECK(!*found);
	return 0;
}
