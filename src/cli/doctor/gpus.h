/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ALLOT_CLI_DOCTOR_GPUS_H
#define ALLOT_CLI_DOCTOR_GPUS_H

/*
 * Checks the devices of both vendors with what allot needs of their drivers: files, versions,
 * libraries. That one vendor has none is nothing wrong where the other has some.
 */
void gpus_check(void);

#endif
