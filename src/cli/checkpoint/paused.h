/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues on AMD GPUs that stand still: CRIU's plugin has a process's driver stop them, and lets them go
 * on when the dump is over. One that was killed has not, and nobody else would.
 */
#ifndef ALLOT_CLI_CHECKPOINT_PAUSED_H
#define ALLOT_CLI_CHECKPOINT_PAUSED_H

#include "cli/checkpoint/tree.h"

/* Has those of all its processes go on, where they do not. While no CRIU is at work. */
void paused_let_go(const struct tree *tree);

#endif
