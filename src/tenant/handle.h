/* SPDX-License-Identifier: Apache-2.0 */
/* A handle of include/allot/tenant.h: the tenant's directory, its policy mapped, the last look. */
#ifndef ALLOT_TENANT_HANDLE_H
#define ALLOT_TENANT_HANDLE_H

#include <stdbool.h>

#include "allot/tenant.h"
#include "dropin/config.h"
#include "ledger/policy.h"
#include "tenant/find.h"

struct snapshot;

/* As allot_tenant_wait() told it last, or as it was when the handle was opened. */
struct handle_told {
	uint64_t key; /* of the tenant; 0: none */
	uint64_t generation;
	uint32_t place;
	uint32_t notice;
	bool announced; /* that notice has not ended */
};

struct allot_tenant {
	uint32_t process; /* forked_number(): mappings are this process's; a child makes its own */
	/*
	 * The tenant is found once: the environment is the program's, whose other threads may write
	 * it. After FIND_DROP_IN, or an error, it is looked for again.
	 */
	enum find_result found;
	bool placed; /* `found` says FIND_NONE or FIND_TENANT, for good */
	char dir[FIND_DIR_BYTES];
	struct config config;
	struct policy_map *map; /* NULL: no tenant, or none yet */
	struct snapshot *look;	/* the last; NULL: there was no tenant */
	struct handle_told told;
	bool listens;
	uint32_t answered; /* the notice that it is ready for: it listens again after that one */
	void *ear;	   /* the lock; NULL: ready, or no tenant yet */
};

/*
 * Finds the tenant, where there is none, or another one than before. 0 also without any; errors of
 * allot_tenant_get().
 */
int handle_attach(struct allot_tenant *tenant);

/* Where the tenant's memory is; enum allot_tenant_place. */
uint32_t handle_place(const struct allot_tenant *tenant);

/* The present state, to be compared with what was told. */
struct handle_told handle_now(const struct allot_tenant *tenant);

#endif
