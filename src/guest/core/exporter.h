/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lends memory that can leave to other processes of the tenant. Mapped physical memory has no
 * legacy IPC handle, and a descriptor of it, or a dma-buf, would hold it on the device for as
 * long as somebody has one. So what goes around is a name (share_name.h), and who has that asks
 * this process for a descriptor, by a socket, whenever it needs one: to open the memory, and when
 * it comes back.
 *
 *	importer	connect, send the name ──── (waits while it is away) ──── map
 *	exporter	          poll ── is it there? ── descriptor, close
 *
 * One thread of ours answers, from the first name on. It has no connection open but those that
 * wait, and none of them can keep it from the others. Whoever connects is not trusted.
 */
#ifndef ALLOT_GUEST_CORE_EXPORTER_H
#define ALLOT_GUEST_CORE_EXPORTER_H

#include "guest/core/guest.h"
#include "guest/core/share_name.h"

/* What a vendor's part knows of its memory. The thread calls these. */
struct exporter_kind {
	uint64_t magic; /* of its names */
	/* Whether the process has what is named. */
	bool (*knows)(struct guest *guest, const struct share_name *name);
	/*
	 * A descriptor of the driver's, which is closed then. -EAGAIN: it is away; or another
	 * error.
	 */
	int (*descriptor)(struct guest *guest, const struct share_name *name, int *ret_fd);
};

/*
 * The process answers for names of the kind from here on, and *ret is one of nothing yet: object,
 * id and size are the caller's. False: there is no thread to be had.
 */
bool exporter_offer(struct guest *guest, const struct exporter_kind *kind, struct share_name *ret);

/* What tells the tenant from others; 0: not known. */
uint64_t exporter_tenant(const struct guest *guest);

/*
 * Of memory of this tenant's, by the number that it has, or had when the process began: one that
 * came back from an image has another.
 */
bool exporter_is_tenants(const struct guest *guest, const struct share_name *name);
bool exporter_is_own(struct guest *guest, const struct share_name *name);
/* Whether it names what this process still has. */
bool exporter_knows(struct guest *guest, const struct share_name *name);

/* --- For who moves it ----------------------------------------------------------------------- */

#define SHARE_ALL 0 /* in place of a magic */

/*
 * By that request all of the kind is there, with its content, what had left too: who waits
 * because of it gets it. Who asks before that waits, since what is there may be on its way out.
 */
void exporter_is_back(struct guest *guest, uint64_t magic, uint32_t request);
/* All content is in host memory, so that importers may let go of it. */
void exporter_has_copied(struct guest *guest, uint64_t magic);
/* What the request asks for cannot be done, so nobody is to wait for it. */
void exporter_gives_up(struct guest *guest, uint32_t request);

#endif
