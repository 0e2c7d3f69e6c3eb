/* SPDX-License-Identifier: Apache-2.0 */
/* Hears of what happens to a node's ResourceSlices: kubelets delete them when they start, others may. */
#ifndef ALLOT_KUBE_SLICES_SLICES_WATCH_H
#define ALLOT_KUBE_SLICES_SLICES_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "kube/wire/api.h"

struct slices_watch {
	struct api *api;
	/* Something has happened, or nothing more is heard: look in so many ms. */
	void (*look)(void *arg, uint64_t ms);
	void *arg;
	struct api_call *call; /* NULL: nothing is heard now */
	uint64_t begun_ns;
	unsigned int failures; /* one after the other */
	bool told;	       /* of a server that refuses it */
};

/* From the list at `path` on, which the server gave that version. */
void slices_watch_begin(struct slices_watch *watch, const char *path, const char *version);
void slices_watch_end(struct slices_watch *watch);

#endif
