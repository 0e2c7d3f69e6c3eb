/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#include "criu/kfd/kfd_ask.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "amd/kfd_ioctl.h"

#define MOST_BYTES (UINT64_C(64) << 20) /* of private data */

int kfd_ask_op(const struct kfd_calls *calls, int kfd, enum kfd_criu_op op,
	       struct kfd_ioctl_criu_args *args)
{
	args->op = op;
	return calls->ioctl(kfd, _IOWR(AMDKFD_IOCTL_BASE, KFD_NR_CRIU_OP, *args), args);
}

void kfd_answer_close(struct kfd_answer *a)
{
	for (uint32_t i = 0; a->bos && i < a->args.num_bos; i++)
		if (a->bos[i].dmabuf_fd != KFD_INVALID_FD)
			close((int)a->bos[i].dmabuf_fd);
	free(a->devices);
	free(a->bos);
	free(a->priv);
	*a = (struct kfd_answer){.devices = NULL};
}

const struct kfd_criu_bo_priv *kfd_answer_privs(const struct kfd_answer *a)
{
	return (const void *)(a->priv + sizeof(struct kfd_criu_process_priv) +
			      a->args.num_devices * sizeof(struct kfd_criu_device_priv));
}

static int ask_make_room(struct kfd_answer *a)
{
	if (a->args.priv_data_size > MOST_BYTES)
		return -EFBIG;
	a->devices = calloc(a->args.num_devices + 1, sizeof(*a->devices));
	a->bos = calloc(a->args.num_bos + 1, sizeof(*a->bos));
	a->priv = calloc(1, a->args.priv_data_size + 1);
	if (!a->devices || !a->bos || !a->priv)
		return -ENOMEM;
	for (uint32_t i = 0; i < a->args.num_bos; i++)
		a->bos[i].dmabuf_fd = KFD_INVALID_FD;
	a->args.devices = (uintptr_t)a->devices;
	a->args.bos = (uintptr_t)a->bos;
	a->args.priv_data = (uintptr_t)a->priv;
	return 0;
}

/* The kernel does not promise the layout: only this version's fields are read. */
static int ask_check(const struct kfd_answer *a)
{
	const struct kfd_criu_process_priv *head = (const void *)a->priv;
	uint64_t least = sizeof(*head) + a->args.num_devices * sizeof(struct kfd_criu_device_priv) +
			 (uint64_t)a->args.num_bos * sizeof(struct kfd_criu_bo_priv);

	return a->args.priv_data_size >= least && head->version == KFD_CRIU_PRIV_VERSION
		       ? 0
		       : -EPROTONOSUPPORT;
}

static int ask_all(const struct kfd_calls *calls, int kfd, struct kfd_answer *a,
		   char why[KFD_WHY_BYTES])
{
	int r = ask_make_room(a);

	if (r < 0)
		return kfd_say(why, r, "no room for the kernel's data of a process");
	r = kfd_ask_op(calls, kfd, KFD_CRIU_OP_CHECKPOINT, &a->args);
	if (r < 0)
		return kfd_say(why, r, "the kernel does not say what process %u has of /dev/kfd",
			       a->args.pid);
	r = ask_check(a);
	return r < 0 ? kfd_say(why, r,
			       "the kernel's data of a process are not of version %u, which this "
			       "allot knows",
			       KFD_CRIU_PRIV_VERSION)
		     : 0;
}

int kfd_ask(const struct kfd_calls *calls, int kfd, struct kfd_answer *ret, char why[KFD_WHY_BYTES])
{
	struct kfd_answer a = {.devices = NULL};
	struct kfd_ioctl_criu_args unpause = {0};
	int r = kfd_ask_op(calls, kfd, KFD_CRIU_OP_PROCESS_INFO, &a.args);

	if (r < 0)
		return kfd_say(why, r,
			       r == -EACCES  ? "checkpoints take CAP_CHECKPOINT_RESTORE"
			       : r == -EBADF ? "the process of this /dev/kfd is not traced by us"
			       : r == -EINVAL ? "the queues of a process stand still already: it has "
						"/dev/kfd open twice, or is in a checkpoint"
					     : "the kernel does not stop a process's queues");
	r = ask_all(calls, kfd, &a, why);
	if (r < 0) {
		kfd_answer_close(&a);
		kfd_ask_op(calls, kfd, KFD_CRIU_OP_UNPAUSE, &unpause);
		return r;
	}
	*ret = a;
	return 0;
}
