/* SPDX-License-Identifier: Apache-2.0 */
#include "node/gauges.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/now.h"
#include "node/amd_gauge.h"
#include "nvidia/nvml.h"
#include "text/text.h"

struct gauges_reader {
	struct nvml *nvml;	/* NULL: not here */
	struct devices devices; /* as they were in the beginning */
	bool traffic;
};

int gauges_open(struct gauges_reader **ret)
{
	struct gauges_reader *reader = calloc(1, sizeof(*reader));

	if (!reader)
		return -ENOMEM;
	devices_read(&reader->devices);
	if (nvml_open(NULL, &reader->nvml))
		reader->nvml = NULL;
	*ret = reader;
	return 0;
}

void gauges_close(struct gauges_reader *reader)
{
	if (!reader)
		return;
	nvml_close(reader->nvml);
	free(reader);
}

void gauges_ask_traffic(struct gauges_reader *reader, bool ask)
{
	reader->traffic = ask;
}

/* Indices may have moved when a device was lost: its name decides. */
static void gauges_read_nvidia(struct nvml *nvml, unsigned int number, bool traffic,
			       struct gauge *gauge)
{
	struct nvml_device device;
	struct nvml_gauges now;
	struct nvml_traffic passed;

	if (nvml_device_get(nvml, number, &device) ||
	    memcmp(device.uuid, gauge->uuid, sizeof(gauge->uuid)))
		return;
	gauge->used_bytes = device.used_bytes;
	now = nvml_device_gauges(nvml, number);
	gauge->busy_percent = now.busy_percent;
	gauge->celsius = now.celsius;
	gauge->milliwatt = now.milliwatt;
	gauge->limit_milliwatt = now.limit_milliwatt;
	gauge->sm_mhz = now.sm_mhz;
	gauge->memory_mhz = now.memory_mhz;
	gauge->encoder_percent = now.encoder_percent;
	gauge->decoder_percent = now.decoder_percent;
	gauge->pcie_generation = now.pcie_generation;
	gauge->pcie_lanes = now.pcie_lanes;
	if (!traffic)
		return;
	passed = nvml_device_traffic(nvml, number);
	gauge->sent_kbps = passed.sent_kbps;
	gauge->received_kbps = passed.received_kbps;
}

/* The driver's figures are of a board, so of one in partitions they are nobody's. */
static void gauges_read_amd(const struct devices *devices, const struct device *device,
			    struct gauge *gauge)
{
	for (unsigned int i = 0; i < devices->n; i++)
		if (&devices->list[i] != device && *device->pci &&
		    !strcmp(devices->list[i].pci, device->pci))
			return;
	gauge->used_bytes = amd_gauge(device->render_minor, AMD_GAUGE_USED, UINT64_MAX - 1,
				      GAUGE_BYTES_UNKNOWN);
	gauge->busy_percent =
		(uint32_t)amd_gauge(device->render_minor, AMD_GAUGE_BUSY, 100, GAUGE_UNKNOWN);
}

_Static_assert(GAUGE_UNKNOWN == NVML_GAUGE_UNKNOWN, "passed on as it is");

void gauges_read(struct gauges_reader *reader, struct gauges *ret)
{
	ret->n = reader->devices.n;
	for (unsigned int i = 0; i < ret->n; i++) {
		const struct device *device = &reader->devices.list[i];
		struct gauge *gauge = &ret->list[i];

		memset(gauge, 0xff, sizeof(*gauge)); /* GAUGE_UNKNOWN, GAUGE_BYTES_UNKNOWN */
		gauge->index = i;
		gauge->total_bytes = device->total_bytes;
		memcpy(gauge->uuid, device->uuid, sizeof(gauge->uuid));
		snprintf(gauge->model, sizeof(gauge->model), "%s", device->model);
		text_make_printable(gauge->model);
		if (device->vendor == DEVICE_NVIDIA && reader->nvml)
			gauges_read_nvidia(reader->nvml, device->number, reader->traffic, gauge);
		else if (device->vendor == DEVICE_AMD)
			gauges_read_amd(&reader->devices, device, gauge);
	}
}

static int gauges_add_busy(struct gauges_reader *reader, const struct device *device,
			   uint64_t since_us, struct gauge_busy **list, size_t *n)
{
	struct nvml_busy_process *found = NULL;
	struct gauge_busy *more;
	size_t nfound = 0;

	/* A driver that does not tell has nothing to add. */
	if (nvml_device_busy_processes(reader->nvml, device->number, since_us, &found, &nfound) ||
	    !nfound)
		return 0;
	more = reallocarray(*list, *n + nfound, sizeof(*more));
	for (size_t i = 0; more && i < nfound; i++) {
		struct gauge_busy *busy = &more[(*n)++];

		memcpy(busy->uuid, device->uuid, sizeof(busy->uuid));
		busy->pid = found[i].pid;
		busy->percent = found[i].busy_percent;
	}
	free(found);
	if (!more)
		return -ENOMEM;
	*list = more;
	return 0;
}

int gauges_read_busy(struct gauges_reader *reader, struct gauge_busy **ret, size_t *ret_n)
{
	uint64_t now_us = now_ns(CLOCK_REALTIME) / NS_PER_US;
	struct gauge_busy *list = NULL;
	size_t n = 0;
	int r = 0;

	for (unsigned int i = 0; !r && reader->nvml && i < reader->devices.n; i++)
		if (reader->devices.list[i].vendor == DEVICE_NVIDIA)
			r = gauges_add_busy(reader, &reader->devices.list[i], now_us - 1000000,
					    &list, &n);
	if (r < 0) {
		free(list);
		return r;
	}
	*ret = list;
	*ret_n = n;
	return 0;
}
