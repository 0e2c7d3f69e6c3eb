/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The kernel's part of a checkpoint of a stopped process, as the kernel returns it. */
#ifndef ALLOT_CRIU_KFD_KFD_ASK_H
#define ALLOT_CRIU_KFD_KFD_ASK_H

#include "amd/abi/kfd_criu.h"
#include "criu/kfd/kfd_calls.h"

/*
 * The answer to CRIU_OP's CHECKPOINT. Descriptors of buffers are in there, and stay open until it
 * is closed: as long as they are, a buffer's inode is no other's.
 */
struct kfd_answer {
	struct kfd_ioctl_criu_args args;
	struct kfd_criu_device_bucket *devices;
	struct kfd_criu_bo_bucket *bos;
	char *priv;
};

/* Starts with `op`; 0 or -errno. */
int kfd_ask_op(const struct kfd_calls *calls, int kfd, enum kfd_criu_op op,
	       struct kfd_ioctl_criu_args *args);

/*
 * On 0 the process is paused, and KFD_CRIU_OP_UNPAUSE continues it. `kfd`: a descriptor of its
 * /dev/kfd; the caller has stopped it. -EPROTONOSUPPORT for private data of an unknown version.
 */
int kfd_ask(const struct kfd_calls *calls, int kfd, struct kfd_answer *ret,
	    char why[KFD_WHY_BYTES]);
void kfd_answer_close(struct kfd_answer *answer); /* takes a zeroed one */

/* The private data of each buffer: fields are aligned there. */
const struct kfd_criu_bo_priv *kfd_answer_privs(const struct kfd_answer *answer);

#endif
