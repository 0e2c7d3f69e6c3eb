/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger/turn.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
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

void turn_say_waits(struct turn *turn, const struct turn_waits *waits)
{
	struct turn_waits *to = &turn_file(turn)->waits;
	const uint64_t *from = (const uint64_t *)waits;
	uint64_t begun = word_read(&to->begun) + 1;

	word_write(&to->begun, begun);
	word_fence();
	for (size_t i = 1; i < offsetof(struct turn_waits, begun) / sizeof(*from); i++)
		word_write((uint64_t *)to + i, from[i]);
	word_release(&to->number, begun);
}

bool turn_waits_hold(const struct turn_waits *waits, uint64_t now_ns)
{
	return waits->number && waits->number == waits->begun && waits->at_ns &&
	       waits->at_ns <= now_ns && now_ns - waits->at_ns <= TURN_WAITS_OLD_NS &&
	       memchr(waits->behind, '\0', sizeof(waits->behind));
}

uint64_t turn_stranded(const struct policy_map *map, int device)
{
	return word_read(&map->file->stranded_bytes[device]);
}
