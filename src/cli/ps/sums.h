/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of parts of tenants' lives (node/ended.h), for a user, a name or a day each. */
#ifndef ALLOT_CLI_PS_SUMS_H
#define ALLOT_CLI_PS_SUMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "node/ended.h"

enum sums_by { SUMS_USER, SUMS_NAME, SUMS_DAY };

struct sums_part {
	char key[POLICY_NAME_BYTES]; /* of the line: a number, a name, or a day of this time zone */
	char name[POLICY_NAME_BYTES];
	int64_t began_s;
	uid_t uid;
	char pod[POD_WORDS_BYTES]; /* by name alone: the last one */
	uint64_t tenants;
	uint64_t busy_ns, allotted_ns; /* on all devices: the second is the tenants' time on each */
	double byte_s;
	uint64_t peak_bytes, refusals;
	uint64_t energy_uj;
};

struct sums {
	enum sums_by by;
	int64_t since_s, until_s;
	size_t n, room;
	struct sums_part *list;
};

void sums_begin(struct sums *sums, enum sums_by by, int64_t since_s, int64_t until_s);
/*
 * A part that is half in that time counts half, and one of several days is divided among them, as if
 * the tenant had been busy evenly. Refusals count where the part ends. 0 or -ENOMEM.
 */
int sums_add(struct sums *sums, uid_t uid, const struct ended *e);
/* Then the list has one entry for each key, in their order. */
void sums_end(struct sums *sums);
void sums_free(struct sums *sums);

#endif
