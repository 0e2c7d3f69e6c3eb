/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/smi/sheet.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "sim/smi/fields.h"

#define LINE  "+-----------------------------------------------------------------------------------------+"
#define CELLS "+-----------------------------------------+------------------------+----------------------+"

/* A field's value without its unit; "N/A" where the device has none. */
static void sheet_value(const struct fields_line *line, const char *name, char ret[static DRIVER_TEXT])
{
	fields_put(fields_find(fields_gpu, name), line, false, ret);
	if (!strcmp(ret, "[N/A]"))
		strcpy(ret, "N/A");
}

static void sheet_put_head(struct driver *driver)
{
	char version[DRIVER_TEXT], cuda[DRIVER_TEXT], text[DRIVER_TEXT];
	time_t now = time(NULL);
	struct tm tm;

	if (localtime_r(&now, &tm) && strftime(text, sizeof(text), "%a %b %e %H:%M:%S %Y", &tm))
		puts(text);
	driver_version(driver, version);
	driver_cuda_version(driver, cuda);
	puts(LINE);
	printf("| NVIDIA-SMI %-22.22s Driver Version: %-14.14s CUDA Version: %-8.8s |\n", version,
	       version, cuda);
	puts("|-----------------------------------------+------------------------+----------------------+");
	puts("| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |");
	puts("| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |");
	puts("|                                         |                        |               MIG M. |");
	puts("|=========================================+========================+======================|");
}

static void sheet_put_device(struct driver *driver, const struct driver_device *device)
{
	struct fields_line line = {.driver = driver, .device = device};
	char name[DRIVER_TEXT], bus[DRIVER_TEXT], mode[DRIVER_TEXT], heat[DRIVER_TEXT], mig[DRIVER_TEXT];
	char used[DRIVER_TEXT], total[DRIVER_TEXT], busy[DRIVER_TEXT], pstate[DRIVER_TEXT], memory[64];
	char draw[DRIVER_TEXT], limit[DRIVER_TEXT], persistence[DRIVER_TEXT], power[64];

	sheet_value(&line, "name", name);
	sheet_value(&line, "pci.bus_id", bus);
	sheet_value(&line, "compute_mode", mode);
	sheet_value(&line, "temperature.gpu", heat);
	sheet_value(&line, "mig.mode.current", mig);
	sheet_value(&line, "memory.used", used);
	sheet_value(&line, "memory.total", total);
	sheet_value(&line, "utilization.gpu", busy);
	sheet_value(&line, "pstate", pstate);
	sheet_value(&line, "power.draw", draw);
	sheet_value(&line, "power.limit", limit);
	sheet_value(&line, "persistence_mode", persistence);
	/* Whole watts. */
	draw[strcspn(draw, ".")] = limit[strcspn(limit, ".")] = 0;
	snprintf(power, sizeof(power), "%.20sW / %.20sW", draw, limit);
	snprintf(memory, sizeof(memory), "%.20sMiB / %.20sMiB", used, total);
	printf("| %3u  %-26.26s %7s | %18.18s %3s | %20s |\n", device->index, name,
	       strcmp(persistence, "Enabled") ? "Off" : "On", bus, "Off", "N/A");
	printf("| N/A  %3.3sC    %-4.4s%22.22s | %22.22s | %6.6s%% %12.12s |\n", heat, pstate, power,
	       memory, busy, mode);
	printf("| %39s | %22s | %20.20s |\n" CELLS "\n", "", "", mig);
}

/* The end of a name that is too long: its folders say least. */
static const char *sheet_end_of(const char *name, size_t most)
{
	return strlen(name) > most ? name + strlen(name) - most : name;
}

static void sheet_put_process(struct driver *driver, const struct driver_device *device,
			      const nvmlProcessInfo_t *process, const char *type)
{
	char name[DRIVER_TEXT], memory[32];

	driver_process_name(driver, process->pid, name);
	snprintf(memory, sizeof(memory), "%lluMiB", process->usedGpuMemory >> 20);
	printf("| %4u   N/A  N/A  %14u    %3s   %-35.35s %10s |\n", device->index, process->pid, type,
	       sheet_end_of(name, 35), memory);
}

static bool sheet_has(const nvmlProcessInfo_t *processes, unsigned int n, unsigned int pid)
{
	for (unsigned int i = 0; i < n; i++)
		if (processes[i].pid == pid)
			return true;
	return false;
}

/* Type C: computes, G: draws. A process that does both has one line. */
static bool sheet_put_processes(struct driver *driver, const struct driver_device *device)
{
	static nvmlProcessInfo_t compute[DRIVER_PROCESSES], graphics[DRIVER_PROCESSES];
	unsigned int ncompute = driver_processes(driver, device, compute);
	unsigned int ngraphics = driver_graphics(driver, device, graphics);

	for (unsigned int i = 0; i < ngraphics; i++)
		if (!sheet_has(compute, ncompute, graphics[i].pid))
			sheet_put_process(driver, device, &graphics[i], "G");
	for (unsigned int i = 0; i < ncompute; i++)
		sheet_put_process(driver, device, &compute[i],
				  sheet_has(graphics, ngraphics, compute[i].pid) ? "C+G" : "C");
	return ncompute || ngraphics;
}

void sheet_print(struct driver *driver)
{
	bool any = false;

	sheet_put_head(driver);
	for (unsigned int i = 0; i < driver->n; i++)
		sheet_put_device(driver, &driver->device[i]);
	puts("\n" LINE);
	puts("| Processes:                                                                              |");
	puts("|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |");
	puts("|        ID   ID                                                               Usage      |");
	puts("|=========================================================================================|");
	for (unsigned int i = 0; i < driver->n; i++)
		any |= sheet_put_processes(driver, &driver->device[i]);
	if (!any)
		puts("|  No running processes found                                                             |");
	puts(LINE);
}
