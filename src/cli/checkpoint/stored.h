/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tenant whose content is in an image, while its processes are suspended without it: on the way
 * to a disk, and on the way from there. A note in its directory says in which, by its id, since
 * another one may be put where it was, and in which directory: a symbolic link, because that is
 * made whole or not at all. The note is there before the first process gives its content away, and
 * until all have it again, so whoever was killed in between, `allot resume` goes on.
 *
 * On AMD GPUs content stays where it is, and CRIU's plugin takes it from there. There the note says
 * that CRIU may have stopped processes, or that they are about to come back.
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
