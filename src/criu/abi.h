/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The interface of CRIU and its plugins, in our own words: the descriptor that CRIU looks up in a
 * plugin, the hooks that are used here, and the functions of CRIU that a plugin may call.
 *
 * The list of hooks grows at its end, and CRIU refuses a plugin with more hooks than its own: 10 in
 * 3.17, 12 in 4.0 and 4.1, 13 in 4.2, and 15 in later versions, where one of the old ones has
 * another argument, too. So there are two builds (ALLOT_CRIU_HOOKS): with 10 for all releases up to
 * 4.2, and with 15.
 */
#ifndef ALLOT_CRIU_ABI_H
#define ALLOT_CRIU_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#define CRIU_PLUGIN_VERSION 0x000200 /* 0.2.0 */

enum criu_stage { CRIU_DUMP, CRIU_PRE_DUMP, CRIU_RESTORE };

/* Answers are 0 or more, or -ENOTSUP: not mine; anything else below 0 ends CRIU's work. */
enum criu_hook {
	CRIU_DUMP_EXT_FILE = 2,	     /* (int fd, int id): a file that CRIU does not know */
	CRIU_RESTORE_EXT_FILE = 3,   /* (int id): its descriptor; of 15, (int id, bool *ret_retry) */
	CRIU_HANDLE_DEVICE_VMA = 7,  /* (int fd, const struct stat *): may it be mapped? */
	CRIU_UPDATE_VMA_MAP = 8,     /* below */
	CRIU_RESUME_DEVICES_LATE = 9, /* (int pid): it is restored, and continues after this */
	CRIU_DUMP_DEVICES_LATE = 14, /* (int pid): all processes have been dumped, and stand still */
};

/* 1: the mapping is made with *ret_fd at *ret_offset, both of which have been written. */
typedef int criu_update_vma_map(const char *path, uint64_t address, uint64_t offset,
				uint64_t *ret_offset, int *ret_fd);

struct criu_plugin {
	const char *name;
	int (*init)(int stage);
	void (*exit)(int stage, int result);
	unsigned int version;
	unsigned int max_hooks;
	void *hooks[ALLOT_CRIU_HOOKS];
};

/* The directory of images. */
int criu_get_image_dir(void);

/* Descriptors that all processes of a restore share: -1, or the number for fdstore_get. */
int fdstore_add(int fd);
int fdstore_get(int id);

/*
 * From CRIU 4.1 on, NULL before: the image's list of plugins without which a restore is refused. Each
 * plugin takes itself off it at its start.
 */
int add_inventory_plugin(const char *name) __attribute__((weak));
bool check_and_remove_inventory_plugin(const char *name, size_t n) __attribute__((weak));

/* Tells a process of the restore to try again. */
int set_fds_event(int pid);

/* CRIU's own end of a dump that failed, which lets the processes go on. NULL in a CRIU without them. */
int unsuspend_lsm(void) __attribute__((weak));
void network_unlock(void) __attribute__((weak));
void delete_link_remaps(void) __attribute__((weak));
void clean_cr_time_mounts(void) __attribute__((weak));

/* CRIU's log; level 1 is an error, 2 a warning. */
void print_on_level(unsigned int level, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif
