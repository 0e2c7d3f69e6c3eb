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
#include "base/dir.h"
#include "base/err.h"
#include "base/fd.h"
#include "image/crc32c.h"
#include "image/image.h"
#include "image/image_id.h"

#define PARTS_VERSION 1
#define PARTS_MAGIC   "allot-checkpoint "
#define READ_BYTES    (1u << 20)

/* --- One file ------------------------------------------------------------------------------- */

/* Its size and CRC; with `sync`, when it is on the disk. */
static int parts_sum(int dir, const char *name, bool sync, uint64_t *ret_bytes, uint32_t *ret_crc)
{
	CLEANUP_CLOSE int fd = fd_openat(dir, name, O_RDONLY | O_NONBLOCK, 0);
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
	r = parts_sum(AT_FDCWD, path, true, &bytes, &crc);
	if (r < 0)
		return r;
	fprintf(out, "file %08" PRIx32 " %" PRIu64 " %s\n", crc, bytes, name);
	return 0;
}

static int parts_by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

/* CRIU's own notes, which a restore writes again. */
static bool parts_is_note(const char *file)
{
	return !strcmp(file, PARTS_CRIU_LOG) || !strcmp(file, PARTS_CRIU_DUMP) ||
	       !strcmp(file, PARTS_CRIU_RESTORE);
}

/* All files of CRIU's and its plugin's: a restore takes no folder that has others. */
static int parts_is_image(const struct dirent *entry)
{
	return entry->d_name[0] != '.' && !parts_is_note(entry->d_name);
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

/* Returns the rest of the next line if it begins with `word`, and ends it there; else NULL. */
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

/* Checks the text before the last line against that line's CRC. */
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

/* --- The owner -------------------------------------------------------------------------------- */

struct listed {
	const char *name; /* in the text of `parts` */
	uint64_t bytes;
	uint32_t crc;
};

struct listing {
	struct listed *list; /* sorted by name once all are there */
	size_t n, room;
	uint32_t ntrees;
	int dir; /* the checkpoint's */
	struct damage *damage;
};

static int parts_note(const char *name, uint64_t bytes, uint32_t crc, void *arg)
{
	struct listing *l = arg;

	if (l->n == l->room) {
		size_t room = l->room ? 2 * l->room : 64;
		struct listed *list = reallocarray(l->list, room, sizeof(*list));

		if (!list)
			return -ENOMEM;
		l->list = list;
		l->room = room;
	}
	l->list[l->n++] = (struct listed){name, bytes, crc};
	return 0;
}

static int parts_compare(const void *a, const void *b)
{
	return strcmp(((const struct listed *)a)->name, ((const struct listed *)b)->name);
}

static int parts_refuse(const struct listing *l, int error, const char *name, const char *what)
{
	return damage_say(l->damage, error, name, DAMAGE_NOWHERE, DAMAGE_NO_OBJECT, "%s", what);
}

/* CRIU's files, or the folder of one tree's. */
static bool parts_is_folder(const char *name, uint32_t ntrees)
{
	char own[sizeof(PARTS_CRIU) + 16];
	unsigned int tree;

	if (!strcmp(name, PARTS_CRIU))
		return true;
	if (sscanf(name, PARTS_CRIU "/%3u", &tree) != 1 || tree >= ntrees)
		return false;
	snprintf(own, sizeof(own), PARTS_CRIU "/%u", tree);
	return !strcmp(name, own);
}

static bool parts_is_listed(const struct listing *l, const char *name)
{
	const struct listed key = {.name = name};
	const char *file = strrchr(name, '/');

	return !strcmp(name, PARTS_FILE) || !strcmp(name, IMAGE_MANIFEST) ||
	       !strcmp(name, IMAGE_OBJECTS) || (file && parts_is_note(file + 1)) ||
	       (l->n && bsearch(&key, l->list, l->n, sizeof(key), parts_compare));
}

/* "" is the checkpoint itself. */
static int parts_check_entry(const struct listing *l, const char *name, const struct stat *st)
{
	bool folder = !*name || parts_is_folder(name, l->ntrees);

	if (!folder && !parts_is_listed(l, name))
		return parts_refuse(l, -EPERM, name, PARTS_FILE " does not list it, and it would be "
							       "read as root; move it elsewhere");
	if (S_ISLNK(st->st_mode))
		return parts_refuse(l, -EPERM, name, "it is a symbolic link, and what it leads to is "
							 "not of this checkpoint; put that in its place");
	if (folder ? !S_ISDIR(st->st_mode) : !S_ISREG(st->st_mode))
		return parts_refuse(l, -EBADMSG, name, folder ? "it is no directory" : "it is no file");
	if (!fd_is_guarded(st))
		return parts_refuse(l, -EPERM, *name ? name : ".",
				    "it is for others to write, who could have root do anything by "
				    "it; chown root and chmod go-w it, if you know what is in it");
	return 0;
}

static int parts_check_folder(const struct listing *l, const char *folder);

static int parts_check_name(const struct listing *l, const char *name)
{
	struct stat st;
	int r;

	if (fstatat(l->dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return parts_refuse(l, err_errno(), name, strerror(errno));
	r = parts_check_entry(l, name, &st);
	return r == 0 && S_ISDIR(st.st_mode) ? parts_check_folder(l, name) : r;
}

/*
 * Checks each entry of the folder, which is opened again to be read. No folder of a checkpoint is
 * below criu/0.
 */
static int parts_check_folder(const struct listing *l, const char *folder)
{
	int fd = fd_openat(l->dir, *folder ? folder : ".", O_RDONLY | O_DIRECTORY, 0), r = 0;
	CLEANUP_DIR DIR *dir = NULL;
	char name[PATH_MAX];
	const char *entry;

	if (fd < 0)
		return parts_refuse(l, fd, folder, strerror(-fd));
	dir = fdopendir(fd);
	if (!dir) {
		close(fd);
		return -ENOMEM;
	}
	while (r == 0 && (entry = dir_next(dir))) {
		snprintf(name, sizeof(name), "%s%s%s", folder, *folder ? "/" : "", entry);
		r = parts_check_name(l, name);
	}
	return r;
}

static int parts_check_dir(const struct listing *l)
{
	struct stat st;

	return fstat(l->dir, &st) < 0 ? err_errno() : parts_check_entry(l, "", &st);
}

/* --- As it was written ---------------------------------------------------------------------- */

static int parts_verify_file(const struct listing *l, const struct listed *file)
{
	uint64_t bytes = 0;
	uint32_t crc = 0;
	int r = parts_sum(l->dir, file->name, false, &bytes, &crc);

	if (r == -ENOENT)
		return parts_refuse(l, -ENODATA, file->name, "it is missing");
	if (r < 0)
		return damage_say(l->damage, r, file->name, DAMAGE_NOWHERE, DAMAGE_NO_OBJECT,
				  "it cannot be read: %s", strerror(-r));
	if (bytes < file->bytes)
		return damage_say(l->damage, -ENODATA, file->name, bytes, DAMAGE_NO_OBJECT,
				  "it ends too early");
	if (bytes > file->bytes || crc != file->crc)
		return parts_refuse(l, -EBADMSG, file->name, "it is not as it was written");
	return 0;
}

static int parts_read(const struct listing *l, char **ret_text, size_t *ret_len)
{
	CLEANUP_CLOSE int fd = fd_openat(l->dir, PARTS_FILE, O_RDONLY | O_NONBLOCK, 0);
	CLEANUP_FREE char *text = NULL;
	struct stat st;
	int r;

	if (fd < 0)
		return parts_refuse(l, fd, PARTS_FILE,
				    fd == -ENOENT ? "it is missing: this is no complete checkpoint"
						  : strerror(-fd));
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > (off_t)PARTS_MAX_BYTES)
		return parts_refuse(l, -EBADMSG, PARTS_FILE, "it is no list of a checkpoint");
	text = malloc((size_t)st.st_size + 1);
	if (!text)
		return -ENOMEM;
	r = fd_pread_all(fd, text, (size_t)st.st_size, 0);
	if (r < 0)
		return r;
	*ret_len = (size_t)st.st_size;
	*ret_text = TAKE_PTR(text);
	return 0;
}

static int parts_verify_in(struct listing *l, struct parts *ret)
{
	CLEANUP_FREE char *text = NULL;
	struct parts parts;
	size_t len = 0;
	int r = parts_check_dir(l);

	if (r == 0)
		r = parts_read(l, &text, &len);
	if (r == 0)
		r = parts_parse(text, len, parts_note, l, &parts, l->damage);
	if (r < 0)
		return r;
	l->ntrees = parts.ntrees;
	if (l->n)
		qsort(l->list, l->n, sizeof(*l->list), parts_compare);
	r = parts_check_folder(l, "");
	for (size_t i = 0; r == 0 && i < l->n; i++)
		r = parts_verify_file(l, &l->list[i]);
	if (r == 0)
		*ret = parts;
	return r;
}

int parts_verify(const char *dir, struct parts *ret, struct damage *damage)
{
	CLEANUP_CLOSE int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct listing listing = {.dir = fd, .damage = damage};
	int r = fd < 0 ? parts_refuse(&listing, err_errno(), NULL, strerror(errno))
		       : parts_verify_in(&listing, ret);

	free(listing.list);
	return r;
}
