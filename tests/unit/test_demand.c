/* SPDX-License-Identifier: Apache-2.0 */
/* What ioctls ask of memory: by kind and GPU, rounded as the kernel does, and what is refused. */
#include <errno.h>
#include <string.h>

#include "amd/abi/drm.h"
#include "amd/abi/kfd.h"
#include "amd/demand.h"
#include "amd/kfd_ioctl.h"
#include "tests/check.h"

#define PAGE   4096
#define GPU    0x1234
#define MIB(n) ((uint64_t)(n) << 20)

static unsigned long kfd(uint8_t nr, size_t bytes)
{
	return _IOC(_IOC_READ | _IOC_WRITE, AMDKFD_IOCTL_BASE, nr, bytes);
}

static unsigned long drm(uint8_t nr, size_t bytes)
{
	return _IOC(_IOC_READ | _IOC_WRITE, DRM_IOCTL_BASE, nr, bytes);
}

#define OF_KFD(nr, args) demand_of_kfd(kfd(nr, sizeof(args)), &(args), sizeof(args), PAGE)
#define OF_DRM(nr, args) demand_of_drm(drm(nr, sizeof(args)), &(args), sizeof(args), PAGE, GPU)

static void check_take(struct demand d, enum demand_memory memory, uint64_t bytes)
{
	CHECK_EQ(d.act, DEMAND_TAKE);
	CHECK_EQ(d.count, 1);
	CHECK_EQ(d.parts[0].memory, memory);
	CHECK_EQ(d.parts[0].gpu_id, GPU);
	CHECK_EQ(d.parts[0].bytes, bytes);
}

static void check_refused(struct demand d, int error)
{
	CHECK_EQ(d.act, DEMAND_REFUSE);
	CHECK_EQ(d.error, error);
	CHECK_EQ(d.count, 0);
}

static struct demand alloc(uint64_t size, uint32_t flags)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args args = {
		.size = size, .gpu_id = GPU, .flags = flags | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE};

	return OF_KFD(KFD_NR_ALLOC_MEMORY_OF_GPU, args);
}

static void test_alloc(void)
{
	const uint32_t vram = KFD_IOC_ALLOC_MEM_FLAGS_VRAM, gtt = KFD_IOC_ALLOC_MEM_FLAGS_GTT;
	const uint32_t aql = KFD_IOC_ALLOC_MEM_FLAGS_AQL_QUEUE_MEM;

	check_take(alloc(MIB(64), vram), DEMAND_VRAM, MIB(64));
	check_take(alloc(MIB(64) + 1, vram), DEMAND_VRAM, MIB(64) + PAGE);
	check_take(alloc(1, gtt), DEMAND_GTT, PAGE);
	check_take(alloc(MIB(2), vram | aql), DEMAND_VRAM, MIB(1));
	check_take(alloc(PAGE, gtt | aql), DEMAND_GTT, PAGE); /* half a page is one */
	check_take(alloc(MIB(1), vram | gtt), DEMAND_VRAM, MIB(1));
	check_take(alloc(MIB(1), vram | KFD_IOC_ALLOC_MEM_FLAGS_USERPTR), DEMAND_VRAM, MIB(1));
	check_take(alloc(0, vram), DEMAND_VRAM, 0);
	check_take(alloc(MIB(1) + 1, KFD_IOC_ALLOC_MEM_FLAGS_USERPTR), DEMAND_USERPTR, MIB(1) + PAGE);
	CHECK_EQ(alloc(MIB(1), KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL).act, DEMAND_NOTHING);
	CHECK_EQ(alloc(PAGE, KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP).act, DEMAND_NOTHING);
	check_refused(alloc(MIB(1), 0), -EINVAL);
	check_take(alloc(DEMAND_MOST_BYTES, vram), DEMAND_VRAM, DEMAND_MOST_BYTES);
	check_refused(alloc(DEMAND_MOST_BYTES + 1, vram), -ENOMEM);
	check_refused(alloc(UINT64_MAX, vram), -ENOMEM);
	check_refused(alloc(UINT64_MAX, vram | aql), -ENOMEM);
	check_refused(alloc(UINT64_MAX - PAGE + 2, gtt), -ENOMEM);
}

/* Beyond what the request, or the copy, has of the block there are zeros; more is not looked at. */
static void test_sizes(void)
{
	struct {
		struct kfd_ioctl_alloc_memory_of_gpu_args args;
		uint64_t more;
	} block = {{.size = MIB(1), .gpu_id = GPU, .flags = KFD_IOC_ALLOC_MEM_FLAGS_VRAM}, 7};
	const uint8_t nr = KFD_NR_ALLOC_MEMORY_OF_GPU;
	const size_t flags = offsetof(struct kfd_ioctl_alloc_memory_of_gpu_args, flags);

	check_take(demand_of_kfd(kfd(nr, sizeof(block)), &block, sizeof(block), PAGE),
		   DEMAND_VRAM, MIB(1));
	check_refused(demand_of_kfd(kfd(nr, flags), &block, sizeof(block), PAGE), -EINVAL);
	check_refused(demand_of_kfd(kfd(nr, sizeof(block)), &block, flags, PAGE), -EINVAL);
	check_refused(demand_of_kfd(kfd(nr, sizeof(block)), NULL, sizeof(block), PAGE), -EINVAL);
	check_refused(demand_of_kfd(kfd(nr, 0), &block, sizeof(block), PAGE), -EINVAL);
}

/* To DRM, which has zeros then; KFD reads it all the same. */
static void test_direction(void)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args args = {
		.size = MIB(1), .gpu_id = GPU, .flags = KFD_IOC_ALLOC_MEM_FLAGS_VRAM};
	struct drm_prime_handle prime = {.fd = 11};
	struct drm_gem_close closing = {.handle = 5};
	struct demand d;

	check_take(demand_of_kfd(_IOC(_IOC_READ, AMDKFD_IOCTL_BASE, KFD_NR_ALLOC_MEMORY_OF_GPU,
				      sizeof(args)),
				 &args, sizeof(args), PAGE),
		   DEMAND_VRAM, MIB(1));
	d = demand_of_drm(_IOC(_IOC_READ, DRM_IOCTL_BASE, DRM_NR_PRIME_FD_TO_HANDLE, sizeof(prime)),
			  &prime, sizeof(prime), PAGE, GPU);
	CHECK(d.act == DEMAND_IMPORT && d.descriptor == 0);
	d = demand_of_drm(_IOC(_IOC_NONE, DRM_IOCTL_BASE, DRM_NR_GEM_CLOSE, sizeof(closing)),
			  &closing, sizeof(closing), PAGE, GPU);
	CHECK(d.act == DEMAND_GIVE && d.object == 0);
}

static void test_give_and_import(void)
{
	struct kfd_ioctl_free_memory_of_gpu_args gone = {UINT64_C(0x123400000007)};
	struct kfd_ioctl_import_dmabuf_args import = {.gpu_id = GPU, .dmabuf_fd = 9};
	struct drm_prime_handle prime = {.handle = 3, .fd = 11};
	struct drm_gem_close closing = {.handle = 5};
	struct demand d = OF_KFD(KFD_NR_FREE_MEMORY_OF_GPU, gone);
	char share[48] = {0};

	CHECK(d.act == DEMAND_GIVE && d.object == gone.handle && !d.by_address);
	d = OF_KFD(KFD_NR_IMPORT_DMABUF, import);
	CHECK(d.act == DEMAND_IMPORT && d.descriptor == 9 && d.count == 0);
	d = OF_KFD(KFD_NR_IPC_IMPORT_HANDLE, share);
	CHECK(d.act == DEMAND_IMPORT && d.descriptor == -1);
	d = OF_DRM(DRM_NR_PRIME_FD_TO_HANDLE, prime);
	CHECK(d.act == DEMAND_IMPORT && d.descriptor == 11 && d.count == 0);
	d = OF_DRM(DRM_NR_PRIME_HANDLE_TO_FD, prime);
	CHECK_EQ(d.act, DEMAND_NOTHING);
	d = OF_DRM(DRM_NR_GEM_CLOSE, closing);
	CHECK(d.act == DEMAND_GIVE && d.object == 5);
}

#define ATTRS 4

union svm {
	struct kfd_ioctl_svm_args args;
	uint8_t bytes[sizeof(struct kfd_ioctl_svm_args) +
		      ATTRS * sizeof(struct kfd_ioctl_svm_attribute)];
};

static struct demand svm(uint64_t size, uint32_t op, uint32_t nattr,
			 const struct kfd_ioctl_svm_attribute attrs[ATTRS])
{
	union svm block = {.args = {.start_addr = MIB(2), .size = size, .op = op, .nattr = nattr}};

	memcpy(block.args.attrs, attrs, ATTRS * sizeof(attrs[0]));
	return OF_KFD(KFD_NR_SVM, block);
}

#define SET(size, n, ...)                        \
	svm(size, KFD_IOCTL_SVM_OP_SET_ATTR, n,  \
	    (struct kfd_ioctl_svm_attribute[ATTRS]){__VA_ARGS__})
#define PREFETCH(gpu)  {KFD_IOCTL_SVM_ATTR_PREFETCH_LOC, gpu}
#define PREFERRED(gpu) {KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, gpu}
#define ACCESS(gpu)    {KFD_IOCTL_SVM_ATTR_ACCESS, gpu}
#define NOWHERE	       UINT32_MAX

static void test_svm(void)
{
	struct demand d = SET(MIB(128), 2, ACCESS(GPU), PREFETCH(GPU));

	check_take(d, DEMAND_VRAM, MIB(128));
	CHECK(d.by_address && !d.stays && d.object == MIB(2) && d.length == MIB(128));
	CHECK(SET(MIB(128), 1, PREFERRED(GPU)).stays);
	CHECK(!SET(MIB(128), 2, PREFERRED(GPU), PREFETCH(0)).stays);
	check_take(SET(1, 1, PREFERRED(GPU)), DEMAND_VRAM, PAGE);
	check_take(SET(MIB(1), 2, PREFERRED(GPU), PREFETCH(GPU)), DEMAND_VRAM, MIB(1));
	check_take(SET(MIB(1), 2, PREFERRED(GPU), PREFETCH(0)), DEMAND_VRAM, MIB(1));
	check_take(SET(MIB(1), 2, PREFETCH(7), PREFETCH(GPU)), DEMAND_VRAM, MIB(1));
	d = SET(MIB(1), 2, PREFERRED(7), PREFETCH(GPU));
	CHECK(d.act == DEMAND_TAKE && d.count == 2);
	CHECK(d.parts[0].gpu_id == GPU && d.parts[1].gpu_id == 7);
	CHECK(d.parts[0].bytes == MIB(1) && d.parts[1].bytes == MIB(1));
	d = SET(MIB(1), 2, PREFETCH(0), PREFERRED(NOWHERE));
	CHECK(d.act == DEMAND_GIVE && d.by_address && d.object == MIB(2) && d.length == MIB(1));
	CHECK_EQ(SET(MIB(1), 1, PREFERRED(0)).act, DEMAND_NOTHING);
	CHECK_EQ(SET(MIB(1), 1, PREFETCH(NOWHERE)).act, DEMAND_NOTHING);
	CHECK_EQ(SET(MIB(1), 1, ACCESS(GPU)).act, DEMAND_NOTHING);
	CHECK_EQ(SET(MIB(1), 1, ACCESS(GPU), PREFETCH(GPU)).act, DEMAND_NOTHING); /* one counts */
	CHECK_EQ(SET(MIB(1), 0, PREFETCH(GPU)).act, DEMAND_NOTHING);
	CHECK_EQ(svm(MIB(1), KFD_IOCTL_SVM_OP_GET_ATTR, 1,
		     (struct kfd_ioctl_svm_attribute[ATTRS]){PREFETCH(GPU)}).act, DEMAND_NOTHING);
}

static void test_svm_wild(void)
{
	const struct kfd_ioctl_svm_attribute attrs[ATTRS] = {PREFETCH(GPU)};
	union svm block = {
		.args = {.start_addr = UINT64_MAX - PAGE + 1, .size = MIB(1), .nattr = 1}};

	memcpy(block.args.attrs, attrs, sizeof(attrs));
	check_refused(OF_KFD(KFD_NR_SVM, block), -ENOMEM); /* past the last address */
	check_refused(SET(UINT64_MAX, 1, PREFETCH(GPU)), -ENOMEM);
	check_refused(SET(MIB(1), ATTRS + 1, ACCESS(GPU)), -EINVAL);
	check_refused(SET(MIB(1), UINT32_MAX, PREFETCH(GPU)), -EINVAL);
	check_refused(SET(MIB(1), 1, {KFD_IOCTL_SVM_ATTR_GRANULARITY + 1, GPU}), -EINVAL);
	check_refused(svm(MIB(1), 2, 0, attrs), -EINVAL);
	check_refused(demand_of_kfd(kfd(KFD_NR_SVM, sizeof(block)), &block, 8, PAGE), -EINVAL);
}

static struct demand create(uint64_t size, uint64_t domains)
{
	struct drm_amdgpu_gem_create_in args = {.bo_size = size, .domains = domains};

	return OF_DRM(DRM_NR_AMDGPU_GEM_CREATE, args);
}

/* In either memory, so charged in both. */
static void check_both(struct demand d, uint64_t bytes)
{
	CHECK_EQ(d.act, DEMAND_TAKE);
	CHECK_EQ(d.count, 2);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(d.parts[i].memory, i ? DEMAND_GTT : DEMAND_VRAM);
		CHECK_EQ(d.parts[i].gpu_id, GPU);
		CHECK_EQ(d.parts[i].bytes, bytes);
	}
}

static void test_create(void)
{
	const uint64_t vram = AMDGPU_GEM_DOMAIN_VRAM, gtt = AMDGPU_GEM_DOMAIN_GTT;

	check_take(create(MIB(3) - 1, vram), DEMAND_VRAM, MIB(3));
	check_take(create(MIB(3), gtt), DEMAND_GTT, MIB(3));
	check_both(create(MIB(3), vram | gtt), MIB(3));
	check_both(create(MIB(3), vram | AMDGPU_GEM_DOMAIN_CPU), MIB(3));
	check_take(create(MIB(3), gtt | AMDGPU_GEM_DOMAIN_CPU), DEMAND_GTT, MIB(3));
	check_take(create(MIB(3), UINT64_C(1) << 40), DEMAND_VRAM, MIB(3));
	check_take(create(MIB(3), AMDGPU_GEM_DOMAIN_CPU), DEMAND_GTT, MIB(3));
	check_take(create(MIB(3), 0), DEMAND_GTT, MIB(3));
	CHECK_EQ(create(4, AMDGPU_GEM_DOMAIN_GWS).act, DEMAND_NOTHING);
	check_refused(create(UINT64_MAX, vram), -ENOMEM);
	check_refused(create(UINT64_MAX, vram | gtt), -ENOMEM);
}

static void test_userptr(void)
{
	struct drm_amdgpu_gem_userptr args = {.addr = MIB(4), .size = MIB(3)};

	check_take(OF_DRM(DRM_NR_AMDGPU_GEM_USERPTR, args), DEMAND_USERPTR, MIB(3));
	args.size = UINT64_MAX;
	check_refused(OF_DRM(DRM_NR_AMDGPU_GEM_USERPTR, args), -ENOMEM);
}

static void test_place(void)
{
	struct drm_amdgpu_gem_op args = {.handle = 5, .op = AMDGPU_GEM_OP_SET_PLACEMENT,
					 .value = AMDGPU_GEM_DOMAIN_VRAM};
	struct demand d = OF_DRM(DRM_NR_AMDGPU_GEM_OP, args);

	CHECK(d.act == DEMAND_PLACE && d.object == 5 && d.count == 1);
	CHECK_EQ(d.parts[0].memory, DEMAND_VRAM);
	args.value = AMDGPU_GEM_DOMAIN_GTT;
	d = OF_DRM(DRM_NR_AMDGPU_GEM_OP, args);
	CHECK(d.act == DEMAND_PLACE && d.object == 5 && d.count == 1);
	CHECK_EQ(d.parts[0].memory, DEMAND_GTT);
	args.value |= AMDGPU_GEM_DOMAIN_VRAM;
	CHECK_EQ(OF_DRM(DRM_NR_AMDGPU_GEM_OP, args).count, 2);
	args = (struct drm_amdgpu_gem_op){5, AMDGPU_GEM_OP_GET_GEM_CREATE_INFO, UINT64_MAX};
	CHECK_EQ(OF_DRM(DRM_NR_AMDGPU_GEM_OP, args).act, DEMAND_NOTHING);
}

/* Ways by which memory comes that nobody could count. */
static void test_uncountable(void)
{
	struct kfd_ioctl_set_xnack_mode_args on = {1}, off = {0}, ask = {-1};
	struct kfd_ioctl_criu_args restore = {.op = KFD_CRIU_OP_RESTORE};

	check_refused(OF_KFD(KFD_NR_SET_XNACK_MODE, on), -EPERM);
	CHECK_EQ(OF_KFD(KFD_NR_SET_XNACK_MODE, off).act, DEMAND_NOTHING);
	CHECK_EQ(OF_KFD(KFD_NR_SET_XNACK_MODE, ask).act, DEMAND_NOTHING);
	check_refused(OF_KFD(KFD_NR_CRIU_OP, restore), -EACCES);
	restore.op = KFD_CRIU_OP_CHECKPOINT;
	CHECK_EQ(OF_KFD(KFD_NR_CRIU_OP, restore).act, DEMAND_NOTHING);
}

/* What is in no row does not reach the kernel, nor what is called by a known number alone. */
static void test_unknown(void)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args args = {
		.size = MIB(1), .gpu_id = GPU, .flags = KFD_IOC_ALLOC_MEM_FLAGS_VRAM};
	struct kfd_ioctl_set_scratch_backing_va_args scratch = {.gpu_id = GPU, .va_addr = MIB(1)};

	check_refused(OF_KFD(0x7f, args), -ENOTTY);
	check_refused(OF_KFD(KFD_NR_DBG_TRAP, args), -ENOTTY);
	check_refused(demand_of_kfd(drm(KFD_NR_ALLOC_MEMORY_OF_GPU, sizeof(args)), &args,
				    sizeof(args), PAGE), -ENOTTY);
	check_refused(OF_DRM(0x9f, args), -EINVAL);
	check_refused(OF_DRM(DRM_NR_AMDGPU_USERQ, args), -EINVAL);
	check_refused(demand_of_drm(kfd(DRM_NR_AMDGPU_GEM_CREATE, sizeof(args)), &args,
				    sizeof(args), PAGE, GPU), -EINVAL);
	CHECK_EQ(OF_KFD(KFD_NR_SET_SCRATCH_BACKING_VA, scratch).act, DEMAND_NOTHING);
	CHECK_EQ(demand_of_kfd(FIOCLEX, NULL, 0, PAGE).act, DEMAND_NOTHING);
	CHECK_EQ(demand_of_drm(FIONBIO, NULL, 0, PAGE, GPU).act, DEMAND_NOTHING);
}

int main(void)
{
	test_alloc();
	test_sizes();
	test_direction();
	test_give_and_import();
	test_svm();
	test_svm_wild();
	test_create();
	test_userptr();
	test_place();
	test_uncountable();
	test_unknown();
	return 0;
}
