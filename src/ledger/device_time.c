/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger/device_time.h"

#include <errno.h>
#include <stdbool.h>

#include "base/now.h"
#include "base/number.h"
#include "base/word.h"
#include "ledger/ledger.h"
#include "ledger/map.h"
#include "sched/longest.h"

/* No work lasts an hour, and none is billed that far ahead: the word is damaged. */
#define ABSURD_NS (3600 * NS_PER_S)

/* When work was done is known no better than this. */
#define MOMENT_NS (500 * NS_PER_US)

/* No process claims to be active for that long: the word is damaged. */
#define ACTIVE_MAX_NS NS_PER_S

/* An entry: which second, cut to 24 bits, above busy microseconds, cut to 40. */
#define BUSY_BITS 40
#define BUSY_MASK ((UINT64_C(1) << BUSY_BITS) - 1)
#define SECOND_MASK (UINT64_MAX >> BUSY_BITS)

struct device_time *device_time_of(struct ledger *ledger, int device)
{
	return (unsigned int)device < LEDGER_DEVICES ? &ledger->map->device_time[device] : NULL;
}

void device_time_hold(struct device_time *time, uint64_t since_ns, uint64_t now_ns,
		      uint64_t until_ns)
{
	uint64_t n = word_read(&time->held_n);
	struct device_time_span *held = &time->held[n % DEVICE_TIME_HELD];
	uint64_t to = word_read(&held->to_ns);

	if (to >= since_ns && to <= now_ns + DEVICE_TIME_AHEAD_NS) {
		word_raise_u64(&held->to_ns, until_ns);
		return;
	}
	/*
	 * An interval that ends before it begins is none, if the writer gets no further than this.
	 */
	held = &time->held[(n + 1) % DEVICE_TIME_HELD];
	word_release(&held->to_ns, 0);
	word_release(&held->from_ns, since_ns);
	word_release(&held->to_ns, until_ns);
	word_swap_if(&time->held_n, n, n + 1);
}

void device_time_hold_end(struct device_time *time, uint64_t now_ns)
{
	uint64_t n = word_read(&time->held_n);

	word_release(&time->held[n % DEVICE_TIME_HELD].to_ns, now_ns);
}

static uint64_t device_time_overlap(const struct device_time_span *held, uint64_t from_ns,
				    uint64_t to_ns)
{
	uint64_t to = word_acquire(&held->to_ns);
	uint64_t from = word_acquire(&held->from_ns);

	if (to > to_ns + MOMENT_NS)
		return 0;
	return sat_sub_u64(min_u64(to, to_ns), max_u64(from, from_ns));
}

uint64_t device_time_held(const struct device_time *time, uint64_t from_ns, uint64_t to_ns)
{
	uint64_t sum = 0;

	for (int k = 0; k < DEVICE_TIME_HELD; k++)
		sum += device_time_overlap(&time->held[k], from_ns, to_ns);
	return sum < to_ns - from_ns ? sum : to_ns - from_ns;
}

void device_time_say_late(struct device_time *time, uint64_t now_ns, uint64_t until_ns)
{
	uint64_t until = word_read(&time->late_until_ns);

	if (until <= now_ns || until > now_ns + DEVICE_TIME_AHEAD_NS) {
		word_release(&time->late_since_ns, now_ns);
		word_release(&time->late_until_ns, until_ns);
	} else {
		word_raise_u64(&time->late_until_ns, until_ns);
	}
}

void device_time_say_not_late(struct device_time *time, uint64_t until_ns)
{
	word_swap_if(&time->late_until_ns, until_ns, 0);
}

/* Work that is late right behind other late work is so no longer than since the end of that. */
static uint64_t device_time_late_for(const struct device_time *time, uint64_t now_ns)
{
	uint64_t since = word_read(&time->late_since_ns), worked = word_read(&time->worked_ns);

	return sat_sub_u64(now_ns, worked <= now_ns ? max_u64(since, worked) : since);
}

uint64_t device_time_late_ns(struct ledger *ledger, uint64_t now_ns)
{
	uint64_t longest = 0;

	for (int i = 0; ledger_knows(ledger, i); i++) {
		const struct device_time *time = &ledger->map->device_time[i];
		uint64_t until = word_acquire(&time->late_until_ns);

		if (until > now_ns && until <= now_ns + DEVICE_TIME_AHEAD_NS)
			longest = max_u64(longest, device_time_late_for(time, now_ns) + 1);
	}
	return longest;
}

uint64_t device_time_gave_way_ns(struct ledger *ledger, uint64_t now_ns)
{
	uint64_t last = 0;

	for (int i = 0; ledger_knows(ledger, i); i++) {
		uint64_t gave = word_read(&ledger->map->device_time[i].gave_way_ns);

		if (gave <= now_ns + DEVICE_TIME_AHEAD_NS)
			last = max_u64(last, gave);
	}
	return last;
}

bool device_time_beside(struct ledger *ledger, int device, uint64_t now_ns)
{
	for (int i = 0; ledger_knows(ledger, i); i++) {
		uint64_t worked = word_read(&ledger->map->device_time[i].worked_ns);

		if (i != device && worked + NS_PER_S > now_ns && worked < now_ns + ABSURD_NS)
			return true;
	}
	return false;
}

void device_time_note_unit(struct ledger *ledger, int device, uint64_t now_ns, uint64_t unit_ns)
{
	uint64_t *word = &ledger->map->header.unit[device], was, is;

	word_raise_u64(&ledger->map->device_time[device].longest_ns, unit_ns);
	do {
		was = word_read(word);
		is = longest_add(was, now_ns, unit_ns);
	} while (is != was && !word_swap_if(word, was, is));
}

/* A library from before this tells the longest of all times alone. */
uint64_t device_time_unit_ns(const struct ledger *ledger, int device)
{
	uint64_t ever_ns = word_read(&ledger->map->device_time[device].longest_ns);
	uint64_t of_late_ns = longest_ns(word_read(&ledger->map->header.unit[device]));

	return of_late_ns ? min_u64(of_late_ns, ever_ns) : ever_ns;
}

/* Power stands above the second in which it was said, cut to 32 bits. */
#define SAID_BITS 32
#define SAID_S	  5

void device_time_add_energy(struct ledger *ledger, int device, uint64_t uj, uint32_t milliwatt,
			    uint64_t now_ns)
{
	uint64_t *energy = &ledger->map->devices[device].energy_uj;

	word_write(energy, word_read(energy) + uj);
	word_write(&ledger->map->header.power[device],
		   (uint64_t)milliwatt << SAID_BITS | (uint32_t)(now_ns / NS_PER_S));
}

struct device_time_energy device_time_energy(const struct ledger *ledger, int device,
					     uint64_t now_ns)
{
	uint64_t said = word_read(&ledger->map->header.power[device]);
	uint32_t age_s = (uint32_t)(now_ns / NS_PER_S) - (uint32_t)said;

	return (struct device_time_energy){
		.uj = word_read(&ledger->map->devices[device].energy_uj),
		.milliwatt = said && age_s <= SAID_S ? (uint32_t)(said >> SAID_BITS)
						    : DEVICE_TIME_NO_POWER};
}

uint64_t device_time_busy_ns(const struct ledger *ledger, int device, uint64_t from_ns, uint64_t to_ns)
{
	return map_ready(ledger, device)
		       ? timeline_busy_ns(&ledger->map->timeline[device], from_ns, to_ns)
		       : 0;
}

int device_time_take_place(struct device_time *time, uint64_t now_ns, uint64_t until_ns)
{
	for (int i = 0; i < DEVICE_TIME_PLACES; i++) {
		uint64_t old = word_read(&time->place_until_ns[i]);

		if ((old <= now_ns || old > now_ns + DEVICE_TIME_AHEAD_NS) &&
		    word_swap_if(&time->place_until_ns[i], old, until_ns))
			return i;
	}
	return -EBUSY;
}

void device_time_give_place(struct device_time *time, int place, uint64_t until_ns)
{
	word_swap_if(&time->place_until_ns[place], until_ns, 0);
}

void device_time_set_active(struct slot *slot, int device, uint64_t until_ns)
{
	if (map_ready(slot->ledger, device))
		word_write(&slot->ledger->map->info[device][slot->index].active_until_ns, until_ns);
}

unsigned int device_time_active(struct ledger *ledger, int device, uint64_t now_ns)
{
	unsigned int n = 0;

	for (unsigned int i = 0; map_ready(ledger, device) && i < map_slot_high(ledger); i++) {
		uint64_t until = word_read(&ledger->map->info[device][i].active_until_ns);

		n += until > now_ns && until < now_ns + ACTIVE_MAX_NS;
	}
	return n ? n : 1;
}

uint64_t device_time_cover(uint64_t *covered_ns, uint64_t from_ns, uint64_t to_ns,
			   uint64_t *ret_from_ns)
{
	uint64_t old, from;

	do {
		old = word_read(covered_ns);
		from = old > from_ns && old < to_ns + ABSURD_NS ? old : from_ns;
		if (to_ns <= from)
			return 0;
	} while (!word_swap_if(covered_ns, old, to_ns));
	*ret_from_ns = from;
	return to_ns - from;
}

static uint64_t device_time_entry_of(uint64_t second, uint64_t busy_ns)
{
	return second << BUSY_BITS | (busy_ns / 1000 & BUSY_MASK);
}

static bool device_time_entry_is(uint64_t entry, uint64_t second)
{
	return entry && entry >> BUSY_BITS == (second & SECOND_MASK);
}

/*
 * The first bill of a second makes its entry, so a second without one is a second in which nothing
 * was billed.
 */
void device_time_add_busy(struct device_time *time, uint64_t now_ns, uint64_t busy_ns)
{
	uint64_t second = now_ns / NS_PER_S;
	uint64_t *entry = &time->second[second % DEVICE_TIME_SECONDS];
	uint64_t old = word_read(entry);

	if (!device_time_entry_is(old, second))
		word_swap_if(entry, old, device_time_entry_of(second, word_read(&time->busy_ns)));
	word_add(&time->busy_ns, busy_ns);
}

/* Nobody reads the instant to the ns, and a damaged one is put right by the next bill. */
static void device_time_note_worked(struct device_time *time, uint64_t to_ns)
{
	uint64_t old = word_read(&time->worked_ns);

	if (old < to_ns || old > to_ns + ABSURD_NS)
		word_write(&time->worked_ns, to_ns);
}

uint64_t device_time_bill(struct ledger *ledger, int device, uint64_t from_ns, uint64_t to_ns)
{
	struct device_time *time = device_time_of(ledger, device);
	uint64_t busy;

	if (!time || !map_ready(ledger, device))
		return 0;
	busy = timeline_add(&ledger->map->timeline[device], from_ns, to_ns);
	device_time_note_worked(time, to_ns);
	if (busy)
		device_time_add_busy(time, to_ns, busy);
	return busy;
}

uint64_t device_time_bill_unmeasured(struct ledger *ledger, int device, uint64_t from_ns,
				     uint64_t to_ns)
{
	uint64_t busy;

	if (to_ns > from_ns + DEVICE_TIME_UNMEASURED_NS)
		to_ns = from_ns + DEVICE_TIME_UNMEASURED_NS;
	busy = device_time_bill(ledger, device, from_ns, to_ns);
	if (busy)
		word_add(&device_time_of(ledger, device)->unmeasured_ns, busy);
	return busy;
}

/* One busy time is before another, or the same; they wrap around. */
static bool device_time_is_earlier(uint64_t us, uint64_t than_us)
{
	return ((than_us - us) & BUSY_MASK) <= BUSY_MASK / 2;
}

/*
 * Busy time in us as the present second began, and as each of the `n` before it did. As of a second
 * in which nothing was billed it is that of the next one. It never falls: an entry that is higher
 * than a later one was made late, for work of a second that was over.
 */
static void device_time_busy_at(const struct device_time *time, uint64_t now_ns, unsigned int n,
				uint64_t ret_us[static DEVICE_TIME_SECONDS])
{
	uint64_t second = now_ns / NS_PER_S, us;

	us = word_read(&time->busy_ns) / 1000 & BUSY_MASK;
	for (unsigned int i = 0; i <= n; i++, second--) {
		uint64_t entry = word_read(&time->second[second % DEVICE_TIME_SECONDS]);

		if (i <= now_ns / NS_PER_S && device_time_entry_is(entry, second) &&
		    device_time_is_earlier(entry & BUSY_MASK, us))
			us = entry & BUSY_MASK;
		ret_us[i] = us;
	}
}

uint32_t device_time_achieved(const struct device_time *time, uint64_t now_ns, unsigned int seconds)
{
	uint64_t us[DEVICE_TIME_SECONDS], share;

	if (!seconds || seconds > DEVICE_TIME_SECONDS - 2)
		return 0;
	device_time_busy_at(time, now_ns, seconds, us);
	share = ((us[0] - us[seconds]) & BUSY_MASK) / (seconds * 100);
	return share > 10000 ? 10000 : (uint32_t)share;
}

void device_time_history(const struct device_time *time, uint64_t now_ns, unsigned int seconds,
			 uint32_t *ret)
{
	uint64_t us[DEVICE_TIME_SECONDS], over = 0, part;

	if (seconds > DEVICE_TIME_SECONDS - 2)
		return;
	device_time_busy_at(time, now_ns, seconds, us);
	for (unsigned int i = 0; i < seconds; i++) {
		part = over + ((us[i] - us[i + 1]) & BUSY_MASK) / 100;
		ret[seconds - 1 - i] = part > 10000 ? 10000 : (uint32_t)part;
		over = part - ret[seconds - 1 - i];
	}
}
