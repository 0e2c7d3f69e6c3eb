/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/swap/mover.h"

#include "base/number.h"

#define FOR_EACH_MOVER(movers, each) \
	for (const struct mover *each = (movers)->mover; each < (movers)->mover + MOVERS; each++)

bool movers_are_away(const struct movers *movers)
{
	FOR_EACH_MOVER(movers, each)
		if (each->kind->is_away(each->self))
			return true;
	return false;
}

enum swap_why movers_prepare(const struct movers *movers, uint64_t *ret_amount)
{
	enum swap_why why = SWAP_FINE;

	for (int i = 0; !why && i < MOVERS; i++)
		why = movers->mover[i].kind->prepare(movers->mover[i].self, ret_amount);
	return why;
}

uint64_t movers_bytes(const struct movers *movers, uint32_t part)
{
	uint64_t bytes = 0;

	FOR_EACH_MOVER(movers, each)
		bytes += each->kind->bytes(each->self, part);
	return bytes;
}

uint64_t movers_away(const struct movers *movers)
{
	uint64_t bytes = 0;

	FOR_EACH_MOVER(movers, each)
		bytes += each->kind->away(each->self);
	return bytes;
}

uint64_t movers_kept(const struct movers *movers)
{
	uint64_t bytes = 0;

	FOR_EACH_MOVER(movers, each)
		bytes += each->kind->kept(each->self);
	return bytes;
}

uint64_t movers_empty(const struct movers *movers)
{
	uint64_t bytes = 0;

	FOR_EACH_MOVER(movers, each)
		if (each->kind->empty)
			bytes += each->kind->empty(each->self);
	return bytes;
}

bool movers_know(const struct movers *movers)
{
	FOR_EACH_MOVER(movers, each)
		if (each->kind->knows && each->kind->knows(each->self))
			return true;
	return false;
}

struct mover_file movers_file(const struct movers *movers)
{
	struct mover_file all = {0};

	FOR_EACH_MOVER(movers, each) {
		struct mover_file file = each->kind->file(each->self);

		all.bytes += file.bytes;
		all.holds += file.holds;
		all.error = all.error ? all.error : file.error;
	}
	return all;
}

enum mover_work movers_work(const struct movers *movers)
{
	enum mover_work all = MOVER_BY_CALLS;

	FOR_EACH_MOVER(movers, each)
		if (each->kind->look)
			all = max_u64(all, each->kind->look(each->self));
	return all;
}

bool movers_come(const struct movers *movers)
{
	bool any = false;

	FOR_EACH_MOVER(movers, each)
		if (each->kind->come)
			any |= each->kind->come(each->self);
	return any;
}

void movers_come_end(const struct movers *movers)
{
	FOR_EACH_MOVER(movers, each)
		if (each->kind->come_end)
			each->kind->come_end(each->self);
}

void movers_done(const struct movers *movers)
{
	FOR_EACH_MOVER(movers, each)
		each->kind->done(each->self);
}

void movers_yield(const struct movers *movers)
{
	FOR_EACH_MOVER(movers, each)
		if (each->kind->yield)
			each->kind->yield(each->self);
}

void movers_forget(const struct movers *movers)
{
	FOR_EACH_MOVER(movers, each)
		each->kind->forget(each->self);
}

bool movers_ahead(const struct movers *movers, uint32_t part, uint64_t least)
{
	bool all = true;

	FOR_EACH_MOVER(movers, each)
		if (each->kind->ahead)
			all &= each->kind->ahead(each->self, part, least);
	return all;
}

static enum swap_why mover_move(const struct mover *mover, uint32_t part)
{
	return part ? mover->kind->out(mover->self, part) : mover->kind->back(mover->self);
}

enum swap_why movers_move(const struct movers *movers, uint32_t part, uint32_t before)
{
	bool follows = part && movers_are_away(movers);
	enum swap_why why = SWAP_FINE;
	int i = 0;

	while (i < MOVERS && !(why = mover_move(&movers->mover[i], part)))
		i++;
	while (why && !follows && i-- > 0)
		mover_move(&movers->mover[i], before);
	return why;
}
