/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/lend/stamp.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/fd.h"
#include "guest/lend/entry.h"
#include "guest/lend/state.h"

/*
 * A stamp is a lock on one range of bytes, far behind whatever may be in a file. Its first byte
 * says the exporter's pid and the number, its last byte the exporter's random part.
 */
#define LOCK_FIRST  (INT64_C(3) << 60)
#define LOCK_LAST   (INT64_C(1) << 62)
#define RANDOM_MASK ((INT64_C(1) << 60) - 1)

static int64_t stamp_random(struct guest *guest)
{
	int64_t none = 0, fresh;

	if (!atomic_load(&guest->lend->stamp_random) &&
	    getrandom(&fresh, sizeof(fresh), 0) == (ssize_t)sizeof(fresh))
		atomic_compare_exchange_strong(&guest->lend->stamp_random, &none,
					       (fresh & RANDOM_MASK) | 1);
	return atomic_load(&guest->lend->stamp_random);
}

static struct shared_key stamp_key(const struct stamp *stamp)
{
	return entry_key(stamp, sizeof(*stamp));
}

uint32_t stamp_number(struct guest *guest)
{
	uint64_t number = 1 + atomic_fetch_add(&guest->lend->stamps, 1);

	return number <= INT32_MAX ? (uint32_t)number : 0;
}

bool stamp_put_as(int fd, const struct stamp *stamp)
{
	struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = stamp->first,
			     .l_len = stamp->last - stamp->first + 1};

	return stamp->first && !fcntl(fd, F_OFD_SETLK, &lock);
}

bool stamp_put(struct guest *guest, int fd, uint32_t number, struct shared_key *ret)
{
	int64_t random = stamp_random(guest);
	struct stamp stamp = {.first = LOCK_FIRST | (int64_t)getpid() << 32 | number,
			      .last = LOCK_LAST | random};

	if (!random || !number || !stamp_put_as(fd, &stamp))
		return false;
	*ret = stamp_key(&stamp);
	return true;
}

static const char *stamp_parse_byte(const char *at, int64_t *ret)
{
	int64_t byte = 0;

	at += strspn(at, " ");
	for (; *at >= '0' && *at <= '9' && byte <= (INT64_MAX - 9) / 10; at++)
		byte = byte * 10 + (*at - '0');
	*ret = byte;
	return at;
}

/* "OFDLCK ADVISORY READ -1 00:05:1030 FIRST LAST". A byte that is no number becomes 0. */
static void stamp_parse_lock(const char *at, int64_t *ret_first, int64_t *ret_last)
{
	for (int word = 0; word < 5; word++) {
		at += strspn(at, " ");
		at += strcspn(at, " ");
	}
	at = stamp_parse_byte(at, ret_first);
	stamp_parse_byte(at, ret_last);
}

bool stamp_read(int fd, struct stamp *ret_stamp, struct shared_key *ret)
{
	char path[40], text[2048];
	struct stamp stamp;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	if (fd_read_text(AT_FDCWD, path, text, sizeof(text)) < 0)
		return false;
	for (const char *at = text; (at = strstr(at, "OFDLCK ")); at++) {
		stamp_parse_lock(at, &stamp.first, &stamp.last);
		if (stamp.first > LOCK_FIRST && stamp.first < LOCK_LAST && stamp.last > LOCK_LAST) {
			if (ret_stamp)
				*ret_stamp = stamp;
			*ret = stamp_key(&stamp);
			return true;
		}
	}
	return false;
}
