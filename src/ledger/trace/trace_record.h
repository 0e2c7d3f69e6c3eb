/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes of a tenant's trace.* files, and which events there are. Native endianness, as in layout.h:
 * a file never leaves its machine.
 */
#ifndef ALLOT_LEDGER_TRACE_TRACE_RECORD_H
#define ALLOT_LEDGER_TRACE_TRACE_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "ledger/tenant.h"

#define TRACE_MAGIC   UINT64_C(0x315254544f4c4c41) /* "ALLOTTR1" */
#define TRACE_VERSION 1u
#define TRACE_RECORDS 4096 /* a power of two */
#define TRACE_NUMBERS 3
#define TRACE_FILES   TENANT_RING_ROLES /* of processes */
#define TRACE_ROLES   TENANT_RING_ROLES
#define TRACE_ALL     TENANT_RINGS
#define TRACE_NO_DEVICE UINT16_MAX

enum trace_event {
#define TRACE(name, json, room, time, n0, u0, n1, u1, n2, u2, words) TRACE_##name,
#include "ledger/trace/trace.def"
#undef TRACE
	TRACE_EVENTS,
};

struct trace_record {
	uint64_t seal;	/* stored last; see trace_seal */
	uint64_t at_ns; /* CLOCK_MONOTONIC */
	uint16_t event; /* enum trace_event */
	uint16_t device;
	uint32_t thread;
	uint64_t number[TRACE_NUMBERS];
};

struct trace_header {
	uint64_t magic;
	uint32_t version, records;
	uint64_t born_ns; /* stored last; 0: nobody has the ring */
	uint32_t pid;	  /* in its own namespace; 0: of roles */
	uint32_t pad0[9];
	uint64_t next; /* the place of the next record; own cache line */
	uint64_t pad1[7];
};

struct trace_file {
	struct trace_header header;
	struct trace_record record[TRACE_RECORDS];
};

_Static_assert(sizeof(struct trace_record) == 48, "layout");
_Static_assert(offsetof(struct trace_header, next) == 64, "layout");
_Static_assert(sizeof(struct trace_header) == 128, "layout");

/*
 * Without the place: seal = place ^ trace_hash. It finds damage, and keeps nobody out: a process of
 * the tenant may write what it likes.
 */
static inline uint64_t trace_hash(uint64_t born_ns, const struct trace_record *record)
{
	uint64_t hash = hash_word(HASH_SEED, born_ns);

	hash = hash_word(hash, record->at_ns);
	hash = hash_word(hash, record->event | (uint64_t)record->device << 16 |
				       (uint64_t)record->thread << 32);
	for (int i = 0; i < TRACE_NUMBERS; i++)
		hash = hash_word(hash, record->number[i]);
	return hash_mix(hash);
}

#endif
