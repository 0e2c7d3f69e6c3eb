/* SPDX-License-Identifier: Apache-2.0 */
#include "amd/identity.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* In place of the first half of a UUID: what the second half is. */
static const char by_id[8] = {'A', 'M', 'D', ' ', 'u', 'i', 'd', ' '};
static const char by_place[8] = {'A', 'M', 'D', ' ', 'p', 'c', 'i', ' '};

/* So that the half is not zero, wherever the GPU is. */
#define PLACE (UINT64_C(1) << 63)

static void amd_identity_put_bits(uint8_t uuid[16], const char half[8], uint64_t value)
{
	memcpy(uuid, half, 8);
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
	if (node->unique_id)
		amd_identity_put_bits(ret_uuid, by_id, node->unique_id);
	else
		amd_identity_put_bits(ret_uuid, by_place,
				      PLACE | (uint64_t)node->domain << 16 |
					      (node->location & 0xffff));
}

bool amd_identity_is(const uint8_t uuid[16])
{
	return !memcmp(uuid, by_id, 8) || !memcmp(uuid, by_place, 8);
}

void amd_identity_text(const uint8_t uuid[16], char ret_text[AMD_IDENTITY_BYTES])
{
	uint64_t value = amd_identity_get_bits(uuid);
	struct topology_node node = {.domain = (uint32_t)(value >> 16),
				     .location = (uint32_t)(value & 0xffff)};

	ret_text[0] = '\0';
	if (!memcmp(uuid, by_id, 8))
		snprintf(ret_text, AMD_IDENTITY_BYTES, "GPU-%016" PRIx64, value);
	else if (!memcmp(uuid, by_place, 8))
		topology_pci_name(&node, ret_text);
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

static int amd_identity_parse_place(const char *text, uint8_t ret_uuid[16])
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
	amd_identity_put_bits(ret_uuid, by_place,
			      PLACE | domain << 16 | bus << 8 | device << 3 | function);
	return 0;
}

int amd_identity_parse(const char *text, uint8_t ret_uuid[16])
{
	uint64_t id;

	if ((text[0] | 0x20) != 'g' || (text[1] | 0x20) != 'p' || (text[2] | 0x20) != 'u' ||
	    text[3] != '-')
		return amd_identity_parse_place(text, ret_uuid);
	text += 4;
	if (amd_identity_hex(&text, 16, '\0', &id) || !id)
		return -EINVAL;
	amd_identity_put_bits(ret_uuid, by_id, id);
	return 0;
}
