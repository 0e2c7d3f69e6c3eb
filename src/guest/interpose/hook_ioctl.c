/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ioctl: the way to AMD's driver. A call for any other file passes by; one for /dev/kfd or a render
 * node is decided on by its number.
 */
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "amd/abi/drm.h"
#include "base/cancel.h"
#include "base/cleanup.h"
#include "base/pages.h"
#include "guest/amd/call.h"
#include "guest/amd/memory/inherit.h"
#include "guest/amd/memory/memory.h"
#include "guest/amd/queue/queue.h"
#include "guest/amd/user.h"
#include "guest/core/pass.h"
#include "guest/process/next.h"

/* So that a handler may read any version's block whole. */
#define SLACK_BYTES 128

static int ioctl_act(struct amd_call *call, enum kfd_decision decision)
{
	switch (decision) {
	case KFD_KEEP:
		amd_inherit_vm(call);
		return amd_device_call(call);
	case KFD_DEVICE:
		return amd_device_call(call);
	case KFD_COUNT:
	case KFD_RELEASE:
	case KFD_MAP:
	case KFD_NOTE:
	case KFD_SHARE:
	case KFD_MOVE:
	case KFD_LEFT:
		return amd_memory_call(call);
	case KFD_VIEW:
		return amd_view_call(call);
	case KFD_QUEUE:
		return amd_queue_call(call);
	case KFD_PASS:
	case KFD_USE:
	case KFD_REFUSE:
		break; /* without looking at the block */
	}
	return call->device ? -EINVAL : -ENOTTY;
}

/* Which ways the caller's block goes: in DRM as the request says, in KFD as the kernel's does. */
static unsigned int ioctl_ways(const struct amd_call *call)
{
	return call->device ? _IOC_DIR(call->request) : _IOC_READ | _IOC_WRITE;
}

/*
 * Copies the block in and out. A call of KFD's that only answers has a block, too, so an unreadable
 * one is refused for all. Bytes that the kernel left unchanged are not written: they may be in
 * read-only memory. DRM is always asked for its answer: a handle that it does not return could not
 * be charged.
 */
static int ioctl_with_block(struct amd_call *call, enum kfd_decision decision, uint64_t arg,
			    uint8_t *block, uint8_t *before)
{
	const unsigned int way = ioctl_ways(call);
	int r;

	call->block = block;
	memset(block + call->bytes, 0, SLACK_BYTES);
	if (!(way & _IOC_WRITE))
		memset(block, 0, call->bytes);
	else if (user_read(block, arg, call->bytes))
		return -EFAULT;
	memcpy(before, block, call->bytes);
	if (call->device)
		call->request = _IOC(_IOC_READ | _IOC_WRITE, _IOC_TYPE(call->request),
				     _IOC_NR(call->request), call->bytes);
	r = ioctl_act(call, decision);
	if (!(way & _IOC_READ) || (way & _IOC_WRITE && !memcmp(before, block, call->bytes)))
		return r;
	return user_write(arg, block, call->bytes) ? -EFAULT : r;
}

/*
 * All blocks but some of SVM's are small. A stack may be small, too, or not in the cache so far
 * down.
 */
#define SMALL_BYTES 512

__attribute__((noinline)) static int ioctl_with_small(struct amd_call *call,
						      enum kfd_decision decision, uint64_t arg)
{
	_Alignas(16) uint8_t block[SMALL_BYTES + SLACK_BYTES], before[SMALL_BYTES];

	return ioctl_with_block(call, decision, arg, block, before);
}

static int ioctl_with_large(struct amd_call *call, enum kfd_decision decision, uint64_t arg)
{
	size_t room = AMD_BLOCK_BYTES + SLACK_BYTES, bytes = room + AMD_BLOCK_BYTES;
	uint8_t *block = pages_map(bytes);
	int r;

	if (!block)
		return -ENOMEM;
	r = ioctl_with_block(call, decision, arg, block, block + room);
	munmap(block, bytes);
	return r;
}

/* A GPU that the tenant does not have, or that nobody sees: as if the file could not be opened. */
static bool ioctl_is_hidden(const struct amd_call *call, int file)
{
	return file != AMD_FILE_KFD && call->device && !call->device->ours;
}

/*
 * A tenant that has all of the machine's GPUs may name them all. Of memory that can leave it is
 * noted who reaches it.
 */
static bool ioctl_passes(const struct amd_call *call, enum kfd_decision decision)
{
	if (decision == KFD_PASS || decision == KFD_USE)
		return true;
	if (decision == KFD_NOTE)
		return !amd_memory_notes(call->amd, call->fd);
	return !call->amd->hides && !call->guest->swappable &&
	       (decision == KFD_MAP || decision == KFD_DEVICE);
}

/* Calls that wait while memory is evicted: all that may take, use or release it. */
static struct guest *ioctl_enter(const struct amd_call *call, enum kfd_decision decision)
{
	struct guest *pass;

	if (decision == KFD_PASS || decision == KFD_VIEW || decision == KFD_REFUSE)
		return NULL;
	pass = pass_enter(call->guest);
	if (pass && call->device && _IOC_NR(call->request) == DRM_NR_AMDGPU_CS)
		atomic_store(&call->amd->rings, 1);
	return pass;
}

static int ioctl_decide(int file, int fd, unsigned long request, void *arg)
{
	CLEANUP(pass_leave) struct guest *pass = NULL;
	struct amd_call call = {.fd = fd, .request = request};
	enum kfd_decision decision;
	int error, r;

	call.amd = amd_limited(&call.guest, &error);
	if (call.amd && file != AMD_FILE_KFD)
		call.device = amd_device_of_minor(call.amd, file);
	/* Another vendor's DRM device, or nothing is limited. */
	if (!error && (!call.amd || (file != AMD_FILE_KFD && !call.device)))
		return next_libc()->ioctl(fd, request, arg);
	if (error || ioctl_is_hidden(&call, file)) {
		errno = error ? -error : EACCES;
		return -1;
	}
	decision = file == AMD_FILE_KFD ? kfd_ioctl_decide(request) : drm_ioctl_decide(request);
	pass = ioctl_enter(&call, decision);
	if (ioctl_passes(&call, decision))
		return next_libc()->ioctl(fd, request, arg);
	call.bytes = _IOC_SIZE(request);
	if (decision == KFD_REFUSE)
		r = ioctl_act(&call, decision);
	else
		r = call.bytes <= SMALL_BYTES ? ioctl_with_small(&call, decision, (uintptr_t)arg)
					      : ioctl_with_large(&call, decision, (uintptr_t)arg);
	if (r >= 0)
		return r;
	errno = -r;
	return -1;
}

/*
 * A thread is not cancelled in ioctl, and so not in what is done for it here: it would leave a
 * descriptor behind, or a reservation.
 */
static int ioctl_uncancelled(int file, int fd, unsigned long request, void *arg)
{
	int cancel = cancel_hold(), r = ioctl_decide(file, fd, request, arg);

	cancel_release(cancel);
	return r;
}

__attribute__((visibility("default"))) int ioctl(int fd, unsigned long request, ...)
{
	va_list ap;
	void *arg;
	int file;

	va_start(ap, request);
	arg = va_arg(ap, void *);
	va_end(ap);
	if (amd_is_absent() || guest_inside())
		file = AMD_FILE_NONE;
	else
		file = amd_is_kfd_request(fd, request) ? AMD_FILE_KFD : amd_file(fd);
	if (__builtin_expect(file == AMD_FILE_NONE, 1))
		return next_libc()->ioctl(fd, request, arg);
	return ioctl_uncancelled(file, fd, request, arg);
}
