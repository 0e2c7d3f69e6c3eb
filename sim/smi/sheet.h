/* SPDX-License-Identifier: Apache-2.0 */
/* The table that the program prints without options. */
#ifndef ALLOT_SIM_SMI_SHEET_H
#define ALLOT_SIM_SMI_SHEET_H

#include "sim/smi/driver.h"

void sheet_print(struct driver *driver);

#endif
