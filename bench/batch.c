/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/batch.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/now.h"

void batch_pin(void)
{
	cpu_set_t cpu;

	CPU_ZERO(&cpu);
	CPU_SET(sched_getcpu(), &cpu);
	sched_setaffinity(0, sizeof(cpu), &cpu);
}

int batch_count(int argc, char **argv, int normal, int most)
{
	int n = argc > 1 ? atoi(argv[1]) : normal;

	return n < 1 || n > most ? 0 : n;
}

static int batch_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double batch_median(double *values, int n)
{
	qsort(values, (size_t)n, sizeof(*values), batch_compare);
	return values[n / 2];
}

static double batch_time(const struct batch_item *item)
{
	uint64_t began = now_monotonic_ns();

	for (int c = 0; c < item->calls; c++)
		item->call();
	return (double)(now_monotonic_ns() - began) / (item->calls * (item->each ? item->each : 1));
}

int batch_measure(const struct batch_item *items, size_t n, int batches, double *ret_ns)
{
	double *ns = calloc(n * (size_t)batches, sizeof(*ns));

	if (!ns)
		return -ENOMEM;
	for (int b = 0; b < batches; b++)
		for (size_t i = 0; i < n; i++)
			ns[i * (size_t)batches + (size_t)b] = batch_time(&items[i]);
	for (size_t i = 0; i < n; i++)
		ret_ns[i] = batch_median(&ns[i * (size_t)batches], batches);
	free(ns);
	return 0;
}

void batch_print(const struct batch_item *items, size_t n, const double *values)
{
	for (size_t i = 0; i < n; i++)
		printf("%s\"%s\": %.2f", i ? ", " : "{", items[i].name, values[i]);
	printf("}\n");
}
