/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#include "criu/untold.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "criu/kfd/kfd_dump.h"
#include "criu/noted.h"
#include "criu/occupied.h"
#include "criu/say.h"
#include "criu/whose.h"

int untold_read(int fd, struct untold *ret)
{
	int r = noted_read(fd, &ret->list, &ret->n);

	ret->left = ret->n;
	return r;
}

void untold_done(struct untold *untold)
{
	free(untold->list);
}

const char *untold_words(int error)
{
	switch (error) {
	case -EAGAIN:
		return "its process was stopped while it noted where its buffers are; try again";
	case -EOVERFLOW:
		return "its process had no room to note where all of its buffers are";
	case -EPROTO:
		return UNTOLD_NONSENSE;
	}
	return "what its process noted of its addresses cannot be read";
}

int untold_take(struct dump *dump, struct untold *untold, uint32_t holder, uint64_t bytes)
{
	uint32_t handle = dump->catalog.holders[holder].handle;

	for (uint32_t i = 0; i < untold->n; i++) {
		const struct amd_address *a = &untold->list[i];
		const struct catalog_mapping mapping = {.holder = holder, .flags = a->flags,
							.address = a->at, .offset = a->offset,
							.bytes = a->bytes};
		int r;

		if (a->handle != handle)
			continue;
		if (a->offset > bytes || a->bytes > bytes - a->offset)
			return -EPROTO;
		r = catalog_add(&dump->catalog, CATALOG_MAPPINGS, &mapping);
		if (r < 0)
			return r;
		untold->left--;
	}
	return 0;
}

/* --- Is it all? -------------------------------------------------------------------------------- */

struct taken {
	struct occupied *list;
	uint32_t n;
};

/* Whole pages, as the kernel has them. */
static int untold_add(void *arg, uint64_t address, uint64_t bytes)
{
	const uint64_t page = AMD_ADDRESSES_PAGE;
	uint64_t from = address & AMD_ADDRESSES_MASK & ~(page - 1);
	uint64_t end = ((address & AMD_ADDRESSES_MASK) + bytes + page - 1) & ~(page - 1);
	struct taken *taken = arg;
	struct occupied *longer = reallocarray(taken->list, taken->n + 1, sizeof(*longer));

	if (!longer)
		return -ENOMEM;
	taken->list = longer;
	longer[taken->n++] = (struct occupied){from, end - from};
	return 0;
}

static int untold_gather(const struct dump *dump, uint32_t file, struct taken *ret)
{
	const struct catalog *c = &dump->catalog;
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < c->n[CATALOG_MAPPINGS]; i++)
		if (c->holders[c->mappings[i].holder].file == file)
			r = untold_add(ret, c->mappings[i].address, c->mappings[i].bytes);
	if (r == 0 && dump->kfd)
		r = kfd_dump_addresses(dump->kfd, c->files[file].id, untold_add, ret);
	return r;
}

static int untold_refuse(const struct dump *dump, uint32_t file, int r, const struct occupied *what)
{
	unsigned long at = (unsigned long)what->at;
	char whose[64];

	whose_name(dump->files[file].fd, whose, sizeof(whose));
	if (r == -EEXIST)
		SAY_ERROR("%s: it has buffers at addresses of the GPU between %#lx and %#lx that no "
			  "tenant's process noted, and this kernel cannot say which; Linux 6.18 can",
			  whose, at, at + (unsigned long)what->bytes);
	else if (r == -ENOENT || r == -EINVAL)
		SAY_ERROR("%s: its process noted a buffer at %#lx of the GPU, and %s", whose, at,
			  r == -ENOENT ? "none is there" : "another one there as well");
	else
		SAY_ERROR("%s: its addresses cannot be looked at: %s", whose, strerror(-r));
	return r;
}

int untold_check(const struct dump *dump, uint32_t file)
{
	struct taken taken = {.n = 0};
	struct occupied what = {0, 0};
	int r = untold_gather(dump, file, &taken);

	if (r == 0)
		r = occupied_check(dump->files[file].fd, taken.list, taken.n, &what);
	free(taken.list);
	return r < 0 ? untold_refuse(dump, file, r, &what) : 0;
}
