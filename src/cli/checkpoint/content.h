/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies a suspended tenant's content from its processes' host memory into an image, and back to
 * where it was. The processes give the addresses (struct swap_list), which are not trusted: each
 * process's addresses are read and written in that process alone.
 */
#ifndef ALLOT_CLI_CHECKPOINT_CONTENT_H
#define ALLOT_CLI_CHECKPOINT_CONTENT_H

#include "cli/tenant/pids.h"
#include "image/image.h"

/*
 * Describes the owner of the memory for the image's manifest. 0, or an exit status after a message.
 */
int content_describe(const struct moving *moving, const struct pids *pids, struct manifest *ret);

/* Further keys of AMD's devices: where the program and CRIU's plugin know them to be. */
#define CONTENT_NODE   "node"
#define CONTENT_RENDER "render_minor"

/* All of it, once. After SWAP_BARE. -errno where the image could not be written. */
int content_save(const struct moving *moving, const struct pids *pids, struct image_draft *draft,
		 const struct manifest *manifest);

/* While SWAP_GIVEN. Of processes that have ended nothing is put anywhere. */
int content_put_back(const struct moving *moving, const struct pids *pids, struct image *image);

#endif
