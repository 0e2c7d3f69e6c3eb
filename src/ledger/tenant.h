/* SPDX-License-Identifier: Apache-2.0 */
/* Tenants as directories of the runtime directory. */
#ifndef ALLOT_LEDGER_TENANT_H
#define ALLOT_LEDGER_TENANT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "ledger/policy.h"

/*
 * $ALLOT_RUNTIME_DIR, else /run/allot for root (/dev/shm/allot where /run is an overlay), else
 * $XDG_RUNTIME_DIR/allot; where that is not set /run/user/UID/allot, else /dev/shm/allot-UID.
 * -EINVAL for a path that is not absolute, -ENAMETOOLONG.
 */
int tenant_runtime_dir(char *buf, size_t len);

/*
 * The containers of a Pod share /dev/shm, and each has limits of its own. Below it, this tells the
 * caller's container from the others: by the overlay that is its root, as long as the container lives.
 * False: the runtime directory is elsewhere, or the root is no overlay.
 */
#define TENANT_CONTAINER_BYTES 24
bool tenant_container(const char *runtime, char ret[static TENANT_CONTAINER_BYTES]);

/* The same for a user who is root in a user namespace, and `uid` outside of it. */
int tenant_runtime_dir_of(uid_t uid, char *buf, size_t len);

/* Where it is when the environment names none. -ENAMETOOLONG. */
int tenant_usual_dir(char *buf, size_t len);

/* Makes it, 0700, where it is missing. -errno. */
int tenant_make_runtime(const char *runtime);

/* The runtime directory that a tenant's directory is in. -EINVAL where it is in none, -ENAMETOOLONG. */
int tenant_runtime_of(const char *tenant_dir, char *buf, size_t len);

/*
 * 1 to 63 of A-Z a-z 0-9 . _ -, the first a letter or a digit; of a user whose tenant is in root's
 * runtime directory "@UID" comes last, so that no two users' names are the same.
 */
bool tenant_name_valid(const char *name);
/* True if a valid name is of such a user. */
bool tenant_name_owner(const char *name, uid_t *ret);
/* "<plain>@<uid>" into buf. -EINVAL where `plain` is none, -ENAMETOOLONG. */
int tenant_name_of(const char *plain, uid_t uid, char buf[static POLICY_NAME_BYTES]);

/*
 * Where users' tenants of a runtime directory of root's are, beside it, as that is closed to others:
 * "<runtime>-users". -ENAMETOOLONG.
 */
int tenant_users_dir(const char *runtime, char *buf, size_t len);
/* Makes it, 0755, where it is missing, and the runtime directory. -errno. */
int tenant_make_users(const char *runtime);

/*
 * <runtime>/<name> into buf, or of a user <runtime>-users/<name>. -EINVAL for a bad name,
 * -ENAMETOOLONG.
 */
int tenant_path(const char *runtime, const char *name, char *buf, size_t len);

/*
 * Creates the runtime directory (0700) where missing, the tenant's directory, its policy and its
 * ledger, and puts the path into buf. A user's ledger is that user's alone, and its directory and
 * policy are root's, who alone can make one. -EEXIST (with the path in buf) when the tenant exists
 * already: the caller joins it as it is. Two at once: one creates, the other is told -EEXIST with
 * the tenant complete.
 */
int tenant_create(const char *runtime, const char *name, const struct policy *policy, char *buf,
		  size_t len);

/*
 * For a container, whose users are one tenant, whoever they are: files that all who reach them may
 * use. On the machine nobody else does, as the runtime directory is closed: -EPERM where it is not.
 */
int tenant_open_to_all(const char *runtime, const char *name);
/*
 * The same for a container of the user whose tenant it is. On the machine that user alone reaches the files,
 * by an access list of the directory. -EOPNOTSUPP where the file system has none.
 */
int tenant_open_to_user(const char *runtime, const char *name);
/* The command's note in a tenant's directory: a link, see node/tenants.c. */
#define TENANT_NOTE "owner"

/* The rings of a traced tenant (ledger/trace): 32 for processes, and the last for the roles. */
#define TENANT_RING_ROLES 32
#define TENANT_RINGS	  (TENANT_RING_ROLES + 1)
/* The file's name of a ring, 0 to TENANT_RINGS - 1. */
void tenant_ring_name(unsigned int number, char ret[static 16]);

/* True if it is such a tenant: by its directory, also as a container sees it. */
bool tenant_is_open_to_all(const char *dir);

/*
 * Calls fn for every directory with a valid name, sorted, and then for users' tenants beside the
 * runtime directory, until it answers non-zero, which is passed on.
 */
int tenant_list(const char *runtime, int (*fn)(const char *name, const char *dir, void *arg),
		void *arg);

/* Likewise of users' alone, which who may not list the runtime directory sees, too. */
int tenant_list_users(const char *runtime,
		      int (*fn)(const char *name, const char *dir, void *arg), void *arg);

/*
 * -EBUSY while a process of the tenant uses a GPU, or somebody keeps it alive (life.h); -ENOENT.
 * None can join while it is removed.
 */
int tenant_remove(const char *runtime, const char *name);

#endif
