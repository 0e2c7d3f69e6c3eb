/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tenant's policy: its limits. Written by allot alone, mapped read-only by the tenant's
 * processes, changed while they run. Readers never wait for a writer, dead or alive.
 */
#ifndef ALLOT_LEDGER_POLICY_H
#define ALLOT_LEDGER_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "ledger/records.h"

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

/* Returns the policy's entry for a device: its own or that for all, else NULL. Pure. */
const struct policy_device *policy_find(const struct policy *policy, const uint8_t uuid[16]);

/* The tenant's weight on a device in permille, at least 1, whichever way it was given. Pure. */
uint32_t policy_weight(const struct policy *policy, const uint8_t uuid[16]);

/*
 * Returns the part of the time that it keeps beside higher priorities, in permille; 0 for none.
 * Pure.
 */
uint32_t policy_floor(const struct policy *policy);

/*
 * True if the tenant's use of compute is limited or shared: all of a device's time is no limit.
 * Pure.
 */
bool policy_limits_compute(const struct policy *policy);

/*
 * True if it is measured: it is limited or shared, or that was asked for (`meter`). Otherwise a
 * launch pays one load. Pure.
 */
bool policy_meters(const struct policy *policy);

/* Returns the name of what devices look for in memory that leaves them: "hash", "bytes", "off". Pure. */
const char *policy_look(const struct policy *policy);

/* The share of a device: 1 to 1000; 1000 where none was asked. Pure. */
uint32_t policy_share(const struct policy *policy, const uint8_t uuid[16]);

/*
 * The part of the SMs in mode space, 1 to 999 permille: one for all devices, because MPS knows one
 * for a process. -ENODATA where it is not asked for or is the whole, -EINVAL where devices differ.
 * Pure.
 */
int policy_part(const struct policy *policy, uint32_t *ret_permille);

/*
 * MPS knows two priorities. High is its normal one, and all others yield to that, so that a tenant
 * of high priority goes before those that said nothing, as it does in turns. Pure.
 */
bool policy_yields(const struct policy *policy);

/*
 * Maps <dir>/policy read-only; keeps no descriptor; not inherited by fork. -ENOENT, -ELOOP,
 * -EPERM (foreign, or accessible to others), -EPROTO (other version or size, or damaged).
 */
int policy_open(const char *dir, struct policy_map **ret);

/*
 * True if it is still the directory's: after all of a tenant has ended, another one of its name may
 * be there at once. True also if no descriptor is left to find out.
 */
bool policy_is_of(const struct policy_map *map, const char *dir);
/* Tells the tenant from others, also from a later one of its name; never 0. */
uint64_t policy_key(const struct policy_map *map);
void policy_close(struct policy_map *map);

/* A consistent copy. -EBADMSG when it is damaged, -EAGAIN when it changes all the time. */
int policy_read(struct policy_map *map, struct policy *ret);

/*
 * For a reader that looks once: the same, read from <dir>/policy without mapping it, so that a file
 * that is truncated meanwhile is an error (-EPROTO) and no signal.
 */
int policy_load(const char *dir, struct policy *ret);
/* Other parts of the file, for the tenant: see turn.h, swap.h. */
struct policy_told {
	struct turn turn;
	struct turn_waits waits;
	uint32_t swap;
};
/* The same with the other parts of the file. */
int policy_load_all(const char *dir, struct policy *ret, struct policy_told *ret_told);
/* The same of a file that is open, wherever it is and whosever. */
int policy_load_file(int fd, struct policy *ret, struct policy_told *ret_told);

/* Differs after every update: a caller compares it to know that its cached limits still hold. */
uint64_t policy_generation(const struct policy_map *map);

/* Its low half as a word that FUTEX_WAIT (not private) accepts; see policy_wait. */
const uint32_t *policy_generation_word(const struct policy_map *map);

/*
 * Sleeps until the generation has changed, without limit. A writer that is killed directly after a
 * change may leave the waking to the next one.
 */
void policy_wait(const struct policy_map *map, uint64_t generation);

/* The gate as a word that FUTEX_WAIT (not private) accepts. */
const uint32_t *policy_gate(const struct policy_map *map);

/*
 * The limit of a device in bytes, never more than the device has. -ENODEV when the policy does
 * not give the device to the tenant, -ENODATA for a percentage of an unknown total. `total_bytes`
 * is the device's own answer, or 0: then the policy's is used. Pure.
 */
int policy_limit(const struct policy *policy, const uint8_t uuid[16], uint64_t total_bytes,
		 uint64_t *ret_bytes);

/*
 * Likewise, of the highest limit since the tenant was made: memory above a lowered limit was once
 * allowed. Pure.
 */
int policy_limit_ever(const struct policy *policy, const uint8_t uuid[16], uint64_t total_bytes,
		      uint64_t *ret_bytes);

#endif
