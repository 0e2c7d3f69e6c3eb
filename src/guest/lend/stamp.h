/* SPDX-License-Identifier: Apache-2.0 */
/*
 * By which a descriptor of memory is known to its exporter and importer alike. It has no bytes that
 * would tell: every one that the driver exports is the same device file. But a descriptor that travelled
 * still is the exporter's open file description. The exporter stamps that with a lock that many may
 * hold, and the importer reads the lock in /proc. The lock goes with the last descriptor. It tells the
 * exporter's pid, a random number that the exporter drew once, and the object's number, so a later
 * process with the same pid has other stamps.
 */
#ifndef ALLOT_GUEST_LEND_STAMP_H
#define ALLOT_GUEST_LEND_STAMP_H

#include "guest/core/guest.h"
#include "guest/core/object.h"

/*
 * A number for an object, the same for all of its descriptors. No other object of the process ever
 * gets it: a descriptor may be on its way for as long as its receiver likes, and importers may
 * outlive the object. 0: there are no more.
 */
uint32_t stamp_number(struct guest *guest);

/*
 * False: not stamped. Then each importer is charged alone. stamp_put_as puts the stamp that an importer
 * has read (`ret_stamp`, or NULL) on a descriptor that it exports itself; false if that is all zero.
 */
bool stamp_put(struct guest *guest, int fd, uint32_t number, struct shared_key *ret);
bool stamp_put_as(int fd, const struct stamp *stamp);
bool stamp_read(int fd, struct stamp *ret_stamp, struct shared_key *ret);

#endif
