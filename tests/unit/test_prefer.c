/* SPDX-License-Identifier: Apache-2.0 */
/* Which slots a container is to have, on GPUs with and without links. */
#include <stdio.h>
#include <string.h>

#include "kube/pods/device_id.h"
#include "kube/slots/prefer.h"
#include "tests/check.h"

#define GPUS  4
#define SLOTS 4 /* of each */

static struct node_devices devices;
static char names[GPUS * SLOTS][DEVICE_ID_BYTES];
static char *available[GPUS * SLOTS];

static void begin(void)
{
	memset(&devices, 0, sizeof(devices));
	devices.n = GPUS;
	for (unsigned int i = 0; i < GPUS; i++) {
		struct node_device *d = &devices.list[i];

		memset(d->device.uuid, 0x11, sizeof(d->device.uuid));
		d->device.uuid[15] = (uint8_t)i;
		d->device.total_bytes = (uint64_t)80 << 30;
		d->numa = (int)i / 2;
		for (unsigned int k = 0; k < SLOTS; k++) {
			char *name = names[i * SLOTS + k];
			char of[NODE_NAME_BYTES];

			node_device_name(d->device.uuid, of);
			snprintf(name, sizeof(names[0]), "%s.%uof%u", of, k, (unsigned int)SLOTS);
			available[i * SLOTS + k] = name;
		}
	}
}

static void link_both(unsigned int a, unsigned int b, uint8_t links)
{
	devices.nvlinks[a][b] = devices.nvlinks[b][a] = links;
}

/* GPUs that are preferred, as bits, for `size` slots of which `must`, if any, is one. */
static unsigned int prefer(size_t size, char *must)
{
	const struct prefer_request request = {
		.available = available, .n_available = GPUS * SLOTS, .must = &must, .n_must = must ? 1 : 0, .size = size};
	char *found[GPUS * SLOTS];
	unsigned int gpus = 0;

	CHECK_EQ(prefer_slots(&devices, &request, found), 0);
	for (size_t i = 0; i < size; i++) {
		struct device_slot slot;

		CHECK_EQ(device_id_parse(&devices, found[i], &slot), 0);
		gpus |= 1u << slot.device;
	}
	return gpus;
}

static void check_numa(void)
{
	begin();
	CHECK_EQ(prefer(2, NULL), 3);
	CHECK_EQ(prefer(2, names[2 * SLOTS]), 4 | 8);
	CHECK_EQ(prefer(4, NULL), 15);
	CHECK_EQ(prefer(1, NULL), 1);
}

/* They count for more than the NUMA node; with switches all have as many, and the node counts. */
static void check_links(void)
{
	begin();
	link_both(1, 3, 4);
	CHECK_EQ(prefer(2, NULL), 2 | 8);
	CHECK_EQ(prefer(2, names[SLOTS]), 2 | 8);
	CHECK_EQ(prefer(2, names[0]), 3);
	CHECK_EQ(prefer(1, NULL), 1);
	link_both(0, 2, 2);
	CHECK_EQ(prefer(2, NULL), 2 | 8);
	begin();
	for (unsigned int a = 0; a < GPUS; a++)
		for (unsigned int b = 0; b < a; b++)
			link_both(a, b, 18);
	CHECK_EQ(prefer(2, names[2 * SLOTS]), 4 | 8);
}

int main(void)
{
	check_numa();
	check_links();
	return 0;
}
