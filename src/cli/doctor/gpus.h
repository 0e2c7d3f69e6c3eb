/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ALLOT_CLI_DOCTOR_GPUS_H
#define ALLOT_CLI_DOCTOR_GPUS_H

/*
 * Checks the devices of both vendors, and their drivers: files, versions, libraries. It is no fault
 * if only one vendor has devices.
 */
void gpus_check(void);

#endif
