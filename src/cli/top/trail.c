/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top/trail.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/top/spark.h"

static bool trail_is_blank(const struct trail *t)
{
	for (int i = 0; i < TRAIL_SAMPLES; i++)
		if (t->sample[i] != SPARK_NONE)
			return false;
	return true;
}

void trail_begin(struct trails *trails)
{
	size_t n = 0;

	for (size_t i = 0; i < trails->n; i++) {
		struct trail *t = &trails->list[i];

		memmove(t->sample, t->sample + 1, sizeof(t->sample) - sizeof(t->sample[0]));
		t->sample[TRAIL_SAMPLES - 1] = SPARK_NONE;
		if (!trail_is_blank(t))
			trails->list[n++] = *t;
	}
	trails->n = n;
}

const struct trail *trail_find(const struct trails *trails, const char *name,
			       const uint8_t uuid[16])
{
	for (size_t i = 0; i < trails->n; i++)
		if (!strcmp(trails->list[i].name, name) && !memcmp(trails->list[i].uuid, uuid, 16))
			return &trails->list[i];
	return NULL;
}

void trail_note(struct trails *trails, const char *name, const uint8_t uuid[16], uint64_t bytes)
{
	struct trail *t = (struct trail *)trail_find(trails, name, uuid);

	if (!t) {
		struct trail *more = reallocarray(trails->list, trails->n + 1, sizeof(*more));

		if (!more)
			return;
		trails->list = more;
		t = &more[trails->n++];
		snprintf(t->name, sizeof(t->name), "%s", name);
		memcpy(t->uuid, uuid, sizeof(t->uuid));
		memset(t->sample, 0xff, sizeof(t->sample)); /* SPARK_NONE */
	}
	t->sample[TRAIL_SAMPLES - 1] = bytes;
}

void trail_free(struct trails *trails)
{
	free(trails->list);
	*trails = (struct trails){0};
}
