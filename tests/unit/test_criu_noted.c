/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Addresses that a process noted, read from outside of it; and what it may have there instead. */
#include "criu/noted.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/held_child.h"

#define PAGE   4096u
#define NUMBER 5
#define OTHERS 6

/* As in a library that has noted something; first, a page that only begins alike. */
static volatile _Alignas(4096) struct {
	struct amd_addresses_at at;
	char rest[PAGE - sizeof(struct amd_addresses_at)];
} pages[2] = {{.at = {.magic = {AMD_ADDRESSES_MAGIC_FIRST, 1}, .addresses_at = 1}},
	      {.at = {.magic = {AMD_ADDRESSES_MAGIC_FIRST, AMD_ADDRESSES_MAGIC_SECOND}}}};

static volatile struct amd_address list[4];
static volatile struct amd_addresses addresses;

/* Each is a lie, or a state that the process can be stopped in. */
enum lie {
	NONE, TOO_MANY, MORE_THAN_THERE, NOWHERE, CHANGING, LOST, NO_HANDLE, NO_BYTES, CROOKED,
	CROOKED_OFFSET, BEYOND, AROUND, NOT_PUBLISHED, ENDLESS, LIES
};

static void prepare(enum lie lie)
{
	uint64_t mine = amd_addresses_file(getpid(), NUMBER);

	list[0] = (struct amd_address){mine, 1, 6, 0x100000, 2 * PAGE, PAGE};
	list[1] = (struct amd_address){mine, 7, 2, 0xffffffff0000, 16 * PAGE, 0};
	list[2] = (struct amd_address){amd_addresses_file(getpid(), OTHERS), 0, 0, 1, 0, 3};
	list[3] = (struct amd_address){amd_addresses_file(getpid() + 1, NUMBER), 1, 6, 0x100000, 1, 1};
	addresses = (struct amd_addresses){.n = 4, .changing = 8, .list_at = (uintptr_t)list};
	pages[1].at.addresses_at = lie == NOT_PUBLISHED ? 0 : (uintptr_t)&addresses;
	switch (lie) {
	case TOO_MANY: addresses.n = AMD_ADDRESSES_MOST + 1; break;
	case MORE_THAN_THERE: addresses.n = AMD_ADDRESSES_MOST; break;
	case NOWHERE: addresses.list_at = 8; break;
	case CHANGING: addresses.changing++; break;
	case LOST: addresses.lost = 1; break;
	case NO_HANDLE: list[0].handle = 0; break;
	case NO_BYTES: list[0].bytes = 0; break;
	case CROOKED: list[0].at++; break;
	case CROOKED_OFFSET: list[0].offset = 1; break;
	case BEYOND: list[0].at = UINT64_C(1) << 48; break;
	case AROUND: list[1].bytes = UINT64_MAX & ~(uint64_t)(PAGE - 1); break;
	case ENDLESS: addresses.list_at = UINT64_MAX - PAGE + 1; break;
	default: break;
	}
}

static const int answers[LIES] = {
	[TOO_MANY] = -EPROTO, [MORE_THAN_THERE] = -EIO, [NOWHERE] = -EIO, [CHANGING] = -EAGAIN,
	[LOST] = -EOVERFLOW, [NO_HANDLE] = -EPROTO, [NO_BYTES] = -EPROTO, [CROOKED] = -EPROTO,
	[CROOKED_OFFSET] = -EPROTO, [BEYOND] = -EPROTO, [AROUND] = -EPROTO, [ENDLESS] = -EIO,
};

static void mark(int fd, int number)
{
	CHECK_EQ(fcntl(fd, F_SETSIG, number), 0);
	CHECK_EQ(fcntl(fd, F_SETOWN, getpid()), 0);
}

struct liar {
	enum lie lie;
	int fd;
};

static void claim(void *arg)
{
	const struct liar *liar = arg;

	prepare(liar->lie);
	mark(liar->fd, NUMBER);
}

/* A process that has noted, or claims it, and that owns the file `fd`. */
static pid_t start(enum lie lie, int fd)
{
	return held_child_begin(claim, &(struct liar){lie, fd});
}

static void check_lie(enum lie lie)
{
	int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	pid_t child = start(lie, fd);
	struct amd_address *got = (void *)1;
	uint32_t n = 77;
	int r = noted_read(fd, &got, &n);

	if (answers[lie] == -EIO) /* what /proc/PID/mem says of no memory */
		CHECK(r == -EIO || r == -EFAULT || r == -EINVAL);
	else
		CHECK_EQ(r, answers[lie]);
	CHECK_EQ(n, lie == NONE ? 2 : 0);
	if (n) {
		CHECK(got[0].handle == 1 && got[0].at == 0x100000 && got[1].handle == 7);
		CHECK(got[1].at == 0xffffffff0000 && got[1].bytes == 16 * PAGE);
	}
	free(got);
	held_child_end(child);
	close(fd);
}

/* Files that nobody noted anything of, or several together; and whose process is gone. */
static void check_unmarked(void)
{
	int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	struct amd_address *got;
	uint32_t n;

	prepare(NONE);
	CHECK_EQ(noted_read(fd, &got, &n), 0);
	CHECK_EQ(n, 0);
	mark(fd, AMD_ADDRESSES_NUMBER_LAST);
	CHECK_EQ(noted_read(fd, &got, &n), 0);
	CHECK_EQ(n, 0);
	held_child_end(start(NONE, fd));
	CHECK_EQ(noted_read(fd, &got, &n), 0);
	CHECK_EQ(n, 0);
	mark(fd, NUMBER);
	CHECK_EQ(noted_read(fd, &got, &n), 0);
	CHECK_EQ(n, 2);
	free(got);
	close(fd);
}

static uint32_t draw(void)
{
	static uint64_t state = 88172645463325252u;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)(state >> 20);
}

/* A bit or a word of it that is anything: what is answered is sane, or it is an error. */
static void check_anything(void)
{
	int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);

	mark(fd, NUMBER);
	for (int i = 0; i < 3000; i++) {
		volatile uint32_t *words = i % 3 ? (void *)list : (void *)&addresses;
		size_t nwords = (i % 3 ? sizeof(list) : sizeof(addresses)) / 4;
		struct amd_address *got;
		uint32_t n;

		prepare(NONE);
		words[draw() % nwords] ^= i & 1 ? draw() : 1u << draw() % 32;
		if (noted_read(fd, &got, &n) < 0)
			continue;
		CHECK(n <= 4);
		for (uint32_t j = 0; j < n; j++)
			CHECK(got[j].file == amd_addresses_file(getpid(), NUMBER) && got[j].handle &&
			      got[j].bytes && !((got[j].at | got[j].bytes | got[j].offset) % PAGE) &&
			      got[j].at + got[j].bytes <= UINT64_C(1) << 48);
		free(got);
	}
	close(fd);
}

int main(void)
{
	for (enum lie lie = NONE; lie < LIES; lie++)
		check_lie(lie);
	check_unmarked();
	check_anything();
	return 0;
}
