/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The region as this process uses it by Vulkan. The library takes a row of its own there, beside that
 * of the simulated CUDA driver: NVML lists one process with the sum of both.
 */
#ifndef ALLOT_SIM_VULKAN_GPU_H
#define ALLOT_SIM_VULKAN_GPU_H

#include <stdbool.h>
#include <stdint.h>

/* Maps the region; a forked child does so anew. 0 or -errno. The others are called behind it. */
int gpu_open(void);

int gpu_count(void);
const char *gpu_name(int gpu);
const uint8_t *gpu_uuid(int gpu);
uint64_t gpu_total(int gpu);

/* This process's figure, and what is free of the GPU. */
void gpu_read(int gpu, uint64_t *ret_own, uint64_t *ret_free);

/* Takes bytes, and gives them back: -ENOMEM where the GPU is full. */
int gpu_charge(int gpu, uint64_t bytes);
void gpu_uncharge(int gpu, uint64_t bytes);

/* One Vulkan device more, or one less. */
void gpu_note_device(int gpu, bool begins);

#endif
