/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a scheduler put a Pod's containers, as it wrote that into the Pod's annotations: Volcano, HAMi and
 * XPU have a grammar each. Pure.
 */
#ifndef ALLOT_KUBE_DECISION_H
#define ALLOT_KUBE_DECISION_H

#include <stdint.h>

#include "kube/conf.h"
#include "ledger/policy.h"

#define DECISION_CONTAINERS 32
#define DECISION_WHY 256

struct decision_device {
	uint8_t uuid[16];
	uint64_t memory_bytes;
	uint32_t cores; /* percent; 0: none was asked for */
};

struct decision_container {
	unsigned int n; /* 0: it has no device */
	struct decision_device device[POLICY_DEVICES];
};

struct decision {
	unsigned int n; /* entries, in the order of the containers that ask for devices */
	struct decision_container container[DECISION_CONTAINERS];
};

/* 0, or -EINVAL with words for a person: what is wrong with which entry. Of any bytes. */
int decision_read(enum kube_scheduler scheduler, const char *text, struct decision *ret,
		  char why[static DECISION_WHY]);

#endif
