/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An image of a tenant's memory: two files in a directory, which may hold others.
 *
 *	manifest.json	the owner of the memory (manifest.h)
 *	objects		the memory itself (format.h)
 *
 * An image exists as a whole or not at all: both files are written under names that end in
 * .partial, flushed to the disk, and renamed, the manifest last. A killed writer leaves partial
 * files, which the next one overwrites. Images are written and read by the command, never within a
 * tenant.
 */
#ifndef ALLOT_IMAGE_IMAGE_H
#define ALLOT_IMAGE_IMAGE_H

#include <stdbool.h>

#include "image/damage.h"
#include "image/manifest.h"
#include "image/object_reader.h"
#include "image/object_writer.h"

#define IMAGE_MANIFEST "manifest.json"
#define IMAGE_OBJECTS  "objects"

struct image_draft;

/*
 * Begins an image in `dir`, which is made (0700) if it is not there. The draft takes a random id
 * for `manifest->id`, and reads the manifest once more when it is committed: until then processes
 * may be added, which objects that are written afterwards may name. `level` as in
 * object_writer_open.
 * -EEXIST where there is an image, -EBUSY where one is being written, -EINVAL, -ENOTSUP, -errno.
 */
int image_create(const char *dir, struct manifest *manifest, int level, struct image_draft **ret);

/* The writer of the objects, until the draft ends. */
struct object_writer *image_writer(struct image_draft *draft);

/*
 * Finishes the image: after 0 it survives a crash of the machine. Ends the draft in any case;
 * -errno leaves no image.
 */
int image_commit(struct image_draft *draft);
void image_abort(struct image_draft *draft); /* takes NULL */

struct image;

/*
 * Opens an image: reads the manifest and looks at the last record, so that one which was never
 * finished, or belongs to another manifest, is refused at once. Content is checked as it is read.
 * With `guarded`, -EPERM if another user could have written the directory or one of the two files.
 * -ENOENT where there is none, -errno, or as in manifest.h and object_reader.h.
 */
int image_open(const char *dir, bool guarded, struct image **ret, struct damage *damage);
void image_close(struct image *image); /* takes NULL */

const struct manifest *image_manifest(const struct image *image);
struct object_reader *image_reader(struct image *image); /* at the first object */

/*
 * Reads all of it, and so checks each byte; calls `tell` (may be NULL) for each object with how
 * many bytes of content it has that are not zero. The reader is at its end then.
 */
typedef void image_tell_fn(const struct object *object, uint64_t content_bytes, void *arg);
int image_verify(struct image *image, image_tell_fn *tell, void *arg, struct damage *damage);

#endif
