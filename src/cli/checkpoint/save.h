/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A whole tenant into a directory: an image of what it has on devices (image/image.h), CRIU's files of
 * its processes, its ledger, and what vouches for them (image/parts.h).
 *
 *	suspend, with contexts
 *	content ──► objects, manifest.json      in both
 *	note in the tenant's directory
 *	GIVEN                                   in the image alone
 *	CRIU ──► criu/0                         the processes are stopped
 *	ledger, parts                           the checkpoint is whole
 *	end of the tenant, or all back
 *
 * On AMD GPUs nothing leaves, and CRIU's plugin takes it from where it is:
 *
 *	STILL                                   the program's calls wait
 *	objects, manifest.json                  without content
 *	note, CRIU ──► criu/0                   the processes are stopped
 *	ledger, parts, and so on
 *
 * So at each moment all content is in the processes or in an image that is finished, and the
 * processes end only when the checkpoint is whole. `allot resume` goes back from each of these steps.
 */
#ifndef ALLOT_CLI_CHECKPOINT_SAVE_H
#define ALLOT_CLI_CHECKPOINT_SAVE_H

#include <stdbool.h>
#include <stdint.h>

struct save_options {
	const char *dir; /* made; must be empty */
	bool leave_running;
	uint64_t timeout_us; /* how long to wait for work on the device */
	int level;	     /* of zstd; 0: none */
};

/* 0, or an exit status after a message: then the tenant is as it was, and the directory, too. */
int save_tenant(const char *name, const struct save_options *options);

#endif
