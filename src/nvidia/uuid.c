/* SPDX-License-Identifier: Apache-2.0 */
#include "nvidia/uuid.h"

#include <errno.h>
#include <string.h>

static int uuid_nibble(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* True if a hyphen stands before byte i. */
static int uuid_hyphen_before(int i)
{
	return i == 4 || i == 6 || i == 8 || i == 10;
}

int uuid_parse(const char *text, uint8_t ret_uuid[16])
{
	uint8_t uuid[16];

	if (!strncmp(text, "GPU-", 4) || !strncmp(text, "MIG-", 4))
		text += 4;
	for (int i = 0; i < 16; i++) {
		int high, low;

		if (uuid_hyphen_before(i) && *text++ != '-')
			return -EINVAL;
		/* The terminator is no digit, so neither read passes it. */
		if ((high = uuid_nibble(text[0])) < 0 || (low = uuid_nibble(text[1])) < 0)
			return -EINVAL;
		uuid[i] = (uint8_t)(high << 4 | low);
		text += 2;
	}
	if (*text)
		return -EINVAL;
	memcpy(ret_uuid, uuid, sizeof(uuid));
	return 0;
}

void uuid_format(const uint8_t uuid[16], char ret_text[UUID_TEXT_SIZE])
{
	static const char digits[] = "0123456789abcdef";
	char *p = ret_text;

	memcpy(p, "GPU-", 4);
	p += 4;
	for (int i = 0; i < 16; i++) {
		if (uuid_hyphen_before(i))
			*p++ = '-';
		*p++ = digits[uuid[i] >> 4];
		*p++ = digits[uuid[i] & 15];
	}
	*p = '\0';
}

bool uuid_is_listed(const uint8_t (*list)[16], size_t n, const uint8_t uuid[16])
{
	for (size_t i = 0; i < n; i++)
		if (!memcmp(list[i], uuid, sizeof(list[i])))
			return true;
	return false;
}
