/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger/turn.h"

#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "base/word.h"
#include "ledger/policy_file.h"

const struct turn *turn_of(const struct policy_map *map)
{
	return &map->file->turn;
}

bool turn_silent(const struct turn *turn, uint64_t now_ns, uint64_t for_ns)
{
	uint64_t beat_ns = word_acquire(&turn->beat_ns);

	return beat_ns > now_ns ? beat_ns - now_ns > for_ns : now_ns - beat_ns > for_ns;
}

int turn_open(const char *dir, struct turn **ret)
{
	CLEANUP_CLOSE int fd = -EBADF;
	struct policy_file *file;
	int r;

	fd = policy_file_open(dir);
	if (fd < 0)
		return fd;
	r = policy_file_map(fd, PROT_READ | PROT_WRITE, &file);
	if (r < 0)
		return r;
	*ret = &file->turn;
	return 0;
}

static struct policy_file *turn_file(struct turn *turn)
{
	return (struct policy_file *)((char *)turn - offsetof(struct policy_file, turn));
}

void turn_close(struct turn *turn)
{
	struct policy_file *file;

	if (!turn)
		return;
	file = turn_file(turn);
	policy_file_unmap(&file);
}

void turn_say_stranded(struct turn *turn, int device, uint64_t bytes)
{
	word_write(&turn_file(turn)->stranded_bytes[device], bytes);
}

uint64_t turn_stranded(const struct policy_map *map, int device)
{
	return word_read(&map->file->stranded_bytes[device]);
}
