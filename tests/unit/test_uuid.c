/* SPDX-License-Identifier: Apache-2.0 */
#include "nvidia/uuid.h"

#include <errno.h>
#include <string.h>

#include "tests/check.h"

int main(void)
{
	static const char text[] = "GPU-00112233-4455-6677-8899-aabbccddeeff";
	static const char *const bad[] = {
		"",
		"GPU-",
		"GPU-00112233-4455-6677-8899-aabbccddeef",
		"GPU-00112233-4455-6677-8899-aabbccddeeff0",
		"GPU-00112233-4455-6677-8899-aabbccddeeff ",
		"GPU-00112233445566778899aabbccddeeff",
		"GPU-0011223-34455-6677-8899-aabbccddeeff",
		"GPU-00112233-4455-6677-8899-aabbccddeefg",
		"gpu-00112233-4455-6677-8899-aabbccddeeff",
		"GPU-GPU-00112233-4455-6677-8899-aabbccddeeff",
	};
	uint8_t uuid[16], kept[16];
	char back[UUID_TEXT_SIZE];

	CHECK_EQ(uuid_parse(text, uuid), 0);
	for (int i = 0; i < 16; i++)
		CHECK_EQ(uuid[i], i * 0x11);
	uuid_format(uuid, back);
	CHECK(!strcmp(back, text));
	CHECK_EQ(uuid_parse("MIG-00112233-4455-6677-8899-AABBCCDDEEFF", uuid), 0);
	CHECK_EQ(uuid_parse(text + 4, uuid), 0);
	memcpy(kept, uuid, sizeof(kept));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		CHECK_EQ(uuid_parse(bad[i], uuid), -EINVAL);
		CHECK(!memcmp(kept, uuid, sizeof(kept)));
	}
	return 0;
}
