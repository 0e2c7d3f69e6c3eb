/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where memory of a render node is to be mapped (GEM_MMAP), and /proc/self/maps as it is with the
 * driver: what a program maps of a node stands there under the node's name, at the offset that it
 * gave, and dma-bufs are called so. What stands in for the kernel's own memory is left out.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "amd/abi/drm.h"
#include "base/cleanup.h"
#include "sim/kfd/emu.h"
#include "sim/kfd/gem.h"
#include "sim/kfd/memory.h"

#define DEVICE "00:05" /* devtmpfs, say */

/* A line of the file. */
struct line {
	uint64_t start, end, offset;
	char perms[8];
	unsigned long inode;
	const char *path; /* to the end of the line; "" */
};

static bool maps_parse(const char *text, struct line *ret)
{
	int n = 0;

	if (sscanf(text, "%" SCNx64 "-%" SCNx64 " %7s %" SCNx64 " %*s %lu %n", &ret->start,
		   &ret->end, ret->perms, &ret->offset, &ret->inode, &n) < 5)
		return false;
	ret->path = text + n;
	return true;
}

/* Where this process has a piece of memory. */
struct place {
	uint64_t offset; /* of the render node */
	int minor;
};

static bool maps_find_place(const struct emu_machine *m, uint64_t key, struct place *ret)
{
	struct emu_buffer b;

	for (uint32_t g = 0; g < m->ngpus; g++)
		for (uint32_t i = 0; i < m->gpu[g].nobjects; i++) {
			const struct emu_object *o = &m->gpu[g].objects[i];

			if (o->piece.key != key)
				continue;
			*ret = (struct place){emu_object_offset(&m->gpu[g], o),
					      (int)m->gpu[g].minor};
			return true;
		}
	if (!emu_buffer_here(m, key, &b))
		return false;
	*ret = (struct place){emu_gem_offset(&b), b.minor};
	return true;
}

/* Memory has one offset in a node, by whichever handle it is asked for there. */
int emu_gem_mmap(struct emu_machine *m, struct emu_gpu *gpu, int fd, void *block)
{
	union drm_amdgpu_gem_mmap *a = block;
	struct emu_buffer b;
	struct place place;

	if (!emu_buffer(m, emu_file_of(fd), a->in.handle, &b))
		return -ENOENT;
	if (b.piece.flags & BANK_NO_CPU)
		return -EPERM;
	a->out.addr_ptr = maps_find_place(m, b.piece.key, &place) &&
					  place.minor == (int)gpu->minor
				  ? place.offset
				  : emu_gem_offset(&b);
	return 0;
}

/* A mapping of a piece's content: as a node's, as a dma-buf's, or the emulator's own. */
static void maps_write_content(const struct emu_machine *m, FILE *to, const struct line *line,
			       const char *name)
{
	struct place place = {.minor = (int)m->gpu[0].minor};
	char *as;
	uint64_t key = strtoull(name, &as, 16);

	if (!strncmp(as, BANK_NODE, strlen(BANK_NODE))) {
		maps_find_place(m, key, &place); /* else its handle is gone */
		fprintf(to,
			"%" PRIx64 "-%" PRIx64 " %s %08" PRIx64 " " DEVICE
			" %d /dev/dri/renderD%d\n",
			line->start, line->end, line->perms, place.offset + line->offset,
			place.minor, place.minor);
	} else if (!strncmp(as, BANK_DMABUF, strlen(BANK_DMABUF))) {
		fprintf(to, "%" PRIx64 "-%" PRIx64 " %s %08" PRIx64 " " DEVICE " %lu /dmabuf:\n",
			line->start, line->end, line->perms, line->offset, line->inode);
	}
}

static void maps_write_line(const struct emu_machine *m, FILE *to, const char *text)
{
	const char *root = emu_root(), *name;
	struct line line;

	if (!maps_parse(text, &line) || strncmp(line.path, root, strlen(root))) {
		fprintf(to, "%s\n", text);
		return;
	}
	name = line.path + strlen(root);
	if (!strncmp(name, BANK_DIR "/", strlen(BANK_DIR "/")))
		maps_write_content(m, to, &line, name + strlen(BANK_DIR "/"));
	else if (strncmp(name, "/dev/", strlen("/dev/"))) /* as the kernel keeps a file */
		fprintf(to, "%s\n", text);
}

static void maps_write(const struct emu_machine *m, FILE *to, char *text)
{
	char *save, *line = strtok_r(text, "\n", &save);

	for (; line; line = strtok_r(NULL, "\n", &save))
		maps_write_line(m, to, line);
}

static char *maps_read_all(int fd)
{
	size_t room = 1 << 16, n = 0;
	char *text = malloc(room), *grown;
	ssize_t got = 0;

	while (text && (got = read(fd, text + n, room - n - 1)) > 0) {
		n += (size_t)got;
		if (room - n > 4096)
			continue;
		room *= 2;
		grown = realloc(text, room);
		if (!grown)
			free(text);
		text = grown;
	}
	if (text)
		text[n] = 0;
	return text;
}

/* Under the lock. A file in memory with what is to be read, in the place of `fd`. */
static void maps_exchange(const struct emu_machine *m, int fd, int flags)
{
	CLEANUP_FREE char *text = maps_read_all(fd);
	int shown = memfd_create("maps", MFD_CLOEXEC), copy = shown < 0 ? -1 : dup(shown);
	FILE *to = copy < 0 ? NULL : fdopen(copy, "w");

	if (text && to)
		maps_write(m, to, text);
	if (to)
		fclose(to);
	else if (copy >= 0)
		close(copy);
	if (shown >= 0) {
		lseek(shown, 0, SEEK_SET);
		syscall(SYS_dup3, shown, fd, flags);
		syscall(SYS_close, shown);
	}
}

void emu_maps_opened(int fd, const char *path, int flags)
{
	struct emu_machine *m;

	if (strcmp(path, "/proc/self/maps") && strcmp(path, "/proc/thread-self/maps"))
		return;
	m = *emu_root() ? emu_lock() : NULL;
	if (!m)
		return;
	maps_exchange(m, fd, flags & O_CLOEXEC);
	emu_unlock();
}
