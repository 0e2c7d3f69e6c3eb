/* SPDX-License-Identifier: Apache-2.0 */
/* What `allot suspend` says is read until its end, and nobody waits for how long that takes to end. */
#include "daemon/users/moves.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "tests/check.h"

/* A program that says something, and ends with that status when it is told to. */
static void start(struct move *move, int *ret_end, int status)
{
	int says[2], end[2];
	char byte;

	CHECK(pipe2(says, O_CLOEXEC | O_NONBLOCK) == 0 && pipe(end) == 0);
	*move = (struct move){.pid = fork(), .out = says[0]};
	CHECK(move->pid >= 0);
	if (move->pid == 0) {
		close(end[1]);
		CHECK(write(says[1], "done", 4) == 4);
		close(says[1]);
		close(says[0]);
		CHECK(read(end[0], &byte, 1) == 0);
		_exit(status);
	}
	close(says[1]);
	close(end[0]);
	*ret_end = end[1];
}

static void wait_for(const struct move *move)
{
	struct pollfd one = {.fd = move->out, .events = POLLIN};

	CHECK_EQ(poll(&one, 1, 60000), 1);
}

static void check_end(int status, int error)
{
	struct control_answer answer = {.error = 1};
	struct move move;
	int end;

	start(&move, &end, status);
	while (!move.silent) {
		wait_for(&move);
		CHECK_EQ(moves_read(&move, &answer), 1);
	}
	/* It has said all, and is there. */
	CHECK_EQ(moves_read(&move, &answer), 1);
	CHECK(move.pid > 0 && !strcmp(answer.words, "done"));
	close(end);
	wait_for(&move);
	CHECK_EQ(moves_read(&move, &answer), 0);
	CHECK(answer.error == error && !move.pid && move.out == -EBADF);
}

int main(void)
{
	alarm(60); /* it would wait for ever */
	check_end(0, 0);
	check_end(125, -ECANCELED);
	check_end(CONTROL_EXIT_NO_ROOM, -ENOSPC);
	check_end(CONTROL_EXIT_LATE, -ETIMEDOUT);
	check_end(1, -ECANCELED);
	return 0;
}
