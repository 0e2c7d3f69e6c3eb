/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger/swap.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/futex.h"
#include "base/number.h"
#include "base/word.h"
#include "ledger/map.h"
#include "ledger/policy_file.h"
#include "ledger/quota.h"
#include "ledger/shared_file.h"
#include "ledger/slot.h"

/*
 * Lock bytes of the policy file, next to the writers' lock of policy.c. Every requester holds
 * LOCK_DESK + the desk's number; commands also hold LOCK_COMMAND. A holder of LOCK_DESK alone is
 * therefore a (former) role holder.
 */
#define LOCK_DESK    ((INT64_C(1) << 40) + 1)
#define LOCK_COMMAND (INT64_C(1) << 41)
/* Shared by commands that want the tenant back. */
#define LOCK_WANTED (LOCK_COMMAND + 1)

/* In pages of 4 KiB, 32 bits express 16 TiB, more than any host has. */
#define SPLIT_BYTES UINT64_C(4096)

/* A file's size in an answer is in pages, beside its errno. */
#define FILE_PAGE UINT64_C(4096)

/* No descriptor: it may be held in a program of which nobody knows which ones it closes. */
struct swap_desk {
	struct policy_file *file; /* a mapping of the description that has the lock, */
	void *lock;		  /* unless that is this one's: see policy_file_open_lock() */
	uint32_t number;	  /* that it had when it was opened */
	uint32_t request;	  /* what it was asked for last, as far as this desk knows */
};

/* Which nobody touches: the mapping keeps the description, and so the lock. */
#define LOCK_MAP_BYTES 1

void swap_desk_close(struct swap_desk *desk)
{
	if (!desk)
		return;
	policy_file_unmap(&desk->file);
	if (desk->lock)
		munmap(desk->lock, LOCK_MAP_BYTES);
	free(desk);
}

DEFINE_CLEANUP(struct swap_desk, swap_desk_close)

static int swap_keep_lock(int fd, void **ret)
{
	void *map = mmap(NULL, LOCK_MAP_BYTES, PROT_NONE, MAP_SHARED, fd, 0);
	int r;

	if (map == MAP_FAILED)
		return err_errno();
	if (madvise(map, LOCK_MAP_BYTES, MADV_DONTFORK) < 0) {
		r = err_errno();
		munmap(map, LOCK_MAP_BYTES);
		return r;
	}
	*ret = map;
	return 0;
}

/* -EAGAIN: another has it, or it was cleared meanwhile. */
static int swap_desk_lock(struct swap_desk *desk, int fd, enum swap_asker asker)
{
	uint32_t number = word_check(&desk->file->desk);
	int r = asker == SWAP_ROLE ? 0 : shared_file_lock(fd, LOCK_COMMAND, 1);

	desk->number = asker == SWAP_SUCCESSOR ? number + 1 : number;
	if (!r)
		r = shared_file_lock(fd, LOCK_DESK + desk->number, 1);
	if (!r && asker == SWAP_SUCCESSOR)
		word_swap_if_u32(&desk->file->desk, number, desk->number);
	if (!r && word_check(&desk->file->desk) != desk->number)
		r = -EAGAIN;
	desk->request = word_check(&desk->file->swap);
	return r;
}

int swap_desk_open(const char *dir, enum swap_asker asker, struct swap_desk **ret)
{
	CLEANUP(cleanup_swap_desk_close) struct swap_desk *desk = calloc(1, sizeof(*desk));
	CLEANUP_CLOSE int fd = -EBADF;
	CLEANUP_CLOSE int lock = -EBADF;
	int r;

	if (!desk)
		return -ENOMEM;
	fd = policy_file_open(dir);
	if (fd < 0)
		return fd;
	lock = policy_file_open_lock(dir);
	if (lock < 0 && lock != -ENOENT)
		return lock;
	r = policy_file_map(fd, PROT_READ | PROT_WRITE, &desk->file);
	if (r < 0)
		return r;
	r = swap_desk_lock(desk, lock < 0 ? fd : lock, asker);
	if (r < 0)
		return r == -EAGAIN ? -EBUSY : r;
	r = lock < 0 ? 0 : swap_keep_lock(lock, &desk->lock);
	if (r < 0)
		return r;
	/* Processes cannot open that file, and look at this one. */
	if (lock >= 0)
		(void)shared_file_lock(fd, LOCK_DESK + desk->number, 1);
	*ret = TAKE_PTR(desk);
	return 0;
}

uint32_t swap_desk_request(const struct swap_desk *desk)
{
	return word_acquire(&desk->file->swap);
}

bool swap_desk_is_cleared(const struct swap_desk *desk)
{
	return word_check(&desk->file->desk) != desk->number ||
	       word_check(&desk->file->swap) != desk->request;
}

static bool swap_desk_write(struct swap_desk *desk, enum swap_phase phase, uint32_t part)
{
	uint32_t number = (desk->request >> 16) + 1;
	uint32_t request = number << 16 | part << 8 | phase;

	/*
	 * Pairs with a process's claim of its slot: one of the two sees the other. A requester that
	 * was stopped until another one had cleared the desk finds another request there, and asks
	 * for nothing.
	 */
	if (!word_swap_if_u32(&desk->file->swap, desk->request, request))
		return false;
	desk->request = request;
	FAULT_POINT(SWAP_ASKED);
	futex_wake_all(&desk->file->swap);
	return true;
}

uint32_t swap_desk_ask(struct swap_desk *desk, enum swap_phase phase)
{
	uint32_t before = desk->request;
	bool comes = phase == SWAP_COME || phase == SWAP_BACK;
	bool came = swap_phase_of(before) == SWAP_COME || swap_phase_of(before) == SWAP_BACK;
	bool back = comes && swap_phase_is_out(swap_phase_of(before));
	bool again = phase == SWAP_OUT && came;
	uint32_t part = back || again ? swap_part_of(before) : phase == SWAP_RUN ? 0 : SWAP_ALL;

	swap_desk_write(desk, phase, part);
	return desk->request;
}

uint32_t swap_desk_ask_part(struct swap_desk *desk, enum swap_phase phase, uint32_t part)
{
	swap_desk_write(desk, phase, part);
	return desk->request;
}

/* True if the request was still the desk's own. */
static bool swap_desk_end(struct swap_desk *desk)
{
	enum swap_phase rests = swap_phase_rests(swap_phase_of(desk->request));

	return swap_desk_write(desk, rests, rests == SWAP_RUN ? 0 : swap_part_of(desk->request));
}

int swap_desk_clear(const char *dir)
{
	struct swap_desk *desk;
	int r = swap_desk_open(dir, SWAP_SUCCESSOR, &desk);

	if (r < 0)
		return r;
	/* He may not be stopped but slow, and ask for something until this succeeds. */
	while (!swap_desk_end(desk))
		desk->request = swap_desk_request(desk);
	swap_desk_close(desk);
	return 0;
}

void swap_desk_set_split(struct swap_desk *desk, uint64_t split)
{
	if (word_check(&desk->file->desk) == desk->number)
		word_release(&desk->file->swap_split, split);
}

uint64_t swap_desk_split(const struct swap_desk *desk)
{
	return word_acquire(&desk->file->swap_split);
}

/* The room, rounded down, over all bytes, rounded up: a half of the word each. */
uint64_t swap_split_of(uint64_t bytes, uint64_t room)
{
	uint64_t all = (bytes + SPLIT_BYTES - 1) / SPLIT_BYTES;

	if (bytes <= room)
		return 0;
	return all > UINT32_MAX ? UINT32_MAX : room / SPLIT_BYTES << 32 | all;
}

uint64_t swap_host_bytes(uint64_t bytes, uint64_t split)
{
	uint64_t room = split >> 32, all = split & UINT32_MAX;

	return room >= all ? bytes : bytes / all * room + bytes % all * room / all;
}

/*
 * The time first: a reader that finds the number finds it, too. If the requester is killed in between,
 * nobody is woken, and a process that looks by itself sees a notice that ends.
 */
bool swap_desk_give_notice(struct swap_desk *desk, uint64_t until_ns, uint32_t *ret_number)
{
	if (word_check(&desk->file->desk) != desk->number)
		return false;
	word_release(&desk->file->notice_until_ns, until_ns);
	*ret_number = word_publish_add(&desk->file->notice, 1u) + 1;
	futex_wake_all(&desk->file->notice);
	return true;
}

void swap_desk_withdraw_notice(struct swap_desk *desk, uint32_t number)
{
	uint32_t next;

	if (word_check(&desk->file->notice) == number)
		swap_desk_give_notice(desk, 0, &next);
}

const uint32_t *swap_notice(const struct policy_map *map)
{
	return &map->file->notice;
}

uint64_t swap_notice_left_ns(const struct policy_map *map, uint64_t now_ns)
{
	uint64_t left = sat_sub_u64(word_acquire(&map->file->notice_until_ns), now_ns);

	return left <= SWAP_NOTICE_MOST_NS ? left : 0;
}

bool swap_is_listened_to(const char *dir)
{
	return map_is_held(dir, LEDGER_LOCK_LISTEN, 1);
}

int swap_listen(const char *dir, void **ret_ear)
{
	CLEANUP_CLOSE int fd = map_open(dir, O_RDONLY);
	int r = fd < 0 ? fd : shared_file_share(fd, LEDGER_LOCK_LISTEN, 1);

	return r < 0 ? r : swap_keep_lock(fd, ret_ear);
}

void swap_listen_no_more(void *ear)
{
	if (ear)
		munmap(ear, LOCK_MAP_BYTES);
}

const uint32_t *swap_request(const struct policy_map *map)
{
	return &map->file->swap;
}

uint64_t swap_request_split(const struct policy_map *map)
{
	return word_acquire(&map->file->swap_split);
}

static int swap_open_policy(const char *dir)
{
	return shared_file_open(dir, POLICY_FILE, O_RDONLY, sizeof(struct policy_file));
}

bool swap_is_asked(const char *dir)
{
	CLEANUP_CLOSE int fd = swap_open_policy(dir);
	uint32_t number;

	if (fd < 0)
		return fd != -ENOENT;
	return fd_pread_all(fd, &number, sizeof(number), offsetof(struct policy_file, desk)) < 0 ||
	       shared_file_locked(fd, LOCK_DESK + number, 1) != 0;
}

bool swap_is_by_command(const char *dir)
{
	CLEANUP_CLOSE int fd = swap_open_policy(dir);

	return fd >= 0 && shared_file_locked(fd, LOCK_COMMAND, 1) == 1;
}

bool swap_any_away(const char *dir)
{
	CLEANUP_CLOSE int fd = swap_open_policy(dir);
	uint32_t request;

	return fd >= 0 &&
	       !fd_pread_all(fd, &request, sizeof(request), offsetof(struct policy_file, swap)) &&
	       swap_phase_is_out(swap_phase_of(request));
}

int swap_want(const char *dir)
{
	CLEANUP_CLOSE int fd = swap_open_policy(dir);
	int r = fd < 0 ? fd : shared_file_share(fd, LOCK_WANTED, 1);

	return r < 0 ? r : TAKE_FD(fd);
}

bool swap_is_wanted(const char *dir)
{
	CLEANUP_CLOSE int fd = swap_open_policy(dir);

	return fd >= 0 && shared_file_locked(fd, LOCK_WANTED, 1) == 1;
}

static uint64_t swap_pack(const struct swap_answer *answer)
{
	return (uint64_t)answer->request << 32 | (uint64_t)answer->state << 16 | answer->why;
}

enum swap_figure swap_figure_of(const struct swap_answer *answer)
{
	if (answer->state == SWAP_SUSPENDING || answer->state == SWAP_RESUMING)
		return SWAP_FIGURE_MOVED;
	if (answer->why == SWAP_FILE)
		return SWAP_FIGURE_FILE;
	if (answer->why == SWAP_HOST)
		return SWAP_FIGURE_LACKS;
	if (answer->state == SWAP_SUSPENDED)
		return SWAP_FIGURE_FILED;
	if (answer->why)
		return SWAP_FIGURE_OBSTACLE;
	return answer->state == SWAP_READY ? SWAP_FIGURE_KEPT : SWAP_FIGURE_NONE;
}

static uint64_t swap_pack_figure(const struct swap_answer *answer)
{
	switch (swap_figure_of(answer)) {
	case SWAP_FIGURE_FILE:
		return ((answer->file.bytes + FILE_PAGE - 1) & ~(FILE_PAGE - 1)) |
		       (uint64_t)answer->file.error;
	case SWAP_FIGURE_NONE:
		return 0;
	default:
		return answer->moved;
	}
}

static void swap_unpack_figure(uint64_t amount, struct swap_answer *answer)
{
	if (swap_figure_of(answer) == SWAP_FIGURE_FILE) {
		answer->file.bytes = amount & ~(FILE_PAGE - 1);
		answer->file.error = (int)(amount & (FILE_PAGE - 1));
	} else {
		answer->moved = amount;
	}
}

/* The figures first: a reader who finds the answer finds them, too. */
void swap_say(struct slot *slot, const struct swap_answer *answer)
{
	struct swap_report *report = &slot->ledger->map->slots[slot->index].swap;

	word_write(&report->bytes, answer->bytes);
	word_write(&report->amount, swap_pack_figure(answer));
	word_write(&report->took_ns, answer->took_ns);
	word_write(&report->list_at, answer->list_at);
	word_release(&report->said, swap_pack(answer));
}

void swap_get_on(struct slot *slot, uint64_t bytes)
{
	word_publish_add(&slot->ledger->map->slots[slot->index].swap.amount, bytes);
}

void swap_set_out(struct slot *slot, int device, uint64_t bytes)
{
	if (map_ready(slot->ledger, device))
		word_write(&slot->ledger->map->info[device][slot->index].out_bytes, bytes);
}

int swap_heard(struct ledger *ledger, int index, struct swap_answer *ret)
{
	const struct swap_report *report;
	struct swap_answer answer = {0};
	struct slot_info info;
	uint64_t said;
	int r = slot_info(ledger, index, &info);

	if (r < 0)
		return r;
	report = &ledger->map->slots[index].swap;
	said = word_acquire(&report->said);
	answer.request = (uint32_t)(said >> 32);
	if ((said >> 16 & 0xffff) < SWAP_STATES)
		answer.state = (enum swap_state)(said >> 16 & 0xffff);
	answer.why = (said & 0xffff) < SWAP_WHYS ? (enum swap_why)(said & 0xffff) : SWAP_DRIVER;
	answer.bytes = word_read(&report->bytes);
	swap_unpack_figure(word_read(&report->amount), &answer);
	answer.took_ns = word_read(&report->took_ns);
	answer.list_at = word_read(&report->list_at);
	*ret = answer;
	return 0;
}

uint64_t swap_out(struct ledger *ledger, int index, int device)
{
	if (!map_ready(ledger, device) || (unsigned int)index >= LEDGER_SLOTS)
		return 0;
	return word_read(&ledger->map->info[device][index].out_bytes);
}

struct swap_places swap_find_live(struct ledger *ledger, int device)
{
	struct swap_places sum = {0};
	struct quota_row row;

	for (int i = 0; i < slot_count(ledger); i++) {
		struct swap_places own = {.away = swap_out(ledger, i, device)};

		if (quota_process(ledger, i, device, &row) >= 0)
			own.here = swap_can_leave(row.used);
		if ((!own.here && !own.away) || !slot_alive(ledger, i))
			continue;
		sum.here = sat_add_u64(sum.here, own.here);
		sum.away = sat_add_u64(sum.away, own.away);
	}
	return sum;
}

struct swap_use *swap_use_of(struct ledger *ledger, int index)
{
	return &ledger->map->slots[index].use;
}

struct swap_wish *swap_wish_of(struct ledger *ledger, int index, int device)
{
	return map_ready(ledger, device) ? &ledger->map->info[device][index].wish : NULL;
}
