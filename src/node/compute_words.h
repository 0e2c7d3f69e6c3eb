/* SPDX-License-Identifier: Apache-2.0 */
/* A policy's limits of compute, in the words that options, tables and JSON use. */
#ifndef ALLOT_NODE_COMPUTE_WORDS_H
#define ALLOT_NODE_COMPUTE_WORDS_H

#include "ledger/policy.h"

extern const char *const compute_policies[POLICY_COMPUTES];	/* "off", "cap", "share" */
extern const char *const compute_modes[POLICY_MODES];		/* "turns", "space" */
extern const char *const compute_priorities[POLICY_PRIORITIES]; /* "normal", "low", "high" */

struct compute_text {
	char s[128];
};

/* "cap", "share", "weight 2", "cap, weight 2, high": how, without the share. */
struct compute_text compute_how(const struct policy *policy);

/* All of it for the i-th device: "off", "cap 25%", "weight 2, high, pid, 2 ms in flight". */
struct compute_text compute_words(const struct policy *policy, unsigned int i);

#endif
