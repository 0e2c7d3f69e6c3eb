/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#include "criu/kfd_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "amd/topology_read.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "criu/kfd/kfd_dump.h"
#include "criu/kfd/kfd_restore.h"
#include "criu/kfd_reach.h"
#include "criu/render.h"
#include "criu/say.h"

#define KFD "/dev/kfd"

bool kfd_file_is(const struct stat *st)
{
	struct stat kfd;

	return S_ISCHR(st->st_mode) && stat(KFD, &kfd) == 0 && S_ISCHR(kfd.st_mode) &&
	       kfd.st_rdev == st->st_rdev;
}

/* --- Dump ----------------------------------------------------------------------------------- */

static int kfd_file_begin_dump(struct dump *dump)
{
	struct topology_complaint complaint;
	int r = topology_read(NULL, &dump->topology, &complaint);

	if (r == 0) {
		r = kfd_dump_open(&kfd_reach, dump->topology, &dump->kfd);
		snprintf(complaint.text, sizeof(complaint.text), "out of memory");
	}
	if (r < 0)
		SAY_ERROR("the GPUs cannot be looked at: %s", complaint.text);
	return r;
}

int kfd_file_dump(struct dump *dump, int fd, uint32_t id)
{
	int r = dump->kfd ? 0 : kfd_file_begin_dump(dump), own;
	int *longer = reallocarray(dump->kfds, dump->nkfds + 1, sizeof(*longer));
	char why[KFD_WHY_BYTES];

	if (longer)
		dump->kfds = longer;
	if (r < 0 || !longer)
		return r < 0 ? r : -ENOMEM;
	own = fcntl(fd, F_DUPFD_CLOEXEC, 0); /* CRIU closes its own */
	if (own < 0)
		return err_errno();
	dump->kfds[dump->nkfds++] = own;
	r = kfd_dump_add(dump->kfd, own, id, why);
	if (r < 0)
		SAY_ERROR("%s", why);
	return r;
}

/* --- Restore -------------------------------------------------------------------------------- */

static int kfd_file_publish(void *arg, uint32_t buffer, int dmabuf)
{
	struct restore *restore = arg;

	return restore_wants(restore, buffer)
		       ? restore_publish(restore, &restore->shared->kfd_buffers[buffer], dmabuf)
		       : 0;
}

static int kfd_file_take(void *arg, uint32_t buffer)
{
	const struct restore *restore = arg;

	return published_get(&restore->shared->kfd_buffers[buffer]);
}

/* The process's own file of a render node, which may come after this one. */
static int kfd_file_render(void *arg, uint32_t id)
{
	struct restore *restore = arg;
	int file = restore_find_file(restore, id);
	int r = file < 0 ? file : render_begin(restore, (uint32_t)file);

	return r < 0 ? r : published_get(&restore->shared->files[file].file);
}

/*
 * Its descriptors go to CRIU's store, where they are in the way of no number that the process
 * wants. They stay there until CRIU ends.
 */
static int kfd_file_put_away(struct restore_kfd *own)
{
	int *files = kfd_restored_files(own->restored), r = 0;

	for (int i = 0; i < KFD_RESTORED_FILES; i++) {
		if (files[i] < 0)
			continue;
		if (own->files[i] < 0 && (own->files[i] = fdstore_add(files[i])) < 0)
			r = -ENOSPC;
		close(files[i]);
		files[i] = -EBADF;
	}
	return r;
}

static int kfd_file_get(const struct restore_kfd *own, uint32_t file)
{
	int fd = own->files[file] < 0 ? -1 : fdstore_get(own->files[file]);

	return fd < 0 ? -EIO : fd;
}

int kfd_file_begin(struct restore *restore, uint32_t process)
{
	const struct kfd_exchange exchange = {kfd_file_publish, kfd_file_take, kfd_file_render,
					      restore};
	struct restore_kfd *own = &restore->own_kfd;
	char why[KFD_WHY_BYTES] = "CRIU cannot keep its descriptors";
	int r;

	if (own->restored && own->process != process) {
		SAY_ERROR("a process has two of " KFD ", of which one was another's");
		return -EEXIST;
	}
	if (own->restored)
		return 0;
	r = kfd_restored_open(restore->kfd, process, criu_get_image_dir(), &exchange,
			      &own->restored, why);
	kfd_reach_close();
	if (r == 0) {
		own->process = process;
		for (int i = 0; i < KFD_RESTORED_FILES; i++)
			own->files[i] = -1;
		r = kfd_file_put_away(own);
	}
	if (r < 0)
		SAY_ERROR(KFD ": %s", why);
	return r;
}

int kfd_file_restore(struct restore *restore, uint32_t process)
{
	const struct kfd_exchange exchange = {kfd_file_publish, kfd_file_take, kfd_file_render,
					      restore};
	struct restore_kfd *own = &restore->own_kfd;
	struct waiter *waiter = &restore->shared->kfds[process];
	char why[KFD_WHY_BYTES] = "";
	int r = kfd_file_begin(restore, process), kfd;

	if (r < 0)
		return r;
	waiter_register(waiter);
	kfd = kfd_file_get(own, 0);
	if (kfd < 0)
		return kfd;
	kfd_restored_files(own->restored)[0] = kfd;
	r = kfd_restored_import(own->restored, &exchange, why);
	kfd_restored_files(own->restored)[0] = -EBADF;
	if (r != -EAGAIN)
		waiter_done(waiter);
	if (r == 0)
		return kfd;
	close(kfd);
	if (r != -EAGAIN)
		SAY_ERROR(KFD ": %s", why);
	return r;
}

int kfd_file_map(struct restore *restore, uint32_t minor, uint64_t offset, uint64_t *ret_offset,
		 int *ret_fd)
{
	const struct restore_kfd *own = &restore->own_kfd;
	uint64_t now;
	uint32_t file;
	int r = own->restored ? kfd_restored_offset(own->restored, minor, offset, &now, &file)
			      : -ENOENT;

	if (r == 0)
		r = kfd_file_get(own, file);
	if (r < 0)
		return r;
	*ret_offset = now;
	*ret_fd = r;
	return 0;
}

int kfd_file_resume(const struct restore *restore, pid_t pid)
{
	CLEANUP_CLOSE int kfd = restore->kfd ? kfd_calls.open(KFD) : -ENOTSUP;
	char why[KFD_WHY_BYTES];
	int r = kfd;

	if (kfd >= 0)
		r = kfd_restore_resume(&kfd_calls, kfd, pid, why);
	else if (restore->kfd)
		kfd_say(why, r, KFD " cannot be opened: queues of process %ld do not go on",
			(long)pid);
	if (r == -ESRCH)
		return -ENOTSUP; /* it has no /dev/kfd */
	if (r < 0 && restore->kfd)
		SAY_ERROR("%s", why);
	return r;
}
