/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of protobuf-c's as answers to calls. */
#ifndef ALLOT_KUBE_WIRE_REPLY_H
#define ALLOT_KUBE_WIRE_REPLY_H

#include <protobuf-c/protobuf-c.h>

#include "kube/wire/grpc.h"

/* One of a stream's. As grpc_send. */
int reply_send(struct grpc_call *call, const ProtobufCMessage *message);

/* The only one: the call is over. */
void reply(struct grpc_call *call, const ProtobufCMessage *message);

#endif
