/* SPDX-License-Identifier: Apache-2.0 */
#include "image/parts.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "image/crc32c.h"
#include "image/image_id.h"

#define PARTS_VERSION 1
#define PARTS_MAGIC   "allot-checkpoint "
#define READ_BYTES    (1u << 20)

/* --- One file ------------------------------------------------------------------------------- */

/* Its size and CRC; with `sync`, when it is on the disk. */
static int parts_sum(const char *path, bool sync, uint64_t *ret_bytes, uint32_t *ret_crc)
{
	CLEANUP_CLOSE int fd = fd_openat(AT_FDCWD, path, O_RDONLY | O_NONBLOCK, 0);
	CLEANUP_FREE char *part = malloc(READ_BYTES);
	uint64_t bytes = 0;
	uint32_t crc = 0;
	struct stat st;
	ssize_t n;

	if (fd < 0)
		return fd;
	if (!part)
		return -ENOMEM;
	if (fstat(fd, &st) < 0)
		return err_errno();
	if (!S_ISREG(st.st_mode))
		return -EPROTO;
	if (sync && fsync(fd) < 0)
		return err_errno();
	while ((n = read(fd, part, READ_BYTES)) > 0) {
		crc = crc32c(crc, part, (size_t)n);
		bytes += (uint64_t)n;
	}
	if (n < 0)
		return err_errno();
	*ret_bytes = bytes;
	*ret_crc = crc;
	return 0;
}

/* --- Writing -------------------------------------------------------------------------------- */

static int parts_write_file(FILE *out, const char *dir, const char *name)
{
	char path[PATH_MAX];
	uint64_t bytes;
	uint32_t crc;
	int r;

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", dir, name) >= sizeof(path))
		return -ENAMETOOLONG;
	r = parts_sum(path, true, &bytes, &crc);
	if (r < 0)
		return r;
	fprintf(out, "file %08" PRIx32 " %" PRIu64 " %s\n", crc, bytes, name);
	return 0;
}

static int parts_by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

/* CRIU's, and its plugin's. The log is of no use to a restore, and CRIU writes it anew. */
static int parts_is_image(const struct dirent *entry)
{
	size_t len = strlen(entry->d_name);

	return (len > 4 && !strcmp(entry->d_name + len - 4, ".img")) ||
	       !strncmp(entry->d_name, "allot-", 6);
}

static int parts_write_tree(FILE *out, const char *dir, uint32_t tree)
{
	char folder[64], name[PATH_MAX], path[PATH_MAX];
	struct dirent **list;
	int n, r = 0;

	snprintf(folder, sizeof(folder), PARTS_CRIU "/%" PRIu32, tree);
	snprintf(path, sizeof(path), "%s/%s", dir, folder);
	n = scandir(path, &list, parts_is_image, parts_by_name);
	if (n < 0)
		return err_errno();
	for (int i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "%s/%s", folder, list[i]->d_name);
		if (r == 0)
			r = parts_write_file(out, dir, name);
		free(list[i]);
	}
	free(list);
	return r < 0 ? r : n ? 0 : -ENODATA;
}

static int parts_write_all(FILE *out, const char *dir, const struct parts *parts)
{
	char id[IMAGE_ID_DIGITS + 1];
	int r;

	image_id_text(parts->image, id);
	fprintf(out, PARTS_MAGIC "%d\nimage %s\ndir %s\ntrees %" PRIu32 "\n", PARTS_VERSION, id,
		parts->tenant_dir, parts->ntrees);
	r = parts_write_file(out, dir, PARTS_LEDGER);
	for (uint32_t i = 0; r == 0 && i < parts->ntrees; i++)
		r = parts_write_tree(out, dir, i);
	return r;
}

static int parts_put(const char *dir, const char *text, size_t len)
{
	CLEANUP_CLOSE int at = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd = -EBADF;
	char end[32];
	int r;

	if (at < 0)
		return err_errno();
	fd = fd_openat(at, PARTS_FILE ".partial", O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (fd < 0)
		return fd;
	snprintf(end, sizeof(end), "end %08" PRIx32 "\n", crc32c(0, text, len));
	r = fd_pwrite_all(fd, text, len, 0);
	if (r == 0)
		r = fd_pwrite_all(fd, end, strlen(end), len);
	if (r == 0 && fsync(fd) < 0)
		r = err_errno();
	if (r == 0 && renameat(at, PARTS_FILE ".partial", at, PARTS_FILE) < 0)
		r = err_errno();
	return r < 0 ? r : fsync(at) < 0 ? err_errno() : 0;
}

int parts_write(const char *dir, const struct parts *parts)
{
	CLEANUP_FREE char *text = NULL;
	size_t len = 0;
	FILE *out;
	int r;

	if (strchr(parts->tenant_dir, '\n') || !parts->ntrees || parts->ntrees > PARTS_TREES)
		return -EINVAL;
	out = open_memstream(&text, &len);
	if (!out)
		return -ENOMEM;
	r = parts_write_all(out, dir, parts);
	if (fclose(out) && r == 0)
		r = -ENOMEM;
	if (r == 0 && len > PARTS_MAX_BYTES)
		r = -E2BIG;
	return r < 0 ? r : parts_put(dir, text, len);
}

/* --- Reading -------------------------------------------------------------------------------- */

struct reading {
	char *at, *begin, *end;
	struct damage *damage;
};

static int parts_wrong(const struct reading *r, int error, const char *what)
{
	return damage_say(r->damage, error, PARTS_FILE, (uint64_t)(r->at - r->begin),
			  DAMAGE_NO_OBJECT, "%s", what);
}

/* What is behind a word at the beginning of the next line, which ends there; NULL: it is another. */
static char *parts_line(struct reading *r, const char *word)
{
	size_t len = strlen(word);
	char *line = r->at, *feed;

	if ((size_t)(r->end - line) <= len || memcmp(line, word, len) != 0)
		return NULL;
	feed = memchr(line, '\n', (size_t)(r->end - line));
	if (!feed)
		return NULL;
	*feed = 0;
	r->at = feed + 1;
	return line + len;
}

/* All of it up to the last line is what that one says. */
static int parts_check_end(struct reading *r)
{
	static const char form[] = "end 00000000\n";
	const size_t len = sizeof(form) - 1;
	unsigned int crc;
	char text[9];

	if ((size_t)(r->end - r->begin) < len || memcmp(r->end - len, "end ", 4) != 0 ||
	    r->end[-1] != '\n' || (r->end - r->begin > (long)len && r->end[-(long)len - 1] != '\n'))
		return parts_wrong(r, -ENODATA, "it ends too early");
	memcpy(text, r->end - 9, 8);
	text[8] = 0;
	if (strspn(text, "0123456789abcdef") != 8 || sscanf(text, "%8x", &crc) != 1)
		return parts_wrong(r, -EBADMSG, "its own sum is none");
	r->end -= len;
	if (crc32c(0, r->begin, (size_t)(r->end - r->begin)) != crc)
		return parts_wrong(r, -EBADMSG, "it is not as it was written");
	return 0;
}

static bool parts_read_id(const char *text, uint8_t ret[16])
{
	if (!text || strlen(text) != 32 || strspn(text, "0123456789abcdef") != 32)
		return false;
	for (int i = 0; i < 16; i++) {
		unsigned int byte;

		sscanf(text + 2 * (size_t)i, "%2x", &byte);
		ret[i] = (uint8_t)byte;
	}
	return true;
}

static bool parts_read_number(const char *text, uint64_t most, uint64_t *ret)
{
	uint64_t value = 0;

	if (!text || !*text || strlen(text) > 19 || strspn(text, "0123456789") != strlen(text))
		return false;
	for (; *text; text++)
		value = value * 10 + (uint64_t)(*text - '0');
	*ret = value;
	return value <= most;
}

/* The ledger, or a file of CRIU's in its folder. */
static bool parts_name_ok(const char *name, uint32_t ntrees)
{
	unsigned int tree;
	int n = 0;

	if (!strcmp(name, PARTS_LEDGER))
		return true;
	return sscanf(name, PARTS_CRIU "/%3u/%n", &tree, &n) == 1 && n && tree < ntrees &&
	       name[n] && name[n] != '.' && !strchr(name + n, '/') && strlen(name) < 256;
}

static int parts_read_file(struct reading *r, char *line, uint32_t ntrees, parts_look_fn *look,
			   void *arg)
{
	unsigned int crc;
	uint64_t bytes;
	char *size, *name;

	if (strlen(line) < 12 || strspn(line, "0123456789abcdef") != 8 || line[8] != ' ' ||
	    sscanf(line, "%8x", &crc) != 1)
		return parts_wrong(r, -EBADMSG, "a file has no sum");
	size = line + 9;
	name = strchr(size, ' ');
	if (!name)
		return parts_wrong(r, -EBADMSG, "a file has no name");
	*name++ = 0;
	if (!parts_read_number(size, INT64_MAX, &bytes) || !parts_name_ok(name, ntrees))
		return parts_wrong(r, -EBADMSG, "a file has a size or a name that it cannot have");
	return look(name, bytes, crc, arg);
}

static int parts_read_head(struct reading *r, struct parts *parts)
{
	const char *line = parts_line(r, PARTS_MAGIC);
	uint64_t number;

	if (!parts_read_number(line, INT32_MAX, &number))
		return parts_wrong(r, -EBADMSG, "it is no list of a checkpoint");
	if (number != PARTS_VERSION)
		return parts_wrong(r, -EPROTONOSUPPORT, "it is of a later version of allot");
	if (!parts_read_id(parts_line(r, "image "), parts->image))
		return parts_wrong(r, -EBADMSG, "it does not say of which image");
	line = parts_line(r, "dir ");
	if (!line || *line != '/' || strlen(line) >= sizeof(parts->tenant_dir))
		return parts_wrong(r, -EBADMSG, "it does not say where the tenant was");
	strcpy(parts->tenant_dir, line);
	if (!parts_read_number(parts_line(r, "trees "), PARTS_TREES, &number) || !number)
		return parts_wrong(r, -EBADMSG, "it does not say how many trees");
	parts->ntrees = (uint32_t)number;
	return 0;
}

int parts_parse(char *text, size_t len, parts_look_fn *look, void *arg, struct parts *ret,
		struct damage *damage)
{
	struct reading r = {.at = text, .begin = text, .end = text + len, .damage = damage};
	struct parts parts = {.ntrees = 0};
	int error = parts_check_end(&r);

	if (error == 0)
		error = parts_read_head(&r, &parts);
	while (error == 0 && r.at < r.end) {
		char *line = parts_line(&r, "file ");

		error = line ? parts_read_file(&r, line, parts.ntrees, look, arg)
			     : parts_wrong(&r, -EBADMSG, "a line is none that it can have");
	}
	if (error == 0)
		*ret = parts;
	return error;
}

struct looking {
	const char *dir;
	struct damage *damage;
};

static int parts_look(const char *name, uint64_t bytes, uint32_t crc, void *arg)
{
	const struct looking *looking = arg;
	uint64_t found = 0;
	char path[PATH_MAX];
	uint32_t sum = 0;
	int r;

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", looking->dir, name) >= sizeof(path))
		return -ENAMETOOLONG;
	r = parts_sum(path, false, &found, &sum);
	if (r == -ENOENT)
		return damage_say(looking->damage, -ENODATA, name, DAMAGE_NOWHERE,
				  DAMAGE_NO_OBJECT, "it is missing");
	if (r < 0)
		return damage_say(looking->damage, r, name, DAMAGE_NOWHERE, DAMAGE_NO_OBJECT,
				  "it cannot be read: %s", strerror(-r));
	if (found < bytes)
		return damage_say(looking->damage, -ENODATA, name, found, DAMAGE_NO_OBJECT,
				  "it ends too early");
	if (found > bytes || sum != crc)
		return damage_say(looking->damage, -EBADMSG, name, DAMAGE_NOWHERE,
				  DAMAGE_NO_OBJECT, "it is not as it was written");
	return 0;
}

int parts_verify(const char *dir, struct parts *ret, struct damage *damage)
{
	struct looking looking = {dir, damage};
	CLEANUP_CLOSE int fd = -EBADF;
	CLEANUP_FREE char *text = NULL;
	char path[PATH_MAX];
	struct stat st;
	int r;

	if ((size_t)snprintf(path, sizeof(path), "%s/" PARTS_FILE, dir) >= sizeof(path))
		return -ENAMETOOLONG;
	fd = fd_openat(AT_FDCWD, path, O_RDONLY | O_NONBLOCK, 0);
	if (fd < 0)
		return damage_say(damage, fd, PARTS_FILE, DAMAGE_NOWHERE, DAMAGE_NO_OBJECT, "%s",
				  fd == -ENOENT ? "it is missing: this is no complete checkpoint"
						: strerror(-fd));
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > (off_t)PARTS_MAX_BYTES)
		return damage_say(damage, -EBADMSG, PARTS_FILE, DAMAGE_NOWHERE, DAMAGE_NO_OBJECT,
				  "it is no list of a checkpoint");
	text = malloc((size_t)st.st_size + 1);
	if (!text)
		return -ENOMEM;
	r = fd_pread_all(fd, text, (size_t)st.st_size, 0);
	return r < 0 ? r : parts_parse(text, (size_t)st.st_size, parts_look, &looking, ret, damage);
}
