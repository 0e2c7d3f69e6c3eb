/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A measurement of `allot bench`, put together from words: one load or two, each in a tenant of its
 * own or in none. Functions that fail say why and answer -errno.
 */
#ifndef ALLOT_CLI_BENCH_TRIAL_H
#define ALLOT_CLI_BENCH_TRIAL_H

#include <limits.h>

#include "cli/bench/load.h"

#define BENCH_LEAD_NS  UINT64_C(50000000) /* from all being ready to the start */
#define BENCH_SETTLE_S 0.5		  /* of a phase are not looked at */
#define BENCH_ALONE_S  1.2		  /* duration of bench_trial_alone */
#define BENCH_START_S  0.25		  /* estimated start and end of a load beside that */

/* Where programs are, and how fast the device was found to be. */
struct bench_place {
	char runtime[PATH_MAX], self[PATH_MAX], load[PATH_MAX];
	double loops_per_us; /* 0 until a load has measured it */
	unsigned int tenants;
};

struct bench_tenant {
	char name[64]; /* empty: there is none */
};

/* `allot run` with a name that nobody else has; the tenant's options are to follow, then the load.
 */
void bench_trial_tenant(struct bench_place *place, struct bench_words *words,
			struct bench_tenant *ret);
void bench_trial_option(struct bench_words *words, const char *option, double value);
/* The load itself, after the tenant's words if there are any; `form` is one of allot-load's. */
void bench_trial_load(const struct bench_place *place, struct bench_words *words, const char *form,
		      double kernel_us, double seconds, double warmup);

/* Starts it, as bench_load_open does. Takes the words. */
int bench_trial_open(struct bench_load *ret, struct bench_words *words);
/* One load from its start to its end. Takes the words. */
int bench_trial_one(struct bench_words *words, struct bench_result *ret);

/* A load that has the device for itself. Sets place->loops_per_us at its first call. */
int bench_trial_alone(struct bench_place *place, const char *form, double kernel_us,
		      struct bench_result *ret);

/* The same for two at once, which are let go at one instant. */
int bench_trial_open_both(struct bench_load load[2], struct bench_words words[2]);
int bench_trial_go_both(struct bench_load load[2], uint64_t *ret_start_ns);
int bench_trial_close_both(struct bench_load load[2], struct bench_result ret[2]);

/* `allot set` with one option. */
int bench_trial_set(const struct bench_place *place, const struct bench_tenant *tenant,
		    const char *option, double value);
/* Removes a tenant when its processes are gone. */
void bench_trial_forget(const struct bench_place *place, const struct bench_tenant *tenant);

#endif
