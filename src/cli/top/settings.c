/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/parse.h"
#include "cli/top/frame_table.h"

#define SETTINGS_BYTES 4096 /* what is behind them is not read */

int settings_path(char ret[static PATH_MAX])
{
	const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	int n = -1;

	/* By the specification, a path that is not absolute counts as none. */
	if (config && *config == '/')
		n = snprintf(ret, PATH_MAX, "%s/allot/top", config);
	else if (home && *home == '/')
		n = snprintf(ret, PATH_MAX, "%s/.config/allot/top", home);
	return n < 0 || n >= PATH_MAX ? -ENOENT : 0;
}

static bool settings_take_flag(const char *value, bool *ret)
{
	bool yes = !strcmp(value, "yes");

	if (!yes && strcmp(value, "no") != 0)
		return false;
	*ret = yes;
	return true;
}

static bool settings_take_sort(const char *value, enum rows_sort *ret)
{
	for (int i = 0; i < ROWS_SORTS; i++)
		if (!strcmp(value, rows_sorts[i])) {
			*ret = (enum rows_sort)i;
			return true;
		}
	return false;
}

static bool settings_take_interval(const char *value, uint64_t *ret)
{
	uint64_t us;

	if (parse_duration_us(value, SETTINGS_INTERVAL_MAX_US, &us) < 0 ||
	    us < SETTINGS_INTERVAL_MIN_US)
		return false;
	*ret = us;
	return true;
}

/* "word value"; false: not understood, and nothing of it was taken. */
static bool settings_take(char *line, struct frame_state *state)
{
	char *value = line + strcspn(line, " ");
	struct frame_word wrong;

	if (*value)
		*value++ = 0;
	value += strspn(value, " ");
	if (!*line || *line == '#')
		return true;
	if (!strcmp(line, "sort"))
		return settings_take_sort(value, &state->choice.sort);
	if (!strcmp(line, "reverse"))
		return settings_take_flag(value, &state->choice.reverse);
	if (!strcmp(line, "clocks"))
		return settings_take_flag(value, &state->clocks);
	if (!strcmp(line, "no-mouse"))
		return settings_take_flag(value, &state->no_mouse);
	if (!strcmp(line, "interval"))
		return settings_take_interval(value, &state->interval_us);
	if (!strcmp(line, "columns"))
		return !frame_table_parse_columns(value, &state->columns, &wrong);
	return false;
}

/* A directory, a FIFO or a device in its place is refused, and does not make it wait. */
static int settings_load(const char *path, char text[static SETTINGS_BYTES])
{
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ? -EINVAL
						       : read(fd, text, SETTINGS_BYTES - 1);
	if (n == -1)
		n = -errno;
	close(fd);
	text[n < 0 ? 0 : n] = 0;
	return n < 0 ? (int)n : 0;
}

int settings_read(const char *path, struct frame_state *state)
{
	char text[SETTINGS_BYTES], *at = text, *line;
	int r = settings_load(path, text), number = 0, skipped = 0;

	if (r < 0)
		return r == -ENOENT || r == -ENOTDIR ? 0 : r;
	while ((line = strsep(&at, "\n"))) {
		number++;
		if (!settings_take(line, state) && !skipped)
			skipped = number;
	}
	return skipped;
}

static int settings_make_directories(const char *path)
{
	char dir[PATH_MAX];

	snprintf(dir, sizeof(dir), "%s", path);
	for (char *p = strchr(dir + 1, '/'); p; p = strchr(p + 1, '/')) {
		*p = 0;
		/* For this user alone, as the specification of these directories wants it. */
		if (mkdir(dir, 0700) < 0 && errno != EEXIST)
			return -errno;
		*p = '/';
	}
	return 0;
}

static int settings_put(FILE *f, const struct frame_state *state)
{
	char columns[512];
	bool failed;

	frame_table_write_columns(&state->columns, columns, sizeof(columns));
	fprintf(f,
		"# Written by W in allot top, and read when it starts on a terminal.\n"
		"sort %s\nreverse %s\ninterval %" PRIu64 "ms\nclocks %s\nno-mouse %s\n",
		rows_sorts[state->choice.sort], state->choice.reverse ? "yes" : "no",
		state->interval_us / 1000, state->clocks ? "yes" : "no",
		state->no_mouse ? "yes" : "no");
	if (*columns)
		fprintf(f, "columns %s\n", columns);
	failed = ferror(f);
	return fclose(f) || failed ? -EIO : 0;
}

int settings_write(const char *path, const struct frame_state *state)
{
	char temporary[PATH_MAX + 8], file[PATH_MAX];
	int r = settings_make_directories(path), fd;
	FILE *f;

	if (r < 0)
		return r;
	/* A link stays one. */
	if (realpath(path, file))
		path = file;
	snprintf(temporary, sizeof(temporary), "%s.XXXXXX", path);
	fd = mkostemp(temporary, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	f = fdopen(fd, "w");
	if (!f) {
		close(fd);
		r = -ENOMEM;
	} else {
		r = settings_put(f, state);
	}
	if (!r && rename(temporary, path) < 0)
		r = -errno;
	if (r < 0)
		unlink(temporary);
	return r;
}
