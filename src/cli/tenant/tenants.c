/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tenant/tenants.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli/exec/space.h"
#include "cli/out/say.h"
#include "cli/tenant/dmem.h"
#include "cli/tenant/runtime.h"
#include "ledger/pidns.h"
#include "ledger/tenant.h"

/*
 * The note is a symbolic link that leads nowhere, because a link is made whole or not at all. Its
 * text is "<inode of the PID namespace>:<pid>".
 */
#define NOTE "owner"

/*
 * A process of another PID namespace cannot be looked for. A tenant that one began is kept for a
 * day.
 */
#define FOREIGN_GRACE_S (24 * 3600)

const char *tenants_error_words(int err)
{
	switch (err) {
	case -EPROTO:
		return "written by another version of allot, or damaged";
	case -EPERM:
		return "belongs to another user, or is open to others";
	case -ELOOP:
		return "is a symbolic link";
	case -EBADMSG:
	case -ENODATA:
		return "damaged";
	case -ENOENT:
		return "policy or ledger is missing";
	case -ENOLCK:
		return "its file system loses locks, as an overlay does";
	}
	return say_errno(err);
}

int tenants_mark_generated(const char *dir)
{
	char path[PATH_MAX + sizeof("/" NOTE)], text[48];

	snprintf(path, sizeof(path), "%s/" NOTE, dir);
	snprintf(text, sizeof(text), "%" PRIu64 ":%ld", pidns_self(), (long)getpid());
	return symlink(text, path) < 0 ? -errno : 0;
}

struct note {
	uint64_t pidns;
	long pid;
	time_t age_s;
};

static int tenants_read_note(const char *dir, struct note *ret)
{
	char path[PATH_MAX + sizeof("/" NOTE)], text[48];
	struct note note;
	struct stat st;
	ssize_t n;

	snprintf(path, sizeof(path), "%s/" NOTE, dir);
	n = readlink(path, text, sizeof(text) - 1);
	if (n < 0 || lstat(path, &st) < 0)
		return -errno;
	text[n] = 0;
	if (sscanf(text, "%" SCNu64 ":%ld", &note.pidns, &note.pid) != 2 || note.pid <= 0)
		return -EINVAL;
	note.age_s = time(NULL) - st.st_mtime;
	*ret = note;
	return 0;
}

/* A pid that was given to somebody else by now only delays the end of the tenant. */
static bool tenants_begun_by_the_dead(const struct note *note)
{
	if (note->pidns != pidns_self())
		return note->age_s > FOREIGN_GRACE_S;
	return kill((pid_t)note->pid, 0) < 0 && errno == ESRCH;
}

unsigned int tenants_live(const struct snapshot *snapshot)
{
	unsigned int n = 0;

	for (int i = 0; i < snapshot->nprocesses; i++)
		n += snapshot->process[i].live;
	return n;
}

static int tenants_sweep_one(const char *name, const char *dir, void *runtime)
{
	struct snapshot *snapshot = NULL;
	struct note note;
	bool used;

	if (tenants_read_note(dir, &note) < 0 || note.age_s < TENANTS_GRACE_S ||
	    !tenants_begun_by_the_dead(&note))
		return 0;
	/* A tenant that cannot be read may be of another version, and in use. */
	used = snapshot_read(dir, &snapshot) < 0 || tenants_live(snapshot);
	snapshot_free(snapshot);
	if (!used)
		tenant_remove(runtime, name);
	return 0;
}

void tenants_sweep(const char *runtime)
{
	tenant_list(runtime, tenants_sweep_one, (void *)runtime);
	space_sweep(runtime);
	dmem_sweep(runtime, TENANTS_GRACE_S);
}

static int tenants_load_one(const char *name, const char *dir, void *arg)
{
	struct tenants *t = arg;
	struct tenant_entry *list, *e;
	struct note note;

	list = reallocarray(t->list, t->n + 1, sizeof(*list));
	if (!list)
		return -ENOMEM;
	t->list = list;
	e = &list[t->n];
	memset(e, 0, sizeof(*e));
	snprintf(e->name, sizeof(e->name), "%s", name);
	snprintf(e->dir, sizeof(e->dir), "%s", dir);
	e->generated = !tenants_read_note(dir, &note);
	e->abandoned = e->generated && tenants_begun_by_the_dead(&note);
	e->error = snapshot_read(dir, &e->snapshot);
	if (e->error == -ENOENT && access(dir, F_OK) < 0)
		return 0; /* removed meanwhile */
	if (!e->error && e->abandoned && !tenants_live(e->snapshot)) {
		snapshot_free(e->snapshot);
		return 0;
	}
	t->n++;
	return 0;
}

int tenants_load(struct tenants *ret)
{
	struct tenants t = {.n = 0};
	int r = runtime_find(t.runtime);

	if (r < 0)
		return r;
	r = tenant_list(t.runtime, tenants_load_one, &t);
	if (r < 0 && r != -ENOENT) {
		say_error("cannot read the runtime directory %s: %s", t.runtime, say_errno(r));
		tenants_free(&t);
		return r;
	}
	*ret = t;
	return 0;
}

void tenants_free(struct tenants *tenants)
{
	for (size_t i = 0; i < tenants->n; i++)
		snapshot_free(tenants->list[i].snapshot);
	free(tenants->list);
	tenants->list = NULL;
	tenants->n = 0;
}
