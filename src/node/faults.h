/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices on which nothing new is to begin, by what NVIDIA's driver says of them: one reported an error that is
 * its own and no program's (an Xid), or does not answer any more.
 *
 *	Xid of a program's (13, 31, 43, 45, 68, 109)	nothing: NVIDIA's device plugin passes them over, too
 *	any other					faulty
 *	faulty, the driver asks for a reset, a reboot	faulty until it asks for nothing any more
 *	faulty, the driver asks for nothing		well 60 s after the last error
 *	faulty, the driver does not tell that		faulty until the daemon starts anew
 */
#ifndef ALLOT_NODE_FAULTS_H
#define ALLOT_NODE_FAULTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ledger/policy.h"
#include "nvidia/nvml_errors.h"

#define FAULT_WORDS 160

struct fault {
	uint8_t uuid[16];
	char words[FAULT_WORDS]; /* why, for people */
};

struct faults {
	unsigned int n;
	struct fault list[POLICY_DEVICES];
};

/* Why nothing is to begin on it; NULL: it is well. */
const char *faults_find(const struct faults *faults, const uint8_t uuid[static 16]);

/* Returns true if the error is the device's, and no program's. */
bool fault_is_of_device(uint64_t xid);

/* A device that reported such an error. Pure. */
struct fault_state {
	uint8_t uuid[16];
	uint64_t xid;	  /* the latest; 0: one before this process */
	uint64_t since_ns; /* when that came */
	enum nvml_recovery recovery; /* by the latest look */
	bool needed;		     /* the driver asked for something since then */
};

/* Returns true if the device is well by what the driver says it needs. */
bool fault_is_over(struct fault_state *state, enum nvml_recovery recovery, uint64_t now_ns);
void fault_print(const struct fault_state *state, char ret[static FAULT_WORDS]);

struct faults_reader;

/* -ENOMEM. Without NVML, or a driver that tells of errors, only devices that do not answer are faulty. */
int faults_open(struct faults_reader **ret);
void faults_close(struct faults_reader *reader); /* takes NULL */

/*
 * For a changed list of devices in NVML: all users close it (faults_rest), and then open it again
 * (faults_renew), one after the other. Knowledge of devices stays.
 */
void faults_rest(struct faults_reader *reader);
void faults_renew(struct faults_reader *reader);

/*
 * Asks, which may block for as long as a driver likes. The `silent` do not answer, as was seen before: zeros
 * are one that does not even say its name.
 */
void faults_read(struct faults_reader *reader, const uint8_t (*silent)[16], size_t n, struct faults *ret);

#endif
