/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What left a tenant's processes, from their host memory into an image, and back to where it was.
 * The processes say where it is (struct swap_list), and are not believed: what they name is read
 * from them, and written to them, and to nobody else.
 */
#ifndef ALLOT_CLI_CHECKPOINT_CONTENT_H
#define ALLOT_CLI_CHECKPOINT_CONTENT_H

#include "cli/tenant/pids.h"
#include "image/image.h"

/* Whose memory it is: what the image's manifest says. 0, or an exit status after a message. */
int content_describe(const struct moving *moving, const struct pids *pids, struct manifest *ret);

/* What a description has of AMD's devices beside: where the program and CRIU's plugin know them to be. */
#define CONTENT_NODE   "node"
#define CONTENT_RENDER "render_minor"

/* All of it, once. After SWAP_BARE. -errno where the image could not be written. */
int content_save(const struct moving *moving, const struct pids *pids, struct image_draft *draft,
		 const struct manifest *manifest);

/* While SWAP_GIVEN. Of processes that have ended nothing is put anywhere. */
int content_put_back(const struct moving *moving, const struct pids *pids, struct image *image);

#endif
