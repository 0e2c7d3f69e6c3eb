/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#include "criu/dump.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "criu/abi.h"
#include "criu/gpu/drm.h"
#include "criu/kfd/kfd_dump.h"
#include "criu/kfd/kfd_image.h"
#include "criu/kfd_reach.h"
#include "criu/say.h"
#include "criu/whose.h"
#include "image/crc32c.h"

/* --- Records of the dump -------------------------------------------------------------------- */

void dump_done(struct dump *d)
{
	for (uint32_t i = 0; i < d->catalog.n[CATALOG_BUFFERS]; i++)
		close(d->buffers[i].place.fd);
	for (uint32_t i = 0; i < d->catalog.n[CATALOG_FILES]; i++)
		close(d->files[i].fd);
	for (uint32_t i = 0; i < d->catalog.n[CATALOG_DMABUFS]; i++)
		close(d->dmabufs[i]);
	free(d->buffers);
	free(d->files);
	free(d->dmabufs);
	free(d->imported);
	kfd_dump_close(d->kfd);
	keeper_end(&d->keeper);
	topology_free(d->topology);
	for (uint32_t i = 0; i < d->nkfds; i++)
		close(d->kfds[i]);
	free(d->kfds);
	catalog_done(&d->catalog);
	*d = (struct dump){0};
}

/* A list beside one of the catalog's: state of each record during the dump. */
static int dump_add(struct dump *d, enum catalog_list list, const void *record, void *beside,
		    size_t bytes, const void *is)
{
	uint32_t n = d->catalog.n[list];
	char *longer = reallocarray(*(void **)beside, n + 1, bytes);

	if (!longer)
		return -ENOMEM;
	*(void **)beside = longer;
	memcpy(longer + n * bytes, is, bytes);
	return catalog_add(&d->catalog, list, record);
}

int dump_add_buffer(struct dump *d, const struct catalog_buffer *buffer, const struct dump_buffer *is)
{
	return dump_add(d, CATALOG_BUFFERS, buffer, &d->buffers, sizeof(*is), is);
}

int dump_add_file(struct dump *d, const struct catalog_file *file, const struct dump_file *is)
{
	return dump_add(d, CATALOG_FILES, file, &d->files, sizeof(*is), is);
}

int dump_add_holder(struct dump *d, const struct catalog_holder *holder, bool imported)
{
	return dump_add(d, CATALOG_HOLDERS, holder, &d->imported, sizeof(imported), &imported);
}

int dump_add_dmabuf(struct dump *d, const struct catalog_dmabuf *dmabuf, int fd)
{
	return dump_add(d, CATALOG_DMABUFS, dmabuf, &d->dmabufs, sizeof(fd), &fd);
}

int dump_find(const struct dump *d, uint64_t inode)
{
	for (uint32_t i = 0; i < d->catalog.n[CATALOG_BUFFERS]; i++)
		if (d->buffers[i].inode == inode)
			return (int)i;
	return -ENOENT;
}

/* --- Owners --------------------------------------------------------------------------------- */

/*
 * Elects the owner: the first holder that did not import the buffer. All holders on its device are
 * alike, since it is one object to them. A buffer that a process made by /dev/kfd is that
 * process's; a buffer imported there is not.
 */
static int dump_elect(struct dump *d, uint32_t buffer)
{
	struct catalog *c = &d->catalog;
	uint32_t importer = CATALOG_NONE, kfd;
	bool of_kfd = d->kfd && d->buffers[buffer].inode &&
		      kfd_dump_find(d->kfd, (ino_t)d->buffers[buffer].inode, &kfd) == 0;
	char whose[64];

	c->buffers[buffer].owner = CATALOG_NONE;
	c->buffers[buffer].kfd_plus_one = of_kfd ? kfd + 1 : 0;
	if (of_kfd && kfd_dump_is_made(d->kfd, kfd))
		return 0;
	for (uint32_t i = 0; i < c->n[CATALOG_HOLDERS]; i++) {
		if (c->holders[i].buffer != buffer)
			continue;
		if (!d->imported[i]) {
			c->buffers[buffer].owner = i;
			if (of_kfd)
				kfd_dump_give(d->kfd, kfd);
			return 0;
		}
		importer = i;
	}
	if (of_kfd) /* which says so, where it has not made it either */
		return 0;
	whose_name(d->files[c->holders[importer].file].fd, whose, sizeof(whose));
	SAY_ERROR("buffer %u of %s (render node %u) was imported from a process that is not dumped "
		  "with it; dump both, or end their sharing",
		  c->holders[importer].handle, whose, c->files[c->holders[importer].file].minor);
	return -EXDEV;
}

/*
 * The kernel has to tell that a buffer is memory of /dev/kfd, too, by the inode of its dma-buf. Linux
 * 6.1 exports such memory anew for each checkpoint, so inodes differ, and a restore would make two
 * buffers of one. The offset at which the node maps the buffer is the same for all its holders.
 */
static int dump_check_told(const struct dump *d, uint32_t holder)
{
	const struct catalog_holder *h = &d->catalog.holders[holder];
	uint32_t minor = d->catalog.files[h->file].minor, mapped, told;
	char whose[64];

	if (!d->kfd || !h->mmap_offset ||
	    kfd_dump_find_at(d->kfd, minor, h->mmap_offset, &mapped) < 0)
		return 0;
	if (kfd_dump_find(d->kfd, (ino_t)d->buffers[h->buffer].inode, &told) == 0 && told == mapped)
		return 0;
	whose_name(d->files[h->file].fd, whose, sizeof(whose));
	SAY_ERROR("buffer %u of %s (render node %u) is memory of /dev/kfd, too, and the kernel does not "
		  "tell that it is the same: a later one does (Linux 6.12)",
		  h->handle, whose, minor);
	return -EOPNOTSUPP;
}

static int dump_find_owners(struct dump *d)
{
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < d->catalog.n[CATALOG_HOLDERS]; i++)
		r = dump_check_told(d, i);
	for (uint32_t i = 0; r == 0 && i < d->catalog.n[CATALOG_BUFFERS]; i++)
		r = dump_elect(d, i);
	return r;
}

/* The buffer with that inode, which may be of /dev/kfd alone. */
static int dump_find_any(struct dump *d, int dmabuf, uint64_t inode)
{
	const struct catalog_buffer none = {.owner = CATALOG_NONE};
	struct dump_buffer is = {.inode = inode};
	uint32_t kfd;
	int r = dump_find(d, inode);

	if (r >= 0 || !d->kfd || kfd_dump_find(d->kfd, (ino_t)inode, &kfd) < 0)
		return r;
	is.place.fd = fcntl(dmabuf, F_DUPFD_CLOEXEC, 0);
	if (is.place.fd < 0)
		return err_errno();
	r = dump_add_buffer(d, &none, &is);
	if (r < 0)
		close(is.place.fd);
	else
		d->catalog.buffers[r].kfd_plus_one = kfd + 1;
	return r;
}

/* Descriptors came in any order with the files. Now all buffers are known. */
static int dump_find_dmabufs(struct dump *d)
{
	struct catalog *c = &d->catalog;
	char whose[64];

	for (uint32_t i = 0; i < c->n[CATALOG_DMABUFS]; i++) {
		struct stat st;
		int buffer = fstat(d->dmabufs[i], &st) < 0
				     ? err_errno()
				     : dump_find_any(d, d->dmabufs[i], st.st_ino);

		if (buffer < 0) {
			whose_name(d->dmabufs[i], whose, sizeof(whose));
			SAY_ERROR("%s is a dma-buf of no buffer of these processes: who exported it is "
				  "not dumped with them; dump it too, or close the descriptor",
				  whose);
			return -EXDEV;
		}
		c->dmabufs[i].buffer = (uint32_t)buffer;
		c->buffers[buffer].exported =
			(uint32_t)fcntl(d->dmabufs[i], F_GETFL) & O_ACCMODE;
	}
	return 0;
}

/* --- Into the image ------------------------------------------------------------------------- */

static int dump_write_catalog(const struct catalog *c, struct contents_seal *ret)
{
	CLEANUP_FREE void *text = NULL;
	size_t len;
	int r = catalog_pack(c, &text, &len);

	if (r == 0)
		r = contents_put_file(criu_get_image_dir(), CATALOG_FILE, text, len);
	if (r < 0)
		SAY_ERROR("%s cannot be written: %s", CATALOG_FILE, strerror(-r));
	else
		*ret = (struct contents_seal){len, crc32c(0, text, len)};
	return r;
}

struct join {
	const struct dump *dump;
	long *pids; /* of all that are dumped, as we call them; the kernel has others */
	int npids;
};

static bool dump_has_both(const struct join *join, int one, int other)
{
	for (int i = 0; i < join->npids; i++)
		if (whose_descriptor(join->pids[i], one) >= 0 &&
		    whose_descriptor(join->pids[i], other) >= 0)
			return true;
	return false;
}

/* Finds the process's file of a render node, of that minor, beside its /dev/kfd. */
static uint32_t dump_find_render(void *arg, uint32_t process, uint32_t minor)
{
	const struct join *join = arg;
	const struct dump *d = join->dump;

	for (uint32_t i = 0; i < d->catalog.n[CATALOG_FILES]; i++)
		if (d->catalog.files[i].minor == minor &&
		    dump_has_both(join, d->kfds[process], d->files[i].fd))
			return d->catalog.files[i].id;
	return 0;
}

static int dump_join_kfd(struct dump *d)
{
	struct join join = {.dump = d};
	int r = 0;

	join.npids = whose_held(&join.pids);
	kfd_dump_join(d->kfd, dump_find_render, &join);
	if (!d->keeper.pid && join.npids >= 0)
		r = keeper_start(&d->keeper, join.pids, join.npids, d->kfds, (int)d->nkfds);
	free(join.pids);
	if (r < 0)
		SAY_ERROR("no process can be made that has queues go on if CRIU is killed: %s",
			  strerror(-r));
	return join.npids < 0 ? join.npids : r;
}

static int dump_write_kfd(struct dump *d)
{
	char why[KFD_WHY_BYTES];
	int r = kfd_dump_write(d->kfd, criu_get_image_dir(), 0, why);

	kfd_reach_close();
	if (r < 0)
		SAY_ERROR("%s", why);
	return r;
}

void dump_begin(void)
{
	unlinkat(criu_get_image_dir(), CATALOG_FILE, 0);
	unlinkat(criu_get_image_dir(), KFD_IMAGE_FILE, 0);
}

int dump_finish(struct dump *d)
{
	struct catalog *c = &d->catalog;
	CLEANUP_FREE struct content_place *places = NULL;
	struct contents_seal seal;
	int r;

	dump_begin();
	if (!c->n[CATALOG_FILES] && !c->n[CATALOG_DMABUFS] && !d->kfd)
		return 0;
	r = d->kfd ? dump_join_kfd(d) : 0;
	if (r == 0)
		r = dump_find_owners(d);
	if (r == 0)
		r = dump_find_dmabufs(d);
	for (uint32_t i = 0; r == 0 && i < c->n[CATALOG_FILES]; i++)
		if (d->files[i].check)
			r = d->files[i].check(d, i);
	if (r == 0 && d->kfd)
		r = dump_write_kfd(d);
	places = calloc(c->n[CATALOG_BUFFERS] + 1, sizeof(*places));
	if (r == 0 && (!places || getrandom(c->id, sizeof(c->id), 0) != sizeof(c->id)))
		r = -ENOMEM;
	if (r == 0)
		r = dump_write_catalog(c, &seal);
	for (uint32_t i = 0; r == 0 && i < c->n[CATALOG_BUFFERS]; i++)
		places[i] = d->buffers[i].place;
	for (uint32_t i = 0; r == 0 && i < c->n[CATALOG_FILES]; i++)
		r = content_save(c, i, &seal, places);
	return r;
}
