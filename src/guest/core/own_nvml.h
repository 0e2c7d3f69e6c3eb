/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guest's own NVML, for figure.c: a table and an initialisation beside the program's, which may
 * shut its own down.
 *
 * NVML takes about 8 ms to open, and each device another 6 ms when it is first asked for (an H200).
 * So a thread of ours opens both while the program goes on, as soon as a look is certain. A call
 * that needs a figure before that is done waits for the rest. The thread does not begin sooner,
 * because the kernel's driver does one thing at a time: a cuInit beside it takes those 8 ms longer.
 * Making a context takes 100 ms, of which little is the kernel's, and 1 or 2 ms longer beside it.
 *
 *	program's thread    cuCtxCreate ── the driver makes the context ──► the first look
 *	ours                own_nvml_begin ── NVML, device ──► ends
 *
 * The library itself is loaded by the program's thread, in less than a millisecond: a program that
 * makes its context in a constructor holds the loader's lock, and would wait for a thread that
 * needs it.
 */
#ifndef ALLOT_GUEST_CORE_OWN_NVML_H
#define ALLOT_GUEST_CORE_OWN_NVML_H

#include <stdbool.h>
#include <stdint.h>

#include "guest/core/guest.h"
#include "nvidia/nvml_api.h"

/*
 * The driver was found in this process: has NVML's library loaded, in a tenant, and nothing opened.
 * A child that is forked while another thread loads or unloads a library can load none any more: a
 * lock of the loader's stays locked in it, and that of atexit. If its parent had the driver, it has
 * NVML, too. A driver that came with a library that the program opened is found no sooner than at
 * the first call of it or look-up of its functions.
 */
void own_nvml_prepare(void);

/* Has this called as the process ends, before the libraries are taken down. There is one. */
void own_nvml_on_exit(void (*too)(void));

/* Loads the library alone. In a thread of the program's. False: there is none. */
bool own_nvml_load(void);

/*
 * Opens NVML and a device of the tenant's ledger behind the program's back, unless that was begun
 * before. A thread of ours does it, and the caller goes on; where no thread can be made the caller
 * does it, now.
 */
void own_nvml_begin(struct guest *guest, int ledger_device);

/* True if own_nvml_get would answer at once. */
bool own_nvml_settled(struct guest *guest, int ledger_device);

/*
 * The library, and a device of it. Waits for a thread that opens them, or opens them itself. NULL:
 * there is none, it does not know the device, or it was not open after ten seconds.
 */
const struct nvml_library *own_nvml_get(struct guest *guest, const uint8_t uuid[16],
					int ledger_device, nvmlDevice_t *ret_device);

#endif
