/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tenant's use of a device's time: one block a device, written by all of its processes. Every
 * word stands for itself and is changed by one atomic instruction, so a process that is killed
 * between two of them leaves nothing to repair: at worst one interval of work is not billed. A
 * demand is an instant, not a count, and expires by itself.
 *
 * Instants are CLOCK_MONOTONIC, which all processes of a machine share.
 */
#ifndef ALLOT_LEDGER_DEVICE_TIME_H
#define ALLOT_LEDGER_DEVICE_TIME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/now.h"
#include "ledger/records.h"

/* No instant of a demand or of work lies that far ahead, unless it is damaged. */
#define DEVICE_TIME_AHEAD_NS (600 * NS_PER_S)

struct ledger;
struct slot;

/*
 * The energy that the device took for the tenant. allotd alone adds to it, with the power that this is
 * of now; a tenant's processes know nothing of it.
 */
void device_time_add_energy(struct ledger *ledger, int device, uint64_t uj, uint32_t milliwatt,
			    uint64_t now_ns);
#define DEVICE_TIME_NO_POWER UINT32_MAX
struct device_time_energy {
	uint64_t uj;	    /* from the tenant's beginning on, while an allotd was there */
	uint32_t milliwatt; /* DEVICE_TIME_NO_POWER where it was not said lately */
};
struct device_time_energy device_time_energy(const struct ledger *ledger, int device,
					     uint64_t now_ns);

/*
 * Returns for how much of the time in between the device worked for the tenant, by its timeline, which
 * has the last 3 s. Work is there when its end was measured. 0 before ledger_allocate.
 */
uint64_t device_time_busy_ns(const struct ledger *ledger, int device, uint64_t from_ns,
			     uint64_t to_ns);

/* The block of a device that ledger_device answered; NULL for another. Lives as the ledger does. */
struct device_time *device_time_of(struct ledger *ledger, int device);

/*
 * For launches so long that one of each process at once would be paid for in one long pause: a few
 * go at a time, those with a place. Returns the place, or -EBUSY while others have all of them. A
 * process that dies with a place keeps it no longer than `until_ns`.
 */
int device_time_take_place(struct device_time *time, uint64_t now_ns, uint64_t until_ns);

/* A place that was taken until then, and may by now be another's. */
void device_time_give_place(struct device_time *time, int place, uint64_t until_ns);

/* A launch for the device is held, all the time since then, and probably until the last instant. */
void device_time_hold(struct device_time *time, uint64_t since_ns, uint64_t now_ns,
		      uint64_t until_ns);

/* It is awake: it was held until now, which may be sooner or later than that. */
void device_time_hold_end(struct device_time *time, uint64_t now_ns);

/*
 * For how long of the time in between launches for the device were held, and not any more at the
 * end: work on another one that waited for them is done after that. The ledger has the last
 * DEVICE_TIME_HELD times of each device.
 */
uint64_t device_time_held(const struct device_time *time, uint64_t from_ns, uint64_t to_ns);

/*
 * Work on the device takes far longer than was expected of it, so it may wait for a launch of the
 * tenant that is held: until then, or until it is said again.
 */
void device_time_say_late(struct device_time *time, uint64_t now_ns, uint64_t until_ns);

/* That is over; later reports of others stay. */
void device_time_say_not_late(struct device_time *time, uint64_t until_ns);

/* For how long that has been so on any device of the tenant; 0: it is not. */
uint64_t device_time_late_ns(struct ledger *ledger, uint64_t now_ns);

/* When a launch for any device was last let go that was held. An instant far ahead is damage. */
uint64_t device_time_gave_way_ns(struct ledger *ledger, uint64_t now_ns);

/* True if another device worked for the tenant of late: work here may wait for work there. */
bool device_time_beside(struct ledger *ledger, int device, uint64_t now_ns);

/* A unit of work of that length was done, which others would have had to wait for. */
void device_time_note_unit(struct ledger *ledger, int device, uint64_t now_ns, uint64_t unit_ns);

/* The longest of late, see sched/longest.h; 0: none is known. */
uint64_t device_time_unit_ns(const struct ledger *ledger, int device);

/*
 * This process launches on the device or waits to, and counts as active until then, some
 * milliseconds ahead. To be repeated while that is so; a process that dies is not counted after the
 * instant.
 */
void device_time_set_active(struct slot *slot, int device, uint64_t until_ns);

/* How many processes of the tenant do, at least 1. */
unsigned int device_time_active(struct ledger *ledger, int device, uint64_t now_ns);

/*
 * The device worked for the tenant from one instant to the other: puts it on the timeline of a
 * device that has one (ledger_device), and the new part into busy_ns. Returns that part: work that
 * overlaps, in other streams or processes, counts once, in any order of reports.
 */
uint64_t device_time_bill(struct ledger *ledger, int device, uint64_t from_ns, uint64_t to_ns);

/*
 * Bills work whose end was not measured. Returns the ns that are billed, also in unmeasured_ns: at
 * most DEVICE_TIME_UNMEASURED_NS.
 */
#define DEVICE_TIME_UNMEASURED_NS NS_PER_MS
uint64_t device_time_bill_unmeasured(struct ledger *ledger, int device, uint64_t from_ns,
				     uint64_t to_ns);

/*
 * Where work has one account of its own, which is billed in order: the part that begins after
 * *covered_ns, up to which time is billed. Answers 0, or its length and its beginning.
 */
uint64_t device_time_cover(uint64_t *covered_ns, uint64_t from_ns, uint64_t to_ns,
			   uint64_t *ret_from_ns);

/* Adds to busy_ns, and notes where a second began. */
void device_time_add_busy(struct device_time *time, uint64_t now_ns, uint64_t busy_ns);

/*
 * The part of the device's time, in hundredths of a percent, that the tenant had over the last
 * `seconds` whole seconds (1 to 60). Pure; any bytes may stand in the block: at most 10000.
 */
uint32_t device_time_achieved(const struct device_time *time, uint64_t now_ns,
			      unsigned int seconds);

/*
 * The same for each second by itself, the oldest first. Work is billed at its end: work that does
 * not fit into that second counts for those before. Pure, likewise.
 */
void device_time_history(const struct device_time *time, uint64_t now_ns, unsigned int seconds,
			 uint32_t *ret);

#endif
