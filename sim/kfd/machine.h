/* SPDX-License-Identifier: Apache-2.0 */
/* The machine that `allot sim --amd` shows: one CPU, and GPUs of one kind. */
#ifndef ALLOT_SIM_KFD_MACHINE_H
#define ALLOT_SIM_KFD_MACHINE_H

#include <stdint.h>

struct machine_options {
	uint32_t gpus;	       /* 1 to TREE_GPUS */
	uint32_t partitions;   /* of each board: 2 to 8, which divides gpus; 0: each is a board */
	const char *model;     /* NULL: gfx90a */
	uint64_t memory_bytes; /* of each */
	const char *links;     /* "xgmi", "pcie" or a file's name; NULL: as the model has them */
	uint32_t kernel;       /* whose answers the devices give (kernel.h); 0: the newest one's */
};

#define MACHINE_WHAT_BYTES 512

/*
 * Reads "8", or "2,partitions=4,linux=6.1": so many boards, partitions of each, and the kernel. 0 with
 * gpus, partitions and kernel, or -EINVAL with `ret_what`.
 */
int machine_parse(const char *text, struct machine_options *options,
		  char ret_what[MACHINE_WHAT_BYTES]);

/*
 * Writes the machine into `dir`/amd, whole or not at all. One that is there already stays as it is:
 * several commands may share a directory, and the first decides. 0 or -errno; then `ret_what` says
 * what is wrong.
 */
int machine_write(const char *dir, const struct machine_options *options,
		  char ret_what[MACHINE_WHAT_BYTES]);

#endif
