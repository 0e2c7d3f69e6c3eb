/* SPDX-License-Identifier: Apache-2.0 */
/* Used memory at each of the last looks, for each user of it. Pure: no clock. */
#ifndef ALLOT_CLI_TOP_TRAIL_H
#define ALLOT_CLI_TOP_TRAIL_H

#include <stddef.h>
#include <stdint.h>

#define TRAIL_SAMPLES 60
#define TRAIL_NAME    80

/* Zeroed: nothing yet. */
struct trails {
	size_t n;
	struct trail *list;
};

struct trail {
	char name[TRAIL_NAME];
	uint8_t uuid[16];
	uint64_t sample[TRAIL_SAMPLES]; /* the oldest first; SPARK_NONE: it was not there */
};

/*
 * Begins a new look. A name that is not noted until the next one is gone, and forgotten with its
 * last sample.
 */
void trail_begin(struct trails *trails);
/* Of a name on a device. Where there is no memory for it, it has no trail. */
void trail_note(struct trails *trails, const char *name, const uint8_t uuid[16], uint64_t bytes);
/* NULL: nothing is known of it. */
const struct trail *trail_find(const struct trails *trails, const char *name,
			       const uint8_t uuid[16]);
void trail_free(struct trails *trails);

#endif
