/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stopped queues on AMD GPUs: CRIU's plugin has the driver stop a process's queues, and continues
 * them after the dump. If CRIU was killed, nobody else would continue them.
 */
#ifndef ALLOT_CLI_CHECKPOINT_PAUSED_H
#define ALLOT_CLI_CHECKPOINT_PAUSED_H

#include "cli/checkpoint/tree.h"

/* Continues the stopped queues of all its processes. Only while no CRIU is at work. */
void paused_let_go(const struct tree *tree);

#endif
