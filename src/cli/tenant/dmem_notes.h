/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the cgroups of tenants' commands are: a link for each in .cgroups of the runtime directory,
 * called <tenant>-<pid>, that leads nowhere and has the cgroup for its text. A link is made whole
 * or not at all.
 */
#ifndef ALLOT_CLI_TENANT_DMEM_NOTES_H
#define ALLOT_CLI_TENANT_DMEM_NOTES_H

#include <limits.h>
#include <time.h>

/*
 * Makes the note of this process's cgroup, which is made right after. 0 with the note's path, or
 * -errno.
 */
int dmem_note(const char *runtime, const char *tenant, const char *cgroup,
	      char ret_path[static PATH_MAX]);

/* Removes an empty cgroup, and its note; nothing if a process is in it. */
void dmem_note_end(int dirfd, const char *note);

/* Calls fn for each of a tenant's. */
void dmem_notes_each(const char *runtime, const char *tenant,
		     void (*fn)(const char *cgroup, void *arg), void *arg);

/* dmem_note_end() for all that are as old as `before`, or older. */
void dmem_notes_sweep(const char *runtime, time_t before);

#endif
