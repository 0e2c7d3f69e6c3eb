/* SPDX-License-Identifier: Apache-2.0 */
/* Of a build without AMD GPUs: a process has no memory there, so there is nothing to move. */
#include "guest/amd/memory/again.h"
#include "guest/swap/amd/amd_move.h"

static enum swap_why amd_none_well(void *self)
{
	return SWAP_FINE;
}

static enum swap_why amd_none_prepare(void *self, uint64_t *ret_amount)
{
	return SWAP_FINE;
}

static uint64_t amd_none_bytes(void *self, uint32_t part)
{
	return 0;
}

static bool amd_none_take(void *self, uint64_t host_bytes, const char *dir)
{
	return true;
}

static struct mover_file amd_none_file(void *self)
{
	return (struct mover_file){0};
}

static enum swap_why amd_none_out(void *self, uint32_t part)
{
	return SWAP_FINE;
}

static bool amd_none_is_away(const void *self)
{
	return false;
}

static uint64_t amd_none_away(void *self)
{
	return 0;
}

static uint64_t amd_none_kept(const void *self)
{
	return 0;
}

static void amd_none_nothing(void *self)
{
}

const struct mover_kind amd_move_kind = {
	.rest = amd_none_well,
	.prepare = amd_none_prepare,
	.bytes = amd_none_bytes,
	.take = amd_none_take,
	.file = amd_none_file,
	.out = amd_none_out,
	.back = amd_none_well,
	.is_away = amd_none_is_away,
	.away = amd_none_away,
	.done = amd_none_nothing,
	.kept = amd_none_kept,
	.forget = amd_none_nothing,
};

enum swap_why amd_move_ask_again(struct amd_move *move)
{
	return SWAP_FINE;
}

uint64_t amd_again_obstacle(struct guest *guest)
{
	return 0;
}

void amd_again(struct guest *guest)
{
}
