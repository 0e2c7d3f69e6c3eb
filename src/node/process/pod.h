/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Pod of a tenant that Kubernetes asked for, noted in its directory by the hook that made the
 * container, and the grant (kube/grants/grant.h) of the tenant. Like the others these notes are
 * symbolic links that lead nowhere, since those are made whole or not at all.
 */
#ifndef ALLOT_NODE_PROCESS_POD_H
#define ALLOT_NODE_PROCESS_POD_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#define POD_LABEL_BYTES 64  /* a DNS label with its end */
#define POD_NAME_BYTES	254 /* a DNS subdomain with its end */
#define POD_GRANT_BYTES 128
#define POD_SLOT	"slot-" /* how the grant of a slot begins, which one Pod has after another */
#define POD_WORDS_BYTES (2 * POD_LABEL_BYTES + POD_NAME_BYTES)

/* "" for an unknown part; a Pod without a name is none. */
struct pod {
	char space[POD_LABEL_BYTES], name[POD_NAME_BYTES], container[POD_LABEL_BYTES];
	char uid[POD_LABEL_BYTES];
};

/* Replaces the note. 0 or -errno. */
int pod_note(const char *dir, const struct pod *pod);
/* -ENOENT; -EINVAL: it is no note of ours. */
int pod_read(const char *dir, struct pod *ret);

int pod_note_grant(const char *dir, const char *grant);
int pod_read_grant(const char *dir, char ret[static POD_GRANT_BYTES]);

/* The container of a process and its Pod's uid, by the kubelet's mounts in each. */
void pod_of_process(pid_t pid, struct pod *ret);
/* By its uid, the Pod's namespace and name, where the kubelet's directory of logs can be read. */
void pod_find_name(struct pod *pod);
/* By a line of /proc/PID/mountinfo, uid and container alone; false: it says nothing of that. Pure. */
bool pod_of_mount(const char *line, struct pod *ret);
/* By a directory of that Pod's logs, namespace and name; false: it is another's. Pure. */
bool pod_of_logs(const char *dir, struct pod *ret);

/* "namespace/pod/container"; "" for none. */
void pod_words(const struct pod *pod, char ret[static POD_WORDS_BYTES]);

#endif
