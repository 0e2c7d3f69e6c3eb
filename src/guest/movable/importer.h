/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of other processes of the tenant, by names (share_name.h). A piece is imported once,
 * whatever names of allocations in it are opened, and how often. It is a piece of our own
 * reservation, so it leaves and comes back at the same address; its content is the exporter's affair.
 */
#ifndef ALLOT_GUEST_MOVABLE_IMPORTER_H
#define ALLOT_GUEST_MOVABLE_IMPORTER_H

#include "guest/core/guest.h"
#include "guest/core/object.h"
#include "guest/lend/share_name.h"

/* Whether the bytes are a name, of whichever tenant. */
bool importer_knows(const void *bytes, struct share_name *ret);

/*
 * One user more of a piece: answers where it is, by OBJECT_IMPORT's key and `ret_at`. Charged once a
 * tenant. CUDA_ERROR_INVALID_HANDLE: its exporter is gone, has freed it, or is of another tenant;
 * CUDA_ERROR_INVALID_CONTEXT: this process is the exporter.
 */
CUresult importer_open(struct guest *guest, const struct share_name *name, uint64_t *ret_key,
		       CUdeviceptr *ret_at);
/* The name by which a piece was opened, as of an allocation that is all of it. */
bool importer_name(struct guest *guest, uint64_t key, struct share_name *ret);
/* After all work that may use it. */
void importer_close(struct guest *guest, uint64_t key);

/* --- For who moves it, while the gate is shut ------------------------------------------------ */

/* Whether it will come back: who exports it lives, and has it still. */
bool importer_can_leave(struct guest *guest, const struct object *import);

/* Whether anything is imported. */
bool importer_any(struct guest *guest);

/*
 * Waits until all exporters have copied what is imported: not before that is it let go of, so that
 * one that is killed has lost nothing of others. Errors of importer_attach.
 */
int importer_await_copies(struct guest *guest);

/* What the driver keeps is let go of on the way back. */
void importer_detach(struct guest *guest);

/*
 * Asks the exporters anew, and waits for them. What was not let go of is exchanged, or kept where its
 * exporter is gone: nobody runs, so it is what it was. 0; -ESRCH: one is gone, or does not come back;
 * -ECANCELED: nobody asks for it any more; -EIO: the driver refuses. Then a part of it may be back.
 */
int importer_attach(struct guest *guest);

#endif
