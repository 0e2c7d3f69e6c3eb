/* SPDX-License-Identifier: Apache-2.0 */
#include "roles/role.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/futex.h"
#include "base/number.h"
#include "base/word.h"
#include "ledger/shared_file.h"
#include "ledger/tenant.h"

static uint32_t *role_word(void *map, size_t at)
{
	return (uint32_t *)((char *)map + at);
}

static uint64_t *role_due_word(const struct role_file *file, void *map)
{
	return (uint64_t *)((char *)map + file->due_ns);
}

/* A figure that is another one after each step of a role holder. */
static uint64_t role_steps(const struct role_file *file, void *map)
{
	return file->due_ns ? word_acquire(role_due_word(file, map))
			    : word_check(role_word(map, file->beats));
}

static void role_say_step(const struct role_file *file, void *map, uint64_t due_ns)
{
	if (file->due_ns)
		word_release(role_due_word(file, map), due_ns);
	else
		word_publish_add(role_word(map, file->beats), 1);
}

/* The mapping also keeps the lock on byte `use`, unless that is 0. */
static int role_map(struct role *role, const struct role_file *file, int64_t use)
{
	CLEANUP_CLOSE int fd = role_file_join(file, role->runtime);
	int r;

	if (fd < 0)
		return fd;
	r = use ? shared_file_share(fd, use, 1) : 0;
	if (r < 0)
		return r;
	role->map = role_file_map(fd);
	if (!role->map)
		return -ENOMEM;
	role->file = file;
	return 0;
}

int role_open(struct role *role, const struct role_file *file, const char *tenant_dir)
{
	int r = tenant_runtime_of(tenant_dir, role->runtime, sizeof(role->runtime));

	return r < 0 ? r : role_map(role, file, file->use);
}

static int role_note_runtime(struct role *role, const char *runtime)
{
	if (strlen(runtime) >= sizeof(role->runtime))
		return -EINVAL;
	strcpy(role->runtime, runtime);
	return 0;
}

int role_watch(struct role *role, const struct role_file *file, const char *runtime)
{
	int r = role_note_runtime(role, runtime);

	return r < 0 ? r : role_map(role, file, 0);
}

void role_close(struct role *role)
{
	role_drop(role);
	role_file_unmap(role->claim);
	role_file_unmap(role->map);
}

/* --- Claims --------------------------------------------------------------------------------- */

/* To the process that has the role: it may have taken it while this daemon was stopped. */
static void role_say_claim(struct role *role)
{
	word_publish_add(role_word(role->map, role->file->claims), 1);
	role_ring(role);
}

int role_claim(struct role *role, const struct role_file *file, const char *runtime)
{
	CLEANUP_CLOSE int fd = -EBADF;
	int r = role_note_runtime(role, runtime);

	if (r < 0)
		return r;
	fd = role_file_join(file, runtime);
	r = fd < 0 ? fd : shared_file_lock(fd, file->claim, 1);
	if (!r)
		r = role_map(role, file, 0);
	if (r < 0)
		return r;
	role->claim = role_file_map(fd);
	if (!role->claim) {
		role_close(role);
		return -ENOMEM;
	}
	role_say_claim(role);
	return 0;
}

static bool role_is_anothers(const struct role *role, int fd)
{
	if (!role->file->claim || role->claim)
		return false;
	if (role->ignores && word_check(role_word(role->map, role->file->claims)) == role->claims)
		return false;
	return shared_file_locked(fd, role->file->claim, 1) == 1;
}

/* The word says when to ask; the lock is the answer, as anybody may write the word. */
bool role_is_claimed(struct role *role)
{
	CLEANUP_CLOSE int fd = -EBADF;
	uint32_t claims;

	if (!role->file->claim || role->claim)
		return false;
	claims = word_check(role_word(role->map, role->file->claims));
	if (claims == role->claims)
		return false;
	role->claims = claims;
	role->ignores = false;
	fd = role_file_join(role->file, role->runtime);
	return fd >= 0 && role_is_anothers(role, fd);
}

/* --- Election ------------------------------------------------------------------------------- */

/*
 * The role holder has made no step since it was first tried for. Until then it may have slept, as a
 * daemon does while nobody works; but from then on others ring. If the file was made anew, this
 * process sees its own one, and the role holder writes into that with the lock. Where no step is due
 * nobody has said one: a daemon may be stopped between its claim and its first step.
 */
static bool role_is_stopped(struct role *role, void *map, uint64_t now_ns)
{
	uint64_t steps = role_steps(role->file, role->map);
	uint64_t due_ns = role->file->due_ns ? steps : 0;

	if (steps != role->steps || !role->silent_ns ||
	    (role->gap_ns && now_ns > role->tried_ns + role->gap_ns))
		role->silent_ns = now_ns;
	role->steps = steps;
	role->tried_ns = now_ns;
	return now_ns >= max_u64(due_ns, role->silent_ns) + role->stopped_ns &&
	       role_steps(role->file, map) == steps;
}

/*
 * A process that takes the role from a stopped one locks the next term before that begins, so no
 * other can have either. It says a step before, and others read the term before the steps, so no
 * other takes this process for the stopped one.
 */
static int role_lock_term(struct role *role, int fd, void *map, uint64_t now_ns)
{
	uint32_t *word = role_word(map, role->file->term);
	uint32_t now = word_check(word), term = now;
	bool stopped = role_is_stopped(role, map, now_ns);
	int r;

	if (!stopped && role_is_anothers(role, fd))
		return -EAGAIN;
	/* A stopped daemon's claim does not count; the daemon repeats it when it runs again. */
	if (stopped && role->file->claim) {
		role->claims = word_check(role_word(map, role->file->claims));
		role->ignores = true;
	}
	r = shared_file_lock(fd, role_file_term_lock(role->file, term), 1);
	if (r == -EAGAIN && stopped) {
		r = shared_file_lock(fd, role_file_term_lock(role->file, ++term), 1);
		if (!r) {
			role_say_step(role->file, map, now_ns);
			word_swap_if_u32(word, now, term);
		}
	}
	if (r < 0)
		return r;
	role->term = term;
	return word_check(word) == term ? 0 : -EAGAIN;
}

/* A daemon repeats its claim as often as it may be overlooked, and at once where it has just lost the role. */
static void role_repeat_claim(struct role *role, bool had, uint64_t now_ns)
{
	if (!role->claim || (!had && now_ns < role->said_ns + role->stopped_ns))
		return;
	role->said_ns = now_ns;
	role_say_claim(role);
}

bool role_take(struct role *role, uint64_t now_ns)
{
	CLEANUP_CLOSE int fd = -EBADF;
	bool had = role->held;
	void *map;

	if (role_held(role))
		return true;
	role_drop(role);
	fd = role_file_join(role->file, role->runtime);
	map = fd < 0 ? NULL : role_file_map(fd);
	if (!map)
		return false;
	if (role_lock_term(role, fd, map, now_ns)) {
		role_file_unmap(map);
		role_repeat_claim(role, had, now_ns);
		return false;
	}
	role->held = map;
	/* The silence was that of another one. */
	role->silent_ns = 0;
	role_beat(role, now_ns);
	return true;
}

bool role_held(const struct role *role)
{
	return role->held && word_check(role_word(role->held, role->file->term)) == role->term;
}

void role_drop(struct role *role)
{
	if (role->file->due_ns && role_held(role))
		role_beat(role, 0);
	role_file_unmap(role->held);
	role->held = NULL;
}

void role_look_away(struct role *role)
{
	role->silent_ns = 0;
}

/* --- Steps and bell ------------------------------------------------------------------------- */

/* If the file was made anew, others that have the old one mapped read the instant there. */
void role_beat(struct role *role, uint64_t due_ns)
{
	role_say_step(role->file, role->held, due_ns);
	if (role->file->due_ns)
		role_say_step(role->file, role->map, due_ns);
}

uint64_t role_due_ns(const struct role *role)
{
	return word_acquire(role_due_word(role->file, role->map));
}

void role_ring(struct role *role)
{
	role_file_ring(role->map);
}

uint32_t role_rung(const struct role *role)
{
	return word_check(role_file_bell(role->map));
}

void role_sleep(const struct role *role, uint32_t rung, uint64_t until_ns)
{
	futex_wait_until(role_file_bell(role->map), rung, until_ns);
}
