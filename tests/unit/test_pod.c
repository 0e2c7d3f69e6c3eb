/* SPDX-License-Identifier: Apache-2.0 */
/* A tenant's notes of its Pod: read as they were written, also where an earlier writer was killed. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "node/process/pod.h"
#include "tests/check.h"

static void check_notes(const char *dir)
{
	const struct pod pod = {"default", "web-0", "main", "6f1c"};
	struct pod read;
	char grant[POD_GRANT_BYTES];

	CHECK_EQ(pod_read(dir, &read), -ENOENT);
	CHECK_EQ(pod_note(dir, &pod), 0);
	CHECK_EQ(pod_note_grant(dir, "slot-1"), 0);
	CHECK_EQ(pod_note_grant(dir, "slot-2"), 0);
	CHECK_EQ(pod_read(dir, &read), 0);
	CHECK(!strcmp(read.name, pod.name) && !strcmp(read.uid, pod.uid));
	CHECK_EQ(pod_read_grant(dir, grant), 0);
	CHECK(!strcmp(grant, "slot-2"));
}

/* A writer of the same number was killed before it renamed its note. */
static void check_killed_writer(const char *dir)
{
	char left[256], grant[POD_GRANT_BYTES];

	snprintf(left, sizeof(left), "%s/.grant-%ld", dir, (long)getpid());
	CHECK_EQ(symlink("slot-9", left), 0);
	CHECK_EQ(pod_note_grant(dir, "slot-3"), 0);
	CHECK_EQ(pod_read_grant(dir, grant), 0);
	CHECK(!strcmp(grant, "slot-3"));
	CHECK(access(left, F_OK) < 0 && errno == ENOENT);
}

int main(void)
{
	char dir[] = "/tmp/allot-pod-XXXXXX", path[64];

	CHECK(mkdtemp(dir));
	check_notes(dir);
	check_killed_writer(dir);
	snprintf(path, sizeof(path), "%s/pod", dir);
	unlink(path);
	snprintf(path, sizeof(path), "%s/grant", dir);
	unlink(path);
	CHECK_EQ(rmdir(dir), 0);
	return 0;
}
