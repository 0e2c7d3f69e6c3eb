/* SPDX-License-Identifier: Apache-2.0 */
/* Schedulers' decisions as they write them, and what is none. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"
#include "kube/schedulers/decision.h"
#include "tests/check.h"

#define A "GPU-00000000-0000-0000-0000-00000000000a"
#define B "GPU-00000000-0000-0000-0000-00000000000b"

static struct decision decision;
static char why[DECISION_WHY];

static void read_ok(enum kube_scheduler scheduler, const char *text)
{
	const struct kube_conf conf = {.scheduler = scheduler};
	int r = decision_read(&conf, text, &decision, why);

	if (r)
		fprintf(stderr, "%s: %s\n", text, why);
	CHECK_EQ(r, 0);
}

static void check_device(unsigned int container, unsigned int i, uint8_t last, uint64_t mib,
			 uint32_t cores)
{
	const struct decision_device *device = &decision.container[container].device[i];

	CHECK(container < decision.n && i < decision.container[container].n);
	CHECK_EQ(device->uuid[15], last);
	CHECK_EQ(device->memory_bytes, mib << 20);
	CHECK_EQ(device->cores, cores);
}

static void check_refused(enum kube_scheduler scheduler, const char *text, size_t len,
			  const char *words)
{
	const struct kube_conf conf = {.scheduler = scheduler};

	decision.n = 77;
	memset(why, 0, sizeof(why));
	CHECK_EQ(decision_read_bytes(&conf, text, len, &decision, why), -EINVAL);
	if (!strstr(why, words))
		fprintf(stderr, "\"%s\" is not in \"%s\"\n", words, why);
	CHECK(strstr(why, words));
	CHECK_EQ(decision.n, 77);
}

static void check_volcano(void)
{
	read_ok(KUBE_VOLCANO, A ",NVIDIA,4096,50:");
	CHECK_EQ(decision.n, 1);
	check_device(0, 0, 0xa, 4096, 50);
	read_ok(KUBE_VOLCANO, A ",NVIDIA,4096,50:;" A ",NVIDIA,2048,0:" B ",NVIDIA,2048,0:");
	CHECK_EQ(decision.n, 2);
	CHECK_EQ(decision.container[1].n, 2);
	check_device(1, 1, 0xb, 2048, 0);
	read_ok(KUBE_VOLCANO, "");
	CHECK_EQ(decision.n, 0);
	read_ok(KUBE_VOLCANO, ";" B ",NVIDIA,1,100:");
	CHECK_EQ(decision.n, 2);
	CHECK_EQ(decision.container[0].n, 0);
	check_device(1, 0, 0xb, 1, 100);
}

/* The second of three containers has no GPU: an old version has no entry for it, a new one an empty
 * one. */
static void check_hami(void)
{
	read_ok(KUBE_HAMI, B ",NVIDIA,4096,30:;" A ",NVIDIA,2048,0:" B ",NVIDIA,2048,0:;");
	CHECK_EQ(decision.n, 2);
	CHECK_EQ(decision_find(&decision, 0), 0);
	CHECK_EQ(decision_find(&decision, 1), 1);
	CHECK_EQ(decision_find(&decision, 2), -1);
	read_ok(KUBE_HAMI, ";" B ",NVIDIA,4096,30:;;" A ",NVIDIA,2048,0:" B ",NVIDIA,2048,0:;");
	CHECK_EQ(decision.n, 4);
	CHECK_EQ(decision_find(&decision, 0), 1);
	CHECK_EQ(decision_find(&decision, 1), 3);
	CHECK_EQ(decision_find(&decision, 2), -1);
	check_device(1, 0, 0xb, 4096, 30);
	check_device(3, 0, 0xa, 2048, 0);
	read_ok(KUBE_HAMI, ";");
	CHECK_EQ(decision_find(&decision, 0), -1);
	/* One of its encoders ends no device but the last container. */
	read_ok(KUBE_HAMI, A ",NVIDIA,1,1:" B ",NVIDIA,1,1;");
	CHECK_EQ(decision.container[0].n, 2);
}

static void check_xpu(void)
{
	static const char *const both[] = {
		"0," A ",GPU-H200,4096,50,0:;1," B ",GPU-H200,2048,0,1:",
		"0," A ",GPU-H200,4096,50,0:,1," B ",GPU-H200,2048,0,1:",
	};

	for (unsigned int i = 0; i < 2; i++) {
		read_ok(KUBE_XPU, both[i]);
		CHECK_EQ(decision.n, 2);
		check_device(0, 0, 0xa, 4096, 50);
		check_device(1, 0, 0xb, 2048, 0);
		CHECK_EQ(decision.container[0].device[0].part, 0);
		CHECK_EQ(decision.container[1].device[0].part, 1);
	}
	read_ok(KUBE_XPU, ",0," A ",GPU,1,5,3:1," B ",GPU,2,5,3:,,");
	CHECK_EQ(decision_find(&decision, 0), 1);
	CHECK_EQ(decision.container[1].n, 2);
	CHECK_EQ(decision_find(&decision, 1), -1);
}

static void check_amd(void)
{
	read_ok(KUBE_HAMI, "GPU-0123456789abcdef,AMDGPU,4096,25:;");
	CHECK_EQ(decision.container[0].n, 1);
}

static void check_malformed(void)
{
	static const struct {
		enum kube_scheduler scheduler;
		const char *text, *words;
	} cases[] = {
		{KUBE_STOCK, "", "no devices into annotations"},
		{KUBE_VOLCANO, "x",
		 "container 1, device 1: it has fewer fields than uuid,type,memory,cores"},
		{KUBE_VOLCANO, A ",NVIDIA,1:", "fewer fields"},
		{KUBE_VOLCANO, A ",NVIDIA,1,2,3:", "more fields"},
		{KUBE_VOLCANO, A ",,1,2:", "field 2 of uuid,type,memory,cores is empty"},
		{KUBE_VOLCANO, A ",NVIDIA,1,2::", "field 1 of uuid,type,memory,cores is empty"},
		{KUBE_VOLCANO, A ",NVIDIA,-1,2:", "\"-1\" is not a number of 1 MiB"},
		{KUBE_VOLCANO, A ",NVIDIA,9223372036854775808,2:", "is not a number of 1 MiB"},
		{KUBE_VOLCANO, A ",NVIDIA,18446744073709551617,2:", "is not a number of 1 MiB"},
		{KUBE_VOLCANO, A ",NVIDIA,1,-2:", "\"-2\" is not a percentage of cores"},
		{KUBE_VOLCANO, A ",NVIDIA,1,101:", "percentage"},
		{KUBE_VOLCANO, A ",NVIDIA, 1,1:", "1 MiB"},
		{KUBE_VOLCANO, A ",NVIDIA,1,1:;" A ",NVIDIA,1,1:" A ",NVIDIA,1,1:",
		 "container 2, device 2: the container has this GPU already"},
		{KUBE_VOLCANO, "GPU-1,NVIDIA,1,1:", "\"GPU-1\" is not the UUID of a GPU"},
		{KUBE_VOLCANO, A "," A A ",1,1:", "field 2 of uuid,type,memory,cores is too long"},
		{KUBE_HAMI, A "[0-1],NVIDIA,1,1:;", "by MIG"},
		{KUBE_HAMI, "\033[2J,NVIDIA,1,1:;", "\"?[2J\""},
		{KUBE_XPU, A ",NVIDIA,1,1:", "fewer fields than index,uuid,type,memory,cores,vid"},
		{KUBE_XPU, "-1," A ",GPU,1,1,0:", "\"-1\" is not the number of a GPU"},
		{KUBE_XPU, "0," A ",GPU,1,1,2147483648:", "is not the number of a part"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		check_refused(cases[i].scheduler, cases[i].text, strlen(cases[i].text),
			      cases[i].words);
	check_refused(KUBE_VOLCANO, A ",NVI\0DIA,1,1:", strlen(A) + 13,
		      "field 2 of uuid,type,memory,cores is not text");
}

static void check_sizes(void)
{
	size_t len = 1 << 20;
	char *large = malloc(len);

	CHECK(large);
	memset(large, ';', len);
	check_refused(KUBE_HAMI, large, len, "1048576 bytes");
	check_refused(KUBE_HAMI, large, 33, "at most 32 containers");
	large[32] = '\0';
	read_ok(KUBE_HAMI, large);
	CHECK_EQ(decision.n, 32);
	memset(large, ':', len);
	check_refused(KUBE_VOLCANO, large, 1000, "is empty");
	large[0] = '\0';
	for (unsigned int i = 0; i <= POLICY_DEVICES; i++)
		sprintf(large + strlen(large),
			"GPU-00000000-0000-0000-0000-0000000000%02x,NVIDIA,1,1:", i);
	check_refused(KUBE_VOLCANO, large, strlen(large), "a container has at most 64");
	free(large);
}

/* Volcano counts memory in what one device of its resource is; the others in MiB, whatever theirs
 * is. */
static void check_units(void)
{
	struct kube_conf conf = {
		.scheduler = KUBE_VOLCANO,
		.nresources = 2,
		.resource = {{"volcano.sh/vgpu-number", KUBE_SLOTS, 10},
			     {"volcano.sh/vgpu-memory", KUBE_MEMORY, UINT64_C(1) << 30}}};
	char text[128];

	CHECK_EQ(decision_unit(&conf), 1 << 30);
	CHECK_EQ(decision_read(&conf, A ",NVIDIA,8,25:", &decision, why), 0);
	check_device(0, 0, 0xa, 8192, 25);
	snprintf(text, sizeof(text),
		 A ",NVIDIA,%llu,25:", (unsigned long long)(SIZE_MAX_BYTES >> 30));
	CHECK_EQ(decision_read(&conf, text, &decision, why), 0);
	snprintf(text, sizeof(text),
		 A ",NVIDIA,%llu,25:", (unsigned long long)(SIZE_MAX_BYTES >> 30) + 1);
	CHECK_EQ(decision_read(&conf, text, &decision, why), -EINVAL);
	CHECK(strstr(why, "is not a number of 1 GiB"));
	conf.scheduler = KUBE_XPU;
	CHECK_EQ(decision_unit(&conf), 1 << 20);
}

int main(void)
{
	check_volcano();
	check_hami();
	check_xpu();
	check_amd();
	check_malformed();
	check_sizes();
	check_units();
	return 0;
}
