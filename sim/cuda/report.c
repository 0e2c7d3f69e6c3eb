/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/report.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sim/cuda/api.h"

/* A process that calls exec() begins another report under the same pid. */
#define TRIES 1000

static struct sim_report *report; /* NULL: there is none */

static void report_forget(void)
{
	report = NULL;
}

static void report_read_command(char *command, size_t len)
{
	int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, command, len - 1);

	if (fd >= 0)
		close(fd);
	n = n < 0 ? 0 : n;
	command[n] = 0;
	for (ssize_t i = 0; i + 1 < n; i++)
		if (!command[i])
			command[i] = ' ';
}

static int report_create(const char *folder)
{
	char path[PATH_MAX];
	int fd = -1;

	for (int i = 0; fd < 0 && i < TRIES; i++) {
		if (snprintf(path, sizeof(path), "%s/%d-%d", folder, (int)getpid(), i) >= (int)sizeof(path))
			return -1;
		fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	}
	return fd;
}

void sim_report_begin(void)
{
	const char *folder = getenv("ALLOT_SIM_REPORT");
	struct sim_report *fresh = MAP_FAILED;
	int fd = folder && *folder && !report ? report_create(folder) : -1;

	if (fd < 0)
		return;
	if (!ftruncate(fd, sizeof(*fresh)))
		fresh = mmap(NULL, sizeof(*fresh), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (fresh == MAP_FAILED)
		return;
	fresh->version = SIM_REPORT_VERSION;
	fresh->pid = (int32_t)getpid();
	report_read_command(fresh->command, sizeof(fresh->command));
	fresh->magic = SIM_REPORT_MAGIC;
	report = fresh;
	pthread_atfork(NULL, NULL, report_forget);
}

static bool report_is_answer(enum cuda_kind kind, CUresult result)
{
	return result == CUDA_ERROR_NOT_READY || kind == CUDA_KIND_LOOKUP || kind == CUDA_KIND_POINTER;
}

static void report_name(struct sim_report_error *error, enum cuda_fn fn, CUresult result)
{
	const char *name;

	snprintf(error->call, sizeof(error->call), "%s", cuda_rows[fn].name);
	if (cuGetErrorName(result, &name))
		snprintf(error->result, sizeof(error->result), "%d", (int)result);
	else
		snprintf(error->result, sizeof(error->result), "%s", name);
}

void sim_report_result(enum cuda_fn fn, enum cuda_kind kind, CUresult result)
{
	uint32_t code = ((uint32_t)fn << 16 | ((uint32_t)result & 0xffff)) + 1;

	if (!report || report_is_answer(kind, result))
		return;
	for (int i = 0; i < SIM_REPORT_ERRORS; i++) {
		struct sim_report_error *error = &report->error[i];
		uint32_t there = 0;

		if (atomic_compare_exchange_strong(&error->code, &there, code))
			report_name(error, fn, result);
		if (!there || there == code) {
			error->n++;
			return;
		}
	}
	report->more_errors++;
}

void sim_report_take(int device, uint64_t bytes)
{
	struct sim_report_device *d;
	uint64_t now, peak;

	if (!report)
		return;
	d = &report->device[device];
	now = atomic_fetch_add(&d->now_bytes, bytes) + bytes;
	peak = d->peak_bytes;
	while (now > peak && !atomic_compare_exchange_weak(&d->peak_bytes, &peak, now))
		;
}

void sim_report_give(int device, uint64_t bytes)
{
	if (report)
		report->device[device].now_bytes -= bytes;
}

void sim_report_hold(enum sim_report_kind kind, int device, uint64_t bytes)
{
	struct sim_report_held *held;

	if (!report)
		return;
	held = &report->device[device].held[kind];
	held->made++;
	held->bytes += bytes;
	held->n++;
}

void sim_report_drop(enum sim_report_kind kind, int device, uint64_t bytes)
{
	struct sim_report_held *held;

	if (!report)
		return;
	held = &report->device[device].held[kind];
	held->bytes -= bytes;
	held->n--;
}

/* Behind the program's own exit handlers and destructors. */
static __attribute__((destructor)) void report_end(void)
{
	if (report)
		report->ended = 1;
}
