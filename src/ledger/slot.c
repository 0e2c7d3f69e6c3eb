/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/now.h"
#include "base/pidns.h"
#include "base/target.h"
#include "base/word.h"
#include "ledger/holders.h"
#include "ledger/shared_file.h"
#include "ledger/slot_priv.h"

static uint64_t slot_make_state(uint64_t generation, enum slot_state state)
{
	return generation << 8 | state;
}

static uint64_t slot_state_generation(uint64_t state)
{
	return state >> 8;
}

static bool slot_row_is_zero(const struct ledger_row *row)
{
	uint64_t any = word_read(&row->pending);

	for (int c = 0; c < CAT_N; c++)
		any |= word_read(&row->used[c]);
	return !any;
}

static void slot_clear_rows(struct ledger *ledger, unsigned int index)
{
	for (int d = 0; d < LEDGER_DEVICES; d++) {
		struct ledger_row *row = &ledger->map->rows[d][index];
		struct ledger_info *info = &ledger->map->info[d][index];

		if (!map_ready(ledger, d))
			continue;
		word_write(&row->pending, 0);
		for (int c = 0; c < CAT_N; c++)
			word_write(&row->used[c], 0);
		word_write(&info->driver_bytes, 0);
		word_write(&info->driver_ns, 0);
		word_write(&info->host_bytes, 0);
		word_write(&info->out_bytes, 0);
		word_write(&info->wish.more_bytes, 0);
		word_write(&info->wish.answer, 0);
	}
}

/*
 * Each step may be the last one: the state is not FREE until all is done, so the next one that gets
 * the lock does it again. The generation goes first: from then on the shared objects that the dead
 * owner covered are charged to their holders, before the row that carried them goes.
 */
void slot_scrub(struct ledger *ledger, unsigned int index)
{
	struct ledger_slot *slot = &ledger->map->slots[index];
	uint64_t generation = slot_state_generation(word_read(&slot->state)) + 1;

	word_publish(&slot->state, slot_make_state(generation, SLOT_SCRUBBING));
	FAULT_POINT(SLOT_BUMPED);
	slot_clear_rows(ledger, index);
	word_clear_bits(&ledger->map->header.spare_asks[index / 64], UINT64_C(1) << (index % 64));
	word_clear_bits(&ledger->map->header.spare_keeps[index / 64], UINT64_C(1) << (index % 64));
	word_clear_bits(&ledger->map->header.guesses[index / 64], UINT64_C(1) << (index % 64));
	FAULT_POINT(SLOT_ROWS_CLEARED);
	holders_forget(ledger, index);
	word_release(&slot->state, slot_make_state(generation, SLOT_FREE));
	FAULT_POINT(SLOT_SCRUBBED);
}

static bool slot_is_awaited(struct ledger *ledger, unsigned int index)
{
	return (word_acquire(&ledger->map->slots[index].state) & 0xff) == SLOT_AWAITED;
}

/* A free slot with bytes in it was forged; it is cleared like a dead one. */
static bool slot_needs_scrub(struct ledger *ledger, unsigned int index)
{
	if (slot_is_awaited(ledger, index))
		return false;
	if ((word_acquire(&ledger->map->slots[index].state) & 0xff) != SLOT_FREE)
		return true;
	for (int d = 0; d < LEDGER_DEVICES; d++)
		if (map_ready(ledger, d) && !slot_row_is_zero(&ledger->map->rows[d][index]))
			return true;
	return false;
}

/*
 * The rows of every device in the table must exist before they can be cleared. Asked after the
 * slot's lock was taken: the dead owner's devices were in the table by then. Rows for which there
 * is no space have never existed, so nobody wrote them.
 */
static int slot_allocate_known_rows(struct ledger *ledger, int fd)
{
	for (int d = 0; d < LEDGER_DEVICES; d++) {
		int r;

		if (!word_acquire(&ledger->map->devices[d].uuid_hi))
			continue;
		r = map_allocate_rows(ledger, fd, d);
		if (r < 0 && r != -ENOSPC && r != -EDQUOT)
			return r;
	}
	return 0;
}

bool slot_ending(struct ledger *ledger, int index)
{
	const struct ledger_slot *slot = &ledger->map->slots[index];
	uint64_t pidns, start;
	uint32_t pid;

	if ((word_acquire(&slot->state) & 0xff) != SLOT_LIVE)
		return false;
	pid = word_acquire(&slot->pid);
	pidns = word_acquire(&slot->pidns);
	start = word_acquire(&slot->start_ns);
	return pidns == pidns_self() && target_is_ending((pid_t)pid, start);
}

int slot_reclaim_dead(struct ledger *ledger, int fd)
{
	unsigned int high = map_slot_high(ledger);
	int n = 0;

	for (unsigned int i = 0; i < high; i++) {
		if ((int)i == map_own_slot(ledger) || !slot_needs_scrub(ledger, i))
			continue;
		if (shared_file_lock(fd, LEDGER_LOCK_SLOTS + i, 1) < 0)
			continue;
		if (!slot_ending(ledger, (int)i) && slot_allocate_known_rows(ledger, fd) == 0) {
			slot_scrub(ledger, i);
			n++;
		}
		shared_file_unlock(fd, LEDGER_LOCK_SLOTS + i, 1);
	}
	return n;
}

/* Arguments joined by spaces; empty if /proc does not tell. */
static void slot_read_command(char *buf, size_t len)
{
	ssize_t n = fd_read_text(AT_FDCWD, "/proc/self/cmdline", buf, len);

	if (n < 0)
		n = 0;
	while (n > 0 && buf[n - 1] == '\0')
		n--;
	for (ssize_t i = 0; i < n; i++)
		if (buf[i] == '\0')
			buf[i] = ' ';
	memset(buf + n, 0, len - (size_t)n);
}

/* The words of a slot that describe its process. The state before them says whose they are. */
#define FIRST_WORD (offsetof(struct ledger_slot, pid) / sizeof(uint64_t))
#define END_WORD   (sizeof(struct ledger_slot) / sizeof(uint64_t))

/*
 * Other processes read the slot at any time, also while it changes hands. The stores are releases
 * and pair with acquires: a reader that got a word of the next owner also sees, afterwards, that
 * the state changed.
 */
static void slot_write_words(struct ledger_slot *slot, const struct ledger_slot *from)
{
	const uint64_t *word = (const uint64_t *)from;

	for (size_t i = FIRST_WORD; i < END_WORD; i++)
		word_release((uint64_t *)slot + i, word[i]);
}

static void slot_read_words(struct ledger_slot *to, const struct ledger_slot *slot)
{
	uint64_t *word = (uint64_t *)to;

	for (size_t i = FIRST_WORD; i < END_WORD; i++)
		word[i] = word_acquire((const uint64_t *)slot + i);
}

static void slot_describe(struct ledger_slot *slot)
{
	struct ledger_slot own = {.pid = (uint32_t)getpid(), .pidns = pidns_self(),
				  .start_ns = now_boot_ns()};

	prctl(PR_GET_NAME, own.comm);
	slot_read_command(own.command, sizeof(own.command));
	slot_write_words(slot, &own);
}

static int slot_lock_any(struct ledger *ledger, int fd)
{
	struct stat st;

	for (int i = 0; i < LEDGER_SLOTS; i++) {
		int r = slot_is_awaited(ledger, (unsigned int)i)
				? -EAGAIN
				: shared_file_lock(fd, LEDGER_LOCK_SLOTS + i, 1);

		if (r == -EAGAIN)
			continue;
		if (r < 0)
			return r;
		if (slot_ending(ledger, i)) {
			shared_file_unlock(fd, LEDGER_LOCK_SLOTS + i, 1);
			continue;
		}
		/*
		 * Either this process was first and the tenant lives, or tenant_remove was: it
		 * holds all slots until the file is gone.
		 */
		if (fstat(fd, &st) < 0)
			return err_errno();
		return st.st_nlink ? i : -ESTALE;
	}
	return -EUSERS;
}

/*
 * With the slot's lock held: its rows exist, nothing of its last owner is left, and the mapping is
 * through this description, so that the lock lives as long as the mapping.
 */
static int slot_take_over(struct ledger *ledger, int fd, unsigned int index)
{
	int r;

	r = slot_allocate_known_rows(ledger, fd);
	if (r < 0)
		return r;
	r = map_file(ledger, fd);
	if (r < 0)
		return r;
	/*
	 * Before anything is published in the slot: processes that scan from now on must come as
	 * far as this slot.
	 */
	word_raise_u32(&ledger->map->header.slot_high, index + 1);
	slot_scrub(ledger, index);
	return 0;
}

int slot_claim(struct ledger *ledger, struct slot **ret)
{
	CLEANUP_CLOSE int own = -EBADF;
	struct ledger_slot *shared;
	uint64_t generation;
	int fd, index, r;

	if (ledger->is_copy || map_own_slot(ledger) >= 0)
		return -EINVAL;
	fd = map_fd(ledger, &own);
	if (fd < 0)
		return fd;
	index = slot_lock_any(ledger, fd);
	if (index < 0)
		return index;
	FAULT_POINT(SLOT_LOCKED);
	r = slot_take_over(ledger, fd, (unsigned int)index);
	if (r < 0) {
		/* The mapping may hold the description by now. */
		shared_file_unlock(fd, LEDGER_LOCK_SLOTS + index, 1);
		return r;
	}
	shared = &ledger->map->slots[index];
	generation = slot_state_generation(word_read(&shared->state));
	word_release(&shared->state, slot_make_state(generation, SLOT_SCRUBBING));
	slot_describe(shared);
	FAULT_POINT(SLOT_DESCRIBED);
	word_release(&shared->state, slot_make_state(generation, SLOT_LIVE));
	FAULT_POINT(SLOT_CLAIMED);
	ledger->slot.generation = generation;
	word_write(&ledger->slot.index, index);
	*ret = &ledger->slot;
	return 0;
}

int slot_adopt(struct slot *slot)
{
	struct ledger *ledger = slot->ledger;
	struct ledger_slot *shared = &ledger->map->slots[slot->index];
	uint64_t state = word_acquire(&shared->state);
	CLEANUP_CLOSE int fd = -EBADF;
	int r;

	if (slot_state_generation(state) != slot->generation)
		return -ESTALE;
	if ((state & 0xff) != SLOT_AWAITED)
		return 0;
	/* The ledger is another file by the same name, and mapped where it was. */
	fd = map_open_noted(ledger, O_RDWR);
	if (fd < 0)
		return fd;
	r = shared_file_lock(fd, LEDGER_LOCK_SLOTS + slot->index, 1);
	if (!r)
		r = map_file(ledger, fd);
	if (r < 0)
		return r;
	slot_describe(shared);
	FAULT_POINT(SLOT_ADOPTED);
	word_release(&shared->state, slot_make_state(slot->generation, SLOT_LIVE));
	return 1;
}

/* The lock goes with the mapping, just after; nobody can clear the slot meanwhile. */
void slot_done(struct slot *slot)
{
	slot_scrub(slot->ledger, (unsigned int)slot->index);
	word_write(&slot->index, -1);
}

struct ledger *slot_ledger(const struct slot *slot)
{
	return slot->ledger;
}

int slot_index(const struct slot *slot)
{
	return slot->index;
}

bool slot_alive_fd(struct ledger *ledger, int fd, int index)
{
	return index == map_own_slot(ledger) ||
	       shared_file_locked(fd, LEDGER_LOCK_SLOTS + index, 1) != 0;
}

bool slot_alive(struct ledger *ledger, int index)
{
	CLEANUP_CLOSE int own = -EBADF;
	int fd;

	if ((unsigned int)index >= LEDGER_SLOTS)
		return false;
	fd = map_fd(ledger, &own);
	return fd < 0 || slot_alive_fd(ledger, fd, index);
}

bool slot_any_alive(const char *dir)
{
	return map_is_held(dir, LEDGER_LOCK_SLOTS, LEDGER_SLOTS);
}

int slot_count(struct ledger *ledger)
{
	return (int)map_slot_high(ledger);
}

unsigned int slot_awaited(struct ledger *ledger)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < map_slot_high(ledger); i++)
		n += slot_is_awaited(ledger, i);
	return n;
}

static void slot_copy_text(char *to, const char *from, size_t len)
{
	size_t i;

	for (i = 0; i < len - 1 && from[i]; i++)
		to[i] = (unsigned char)from[i] < ' ' || from[i] == 0x7f ? '?' : from[i];
	memset(to + i, 0, len - i);
}

int slot_info(struct ledger *ledger, int index, struct slot_info *ret)
{
	const struct ledger_slot *slot;
	struct slot_info info = { 0 };
	struct ledger_slot copy;
	uint64_t state;

	if ((unsigned int)index >= LEDGER_SLOTS)
		return -ENOENT;
	slot = &ledger->map->slots[index];
	state = word_acquire(&slot->state);
	if ((state & 0xff) != SLOT_LIVE)
		return -ENOENT;
	slot_read_words(&copy, slot);
	if (word_read(&slot->state) != state)
		return -ENOENT;
	info.generation = slot_state_generation(state);
	info.pid = copy.pid;
	info.driver_pid = copy.driver_pid ? copy.driver_pid : copy.pid;
	info.pidns = copy.pidns;
	info.start_ns = copy.start_ns;
	slot_copy_text(info.comm, copy.comm, sizeof(info.comm));
	slot_copy_text(info.command, copy.command, sizeof(info.command));
	*ret = info;
	return 0;
}

/* One word has both numbers, so that it is still this pid's when the other is written. */
void slot_tell_driver_pid(struct ledger *ledger, int index, const struct slot_info *info,
			  uint32_t driver_pid)
{
	union {
		uint64_t word;
		struct {
			uint32_t pid, driver_pid;
		};
	} seen, told = {.pid = info->pid, .driver_pid = driver_pid};
	uint64_t *word;

	if ((unsigned int)index >= LEDGER_SLOTS || ledger->is_copy)
		return;
	word = (uint64_t *)(void *)&ledger->map->slots[index].pid;
	seen.word = word_check(word);
	if (seen.pid == info->pid && seen.driver_pid != driver_pid)
		word_swap_if(word, seen.word, told.word);
}
