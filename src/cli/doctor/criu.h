/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ALLOT_CLI_DOCTOR_CRIU_H
#define ALLOT_CLI_DOCTOR_CRIU_H

/*
 * Which CRIU there is to write process trees to disk, whether it is new enough for this kernel, and,
 * where there are AMD GPUs, which of our plugins it takes.
 * To have none is nothing wrong.
 */
void criu_report(void);

#endif
