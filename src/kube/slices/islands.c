/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/slices/islands.h"

/* Each side tells of its own links. */
static bool islands_linked(const struct node_devices *devices, unsigned int a, unsigned int b)
{
	return devices->nvlinks[a][b] && devices->nvlinks[b][a];
}

/* Returns true if the device has links to all that are in the island so far. */
static bool islands_fits(const struct node_devices *devices, const int *island, unsigned int device, unsigned int first)
{
	for (unsigned int i = first; i < device; i++)
		if (island[i] == (int)first && !islands_linked(devices, device, i))
			return false;
	return true;
}

static int islands_find_one(const struct node_devices *devices, const int *island, unsigned int device)
{
	for (unsigned int first = 0; first < device; first++)
		if (island[first] == (int)first && islands_fits(devices, island, device, first))
			return (int)first;
	return (int)device;
}

static bool islands_is_alone(const int *island, unsigned int n, unsigned int device)
{
	for (unsigned int i = 0; i < n; i++)
		if (i != device && island[i] == island[device])
			return false;
	return true;
}

/*
 * In the driver's order, which is that of their buses: neighbours come first. Where a device has links to two groups
 * that have none between them, it is in the first.
 */
void islands_find(const struct node_devices *devices, int ret[static POLICY_DEVICES])
{
	for (unsigned int i = 0; i < devices->n; i++)
		ret[i] = islands_find_one(devices, ret, i);
	for (unsigned int i = 0; i < devices->n; i++)
		if (ret[i] == (int)i && islands_is_alone(ret, devices->n, i))
			ret[i] = ISLAND_NONE;
}
