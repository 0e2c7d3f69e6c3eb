/* SPDX-License-Identifier: Apache-2.0 */
/* One process of the load, from opening the device to its line of results. */
#ifndef ALLOT_TOOLS_RUN_H
#define ALLOT_TOOLS_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/form.h"

struct load_options {
	enum load_form form;
	double kernel_us, seconds, warmup, period_ms, loops_per_us;
	double idle_from, idle_to; /* seconds from the start; nothing is launched in between */
	unsigned int device, blocks, threads, nodes, eager, depth, processes, bin_ms;
	bool canary, wait;
	bool lean; /* of the forms that do not wait: no thread and few events of its own */
};

/* True if the form has one launch in flight at a time. */
bool load_waits(enum load_form form);

/* Memory that the parent and its processes share, kept by fork. */
struct load_shared {
	uint32_t ready;	   /* processes that could start now */
	uint64_t start_ns; /* 0: wait */
};

/* Opens everything, says that it is ready, runs from start_ns on, prints the results and ends. */
void load_run(const struct load_options *options, unsigned int process, struct load_shared *shared)
	__attribute__((noreturn));

#endif
