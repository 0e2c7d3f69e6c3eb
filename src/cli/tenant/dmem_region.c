/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tenant/dmem_region.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/parse.h"

/* "drm/<PCI address>/vram", with a number behind it where a driver has several such. */
#define BUS  "drm/"
#define VRAM "/vram"

static int dmem_region_parse_line(char *line, struct dmem_region *ret)
{
	char *number = strchr(line, ' ');
	size_t len = number ? (size_t)(number - line) : 0;

	if (!len || len >= sizeof(ret->name))
		return -EINVAL;
	*number++ = '\0';
	ret->bytes = DMEM_NO_LIMIT;
	if (strcmp(number, "max") != 0 && parse_u64(number, 0, DMEM_NO_LIMIT - 1, &ret->bytes) < 0)
		return -EINVAL;
	memcpy(ret->name, line, len + 1);
	return 0;
}

void dmem_regions_parse(const char *text, struct dmem_regions *ret)
{
	char line[DMEM_REGION_BYTES + 32];

	ret->n = 0;
	while (*text && ret->n < DMEM_REGIONS) {
		size_t len = strcspn(text, "\n");

		if (len < sizeof(line)) {
			memcpy(line, text, len);
			line[len] = '\0';
			ret->n += !dmem_region_parse_line(line, &ret->list[ret->n]);
		}
		text += len + (text[len] == '\n');
	}
}

const struct dmem_region *dmem_regions_find(const struct dmem_regions *regions, const char *name)
{
	for (size_t i = 0; i < regions->n; i++)
		if (!strcmp(regions->list[i].name, name))
			return &regions->list[i];
	return NULL;
}

static bool dmem_region_is_memory_of(const struct dmem_region *region, const struct device *device)
{
	size_t len = strlen(device->pci);
	const char *at = region->name;

	if (device->vendor != DEVICE_AMD || strncmp(at, BUS, strlen(BUS)))
		return false;
	at += strlen(BUS);
	if (!len || strncmp(at, device->pci, len) || strncmp(at + len, VRAM, strlen(VRAM)))
		return false;
	at += len + strlen(VRAM);
	return !at[strspn(at, "0123456789")];
}

/* *ret_whole: the policy has no limit there. */
static int dmem_region_allowed_on(const struct device *device, const struct policy *policy,
				  uint64_t *ret_bytes, bool *ret_whole)
{
	const struct policy_device *entry = policy_find(policy, device->uuid);

	*ret_whole = entry && entry->limit_permille == 1000;
	if (!entry || *ret_whole) {
		*ret_bytes = entry ? device->total_bytes : 0;
		return 0;
	}
	return policy_limit(policy, device->uuid, device->total_bytes, ret_bytes);
}

int dmem_region_allowed(const struct dmem_region *region, const struct devices *devices,
			const struct policy *policy, uint64_t *ret_bytes)
{
	uint64_t sum = 0, bytes;
	bool any = false, whole, all = true;

	for (unsigned int i = 0; i < devices->n; i++) {
		int r;

		if (!dmem_region_is_memory_of(region, &devices->list[i]))
			continue;
		r = dmem_region_allowed_on(&devices->list[i], policy, &bytes, &whole);
		if (r < 0)
			return r;
		sum = bytes > DMEM_NO_LIMIT - sum ? DMEM_NO_LIMIT : sum + bytes;
		any = true;
		all &= whole;
	}
	if (!any)
		return -ENOENT;
	*ret_bytes = all ? DMEM_NO_LIMIT : sum;
	return 0;
}
