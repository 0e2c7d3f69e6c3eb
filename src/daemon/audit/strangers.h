/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices that a Pod uses to which nobody here gave a part of them: a process of it is on the device, is in no
 * tenant, and the kubelet's list has nothing of ours for its container. Nothing holds it to a part, so
 * nothing new is to come there.
 */
#ifndef ALLOT_DAEMON_AUDIT_STRANGERS_H
#define ALLOT_DAEMON_AUDIT_STRANGERS_H

#include "daemon/audit/audit.h"
#include "kube/state/counts.h"
#include "node/faults.h"

struct strangers {
	unsigned int n;
	struct {
		uint8_t uuid[16];
		uint64_t since_ns; /* of the look that found the first one */
	} list[POLICY_DEVICES];
};

/*
 * Puts those devices into `ret`, with words about the processes that use each. A stranger is
 * reported after a whole list of the kubelet's arrived since it was first seen: a new container may
 * be in no list yet.
 */
void strangers_look(struct strangers *strangers, const struct counts *counts, const struct audit_report *audit,
		    uint64_t now_ns, struct faults *ret);

#endif
