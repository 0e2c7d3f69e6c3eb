/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of a runtime directory that processes of all its tenants share: .arbiter, .residency and
 * .units. Each is one page of words, and locks on bytes far behind the page. A mapping keeps the lock
 * that was taken through its descriptor, and no child inherits it; the kernel drops the lock with the
 * process. It keeps the lock of a stopped process, so each term of a role has a lock of its own
 * (roles/role.h).
 *
 *	file         lock byte     held by                        means
 *	.arbiter     AT            role holder of term 0          it decides whose turn it is
 *	             AT + 1        a daemon                       it claims the role
 *	             AT + 1 + n    role holder of term n          it decides whose turn it is
 *	.residency   AT - 2        a daemon                       it claims the role
 *	             AT - 1        processes that overcommit      there are such; they share the lock
 *	             AT + n        role holder of term n          it decides whose memory is there
 *	.units       AT            a process, during one making   it divides compute units
 *
 * AT is 1 << 40. Words and bytes keep their meaning in every version: two versions of allot share the
 * files during an upgrade. An older one does not know the claim of .residency.
 */
#ifndef ALLOT_LEDGER_ROLE_ROLE_FILE_H
#define ALLOT_LEDGER_ROLE_ROLE_FILE_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include "ledger/records.h"

#define ROLE_FILE_BYTES 4096

struct arbiter_file {
	uint32_t bell;	 /* a futex */
	uint32_t comers; /* counts processes and tenants that have come */
	uint32_t claims; /* counts claims of daemons */
	uint32_t term;	 /* counts how often the role was taken from a stopped process */
	uint64_t due_ns; /* by when the role holder makes its next step; 0: there is none */
	uint64_t reserved_words[5];
	uint8_t reserved[ROLE_FILE_BYTES - 64];
};

/* The role holder writes all but bell, comers, term, missed and claims. See residency_file.h. */
struct residency_file {
	uint32_t bell, comers, term;
	uint32_t beats;	   /* counts steps of role holders */
	uint32_t missed;   /* counts tenants that found no room on the host */
	uint32_t moves;	   /* 1 while a tenant moves */
	uint64_t full_ns;  /* when the host last had no room for a tenant that was to leave */
	uint32_t measures; /* counts updates of the figures that follow */
	uint32_t claims;   /* counts claims of daemons */
	uint32_t pad[6];
	struct residency_promise {
		uint64_t uuid[2];
		uint64_t bytes;
	} promise[TURN_DEVICES]; /* used from the first one on */
	/* Of the same devices. 0 where the role holder's allot is older. */
	struct residency_there {
		uint64_t all, there;
	} there[TURN_DEVICES];
	uint8_t reserved[ROLE_FILE_BYTES - 64 -
			 TURN_DEVICES * (sizeof(struct residency_promise) +
					 sizeof(struct residency_there))];
};

struct units_file {
	uint32_t bell, pad0;
	uint64_t looked_ns; /* when a keeper last looked which tenants have queues */
	uint64_t present;   /* stands for the tenants and GPUs that it found; 0: look again */
	uint8_t reserved[ROLE_FILE_BYTES - 24];
};

/*
 * One of the files: its name, which no tenant can have, and where its words and locks are; 0: it has
 * none. The first word is always the bell, and the second the count of comers.
 */
struct role_file {
	const char *name;
	size_t term, claims;
	size_t due_ns, beats; /* by one of both the role holder says that it makes steps */
	int64_t lock, lock_behind; /* of term 0, and of term n: lock_behind + n */
	int64_t claim, use;
};

extern const struct role_file role_file_arbiter, role_file_residency, role_file_units;

/* Opens the file, and makes it where it is missing. Descriptor or -errno. */
int role_file_join(const struct role_file *file, const char *runtime);
/* Opens the file. -ENOENT where it is missing; other errors of shared_file_open. */
int role_file_open(const struct role_file *file, const char *runtime, int flags);
/* 0, or -ENAMETOOLONG. */
int role_file_path(const struct role_file *file, const char *runtime, char ret[static PATH_MAX]);

/* The page of an open file, which no child inherits; NULL. Keeps locks of that descriptor. */
void *role_file_map(int fd);
/* Takes NULL. */
void role_file_unmap(void *map);

/* The futex of a mapped file. */
static inline uint32_t *role_file_bell(void *map)
{
	return map;
}

static inline int64_t role_file_term_lock(const struct role_file *file, uint32_t term)
{
	return term ? file->lock_behind + term : file->lock;
}

static inline uint32_t *role_file_comers(void *map)
{
	return role_file_bell(map) + 1;
}

/* Wakes all that sleep on the bell of a mapped file. */
void role_file_ring(void *map);
/* The same with a new count of comers, by which the role holder looks at all tenants. */
void role_file_come(void *map);
/* The same for a process that has not mapped it. Does nothing where there is no such file. */
void role_file_tell(const struct role_file *file, const char *runtime);

#endif
