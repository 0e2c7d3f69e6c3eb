/* SPDX-License-Identifier: Apache-2.0 */
/* The variables by which people choose among devices before allot does, and allot for a command. */
#ifndef ALLOT_CLI_DEVICE_VISIBLE_H
#define ALLOT_CLI_DEVICE_VISIBLE_H

#include "cli/device/selection.h"

/* 0 if the caller's variables list all devices of `--gpu`; else a message. */
int visible_check(const char *list, const struct devices *devices, const struct selection *gpus);

/*
 * Sets them for the command: to the devices that `--gpu` chose, or, where it was not given (NULL)
 * and the policy names devices, to those that the caller's leave of these. By name, which CUDA,
 * NVML and ROCm all understand alike. 0 or -ENOMEM.
 */
int visible_set(const struct devices *devices, const struct selection *gpus,
		const struct policy *policy);

/* " CUDA_VISIBLE_DEVICES=..." and the like, for those that are set. */
struct visible_text {
	char s[1024];
};
struct visible_text visible_words(void);

#endif
