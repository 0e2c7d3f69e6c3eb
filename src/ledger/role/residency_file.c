/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger/role/residency_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/now.h"
#include "base/word.h"
#include "ledger/role/role_file.h"
#include "ledger/shared_file.h"

#define ROLE_FILE (&role_file_residency)
#define DEVICES   TURN_DEVICES

/* A step takes less, even where a processor has to be found for who makes it. */
#define LOOKS	50
#define LOOK_NS (100 * (long)NS_PER_US)

void residency_file_miss(struct residency_file *file)
{
	word_publish_add(&file->missed, 1);
}

uint32_t residency_file_missed(const struct residency_file *file)
{
	return word_check(&file->missed);
}

bool residency_file_is_used(const char *runtime)
{
	CLEANUP_CLOSE int fd = role_file_open(ROLE_FILE, runtime, O_RDONLY);

	return fd >= 0 && shared_file_locked(fd, ROLE_FILE->use, 1) == 1;
}

void residency_file_tell(const char *runtime)
{
	role_file_tell(ROLE_FILE, runtime);
}

/* The figures are another device's for a moment when an entry changes hands: a guess is made by them. */
void residency_file_say_room(struct residency_file *file, int i, const uint8_t uuid[16],
			     const struct residency_room *room)
{
	struct residency_promise *promise = &file->promise[i];
	uint64_t word[2];

	memcpy(word, uuid, sizeof(word));
	word_write(&promise->bytes, room->promised);
	word_write(&file->there[i].all, room->all);
	word_write(&file->there[i].there, room->there);
	word_write(&promise->uuid[0], word[0]);
	word_write(&promise->uuid[1], word[1]);
}

static int residency_file_find(const struct residency_file *file, const uint8_t uuid[16])
{
	uint64_t word[2];

	memcpy(word, uuid, sizeof(word));
	for (int i = 0; i < DEVICES && word_read(&file->promise[i].uuid[0]); i++)
		if (word_read(&file->promise[i].uuid[0]) == word[0] &&
		    word_read(&file->promise[i].uuid[1]) == word[1])
			return i;
	return -ENOENT;
}

uint64_t residency_file_promised(const struct residency_file *file, const uint8_t uuid[16])
{
	int i = residency_file_find(file, uuid);

	return i < 0 ? 0 : word_read(&file->promise[i].bytes);
}

void residency_file_measured(struct residency_file *file)
{
	word_publish_add(&file->measures, 1);
}

/* False: nobody has measured, as far as was waited. */
static bool residency_file_await_measure(struct residency_file *file)
{
	uint32_t measures = word_check(&file->measures);

	role_file_ring(file);
	for (int i = 0; i < LOOKS && word_check(&file->measures) == measures; i++)
		nap_ns(LOOK_NS);
	return word_check(&file->measures) != measures;
}

int residency_file_ask_room(const char *runtime, const uint8_t uuid[16],
			    struct residency_room *ret)
{
	CLEANUP_CLOSE int fd = role_file_open(ROLE_FILE, runtime, O_RDWR);
	struct residency_file *file;
	int i;

	if (fd < 0 || shared_file_locked(fd, ROLE_FILE->use, 1) != 1 || !(file = role_file_map(fd)))
		return -ENOENT;
	residency_file_await_measure(file);
	i = residency_file_find(file, uuid);
	if (i >= 0)
		*ret = (struct residency_room){.promised = word_read(&file->promise[i].bytes),
					       .all = word_read(&file->there[i].all),
					       .there = word_read(&file->there[i].there),
					       .device = i};
	role_file_unmap(file);
	return i < 0 || !ret->all ? -ENOENT : 0;
}

uint64_t residency_file_ask_there(const char *runtime, const uint8_t uuid[16])
{
	CLEANUP_CLOSE int fd = role_file_open(ROLE_FILE, runtime, O_RDWR);
	uint64_t there = UINT64_MAX;
	struct residency_file *file;
	int i;

	if (fd < 0 || !(file = role_file_map(fd)))
		return there;
	/* The first of them may have been begun before. */
	if (residency_file_await_measure(file) && residency_file_await_measure(file)) {
		i = residency_file_find(file, uuid);
		there = i < 0 ? 0 : word_read(&file->there[i].there);
	}
	role_file_unmap(file);
	return there;
}

void residency_file_say_moves(struct residency_file *file, bool moves)
{
	word_write(&file->moves, moves);
}

const uint32_t *residency_file_moves(const struct residency_file *file)
{
	return &file->moves;
}

void residency_file_say_full(struct residency_file *file, uint64_t now_ns)
{
	word_write(&file->full_ns, now_ns);
}

uint64_t residency_file_full_ns(const char *runtime)
{
	CLEANUP_CLOSE int fd = role_file_open(ROLE_FILE, runtime, O_RDONLY);
	uint64_t ns = 0;

	if (fd < 0 || pread(fd, &ns, sizeof(ns), offsetof(struct residency_file, full_ns)) !=
			      (ssize_t)sizeof(ns))
		return 0;
	return ns;
}

int residency_file_look(const char *runtime, struct residency_look *ret)
{
	CLEANUP_CLOSE int fd = role_file_open(ROLE_FILE, runtime, O_RDONLY);
	struct residency_file file;
	int r;

	if (fd < 0)
		return fd;
	r = fd_pread_all(fd, &file, sizeof(file), 0);
	if (r < 0)
		return r;
	*ret = (struct residency_look){
		.taken = shared_file_locked(fd, role_file_term_lock(ROLE_FILE, file.term), 1) == 1,
		.moves = file.moves,
		.beats = file.beats,
	};
	return 0;
}
