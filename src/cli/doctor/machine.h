/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of all but the GPUs. */
#ifndef ALLOT_CLI_DOCTOR_MACHINE_H
#define ALLOT_CLI_DOCTOR_MACHINE_H

/* liballot.so: found, and taken by this machine's dynamic linker. */
void machine_check_library(void);

/* Checks the kernel for what shares of compute need. */
void machine_check_kernel(void);

/* The runtime directory: whose, of what kind, with room, and with locks that work. */
void machine_check_runtime_dir(const char *runtime);

#endif
