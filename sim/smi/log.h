/* SPDX-License-Identifier: Apache-2.0 */
/* The long form, -q: what there is of a simulated device, under the real program's words. */
#ifndef ALLOT_SIM_SMI_LOG_H
#define ALLOT_SIM_SMI_LOG_H

#include "sim/smi/driver.h"

void log_print(struct driver *driver);

#endif
