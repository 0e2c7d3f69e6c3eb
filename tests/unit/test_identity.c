/* SPDX-License-Identifier: Apache-2.0 */
/* The names of AMD GPUs: there and back, and no other text or bytes pass for one. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "amd/identity.h"
#include "tests/check.h"

static void there_and_back(const struct topology_node *node, const char *text)
{
	char written[AMD_IDENTITY_BYTES];
	uint8_t uuid[16], parsed[16];
	static const uint8_t zero[8];

	amd_identity(node, uuid);
	CHECK(amd_identity_is(uuid));
	CHECK(memcmp(uuid, zero, 8) && memcmp(uuid + 8, zero, 8));
	amd_identity_text(uuid, written);
	CHECK(!strcmp(written, text));
	CHECK_EQ(amd_identity_parse(text, parsed), 0);
	CHECK(!memcmp(uuid, parsed, 16));
}

static void test_there_and_back(void)
{
	struct topology_node node = {.unique_id = UINT64_C(0x1234567890abcdef), .location = 0x100};

	there_and_back(&node, "GPU-1234567890abcdef");
	node.unique_id = 1;
	there_and_back(&node, "GPU-0000000000000001");
	node.unique_id = 0;
	there_and_back(&node, "0000:01:00.0");
	node.domain = 0x10000;
	node.location = 0xc1ff;
	there_and_back(&node, "10000:c1:1f.7");
	node.domain = UINT32_MAX;
	node.location = 0;
	there_and_back(&node, "ffffffff:00:00.0");
	node.domain = 0;
	there_and_back(&node, "0000:00:00.0");
}

static void check_same_board(void)
{
	struct topology_node a = {.unique_id = 5, .location = 0xc100}, b = a;
	uint8_t one[16], other[16];

	b.location |= 3u << 28;
	amd_identity(&a, one);
	amd_identity(&b, other);
	CHECK(memcmp(one, other, 16) && amd_identity_is_same_board(one, other));
	b.unique_id = 6;
	amd_identity(&b, other);
	CHECK(!amd_identity_is_same_board(one, other));
	b.unique_id = 0;
	amd_identity(&b, other);
	CHECK(!amd_identity_is_same_board(one, other));
}

/* They have the board's id and place. The partition is in one of two parts of the location. */
static void test_partitions(void)
{
	struct topology_node node = {.unique_id = UINT64_C(0x1234567890abcdef), .gfx_version = 90402};
	char pci[TOPOLOGY_PCI_BYTES];

	for (uint32_t partition = 1; partition < 8; partition++) {
		char text[AMD_IDENTITY_BYTES];

		snprintf(text, sizeof(text), "GPU-1234567890abcdef.%u", partition);
		node.location = 0xc100 | partition;
		there_and_back(&node, text);
		node.location = 0xc100 | partition << 28;
		there_and_back(&node, text);
		CHECK_EQ(topology_partition(&node), partition);
	}
	node.location = 0xc100;
	there_and_back(&node, "GPU-1234567890abcdef");
	node.location = 0xc100 | UINT32_C(15) << 28;
	there_and_back(&node, "GPU-1234567890abcdef.15");
	topology_pci_name(&node, pci);
	CHECK(!strcmp(pci, "0000:c1:00.0"));
	node.unique_id = 0;
	there_and_back(&node, "0000:c1:00.0.15");
	node.location = 0xc102;
	there_and_back(&node, "0000:c1:00.0.2");
	node.domain = UINT32_MAX;
	node.location = 0xc100 | UINT32_C(15) << 28;
	there_and_back(&node, "ffffffff:c1:00.0.15");
	check_same_board();
	/* A virtual function of another GPU is at a place of its own. */
	node = (struct topology_node){.location = 0xc102, .gfx_version = 90010};
	there_and_back(&node, "0000:c1:00.2");
}

static void test_others(void)
{
	static const char *const bad[] = {
		"",		     "0",
		"GPU-",		     "GPU-0000000000000000",
		"GPU-123456789abcde", "GPU-1234567890abcdef0",
		"GPU-1234567890abcdeg", "GPU-12345678-90ab-cdef-1234-567890abcdef",
		"000:01:00.0",	     "0000:01:20.0",
		"0000:01:00.8",	     "0000:01:00",
		"0000:01:00.0 ",     "123456789:01:00.0",
		"GPU-1234567890abcdef.0", "GPU-1234567890abcdef.16",
		"GPU-1234567890abcdef.", "GPU-1234567890abcdef.01",
		"GPU-1234567890abcdef.1.1", "0000:01:00.0.0",
		"0000:01:00.0.x",    "0000:01:00.0.1.1",
		"GPU-1234567890abcdef.-1", "GPU-1234567890abcdef. 1",
	};
	uint8_t uuid[16] = "AMD uid";
	char text[AMD_IDENTITY_BYTES];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK_EQ(amd_identity_parse(bad[i], uuid), -EINVAL);
	CHECK(!amd_identity_is(uuid)); /* a zero byte where the name has a space */
	amd_identity_text(uuid, text);
	CHECK(!strcmp(text, ""));
	CHECK_EQ(amd_identity_parse("gpu-1234567890ABCDEF", uuid), 0);
	amd_identity_text(uuid, text);
	CHECK(!strcmp(text, "GPU-1234567890abcdef"));
}

int main(void)
{
	test_there_and_back();
	test_partitions();
	test_others();
	return 0;
}
