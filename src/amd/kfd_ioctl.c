/* SPDX-License-Identifier: Apache-2.0 */
#include "amd/kfd_ioctl.h"

#include "amd/abi/drm.h"
#include "amd/abi/kfd.h"

/* By number, so that finding one is a load: this stands before each ioctl of a program. */
static const struct kfd_ioctl by_nr[256] = {
#define KFD_IOCTL(n, name, args, decision) [n] = {#name, sizeof(struct args), KFD_##decision, n},
#define KFD_OTHER(n, name, decision)	   [n] = {#name, 0, KFD_##decision, n},
#include "amd/kfd_ioctl.def"
};

/* One more, so that 0 is a number in no row. */
static const uint8_t drm_by_nr[256] = {
#define DRM_ROW(name, decision) [DRM_NR_##name] = KFD_##decision + 1,
#include "amd/drm_ioctl.def"
};

const struct kfd_ioctl *kfd_ioctl_find(unsigned long request)
{
	const struct kfd_ioctl *row = &by_nr[_IOC_NR(request)];

	return _IOC_TYPE(request) == AMDKFD_IOCTL_BASE && row->name ? row : NULL;
}

/* Of a character device: the kernel passes no others by its driver. */
static bool kfd_ioctl_is_for_any_file(unsigned long request)
{
	switch ((uint32_t)request) { /* the kernel takes no more of it */
	case FIOCLEX:
	case FIONCLEX:
	case FIONBIO:
	case FIOASYNC:
		return true;
	}
	return false;
}

static enum kfd_decision kfd_ioctl_decide_unlisted(unsigned long request)
{
	return kfd_ioctl_is_for_any_file(request) ? KFD_PASS : KFD_REFUSE;
}

enum kfd_decision kfd_ioctl_decide(unsigned long request)
{
	const struct kfd_ioctl *row = kfd_ioctl_find(request);

	return row ? row->decision : kfd_ioctl_decide_unlisted(request);
}

enum kfd_decision drm_ioctl_decide(unsigned long request)
{
	uint8_t decision = drm_by_nr[_IOC_NR(request)];

	if (_IOC_TYPE(request) != DRM_IOCTL_BASE || !decision)
		return kfd_ioctl_decide_unlisted(request);
	return (enum kfd_decision)(decision - 1);
}

bool drm_ioctl_matters(unsigned long request)
{
	return drm_by_nr[_IOC_NR(request)] > KFD_PASS + 1;
}
