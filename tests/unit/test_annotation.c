/* SPDX-License-Identifier: Apache-2.0 */
/* What nodes write for schedulers, byte for byte. */
#include <stdlib.h>
#include <string.h>

#include "kube/schedulers/annotation.h"
#include "kube/schedulers/node_lock.h"
#include "tests/check.h"

#define A "GPU-00000000-0000-0000-0000-00000000000a"
#define B "GPU-00000000-0000-0000-0000-00000000000b"

static struct node_devices devices = {.n = 3,
				      .list = {{.device = {.uuid = {[15] = 0xa},
							   .model = "NVIDIA H200",
							   .total_bytes = UINT64_C(143771) << 20},
						.numa = 1},
					       {.device = {.vendor = DEVICE_AMD, .uuid = {1}}},
					       {.device = {.uuid = {[15] = 0xb},
							   .number = 1,
							   .model = "Odd, model:1;",
							   .total_bytes = UINT64_C(24576) << 20},
						.sick = true,
						.numa = -1}}};

static char *registered(enum kube_scheduler scheduler, const struct node_devices *of,
			unsigned int slots)
{
	const struct kube_conf conf = {.scheduler = scheduler,
				       .nresources = 1,
				       .resource = {{"a/slots", KUBE_SLOTS, slots}}};

	return annotation_registered(&conf, of);
}

static void check_text(char *text, const char *expected)
{
	if (!text || strcmp(text, expected))
		fprintf(stderr, "got:      %s\nexpected: %s\n", text ? text : "(none)", expected);
	CHECK(text && !strcmp(text, expected));
	free(text);
}

static void check_registered(void)
{
	const struct kube_conf gib = {.scheduler = KUBE_VOLCANO,
				      .nresources = 2,
				      .resource = {{"a/slots", KUBE_SLOTS, 4},
						   {"a/memory", KUBE_MEMORY, UINT64_C(1) << 30}}};

	check_text(registered(KUBE_VOLCANO, &devices, 10),
		   A ",10,143771,NVIDIA-NVIDIA H200,true,hami-core:" B
		     ",0,24576,NVIDIA-Odd- model-1-,false,hami-core:");
	check_text(registered(KUBE_HAMI, &devices, 4),
		   "[{\"id\":\"" A "\",\"index\":0,\"count\":4,\"devmem\":143771,\"devcore\":100,"
		   "\"type\":\"NVIDIA-NVIDIA "
		   "H200\",\"numa\":1,\"mode\":\"hami-core\",\"health\":true},"
		   "{\"id\":\"" B "\",\"index\":1,\"count\":0,\"devmem\":24576,\"devcore\":100,"
		   "\"type\":\"NVIDIA-Odd- "
		   "model-1-\",\"numa\":0,\"mode\":\"hami-core\",\"health\":false}]");
	check_text(registered(KUBE_XPU, &devices, 10),
		   "0," A ",10,143771,GPU-H200,true,1:1," B ",0,24576,GPU-Odd-model-1-,false,0:");
	CHECK(!registered(KUBE_STOCK, &devices, 10));
	check_text(annotation_registered(&gib, &devices),
		   A ",4,140,NVIDIA-NVIDIA H200,true,hami-core:" B
		     ",0,24,NVIDIA-Odd- model-1-,false,hami-core:");
	check_text(annotation_unused(&devices), "0," A ",0,0,0:1," B ",0,0,0:");
}

static void check_topology(void)
{
	struct node_devices two = devices;

	check_text(annotation_topology(&devices), "0,10;10,0");
	two.nvlinks[0][2] = two.nvlinks[2][0] = 4;
	check_text(annotation_topology(&two), "0,90;90,0");
	two.nvlinks[0][2] = two.nvlinks[2][0] = 0;
	two.list[2].numa = two.list[0].numa;
	check_text(annotation_topology(&two), "0,20;20,0");
	two.list[0].numa = two.list[2].numa = -1;
	check_text(annotation_topology(&two), "0,10;10,0");
	two.n = 0;
	check_text(annotation_topology(&two), "");
}

/* As XPU's scheduler compares what a Pod asks for. */
static void check_series(void)
{
	static const char *const models[][2] = {
		{"NVIDIA A100-SXM4-40GB", "A100"},
		{"Tesla V100-PCIE-32GB", "V100"},
		{"NVIDIA GeForce RTX 4090", "NVIDIAGeForceRTX4090"},
		{"NVIDIA L40S", "L40S"},
		{"", ""},
	};
	struct node_devices one = {.n = 1, .list = {{.device = {.uuid = {[15] = 0xa}}}}};
	char expected[128];

	for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
		strcpy(one.list[0].device.model, models[i][0]);
		snprintf(expected, sizeof(expected), "0,%s,1,0,GPU-%s,true,0:", A, models[i][1]);
		check_text(registered(KUBE_XPU, &one, 1), expected);
	}
}

static void check_handshake(void)
{
	char text[ANNOTATION_TIME_BYTES];

	annotation_reported(KUBE_VOLCANO, 1795169011, text);
	CHECK(!strcmp(text, "Reported_2026.11.20 10:03:31"));
	annotation_reported(KUBE_HAMI, 1795169011, text);
	CHECK(!strcmp(text, "Reported_2026-11-20 10:03:31"));
	annotation_reported(KUBE_XPU, 1795169011, text);
	CHECK(!strcmp(text, "Reported_2026.11.20 10:03:31"));
	CHECK(!annotation_is_asked(text));
	CHECK(annotation_is_asked(NULL));
	CHECK(annotation_is_asked(""));
	CHECK(annotation_is_asked("Requesting_2026.11.20 10:03:31"));
	CHECK(annotation_is_asked("Deleted_2026.11.20 10:03:31"));
}

static void check_patch(void)
{
	const struct annotation some[] = {{"a/b", "Reported_\"x\""}, {"c/d", NULL}};
	const struct annotation wrong = {"a/b", "\xff"};

	check_text(
		annotation_patch(some, 2),
		"{\"metadata\":{\"annotations\":{\"a/b\":\"Reported_\\\"x\\\"\",\"c/d\":null}}}");
	CHECK(!annotation_patch(&wrong, 1));
}

static void check_release(const char *node, int r, const char *patch)
{
	char *text;

	CHECK(node_lock_release(KUBE_HAMI, node, strlen(node), "default", "a", &text) == r);
	CHECK(patch ? text && !strcmp(text, patch) : !text);
	free(text);
}

static void check_lock(void)
{
	static const char free_it[] =
		"{\"metadata\":{\"resourceVersion\":\"7\",\"annotations\":{\"hami.io/mutex.lock\":null}}}";
#define NODE(lock) "{\"metadata\":{\"resourceVersion\":\"7\",\"annotations\":{\"hami.io/mutex.lock\":" lock "}}}"

	check_release(NODE("\"2026-11-20T10:08:04Z,default,a\""), 0, free_it);
	check_release(NODE("\"2026-11-20T10:08:04Z\""), 0, free_it);
	check_release(NODE("\"2026-11-20T10:08:04Z,default,ab\""), 0, NULL);
	check_release(NODE("\"2026-11-20T10:08:04Z,defaul,a\""), 0, NULL);
	check_release(NODE("\"2026-11-20T10:08:04Z,default2,a\""), 0, NULL);
	check_release(NODE("\"2026-11-20T10:08:04Z,default\""), 0, NULL);
	check_release(NODE("\",\""), 0, NULL);
	check_release(NODE("1"), 0, NULL);
	check_release("{}", 0, NULL);
	check_release("[]", -EINVAL, NULL);
	check_release("{", -EINVAL, NULL);
	check_release("{\"metadata\":{\"annotations\":{\"hami.io/mutex.lock\":\"x\"}}}", -EINVAL, NULL);
#undef NODE
}

static void check_keys(void)
{
	CHECK(!annotation_keys(KUBE_STOCK));
	CHECK(!strcmp(annotation_keys(KUBE_VOLCANO)->left, "volcano.sh/devices-to-allocate"));
	CHECK(!strcmp(annotation_keys(KUBE_HAMI)->lock, "hami.io/mutex.lock"));
	CHECK(!strcmp(annotation_keys(KUBE_XPU)->devices, "huawei.com/vgpu-ids-new"));
}

int main(void)
{
	check_registered();
	check_series();
	check_topology();
	check_handshake();
	check_patch();
	check_lock();
	check_keys();
	return 0;
}
