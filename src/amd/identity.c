/* SPDX-License-Identifier: Apache-2.0 */
#include "amd/identity.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"

/* In place of the first half of a UUID: the kind of the second half; and a byte for the partition. */
#define KIND_BYTES 7
static const char by_id[KIND_BYTES] = {'A', 'M', 'D', ' ', 'u', 'i', 'd'};
static const char by_place[KIND_BYTES] = {'A', 'M', 'D', ' ', 'p', 'c', 'i'};

/* A whole GPU, and the first partition of a board; the others follow. */
#define FIRST_PARTITION ' '
#define PARTITIONS	16

/* So that the half is not zero, wherever the GPU is. */
#define PLACE (UINT64_C(1) << 63)

static void amd_identity_put_bits(uint8_t uuid[16], const char kind[KIND_BYTES],
				  uint64_t partition, uint64_t value)
{
	memcpy(uuid, kind, KIND_BYTES);
	uuid[KIND_BYTES] = (uint8_t)(FIRST_PARTITION + partition);
	for (int i = 0; i < 8; i++)
		uuid[8 + i] = (uint8_t)(value >> (56 - 8 * i));
}

static uint64_t amd_identity_get_bits(const uint8_t uuid[16])
{
	uint64_t value = 0;

	for (int i = 0; i < 8; i++)
		value = value << 8 | uuid[8 + i];
	return value;
}

void amd_identity(const struct topology_node *node, uint8_t ret_uuid[16])
{
	uint32_t partition = topology_partition(node);

	if (node->unique_id)
		amd_identity_put_bits(ret_uuid, by_id, partition, node->unique_id);
	else
		amd_identity_put_bits(ret_uuid, by_place, partition,
				      PLACE | (uint64_t)node->domain << 16 | topology_place(node));
}

bool amd_identity_is(const uint8_t uuid[16])
{
	return (!memcmp(uuid, by_id, KIND_BYTES) || !memcmp(uuid, by_place, KIND_BYTES)) &&
	       uuid[KIND_BYTES] >= FIRST_PARTITION &&
	       uuid[KIND_BYTES] < FIRST_PARTITION + PARTITIONS;
}

bool amd_identity_is_same_board(const uint8_t a[16], const uint8_t b[16])
{
	return !memcmp(a, b, KIND_BYTES) && !memcmp(a + 8, b + 8, 8);
}

void amd_identity_text(const uint8_t uuid[16], char ret_text[AMD_IDENTITY_BYTES])
{
	uint64_t value = amd_identity_get_bits(uuid);
	struct topology_node node = {.domain = (uint32_t)(value >> 16),
				     .location = (uint32_t)(value & 0xffff)};

	size_t n;

	ret_text[0] = '\0';
	if (!amd_identity_is(uuid))
		return;
	if (!memcmp(uuid, by_id, KIND_BYTES))
		snprintf(ret_text, AMD_IDENTITY_BYTES, "GPU-%016" PRIx64, value);
	else
		topology_pci_name(&node, ret_text);
	n = strlen(ret_text);
	if (uuid[KIND_BYTES] != FIRST_PARTITION)
		snprintf(ret_text + n, AMD_IDENTITY_BYTES - n, ".%d",
			 uuid[KIND_BYTES] - FIRST_PARTITION);
}

static int amd_identity_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Exactly `n` hexadecimal digits, then `after`. */
static int amd_identity_hex(const char **text, int n, char after, uint64_t *ret)
{
	uint64_t value = 0;

	for (int i = 0; i < n; i++) {
		int d = amd_identity_digit((*text)[i]);

		if (d < 0)
			return -EINVAL;
		value = value << 4 | (uint64_t)d;
	}
	if ((*text)[n] != after)
		return -EINVAL;
	*text += n + 1;
	*ret = value;
	return 0;
}

static int amd_identity_parse_place(const char *text, uint64_t partition, uint8_t ret_uuid[16])
{
	uint64_t domain, bus, device, function;
	const char *colon = strchr(text, ':');

	/* Four digits or more: some machines have more than 65,536 domains. */
	if (!colon || colon - text < 4 || colon - text > 8)
		return -EINVAL;
	if (amd_identity_hex(&text, (int)(colon - text), ':', &domain) ||
	    amd_identity_hex(&text, 2, ':', &bus) || amd_identity_hex(&text, 2, '.', &device) ||
	    amd_identity_hex(&text, 1, '\0', &function))
		return -EINVAL;
	if (device > 31 || function > 7)
		return -EINVAL;
	amd_identity_put_bits(ret_uuid, by_place, partition,
			      PLACE | domain << 16 | bus << 8 | device << 3 | function);
	return 0;
}

/* The name of the board, without ".N" at the end for a partition; -EINVAL. */
static int amd_identity_split(const char *text, char ret_board[AMD_IDENTITY_BYTES],
			      uint64_t *ret_partition)
{
	const char *dot = strrchr(text, '.'), *first = strchr(text, '.');
	bool partition = dot && (dot != first || !strchr(text, ':'));
	size_t n = partition ? (size_t)(dot - text) : strlen(text);

	*ret_partition = 0;
	if (n >= AMD_IDENTITY_BYTES ||
	    (partition && (dot[1] == '0' || parse_u64(dot + 1, 1, PARTITIONS - 1, ret_partition) < 0)))
		return -EINVAL;
	memcpy(ret_board, text, n);
	ret_board[n] = '\0';
	return 0;
}

int amd_identity_parse(const char *name, uint8_t ret_uuid[16])
{
	char board[AMD_IDENTITY_BYTES];
	const char *text = board;
	uint64_t id, partition;

	if (amd_identity_split(name, board, &partition) < 0)
		return -EINVAL;
	if ((text[0] | 0x20) != 'g' || (text[1] | 0x20) != 'p' || (text[2] | 0x20) != 'u' ||
	    text[3] != '-')
		return amd_identity_parse_place(text, partition, ret_uuid);
	text += 4;
	if (amd_identity_hex(&text, 16, '\0', &id) || !id)
		return -EINVAL;
	amd_identity_put_bits(ret_uuid, by_id, partition, id);
	return 0;
}
