/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tenants of a runtime directory as people see them, and their end: `allot run` replaces itself
 * by the command, so nobody is left to remove a tenant. The next `allot run` or `allot ps` removes
 * those that ended, and keeps their last figures (ended.h).
 */
#ifndef ALLOT_NODE_TENANTS_H
#define ALLOT_NODE_TENANTS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "ledger/reader/snapshot.h"
#include "node/process/container.h"
#include "node/process/pod.h"

enum tenant_state {
	TENANT_RUNNING, /* processes of it use a GPU */
	TENANT_IDLE,	/* processes of it live, and none uses a GPU */
	TENANT_KEPT,	/* nothing does, and it stays until it is removed */
	TENANT_ENDED,
};

struct tenant_entry {
	char name[POLICY_NAME_BYTES];
	char dir[PATH_MAX];
	bool generated; /* `allot run` chose the name */
	enum tenant_state state;
	int error;		  /* why there is no snapshot, -errno */
	struct snapshot *snapshot; /* NULL on error */
	char container[CONTAINER_BYTES]; /* by tenants_find_containers */
	struct pod pod;			 /* the Pod; without a name: none */
	struct stat ledger;		 /* its file and owner; zeroed: there is none */
	pid_t apart; /* the process by which it was found (node/apart.h); 0: in a runtime directory */
};

/* Its state in a word: that, or, of a swappable tenant, where its memory is or goes to. */
const char *tenants_state_word(const struct tenant_entry *entry);

/* Returns true if the tenant's device time is known: see snapshot_compute. */
bool tenants_measured(const struct snapshot_device *device);

/* Returns true if it is another user's, of which only its existence may be shown. */
bool tenants_is_anothers(const struct tenant_entry *entry);

struct tenants {
	char runtime[PATH_MAX];
	size_t n;
	struct tenant_entry *list;
};

/*
 * The limit of reading one user's tenants, from now on. Tenants beyond it are not read (-E2BIG):
 * users may forge their ledgers, and must not delay everybody else by them.
 */
struct snapshot_bound tenants_bound_of_user(void);

/*
 * All tenants that have not ended; a runtime directory that does not exist has none. -errno where it
 * cannot be read. The figures are those that the tenants' processes noted last; figures.h has the
 * driver's own of now.
 */
int tenants_load(const char *runtime, struct tenants *ret);
/* The one of that name, which lives. -ENOENT; -ENOMEM. */
int tenants_load_named(const char *runtime, const char *name, struct tenants *ret);
void tenants_free(struct tenants *tenants);

/*
 * Adds users' tenants that are beside another runtime directory, root's: of other users there is no
 * snapshot (-EACCES) but for root.
 */
int tenants_add_users(struct tenants *tenants, const char *runtime);

/* The container of each listed tenant that has one, by the first of its processes that is seen here. */
void tenants_find_containers(struct tenants *tenants);

/* The processes' pids here, of all listed from `from` on: one walk of /proc. -ENOMEM. */
int tenants_find_host_pids(const struct tenants *tenants, size_t from);

unsigned int tenants_live(const struct snapshot *snapshot);

/*
 * The sum of all tenants on a device with that much memory (0: not known). A sum that overflows,
 * since a ledger was forged, is UINT64_MAX.
 */
struct tenants_sum {
	/* the quotas of the tenants that may use it; one without a quota counts with all */
	uint64_t promised_bytes;
	uint64_t used_bytes;
	bool measured; /* tenants_measured of all that hold memory of it: their time has a sum */
};
struct tenants_sum tenants_sum(const struct tenants *tenants, const uint8_t uuid[static 16],
			       uint64_t total_bytes);

/*
 * Notes in a tenant's directory which process began it, and how; for a container, its first
 * process. 0 or -errno; -ESRCH: that process is gone.
 */
enum tenant_kind { TENANT_NAMED, TENANT_GENERATED, TENANT_PREPARED, TENANT_CONTAINER };
int tenants_mark(const char *dir, enum tenant_kind kind, pid_t pid);

/*
 * Notes in a tenant's directory which library its processes have, and reads it: those that come
 * later have the same one. -ENOENT: nothing is noted; -EINVAL: that is no path of a library.
 */
int tenants_note_library(const char *dir, const char *path);
int tenants_read_library(const char *dir, char ret[static PATH_MAX]);

/*
 * Tells the state of the directory, so that `allot ps` need not guess; and the pid of a living
 * process, or 0.
 */
enum tenant_state tenants_state(const char *dir, pid_t *ret_pid);

/*
 * Waits for at most 2 s until a tenant that has its name has its note, or its maker counts as killed in
 * between. For commands, before they say that the tenant lives.
 */
void tenants_await_note(const char *dir);

/*
 * Removes a tenant, and keeps its last figures; with `ended_only` only one that has ended. -EBUSY:
 * it has not, or not yet; -ENOENT.
 */
int tenants_remove(const char *runtime, const char *name, bool ended_only);

/* Likewise all that ended. */
void tenants_remove_ended(const char *runtime);
/* Removes a user's ended tenants (tenant_name_owner); 0: those of all users. */
void tenants_remove_ended_of(const char *runtime, uid_t uid);

/* When a tenant began, in seconds of CLOCK_REALTIME. -1: it has no directory any more. */
int64_t tenants_began(const char *dir);

/* Explains an error of opening a tenant. */
const char *tenants_error_words(int err);

#endif
