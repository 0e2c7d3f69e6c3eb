/* SPDX-License-Identifier: Apache-2.0 */
#include "node/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/dir.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/parse.h"
#include "ledger/shared_file.h"
#include "ledger/tenant.h"

#define USUAL_RUNTIME "/run/allot"
#define USUAL_DIR     "/var/lib/allot/history"
/* A link in a directory that users can read, or else in the runtime directory. No tenant is called so. */
#define NOTE ".history"
#define BLOCK	   4096 /* the least that a file, or a folder, takes of a disk */
#define LINE_BYTES 256	/* about, of a line */
#define FILE_BYTES sizeof("2026-11-30.tsv")

/* --- Where it is ------------------------------------------------------------------------------ */

int journal_choose(const char *runtime, const char *said, char ret[static PATH_MAX])
{
	const char *state = getenv("STATE_DIRECTORY");
	int n = 0;

	if (*said)
		n = snprintf(ret, PATH_MAX, "%s", said);
	else if (state && *state == '/') /* several have colons between them */
		n = snprintf(ret, PATH_MAX, "%.*s/history", (int)strcspn(state, ":"), state);
	else if (!strcmp(runtime, USUAL_RUNTIME))
		n = snprintf(ret, PATH_MAX, "%s", USUAL_DIR);
	return n >= PATH_MAX ? -ENAMETOOLONG : n ? 0 : -ENOENT;
}

static int journal_note(const char *runtime, bool of_users, char ret[static PATH_MAX])
{
	char dir[PATH_MAX];
	int r = 0;

	if (of_users)
		r = tenant_users_dir(runtime, dir, sizeof(dir));
	else
		snprintf(dir, sizeof(dir), "%s", runtime);
	if (r < 0)
		return r;
	r = snprintf(ret, PATH_MAX, "%s/" NOTE, dir);
	return r < PATH_MAX ? 0 : -ENAMETOOLONG;
}

int journal_find(const char *runtime, char ret[static PATH_MAX])
{
	char note[PATH_MAX], dir[PATH_MAX];

	for (int of_users = 1; of_users >= 0; of_users--) {
		if (journal_note(runtime, of_users, note) < 0 ||
		    fd_read_link(AT_FDCWD, note, dir, sizeof(dir)) <= 0 || access(dir, F_OK) < 0)
			continue;
		strcpy(ret, dir);
		return 0;
	}
	if (strcmp(runtime, USUAL_RUNTIME) != 0 || access(USUAL_DIR, F_OK) < 0)
		return -ENOENT;
	strcpy(ret, USUAL_DIR);
	return 0;
}

static int journal_make_dir(const char *path)
{
	if (mkdir(path, 0755) < 0)
		return errno == EEXIST ? 0 : err_errno();
	return chmod(path, 0755) < 0 ? err_errno() : 0; /* whatever the umask is */
}

/* With the folders that it is in. */
static int journal_make_dirs(const char *dir)
{
	char path[PATH_MAX];
	int r;

	if (*dir != '/' || snprintf(path, sizeof(path), "%s", dir) >= (int)sizeof(path))
		return -EINVAL;
	for (char *slash = path + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		r = journal_make_dir(path);
		if (r < 0)
			return r;
		*slash = '/';
	}
	return journal_make_dir(path);
}

int journal_make(const char *runtime, const char *dir)
{
	bool of_users = geteuid() == 0;
	CLEANUP_CLOSE int fd = -EBADF;
	char note[PATH_MAX];
	int r = journal_make_dirs(dir);

	if (r == 0) {
		fd = shared_file_open_dir(dir);
		r = fd < 0 ? fd : 0;
	}
	if (r == 0)
		r = of_users ? tenant_make_users(runtime) : tenant_make_runtime(runtime);
	if (r == 0)
		r = journal_note(runtime, of_users, note);
	if (r < 0)
		return r;
	unlink(note);
	return symlink(dir, note) < 0 ? err_errno() : 0;
}

/* --- Files of days ---------------------------------------------------------------------------- */

static int journal_name_day(int64_t at_s, char ret[static FILE_BYTES])
{
	time_t at = (time_t)at_s;
	struct tm tm;

	if (!gmtime_r(&at, &tm) || strftime(ret, FILE_BYTES, "%Y-%m-%d.tsv", &tm) != FILE_BYTES - 1)
		return -EOVERFLOW;
	return 0;
}

/* Names of days of the same length are in the order of the days. */
static bool journal_is_day(const char *name)
{
	static const char shape[] = "0000-00-00.tsv";
	size_t i = 0;

	for (; shape[i] && name[i]; i++)
		if (shape[i] == '0' ? name[i] < '0' || name[i] > '9' : name[i] != shape[i])
			return false;
	return !shape[i] && !name[i];
}

static int journal_open_user(int dirfd, uid_t uid)
{
	char name[16];

	snprintf(name, sizeof(name), "%u", (unsigned int)uid);
	return fd_openat(dirfd, name, O_RDONLY | O_DIRECTORY, 0);
}

/* The user who cannot be let in has the figures all the same, by asking root. */
static int journal_make_user(int dirfd, uid_t uid)
{
	CLEANUP_CLOSE int fd = -EBADF;
	char name[16];

	snprintf(name, sizeof(name), "%u", (unsigned int)uid);
	if (mkdirat(dirfd, name, 0700) < 0)
		return errno == EEXIST ? 0 : err_errno();
	fd = journal_open_user(dirfd, uid);
	if (fd < 0)
		return fd;
	if (uid != geteuid())
		shared_file_let_in(fd, 0, uid, SHARED_FILE_ENTER | SHARED_FILE_NAMES);
	return 0;
}

int journal_append(const char *dir, uid_t uid, int64_t now_s, const struct ended *e,
		   uint64_t most_bytes)
{
	CLEANUP_CLOSE int dirfd = shared_file_open_dir(dir);
	CLEANUP_CLOSE int user = -EBADF;
	CLEANUP_CLOSE int fd = -EBADF;
	char name[FILE_BYTES];
	struct stat st;
	int r;

	if (dirfd < 0)
		return dirfd;
	r = journal_name_day(now_s, name);
	if (r == 0)
		r = journal_make_user(dirfd, uid);
	if (r < 0)
		return r;
	user = journal_open_user(dirfd, uid);
	if (user < 0)
		return user;
	fd = fd_openat(user, name, O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK, 0644);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return err_errno();
	if (!st.st_size)
		fchmod(fd, 0644);
	if ((uint64_t)st.st_size >= most_bytes)
		return -EDQUOT;
	r = ended_append(fd, e, true);
	if (r < 0) {
		(void)!ftruncate(fd, st.st_size); /* a part of a line may read like a line */
		return r;
	}
	return st.st_size ? LINE_BYTES : 2 * BLOCK;
}

/* --- All users -------------------------------------------------------------------------------- */

/* Calls `fn` with each user's folder, open, until it returns not 0. */
typedef int journal_visitor(int dirfd, uid_t uid, void *arg);

static int journal_visit_one(int dirfd, uid_t uid, journal_visitor *fn, void *arg)
{
	CLEANUP_CLOSE int fd = journal_open_user(dirfd, uid);

	if (fd < 0)
		return fd == -ENOENT || fd == -ENOTDIR ? 0 : fd;
	return fn(fd, uid, arg);
}

static DIR *journal_open_list(int dirfd)
{
	int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *list = fd < 0 ? NULL : fdopendir(fd);

	if (!list && fd >= 0)
		close(fd);
	return list;
}

static int journal_visit(const char *dir, uid_t uid, journal_visitor *fn, void *arg)
{
	CLEANUP_CLOSE int top = shared_file_open_dir(dir);
	CLEANUP_DIR DIR *list = NULL;
	const char *name;
	uint64_t next;
	int r = 0;

	if (top < 0 || uid != JOURNAL_ALL)
		return top < 0 ? top : journal_visit_one(top, uid, fn, arg);
	list = journal_open_list(top);
	if (!list)
		return err_errno();
	while (r == 0 && (name = dir_next(list)))
		if (!parse_u64(name, 0, JOURNAL_ALL - 1, &next))
			r = journal_visit_one(top, (uid_t)next, fn, arg);
	return r;
}

struct journal_sum {
	char day[FILE_BYTES];
	uint64_t bytes;
};

static int journal_add_bytes(int dirfd, uid_t uid, void *arg)
{
	struct journal_sum *sum = arg;
	struct stat st;

	if (fstatat(dirfd, sum->day, &st, AT_SYMLINK_NOFOLLOW) == 0)
		sum->bytes += (uint64_t)st.st_size / BLOCK * BLOCK + BLOCK;
	return 0;
}

uint64_t journal_bytes(const char *dir, int64_t now_s)
{
	struct journal_sum sum = {.bytes = 0};

	if (journal_name_day(now_s, sum.day) == 0)
		journal_visit(dir, JOURNAL_ALL, journal_add_bytes, &sum);
	return sum.bytes;
}

struct journal_reading {
	char first[FILE_BYTES];
	journal_taker *take;
	void *arg;
};

static int journal_read_file(int dirfd, const char *name, uid_t uid,
			     const struct journal_reading *reading)
{
	int fd = fd_openat(dirfd, name, O_RDONLY | O_NONBLOCK, 0), r = 0;
	FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
	CLEANUP_FREE char *line = NULL;
	struct ended e;
	size_t room = 0;

	if (!file) {
		if (fd >= 0)
			close(fd);
		return fd == -ENOENT ? 0 : fd < 0 ? fd : -ENOMEM;
	}
	while (r == 0 && getline(&line, &room, file) >= 0)
		if (ended_parse(line, true, &e))
			r = reading->take(uid, &e, reading->arg);
	fclose(file);
	return r;
}

static int journal_order(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* Days in their order: where a tenant's parts follow each other, the last one counts for its sums. */
static int journal_read_user(int dirfd, uid_t uid, void *arg)
{
	const struct journal_reading *reading = arg;
	CLEANUP_DIR DIR *list = journal_open_list(dirfd);
	CLEANUP_FREE char(*days)[FILE_BYTES] = NULL;
	const char *name;
	size_t n = 0;
	int r = 0;

	if (!list)
		return err_errno();
	while ((name = dir_next(list))) {
		void *more;

		if (!journal_is_day(name) || strcmp(name, reading->first) < 0)
			continue;
		more = reallocarray(days, n + 1, sizeof(*days));
		if (!more)
			return -ENOMEM;
		days = more;
		strcpy(days[n++], name);
	}
	if (n)
		qsort(days, n, sizeof(*days), journal_order);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = journal_read_file(dirfd, days[i], uid, reading);
	return r;
}

int journal_read(const char *dir, uid_t uid, int64_t since_s, journal_taker *take, void *arg)
{
	struct journal_reading reading = {.take = take, .arg = arg};

	if (journal_name_day(since_s, reading.first) < 0)
		return -EINVAL;
	return journal_visit(dir, uid, journal_read_user, &reading);
}

static int journal_prune_user(int dirfd, uid_t uid, void *arg)
{
	CLEANUP_DIR DIR *list = journal_open_list(dirfd);
	struct journal_sum *before = arg;
	const char *name;

	while ((name = dir_next(list)))
		if (journal_is_day(name) && strcmp(name, before->day) < 0 &&
		    unlinkat(dirfd, name, 0) == 0)
			before->bytes++;
	return 0;
}

unsigned int journal_prune(const char *dir, int64_t now_s)
{
	CLEANUP_DIR DIR *list = NULL;
	struct journal_sum before = {.bytes = 0};
	const char *name;

	if (journal_name_day(now_s - JOURNAL_DAYS * JOURNAL_DAY_S, before.day) < 0)
		return 0;
	journal_visit(dir, JOURNAL_ALL, journal_prune_user, &before);
	list = opendir(dir);
	while ((name = dir_next(list))) {
		uint64_t uid;

		if (!parse_u64(name, 0, JOURNAL_ALL - 1, &uid))
			unlinkat(dirfd(list), name, AT_REMOVEDIR); /* of one without files */
	}
	return (unsigned int)before.bytes;
}
