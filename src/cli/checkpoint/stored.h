/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tenant whose content is in an image while its processes are suspended without it, during a
 * checkpoint or a restore. A note in the tenant's directory names the image: its id, since another
 * image may be put in its place, and its directory. The note is a symbolic link, which is made
 * whole or not at all. It exists from before the first process gives its content away until all
 * have it again. So `allot resume` can continue after a command was killed in between.
 *
 * On AMD GPUs content stays in place, and CRIU's plugin reads it there. The note then says that
 * CRIU may have stopped processes, or that they are about to come back.
 */
#ifndef ALLOT_CLI_CHECKPOINT_STORED_H
#define ALLOT_CLI_CHECKPOINT_STORED_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/tenant/moving.h"

/* 0 or -errno. */
int stored_note(const char *tenant_dir, const uint8_t image_id[static 16], const char *image_dir);
void stored_forget(const char *tenant_dir);
bool stored_is(const struct moving *moving);

/*
 * To SWAP_BARE, with all content in the processes, or, where none of it has moved, to SWAP_RUN. 0 also
 * where it never left them; or an exit status after a message.
 */
int stored_return(struct moving *moving);

#endif
