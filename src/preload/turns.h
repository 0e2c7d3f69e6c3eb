/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arbiter's role on this machine: who holds a lock of <runtime>/.arbiter runs the state machine
 * of share/arbiter.h over all tenants of the runtime directory, reads what they want and used from
 * their ledgers, and writes whose turn it is into their policies. The kernel drops the lock when
 * the holder dies; the next keeper that finds the beat silent takes it. Called by the keeper alone.
 */
#ifndef ALLOT_PRELOAD_TURNS_H
#define ALLOT_PRELOAD_TURNS_H

#include <stdbool.h>
#include <stdint.h>

struct turns;

/* For a tenant's directory. Maps the runtime directory's file; -errno where that cannot be. */
int turns_open(const char *tenant_dir, struct turns **ret);

/* Tries to take the role; true when it is held. Never waits. */
bool turns_take(struct turns *turns);
bool turns_held(const struct turns *turns);

/* Gives it up; who waits for a turn elects another. */
void turns_drop(struct turns *turns);

/* One step of the role: answers when the next is due. */
uint64_t turns_step(struct turns *turns, uint64_t now_ns);

/* Whether any tenant wanted a device in the last step. */
bool turns_busy(const struct turns *turns);

/* Wakes whoever holds the role. Any thread. */
void turns_ring(struct turns *turns);

/* Sleeps until rung after `seen` was read, or until then. */
uint32_t turns_bell(const struct turns *turns);
void turns_sleep(struct turns *turns, uint32_t seen, uint64_t until_ns);

#endif
