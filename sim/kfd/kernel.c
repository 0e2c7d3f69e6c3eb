/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/kfd/kernel.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"

int kernel_parse(const char *text, uint32_t *ret_kernel)
{
	char copy[16], *rest = copy, *major;
	uint64_t a, b;

	if (snprintf(copy, sizeof(copy), "%s", text) >= (int)sizeof(copy))
		return -EINVAL;
	major = strsep(&rest, ".");
	if (!rest || parse_u64(major, 0, UINT8_MAX, &a) < 0 || parse_u64(rest, 0, UINT8_MAX, &b) < 0 ||
	    KERNEL(a, b) < KERNEL_OLDEST || KERNEL(a, b) > KERNEL_NEWEST)
		return -EINVAL;
	*ret_kernel = KERNEL(a, b);
	return 0;
}

bool kernel_answers(uint32_t kernel, enum kernel_change change)
{
	static const uint32_t since[] = {
#define KERNEL_CHANGE(name, major, minor) KERNEL(major, minor),
#include "sim/kfd/kernels.def"
	};

	return kernel >= since[change];
}

bool kernel_has(uint32_t kernel, const char *ioctl)
{
	static const struct {
		const char *name;
		uint32_t since;
	} rows[] = {
#define KERNEL_IOCTL(name, major, minor) {#name, KERNEL(major, minor)},
#include "sim/kfd/kernels.def"
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (!strcmp(rows[i].name, ioctl))
			return kernel >= rows[i].since;
	return true;
}
