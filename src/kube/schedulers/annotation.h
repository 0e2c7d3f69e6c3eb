/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Annotations that a scheduler expects of a node: its devices, a sign of life when it asks for one, and
 * what became of a Pod. Pure. Texts are to be freed; NULL: no memory.
 *
 *	node	registered = "GPU-...,10,143771,NVIDIA-NVIDIA H200,true,hami-core:"
 *		handshake = "Requesting_..."	by the scheduler; within 60 s:
 *		handshake = "Reported_2026.11.29 14:00:00"
 *	Pod	left = ""			its containers were taken
 *		phase = "success"		the same, or "failed"
 *	node	lock is removed
 */
#ifndef ALLOT_KUBE_SCHEDULERS_ANNOTATION_H
#define ALLOT_KUBE_SCHEDULERS_ANNOTATION_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include "kube/state/conf.h"
#include "kube/state/node.h"

struct annotation_keys {
	const char *registered; /* of the node: its devices */
	const char *handshake;	/* of the node */
	const char *lock;	/* of the node: is removed when a Pod is done */
	const char *topology;	/* of the node, NULL: none */
	const char *used; /* of the node, NULL: none; the scheduler keeps it, the node begins it */
	const char *node; /* of the Pod: where it was put */
	const char *devices; /* of the Pod: the whole decision, see decision.h */
	const char *left;    /* of the Pod: what of it no container has taken */
	const char *phase;   /* of the Pod */
};

#define ANNOTATION_ALLOCATING "allocating" /* phase: by the scheduler */
#define ANNOTATION_SUCCESS    "success"
#define ANNOTATION_FAILED     "failed"

/* NULL for a scheduler that writes none. */
const struct annotation_keys *annotation_keys(enum kube_scheduler scheduler);

/*
 * NVIDIA's devices, each to be given in as many parts as the resource of slots has (a sick one in
 * none), their memory in decision_unit(). NULL also for a scheduler that reads none.
 */
char *annotation_registered(const struct kube_conf *conf, const struct node_devices *devices);

/* Of a node none of whose devices is in use: what XPU's scheduler counts from. */
char *annotation_unused(const struct node_devices *devices);

/*
 * How near NVIDIA's devices are to each other, as XPU's scheduler counts: "0,20;20,0" of two on one
 * NUMA node, more with each NVLink between them.
 */
char *annotation_topology(const struct node_devices *devices);

#define ANNOTATION_TIME_BYTES 40
/* "Reported_" and the time in UTC, as the scheduler writes its own. */
void annotation_reported(enum kube_scheduler scheduler, time_t now,
			 char ret[static ANNOTATION_TIME_BYTES]);

/* True if the scheduler has asked for annotation_reported(), for which it waits 60 s, or has given up. */
static inline bool annotation_is_asked(const char *handshake)
{
	return !handshake || strncmp(handshake, "Reported", strlen("Reported"));
}

struct annotation {
	const char *key;
	const char *value; /* NULL: it is removed */
};

/* The body of a PATCH, "application/merge-patch+json". NULL also for a value that is not UTF-8. */
char *annotation_patch(const struct annotation *list, size_t n);

#endif
