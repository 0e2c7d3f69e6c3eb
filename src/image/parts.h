/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of a checkpoint beside the image (image/image.h): CRIU's files, which have no sums of
 * their own, and the tenant's ledger. The file `parts` lists each with its size and CRC-32C, names
 * their image, and ends with a CRC of itself. It is written last, so a directory that has it is
 * complete.
 *
 * CRIU runs as root and does what its files say, so a checkpoint has no entry that another user
 * could have written, no link, and none that `parts` does not list.
 *
 *	allot-checkpoint 1
 *	image <32 hex digits>
 *	dir <the tenant's directory, which processes have mapped by that name>
 *	trees <how many: CRIU's files of the first are in criu/0>
 *	file <8 hex digits> <bytes> <name>
 *	...
 *	end <8 hex digits>
 */
#ifndef ALLOT_IMAGE_PARTS_H
#define ALLOT_IMAGE_PARTS_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include "image/damage.h"

#define PARTS_FILE "parts"
#define PARTS_CRIU "criu"
#define PARTS_LEDGER "ledger"
#define PARTS_MAX_BYTES (16u << 20)
#define PARTS_TREES 256

/* CRIU writes these beside its files, and reads none of them: they are not listed. */
#define PARTS_CRIU_LOG	   "criu.log"
#define PARTS_CRIU_DUMP	   "stats-dump"
#define PARTS_CRIU_RESTORE "stats-restore"

struct parts {
	uint8_t image[16];
	char tenant_dir[PATH_MAX];
	uint32_t ntrees;
};

/*
 * Looks at all files of the checkpoint in `dir`, puts them on the disk, and writes `parts`. 0 or
 * -errno: then there is none.
 */
int parts_write(const char *dir, const struct parts *parts);

/*
 * Checks each entry of the checkpoint, and reads all listed files again. -ENOENT without `parts`,
 * -EPERM for an entry that another user could have written, that is a link or that is not listed,
 * -EBADMSG for a file that was changed, -ENODATA for one that ends too early or is missing,
 * -EPROTONOSUPPORT for a later version.
 */
int parts_verify(const char *dir, struct parts *ret, struct damage *damage);

/* One text: as parts_verify, but for the files that it names, which `look` is called for. */
typedef int parts_look_fn(const char *name, uint64_t bytes, uint32_t crc, void *arg);
int parts_parse(char *text, size_t len, parts_look_fn *look, void *arg, struct parts *ret,
		struct damage *damage);

#endif
