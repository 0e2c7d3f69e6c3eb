/* SPDX-License-Identifier: Apache-2.0 */
#include "base/userns.h"

#include <stdint.h>
#include <stdio.h>

bool userns_is_nested(void)
{
	unsigned int inside = 0, outside = 0, n = 0;
	FILE *map = fopen("/proc/self/uid_map", "re");

	if (!map)
		return false;
	if (fscanf(map, "%u %u %u", &inside, &outside, &n) != 3)
		n = 0;
	fclose(map);
	return inside || outside || n != UINT32_MAX;
}
