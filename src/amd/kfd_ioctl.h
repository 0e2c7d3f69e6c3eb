/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The lists of ioctls of /dev/kfd and of render nodes, as tables. A request is looked up by type
 * and number: its size is that of the caller's version of the interface.
 */
#ifndef ALLOT_AMD_KFD_IOCTL_H
#define ALLOT_AMD_KFD_IOCTL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum kfd_decision {
#define KFD_DECISION(name, what) KFD_##name,
#include "amd/kfd_decision.def"
};

/* The version of the kernel's interface (major 1) up to which the list has a row for each number. */
#define KFD_LIST_MINOR 23

/* The Linux up to which that is so for render nodes, too: what `uname -r` begins with. */
#define DRM_LIST_MAJOR 7
#define DRM_LIST_MINOR 2

/* KFD_NR_GET_VERSION, ...: what is below an ioctl's type. */
enum kfd_nr {
#define KFD_IOCTL(nr, name, args, decision) KFD_NR_##name = nr,
#define KFD_OTHER(nr, name, decision)	    KFD_NR_##name = nr,
#include "amd/kfd_ioctl.def"
};

struct kfd_ioctl {
	const char *name;  /* without AMDKFD_IOC_ */
	size_t args_bytes; /* of the newest version known here; 0: nobody here needs it */
	enum kfd_decision decision;
	uint8_t nr;
};

/* The row of a request; NULL for one of another type or with a number that is in no row. */
const struct kfd_ioctl *kfd_ioctl_find(unsigned long request);

/*
 * The decision about any request to /dev/kfd, or to a render node:
 *
 * - a request in the list: that of its row;
 * - one that the kernel answers for any file, before a driver sees it (FIOCLEX, ...): PASS;
 * - all others: REFUSE. This includes a known number with another type. The drivers look at the
 *   number alone, so they would do what the number says.
 */
enum kfd_decision kfd_ioctl_decide(unsigned long request);
enum kfd_decision drm_ioctl_decide(unsigned long request);

/*
 * True if a render node's ioctl of that number is not just passed on, whatever the type says: the
 * same number may reach a render node by mistake, so its effect there has to be decided on.
 */
bool drm_ioctl_matters(unsigned long request);

#endif
