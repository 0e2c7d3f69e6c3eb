/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The settings that `allot top` keeps: a file of lines, a word and its value each. A line that
 * is not understood, as one of a later version, is skipped and said.
 */
#ifndef ALLOT_CLI_TOP_SETTINGS_H
#define ALLOT_CLI_TOP_SETTINGS_H

#include <limits.h>

#include "cli/top/frame_line.h"

/* An interval that is less is no use to a person, and one that is more is none, either. */
#define SETTINGS_INTERVAL_MIN_US UINT64_C(100000)
#define SETTINGS_INTERVAL_MAX_US (3600 * UINT64_C(1000000))

/* $XDG_CONFIG_HOME/allot/top, or ~/.config/allot/top. -ENOENT: neither variable has a path. */
int settings_path(char ret[static PATH_MAX]);

/*
 * Returns 0, also if there is no such file, else the number of the first line that was skipped, or
 * -errno if the file is none that can be read.
 */
int settings_read(const char *path, struct frame_state *state);

/* Makes the directories, and replaces the file at once. -errno. */
int settings_write(const char *path, const struct frame_state *state);

#endif
