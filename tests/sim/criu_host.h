/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * What CRIU is to its plugins, in tests without CRIU: the functions that a plugin calls of it, and
 * a plugin that is loaded. Descriptors are stored in a process of their own; who waits to be called
 * again has a word in memory that all share. Our own descriptors are numbers from 300 on, as CRIU's
 * are high.
 */
#ifndef ALLOT_TESTS_SIM_CRIU_HOST_H
#define ALLOT_TESTS_SIM_CRIU_HOST_H

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>

#define ALLOT_CRIU_HOOKS 15

#include "criu/abi.h"
#include "tests/sim/kfd_program.h"

#define HOST_FD	     300
#define HOST_TASKS   4
#define HOST_EXPORT  __attribute__((visibility("default")))
#define HOST_PATIENCE 30000 /* times 1 ms, until a wait is in vain */

static struct host {
	pthread_mutex_t lock; /* of the store's socket */
	pid_t pid[HOST_TASKS];
	atomic_int event[HOST_TASKS];
	atomic_int asleep[HOST_TASKS]; /* it has slept, for nothing changed */
	char said[4096];   /* errors */
	char logged[4096]; /* what is no error */
	int in_inventory; /* how often the image's list of plugins has it; a restore takes it off */
} *host;

static struct criu_plugin *plugin;
static int host_images, host_socket;
static pid_t host_keeper;

struct host_message {
	int put, number;
};

static inline int host_move_high(int fd)
{
	int high = fcntl(fd, F_DUPFD_CLOEXEC, HOST_FD);

	CHECK(high >= 0);
	close(fd);
	return high;
}

/* Keeps what is put, and gives what is asked for, until nobody can ask. */
static inline void host_keep(int socket)
{
	struct host_message m;
	int kept[256], n = 0, fd;

	while (message_receive(socket, &m, sizeof(m), &fd) == sizeof(m)) {
		if (m.put && n < 256 && fd >= 0) {
			m.number = n;
			kept[n++] = fd;
			fd = -1;
		} else {
			fd = m.number >= 0 && m.number < n ? kept[m.number] : -1;
		}
		message_send(socket, &m, sizeof(m), fd);
	}
}

static inline int host_ask(int put, int number, int fd, int *ret_fd)
{
	struct host_message m = {put, number};

	pthread_mutex_lock(&host->lock);
	CHECK_EQ(message_send(host_socket, &m, sizeof(m), fd), sizeof(m));
	CHECK_EQ(message_receive(host_socket, &m, sizeof(m), ret_fd), sizeof(m));
	pthread_mutex_unlock(&host->lock);
	return m.number;
}

HOST_EXPORT int fdstore_add(int fd)
{
	int unused;

	return host_ask(1, 0, fd, &unused);
}

HOST_EXPORT int fdstore_get(int number)
{
	int fd;

	host_ask(0, number, -1, &fd);
	return fd;
}

HOST_EXPORT int criu_get_image_dir(void)
{
	return host_images;
}

HOST_EXPORT int add_inventory_plugin(const char *name)
{
	CHECK(!strcmp(name, "allot_amdgpu"));
	host->in_inventory++;
	return 0;
}

HOST_EXPORT bool check_and_remove_inventory_plugin(const char *name, size_t n)
{
	CHECK(n == strlen("allot_amdgpu") && !strncmp(name, "allot_amdgpu", n));
	host->in_inventory--;
	return true;
}

HOST_EXPORT int set_fds_event(int pid)
{
	for (int i = 0; i < HOST_TASKS; i++)
		if (host->pid[i] == pid)
			atomic_store(&host->event[i], 1);
	return 0;
}

HOST_EXPORT void print_on_level(unsigned int level, const char *format, ...)
{
	char *to = level > 1 ? host->logged : host->said;
	size_t n = strlen(to);
	va_list args;

	va_start(args, format);
	vsnprintf(to + n, sizeof(host->said) - n, format, args);
	va_end(args);
	fputs(to + n, stderr);
}

/* Loads the plugin for images in that folder. */
static inline void host_start(const char *file, const char *images)
{
	pthread_mutexattr_t attributes;
	int pair[2];
	void *library;

	host = mmap(NULL, sizeof(*host), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(host != MAP_FAILED);
	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(&host->lock, &attributes);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	host_keeper = fork();
	CHECK(host_keeper >= 0);
	if (!host_keeper) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(pair[0]);
		host_keep(pair[1]);
		_exit(0);
	}
	close(pair[1]);
	host_socket = host_move_high(pair[0]);
	host_images = host_move_high(open(images, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	library = dlopen(file, RTLD_LAZY);
	if (!library)
		fprintf(stderr, "%s\n", dlerror());
	CHECK(library);
	plugin = dlsym(library, "CR_PLUGIN_DESC");
	CHECK(plugin && !strcmp(plugin->name, "allot_amdgpu"));
}

/* --- Hooks, as CRIU calls them ----------------------------------------------------------------- */

static inline int host_dump_file(int fd, int id)
{
	int (*hook)(int, int) = plugin->hooks[CRIU_DUMP_EXT_FILE];

	return hook(fd, id);
}

static inline int host_handle_vma(int fd)
{
	int (*hook)(int, const struct stat *) = plugin->hooks[CRIU_HANDLE_DEVICE_VMA];
	struct stat st;

	CHECK_EQ(fstat(fd, &st), 0);
	return hook(fd, &st);
}

/* All has been dumped. Older plugins are not told, and write when they are unloaded. */
static inline int host_dump_end(pid_t pid)
{
	int (*hook)(int) = plugin->max_hooks > CRIU_DUMP_DEVICES_LATE
				   ? plugin->hooks[CRIU_DUMP_DEVICES_LATE] : NULL;
	int r = hook ? hook(pid) : 0;

	plugin->exit(CRIU_DUMP, r);
	return r;
}

/* A CRIU that calls again for a file, and has tasks sleep meanwhile. */
static inline bool host_retries(void)
{
	return plugin->max_hooks >= 15;
}

static inline int host_restore_file(int id, bool *ret_retry)
{
	int (*hook)(int) = plugin->hooks[CRIU_RESTORE_EXT_FILE];
	int (*retries)(int, bool *) = plugin->hooks[CRIU_RESTORE_EXT_FILE];

	*ret_retry = false;
	return host_retries() ? retries(id, ret_retry) : hook(id);
}

static inline int host_map(const char *path, uint64_t at, uint64_t offset, uint64_t *ret_offset,
			   int *ret_fd)
{
	criu_update_vma_map *hook = plugin->hooks[CRIU_UPDATE_VMA_MAP];

	return hook(path, at, offset, ret_offset, ret_fd);
}

static inline int host_resume(pid_t pid)
{
	int (*hook)(int) = plugin->hooks[CRIU_RESUME_DEVICES_LATE];

	return hook(pid);
}

/* --- A task's files ---------------------------------------------------------------------------- */

struct host_file {
	int id, fd; /* fd: which number it is to have */
	bool done;
};

static inline bool host_is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static inline bool host_restore_one(struct host_file *f)
{
	bool retry, open_before[HOST_FD];
	int fd;

	for (int i = 0; i < HOST_FD; i++)
		open_before[i] = host_is_open(i);
	fd = host_restore_file(f->id, &retry);
	CHECK(fd >= 0);
	/* The file's owner and signal go there, which must be nothing that the task is to have. */
	CHECK(fcntl(fd, F_SETSIG, 0) == 0 && (!retry || fd >= HOST_FD));
	/* Between calls the plugin has no descriptors: each could be one that the task is to have. */
	for (int i = 0; i < HOST_FD; i++)
		CHECK(host_is_open(i) == (open_before[i] || (!retry && i == fd)));
	if (retry)
		return false;
	CHECK(fd == f->fd || !host_is_open(f->fd));
	if (fd != f->fd) {
		CHECK_EQ(dup3(fd, f->fd, O_CLOEXEC), f->fd);
		close(fd);
	}
	f->done = true;
	return true;
}

/* As CRIU opens files: over and over, and asleep while nothing changes. */
static inline void host_restore_files(int task, struct host_file *files, int n)
{
	bool again, progress;
	int naps = 0;

	host->pid[task] = getpid();
	host_images = host_move_high(host_images); /* CRIU has it by another number in each task */
	do {
		again = progress = false;
		atomic_store(&host->event[task], 0);
		for (int i = 0; i < n; i++) {
			if (files[i].done)
				continue;
			if (host_restore_one(&files[i]))
				progress = true;
			else
				again = true;
		}
		while (again && !progress && !atomic_load(&host->event[task])) {
			atomic_store(&host->asleep[task], 1);
			CHECK(naps++ < HOST_PATIENCE);
			usleep(1000);
		}
	} while (again);
}

#endif
