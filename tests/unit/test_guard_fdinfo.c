/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel says of an open render node, as it is written by several versions of it. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "guard/fdinfo.h"
#include "tests/check.h"

#define HEAD "pos:\t0\nflags:\t02100002\nmnt_id:\t25\nino:\t1123\n"
#define AMD  HEAD "drm-driver:\tamdgpu\ndrm-client-id:\t42\ndrm-pdev:\t0000:c1:00.0\n"

static struct fdinfo info;

static int parse(const char *text)
{
	memset(&info, 0xff, sizeof(info));
	return fdinfo_parse(text, &info);
}

static void test_versions(void)
{
	CHECK_EQ(parse(AMD "pasid:\t32771\ndrm-memory-vram:\t65536 KiB\n"
			   "drm-memory-gtt: \t 2048 KiB\ndrm-memory-cpu:\t0 KiB\n"),
		 0);
	CHECK(!strcmp(info.pci, "0000:c1:00.0"));
	CHECK_EQ(info.client, 42);
	CHECK_EQ(info.vram_bytes, 65536 << 10);
	CHECK_EQ(parse(AMD "drm-total-vram:\t12 MiB\ndrm-shared-vram:\t0\n"
			   "drm-resident-vram:\t8 MiB\ndrm-memory-vram:\t8 MiB\n"),
		 0);
	CHECK_EQ(info.vram_bytes, 12 << 20);
	CHECK_EQ(parse(AMD "drm-total-vram:\t0\n"), 0);
	CHECK_EQ(info.vram_bytes, 0);
}

static void test_others(void)
{
	static const char *const none[] = {
		"", "\n", "drm-driver:", HEAD, AMD, "amdgpu\n",
		HEAD "drm-driver:\ti915\ndrm-client-id:\t1\ndrm-pdev:\t0000:00:02.0\n"
		     "drm-total-vram:\t1 KiB\n",
		HEAD "drm-driver:\tamdgpu2\ndrm-client-id:\t1\ndrm-pdev:\t0000:00:02.0\n"
		     "drm-total-vram:\t1 KiB\n",
		HEAD "drm-driver:\tamdgpu\ndrm-client-id:\tx\ndrm-pdev:\t0000:00:02.0\n"
		     "drm-total-vram:\t1 KiB\n",
		HEAD "drm-driver:\tamdgpu\ndrm-client-id:\t1\n"
		     "drm-pdev:\t00000000000000000000000000000000:00:02.0\ndrm-total-vram:\t1\n",
		AMD "xdrm-total-vram:\t1 KiB\n", AMD "drm-total-vram:\t1 KB\n",
		AMD "drm-total-vram:\t1 KiB", AMD "drm-total-vram:\t99999999999999999999 GiB\n",
		AMD "drm-total-vram:\t1125899906842624 GiB\n", AMD "drm-total-vram:\t-1\n"};

	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
		CHECK_EQ(parse(none[i]), -ENODATA);
}

/* Partitions of a board are at one place; a primary node is the board's. */
static void test_partitions(void)
{
	struct topology_node first = {.location = 0xc100, .gfx_version = 90402, .render_minor = 128},
			     third = {.location = 0xc102, .gfx_version = 90402, .render_minor = 130},
			     other = {.location = 0x4100, .gfx_version = 90402, .render_minor = 136};

	info = (struct fdinfo){.pci = "0000:c1:00.0", .minor = 130};
	CHECK(fdinfo_is_of(&info, &third) && !fdinfo_is_of(&info, &first));
	info.minor = 128;
	CHECK(fdinfo_is_of(&info, &first) && !fdinfo_is_of(&info, &third));
	info.minor = 0;
	CHECK(fdinfo_is_of(&info, &first) && !fdinfo_is_of(&info, &third));
	CHECK(!fdinfo_is_of(&info, &other));
	third.location = 0xc100 | 2u << 28;
	CHECK(!fdinfo_is_of(&info, &third));
}

/* This process has no such file. */
static void test_read(void)
{
	struct topology_node gpu = {.location = 0xc100};
	uint64_t bytes = 1;
	const int kept = 0;

	CHECK_EQ(fdinfo_read(getpid(), &kept, 1, &gpu, &bytes), 0);
	CHECK_EQ(bytes, 0);
	CHECK_EQ(fdinfo_read(0x7ffffffe, NULL, 0, &gpu, &bytes), -ENOENT);
}

int main(void)
{
	test_versions();
	test_others();
	test_partitions();
	test_read();
	return 0;
}
