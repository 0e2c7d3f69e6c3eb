/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gRPC over HTTP/2 (nghttp2) on unix sockets, for one thread: a server of methods, and calls of
 * another's. A message is bytes here; what is in it is the caller's.
 *
 *	kubelet ──► socket ──► connection ──► call ──► method->called ──► grpc_send, grpc_finish
 *	ours        grpc_call_out ──► connection to the other's socket ──► heard, ended
 *
 * All descriptors are behind one, which can be read when grpc_run has something to do: an event loop
 * sleeps on that. Nothing here waits. Peers are untrusted: a message has GRPC_MESSAGE_MOST bytes at
 * most, connections and calls are limited, and a connection that resets call after call is closed.
 * Callbacks may send, finish and call out; they may neither stop nor close.
 */
#ifndef ALLOT_KUBE_WIRE_GRPC_H
#define ALLOT_KUBE_WIRE_GRPC_H

#include <stddef.h>
#include <stdint.h>

/* As Go's and C's libraries have it by default. */
#define GRPC_MESSAGE_MOST ((size_t)4 << 20)

enum grpc_status {
	GRPC_OK = 0,
	GRPC_CANCELLED = 1,
	GRPC_UNKNOWN = 2,
	GRPC_INVALID_ARGUMENT = 3,
	GRPC_DEADLINE_EXCEEDED = 4,
	GRPC_NOT_FOUND = 5,
	GRPC_RESOURCE_EXHAUSTED = 8,
	GRPC_UNIMPLEMENTED = 12,
	GRPC_INTERNAL = 13,
	GRPC_UNAVAILABLE = 14,
};

struct grpc;
struct grpc_call;

/* A method that is served. */
struct grpc_method {
	const char *path; /* "/package.Service/Method" */
	/*
	 * The request is whole. It is answered by grpc_finish, now or later, after any number of
	 * grpc_send; `arg` is grpc_serve's. The bytes are gone when this returns.
	 */
	void (*called)(void *arg, struct grpc_call *call, const uint8_t *request, size_t len);
	/* The caller gave up a call that is not finished, which is no more after this. NULL: no matter. */
	void (*gone)(void *arg, struct grpc_call *call);
};

/* A call of ours. */
struct grpc_request {
	const char *path;
	const uint8_t *bytes;
	size_t len;
	int timeout_ms; /* for all of it; -1: none, as for a stream */
	/* Each message of the answer. NULL: no matter. */
	void (*heard)(void *arg, const uint8_t *message, size_t len);
	/* Once, also where there is no answer (GRPC_UNAVAILABLE). `text` may be empty. */
	void (*ended)(void *arg, enum grpc_status status, const char *text);
	void *arg;
};

/* -errno. */
int grpc_open(struct grpc **ret);
/* Ends all calls; ours hear of it. Takes NULL. */
void grpc_close(struct grpc *grpc);

int grpc_fd(const struct grpc *grpc);
int grpc_timeout_ms(const struct grpc *grpc); /* until grpc_run has something to do; -1: none */
void grpc_run(struct grpc *grpc);

/*
 * Listens on a socket of that path, in place of what was there, mode 0600; `n` methods, which stay
 * where they are. -errno; -EEXIST: it listens there already.
 */
int grpc_serve(struct grpc *grpc, const char *path, const struct grpc_method *method, size_t n,
	       void *arg);
/* No more there: its calls end, its file goes. */
void grpc_stop(struct grpc *grpc, const char *path);

/* Connects, calls, and closes: -errno where `ended` will not be heard. */
int grpc_call_out(struct grpc *grpc, const char *socket_path, const struct grpc_request *request);

/* -EAGAIN: the caller does not read what was sent before. -EMSGSIZE, -ENOMEM. */
int grpc_send(struct grpc_call *call, const uint8_t *message, size_t len);
/* The call is no more after this. The text is for a person, and may be NULL. */
void grpc_finish(struct grpc_call *call, enum grpc_status status, const char *text);

#endif
