/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handles of render nodes. They are small numbers of an open file description: what one open()
 * is given another may be given for other memory. A description is told by its file offset, which
 * the emulator sets when it opens a render node: like the description's handles it is shared by
 * whoever has it, over dup, fork and sockets. It has a lock on the byte at that offset, which the
 * kernel drops with the last descriptor of it, anywhere: by that its end is seen.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/kfd/gem.h"
#include "sim/shared.h"

static struct emu_buffer *buffers;
static uint32_t nbuffers;

void emu_buffers_forget(void)
{
	free(buffers);
	buffers = NULL;
	nbuffers = 0;
}

struct emu_buffer *emu_buffers(uint32_t *ret_n)
{
	*ret_n = nbuffers;
	return buffers;
}

void emu_gem_opened(struct emu_machine *m, int fd)
{
	off_t at = (off_t)bank_unique(m->bank);

	lseek(fd, at, SEEK_SET);
	if (sim_byte_lock(fd, at, F_RDLCK) < 0)
		sim_byte_lock(fd, at, F_WRLCK); /* it was opened for writing alone */
}

uint64_t emu_file_of(int fd)
{
	return (uint64_t)lseek(fd, 0, SEEK_CUR);
}

struct emu_buffer *emu_buffer(uint64_t file, uint32_t handle)
{
	for (uint32_t i = 0; i < nbuffers; i++)
		if (buffers[i].piece.key && buffers[i].file == file && buffers[i].handle == handle)
			return &buffers[i];
	return NULL;
}

static struct emu_buffer *buffers_free_row(void)
{
	uint32_t i = 0, more = nbuffers ? 2 * nbuffers : 32;
	struct emu_buffer *grown;

	while (i < nbuffers && buffers[i].piece.key)
		i++;
	if (i < nbuffers)
		return &buffers[i];
	grown = more < 1u << 21 ? realloc(buffers, more * sizeof(*buffers)) : NULL;
	if (!grown)
		return NULL;
	memset(grown + nbuffers, 0, (more - nbuffers) * sizeof(*grown));
	buffers = grown;
	nbuffers = more;
	return &buffers[i];
}

int emu_buffer_add(const struct emu_buffer *buffer)
{
	struct emu_buffer *b = buffers_free_row();
	uint32_t handle = 1;

	if (!b)
		return -ENOMEM;
	while (emu_buffer(buffer->file, handle))
		handle++;
	*b = *buffer;
	b->handle = handle;
	return (int)handle;
}

bool emu_buffer_is(uint64_t file, uint64_t key)
{
	uint32_t n;
	const struct emu_buffer *all = emu_buffers(&n);

	for (uint32_t i = 0; i < n; i++)
		if (all[i].file == file && all[i].piece.key == key)
			return true;
	return false;
}
