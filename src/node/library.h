/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where this installation's files are, seen from the binary of allot or allotd: in a build tree or
 * installed under any prefix.
 */
#ifndef ALLOT_NODE_LIBRARY_H
#define ALLOT_NODE_LIBRARY_H

#include <limits.h>

/*
 * The absolute path of liballot.so: $ALLOT_LIBRARY if set, else beside the binary. -ENOENT when
 * there is none, -EINVAL when its path, which `ret` then has for a message, cannot stand in LD_PRELOAD
 * (a space or a colon).
 */
int library_find(char ret[static PATH_MAX]);

/*
 * The same library by a path that stays its own when another version is installed (see
 * deploy/keep-library), where there is one.
 */
void library_find_kept(char path[static PATH_MAX]);

/*
 * Finds the folder with CRIU's plugin for `hooks` hooks, and nothing else: criu-HOOKS in
 * $ALLOT_CRIU_PLUGINS if set, else beside the library. -errno if there is none.
 */
int library_criu_plugin(unsigned int hooks, char ret[static PATH_MAX]);

/* The absolute path of allot, likewise. -ENOENT when there is none. */
int library_command(char ret[static PATH_MAX]);

/* Of allotd, likewise. */
int library_daemon(char ret[static PATH_MAX]);

/* The absolute path of allot-load or allot-links, beside the binary. -ENOENT when there is none. */
int library_program(const char *name, char ret[static PATH_MAX]);

/* The absolute path of the file that is a container's /etc/ld.so.preload. -ENOENT likewise. */
int library_preload_list(char ret[static PATH_MAX]);

/* The directory of the simulated libcuda.so.1: $ALLOT_SIM_LIBRARY_DIR, else beside the binary. */
int library_sim_dir(char ret[static PATH_MAX]);

#endif
