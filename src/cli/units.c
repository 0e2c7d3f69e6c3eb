/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/units.h"

#include <stdio.h>

#include "nvidia/uuid.h"

struct units_text units_bytes(uint64_t bytes)
{
	static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	unsigned int unit = 0, whole, tenth = 0;
	struct units_text t;

	if (!bytes) {
		snprintf(t.s, sizeof(t.s), "0");
		return t;
	}
	while (unit < 6 && bytes >> (10 * unit) >= 1024)
		unit++;
	whole = (unsigned int)(bytes >> (10 * unit));
	if (unit)
		tenth = (unsigned int)((bytes >> (10 * (unit - 1))) & 1023) * 10 / 1024;
	if (tenth)
		snprintf(t.s, sizeof(t.s), "%u.%u %s", whole, tenth, names[unit]);
	else
		snprintf(t.s, sizeof(t.s), "%u %s", whole, names[unit]);
	return t;
}

struct units_text units_permille(uint32_t permille)
{
	struct units_text t;

	if (permille % 10)
		snprintf(t.s, sizeof(t.s), "%u.%u%%", permille / 10, permille % 10);
	else
		snprintf(t.s, sizeof(t.s), "%u%%", permille / 10);
	return t;
}

struct units_text units_uuid(const uint8_t uuid[16])
{
	struct units_text t;

	_Static_assert(sizeof(t.s) >= UUID_TEXT_SIZE, "a UUID fits");
	uuid_format(uuid, t.s);
	return t;
}

struct units_text units_uuid_short(const uint8_t uuid[16])
{
	struct units_text t = units_uuid(uuid);

	t.s[12] = 0;
	return t;
}
