/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The plugin as CRIU sees it: the purpose of each hook. CRIU runs a dump in one process. A restore
 * begins in one, from which all others are forked.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/err.h"
#include "base/now.h"
#include "criu/abi.h"
#include "criu/awaited.h"
#include "criu/dmabuf.h"
#include "criu/gpu/drm.h"
#include "criu/kfd_file.h"
#include "criu/render.h"
#include "criu/say.h"

/* CRIU tells when all processes have been dumped, and calls again for a file when it is asked to. */
#define RETRIES (ALLOT_CRIU_HOOKS >= 15)

#define PLUGIN_NAME "allot_amdgpu"

/* Where it does not: how long a process waits for others before it gives up, a minute. */
#define WAIT_NAPS   60000
#define WAIT_NAP_NS 1000000

static struct dump dump;
static struct awaited awaited;
static bool begun, written; /* written: the image has all files that came so far */
static struct restore restore;

/* --- Dump ----------------------------------------------------------------------------------- */

/* With the first file of a GPU: a dump that fails before has not touched the folder's former image. */
static int plugin_begin_dump(void)
{
	if (begun)
		return 0;
	begun = true;
	dump_begin();
	if (!RETRIES)
		awaited_open(&awaited);
	return add_inventory_plugin && add_inventory_plugin(PLUGIN_NAME) < 0 ? -ENOMEM : 0;
}

static int plugin_write(void)
{
	int r = dump_finish(&dump);

	written = r == 0;
	return r;
}

/*
 * CRIU handed over a file of a GPU. Writes the image if it was the last. A file in a message that
 * nobody has received yet may follow, and then the image is written again.
 */
static int plugin_saw(int fd)
{
	written = false;
	awaited_seen(&awaited, fd);
	return awaited_none(&awaited) ? plugin_write() : 0;
}

static int plugin_dump_one(int fd, const struct stat *st, uint32_t id)
{
	if (drm_is_render(st))
		return drm_is_amdgpu(fd) ? render_dump(&dump, fd, id) : -ENOTSUP;
	return kfd_file_is(st) ? kfd_file_dump(&dump, fd, id) : dmabuf_dump(&dump, fd, id);
}

static int plugin_dump_file(int fd, int id)
{
	struct stat st;
	int r, saw = 0;

	if (fstat(fd, &st) < 0)
		return err_errno();
	if (!drm_is_render(&st) && !kfd_file_is(&st) && !dmabuf_is(fd))
		return -ENOTSUP;
	r = plugin_begin_dump();
	if (r < 0)
		return r;
	r = plugin_dump_one(fd, &st, (uint32_t)id);
	if (!RETRIES && (r >= 0 || r == -ENOTSUP))
		saw = plugin_saw(fd);
	return saw < 0 ? saw : r;
}

/* By its number: CRIU's descriptor for what a mapping is of is not open for more. */
static int plugin_handle_vma(int fd, const struct stat *st)
{
	return drm_is_render(st) || kfd_file_is(st) ? 0 : -ENOTSUP;
}

#if RETRIES
static int plugin_dump_late(int pid)
{
	return plugin_write();
}
#endif

/* --- Restore -------------------------------------------------------------------------------- */

static int plugin_restore(int id)
{
	int at = restore_find_file(&restore, (uint32_t)id);
	uint32_t process;

	if (at >= 0)
		return render_restore(&restore, (uint32_t)at);
	at = restore_find_dmabuf(&restore, (uint32_t)id);
	if (at >= 0)
		return dmabuf_restore(&restore, (uint32_t)at);
	if (restore.kfd && kfd_restore_find(restore.kfd, (uint32_t)id, &process) == 0)
		return kfd_file_restore(&restore, process);
	/* Not by what else is in the folder: files of an earlier dump may be there, too. */
	if (!restore.shared)
		restore_name_upstreams((uint32_t)id);
	return -ENOTSUP;
}

#if RETRIES
/*
 * CRIU passes over a descriptor that comes with a retry, but sets the file's owner and signal on it
 * before: where they mean nothing, and where there is one whatever the process has.
 */
static int plugin_restore_file(int id, bool *ret_retry)
{
	int fd = plugin_restore(id);

	*ret_retry = fd == -EAGAIN;
	return fd == -EAGAIN ? criu_get_image_dir() : fd;
}
#else
/*
 * A process that comes too early waits here, where none of its threads can do anything. So
 * everything that others may want of it is made first.
 */
static int plugin_begin(void)
{
	uint32_t process;
	int r = restore.catalog.n[CATALOG_FILES] ? render_begin(&restore, 0) : 0;

	if (r == 0 && restore.kfd && kfd_restore_find_pid(restore.kfd, getpid(), &process) == 0)
		r = kfd_file_begin(&restore, process);
	return r;
}

static int plugin_restore_file(int id)
{
	int r = restore.shared ? plugin_begin() : 0, fd = r < 0 ? r : plugin_restore(id);

	for (int i = 0; fd == -EAGAIN && i < WAIT_NAPS; i++) {
		nap_ns(WAIT_NAP_NS);
		fd = plugin_restore(id);
	}
	if (fd == -EAGAIN)
		SAY_ERROR("file %d waits for a buffer that no process makes", id);
	return fd;
}
#endif

static int plugin_update_vma(const char *path, uint64_t address, uint64_t offset,
			     uint64_t *ret_offset, int *ret_fd)
{
	unsigned int minor = 0;
	int r;

	path += *path == '/';
	if (!restore.shared || (sscanf(path, "dev/dri/renderD%u", &minor) != 1 &&
				(!restore.kfd || strcmp(path, "dev/kfd"))))
		return -ENOTSUP;
	r = kfd_file_map(&restore, minor, offset, ret_offset, ret_fd);
	if (r == -ENOENT && minor)
		r = render_map(&restore, minor, offset, ret_offset, ret_fd);
	if (r < 0) {
		SAY_ERROR("mapping at %#lx of /%s: %s", (unsigned long)address, path, strerror(-r));
		return r;
	}
	return 1;
}

static int plugin_resume(int pid)
{
	return kfd_file_resume(&restore, pid);
}

/* --- The descriptor ------------------------------------------------------------------------- */

static int plugin_init(int stage)
{
	/* Images that are not in such a list may be ours, too: of an older CRIU, or an older build. */
	if (stage == CRIU_RESTORE && check_and_remove_inventory_plugin)
		check_and_remove_inventory_plugin(PLUGIN_NAME, strlen(PLUGIN_NAME));
	return stage == CRIU_RESTORE ? restore_open(&restore, RETRIES) : 0;
}

/* CRIU's own steps after a dump that failed. */
static void plugin_undo(void)
{
	if (unsuspend_lsm)
		unsuspend_lsm();
	if (network_unlock)
		network_unlock();
	if (delete_link_remaps)
		delete_link_remaps();
	if (clean_cr_time_mounts)
		clean_cr_time_mounts();
}

/*
 * Up to CRIU 4.2 no other hook is called after the last file. It is too late for a refusal, since its
 * result is ignored, and too late for CRIU's post-dump script, which may copy the image. So the image
 * is written with the last file, and here only if the plugin could not tell which was the last.
 * A dump without its buffers must not be taken for one: CRIU itself ends here, without a success,
 * and releases the processes, which continue; so do their queues.
 */
static void plugin_exit(int stage, int result)
{
	bool failed = stage == CRIU_DUMP && result == 0 && !RETRIES && !written && plugin_write() < 0;

	/* A dump that failed later leaves nothing that looks like an image. */
	if (stage == CRIU_DUMP && (result || failed) && begun)
		dump_begin();
	dump_done(&dump);
	awaited_close(&awaited);
	begun = written = false;
	if (failed) {
		plugin_undo();
		_exit(1);
	}
}

__attribute__((visibility("default"))) struct criu_plugin CR_PLUGIN_DESC = {
	.name = PLUGIN_NAME,
	.init = plugin_init,
	.exit = plugin_exit,
	.version = CRIU_PLUGIN_VERSION,
	.max_hooks = ALLOT_CRIU_HOOKS,
	.hooks = {
		[CRIU_DUMP_EXT_FILE] = plugin_dump_file,
		[CRIU_RESTORE_EXT_FILE] = plugin_restore_file,
		[CRIU_HANDLE_DEVICE_VMA] = plugin_handle_vma,
		[CRIU_UPDATE_VMA_MAP] = plugin_update_vma,
		[CRIU_RESUME_DEVICES_LATE] = plugin_resume,
#if RETRIES
		[CRIU_DUMP_DEVICES_LATE] = plugin_dump_late,
#endif
	},
};
