/* SPDX-License-Identifier: Apache-2.0 */
/* Process trees, as /proc tells them: a tenant's processes and all that descend from them. */
#ifndef ALLOT_CLI_CHECKPOINT_TREE_H
#define ALLOT_CLI_CHECKPOINT_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "cli/tenant/pids.h"

struct tree {
	size_t n;
	pid_t *pid;	/* parents before their children */
	size_t nroots;	/* of these, the first ones */
};

/*
 * From the tenant's processes up to the last ancestor that was started in it, and down from there to
 * all. 0, or an exit status after a message.
 */
int tree_find(const char *tenant_dir, const struct pids *pids, struct tree *ret);
void tree_free(struct tree *tree);

/* A signal to all of them. */
void tree_signal(const struct tree *tree, int signal);

/* Sends SIGKILL to all and waits for 10 s at most. Returns true if they are gone. */
bool tree_kill(const struct tree *tree);

/*
 * The children of this process. It has some from before it was allot where a shell has begun them and
 * then became it (exec).
 */
int tree_children(struct tree *ret);

/* As tree_kill, all that descend from this process, a subreaper (prctl(2)), but for those children. */
void tree_kill_own(const struct tree *spared);

#endif
