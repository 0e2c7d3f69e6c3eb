/* SPDX-License-Identifier: Apache-2.0 */
#include "text/units.h"

#include <stdio.h>

#include "amd/identity.h"
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

struct units_unit {
	const char *name;
	uint64_t one, below; /* in the base unit; and the number from which on the next is used */
};

static struct units_text units_of(uint64_t value, const struct units_unit *unit)
{
	struct units_text t;

	while (value / unit->one >= unit->below)
		unit++;
	if (value / unit->one < 100 && value % unit->one * 10 / unit->one)
		snprintf(t.s, sizeof(t.s), "%llu.%llu %s", (unsigned long long)(value / unit->one),
			 (unsigned long long)(value % unit->one * 10 / unit->one), unit->name);
	else
		snprintf(t.s, sizeof(t.s), "%llu %s", (unsigned long long)(value / unit->one),
			 unit->name);
	return t;
}

struct units_text units_duration(uint64_t ns)
{
	static const struct units_unit units[] = {
		{"us", 1000, 1000},
		{"ms", 1000000, 1000},
		{"s", 1000000000, 1000},
		{"min", UINT64_C(60000000000), 1000},
		{"h", UINT64_C(3600000000000), UINT64_MAX},
	};

	if (ns < 100)
		return (struct units_text){"0"};
	return units_of(ns, units);
}

struct units_text units_power(uint32_t milliwatt)
{
	static const struct units_unit units[] = {{"W", 1000, UINT64_MAX}};

	return units_of(milliwatt, units);
}

struct units_text units_energy(uint64_t microjoule)
{
	static const struct units_unit units[] = {
		{"J", 1000000, 3600},
		{"Wh", UINT64_C(3600000000), 1000},
		{"kWh", UINT64_C(3600000000000), UINT64_MAX},
	};

	return units_of(microjoule, units);
}

struct units_text units_count(size_t n, const char *one, const char *many)
{
	struct units_text t;

	snprintf(t.s, sizeof(t.s), "%zu %s", n, n == 1 ? one : many);
	return t;
}

struct units_text units_uuid(const uint8_t uuid[16])
{
	struct units_text t;

	_Static_assert(sizeof(t.s) >= UUID_TEXT_SIZE && sizeof(t.s) >= AMD_IDENTITY_BYTES,
		       "either vendor's name fits");
	if (amd_identity_is(uuid))
		amd_identity_text(uuid, t.s);
	else
		uuid_format(uuid, t.s);
	return t;
}

struct units_text units_uuid_short(const uint8_t uuid[16])
{
	struct units_text t = units_uuid(uuid);

	if (!amd_identity_is(uuid))
		t.s[12] = 0;
	return t;
}
