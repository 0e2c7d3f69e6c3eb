/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lends movable memory to other processes of the tenant. Mapped physical memory has no legacy IPC
 * handle, and a descriptor of it, or a dma-buf, would hold it on the device while anybody has one.
 * So processes exchange a name (share_name.h). A process with the name asks this one for a
 * descriptor, by a socket, whenever it needs one: to open the memory, and when the memory comes
 * back.
 *
 *	importer	connect, send the name ──── (waits while it is evicted) ──── map
 *	exporter	          poll ── is it there? ── descriptor, close
 *
 * One thread of ours answers, from the first name on. Only waiting connections stay open, and none
 * of them can keep the thread from the others. The peer is not trusted.
 */
#ifndef ALLOT_GUEST_LEND_EXPORTER_H
#define ALLOT_GUEST_LEND_EXPORTER_H

#include "guest/core/guest.h"
#include "guest/lend/share_name.h"

/* A vendor's functions for its memory. The thread calls these. */
struct exporter_kind {
	uint64_t magic; /* of its names */
	/* True if the process has the named memory. */
	bool (*knows)(struct guest *guest, const struct share_name *name);
	/*
	 * Returns a descriptor of the driver's, which the caller closes. -EAGAIN: it is evicted; or
	 * another error.
	 */
	int (*descriptor)(struct guest *guest, const struct share_name *name, int *ret_fd);
};

/*
 * The process answers for names of the kind from here on, and *ret is one of nothing yet: object,
 * id and size are the caller's. False: there is no thread to be had.
 */
bool exporter_offer(struct guest *guest, const struct exporter_kind *kind, struct share_name *ret);

/* A number that identifies the tenant; 0: not known. */
uint64_t exporter_tenant(const struct guest *guest);

/*
 * Of memory of this tenant's, by the number that it has, or had when the process began: one that
 * came back from an image has another.
 */
bool exporter_is_tenants(const struct guest *guest, const struct share_name *name);
bool exporter_is_own(struct guest *guest, const struct share_name *name);
/* True if it names memory that this process still has. */
bool exporter_knows(struct guest *guest, const struct share_name *name);

/* --- For who moves it ----------------------------------------------------------------------- */

#define SHARE_ALL 0 /* in place of a magic */

/*
 * By that request all memory of the kind is on the device, with its content. Importers that wait
 * because of the request get it. An importer that asks before that waits, since the memory may be
 * about to be evicted.
 */
void exporter_is_back(struct guest *guest, uint64_t magic, uint32_t request);
/* All content is in host memory, so that importers may let go of it. */
void exporter_has_copied(struct guest *guest, uint64_t magic);
/* The request cannot be done, so nobody is to wait for it. */
void exporter_gives_up(struct guest *guest, uint32_t request);

#endif
