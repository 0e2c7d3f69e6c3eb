/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/checkpoint/save.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "amd/identity.h"
#include "base/cleanup.h"
#include "base/dir.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/pidns.h"
#include "cli/checkpoint/away.h"
#include "cli/checkpoint/content.h"
#include "cli/checkpoint/criu.h"
#include "cli/checkpoint/stored.h"
#include "cli/checkpoint/tree.h"
#include "cli/say/exit_status.h"
#include "cli/say/say.h"
#include "cli/tenant/contexts.h"
#include "cli/tenant/pids.h"
#include "cli/tenant/runtime.h"
#include "image/image.h"
#include "image/parts.h"
#include "ledger/ledger.h"
#include "ledger/policy.h"
#include "ledger/slot.h"
#include "ledger/swap.h"
#include "node/tenants.h"

struct save {
	const struct save_options *options;
	struct moving moving;
	char dir[PATH_MAX]; /* absolute, for messages and for `allot resume` */
	int lock; /* on it: CRIU has it, too, and may outlive us */
	int folder;  /* the directory, opened for itself: the lock ends before files are removed */
	char at[32]; /* the directory by that descriptor: at the path another one may be by now */
	int parent;  /* of the directory, if we made it, which is `base` there; else -EBADF */
	char base[NAME_MAX + 1];
	struct pids pids;
	struct tree tree;
	struct manifest manifest;
	enum swap_phase before; /* SWAP_RUN, SWAP_OUT, or SWAP_BARE if contexts were moved, too */
	bool amd;		/* content stays where it is, and CRIU's plugin takes it */
	char plugin[PATH_MAX];	/* then its folder, else "" */
};

/* --- Before anything happens ---------------------------------------------------------------- */

static int save_check_policy(const struct moving *moving)
{
	struct policy policy;

	if (policy_load(moving->dir, &policy) < 0)
		return say_error("tenant \"%s\": its policy cannot be read", moving->name);
	if (policy_limits_compute(&policy))
		return say_error("tenant \"%s\" has a share of compute, which cannot go to a disk yet; "
				 "\"allot suspend --contexts\" can",
				 moving->name);
	if (policy_meters(&policy))
		return say_error("tenant \"%s\" is measured, which cannot go to a disk yet; write first: "
				 "allot set %s --meter off",
				 moving->name, moving->name);
	if (policy.trace)
		return say_error("tenant \"%s\" is traced, and its processes have files for that; write "
				 "first: allot set %s --trace off",
				 moving->name, moving->name);
	if (policy.flags & POLICY_OVERCOMMIT)
		return say_error("tenant \"%s\" takes turns on memory (--overcommit), which cannot go to a "
				 "disk yet",
				 moving->name);
	if (stored_is(moving))
		return say_error("tenant \"%s\" is on its way to a disk or from there; \"allot resume "
				 "%s\" brings it back",
				 moving->name, moving->name);
	return 0;
}

/* Checks for the means to move it: the driver's checkpoint, or CRIU's plugin. */
static int save_check_devices(struct save *save)
{
	const struct moving *moving = &save->moving;
	struct ledger_device_info info;
	bool others = false;

	for (int i = 0; !ledger_device_info(moving->ledger, i, &info); i++) {
		save->amd |= amd_identity_is(info.uuid);
		others |= !amd_identity_is(info.uuid);
	}
	if (!save->amd)
		return contexts_check(moving);
	if (others)
		return say_error("tenant \"%s\" is on GPUs of AMD and of NVIDIA, which go to a disk in "
				 "two ways, and not together yet",
				 moving->name);
	if (moving_rests(moving) != SWAP_RUN)
		return say_error("tenant \"%s\" is suspended, and from AMD GPUs it goes to a disk while "
				 "it has its memory there; \"allot resume %s\" first",
				 moving->name, moving->name);
	return criu_find_plugin(save->plugin);
}

/* CRIU takes processes of the PID namespace that it is in. */
static int save_check_namespace(const struct save *save)
{
	struct slot_info info;

	for (size_t i = 0; i < save->pids.n; i++)
		if (!slot_info(save->moving.ledger, save->pids.list[i].slot, &info) &&
		    info.pidns != pidns_self())
			return say_error("process %ld (%s) is of a container; make its checkpoint in "
					 "there",
					 (long)save->pids.list[i].pid, save->pids.list[i].comm);
	return save->pids.n ? 0 : say_error("tenant \"%s\" has no process that uses a GPU",
					    save->moving.name);
}

/* Its parent and its name there: "a" of "a/" and "./a". */
static int save_find_parent(struct save *save, int *ret_parent)
{
	char path[PATH_MAX], *slash;
	size_t len = strlen(save->options->dir);
	int fd;

	if (len >= sizeof(path))
		return -ENAMETOOLONG;
	memcpy(path, save->options->dir, len + 1);
	while (len > 1 && path[len - 1] == '/')
		path[--len] = '\0';
	slash = strrchr(path, '/');
	if (strlen(slash ? slash + 1 : path) > NAME_MAX)
		return -ENAMETOOLONG;
	strcpy(save->base, slash ? slash + 1 : path);
	if (slash)
		*slash = '\0';
	fd = open(!slash ? "." : *path ? path : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_errno();
	*ret_parent = fd;
	return 0;
}

/* Makes the directory, or takes the one that is there, which may be named by a link. */
static int save_open_dir(struct save *save)
{
	CLEANUP_CLOSE int parent = -EBADF;
	int r = save_find_parent(save, &parent);

	if (r < 0)
		return r;
	if (mkdirat(parent, save->base, 0700) == 0) {
		save->lock = fd_openat(parent, save->base, O_RDONLY | O_DIRECTORY, 0);
		save->parent = TAKE_FD(parent);
		return save->lock;
	}
	if (errno != EEXIST)
		return err_errno();
	save->lock = open(save->options->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return save->lock < 0 ? err_errno() : save->lock;
}

static int save_name_dir(struct save *save)
{
	ssize_t n;

	save->folder = fd_openat(save->lock, ".", O_RDONLY | O_DIRECTORY, 0);
	if (save->folder < 0)
		return save->folder;
	snprintf(save->at, sizeof(save->at), "/proc/self/fd/%d", save->folder);
	n = fd_read_link(AT_FDCWD, save->at, save->dir, sizeof(save->dir));
	return n < 0 ? (int)n : 0;
}

/* A user who can write to the directory could decide what root runs at the restore. */
static int save_check_dir(const struct save *save)
{
	struct stat st;

	if (fstat(save->lock, &st) < 0)
		return say_error("%s: %s", save->dir, say_errno(errno));
	return fd_is_guarded(&st)
		       ? 0
		       : say_error("%s is for others to write, who could have root do anything at the "
				   "restore; chown root and chmod go-w it, or name another directory",
				   save->dir);
}

static int save_check_empty(const struct save *save)
{
	CLEANUP_DIR DIR *list = opendir(save->at);

	if (!list)
		return say_error("%s: %s", save->dir, say_errno(errno));
	return dir_next(list) ? say_error("%s is not empty; name a directory that is, or is not there",
					  save->options->dir)
			      : 0;
}

static int save_make_dir(struct save *save)
{
	int r = save_open_dir(save);

	if (r >= 0)
		r = save_name_dir(save);
	if (r < 0)
		return say_error("%s cannot be made, or opened: %s", save->options->dir, say_errno(r));
	if (save_check_dir(save) || save_check_empty(save))
		return EXIT_ALLOT;
	return flock(save->lock, LOCK_EX | LOCK_NB) < 0
		       ? say_error("%s cannot be locked: %s", save->dir, say_errno(errno))
		       : 0;
}

static int save_find(struct save *save)
{
	int r = pids_find(&save->moving, &save->pids);

	if (!r)
		r = save_check_namespace(save);
	if (!r)
		r = tree_find(save->moving.dir, &save->pids, &save->tree);
	if (!r && save->tree.nroots > PARTS_TREES)
		r = say_error("tenant \"%s\" has too many process trees", save->moving.name);
	return r;
}

/* --- Files ---------------------------------------------------------------------------------- */

static void save_path(const struct save *save, const char *name, char ret[static PATH_MAX])
{
	snprintf(ret, PATH_MAX, "%s/%s", save->at, name);
}

static void save_tree_path(const struct save *save, size_t tree, char ret[static PATH_MAX])
{
	char name[32];

	snprintf(name, sizeof(name), PARTS_CRIU "/%zu", tree);
	save_path(save, name, ret);
}

static void save_empty_dir(const char *path)
{
	CLEANUP_DIR DIR *list = opendir(path);
	const char *name;

	while ((name = dir_next(list)))
		if (*name != '.')
			unlinkat(dirfd(list), name, 0);
	rmdir(path);
}

/* Restores the directory: removes the files that this save has made. */
static void save_remove_files(const struct save *save)
{
	static const char *const files[] = {IMAGE_MANIFEST, IMAGE_OBJECTS, IMAGE_MANIFEST ".partial",
					    IMAGE_OBJECTS ".partial", PARTS_LEDGER,
					    PARTS_FILE ".partial", PARTS_FILE};
	char path[PATH_MAX];

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		save_path(save, files[i], path);
		unlink(path);
	}
	for (size_t i = 0; i < save->tree.nroots; i++) {
		save_tree_path(save, i, path);
		save_empty_dir(path);
	}
	save_path(save, PARTS_CRIU, path);
	rmdir(path);
	if (save->parent >= 0)
		unlinkat(save->parent, save->base, AT_REMOVEDIR);
}

static int save_ledger(const struct save *save)
{
	CLEANUP_CLOSE int fd = -EBADF;
	char path[PATH_MAX];
	int r;

	save_path(save, PARTS_LEDGER, path);
	fd = fd_openat(AT_FDCWD, path, O_RDWR | O_CREAT | O_EXCL, 0600);
	r = fd < 0 ? fd : ledger_save(save->moving.dir, fd);
	return r < 0 ? say_error("%s/" PARTS_LEDGER ": %s", save->dir, say_errno(r)) : 0;
}

/* --- The steps ------------------------------------------------------------------------------ */

/* Device files of NVML, or of a driver: CRIU would say that it does not know the file. */
static int save_check_open_files(const struct save *save)
{
	char target[256];
	const char *name;

	for (size_t i = 0; i < save->tree.n; i++) {
		CLEANUP_DIR DIR *list = dir_of_process(save->tree.pid[i], "fd");

		while ((name = dir_next(list)))
			if (fd_read_link(dirfd(list), name, target, sizeof(target)) > 0 &&
			    !strncmp(target, "/dev/nvidia", 11))
				return say_error("process %ld has %s open (it uses NVML, or another "
						 "way to the GPU than CUDA), which CRIU cannot take",
						 (long)save->tree.pid[i], target);
	}
	return 0;
}

static int save_image(struct save *save)
{
	struct image_draft *draft = NULL;
	int r = content_describe(&save->moving, &save->pids, &save->manifest);

	if (r)
		return r;
	r = image_create(save->at, &save->manifest, save->options->level, &draft);
	if (r < 0)
		return say_error("%s: %s", save->dir, say_errno(r));
	r = content_save(&save->moving, &save->pids, draft, &save->manifest);
	if (r)
		image_abort(draft);
	else
		r = image_commit(draft);
	if (r > 0)
		return r;
	return r < 0 ? say_error("%s: %s", save->dir, say_errno(r)) : 0;
}

static int save_note(struct save *save)
{
	int r = stored_note(save->moving.dir, save->manifest.id, save->dir);

	FAULT_POINT(STORE_NOTED);
	return r < 0 ? say_error("%s: %s", save->moving.dir, say_errno(r)) : 0;
}

static int save_give(struct save *save)
{
	struct swap_sum sum;

	/* CRIU finds no file of theirs. */
	swap_desk_set_split(save->moving.desk, 0);
	sum = moving_ask(&save->moving, SWAP_GIVEN, save->moving.patience_ns, true);
	FAULT_POINT(STORE_GIVEN);
	return sum.refused || sum.silent ? say_error("tenant \"%s\" keeps its content",
						     save->moving.name)
					 : 0;
}

static int save_make_folder(const struct save *save, const char *path, const char *name)
{
	return mkdir(path, 0700) < 0 ? say_error("%s/%s: %s", save->dir, name, say_errno(errno)) : 0;
}

static int save_tree(const struct save *save, size_t tree)
{
	CLEANUP_CLOSE int at = -EBADF;
	char name[32], path[PATH_MAX], words[PATH_MAX + sizeof(name)];
	int r;

	snprintf(name, sizeof(name), PARTS_CRIU "/%zu", tree);
	save_path(save, name, path);
	r = save_make_folder(save, path, name);
	if (r)
		return r;
	snprintf(words, sizeof(words), "%s/%s", save->dir, name);
	at = fd_openat(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0);
	return at < 0 ? say_error("%s: %s", words, say_errno(at))
		      : criu_dump(save->tree.pid[tree], at, words, save->lock, save->plugin);
}

/* Processes may have begun since: CRIU takes whole trees, from the same roots. */
static int save_processes(struct save *save)
{
	char path[PATH_MAX];
	int r;

	save_path(save, PARTS_CRIU, path);
	r = save_make_folder(save, path, PARTS_CRIU);
	for (size_t i = 0; !r && i < save->tree.nroots; i++)
		r = save_tree(save, i);
	FAULT_POINT(STORE_DUMPED);
	return r;
}

static int save_list(const struct save *save)
{
	struct parts parts = {.ntrees = (uint32_t)save->tree.nroots};
	int r;

	memcpy(parts.image, save->manifest.id, sizeof(parts.image));
	snprintf(parts.tenant_dir, sizeof(parts.tenant_dir), "%s", save->moving.dir);
	r = parts_write(save->at, &parts);
	FAULT_POINT(STORE_LISTED);
	return r < 0 ? say_error("%s: %s", save->dir, say_errno(r)) : 0;
}

/*
 * Processes in CRIU's files are stopped. A process that began since is not, and is ended as well.
 */
static int save_end(struct save *save)
{
	char runtime[PATH_MAX];
	struct tree tree;
	bool gone;

	if (tree_find(save->moving.dir, &save->pids, &tree))
		return say_error("tenant \"%s\" is in %s, and could not be ended", save->moving.name,
				 save->dir);
	gone = tree_kill(&tree);
	tree_free(&tree);
	FAULT_POINT(STORE_KILLED);
	if (!gone)
		return say_error("tenant \"%s\" is in %s, and its processes do not end",
				 save->moving.name, save->dir);
	stored_forget(save->moving.dir);
	if (!runtime_find(runtime))
		tenants_remove(runtime, save->moving.name, true);
	return 0;
}

static int save_go_from_rest(struct save *save)
{
	int r = stored_return(&save->moving) ? EXIT_ALLOT : 0;

	moving_ask(&save->moving, SWAP_RUN, MOVING_PATIENCE_NS, false);
	return r;
}

/* Suspended as it was before, or running. */
static int save_go_back(struct save *save)
{
	int r;

	close(TAKE_FD(save->lock));
	if (save->amd)
		return save_go_from_rest(save);
	if (save->before == SWAP_RUN)
		return away_return(&save->moving) ? EXIT_ALLOT : 0;
	r = stored_return(&save->moving) ? EXIT_ALLOT : 0;
	if (r || save->before == SWAP_BARE)
		return r;
	r = contexts_return(&save->moving);
	if (!r)
		moving_ask(&save->moving, SWAP_OUT, save->moving.patience_ns, true);
	return r;
}

static void save_count_dead(const struct save *save)
{
	for (size_t i = 0; i < save->pids.n; i++)
		if (!slot_alive(save->moving.ledger, save->pids.list[i].slot))
			say_note("process %ld (%s) did not survive it",
				 (long)save->pids.list[i].pid, save->pids.list[i].comm);
}

/* With its content where it was, or, where not all of that can be had, suspended. */
static int save_go_on(struct save *save, int r)
{
	int back = save_go_back(save);

	if (back && stored_is(&save->moving))
		return say_error("tenant \"%s\": what is in %s is needed to resume it",
				 save->moving.name, save->dir);
	if (r) {
		save_count_dead(save);
		save_remove_files(save);
	}
	if (r && !back)
		say_note("tenant \"%s\" %s as it was", save->moving.name,
			 save->before == SWAP_RUN ? "goes on" : "stays suspended");
	return r ? r : back;
}

/* On AMD GPUs nothing is moved: the program's calls are held while CRIU is at work. */
static int save_bring_to_rest(struct save *save)
{
	struct away_options away = {.timeout_us = save->options->timeout_us, .contexts = true};
	struct swap_sum sum;

	if (!save->amd)
		return away_send(&save->moving, &away) ? EXIT_ALLOT : 0;
	save->moving.patience_ns = save->options->timeout_us * NS_PER_US;
	sum = moving_ask(&save->moving, SWAP_STILL, save->moving.patience_ns, true);
	if (!sum.refused && !sum.silent)
		return 0;
	save_go_from_rest(save);
	return say_error("tenant \"%s\" goes on as it was: %u process%s did not come to rest",
			 save->moving.name, sum.refused + sum.silent,
			 sum.refused + sum.silent == 1 ? "" : "es");
}

static int save_all(struct save *save)
{
	int r;

	save->before = moving_rests(&save->moving);
	r = save_bring_to_rest(save);
	if (r) {
		save_remove_files(save);
		return r;
	}
	/* Some may have begun or ended until all was at rest. */
	pids_free(&save->pids);
	tree_free(&save->tree);
	r = save_find(save);
	if (!r)
		r = save_check_open_files(save);
	if (!r)
		r = save_image(save);
	if (!r)
		r = save_note(save);
	if (!r && !save->amd)
		r = save_give(save);
	if (!r)
		r = save_processes(save);
	if (!r)
		r = save_ledger(save);
	if (!r)
		r = save_list(save);
	if (!r && !save->options->leave_running)
		return save_end(save);
	return save_go_on(save, r);
}

int save_tenant(const char *name, const struct save_options *options)
{
	static struct save save;
	int r = criu_check();

	save = (struct save){.options = options, .lock = -EBADF, .folder = -EBADF, .parent = -EBADF};
	if (r)
		return r;
	r = moving_open(name, &save.moving);
	if (r)
		return r;
	r = save_check_policy(&save.moving);
	if (!r)
		r = save_check_devices(&save);
	if (!r)
		r = save_find(&save);
	if (!r)
		r = save_make_dir(&save);
	if (!r)
		r = save_all(&save);
	cleanup_close(&save.lock);
	cleanup_close(&save.folder);
	cleanup_close(&save.parent);
	manifest_done(&save.manifest);
	tree_free(&save.tree);
	pids_free(&save.pids);
	moving_close(&save.moving);
	return r;
}
