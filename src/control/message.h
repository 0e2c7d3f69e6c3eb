/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages between a user's command and allotd: one request and one answer over a connection of
 * <runtime>-users/control (SOCK_SEQPACKET), each of a fixed size. The kernel tells the sender.
 */
#ifndef ALLOT_CONTROL_MESSAGE_H
#define ALLOT_CONTROL_MESSAGE_H

#include <stdint.h>

#include "ledger/policy.h"

#define CONTROL_MAGIC	UINT32_C(0x4f43544c)
#define CONTROL_VERSION 2
#define CONTROL_SOCKET	"control"
/* A site with this file has an allotd: where none answers, nothing begins without it. */
#define CONTROL_CONFIG "/etc/allot/allotd.conf"

enum control_verb {
	CONTROL_MAKE,	/* makes a tenant of the sender; answers its policy */
	CONTROL_SET,	/* `policy` in place of `before` */
	CONTROL_END,	/* remove it if it has ended */
	CONTROL_REMOVE, /* likewise one that is kept */
	CONTROL_SUSPEND, /* answered when it is done: the words are what people are told */
	CONTROL_RESUME,
	CONTROL_ABOUT, /* changes nothing; answers the daemon's configuration */
	CONTROL_VERBS,
};

/*
 * For CONTROL_MAKE and CONTROL_SET: the settings that were asked for, and are not a new policy's
 * defaults.
 */
enum control_said {
	CONTROL_SAID_MEMORY = 1 << 0,
	CONTROL_SAID_COMPUTE = 1 << 1, /* a share, a weight, or none */
	CONTROL_SAID_PRIORITY = 1 << 2,
	CONTROL_SAID_CONTEXTS = 1 << 3, /* of CONTROL_SUSPEND: these, too */
	CONTROL_SAID_METER = 1 << 4,
};

/*
 * Exit statuses of `allot suspend` and `allot resume`, which allotd runs for others: no room on the
 * host, on a device or in the quota; a process did not come to rest or stands still, as timeout(1)'s.
 */
#define CONTROL_EXIT_NO_ROOM 123
#define CONTROL_EXIT_LATE    124

/* Work on the devices is waited for no longer than this, nor for others' moves and memory's. */
#define CONTROL_TIMEOUT_MAX_US (600 * UINT64_C(1000000))
/* Nor for programs that were given notice; see SWAP_NOTICE_MOST_NS. */
#define CONTROL_NOTICE_MAX_US (60 * UINT64_C(1000000))

struct control_request {
	uint32_t magic, version;
	uint32_t verb, said;
	uint32_t kind; /* of CONTROL_MAKE: enum tenant_kind of node/tenants.h */
	union {
		uint32_t container; /* likewise, of TENANT_CONTAINER: pid of its first process, for the sender */
		uint32_t notice_ms; /* of CONTROL_SUSPEND, as its option; 0, and daemons from before: none */
	};
	uint64_t host_bytes;  /* of CONTROL_SUSPEND, as its option; 0: no bound of its own */
	uint64_t timeout_us; /* likewise; of CONTROL_RESUME, where it is not 0 */
	char name[POLICY_NAME_BYTES]; /* of CONTROL_MAKE without its "@UID" */
	struct policy before, policy;
};

/* The configuration in force, and its file's state when it was read. */
struct control_about {
	uint64_t dev, ino, bytes, mtime_ns; /* ino 0: there was none, and users are not bounded */
	char config[1024];		    /* its path */
};

struct control_answer {
	uint32_t magic, version;
	/*
	 * 0 or -errno. -EUSERS: too many ask at once, try again. Of a move that the command refused, by its
	 * exit status: -ECANCELED, -ENOSPC for no room, -ETIMEDOUT if it is late; the words are its own.
	 */
	int32_t error;
	uint32_t pad;
	char words[512]; /* why, and what to do; "": the error says it */
	union {
		struct policy policy;
		struct control_about about; /* of CONTROL_ABOUT */
	};
};

_Static_assert(sizeof(struct control_about) <= sizeof(struct policy), "an answer has one size");

#endif
