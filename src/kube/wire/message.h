/* SPDX-License-Identifier: Apache-2.0 */
/* The messages in a stream of gRPC's: each has a byte that says whether it is compressed, and its length. */
#ifndef ALLOT_KUBE_WIRE_MESSAGE_H
#define ALLOT_KUBE_WIRE_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

#define MESSAGE_HEAD 5

/* Bytes received; the first `taken` of them are messages that were taken. Zeroed in the beginning. */
struct message_buffer {
	uint8_t *bytes;
	size_t len, room, taken;
};

void message_buffer_free(struct message_buffer *buffer);

/* -ENOMEM; -EMSGSIZE: the message that has begun has more than `most` bytes. */
int message_buffer_add(struct message_buffer *buffer, const uint8_t *bytes, size_t len, size_t most);

/*
 * The next whole message, until more is added: 1, or 0 where there is none. -EPROTONOSUPPORT: it is
 * compressed, -EMSGSIZE: longer than `most`.
 */
int message_buffer_take(struct message_buffer *buffer, size_t most, const uint8_t **ret_message,
			size_t *ret_len);

/* Returns 1 if bytes are left that are no whole message. */
int message_buffer_is_torn(const struct message_buffer *buffer);

void message_put_head(uint8_t head[static MESSAGE_HEAD], size_t len);

#endif
