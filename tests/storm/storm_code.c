/* SPDX-License-Identifier: Apache-2.0 */
/* Code: modules of a context, and libraries, which are a module in each context that uses them. */
#include "storm_work.h"

/* Nobody tells its size beforehand: storm.py allows for a piece of each thread beyond the quota. */
#define CODE_MOST (8 * MIB)

/* Code of one function, with a variable of so many bytes. */
static const char *code_image(uint64_t bytes, char *text, size_t size)
{
	if (storm->options.simulated)
		snprintf(text, size, "allot-sim-module bytes=%llu\n", (unsigned long long)bytes);
	else
		snprintf(text, size,
			 ".version 6.0\n.target sm_50\n.address_size 64\n"
			 ".visible .global .align 8 .b8 room[%llu];\n"
			 ".visible .entry any()\n{\n\tret;\n}\n",
			 (unsigned long long)bytes + 8);
	return text;
}

/* Code without large variables shares a granule with other code. */
static uint64_t code_bytes(struct worker *w, const struct block *b)
{
	if (pick(&w->seed, 2))
		return 0;
	return b->bytes < CODE_MOST ? b->bytes : CODE_MOST;
}

static void code_launch(struct worker *w, const struct block *b, CUfunction function)
{
	if (!REFUSED(w, cu.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, w->stream[b->device], NULL,
					  NULL)))
		OK(cu.cuStreamSynchronize(w->stream[b->device]));
}

static void code_use_module(struct worker *w, struct block *b)
{
	CUfunction function;

	if (!REFUSED(w, cu.cuModuleGetFunction(&function, b->object, "any")))
		code_launch(w, b, function);
}

static bool code_take_module(struct worker *w, struct block *b)
{
	CUmodule module;
	char text[256];

	if (REFUSED(w, cu.cuModuleLoadData(&module,
					   code_image(code_bytes(w, b), text, sizeof(text)))))
		return false;
	b->object = module;
	if (pick(&w->seed, 2))
		code_use_module(w, b);
	return true;
}

static void code_give_module(struct worker *w, struct block *b)
{
	(void)w;
	OK(cu.cuModuleUnload(b->object));
}

/* Asks for the library's code in the current context, in one of the ways that load it. */
static void code_use_library(struct worker *w, struct block *b)
{
	CUfunction function;
	CUkernel kernel;
	CUmodule module;

	OK(cu.cuLibraryGetKernel(&kernel, b->object, "any"));
	switch (pick(&w->seed, 3)) {
	case 0:
		code_launch(w, b, (CUfunction)kernel);
		break;
	case 1:
		if (!REFUSED(w, cu.cuKernelGetFunction(&function, kernel)))
			code_launch(w, b, function);
		break;
	default:
		REFUSED(w, cu.cuLibraryGetModule(&module, b->object));
	}
}

static bool code_take_library(struct worker *w, struct block *b)
{
	CUlibrary library;
	char text[256];

	if (REFUSED(w, cu.cuLibraryLoadData(&library,
					    code_image(code_bytes(w, b), text, sizeof(text)), NULL,
					    NULL, 0, NULL, NULL, 0)))
		return false;
	b->object = library;
	if (pick(&w->seed, 2))
		code_use_library(w, b);
	return true;
}

/* The library is used on one more device, where it is a module of its own. */
static void code_use_elsewhere(struct worker *w, struct block *b)
{
	int device = b->device;

	b->device = (int)pick(&w->seed, (unsigned int)storm->options.devices);
	OK(cu.cuCtxSetCurrent(w->contexts[b->device]));
	code_use_library(w, b);
	b->device = device;
}

static void code_give_library(struct worker *w, struct block *b)
{
	(void)w;
	OK(cu.cuLibraryUnload(b->object));
}

const struct family storm_module = {"module", code_take_module, code_give_module, code_use_module,
				    NULL};
const struct family storm_library = {"library", code_take_library, code_give_library,
				     code_use_elsewhere, NULL};
