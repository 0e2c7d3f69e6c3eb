/* SPDX-License-Identifier: Apache-2.0 */
/* The drivers' figures of each process's memory on each device, for processes of any user. */
#ifndef ALLOT_NODE_USAGE_H
#define ALLOT_NODE_USAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "ledger/policy.h"

struct usage {
	uint8_t uuid[16]; /* of the device, as in policies */
	pid_t pid;	  /* as the driver says it: in the first PID namespace on most systems */
	uint64_t bytes;	  /* UINT64_MAX: it uses the device, and the driver does not tell how much */
	uint64_t total_bytes; /* of the device, by NVML; 0: not known */
};

struct usage_list {
	size_t n;
	struct usage *list; /* malloc'ed */
	size_t nlost;
	uint8_t lost[POLICY_DEVICES][16]; /* devices that were there, and do not answer */
};

struct usage_reader;

/*
 * Opens the drivers that there are, once: NVML's start takes milliseconds. -ENODEV: there is none;
 * -ENOMEM.
 */
int usage_open(struct usage_reader **ret);
void usage_close(struct usage_reader *reader); /* takes NULL */

/* Returns false if a driver lists more or fewer devices than when it was opened. */
bool usage_is_current(struct usage_reader *reader);

/*
 * Asks, which may block for as long as a driver likes. -ENOMEM, or -errno of reading /proc. Of
 * AMD's GPUs all processes are asked the first time, and when more or less is used of one.
 */
int usage_read(struct usage_reader *reader, struct usage_list *ret);
void usage_free(struct usage_list *list);

/* How busy each device is, of those of which a driver tells it. */
struct usage_busy {
	size_t n;
	struct {
		uint8_t uuid[16];
		uint32_t percent; /* of the driver's last window */
	} list[POLICY_DEVICES];
};

/* Likewise. */
void usage_read_busy(struct usage_reader *reader, struct usage_busy *ret);

#endif
