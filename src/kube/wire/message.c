/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/wire/message.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ROOM_LEAST 512

void message_buffer_free(struct message_buffer *buffer)
{
	free(buffer->bytes);
	*buffer = (struct message_buffer){0};
}

static size_t message_len(const uint8_t *head)
{
	return (size_t)head[1] << 24 | (size_t)head[2] << 16 | (size_t)head[3] << 8 | head[4];
}

/* Drops the messages that were taken. */
static void message_buffer_shift(struct message_buffer *buffer)
{
	if (!buffer->taken)
		return;
	memmove(buffer->bytes, buffer->bytes + buffer->taken, buffer->len - buffer->taken);
	buffer->len -= buffer->taken;
	buffer->taken = 0;
}

static int message_buffer_grow(struct message_buffer *buffer, size_t len)
{
	size_t room = buffer->room ? buffer->room : ROOM_LEAST;
	uint8_t *bytes;

	while (room < len)
		room *= 2;
	if (room == buffer->room)
		return 0;
	bytes = realloc(buffer->bytes, room);
	if (!bytes)
		return -ENOMEM;
	buffer->bytes = bytes;
	buffer->room = room;
	return 0;
}

int message_buffer_add(struct message_buffer *buffer, const uint8_t *bytes, size_t len, size_t most)
{
	int r;

	message_buffer_shift(buffer);
	if (len > MESSAGE_HEAD + most - (buffer->len < most ? buffer->len : most))
		return -EMSGSIZE;
	r = message_buffer_grow(buffer, buffer->len + len);
	if (r < 0)
		return r;
	memcpy(buffer->bytes + buffer->len, bytes, len);
	buffer->len += len;
	return 0;
}

int message_buffer_take(struct message_buffer *buffer, size_t most, const uint8_t **ret_message,
			size_t *ret_len)
{
	const uint8_t *head = buffer->bytes + buffer->taken;
	size_t left = buffer->len - buffer->taken, len;

	if (left < MESSAGE_HEAD)
		return 0;
	if (head[0])
		return -EPROTONOSUPPORT;
	len = message_len(head);
	if (len > most)
		return -EMSGSIZE;
	if (left - MESSAGE_HEAD < len)
		return 0;
	*ret_message = head + MESSAGE_HEAD;
	*ret_len = len;
	buffer->taken += MESSAGE_HEAD + len;
	return 1;
}

int message_buffer_is_torn(const struct message_buffer *buffer)
{
	return buffer->taken < buffer->len;
}

void message_put_head(uint8_t head[static MESSAGE_HEAD], size_t len)
{
	head[0] = 0;
	head[1] = (uint8_t)(len >> 24);
	head[2] = (uint8_t)(len >> 16);
	head[3] = (uint8_t)(len >> 8);
	head[4] = (uint8_t)len;
}
