/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/name.h"

#include <errno.h>
#include <string.h>

#include "tests/check.h"

static void check_name(const char *name, const char *device, const char *memory, const char *share)
{
	struct cdi_name parts;

	CHECK_EQ(cdi_name_parse(name, &parts), 0);
	if (strcmp(parts.device, device) || strcmp(parts.memory, memory) ||
	    strcmp(parts.share, share))
		fprintf(stderr, "%s: \"%s\" \"%s\" \"%s\"\n", name, parts.device, parts.memory,
			parts.share);
	CHECK(!strcmp(parts.device, device));
	CHECK(!strcmp(parts.memory, memory));
	CHECK(!strcmp(parts.share, share));
}

int main(void)
{
	static const char *const bad[] = {
		"", "-", "8GiB-", "-25", "25%", "8GiB 25", "8GiB,25", "../0", "0/1", ":8GiB", "8GiB:",
		"a234567890123456789012345678901234567890123456789012345678901234",
	};
	struct cdi_name parts = {.device = "old"};

	check_name("all", "", "", "");
	check_name("0", "0", "", "");
	check_name("0-3", "0-3", "", "");
	check_name("8GiB", "", "8GiB", "");
	check_name("8GiB-25", "", "8GiB", "25");
	check_name("1.5G-12.5", "", "1.5G", "12.5");
	check_name("0:8GiB-25", "0", "8GiB", "25");
	check_name("all:8GiB", "", "8GiB", "");
	check_name("nvidia0:512M", "nvidia0", "512M", "");
	check_name("GPU-5c84:8GiB-25", "GPU-5c84", "8GiB", "25");
	check_name("GPU-11111111-2222-3333-4444-555555555555",
		   "GPU-11111111-2222-3333-4444-555555555555", "", "");
	check_name("0000:03:00.0", "0000:03:00.0", "", "");
	check_name("0000:03:00.0:8GiB", "0000:03:00.0", "8GiB", "");
	/* Neither an amount nor, as whoever knows the devices will say, a device. */
	check_name("8GiB-250", "8GiB-250", "", "");
	check_name("8000000000", "8000000000", "", "");
	check_name("4k", "4k", "", "");
	check_name("al", "al", "", "");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK_EQ(cdi_name_parse(bad[i], &parts), -EINVAL);
	CHECK(!strcmp(parts.device, "old"));
	return 0;
}
