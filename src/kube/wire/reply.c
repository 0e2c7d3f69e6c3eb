/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/wire/reply.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"

int reply_send(struct grpc_call *call, const ProtobufCMessage *message)
{
	size_t len = protobuf_c_message_get_packed_size(message);
	CLEANUP_FREE uint8_t *bytes = malloc(len + 1);

	if (!bytes)
		return -ENOMEM;
	protobuf_c_message_pack(message, bytes);
	return grpc_send(call, bytes, len);
}

void reply(struct grpc_call *call, const ProtobufCMessage *message)
{
	int r = reply_send(call, message);

	grpc_finish(call, r < 0 ? GRPC_RESOURCE_EXHAUSTED : GRPC_OK, r < 0 ? "out of memory" : NULL);
}
