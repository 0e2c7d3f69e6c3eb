/* SPDX-License-Identifier: Apache-2.0 */
/* What a swappable tenant is asked for, and what its processes answer. */
#include "ledger/swap_poll.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#include "base/futex.h"
#include "base/now.h"
#include "base/word.h"
#include "ledger/ledger.h"
#include "ledger/policy.h"
#include "ledger/shared_file.h"
#include "tests/unit/tenant_fixture.h"

static void *wait_for_it(void *arg)
{
	const uint32_t *word = swap_request(arg);
	uint32_t request;

	while (swap_phase_of(request = word_acquire(word)) == SWAP_RUN)
		futex_wait(word, request);
	return (void *)(uintptr_t)request;
}

static void check_requests(void)
{
	const char *dir = fixture_tenant("requests");
	struct swap_desk *desk, *other;
	struct policy_map *map;
	uint32_t asked;
	pthread_t thread;
	void *heard;

	CHECK_EQ(policy_open(dir, &map), 0);
	CHECK_EQ(*swap_request(map), 0);
	CHECK(!swap_is_asked(dir));
	CHECK_EQ(swap_desk_open(dir, SWAP_COMMAND, &desk), 0);
	CHECK(swap_is_asked(dir));
	CHECK_EQ(swap_desk_open(dir, SWAP_COMMAND, &other), -EBUSY);
	CHECK_EQ(pthread_create(&thread, NULL, wait_for_it, map), 0);
	asked = swap_desk_ask(desk, SWAP_PREPARE);
	CHECK_EQ(pthread_join(thread, &heard), 0);
	CHECK_EQ((uint32_t)(uintptr_t)heard, asked);
	CHECK_EQ(*swap_request(map), asked);
	CHECK(swap_desk_ask(desk, SWAP_PREPARE) != asked); /* the same again is another request */
	CHECK_EQ(swap_phase_of(swap_desk_request(desk)), SWAP_PREPARE);
	swap_desk_close(desk);
	CHECK(!swap_is_asked(dir));
	swap_desk_close(NULL);
	policy_close(map);
}

/*
 * Who had the role is stopped while it asks for something. The next one clears its desk: processes
 * see that nobody asks, and what it asks for when it goes on nobody hears.
 */
static void check_successor(void)
{
	const char *dir = fixture_tenant("successor");
	struct swap_desk *stopped, *other;
	struct policy_map *map;
	uint32_t seen, asked;

	CHECK_EQ(policy_open(dir, &map), 0);
	CHECK_EQ(swap_desk_open(dir, SWAP_ROLE, &stopped), 0);
	swap_desk_ask_part(stopped, SWAP_OUT, 60);
	asked = swap_desk_ask(stopped, SWAP_BACK);
	CHECK_EQ(swap_desk_open(dir, SWAP_ROLE, &other), -EBUSY);
	CHECK_EQ(swap_desk_open(dir, SWAP_COMMAND, &other), -EBUSY);
	CHECK(!swap_desk_is_cleared(stopped));
	CHECK_EQ(swap_desk_clear(dir), 0);
	CHECK(swap_desk_is_cleared(stopped));
	CHECK(!swap_is_asked(dir));
	seen = *swap_request(map);
	CHECK(seen != asked);
	CHECK_EQ(swap_phase_of(seen), SWAP_OUT);
	CHECK_EQ(swap_part_of(seen), 60);
	swap_desk_set_split(stopped, 1);
	CHECK_EQ(swap_desk_ask(stopped, SWAP_RUN), asked);
	CHECK_EQ(*swap_request(map), seen);

	CHECK_EQ(swap_desk_open(dir, SWAP_COMMAND, &other), 0);
	CHECK_EQ(swap_desk_split(other), 0);
	CHECK(swap_is_asked(dir));
	swap_desk_close(stopped);
	CHECK(swap_is_asked(dir));
	CHECK_EQ(swap_desk_clear(dir), -EBUSY); /* a command is not to be interrupted */
	CHECK_EQ(swap_desk_open(dir, SWAP_ROLE, &stopped), -EBUSY);
	swap_desk_close(other);
	CHECK_EQ(swap_desk_open(dir, SWAP_ROLE, &stopped), 0);
	CHECK_EQ(swap_desk_open(dir, SWAP_COMMAND, &other), -EBUSY);
	swap_desk_ask_part(stopped, SWAP_PREPARE, 60);
	CHECK_EQ(swap_desk_clear(dir), 0);
	swap_desk_close(stopped);
	seen = *swap_request(map);
	CHECK_EQ(swap_phase_of(seen), SWAP_RUN);
	CHECK_EQ(swap_part_of(seen), 0);
	policy_close(map);
}

/* Of a tenant whose policy others can read, who asks has the lock of another file. */
static void check_lock_file(void)
{
	const char *dir = fixture_tenant("locked");
	struct swap_desk *desk, *other;
	int fd = shared_file_create(dir, "lock");

	CHECK(fd >= 0);
	close(fd);
	CHECK(!swap_is_asked(dir));
	CHECK_EQ(swap_desk_open(dir, SWAP_COMMAND, &desk), 0);
	CHECK(swap_is_asked(dir));
	CHECK_EQ(swap_desk_open(dir, SWAP_COMMAND, &other), -EBUSY);
	swap_desk_close(desk);
	CHECK(!swap_is_asked(dir));

	/* One that keeps a lock of what all can read is in nobody's way. */
	fd = shared_file_open(dir, "policy", O_RDONLY, 4096 + 2 * 8192);
	CHECK(fd >= 0);
	CHECK_EQ(shared_file_share(fd, INT64_C(1) << 40, 1 << 10), 0);
	CHECK_EQ(swap_desk_open(dir, SWAP_COMMAND, &desk), 0);
	swap_desk_close(desk);
	close(fd);
}

/* How much is to leave; who comes back knows how much had. */
static void check_parts(void)
{
	const char *dir = fixture_tenant("parts");
	struct swap_desk *desk;
	uint32_t first;

	CHECK_EQ(swap_desk_open(dir, SWAP_COMMAND, &desk), 0);
	CHECK_EQ(swap_part_of(swap_desk_ask(desk, SWAP_OUT)), SWAP_ALL);
	first = swap_desk_ask_part(desk, SWAP_OUT, 60);
	CHECK_EQ(swap_part_of(first), 60);
	CHECK_EQ(swap_phase_of(first), SWAP_OUT);
	CHECK(swap_desk_ask_part(desk, SWAP_OUT, 60) != first);
	CHECK_EQ(swap_part_of(swap_desk_ask(desk, SWAP_BACK)), 60);
	CHECK_EQ(swap_part_of(swap_desk_ask(desk, SWAP_BACK)), 60);
	CHECK_EQ(swap_part_of(swap_desk_ask(desk, SWAP_OUT)), 60);
	CHECK_EQ(swap_part_of(swap_desk_ask(desk, SWAP_COME)), 60);
	CHECK_EQ(swap_part_of(swap_desk_ask(desk, SWAP_OUT)), 60);
	CHECK_EQ(swap_part_of(swap_desk_ask(desk, SWAP_COME)), 60);
	CHECK_EQ(swap_part_of(swap_desk_ask(desk, SWAP_BACK)), 60);
	CHECK_EQ(swap_part_of(swap_desk_ask(desk, SWAP_OUT)), 60);
	CHECK_EQ(swap_part_of(swap_desk_ask(desk, SWAP_OUT)), SWAP_ALL);
	CHECK_EQ(swap_part_of(swap_desk_ask(desk, SWAP_BACK)), SWAP_ALL);
	/* Host memory is there ahead only for who is asked that. */
	CHECK_EQ(swap_part_of(swap_desk_ask(desk, SWAP_RUN)), 0);
	CHECK_EQ(swap_part_of(swap_desk_ask_part(desk, SWAP_RUN, 60)), 60);
	CHECK_EQ(swap_part_of(swap_desk_ask(desk, SWAP_PREPARE)), SWAP_ALL);
	swap_desk_close(desk);
	/* Nor by whoever finds that nobody asks any more. */
	CHECK_EQ(swap_desk_open(dir, SWAP_ROLE, &desk), 0);
	CHECK_EQ(swap_phase_of(swap_desk_request(desk)), SWAP_PREPARE);
	CHECK_EQ(swap_desk_clear(dir), 0);
	CHECK_EQ(swap_phase_of(swap_desk_request(desk)), SWAP_RUN);
	CHECK_EQ(swap_part_of(swap_desk_request(desk)), 0);
	swap_desk_close(desk);
}

static uint64_t split(uint64_t bytes, uint64_t all, uint64_t room)
{
	return swap_host_bytes(bytes, swap_split_of(all, room));
}

/* What has no room on the host goes elsewhere, of each process the same part. */
static void check_splits(void)
{
	const uint64_t tib = UINT64_C(1) << 40;
	const char *dir = fixture_tenant("splits");
	struct swap_desk *desk;
	struct policy_map *map;

	CHECK_EQ(swap_split_of(GIB, GIB), 0);
	CHECK_EQ(swap_split_of(0, 0), 0);
	CHECK_EQ(swap_host_bytes(GIB, 0), GIB);
	CHECK_EQ(split(GIB, GIB, 0), 0);
	CHECK_EQ(split(GIB, GIB, 4095), 0);
	CHECK_EQ(split(3 * GIB, 3 * GIB, 2 * GIB), 2 * GIB);
	CHECK_EQ(split(3 * GIB, 9 * GIB, 3 * GIB), GIB);
	CHECK_EQ(split(12 * tib, 15 * tib, 10 * tib), 8 * tib);
	CHECK(split(12 * tib, 17 * tib, 10 * tib) <= 10 * tib); /* more than it can say */
	/* Never more than there is room for, however odd the sizes. */
	for (uint64_t a = 1; a < 3 * GIB; a = a * 7 + 4097)
		for (uint64_t b = 1; b < GIB; b = b * 5 + 12345)
			for (uint64_t room = 0; room < a + b; room += (a + b) / 7 + 1)
				CHECK(split(a, a + b, room) + split(b, a + b, room) <= room);
	CHECK_EQ(policy_open(dir, &map), 0);
	CHECK_EQ(swap_request_split(map), 0);
	CHECK_EQ(swap_desk_open(dir, SWAP_COMMAND, &desk), 0);
	swap_desk_set_split(desk, swap_split_of(2 * GIB, GIB));
	CHECK_EQ(swap_desk_split(desk), swap_request_split(map));
	CHECK_EQ(swap_host_bytes(2 * GIB, swap_request_split(map)), GIB);
	swap_desk_close(desk);
	policy_close(map);
}

/* One figure, and what it is by state and why. */
static void check_figures(void)
{
	struct swap_answer answer = {.state = SWAP_READY, .kept = 7};

	CHECK_EQ(swap_answer_kept(&answer), 7);
	CHECK_EQ(swap_answer_filed(&answer), 0);
	answer.state = SWAP_SUSPENDED;
	CHECK_EQ(swap_answer_kept(&answer), 0);
	CHECK_EQ(swap_answer_filed(&answer), 7);
	answer.why = SWAP_DEVICE;
	CHECK_EQ(swap_answer_filed(&answer), 7);
	answer.why = SWAP_FILE;
	CHECK_EQ(swap_answer_filed(&answer), 0);
	CHECK_EQ(swap_figure_of(&answer), SWAP_FIGURE_FILE);
	answer.why = SWAP_HOST;
	CHECK_EQ(swap_figure_of(&answer), SWAP_FIGURE_LACKS);
	answer.state = SWAP_RESUMING;
	CHECK_EQ(swap_gets_on(&answer), 7);
	answer = (struct swap_answer){.state = SWAP_RUNNING};
	CHECK_EQ(swap_figure_of(&answer), SWAP_FIGURE_NONE);
}

/* Whoever asked is dead: that is seen at once, and somebody else may ask. */
static void check_death(void)
{
	const char *dir = fixture_tenant("death");
	struct swap_desk *desk;
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		if (swap_desk_open(dir, SWAP_COMMAND, &desk))
			_exit(1);
		swap_desk_ask(desk, SWAP_BACK);
		kill(getpid(), SIGKILL);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFSIGNALED(status));
	CHECK(!swap_is_asked(dir));
	CHECK_EQ(swap_desk_open(dir, SWAP_COMMAND, &desk), 0);
	CHECK_EQ(swap_phase_of(swap_desk_request(desk)), SWAP_BACK);
	swap_desk_close(desk);
}

static void check_answers(void)
{
	static const uint8_t uuid[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
	const char *dir = fixture_tenant("answers");
	const struct swap_answer said = {.request = 0x703,
					 .state = SWAP_READY,
					 .why = SWAP_POOLS,
					 .bytes = 5,
					 .obstacle = 6,
					 .took_ns = 7,
					 .list_at = 8};
	struct ledger *ledger, *copy;
	struct swap_answer heard;
	struct slot *slot;
	int device;

	CHECK_EQ(ledger_open(dir, LEDGER_GUEST, &ledger), 0);
	device = ledger_device(ledger, uuid, 0);
	CHECK(device >= 0);
	CHECK_EQ(swap_heard(ledger, 0, &heard), -ENOENT);
	CHECK_EQ(slot_claim(ledger, &slot), 0);
	CHECK_EQ(swap_heard(ledger, slot_index(slot), &heard), 0);
	CHECK_EQ(heard.state, SWAP_NONE);
	swap_say(slot, &said);
	swap_set_out(slot, device, 77);
	swap_use_of(ledger, slot_index(slot))->waiting = 2;
	swap_wish_of(ledger, slot_index(slot), device)->more_bytes = 88;
	CHECK(!swap_wish_of(ledger, slot_index(slot), 63));
	CHECK_EQ(ledger_open(dir, LEDGER_READ, &copy), 0);
	CHECK_EQ(swap_heard(copy, slot_index(slot), &heard), 0);
	CHECK_EQ(heard.request, said.request);
	CHECK_EQ(heard.state, said.state);
	CHECK_EQ(heard.why, said.why);
	CHECK_EQ(heard.bytes, 5);
	CHECK_EQ(swap_figure_of(&heard), SWAP_FIGURE_OBSTACLE);
	CHECK_EQ(heard.obstacle, 6);
	CHECK_EQ(heard.took_ns, 7);
	CHECK_EQ(heard.list_at, 8);
	CHECK_EQ(swap_out(copy, slot_index(slot), device), 77);
	CHECK_EQ(swap_use_of(copy, slot_index(slot))->waiting, 2);
	CHECK_EQ(swap_wish_of(copy, slot_index(slot), device)->more_bytes, 88);
	CHECK_EQ(swap_out(copy, slot_index(slot), 63), 0);
	ledger_close(copy);
	ledger_close(ledger);
	/* The next one to have the slot has said nothing. */
	CHECK_EQ(ledger_open(dir, LEDGER_GUEST, &ledger), 0);
	CHECK_EQ(slot_claim(ledger, &slot), 0);
	CHECK_EQ(swap_heard(ledger, slot_index(slot), &heard), 0);
	CHECK_EQ(heard.state, SWAP_NONE);
	CHECK_EQ(swap_out(ledger, slot_index(slot), device), 0);
	CHECK_EQ(swap_use_of(ledger, slot_index(slot))->waiting, 0);
	CHECK_EQ(swap_wish_of(ledger, slot_index(slot), device)->more_bytes, 0);
	ledger_close(ledger);
}

static struct swap_sum poll_after(const struct swap_poll *poll, uint64_t ns)
{
	return swap_poll(poll, poll->asked_ns + ns);
}

/* A process without a thread that answers refuses PREPARE, and is passed over in what follows. */
static void check_mute(struct swap_poll poll)
{
	poll.request = SWAP_PREPARE;
	CHECK_EQ(poll_after(&poll, 0).silent, 1);
	CHECK_EQ(poll_after(&poll, 3 * NS_PER_S).silent, 1);
	poll.request = SWAP_OUT;
	CHECK_EQ(poll_after(&poll, 0).silent, 1);
	CHECK_EQ(poll_after(&poll, 3 * NS_PER_S).silent, 0);
}

static void check_progress(void)
{
	struct swap_progress progress = {.since_ns = 10};
	struct swap_sum sum = {.silent = 1};

	CHECK_EQ(swap_progress_none_ns(&progress, &sum, 15), 5);
	sum.moved = 7;
	CHECK_EQ(swap_progress_none_ns(&progress, &sum, 20), 0);
	CHECK_EQ(swap_progress_none_ns(&progress, &sum, 24), 4);
	sum.silent = 0;
	CHECK_EQ(swap_progress_none_ns(&progress, &sum, 30), 0);
}

/* All that a requester learns of a tenant of one process. */
static void check_poll(void)
{
	struct swap_answer said = {.request = 0x100, .state = SWAP_READY, .bytes = 5, .kept = 9};
	struct swap_poll poll = {.asked_ns = NS_PER_S};
	struct swap_sum sum;
	struct slot *slot;

	CHECK_EQ(ledger_open(fixture_tenant("poll"), LEDGER_GUEST, &poll.ledger), 0);
	CHECK_EQ(slot_claim(poll.ledger, &slot), 0);
	check_mute(poll);
	swap_say(slot, &said);
	poll.request = said.request;
	sum = poll_after(&poll, 0);
	CHECK(!sum.silent && !sum.refused);
	CHECK_EQ(sum.processes, 1);
	CHECK_EQ(sum.kept, 9);
	CHECK_EQ(sum.placed, 5);
	poll.request = 0x200 | SWAP_OUT;
	sum = poll_after(&poll, 0);
	CHECK(sum.silent == 1 && sum.ready == 1 && !sum.idle && !sum.bytes);
	said.state = SWAP_SUSPENDING;
	swap_say(slot, &said);
	swap_get_on(slot, 3);
	CHECK_EQ(poll_after(&poll, 0).moved, 12);
	said = (struct swap_answer){.request = 0x300 | SWAP_STILL, .state = SWAP_RUNNING};
	swap_say(slot, &said);
	poll.request = said.request;
	CHECK_EQ(poll_after(&poll, 0).refused, 1);
	said.why = SWAP_CAPTURE;
	swap_say(slot, &said);
	CHECK(poll_after(&poll, 0).busy);
	ledger_close(poll.ledger);
}

static void *wait_for_notice(void *arg)
{
	const uint32_t *word = swap_notice(arg);

	while (!word_acquire(word))
		futex_wait(word, 0);
	return (void *)(uintptr_t)(swap_notice_left_ns(arg, now_monotonic_ns()) > 0);
}

/* A requester says when; processes that listen say by a lock that they are not ready. */
static void check_notice(void)
{
	const char *dir = fixture_tenant("notice");
	void *ear = NULL, *other = NULL, *heard;
	uint64_t now = now_monotonic_ns();
	struct policy_map *map;
	struct swap_desk *desk;
	uint32_t number, later;
	pthread_t thread;
	pid_t child;

	CHECK_EQ(policy_open(dir, &map), 0);
	CHECK_EQ(swap_desk_open(dir, SWAP_COMMAND, &desk), 0);
	CHECK_EQ(swap_notice_left_ns(map, now), 0);
	CHECK(!swap_is_listened_to(dir));
	CHECK_EQ(swap_listen(dir, &ear), 0);
	CHECK_EQ(swap_listen(dir, &other), 0);
	CHECK(swap_is_listened_to(dir));
	CHECK_EQ(pthread_create(&thread, NULL, wait_for_notice, map), 0);
	CHECK(swap_desk_give_notice(desk, now + 50 * NS_PER_S, &number));
	CHECK_EQ(pthread_join(thread, &heard), 0);
	CHECK(heard);
	CHECK_EQ(swap_notice_left_ns(map, now), 50 * NS_PER_S);
	CHECK_EQ(swap_notice_left_ns(map, now + 49 * NS_PER_S), NS_PER_S);
	CHECK_EQ(swap_notice_left_ns(map, now + 51 * NS_PER_S), 0);
	swap_listen_no_more(ear);
	CHECK(swap_is_listened_to(dir));
	/* A child has no part of its parent's lock, and the kernel drops that of a killed one. */
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		CHECK_EQ(swap_listen(dir, &ear), 0);
		raise(SIGKILL);
	}
	CHECK_EQ(waitpid(child, NULL, 0), child);
	swap_listen_no_more(other);
	CHECK(!swap_is_listened_to(dir));
	/* Of the same requester: another one's stays. */
	CHECK(swap_desk_give_notice(desk, now + 40 * NS_PER_S, &later));
	swap_desk_withdraw_notice(desk, number);
	CHECK_EQ(swap_notice_left_ns(map, now), 40 * NS_PER_S);
	swap_desk_withdraw_notice(desk, later);
	CHECK_EQ(swap_notice_left_ns(map, now), 0);
	swap_desk_withdraw_notice(desk, later);
	CHECK_EQ(word_acquire(swap_notice(map)), later + 1);
	/* A value that no requester writes is damage. */
	CHECK(swap_desk_give_notice(desk, now + 100 * NS_PER_S, &number));
	CHECK_EQ(swap_notice_left_ns(map, now), 0);
	swap_listen_no_more(NULL);
	swap_desk_close(desk);
	policy_close(map);
}

int main(void)
{
	check_notice();
	check_poll();
	check_progress();
	check_requests();
	check_successor();
	check_lock_file();
	check_parts();
	check_splits();
	check_figures();
	check_death();
	check_answers();
	return 0;
}
