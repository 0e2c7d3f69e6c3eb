/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The plugin as CRIU sees it: what each hook is for. CRIU runs a dump in one process. A restore
 * begins in one, from which all others are forked.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/err.h"
#include "criu/abi.h"
#include "criu/dmabuf.h"
#include "criu/drm.h"
#include "criu/render.h"
#include "criu/say.h"

/* CRIU tells when all processes have been dumped, and calls again for a file when it is asked to. */
#define RETRIES (ALLOT_CRIU_HOOKS >= 15)

static struct dump dump;
static struct restore restore;

/* --- Dump ----------------------------------------------------------------------------------- */

static int plugin_dump_file(int fd, int id)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_errno();
	if (drm_is_render(&st) && drm_is_amdgpu(fd))
		return render_dump(&dump, fd, (uint32_t)id);
	if (dmabuf_is(fd))
		return dmabuf_dump(&dump, fd, (uint32_t)id);
	return -ENOTSUP;
}

/* By its number: CRIU's descriptor for what a mapping is of is not open for more. */
static int plugin_handle_vma(int fd, const struct stat *st)
{
	return drm_is_render(st) ? 0 : -ENOTSUP;
}

#if RETRIES
static int plugin_dump_late(int pid)
{
	return dump_finish(&dump);
}
#endif

/* --- Restore -------------------------------------------------------------------------------- */

static int plugin_restore(int id)
{
	int at = restore_find_file(&restore, (uint32_t)id);

	if (at >= 0)
		return render_restore(&restore, (uint32_t)at);
	at = restore_find_dmabuf(&restore, (uint32_t)id);
	return at < 0 ? -ENOTSUP : dmabuf_restore(&restore, (uint32_t)at);
}

#if RETRIES
static int plugin_restore_file(int id, bool *ret_retry)
{
	int fd = plugin_restore(id);

	*ret_retry = fd == -EAGAIN;
	return fd == -EAGAIN ? 0 : fd;
}
#else
static int plugin_restore_file(int id)
{
	return plugin_restore(id);
}
#endif

static int plugin_update_vma(const char *path, uint64_t address, uint64_t offset,
			     uint64_t *ret_offset, int *ret_fd)
{
	unsigned int minor;
	int r;

	if (!restore.shared || (sscanf(path, "/dev/dri/renderD%u", &minor) != 1 &&
				sscanf(path, "dev/dri/renderD%u", &minor) != 1))
		return -ENOTSUP;
	r = render_map(&restore, minor, offset, ret_offset, ret_fd);
	if (r < 0) {
		SAY_ERROR("mapping at %#lx of render node %u: %s", (unsigned long)address, minor,
			  strerror(-r));
		return r;
	}
	return 1;
}

/* --- The descriptor ------------------------------------------------------------------------- */

static int plugin_init(int stage)
{
	return stage == CRIU_RESTORE ? restore_open(&restore, RETRIES) : 0;
}

/*
 * Up to CRIU 4.2 no hook is called when all processes have been dumped but this, whose answer nobody
 * waits for. They still stand still. A dump without its buffers must not be taken for one: CRIU
 * itself ends here, without a success, and lets go of the processes, which go on.
 */
static void plugin_exit(int stage, int result)
{
	if (stage == CRIU_DUMP && result == 0 && !RETRIES && dump_finish(&dump) < 0)
		_exit(1);
	dump_done(&dump);
}

__attribute__((visibility("default"))) struct criu_plugin CR_PLUGIN_DESC = {
	.name = "allot_amdgpu",
	.init = plugin_init,
	.exit = plugin_exit,
	.version = CRIU_PLUGIN_VERSION,
	.max_hooks = ALLOT_CRIU_HOOKS,
	.hooks = {
		[CRIU_DUMP_EXT_FILE] = plugin_dump_file,
		[CRIU_RESTORE_EXT_FILE] = plugin_restore_file,
		[CRIU_HANDLE_DEVICE_VMA] = plugin_handle_vma,
		[CRIU_UPDATE_VMA_MAP] = plugin_update_vma,
#if RETRIES
		[CRIU_DUMP_DEVICES_LATE] = plugin_dump_late,
#endif
	},
};
