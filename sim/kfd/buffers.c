/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handles of render nodes, as this process uses them (handles.c has them all). What one open() is
 * given another may be given for other memory: a description is told by its file offset, which the
 * emulator sets when it opens a render node. Like the description's handles it is shared by whoever has
 * it, over dup, fork and sockets.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "sim/kfd/array.h"
#include "sim/kfd/gem.h"
#include "sim/kfd/handles.h"
#include "sim/shared.h"

static uint64_t *met; /* files that this process uses */
static uint32_t nmet, room;

void emu_files_forget(void)
{
	free(met);
	met = NULL;
	nmet = room = 0;
}

static bool buffers_has_met(uint64_t file)
{
	for (uint32_t i = 0; i < nmet; i++)
		if (met[i] == file)
			return true;
	return false;
}

void emu_file_met(uint64_t file)
{
	uint64_t *grown;

	if (buffers_has_met(file) || !(grown = array_grow(met, &room, nmet, sizeof(*grown))))
		return;
	met = grown;
	met[nmet++] = file;
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

static bool buffers_fill(const struct emu_machine *m, const struct handle *h,
			 struct emu_buffer *ret)
{
	uint32_t minor;

	*ret = (struct emu_buffer){.file = h->file, .minor = h->minor, .handle = h->handle};
	if (bank_find_key(m->bank, h->key, &ret->piece) < 0)
		return false;
	minor = m->gpu[ret->piece.gpu].minor;
	ret->imported = h->minor != (int32_t)minor && h->minor != TREE_CARD(minor);
	return true;
}

bool emu_buffer(const struct emu_machine *m, uint64_t file, uint32_t handle, struct emu_buffer *ret)
{
	struct handle h;

	return handles_find(bank_handles(m->bank), file, handle, &h) && buffers_fill(m, &h, ret);
}

bool emu_buffer_nth(const struct emu_machine *m, uint64_t file, uint32_t n, struct emu_buffer *ret)
{
	struct handle h;

	return handles_nth(bank_handles(m->bank), file, n, &h) && buffers_fill(m, &h, ret);
}

uint32_t emu_buffer_of(const struct emu_machine *m, uint64_t file, uint64_t key)
{
	return handles_of_key(bank_handles(m->bank), file, key);
}

bool emu_buffer_here(const struct emu_machine *m, uint64_t key, struct emu_buffer *ret)
{
	for (uint32_t i = 0; i < nmet; i++) {
		uint32_t handle = emu_buffer_of(m, met[i], key);

		if (handle && emu_buffer(m, met[i], handle, ret))
			return true;
	}
	return false;
}

int emu_buffer_add(struct emu_machine *m, struct emu_buffer *b)
{
	struct handle h = {b->piece.key, b->file, b->minor, 0};
	int r = handles_add(bank_handles(m->bank), &h);

	if (r < 0)
		return r;
	bank_leave(m->bank, &b->piece);
	b->handle = h.handle;
	return (int)h.handle;
}

void emu_buffer_close(struct emu_machine *m, const struct emu_buffer *b)
{
	const struct handle h = {b->piece.key, b->file, b->minor, b->handle};

	handles_drop(bank_handles(m->bank), &h);
	bank_look_at(m->bank, &b->piece);
}
