/* SPDX-License-Identifier: Apache-2.0 */
/* CRIU, the first on PATH: it writes a process tree to files, and makes it again. */
#ifndef ALLOT_CLI_CHECKPOINT_CRIU_H
#define ALLOT_CLI_CHECKPOINT_CRIU_H

#include <limits.h>
#include <sys/types.h>

/* The first version that restores on kernels with the vDSO of 2025 or later. */
#define CRIU_MAJOR 4

#define CRIU_TODO                                                                                  \
	"install CRIU 4.0 or later: the package criu of Debian 13 (4.1.1) or later, also in a "    \
	"chroot; Debian 12 has 3.17.1"

/* Our plugin for AMD GPUs has a build for each: criu/abi.h says for which CRIUs. */
#define CRIU_OLDER_HOOKS 10
#define CRIU_NEWER_HOOKS 15

#define CRIU_PLUGIN_TODO                                                                           \
	"it is installed with allot, in the folder allot beside its library; or set "              \
	"ALLOT_CRIU_PLUGINS to the folder that has it"

#define CRIU_VERSION_BYTES 32

/*
 * Asks CRIU for its version. -ENOENT: there is none; -EACCES: it cannot be started; -EPROTO: `said`
 * is its other answer.
 */
int criu_find(unsigned int *ret_major, char ret_version[static CRIU_VERSION_BYTES],
	      char said[static 512]);

/* 0, or an exit status after a message: there is a CRIU that will do, and we may use it. */
int criu_check(void);

/*
 * The folder with the build of our plugin that this CRIU takes: into `ret`. 0, or an exit status after
 * a message.
 */
int criu_find_plugin(char ret[static PATH_MAX]);

/*
 * Writes the tree of a process to files in the directory `at`, whose path `dir` is for messages
 * alone: CRIU writes through the descriptor, since another directory may be at the path by now. On
 * success the processes are stopped (SIGSTOP); on failure they run. 0, or an exit status after a
 * message with CRIU's reason. CRIU must not be killed while it is inside a process, which would not
 * survive. So it outlives us, and keeps `lock`, a descriptor whose lock (flock) tells that CRIU is
 * at work. `plugin`: the folder of its plugin; "": none, here and below.
 */
int criu_dump(pid_t root, int at, const char *dir, int lock, const char *plugin);

/*
 * Restores the tree of `dir`, which continues at once. CRIU reads the files through `at`, a
 * descriptor of `dir`, so that no other directory can be put in its place. If CRIU fails, processes
 * that it has begun are our descendants; those of a finished restore are, too, until we end.
 */
int criu_restore(int at, const char *dir, const char *plugin);

#endif
