/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/checkpoint/stored.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/now.h"
#include "cli/checkpoint/content.h"
#include "cli/checkpoint/paused.h"
#include "cli/checkpoint/tree.h"
#include "cli/say/say.h"
#include "cli/tenant/pids.h"
#include "cli/tenant/swap_dir.h"
#include "image/image.h"
#include "image/image_id.h"
#include "ledger/ledger.h"
#include "ledger/shared_file.h"
#include "ledger/slot.h"
#include "ledger/swap.h"

#define NOTE "image"

/* Processes that are back only have to see the request. */
#define AWAIT_NS (30 * NS_PER_S)
#define CRIU_NS	 (600 * NS_PER_S)
#define NAP_US	 20000

struct note_path {
	char s[PATH_MAX + sizeof("/" NOTE)];
};

static struct note_path stored_path(const char *tenant_dir)
{
	struct note_path path;

	snprintf(path.s, sizeof(path.s), "%s/" NOTE, tenant_dir);
	return path;
}

/* The content of the note. A note of an earlier version has the directory alone. */
struct stored {
	char text[PATH_MAX];
	const char *dir;
};

int stored_note(const char *tenant_dir, const uint8_t image_id[static 16], const char *image_dir)
{
	char text[IMAGE_ID_DIGITS + 1 + PATH_MAX];

	image_id_text(image_id, text);
	snprintf(text + IMAGE_ID_DIGITS, sizeof(text) - IMAGE_ID_DIGITS, " %s", image_dir);
	return symlink(text, stored_path(tenant_dir).s) < 0 ? -errno : 0;
}

void stored_forget(const char *tenant_dir)
{
	unlink(stored_path(tenant_dir).s);
}

static bool stored_read(const char *tenant_dir, struct stored *ret)
{
	ssize_t n = fd_read_link(AT_FDCWD, stored_path(tenant_dir).s, ret->text, sizeof(ret->text));

	if (n < 0)
		return false;
	ret->dir = n > IMAGE_ID_DIGITS && ret->text[IMAGE_ID_DIGITS] == ' ' && *ret->text != '/'
			   ? ret->text + IMAGE_ID_DIGITS + 1
			   : ret->text;
	return true;
}

/* The one that the note was about. */
static bool stored_is_of(const struct stored *stored, const struct image *image)
{
	char id[IMAGE_ID_DIGITS + 1];

	image_id_text(image_manifest(image)->id, id);
	return stored->dir == stored->text || !memcmp(stored->text, id, IMAGE_ID_DIGITS);
}

bool stored_is(const struct moving *moving)
{
	struct stored stored;

	return stored_read(moving->dir, &stored);
}

/* `allot checkpoint` may have been killed while CRIU still writes there. */
static int stored_await_criu(const struct moving *moving, const char *dir)
{
	CLEANUP_CLOSE int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	uint64_t until_ns = now_monotonic_ns() + CRIU_NS;
	unsigned int nap = NAP_US;

	while (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK) {
		if (now_monotonic_ns() > until_ns)
			return say_error("CRIU is still at work on tenant \"%s\"; wait for its end",
					 moving->name);
		shared_file_nap(&nap, NAP_US);
	}
	return 0;
}

/*
 * Continues processes that CRIU left stopped; the command that was to end or continue them is gone.
 */
static int stored_continue(const struct moving *moving)
{
	struct pids pids;
	struct tree tree;
	int r = pids_find(moving, &pids);

	if (r)
		return r;
	r = tree_find(moving->dir, &pids, &tree);
	if (!r) {
		paused_let_go(&tree);
		tree_signal(&tree, SIGCONT);
		tree_free(&tree);
	}
	pids_free(&pids);
	return r;
}

/*
 * Processes from an image take their slots, and each answers that it is in `phase`: for GIVEN, that
 * it has no content, and how much it had.
 */
static int stored_await(struct moving *moving, enum swap_phase phase, uint64_t *ret_bytes)
{
	uint64_t until_ns = now_monotonic_ns() + AWAIT_NS;
	struct swap_sum sum;
	unsigned int nap = NAP_US;

	swap_desk_set_split(moving->desk, 0);
	for (;;) {
		sum = moving_ask(moving, phase, AWAIT_NS, false);
		ledger_refresh(moving->ledger);
		*ret_bytes = sum.bytes;
		if (!sum.silent && !slot_awaited(moving->ledger))
			return sum.refused ? say_error("a process of tenant \"%s\" refuses",
						       moving->name)
					   : 0;
		if (now_monotonic_ns() > until_ns)
			return say_error("%u process%s of tenant \"%s\" did not come back",
					 sum.silent + slot_awaited(moving->ledger),
					 sum.silent + slot_awaited(moving->ledger) == 1 ? "" : "es",
					 moving->name);
		shared_file_nap(&nap, NAP_US);
	}
}

/*
 * Content that the host has no room for goes to a file again. Each process reserves room there, or
 * says why it cannot.
 */
static int stored_divide(struct moving *moving, uint64_t bytes)
{
	uint64_t room = swap_dir_host_room(moving->swap_dir, moving->host_bytes, 0);
	uint64_t split = swap_split_of(bytes, room);
	struct swap_sum sum;

	if (!*moving->swap_dir)
		return 0;
	swap_desk_set_split(moving->desk, split ? split : SWAP_SPLIT_HOST);
	sum = moving_ask(moving, SWAP_GIVEN, moving->patience_ns, true);
	if (!sum.refused && !sum.silent)
		return 0;
	return say_fail(moving_status(&sum), "tenant \"%s\" has no room for its content",
			moving->name);
}

static int stored_open(const struct moving *moving, const struct stored *stored,
		       struct image **ret)
{
	struct damage damage = {.text = ""};
	struct image *image;
	int r = image_open(stored->dir, true, &image, &damage);

	if (r < 0)
		return say_error("the content of tenant \"%s\" is in %s, which cannot be read: %s",
				 moving->name, stored->dir,
				 *damage.text ? damage.text : say_errno(r));
	if (!stored_is_of(stored, image)) {
		image_close(image);
		return say_error("the content of tenant \"%s\" was in %s, where another image is "
				 "now; put back the one that was there",
				 moving->name, stored->dir);
	}
	*ret = image;
	return 0;
}

static int stored_put_back(struct moving *moving, const struct stored *stored)
{
	struct image *image = NULL;
	struct pids pids;
	uint64_t bytes;
	int r = stored_open(moving, stored, &image);

	if (r)
		return r;
	r = stored_await(moving, SWAP_GIVEN, &bytes);
	if (!r)
		r = stored_divide(moving, bytes);
	if (!r)
		r = pids_find(moving, &pids);
	if (!r) {
		r = content_put_back(moving, &pids, image);
		pids_free(&pids);
	}
	image_close(image);
	return r;
}

/* To where all content is in the processes. */
static int stored_return_content(struct moving *moving, const struct stored *stored)
{
	struct swap_sum sum;
	/* BARE: the command that wrote the note was killed before any content was given away. */
	int r = moving_rests(moving) == SWAP_BARE ? 0 : stored_put_back(moving, stored);

	if (r)
		return r;
	sum = moving_ask(moving, SWAP_BARE, moving->patience_ns, true);
	if (!sum.refused && !sum.silent)
		return 0;
	return say_fail(moving_status(&sum), "tenant \"%s\" does not take its content back",
			moving->name);
}

int stored_return(struct moving *moving)
{
	uint64_t bytes;
	struct stored stored;
	int r;

	if (!stored_read(moving->dir, &stored))
		return moving_rests(moving) == SWAP_GIVEN
			       ? say_error("tenant \"%s\": nothing says where its content is",
					   moving->name)
			       : 0;
	r = stored_await_criu(moving, stored.dir);
	if (!r)
		r = stored_continue(moving);
	if (!r)
		r = moving_rests(moving) == SWAP_RUN ? stored_await(moving, SWAP_RUN, &bytes)
						     : stored_return_content(moving, &stored);
	if (!r)
		stored_forget(moving->dir);
	return r;
}
