/* SPDX-License-Identifier: Apache-2.0 */
#include "dropin/vgpu_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/pages.h"

/* How much of a key a line shows, and of all of them, so that there is room for the reason. */
#define KEY_SHOWN  40
#define KEYS_SHOWN 128

/* The keys that were found, to judge if the file limits what it was to limit. */
struct found {
	unsigned int line; /* that is read, from 1 */
	bool known;
	unsigned int unknown_line; /* the first of a key that is not known; 0: there is none */
	unsigned int unknown;	   /* how many are named in `names` */
	bool others;		   /* there are more, for which it has no room */
	char names[KEYS_SHOWN];
};

static bool vgpu_file_is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/*
 * The value behind a line's colon, without blanks and a remark around it; "..." is the end of one
 * that is too long to be any.
 */
static void vgpu_file_copy_value(char *ret, size_t size, const char *text, size_t len)
{
	const char *remark = memchr(text, '#', len);

	if (remark)
		len = (size_t)(remark - text);
	while (len && vgpu_file_is_blank(text[len - 1]))
		len--;
	while (len && vgpu_file_is_blank(*text))
		text++, len--;
	memcpy(ret, text, len < size ? len : size);
	if (len < size)
		ret[len] = '\0';
	else
		strcpy(ret + size - sizeof("..."), "...");
}

/* Several lines: the smallest. */
static int vgpu_file_take_memory(struct config *config, const char *value, unsigned int line)
{
	uint64_t mib;

	if (parse_u64(value, 1, SIZE_MAX_BYTES >> 20, &mib))
		return config_complain(config,
				       VGPU_FILE ":%u: UsedMem \"%s\" is not a number of MiB; "
						 "write for example UsedMem:8192",
				       line, value);
	if (!config->file_bytes || mib << 20 < config->file_bytes)
		config->file_bytes = mib << 20;
	return 0;
}

static int vgpu_file_take_cores(struct config *config, const char *value, unsigned int line)
{
	uint64_t percent;

	if (parse_u64(value, 0, 100, &percent))
		return config_complain(config,
				       VGPU_FILE ":%u: UsedCores \"%s\" is not a percentage from 0 "
						 "to 100; write for example UsedCores:25",
				       line, value);
	config->file_share_permille =
		config_smaller_share(config->file_share_permille, (uint32_t)percent * 10);
	return 0;
}

static const struct key {
	const char *name;
	int (*take)(struct config *config, const char *value, unsigned int line);
} keys[] = {{"UsedMem", vgpu_file_take_memory}, {"UsedCores", vgpu_file_take_cores}};

/* Finds a key, in upper or lower case: a misspelt limit must not be lost. NULL if it is unknown. */
static const struct key *vgpu_file_find_key(const char *name, size_t len)
{
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (len == strlen(keys[i].name) && !strncasecmp(name, keys[i].name, len))
			return &keys[i];
	return NULL;
}

static void vgpu_file_note_unknown(struct found *found, const char *name, size_t len)
{
	size_t used = strlen(found->names);
	char quoted[KEY_SHOWN + sizeof("\"\"")];

	len = len < KEY_SHOWN ? len : KEY_SHOWN;
	snprintf(quoted, sizeof(quoted), "\"%.*s\"", (int)len, name);
	for (char *c = quoted; *c; c++)
		if (*c < ' ' || *c >= 127)
			*c = '?';
	if (!found->unknown_line)
		found->unknown_line = found->line;
	if (strstr(found->names, quoted))
		return;
	if (used + strlen(", ") + strlen(quoted) >= sizeof(found->names)) {
		found->others = true;
		return;
	}
	sprintf(found->names + used, "%s%s", used ? ", " : "", quoted);
	found->unknown++;
}

static int vgpu_file_read_line(struct config *config, const char *line, size_t len,
			       struct found *found)
{
	const struct key *key;
	const char *colon;
	char value[64];

	while (len && vgpu_file_is_blank(*line))
		line++, len--;
	if (!len || *line == '#')
		return 0;
	colon = memchr(line, ':', len);
	if (!colon)
		return config_complain(config, VGPU_FILE ":%u: not a line of the form Name:value",
				       found->line);
	vgpu_file_copy_value(value, sizeof(value), colon + 1, len - (size_t)(colon + 1 - line));
	len = (size_t)(colon - line);
	while (len && vgpu_file_is_blank(line[len - 1]))
		len--;
	key = vgpu_file_find_key(line, len);
	if (!key) {
		vgpu_file_note_unknown(found, line, len);
		return 0;
	}
	found->known = true;
	return key->take(config, value, found->line);
}

/* Checks that the file has a limit, or says that there is none. */
static int vgpu_file_judge(struct config *config, const struct found *found)
{
	static const char todo[] = "write UsedMem:MIB or UsedCores:PERCENT";
	bool several = found->unknown > 1 || found->others;
	char named[KEYS_SHOWN + sizeof(" and others are not keys")];

	if (!found->known && !found->unknown_line)
		return config_complain(config, VGPU_FILE ": it limits nothing; write for example "
							 "UsedMem:8192, or remove the file");
	if (!found->unknown_line)
		return 0;
	snprintf(named, sizeof(named), "%s%s %s", found->names, found->others ? " and others" : "",
		 several ? "are not keys" : "is not a key");
	if (!config_is_by_file(config))
		return config_complain(config,
				       VGPU_FILE ":%u: %s, and nothing else limits anything; %s",
				       found->unknown_line, named, todo);
	snprintf(config->remark, sizeof(config->remark), VGPU_FILE ":%u: %s, and %s nothing; %s",
		 found->unknown_line, named, several ? "limit" : "limits", todo);
	return 0;
}

int vgpu_file_parse(struct config *config, const char *text, size_t len)
{
	static const char mark[] = "\xef\xbb\xbf"; /* of UTF-8, as some editors put it */
	struct found found = {.line = 0};
	int r;

	if (memchr(text, '\0', len))
		return config_complain(config, VGPU_FILE ": not a text file");
	if (len >= VGPU_FILE_BYTES - 1)
		return config_complain(config,
				       VGPU_FILE ": has %d bytes or more, of which nobody "
						 "reads the rest",
				       VGPU_FILE_BYTES - 1);
	if (len >= strlen(mark) && !memcmp(text, mark, strlen(mark))) {
		text += strlen(mark);
		len -= strlen(mark);
	}
	while (len) {
		const char *end = memchr(text, '\n', len);
		size_t n = end ? (size_t)(end - text) : len;

		found.line++;
		r = vgpu_file_read_line(config, text, n, &found);
		if (r)
			return r;
		n += end != NULL;
		text += n;
		len -= n;
	}
	r = vgpu_file_judge(config, &found);
	if (!r)
		config_finish(config);
	return r;
}

/* Returns true if the file is not there and nothing says that one was meant. */
static bool vgpu_file_is_absent(int error)
{
	struct stat st;

	/* A link that leads nowhere was meant to lead to one. */
	return error == -ENOENT && (lstat(VGPU_DIR, &st) < 0 || !stat(VGPU_DIR, &st));
}

static const char *vgpu_file_why(int error)
{
	switch (error) {
	case -ELOOP:
		return "it is a symbolic link";
	case -ENOENT:
	case -ENOTDIR:
		return VGPU_DIR " is not a directory";
	default:
		return strerror(-error);
	}
}

int vgpu_file_read(struct config *config)
{
	/* Not on the stack, which is a program's of which nothing is known, and not by malloc(). */
	char *text = pages_map(VGPU_FILE_BYTES);
	ssize_t n;
	int r = 0;

	if (!text) {
		config_complain(config, VGPU_FILE " cannot be read: %s", strerror(ENOMEM));
		return -ENOMEM;
	}
	n = fd_read_text(AT_FDCWD, VGPU_FILE, text, VGPU_FILE_BYTES);
	if (n >= 0)
		r = vgpu_file_parse(config, text, (size_t)n);
	else if (!vgpu_file_is_absent((int)n))
		r = (int)n;
	munmap(text, VGPU_FILE_BYTES);
	if (r && !config->complaint[0])
		config_complain(config, VGPU_FILE " cannot be read: %s", vgpu_file_why(r));
	return r;
}

bool vgpu_file_is_lost(void)
{
	struct statx of;
	struct stat st;

	/* By the system call, as the C library has it since glibc 2.28 only. */
	if (lstat(VGPU_FILE, &st) == 0 ||
	    syscall(SYS_statx, AT_FDCWD, VGPU_DIR, AT_SYMLINK_NOFOLLOW, STATX_MODE, &of) < 0)
		return false;
	/* Kernels before 5.8 do not tell; there the file's absence is taken for a choice. */
	return S_ISDIR(of.stx_mode) && of.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT &&
	       of.stx_attributes & STATX_ATTR_MOUNT_ROOT;
}
