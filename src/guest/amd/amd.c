/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/amd/amd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "amd/abi/drm.h"
#include "amd/identity.h"
#include "amd/kfd_ioctl.h"
#include "amd/topology_read.h"
#include "base/fd.h"
#include "base/number.h"
#include "base/pages.h"
#include "guest/amd/ask.h"
#include "guest/core/in_force.h"
#include "guest/core/pass.h"
#include "guest/core/rooms.h"
#include "guest/core/trace.h"
#include "guest/process/complain.h"
#include "ledger/quota.h"
#include "ledger/swap.h"

#define KFD_PATH   "/dev/kfd"
#define KFD_NUMBER "/sys/class/kfd/kfd/dev" /* major:minor */
#define DRM_CLASS  "/sys/class/drm"
#define DRM_MAJOR  226
#define RENDER_DRM "/sys/dev/char/226:%u/device/drm" /* names of the nodes of a device */

_Atomic uint64_t amd_kfd_rdev;

/* The number as sysfs has it, since a container may have the node under any name; else by stat. */
static uint64_t amd_look_for_kfd(void)
{
	unsigned int major, minor;
	struct stat st;
	char text[32];

	if (fd_read_text(AT_FDCWD, KFD_NUMBER, text, sizeof(text)) >= 0 &&
	    sscanf(text, "%u:%u", &major, &minor) == 2)
		return (uint64_t)makedev(major, minor) + 1;
	if (!stat(KFD_PATH, &st) && S_ISCHR(st.st_mode))
		return (uint64_t)st.st_rdev + 1;
	if (!access(TOPOLOGY_DIR, F_OK))
		return AMD_KFD_NO_DEVICE;
	return access(DRM_CLASS, F_OK) && !access(TOPOLOGY_DRI, F_OK) ? AMD_KFD_UNTOLD
								      : AMD_KFD_NOT_HERE;
}

static uint64_t amd_find_kfd(void)
{
	uint64_t rdev = atomic_load_explicit(&amd_kfd_rdev, memory_order_relaxed);
	int saved = errno;

	if (__builtin_expect(rdev != 0, 1))
		return rdev;
	guest_depth++;
	rdev = amd_look_for_kfd();
	guest_depth--;
	errno = saved;
	atomic_store_explicit(&amd_kfd_rdev, rdev, memory_order_relaxed);
	return rdev;
}

void amd_forget_kfd(void)
{
	atomic_store_explicit(&amd_kfd_rdev, 0, memory_order_relaxed);
}

bool amd_is_here(void)
{
	return amd_find_kfd() != AMD_KFD_NOT_HERE;
}

/* A descriptor of /dev/kfd, of which programs have one and keep it; 0: none seen. */
static _Atomic int kfd_fd;

bool amd_is_kfd_request(int fd, unsigned long request)
{
	return fd > 0 && fd == atomic_load_explicit(&kfd_fd, memory_order_relaxed) &&
	       kfd_ioctl_find(request) && !drm_ioctl_matters(request);
}

/* True if a DRM node is of AMD's driver, by its own answer; also if it gives none. */
static bool amd_is_amdgpu(int fd)
{
	char name[8] = "";
	struct drm_version version = {.name_len = sizeof(name), .name = (uintptr_t)name};

	if (amd_ask(fd, _IOWR(DRM_IOCTL_BASE, DRM_NR_VERSION, version), &version) < 0)
		return true;
	return version.name_len == strlen("amdgpu") && !memcmp(name, "amdgpu", strlen("amdgpu"));
}

static int amd_file_of(int fd, uint64_t kfd)
{
	struct stat st;

	if (fstat(fd, &st) < 0 || !S_ISCHR(st.st_mode))
		return AMD_FILE_NONE;
	if ((uint64_t)st.st_rdev + 1 == kfd) {
		atomic_store_explicit(&kfd_fd, fd, memory_order_relaxed);
		return AMD_FILE_KFD;
	}
	if (major(st.st_rdev) != DRM_MAJOR || (kfd == AMD_KFD_UNTOLD && !amd_is_amdgpu(fd)))
		return AMD_FILE_NONE;
	return (int)minor(st.st_rdev);
}

int amd_file(int fd)
{
	uint64_t kfd = amd_find_kfd();
	int saved = errno, file;

	if (__builtin_expect(kfd == AMD_KFD_NOT_HERE, 1))
		return AMD_FILE_NONE;
	guest_depth++;
	file = amd_file_of(fd, kfd);
	guest_depth--;
	errno = saved;
	return file;
}

/* By the one folder that names all nodes of a device. */
static int amd_find_card(uint32_t render_minor)
{
	char path[64];
	struct dirent *entry;
	int minor = -1;
	DIR *dir;

	snprintf(path, sizeof(path), RENDER_DRM, render_minor);
	dir = opendir(path);
	while (dir && minor < 0 && (entry = readdir(dir)))
		if (sscanf(entry->d_name, "card%d", &minor) != 1)
			minor = -1;
	if (dir)
		closedir(dir);
	return minor;
}

/* The kernel tells one bank for both where there is memory that the CPU does not reach. */
static uint64_t amd_find_visible(const struct topology_node *node, uint64_t total_bytes)
{
	for (uint32_t i = 0; i < node->bank_count; i++)
		if (node->banks[i].heap == TOPOLOGY_HEAP_VRAM)
			return UINT64_MAX;
	return total_bytes;
}

/* Notes what failed and why, as the one line that a person sees. */
__attribute__((format(printf, 2, 3)))
static void amd_say_why(struct amd *amd, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(amd->complaint, sizeof(amd->complaint), fmt, ap);
	va_end(ap);
}

static int amd_add_device(struct guest *guest, struct amd *amd, const struct policy *policy,
			  const struct topology_node *node)
{
	struct amd_device *device = &amd->device[amd->ndevices];

	device->node = node;
	device->card_minor = amd_find_card(node->render_minor);
	device->total_bytes = topology_vram_bytes(node);
	device->visible_bytes = amd_find_visible(node, device->total_bytes);
	amd_identity(node, device->uuid);
	guest_name_device(guest, device->uuid, 0, device->total_bytes);
	device->ours = policy_find(policy, device->uuid);
	amd->hides |= !device->ours;
	if (device->ours)
		device->ledger = ledger_device(guest->ledger, device->uuid, device->total_bytes);
	if (device->ours && device->ledger < 0)
		return device->ledger;
	amd->ndevices++;
	return 0;
}

/* Which of the machine's devices the tenant has, and its place in the ledger. */
static int amd_add_devices(struct guest *guest, struct amd *amd, const struct policy *policy)
{
	int r = 0;

	for (uint32_t i = 0; !r && i < amd->topology->node_count; i++)
		if (amd->topology->nodes[i].gpu_id)
			r = amd_add_device(guest, amd, policy, &amd->topology->nodes[i]);
	if (!r) {
		amd->host = ledger_host(guest->ledger);
		/* All places are of GPUs: then what they have pinned of the machine is not counted. */
		r = amd->host == -ENOSPC ? 0 : amd->host;
	}
	if (r >= 0)
		r = guest_claim_slot(guest, &amd->slot);
	if (r)
		guest_explain(guest, r, amd->complaint, sizeof(amd->complaint));
	if (r)
		return r;
	pass_init(guest);
	trace_follow(guest);
	return 0;
}

static int amd_attach(struct guest *guest, struct amd *amd)
{
	struct topology_complaint complaint;
	struct policy policy;
	int r;

	r = topology_read(NULL, &amd->topology, &complaint);
	if (r) {
		amd_say_why(amd, "AMD's GPUs cannot be told apart: %.180s", complaint.text);
		return r;
	}
	if (amd->topology->gpu_count > GUEST_DEVICES) {
		amd_say_why(amd,
			    "of AMD's GPUs there are %" PRIu32
			    " here, and a tenant's process knows "
			    "%d at most; give its container the nodes in /dev/dri of fewer",
			    amd->topology->gpu_count, GUEST_DEVICES);
		return -E2BIG;
	}
	r = in_force_policy(guest, &policy);
	if (r) {
		guest_explain_policy(guest, r, amd->complaint, sizeof(amd->complaint));
		return r;
	}
	return amd_add_devices(guest, amd, &policy);
}

static void amd_forget(struct amd *amd)
{
	topology_free(amd->topology);
	munmap(amd, sizeof(*amd));
}

/* Errors that may be gone the next time. */
static bool amd_is_passing(int error)
{
	return error == -EAGAIN || error == -ENOMEM || error == -EMFILE || error == -ENFILE;
}

/* Says it once in a process, however often the program tries. */
static void amd_complain(const struct amd *amd)
{
	static _Atomic bool said;

	if (!atomic_exchange(&said, true))
		complain_refusal(amd->complaint);
}

/*
 * Threads that come here at the same time each make one, and one of these stays. NULL: it cannot be
 * made now, but perhaps the next time.
 */
static struct amd *amd_make(struct guest *guest)
{
	struct amd *amd, *expected = NULL;
	int saved = errno;

	amd = pages_map(sizeof(*amd));
	if (!amd)
		return NULL;
	guest_depth++;
	amd->error = amd_attach(guest, amd);
	guest_depth--;
	if (amd_is_passing(amd->error)) {
		amd_complain(amd);
		amd_forget(amd);
		amd = NULL;
	} else if (!atomic_compare_exchange_strong(&guest->amd, &expected, amd)) {
		amd_forget(amd);
		amd = expected;
	} else if (amd->error) {
		amd_complain(amd);
	}
	if (amd && !amd->error && guest->swappable)
		guest_rooms.start_swap(guest);
	errno = saved;
	return amd;
}

struct amd *amd_limited(struct guest **ret_guest, int *ret_error)
{
	enum guest_mode mode;
	struct guest *guest;
	struct amd *amd;

	*ret_error = 0;
	if (guest_inside())
		return NULL;
	guest = guest_get();
	mode = guest_mode(guest);
	if (mode == GUEST_INERT)
		return NULL;
	if (mode == GUEST_CLOSED) {
		*ret_error = -ENODEV;
		return NULL;
	}
	amd = atomic_load_explicit(&guest->amd, memory_order_acquire);
	if (!amd)
		amd = amd_make(guest);
	/* Never the error itself: on EAGAIN ROCm's library repeats a call for ever. */
	*ret_error = amd && !amd->error ? 0 : -ENODEV;
	*ret_guest = guest;
	return *ret_error ? NULL : amd;
}

struct amd_device *amd_device(struct amd *amd, uint32_t gpu_id)
{
	for (uint32_t i = 0; i < amd->ndevices; i++)
		if (amd->device[i].node->gpu_id == gpu_id)
			return &amd->device[i];
	return NULL;
}

struct amd_device *amd_device_of_minor(struct amd *amd, int minor)
{
	for (uint32_t i = 0; i < amd->ndevices; i++)
		if ((int)amd->device[i].node->render_minor == minor ||
		    amd->device[i].card_minor == minor)
			return &amd->device[i];
	return NULL;
}

bool amd_is_ours(struct amd *amd, uint32_t gpu_id)
{
	const struct amd_device *device = amd_device(amd, gpu_id);

	return device && device->ours;
}

/* The kernel's limit on GTT; 0: not told. */
static uint64_t amd_ask_gtt(int fd)
{
	struct drm_amdgpu_memory_info answer = {0};
	struct drm_amdgpu_info args = {.return_pointer = (uintptr_t)&answer,
				       .return_size = sizeof(answer),
				       .query = AMDGPU_INFO_MEMORY};

	return amd_ask(fd, _IOW('d', DRM_NR_AMDGPU_INFO, args), &args) < 0
		       ? 0
		       : answer.gtt.total_heap_size;
}

/* An MI300A, of all that are one chip with the CPU, by what its cores are. */
static bool amd_has_all(const struct amd_device *device)
{
	return device->total_bytes && device->node->gfx_version == 90402;
}

void amd_learn_unified(struct guest *guest, struct amd_device *device, int fd)
{
	struct drm_amdgpu_info_device answer = {0};
	struct drm_amdgpu_info args = {.return_pointer = (uintptr_t)&answer,
				       .return_size = sizeof(answer),
				       .query = AMDGPU_INFO_DEV_INFO};

	bool unified;

	if (atomic_load_explicit(&device->unified, memory_order_relaxed) != AMD_UNIFIED_UNASKED)
		return;
	unified = amd_ask(fd, _IOW('d', DRM_NR_AMDGPU_INFO, args), &args) >= 0 &&
		  answer.ids_flags & AMDGPU_IDS_FLAGS_FUSION;
	if (unified && !amd_has_all(device))
		atomic_store(&device->pool_bytes, amd_ask_gtt(fd));
	atomic_store(&device->unified, unified ? AMD_UNIFIED : AMD_UNIFIED_NOT);
	/* The limit was of less. No policy has this generation. */
	atomic_store(&device->limit_generation, 0);
	if (device->ours && atomic_load(&device->pool_bytes))
		ledger_device(guest->ledger, device->uuid, amd_total(device));
}

uint64_t amd_total(const struct amd_device *device)
{
	return sat_add_u64(device->total_bytes, atomic_load(&device->pool_bytes));
}

uint64_t amd_limit(struct guest *guest, struct amd_device *device)
{
	for (;;) {
		uint64_t total = amd_total(device);
		uint64_t limit = guest_limit_cached(guest, device->uuid, total, &device->limit,
						    &device->limit_generation);

		if (amd_total(device) == total)
			return limit;
		/* Another thread has learned meanwhile that the GPU has more. */
		atomic_store(&device->limit_generation, 0);
	}
}

/* By the rule of account/view.h, which is the same for both vendors. */
struct kfd_view amd_view(struct guest *guest, struct amd_device *device)
{
	uint64_t used = sat_add_u64(quota_used_live(guest->ledger, device->ledger),
				    swap_find_live(guest->ledger, device->ledger).away);

	return (struct kfd_view){.limit_bytes = max_u64(amd_limit(guest, device), used),
				 .used_bytes = used,
				 .device_bytes = amd_total(device),
				 .visible_bytes = device->visible_bytes};
}
