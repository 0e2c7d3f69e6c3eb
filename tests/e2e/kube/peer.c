/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peer serve SOCKET: a server whose methods do what their names say, for grpc.py. /test.Echo/Same
 * answers with the request, /Later with it after 50 ms, /Count with so many messages as the request
 * has bytes, of 100,000 bytes each, /Fail with status 5, /Never not. It says on its standard output
 * which calls were given up. peer call SOCKET PATH TIMEOUT-MS WORD: prints what is heard, and the
 * status. Both end when their input does.
 */
#include <err.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/now.h"
#include "kube/wire/grpc.h"

#define LATER_NS   (50 * NS_PER_MS)
#define COUNT_BYTES 100000
#define WAITING	   64

static struct grpc *grpc;
static struct {
	struct grpc_call *call;
	uint64_t at_ns;
	size_t left; /* messages of /Count */
} waiting[WAITING];

static void wait_with(struct grpc_call *call, uint64_t at_ns, size_t left)
{
	for (int i = 0; i < WAITING; i++)
		if (!waiting[i].call) {
			waiting[i].call = call;
			waiting[i].at_ns = at_ns;
			waiting[i].left = left;
			return;
		}
	grpc_finish(call, GRPC_RESOURCE_EXHAUSTED, "too many wait");
}

static void same(void *arg, struct grpc_call *call, const uint8_t *request, size_t len)
{
	int r = grpc_send(call, request, len);

	grpc_finish(call, r ? GRPC_INTERNAL : GRPC_OK, NULL);
}

static void later(void *arg, struct grpc_call *call, const uint8_t *request, size_t len)
{
	wait_with(call, now_monotonic_ns() + LATER_NS, 1);
}

static void count(void *arg, struct grpc_call *call, const uint8_t *request, size_t len)
{
	wait_with(call, 0, len);
}

static void fail(void *arg, struct grpc_call *call, const uint8_t *request, size_t len)
{
	grpc_finish(call, GRPC_NOT_FOUND, "100 % gone: \"\xc3\xa4\"");
}

static void never(void *arg, struct grpc_call *call, const uint8_t *request, size_t len)
{
}

static void gone(void *arg, struct grpc_call *call)
{
	for (int i = 0; i < WAITING; i++)
		if (waiting[i].call == call)
			waiting[i].call = NULL;
	puts("gone");
	fflush(stdout);
}

static const struct grpc_method methods[] = {
	{"/test.Echo/Same", same, gone},   {"/test.Echo/Later", later, gone},
	{"/test.Echo/Count", count, gone}, {"/test.Echo/Fail", fail, gone},
	{"/test.Echo/Never", never, gone},
};

/* What waits goes on; how long until there is more to do. */
static int go_on(void)
{
	static const uint8_t message[COUNT_BYTES];
	int timeout_ms = -1;

	for (int i = 0; i < WAITING; i++) {
		struct grpc_call *call = waiting[i].call;
		int r = 0;

		if (!call)
			continue;
		if (now_monotonic_ns() < waiting[i].at_ns) {
			timeout_ms = 5;
			continue;
		}
		while (!r && waiting[i].left) {
			r = grpc_send(call, message, waiting[i].at_ns ? 1 : sizeof(message));
			waiting[i].left -= !r;
		}
		if (waiting[i].left) {
			timeout_ms = 5;
			continue;
		}
		waiting[i].call = NULL;
		grpc_finish(call, GRPC_OK, NULL);
	}
	return timeout_ms;
}

static bool over;

static void heard(void *arg, const uint8_t *message, size_t len)
{
	printf("heard %zu %.*s\n", len, (int)(len < 40 ? len : 40), (const char *)message);
}

static void ended(void *arg, enum grpc_status status, const char *text)
{
	printf("ended %d %s\n", (int)status, text);
	fflush(stdout);
	over = true;
}

static int least(int a, int b)
{
	return a < 0 || (b >= 0 && b < a) ? b : a;
}

static void run(void)
{
	while (!over) {
		int timeout_ms = least(go_on(), grpc_timeout_ms(grpc));
		struct pollfd poll_fds[] = {{grpc_fd(grpc), POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};

		if (poll(poll_fds, 2, timeout_ms) < 0)
			err(1, "poll");
		if (poll_fds[1].revents)
			break;
		grpc_run(grpc);
	}
}

int main(int argc, char **argv)
{
	int r = grpc_open(&grpc);

	if (!r && argc == 3 && !strcmp(argv[1], "serve")) {
		r = grpc_serve(grpc, argv[2], methods, sizeof(methods) / sizeof(*methods), NULL);
	} else if (!r && argc == 6 && !strcmp(argv[1], "call")) {
		r = grpc_call_out(grpc, argv[2],
				  &(struct grpc_request){.path = argv[3],
							 .timeout_ms = atoi(argv[4]),
							 .bytes = (const uint8_t *)argv[5],
							 .len = strlen(argv[5]),
							 .heard = heard,
							 .ended = ended});
	} else {
		r = 2;
	}
	if (r)
		errx(1, "%d", r);
	puts("ready");
	fflush(stdout);
	run();
	grpc_close(grpc);
	return 0;
}
