/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks that the processor's breakpoints work. CRIU waits for them without an end, and in some
 * virtual machines one can be set, and never fires.
 */
#ifndef ALLOT_CLI_CHECKPOINT_BREAKPOINT_H
#define ALLOT_CLI_CHECKPOINT_BREAKPOINT_H

#include <stdbool.h>

/*
 * Makes CRIU do without breakpoints: of the faults that its tests inject, the one that breaks
 * nothing.
 */
#define BREAKPOINT_VARIABLE "CRIU_FAULT"
#define BREAKPOINT_WITHOUT  "130"

/* Tries one, on a child. False: it was set, and did not fire. */
bool breakpoint_fires(void);

#endif
