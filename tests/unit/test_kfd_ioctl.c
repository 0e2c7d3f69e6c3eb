/* SPDX-License-Identifier: Apache-2.0 */
/* Ioctls of /dev/kfd are told by type and number, whatever size and direction a request has. */
#include <string.h>

#include "amd/abi/drm.h"
#include "amd/abi/kfd.h"
#include "amd/kfd_ioctl.h"
#include "tests/check.h"

#define READ_WRITE (_IOC_READ | _IOC_WRITE)

static void test_not_ours(void)
{
	CHECK(!kfd_ioctl_find(0));
	CHECK(!kfd_ioctl_find(_IOC(READ_WRITE, 'd', KFD_NR_CREATE_QUEUE, 88)));
	CHECK(!kfd_ioctl_find(_IOC(READ_WRITE, 'K', 0x00, 8)));
	CHECK(!kfd_ioctl_find(_IOC(READ_WRITE, 'K', 0x7f, 8)));
	CHECK(!kfd_ioctl_find(_IOC(READ_WRITE, 'K', 0xff, 8)));
}

/* As callers of different versions write them, and as nobody does. */
static void test_sizes(void)
{
	static const unsigned long create_queue[] = {0xc0604b02, 0xc0584b02, 0x4b02, 0xffff4b02};

	for (size_t i = 0; i < sizeof(create_queue) / sizeof(create_queue[0]); i++) {
		const struct kfd_ioctl *row = kfd_ioctl_find(create_queue[i]);

		CHECK(row && row->nr == KFD_NR_CREATE_QUEUE && row->decision == KFD_QUEUE);
		CHECK(!strcmp(row->name, "CREATE_QUEUE"));
		CHECK_EQ(row->args_bytes, 96);
	}
}

/* Requests of libraries in use: number and size of the block. */
static void test_requests(void)
{
	static const struct {
		unsigned long request;
		const char *name;
	} known[] = {
		{0x80084b01, "GET_VERSION"},
		{0x40184b07, "UPDATE_QUEUE"},
		{0xc0204b08, "CREATE_EVENT"},
		{0xc0184b0c, "WAIT_EVENTS"},
		{0xc0104b14, "GET_PROCESS_APERTURES_NEW"},
		{0x40084b15, "ACQUIRE_VM"},
		{0xc0284b16, "ALLOC_MEMORY_OF_GPU"},
		{0x40084b17, "FREE_MEMORY_OF_GPU"},
		{0xc0184b18, "MAP_MEMORY_TO_GPU"},
		{0xc0184b19, "UNMAP_MEMORY_FROM_GPU"},
		{0x40104b1a, "SET_CU_MASK"},
		{0xc0204b1c, "GET_DMABUF_INFO"},
		{0xc0184b1d, "IMPORT_DMABUF"},
		{0xc0184b20, "SVM"},
		{0xc0384b22, "CRIU_OP"},
		{0xc0104b23, "AVAILABLE_MEMORY"},
		{0xc0104b24, "EXPORT_DMABUF"},
		{0xc0104b25, "RUNTIME_ENABLE"},
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		const struct kfd_ioctl *row = kfd_ioctl_find(known[i].request);

		CHECK(row && !strcmp(row->name, known[i].name));
		CHECK_EQ(row->args_bytes, _IOC_SIZE(known[i].request));
	}
}

/* Every request has an answer, and the drivers' habit to look at the number alone is no way in. */
static void test_decide(void)
{
	CHECK_EQ(kfd_ioctl_decide(0xc0284b16), KFD_COUNT);
	CHECK_EQ(kfd_ioctl_decide(0xc0044b21), KFD_COUNT);
	CHECK_EQ(kfd_ioctl_decide(0x80084b01), KFD_VIEW);
	CHECK_EQ(kfd_ioctl_decide(_IOC(READ_WRITE, 'd', KFD_NR_ALLOC_MEMORY_OF_GPU, 40)),
		 KFD_REFUSE);
	CHECK_EQ(kfd_ioctl_decide(0x5401), KFD_REFUSE); /* TCGETS: "is it a terminal?" */
	CHECK_EQ(kfd_ioctl_decide(FIOCLEX), KFD_PASS);
	CHECK_EQ(kfd_ioctl_decide(0), KFD_REFUSE);
	CHECK_EQ(drm_ioctl_decide(0xc0206440), KFD_COUNT);
	CHECK_EQ(drm_ioctl_decide(0xc0106450), KFD_COUNT);
	CHECK_EQ(drm_ioctl_decide(0x40086409), KFD_RELEASE);
	CHECK_EQ(drm_ioctl_decide(0xc0406400), KFD_PASS);
	CHECK_EQ(drm_ioctl_decide(_IOC(READ_WRITE, 'd', 0x9f, 8)), KFD_REFUSE);
	CHECK_EQ(drm_ioctl_decide(_IOC(READ_WRITE, 'K', DRM_NR_AMDGPU_GEM_CREATE, 32)), KFD_REFUSE);
	/* A list of buffers holds their memory when their handles are closed. */
	CHECK_EQ(drm_ioctl_decide(_IOC(READ_WRITE, 'd', DRM_NR_AMDGPU_BO_LIST, 24)), KFD_REFUSE);
	CHECK_EQ(drm_ioctl_decide(FIONCLEX), KFD_PASS);
	CHECK(drm_ioctl_matters(_IOC(READ_WRITE, 'K', KFD_NR_DESTROY_EVENT, 8))); /* GEM_CLOSE */
	CHECK(!drm_ioctl_matters(_IOC(READ_WRITE, 'K', KFD_NR_SET_EVENT, 8)));
}

int main(void)
{
	test_not_ours();
	test_sizes();
	test_requests();
	test_decide();
	return 0;
}
