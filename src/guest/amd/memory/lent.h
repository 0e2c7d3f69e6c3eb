/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that goes from process to process of a swappable tenant. A dma-buf would hold it on the
 * GPU while anybody has one. So programs get a token in its place (lend/token.h), of the memory's
 * size. An importer asks the exporter for a dma-buf (lend/borrow.h), imports it and closes it, and
 * again whenever the memory comes back. So only handles hold it, and all of them are known.
 */
#ifndef ALLOT_GUEST_AMD_MEMORY_LENT_H
#define ALLOT_GUEST_AMD_MEMORY_LENT_H

#include "guest/amd/call.h"
#include "guest/core/object.h"
#include "guest/lend/share_name.h"

/*
 * The name of memory that has a handle, by which others import it. False: the kernel's dma-buf
 * has to do, as of the machine's memory, or where no thread answers.
 */
bool amd_lent_name(struct amd_call *call, const struct object *object, struct share_name *ret);

/* True if a descriptor is a token of this tenant's. */
bool amd_lent_is(struct guest *guest, int fd, struct share_name *ret);

/* In a program's call: a dma-buf of what is named, or -EINVAL: there is no such memory any more. */
int amd_lent_fetch(struct guest *guest, const struct share_name *name);

/*
 * A handle that the program is about to get holds what is named; no handle here does so any more.
 */
void amd_lent_borrow(struct guest *guest, const struct share_name *name, struct object *object);
void amd_lent_give_back(struct guest *guest, const struct object *object);

/* --- For who moves it ----------------------------------------------------------------------- */

/* How much of what is borrowed would not come back: nobody who lends it lives, or has it. */
uint64_t amd_lent_lost(struct guest *guest);

/* True if anything is borrowed. */
bool amd_lent_any(struct guest *guest);

/*
 * Waits until all who lend have copied it: before that nothing is let go of. Errors of borrow, as
 * of the next.
 */
int amd_lent_await_copies(struct guest *guest);

/* Returns a dma-buf for a borrowed handle, once the lender has the memory on the GPU again. */
int amd_lent_fetch_again(struct guest *guest, uint64_t borrowed);

#endif
