/* SPDX-License-Identifier: Apache-2.0 */
/* The findings of `allot doctor`, and the checks of the machine (machine.c) and its GPUs. */
#ifndef ALLOT_CLI_DOCTOR_DOCTOR_H
#define ALLOT_CLI_DOCTOR_DOCTOR_H

enum doctor_finding { DOCTOR_OK, DOCTOR_WARN, DOCTOR_FAIL };

/* `todo` is what to do about it, NULL for nothing. */
void doctor_says(enum doctor_finding finding, const char *what, const char *todo);

/*
 * The devices of both vendors with what allot needs of their drivers: files, versions, libraries.
 * That one vendor has none is nothing wrong where the other has some. (devices.c)
 */
void doctor_devices(void);

/* liballot.so: found, and taken by this machine's dynamic linker. */
void doctor_library(void);

/* What compute shares need of the kernel. */
void doctor_kernel(void);

/* The runtime directory: whose, of what kind, with room, and with locks that work. */
void doctor_runtime_dir(const char *runtime);

#endif
