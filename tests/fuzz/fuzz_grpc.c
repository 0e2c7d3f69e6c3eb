/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes to a gRPC server behind HTTP/2's preface, in two pieces; and the same as messages. */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "kube/wire/grpc.h"
#include "kube/wire/message.h"
#include "tests/fuzz/fuzz.h"

#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#define MOST	64 /* of a message, here */
#define ROUNDS	3

static struct grpc *grpc;
static struct sockaddr_un address = {.sun_family = AF_UNIX};
static int open_calls;

static void same(void *arg, struct grpc_call *call, const uint8_t *request, size_t len)
{
	MUST(len <= GRPC_MESSAGE_MOST);
	grpc_send(call, request, len);
	grpc_finish(call, GRPC_OK, NULL);
}

static void never(void *arg, struct grpc_call *call, const uint8_t *request, size_t len)
{
	open_calls++;
}

static void gone(void *arg, struct grpc_call *call)
{
	open_calls--;
}

static const struct grpc_method methods[] = {{"/s", same, NULL}, {"/n", never, gone}};

static void begin(void)
{
	snprintf(address.sun_path, sizeof(address.sun_path), "/tmp/allot-fuzz-grpc.%d", getpid());
	MUST(!grpc_open(&grpc));
	MUST(!grpc_serve(grpc, address.sun_path, methods, 2, NULL));
}

static void say(int fd, const void *bytes, size_t len)
{
	if (send(fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		return;
	for (int i = 0; i < ROUNDS; i++)
		grpc_run(grpc);
}

static void check_server(const uint8_t *data, size_t size)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	MUST(fd >= 0);
	MUST(!connect(fd, (const struct sockaddr *)&address, sizeof(address)));
	say(fd, PREFACE, sizeof(PREFACE) - 1);
	say(fd, data, size / 2);
	say(fd, data + size / 2, size - size / 2);
	close(fd);
	for (int i = 0; i < ROUNDS; i++)
		grpc_run(grpc);
	MUST(open_calls == 0);
}

/* In whatever pieces they come, the same messages are taken. */
static void check_messages(const uint8_t *data, size_t size)
{
	struct message_buffer buffer = {0};
	size_t at = 0, len;
	const uint8_t *message;
	int r = 0;

	for (size_t n = 1; at < size && !r; at += n, n = n % 7 + 1) {
		n = n < size - at ? n : size - at;
		r = message_buffer_add(&buffer, data + at, n, MOST);
		while (!r && (r = message_buffer_take(&buffer, MOST, &message, &len)) == 1) {
			MUST(len <= MOST);
			MUST(message + len <= buffer.bytes + buffer.len);
			r = 0;
		}
	}
	message_buffer_free(&buffer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!grpc)
		begin();
	check_server(data, size);
	check_messages(data, size);
	return 0;
}
