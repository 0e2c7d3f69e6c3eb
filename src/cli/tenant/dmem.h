/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's own limit on AMD GPUs' memory: the dmem controller of cgroups (Linux 6.14 and
 * later). It is a backstop, which also counts memory taken in ways that liballot.so does not see.
 *
 * A command gets a cgroup below that of allot itself, and nowhere else, so that limits that apply
 * there still apply. The kernel lets a cgroup pass a controller on to those below it only if no
 * process is in it. So allot must be alone in its cgroup, as in a scope or service of its own;
 * otherwise the command runs without this limit.
 *
 * No process remains to remove the cgroup when the command ends. A note in the runtime directory,
 * made before the cgroup, names it, and a later allot removes cgroups that are empty.
 */
#ifndef ALLOT_CLI_TENANT_DMEM_H
#define ALLOT_CLI_TENANT_DMEM_H

#include <limits.h>
#include <stdbool.h>
#include <time.h>

#include "ledger/policy.h"
#include "node/devices.h"

#define DMEM_WORDS (PATH_MAX + 320)

/* The reason why there is no such limit, and what to do about it. */
struct dmem_trouble {
	char what[DMEM_WORDS];
	const char *todo;
};

/* True if the kernel has the controller, and shows it here. Cheap. */
bool dmem_offered(void);

/* As dmem_enter(), but only checks that a command run from here would get its limit. */
int dmem_check(const struct devices *devices, struct dmem_trouble *trouble);

struct dmem_entry {
	char own[PATH_MAX]; /* where allot was: "" or a path below the root of cgroups */
	char cgroup[PATH_MAX];
	char note[PATH_MAX];
	bool passes_on; /* `own` does, on our behalf */
};

/*
 * Moves this process into a cgroup of its own that has the tenant's limits. 0. -ENODEV if there is
 * no controller, or none of its regions is an AMD GPU's, so that nothing is wrong. Else a negative
 * value with `trouble`, and nothing is changed, except that the root of all still passes the
 * controller on.
 */
int dmem_enter(const char *runtime, const char *tenant, const struct devices *devices,
	       struct dmem_entry *ret, struct dmem_trouble *trouble);

/* Moves back out of the cgroup, unless others are in it, too. Does nothing for a zeroed entry. */
void dmem_leave(const struct dmem_entry *entry);

/*
 * Gives the tenant's cgroups the policy's limits. 0, or -errno of the first that could not be
 * changed; `ret_kept` counts limits that the kernel left higher because more is in use.
 */
int dmem_apply(const char *runtime, const char *tenant, const struct policy *policy,
	       const struct devices *devices, unsigned int *ret_kept);

/*
 * Removes cgroups that nobody is in any more, of commands that began `grace_s` ago or earlier: one
 * that is about to begin has noted its cgroup, and not made or entered it yet.
 */
void dmem_sweep(const char *runtime, time_t grace_s);

#endif
