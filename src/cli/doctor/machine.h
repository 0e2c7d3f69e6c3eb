/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of all but the GPUs. */
#ifndef ALLOT_CLI_DOCTOR_MACHINE_H
#define ALLOT_CLI_DOCTOR_MACHINE_H

/* liballot.so: found, and taken by this machine's dynamic linker. */
void machine_check_library(void);

/* Checks the kernel's features for shares of compute. */
void machine_check_kernel(void);

/* Checks the runtime directory: its owner, its file system, its room, and its locks. */
void machine_check_runtime_dir(const char *runtime);

#endif
