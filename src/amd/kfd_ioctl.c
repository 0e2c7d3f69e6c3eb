/* SPDX-License-Identifier: Apache-2.0 */
#include "amd/kfd_ioctl.h"

#include "amd/abi/kfd.h"

/* By number, so that finding one is a load: this stands before each ioctl of a program. */
static const struct kfd_ioctl by_nr[256] = {
#define KFD_IOCTL(n, name, args, decision) [n] = {#name, sizeof(struct args), KFD_##decision, n},
#define KFD_OTHER(n, name, decision)	   [n] = {#name, 0, KFD_##decision, n},
#include "amd/kfd_ioctl.def"
};

const struct kfd_ioctl *kfd_ioctl_find(unsigned long request)
{
	const struct kfd_ioctl *row = &by_nr[_IOC_NR(request)];

	return _IOC_TYPE(request) == AMDKFD_IOCTL_BASE && row->name ? row : NULL;
}
