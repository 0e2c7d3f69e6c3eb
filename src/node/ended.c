/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A line is one write, after a newline of its own: the part of a line that a killed writer, or a
 * full disk, left is no line. Two processes that shorten the file at once lose lines, and nothing
 * else.
 */
#include "node/ended.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/now.h"
#include "ledger/shared_file.h"
#include "ledger/tenant.h"

/* No tenant can be called so. */
#define NOTES	  ".ended"
#define NOTES_MAX 65536 /* bytes; then half is removed, first of users with the most */
/* Of a line: as it is written, also into the journal, and less than one that can be read. */
#define LINE_MAX_BYTES 256
#define PART_MAX_BYTES (2 * LINE_MAX_BYTES + POD_WORDS_BYTES)
#define LINE_MIN_BYTES 8

/* -ENOENT for a reader: there is nothing to read. */
static int ended_open(const char *runtime, int flags)
{
	CLEANUP_CLOSE int dir = shared_file_open_dir(runtime);
	CLEANUP_CLOSE int fd = -EBADF;
	struct stat st;

	if (dir < 0)
		return dir;
	fd = fd_openat(dir, NOTES, flags | O_NONBLOCK, 0600);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return err_errno();
	return S_ISREG(st.st_mode) ? TAKE_FD(fd) : -EPERM;
}

int ended_stat(const char *runtime, struct stat *ret)
{
	CLEANUP_CLOSE int fd = ended_open(runtime, O_RDONLY);

	if (fd < 0)
		return fd;
	return fstat(fd, ret) < 0 ? err_errno() : 0;
}

/* The text of the file, with its length; NULL for none. For free(). */
static char *ended_read_text(int fd, size_t *ret_len)
{
	char *text = malloc(2 * NOTES_MAX + 1);
	ssize_t n = text ? pread(fd, text, 2 * NOTES_MAX, 0) : -1;

	if (n < 0) {
		free(text);
		return NULL;
	}
	for (ssize_t i = 0; i < n; i++)
		if (!text[i])
			text[i] = '\n'; /* no writer wrote that, and it is to hide no line */
	text[n] = 0;
	*ret_len = (size_t)n;
	return text;
}

static void ended_name_device(const uint8_t uuid[static 16], char ret[static 33])
{
	for (int i = 0; i < 16; i++)
		sprintf(ret + 2 * i, "%02x", uuid[i]);
}

/* A word without white space and control characters, so that it is one field of one line. */
static const char *ended_word(const char *text, char *ret, size_t len)
{
	snprintf(ret, len, "%s", *text ? text : "-");
	for (char *c = ret; *c; c++)
		if (*c <= ' ' || *c > '~')
			*c = '?';
	return ret;
}

static size_t ended_write_part(const struct ended *e, char *ret, size_t len)
{
	char pod[POD_WORDS_BYTES];

	return (size_t)snprintf(ret, len,
				"\t%" PRId64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64
				"\t%" PRIu64 "\t%" PRIu64 "\t%d\t%s",
				e->since_s, e->alive_ns, e->byte_s, e->busy_all_ns, e->refusals_all,
				e->energy_uj, e->energy_all_uj, e->last,
				ended_word(e->pod, pod, sizeof(pod)));
}

int ended_append(int fd, const struct ended *e, bool part)
{
	char line[PART_MAX_BYTES], name[POLICY_NAME_BYTES], device[33] = "-";
	size_t n;

	if (e->used)
		ended_name_device(e->uuid, device);
	n = (size_t)snprintf(line, sizeof(line),
			     "\n%s\t%" PRId64 "\t%" PRId64 "\t%s\t%" PRIu64 "\t%" PRIu64
			     "\t%" PRIu64 "\t%" PRIu64,
			     ended_word(e->name, name, sizeof(name)), e->began_s, e->ended_s, device,
			     e->limit_bytes, e->peak_bytes, e->busy_ns, e->refusals);
	if (part)
		n += ended_write_part(e, line + n, sizeof(line) - n);
	else
		n += (size_t)snprintf(line + n, sizeof(line) - n, "\t%" PRIu64, e->energy_uj);
	line[n++] = '\n';
	return write(fd, line, n) == (ssize_t)n ? 0 : -ENOSPC;
}

static bool ended_parse_device(const char *word, uint8_t ret[static 16])
{
	for (int i = 0; i < 16; i++)
		if (sscanf(word + 2 * i, "%2hhx", &ret[i]) != 1)
			return false;
	return word[32] == 0;
}

/* Until the year 2242: in ns such a time has 64 bits. */
static bool ended_is_time(int64_t at_s)
{
	return at_s >= 0 && at_s < INT64_C(1) << 33;
}

/* No name has another character, so that nobody's terminal obeys one. */
static bool ended_is_word(const char *text)
{
	while (*text > ' ' && *text <= '~')
		text++;
	return !*text;
}

/* All of them, or the line was cut. */
static bool ended_parse_part(const char *text, struct ended *e)
{
	char pod[POD_WORDS_BYTES];
	int last;

	if (sscanf(text,
		   "%" SCNd64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
		   " %d %380s",
		   &e->since_s, &e->alive_ns, &e->byte_s, &e->busy_all_ns, &e->refusals_all,
		   &e->energy_uj, &e->energy_all_uj, &last, pod) != 9 ||
	    !ended_is_time(e->since_s))
		return false;
	e->last = last;
	if (strcmp(pod, "-") != 0 && ended_is_word(pod))
		strcpy(e->pod, pod);
	return true;
}

static void ended_fill_part(const char *text, struct ended *e)
{
	sscanf(text, "%" SCNu64, &e->energy_uj);
	e->energy_all_uj = e->energy_uj;
	e->since_s = e->began_s;
	e->alive_ns = e->ended_s > e->began_s ? (uint64_t)(e->ended_s - e->began_s) * NS_PER_S : 0;
	e->busy_all_ns = e->busy_ns;
	e->refusals_all = e->refusals;
	e->last = true;
}

bool ended_parse(const char *line, bool part, struct ended *ret)
{
	struct ended e = {.used = true};
	char device[33];
	int at = 0;

	if (sscanf(line,
		   "%63s %" SCNd64 " %" SCNd64 " %32s %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
		   "%n",
		   e.name, &e.began_s, &e.ended_s, device, &e.limit_bytes, &e.peak_bytes,
		   &e.busy_ns, &e.refusals, &at) != 8 ||
	    !ended_is_word(e.name) || !ended_is_time(e.began_s) || !ended_is_time(e.ended_s))
		return false;
	if (!strcmp(device, "-"))
		e.used = false;
	else if (strlen(device) != 32 || !ended_parse_device(device, e.uuid))
		return false;
	if (!part)
		ended_fill_part(line + at, &e);
	else if (!ended_parse_part(line + at, &e))
		return false;
	*ret = e;
	return true;
}

/* A line that is read, of one user. */
struct ended_line {
	const char *text;
	size_t bytes; /* in the file */
	size_t since; /* bytes of the user's from this one on */
	uid_t owner;  /* root, where the name is nobody else's */
};

/* Cuts the text. How many there are; the array has room for all. */
static size_t ended_split(char *text, struct ended_line *list)
{
	size_t n = 0;
	char *line;

	while ((line = strsep(&text, "\n"))) {
		struct ended e;

		if (!ended_parse(line, false, &e))
			continue;
		list[n] = (struct ended_line){.text = line, .bytes = strlen(line) + 2};
		tenant_name_owner(e.name, &list[n++].owner);
	}
	for (size_t i = n; i-- > 0;) {
		size_t next = i + 1;

		while (next < n && list[next].owner != list[i].owner)
			next++;
		list[i].since = list[i].bytes + (next < n ? list[next].since : 0);
	}
	return n;
}

/* Adds up the last lines of each user, at most `share` bytes of each. */
static size_t ended_sum(const struct ended_line *list, size_t n, size_t share)
{
	size_t sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += list[i].since <= share ? list[i].bytes : 0;
	return sum;
}

/*
 * A user with few lines keeps all of them. With more users than room for lines, those remain who
 * ended last.
 */
static size_t ended_join(const struct ended_line *list, size_t n, char *ret)
{
	size_t share = NOTES_MAX / 2, sum, len = 0;

	while ((sum = ended_sum(list, n, share)) > NOTES_MAX / 2 && share > LINE_MAX_BYTES)
		share /= 2;
	for (size_t i = 0; i < n; i++) {
		if (list[i].since > share)
			continue;
		if (sum <= NOTES_MAX / 2)
			len += (size_t)sprintf(ret + len, "\n%s\n", list[i].text);
		else
			sum -= list[i].bytes;
	}
	return len;
}

static void ended_shorten(const char *runtime)
{
	CLEANUP_CLOSE int fd = ended_open(runtime, O_RDWR);
	CLEANUP_FREE struct ended_line *list = NULL;
	CLEANUP_FREE char *text = NULL;
	CLEANUP_FREE char *keep = NULL;
	size_t len = 0;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || st.st_size <= NOTES_MAX)
		return;
	text = ended_read_text(fd, &len);
	list = text ? calloc(len / LINE_MIN_BYTES + 1, sizeof(*list)) : NULL;
	keep = list ? malloc(NOTES_MAX / 2 + 1) : NULL;
	len = keep ? ended_join(list, ended_split(text, list), keep) : 0;
	if (ftruncate(fd, 0) == 0 && len)
		fd_pwrite_all(fd, keep, len, 0);
}

int ended_note(const char *runtime, const char *name, const struct snapshot *snapshot,
	       int64_t began_s)
{
	struct ended e = {.began_s = began_s, .ended_s = time(NULL)};
	CLEANUP_CLOSE int fd = -EBADF;
	int r = 0;

	ended_shorten(runtime);
	fd = ended_open(runtime, O_WRONLY | O_APPEND | O_CREAT);
	if (fd < 0)
		return fd;
	snprintf(e.name, sizeof(e.name), "%s", name);
	for (int d = 0; r == 0 && d < snapshot->ndevices; d++) {
		const struct snapshot_device *device = &snapshot->device[d];

		if (device->index < 0)
			continue;
		e.used = true;
		memcpy(e.uuid, device->uuid, sizeof(e.uuid));
		e.limit_bytes = device->limit_bytes;
		e.peak_bytes = device->peak_bytes;
		e.busy_ns = device->compute.busy_ns;
		e.energy_uj = device->energy_uj;
		e.refusals = device->refusals;
		r = ended_append(fd, &e, false);
	}
	return r == 0 && !e.used ? ended_append(fd, &e, false) : r;
}

int ended_read(const char *runtime, struct ended **ret)
{
	CLEANUP_CLOSE int fd = ended_open(runtime, O_RDONLY);
	CLEANUP_FREE char *text = NULL;
	struct ended *list = NULL, *longer;
	char *rest, *line;
	size_t len = 0;
	int n = 0;

	*ret = NULL;
	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	text = rest = ended_read_text(fd, &len);
	if (!text)
		return -ENOMEM;
	while ((line = strsep(&rest, "\n"))) {
		struct ended e;

		if (!ended_parse(line, false, &e))
			continue;
		longer = reallocarray(list, (size_t)n + 1, sizeof(*list));
		if (!longer) {
			free(list);
			return -ENOMEM;
		}
		list = longer;
		list[n++] = e;
	}
	*ret = list;
	return n;
}
