/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/users/requests.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/proc_stat.h"
#include "base/pidns.h"
#include "daemon/users/bounds.h"
#include "ledger/role/residency_file.h"
#include "ledger/tenant.h"
#include "node/library.h"
#include "node/process/process.h"
#include "node/tenants.h"
#include "roles/arbiter_host.h"

/* No device is busy for longer with one program's work in flight. */
#define INFLIGHT_MAX_US 1000000

/* A process is in a cgroup of each hierarchy. */
#define CGROUPS_BYTES 16384

struct doing {
	const char *runtime;
	const struct site *site;
	const struct site_file *file;
	const struct devices *devices;
	const struct requests_peer *peer;
	const struct control_request *request;
	struct control_answer *answer;
	struct move *move;
	char name[POLICY_NAME_BYTES], dir[PATH_MAX];
	struct policy policy; /* that is put in force */
};

#define requests_refuse(d, error, ...)                                                           \
	err_say((d)->answer->words, sizeof((d)->answer->words), error, __VA_ARGS__)

/* A policy that the command would not have made is none of the command's. */
static int requests_check_policy(struct doing *d, const struct policy *policy)
{
	if (policy_check(policy) < 0 || strcmp(policy->name, d->name) ||
	    policy->slice_us > POLICY_LATENCY_MOST_US ||
	    (policy->slice_us && policy->slice_us < POLICY_LATENCY_LEAST_US) ||
	    policy->inflight_us > INFLIGHT_MAX_US)
		return requests_refuse(d, -EINVAL, "the policy is damaged");
	if (policy->mode != POLICY_MODE_TURNS)
		return requests_refuse(d, -ENOTSUP, "--mode space: its partition is the user's own "
						    "MPS daemon's, and not to be had by way of "
						    "allotd; leave it out");
	if (policy->flags & POLICY_OVERCOMMIT)
		return requests_refuse(d, -ENOTSUP, "--overcommit: tenants of different users do not "
						    "leave for each other; leave it out");
	return 0;
}

/* --- What the site gives ---------------------------------------------------------------------- */

/* -ESRCH: it ends, or has ended and is not waited for. */
static int requests_check_lives(int proc)
{
	struct proc_stat stat;
	int r = proc_stat_read_at(proc, "stat", &stat);

	return r ? r : proc_stat_is_exiting(&stat) ? -ESRCH : 0;
}

/*
 * Reads the peer's cgroups by its pid. The peer may have ended since; a process of the same user
 * that has the pid then could have asked itself. A process that ends during the look is at the top
 * of hierarchies of version 1, and its cgroup may be gone.
 */
static int requests_read_cgroups(const struct requests_peer *peer, char ret[static CGROUPS_BYTES])
{
	CLEANUP_CLOSE int dir = -EBADF;
	char path[64];
	struct stat st;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%ld", (long)peer->pid);
	dir = fd_openat(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0);
	if (dir < 0)
		return dir;
	if (fstat(dir, &st) < 0)
		return err_errno();
	n = fd_read_text(dir, "cgroup", ret, CGROUPS_BYTES);
	if (n < 0 || st.st_uid != peer->uid)
		return n < 0 ? (int)n : -EPERM;
	/* It is above the cgroups that this process sees, in a cgroup namespace of its own. */
	if (strstr(ret, ":/.."))
		return -EXDEV;
	return n < CGROUPS_BYTES - 1 ? requests_check_lives(dir) : -E2BIG;
}

static bool requests_asks_cgroups(const struct site *site)
{
	for (const struct site_rule *rule = site->rules; rule; rule = rule->next)
		if (rule->who == SITE_CGROUP)
			return true;
	return false;
}

struct count {
	uid_t uid;
	unsigned int n;
};

static int requests_count_one(const char *name, const char *dir, void *arg)
{
	struct count *count = arg;
	uid_t uid;

	(void)dir;
	count->n += tenant_name_owner(name, &uid) && uid == count->uid;
	return 0;
}

static int requests_check_number(struct doing *d, uint32_t most)
{
	struct count count = {.uid = d->peer->uid};
	int r = tenant_list_users(d->runtime, requests_count_one, &count);

	if (r < 0 || count.n < most)
		return r;
	return requests_refuse(d, -EDQUOT, "%u tenants are there of user %u, and no more may be; "
			       "join one of them with --name, or end one",
			       count.n, (unsigned int)d->peer->uid);
}

/* Puts the site's defaults into it, if it is made, and holds it against the site's bounds. */
static int requests_bound(struct doing *d, bool making, struct policy *policy)
{
	const struct requests_peer *peer = d->peer;
	char cgroups[CGROUPS_BYTES] = "";
	struct site_member member = {
		.uid = peer->uid, .groups = peer->groups, .ngroups = peer->ngroups, .cgroups = cgroups};
	struct bounds bounds = {.site = d->site,
				.devices = d->devices,
				.runtime = d->runtime,
				.member = peer->manages ? NULL : &member,
				.name = d->name};
	int r = bounds.member && requests_asks_cgroups(d->site) ? requests_read_cgroups(peer, cgroups)
								: 0;

	if (r < 0)
		return requests_refuse(d, r, "the cgroup of process %ld, by which the site bounds it, "
				       "cannot be read",
				       (long)peer->pid);
	if (making) {
		r = requests_check_number(d, bounds_tenants(&bounds, REQUESTS_TENANTS));
		if (r == 0)
			r = bounds_check_accounting(&bounds, policy, d->answer->words);
		bounds_complete(&bounds, d->request->said, policy);
	}
	if (r == 0)
		r = bounds_spell_out(&bounds, policy, d->answer->words);
	return r < 0 ? r : bounds_check(&bounds, policy, d->answer->words);
}

/* --- Making ----------------------------------------------------------------------------------- */

/*
 * Removes ended tenants, which do not count: the user's own, and all tenants if their quotas are
 * added up.
 */
static void requests_sweep(const struct doing *d)
{
	if (d->site->overpromise == SITE_ALLOW)
		tenants_remove_ended_of(d->runtime, d->peer->uid);
	else
		tenants_remove_ended(d->runtime);
}

/* The process that the tenant's note names; 0: no tenant begins that way. */
static pid_t requests_beginner(const struct doing *d)
{
	pid_t asker = d->peer->pid > 0 ? d->peer->pid : getpid();
	uint32_t container = d->request->container;

	switch (d->request->kind) {
	case TENANT_NAMED:
	case TENANT_GENERATED:
	case TENANT_PREPARED:
		return asker;
	case TENANT_CONTAINER:
		return container <= INT_MAX ? (pid_t)container : 0;
	}
	return 0;
}

/*
 * The tenant lives as long as the container's first process, so that has to be one that the user can
 * end. Its pid may be another process's a moment later: such a tenant has ended (tenants_state).
 */
static int requests_check_first(struct doing *d)
{
	long pid = (long)d->request->container;
	int r = process_is_of_user((pid_t)pid, d->peer->uid);

	if (r == -ESRCH)
		return requests_refuse(d, r, "the container's first process, %ld, is not there any more", pid);
	if (r < 0)
		return requests_refuse(d, r, "whose process %ld is cannot be seen (%s); allotd needs "
				       "CAP_SYS_PTRACE for that",
				       pid, strerror(-r));
	return r ? 0
		 : requests_refuse(d, -EPERM, "process %ld is not user %u's; a container's first process is "
				   "of the user who runs the container, or in a user namespace of that user",
				   pid, (unsigned int)d->peer->uid);
}

/* The pid of the container's first process has to mean the same process here. */
static int requests_check_container(struct doing *d)
{
	char path[64];
	struct stat st;

	if (d->request->kind != TENANT_CONTAINER)
		return 0;
	snprintf(path, sizeof(path), "/proc/%ld/ns/pid", (long)d->peer->pid);
	if (stat(path, &st) == 0 && st.st_ino == pidns_self())
		return requests_check_first(d);
	return requests_refuse(d, -EXDEV, "the container's runtime is in another PID namespace than "
			       "allotd; run both in the machine's own");
}

/* A container's processes are of users that nobody else knows, and all are of the tenant. */
static int requests_open(struct doing *d)
{
	int r = d->request->kind == TENANT_CONTAINER ? tenant_open_to_user(d->runtime, d->name) : 0;

	if (r == -EOPNOTSUPP)
		requests_refuse(d, r, "%s-users is on a file system without access lists (acl), by which "
				"one user alone reaches it; have it on tmpfs", d->runtime);
	return r;
}

/*
 * Notes this installation's library for the tenant, so that processes that join after an update use
 * the same one (tenants_read_library). If there is none, each process uses its own.
 */
static int requests_note_library(const struct doing *d)
{
	char path[PATH_MAX];

	if (library_find(path) < 0)
		return 0;
	library_find_kept(path);
	return tenants_note_library(d->dir, path);
}

static int requests_make(struct doing *d)
{
	const struct control_request *request = d->request;
	pid_t pid = requests_beginner(d);
	int r;

	if (!pid)
		return requests_refuse(d, -EINVAL, "this allotd does not know that kind of tenant, and is older "
				       "than the command; have it restarted: systemctl restart allotd");
	r = requests_check_container(d);
	if (r < 0)
		return r;
	r = tenant_name_of(request->name, d->peer->uid, d->name);
	if (r < 0)
		return requests_refuse(d, r, "--name: of 1 to 63 letters, digits, '.', '_' or '-', less "
				       "\"@%u\", begun by a letter or digit",
				       (unsigned int)d->peer->uid);
	r = requests_check_policy(d, &request->policy);
	if (r < 0)
		return r;
	d->policy = request->policy;
	requests_sweep(d);
	r = tenant_path(d->runtime, d->name, d->dir, sizeof(d->dir));
	if (r == 0 && access(d->dir, F_OK) == 0)
		return -EEXIST;
	if (r == 0)
		r = requests_bound(d, true, &d->policy);
	if (r == 0)
		r = tenant_create(d->runtime, d->name, &d->policy, d->dir, sizeof(d->dir));
	if (r == 0)
		r = requests_open(d);
	if (r == 0)
		r = requests_note_library(d);
	if (r == 0)
		r = tenants_mark(d->dir, (enum tenant_kind)request->kind, pid);
	if (r < 0)
		return r;
	d->answer->policy = d->policy;
	/* It cannot say itself that it has come. */
	arbiter_host_announce(d->runtime);
	residency_file_tell(d->runtime);
	return 0;
}

/* --- What there is ---------------------------------------------------------------------------- */

/* Finds the tenant by its full name, for its owner or a manager. */
static int requests_find(struct doing *d)
{
	uid_t owner;
	int r;

	memcpy(d->name, d->request->name, sizeof(d->name));
	if (!tenant_name_valid(d->name) || !tenant_name_owner(d->name, &owner))
		return requests_refuse(d, -EINVAL, "that is no user's tenant's name");
	if (owner != d->peer->uid && !d->peer->manages)
		return requests_refuse(d, -EPERM, "it is another user's; root can, and who is of group "
						  "allot");
	r = tenant_path(d->runtime, d->name, d->dir, sizeof(d->dir));
	if (r == 0 && access(d->dir, F_OK) < 0)
		r = -ENOENT;
	return r;
}

static int requests_edit(struct policy *policy, void *arg)
{
	const struct doing *d = arg;

	/* Another process changed it since: the client is to read it again. */
	if (memcmp(policy, &d->request->before, sizeof(*policy)) != 0)
		return -EAGAIN;
	*policy = d->policy;
	return 0;
}

static int requests_set(struct doing *d)
{
	const struct policy *before = &d->request->before;
	const struct policy *asked = &d->request->policy;
	int r;

	requests_sweep(d);
	r = requests_find(d);
	if (r == 0)
		r = requests_check_policy(d, asked);
	if (r < 0)
		return r;
	if (asked->flags != before->flags || asked->host_bytes != before->host_bytes ||
	    memcmp(asked->swap_dir, before->swap_dir, sizeof(asked->swap_dir)) != 0)
		return requests_refuse(d, -EINVAL, "that cannot be changed while it lives");
	d->policy = *asked;
	r = requests_bound(d, false, &d->policy);
	if (r < 0)
		return r;
	r = policy_update(d->dir, requests_edit, d);
	if (r < 0)
		return r;
	d->answer->policy = d->policy;
	residency_file_tell(d->runtime);
	arbiter_host_announce(d->runtime);
	return 0;
}

static int requests_remove(struct doing *d, bool ended_only)
{
	int r = requests_find(d);

	return r < 0 ? r : tenants_remove(d->runtime, d->name, ended_only);
}

static int requests_move(struct doing *d)
{
	int r = requests_find(d);

	if (r < 0)
		return r;
	r = moves_start(d->request, d->move);
	if (r == -ENOENT)
		return requests_refuse(d, r, "allot is not beside this allotd; have both installed");
	return r;
}

static int requests_choose(struct doing *d)
{
	if (d->request->verb == CONTROL_ABOUT) {
		site_file_tell(d->file, &d->answer->about);
		return 0;
	}
	if (!d->peer->uid)
		return requests_refuse(d, -EINVAL, "root has no need of allotd for that");
	if (!memchr(d->request->name, '\0', sizeof(d->request->name)))
		return requests_refuse(d, -EINVAL, "the name does not end");
	switch (d->request->verb) {
	case CONTROL_MAKE:
		return requests_make(d);
	case CONTROL_SET:
		return requests_set(d);
	case CONTROL_END:
		return requests_remove(d, true);
	case CONTROL_REMOVE:
		return requests_remove(d, false);
	case CONTROL_SUSPEND:
	case CONTROL_RESUME:
		return requests_move(d);
	}
	return requests_refuse(d, -EINVAL, "that is nothing that allotd does");
}

int requests_do(const struct requests *requests, const struct requests_peer *peer,
		const struct control_request *request, struct control_answer *ret,
		struct move *ret_move)
{
	struct doing d = {.runtime = requests->runtime,
			  .site = requests->site,
			  .file = requests->file,
			  .devices = requests->devices,
			  .peer = peer,
			  .request = request,
			  .answer = ret,
			  .move = ret_move};

	*ret_move = (struct move){.out = -EBADF};
	*ret = (struct control_answer){.magic = CONTROL_MAGIC, .version = CONTROL_VERSION};
	if (request->magic != CONTROL_MAGIC || request->version != CONTROL_VERSION)
		ret->error = requests_refuse(&d, -EPROTO,
					     "this allot is of another version than allotd");
	else
		ret->error = requests_choose(&d);
	return ret_move->pid > 0;
}
