/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tenant's policy: what it may use. Written by allot alone, mapped read-only by the tenant's
 * processes, changed while they run. Readers never wait for a writer, dead or alive.
 */
#ifndef ALLOT_LEDGER_POLICY_H
#define ALLOT_LEDGER_POLICY_H

#include <stdint.h>

#define POLICY_DEVICES    64
#define POLICY_NAME_BYTES 64

enum policy_flags {
	/* Admission trusts the driver's figure plus what is in flight; no totals are kept. */
	POLICY_ACCOUNTING_DRIVER = 1 << 0,
	/* device[0] is for every device that the policy does not name; its uuid is ignored. */
	POLICY_ALL_DEVICES = 1 << 1,
};
#define POLICY_FLAGS_KNOWN (POLICY_ACCOUNTING_DRIVER | POLICY_ALL_DEVICES)

enum policy_gate {
	POLICY_GATE_OPEN,
	POLICY_GATE_CLOSED,
};

/* Exactly one of limit_bytes and limit_permille is non-zero; "no limit" is 1000 permille. */
struct policy_device {
	uint8_t uuid[16];
	uint64_t limit_bytes;
	uint64_t total_bytes;    /* of the device, 0 where not known to who wrote the policy */
	uint32_t limit_permille; /* of the device's total */
	uint32_t cores_permille; /* asked share of compute, 0 not limited; not enforced yet */
	uint8_t reserved[24];
};

struct policy {
	uint32_t ndevices; /* at least 1 */
	uint32_t flags;    /* enum policy_flags */
	char name[POLICY_NAME_BYTES];
	uint8_t reserved[56];
	struct policy_device device[POLICY_DEVICES];
};

struct policy_map;

/* 0, or -EINVAL for a policy that says nothing, too much or nonsense (never "unlimited"). */
int policy_check(const struct policy *policy);

/*
 * Creates <dir>/policy. -EEXIST when there is one, -EINVAL as policy_check. A kill leaves a file
 * that policy_open refuses, which is why tenant_create builds under a temporary name.
 */
int policy_create(const char *dir, const struct policy *policy);

/*
 * Changes the policy of a running tenant: calls edit(&policy, arg) on the current one under the
 * writers' lock and puts the result in force, unless it is answered < 0, which is passed on.
 * -EBUSY when another writer keeps the lock for a second.
 */
int policy_update(const char *dir, int (*edit)(struct policy *policy, void *arg), void *arg);

/* Opens or closes the gate for all processes of the tenant, and wakes those that wait. */
int policy_set_gate(const char *dir, enum policy_gate gate);

/*
 * Maps <dir>/policy read-only; keeps no descriptor; not inherited by fork. -ENOENT, -ELOOP,
 * -EPERM (foreign, or accessible to others), -EPROTO (other version or size, or damaged).
 */
int policy_open(const char *dir, struct policy_map **ret);
void policy_close(struct policy_map *map);

/* A consistent copy. -EBADMSG when it is damaged, -EAGAIN when it changes all the time. */
int policy_read(struct policy_map *map, struct policy *ret);

/*
 * Both for somebody who looks once: reads <dir>/policy without mapping it, so that a file which is
 * cut short meanwhile is an error (-EPROTO) and no signal.
 */
int policy_load(const char *dir, struct policy *ret);

/* Differs after every update: a caller compares it to know that its cached limits still hold. */
uint64_t policy_generation(const struct policy_map *map);

/* The gate as a word that FUTEX_WAIT (not private) accepts. */
const uint32_t *policy_gate(const struct policy_map *map);

/*
 * The limit of a device in bytes, never more than the device has. -ENODEV when the policy does
 * not give the device to the tenant, -ENODATA for a percentage of an unknown total. `total_bytes`
 * is the device's own answer, or 0: then the policy's is used. Pure.
 */
int policy_limit(const struct policy *policy, const uint8_t uuid[16], uint64_t total_bytes,
		 uint64_t *ret_bytes);

#endif
