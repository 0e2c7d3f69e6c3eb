/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a scheduler put a Pod's containers, as it wrote that into the Pod's annotations. Pure.
 *
 *	Volcano	GPU-<uuid>,NVIDIA,4096,50:;GPU-<uuid>,NVIDIA,2048,0:	containers joined by ';'
 *	HAMi	GPU-<uuid>,NVIDIA,4096,30:;;GPU-<uuid>,NVIDIA,2048,0:;	each ended by ';'
 *	XPU	0,GPU-<uuid>,GPU-H200,4096,50,0:;1,GPU-<uuid>,GPU-H200,2048,0,1:	joined by ';'
 *or ','
 *
 * Memory is in MiB; Volcano's is in its unit (gpuMemoryFactor), which is the size of a device of
 *the resource of memory. A device is its fields up to ':'. Old versions of HAMi write an entry for
 *each container that asks for devices; new ones write one for every container, init containers
 *first, and it is empty where none was asked for. decision_find() has the same answer for both.
 */
#ifndef ALLOT_KUBE_SCHEDULERS_DECISION_H
#define ALLOT_KUBE_SCHEDULERS_DECISION_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "kube/state/conf.h"
#include "ledger/policy.h"

#define DECISION_CONTAINERS 32
#define DECISION_WHY	    256
#define DECISION_BYTES                                                                             \
	((size_t)256 << 10) /* what Kubernetes takes for an object's annotations in all */

struct decision_device {
	uint8_t uuid[16];
	uint64_t memory_bytes; /* 0: none was asked for */
	uint32_t cores;	       /* percent; 0: none was asked for */
	uint32_t part;	       /* XPU's vid: which part of the GPU; else 0 */
};

struct decision_container {
	unsigned int n; /* 0: it has no device */
	struct decision_device device[POLICY_DEVICES];
};

struct decision {
	unsigned int n; /* entries; a last one without a device may be left out */
	struct decision_container container[DECISION_CONTAINERS];
};

/* Bytes of what the scheduler counts as 1 of memory. */
uint64_t decision_unit(const struct kube_conf *conf);

/*
 * 0, or -EINVAL with words for a person: what is wrong with which entry. Of any bytes. -ENOMEM,
 * likewise with words.
 */
int decision_read_bytes(const struct kube_conf *conf, const char *text, size_t len,
			struct decision *ret, char why[static DECISION_WHY]);

static inline int decision_read(const struct kube_conf *conf, const char *text,
				struct decision *ret, char why[static DECISION_WHY])
{
	return decision_read_bytes(conf, text, strlen(text), ret, why);
}

/*
 * The entry of the nth container, from 0, of those that ask for devices: init containers first,
 * then the others. -1: there is none. It is right for the annotation that stays whole (struct
 * annotation_keys, `devices`), since each of these containers has a device there.
 */
int decision_find(const struct decision *decision, unsigned int nth);

#endif
