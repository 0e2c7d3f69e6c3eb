/* SPDX-License-Identifier: Apache-2.0 */
/* The ways in which programs hand kernels to the driver. */
#ifndef ALLOT_TOOLS_FORM_H
#define ALLOT_TOOLS_FORM_H

#include <stdbool.h>

#include "tools/device.h"

#define LOAD_STREAMS 16

enum load_form {
	LOAD_PLAIN,	  /* cuLaunchKernel */
	LOAD_EX,	  /* cuLaunchKernelEx */
	LOAD_COOPERATIVE, /* cuLaunchCooperativeKernel */
	LOAD_GRAPH,	  /* a captured graph of many kernels */
	LOAD_STREAMS4,	  /* plain, in four streams in turn */
	LOAD_SYNC,	  /* plain, and wait for each */
	LOAD_REQUEST,	  /* one at an instant, its latency noted */
	LOAD_TOKEN,	  /* brief kernels first; then a graph, a copy to the host, and wait */
	LOAD_FORMS,
};
extern const char *const load_form_names[LOAD_FORMS];

struct load_work {
	const struct load_device *device;
	enum load_form form;
	uint64_t loops;
	unsigned int kernels; /* in one launch */
	unsigned int nstreams;
	CUstream stream[LOAD_STREAMS];
	CUgraphExec graph;
	CUdeviceptr token;
};

/*
 * Prepares launches of kernels of `kernel_us` us each; `nodes` are those of a graph, `eager` the
 * number of short kernels before the tokens. Ends the program on errors, like load_must.
 */
void load_work_open(struct load_work *ret, const struct load_device *device, enum load_form form,
		    double kernel_us, unsigned int nodes, unsigned int eager);

/* True if a launch is a graph of many kernels. */
bool load_work_is_graph(enum load_form form);

/* Launches one unit into one of the streams. */
CUresult load_work_launch(const struct load_work *work, unsigned int stream);

/* Waits until all that was launched is done, as the form does: LOAD_TOKEN copies a token before. */
CUresult load_work_wait(const struct load_work *work);

#endif
