/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/smi/log.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "sim/smi/fields.h"

/* A line of a device's part: a field's value, or a heading without one. */
static const struct {
	int indent;
	const char *words, *field;
} lines[] = {
	{1, "Product Name", "name"},
	{1, "Persistence Mode", "persistence_mode"},
	{1, "MIG Mode", NULL},
	{2, "Current", "mig.mode.current"},
	{2, "Pending", "mig.mode.pending"},
	{1, "Serial Number", "serial"},
	{1, "GPU UUID", "uuid"},
	{1, "PCI", NULL},
	{2, "Bus", "pci.bus"},
	{2, "Device", "pci.device"},
	{2, "Domain", "pci.domain"},
	{2, "Device Id", "pci.device_id"},
	{2, "Bus Id", "pci.bus_id"},
	{1, "Fan Speed", "fan.speed"},
	{1, "Performance State", "pstate"},
	{1, "FB Memory Usage", NULL},
	{2, "Total", "memory.total"},
	{2, "Reserved", "memory.reserved"},
	{2, "Used", "memory.used"},
	{2, "Free", "memory.free"},
	{1, "Compute Mode", "compute_mode"},
	{1, "Utilization", NULL},
	{2, "GPU", "utilization.gpu"},
	{2, "Memory", "utilization.memory"},
	{1, "Temperature", NULL},
	{2, "GPU Current Temp", "temperature.gpu"},
	{1, "Clocks", NULL},
	{2, "Graphics", "clocks.gr"},
	{2, "SM", "clocks.sm"},
	{2, "Memory", "clocks.mem"},
	{1, "Max Clocks", NULL},
	{2, "Graphics", "clocks.max.gr"},
	{2, "SM", "clocks.max.sm"},
	{2, "Memory", "clocks.max.mem"},
};

#define COLUMN 42 /* where values stand */

static void log_put(int indent, const char *words, const char *value)
{
	printf("%*s%-*s : %s\n", indent * 4, "", COLUMN - indent * 4, words, value);
}

static void log_put_line(const struct fields_line *line, int indent, const char *words, const char *name)
{
	const struct field *field = fields_find(fields_gpu, name);
	char value[DRIVER_TEXT];

	fields_put(field, line, true, value);
	if (!strcmp(value, "[N/A]"))
		strcpy(value, "N/A");
	else if (!strcmp(name, "temperature.gpu"))
		strcat(value, " C");
	log_put(indent, words, value);
}

static void log_put_processes(struct driver *driver, const struct driver_device *device)
{
	static nvmlProcessInfo_t processes[DRIVER_PROCESSES];
	unsigned int n = driver_processes(driver, device, processes);
	char text[DRIVER_TEXT];

	if (!n) {
		log_put(1, "Processes", "None");
		return;
	}
	puts("    Processes");
	for (unsigned int i = 0; i < n; i++) {
		snprintf(text, sizeof(text), "%u", processes[i].pid);
		log_put(2, "Process ID", text);
		log_put(3, "Type", "C");
		driver_process_name(driver, processes[i].pid, text);
		log_put(3, "Name", text);
		snprintf(text, sizeof(text), "%llu MiB", processes[i].usedGpuMemory >> 20);
		log_put(3, "Used GPU Memory", text);
	}
}

static void log_put_device(struct driver *driver, const struct driver_device *device)
{
	struct fields_line line = {.driver = driver, .device = device};
	char text[DRIVER_TEXT];

	driver_bus_id(driver, device, text);
	printf("GPU %s\n", text);
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		if (lines[i].field)
			log_put_line(&line, lines[i].indent, lines[i].words, lines[i].field);
		else
			printf("%*s%s\n", lines[i].indent * 4, "", lines[i].words);
	}
	log_put_processes(driver, device);
	putchar('\n');
}

void log_print(struct driver *driver)
{
	time_t now = time(NULL);
	char text[DRIVER_TEXT];
	struct tm tm;

	puts("\n==============NVSMI LOG==============\n");
	if (localtime_r(&now, &tm) && strftime(text, sizeof(text), "%a %b %e %H:%M:%S %Y", &tm))
		log_put(0, "Timestamp", text);
	driver_version(driver, text);
	log_put(0, "Driver Version", text);
	driver_cuda_version(driver, text);
	log_put(0, "CUDA Version", text);
	putchar('\n');
	snprintf(text, sizeof(text), "%u", driver->count);
	log_put(0, "Attached GPUs", text);
	for (unsigned int i = 0; i < driver->n; i++)
		log_put_device(driver, &driver->device[i]);
}
