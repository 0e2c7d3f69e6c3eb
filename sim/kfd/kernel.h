/* SPDX-License-Identifier: Apache-2.0 */
/* The Linux whose driver is emulated: which answers are its (kernels.def). */
#ifndef ALLOT_SIM_KFD_KERNEL_H
#define ALLOT_SIM_KFD_KERNEL_H

#include <stdbool.h>
#include <stdint.h>

/* Versions in one number, by which they compare. */
#define KERNEL(major, minor) ((uint32_t)(major) << 8 | (minor))
#define KERNEL_OLDEST	     KERNEL(6, 1)
#define KERNEL_NEWEST	     KERNEL(7, 2)

/* The file in the tree that says which it is, as "6.1". */
#define KERNEL_FILE "/linux"

enum kernel_change {
#define KERNEL_CHANGE(name, major, minor) KERNEL_##name,
#include "sim/kfd/kernels.def"
};

/* Reads "6.1": 0, or -EINVAL for what is no version from the oldest to the newest. */
int kernel_parse(const char *text, uint32_t *ret_kernel);

/* True if that kernel answers so, or has the ioctl of that name, which may be in no row. */
bool kernel_answers(uint32_t kernel, enum kernel_change change);
bool kernel_has(uint32_t kernel, const char *ioctl);

#endif
