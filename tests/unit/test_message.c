/* SPDX-License-Identifier: Apache-2.0 */
/* The messages in a stream of gRPC's, in whatever pieces they come. */
#include <errno.h>
#include <string.h>

#include "kube/wire/message.h"
#include "tests/check.h"

#define MOST 8

static struct message_buffer buffer;

static int add(const char *bytes, size_t len)
{
	return message_buffer_add(&buffer, (const uint8_t *)bytes, len, MOST);
}

static void check_next(const char *expected)
{
	const uint8_t *message;
	size_t len;

	CHECK_EQ(message_buffer_take(&buffer, MOST, &message, &len), 1);
	CHECK_EQ(len, strlen(expected));
	CHECK(!memcmp(message, expected, len));
}

static void check_error(int expected)
{
	const uint8_t *message;
	size_t len;

	CHECK_EQ(message_buffer_take(&buffer, MOST, &message, &len), expected);
	message_buffer_free(&buffer);
}

static void check_pieces(void)
{
	const char both[] = "\0\0\0\0\3abc\0\0\0\0\0";

	for (size_t i = 0; i < sizeof(both) - 1; i++) {
		CHECK_EQ(add(both + i, 1), 0);
		CHECK_EQ(message_buffer_is_torn(&buffer), 1);
		if (i == 7)
			check_next("abc");
	}
	check_next("");
	CHECK_EQ(message_buffer_is_torn(&buffer), 0);
	check_error(0);
	CHECK_EQ(add(both, sizeof(both) - 1), 0);
	check_next("abc");
	check_next("");
	check_error(0);
}

static void check_limits(void)
{
	uint8_t head[MESSAGE_HEAD];

	CHECK_EQ(add("\0\0\0\0\10" "12345678", 13), 0);
	check_next("12345678");
	CHECK_EQ(add("\0\0\0\0\11", 5), 0);
	check_error(-EMSGSIZE);
	CHECK_EQ(add("\0\0\0\0\10" "123456789", 14), -EMSGSIZE);
	CHECK_EQ(add("\0\xff\xff\xff\xff", 5), 0);
	check_error(-EMSGSIZE);
	CHECK_EQ(add("\1\0\0\0\1x", 6), 0);
	check_error(-EPROTONOSUPPORT);
	message_put_head(head, 0x01020304);
	CHECK(!memcmp(head, "\0\1\2\3\4", MESSAGE_HEAD));
}

int main(void)
{
	check_pieces();
	check_limits();
	return 0;
}
