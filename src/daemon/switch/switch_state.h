/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a tenant for programs that switch tenants by HTTP (switch.h), as JSON. */
#ifndef ALLOT_DAEMON_SWITCH_SWITCH_STATE_H
#define ALLOT_DAEMON_SWITCH_SWITCH_STATE_H

#include <stdbool.h>

/* As the command says it; the tenant's name and the runtime directory. */
#define SWITCH_NO_TENANT "there is no tenant \"%s\" in %s; \"allot ps\" lists them"

bool switch_state_is_there(const char *runtime, const char *name);

/* The last move, which did not succeed. It counts as long as the state is not what was asked for. */
struct switch_failure {
	const char *words;
	bool away; /* to suspend was asked for */
};

/*
 * Its state; `words` of a move that succeeded, or NULL; and why it is not otherwise, where that is so;
 * `failure` may be NULL. 0, and a text that the caller frees; -ENOENT, or -errno of reading it.
 */
int switch_state_write(const char *runtime, const char *name, const char *words,
		       const struct switch_failure *failure, char **ret);
/* As vLLM answers is_sleeping: true until all of its memory is back. */
int switch_state_write_sleeping(const char *runtime, const char *name, char **ret);

/* Explains an error of these. */
const char *switch_state_words(int error);

#endif
