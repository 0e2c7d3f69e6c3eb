/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The set of devices that map an object, for a driver that maps device by device and may fail at
 * any of them. Pure: the caller gives the driver as a function.
 *
 * KFD's ioctl takes a list of devices, and how many of them are done. It continues from there, and
 * reports its progress even when it fails. A caller that ignores this has another set than the
 * kernel, and can never free the object. So each answer's progress is recorded. A call that was
 * interrupted, or is to be tried again, continues from there. A mapping that fails is undone.
 */
#ifndef ALLOT_PEER_MAPPING_H
#define ALLOT_PEER_MAPPING_H

#include <stdbool.h>
#include <stdint.h>

#define MAPPING_DEVICES 64

/*
 * How often to try one device. A signal may interrupt each try; a device that is busy
 * MAPPING_AGAIN_MOST times stays busy.
 */
#define MAPPING_INTERRUPTED_MOST 4096
#define MAPPING_AGAIN_MOST	 32
#define MAPPING_WAIT_MOST_US	 1024

struct mapping_call {
	bool unmap;
	const uint32_t *devices;
	uint32_t n;
	uint32_t done;	  /* of them, from the first on */
	uint32_t wait_us; /* before it */
};

/*
 * Asks the driver once. 0, or -errno. *ret_done is call->done on entry; on an error the function
 * sets it to how many of `devices` are done now, if the driver tells.
 */
typedef int mapping_fn(void *context, const struct mapping_call *call, uint32_t *ret_done);

/*
 * A set as a list: `first`, if it is in it, then the others by number. Answers how many there are.
 */
uint32_t mapping_list(uint64_t set, uint32_t first, uint32_t ret_list[MAPPING_DEVICES]);

/*
 * Maps an object to devices that do not map it, or unmaps it from devices that do, in the order of
 * the list, which has no number twice. *devices is at every moment the set of devices that map it,
 * by the driver's answers.
 *
 * 0: all done. After -errno of a mapping *devices is as before, unless undoing it failed, too.
 * After that of an unmapping the set shows the progress.
 */
int mapping_run(uint64_t *devices, bool unmap, const uint32_t *list, uint32_t n, mapping_fn *call,
		void *context);

#endif
