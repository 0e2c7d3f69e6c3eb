/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/energy/energy.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/now.h"
#include "base/number.h"
#include "base/parse.h"
#include "base/word.h"
#include "daemon/energy/split.h"
#include "ledger/device_time.h"
#include "ledger/ledger.h"
#include "ledger/role/role_file.h"
#include "ledger/slot.h"
#include "nvidia/nvml.h"
#include "roles/role.h"
#include "roles/roster.h"
#include "text/units.h"

/* A driver that fails is asked again that much later. */
#define AGAIN_NS (10 * NS_PER_S)
#define PATIENCE_S 1
/* Work is on the bill when its end was measured; a longer kernel counts in the samples behind it. */
#define BILLED_NS (1200 * NS_PER_MS)
/* The driver keeps samples for 2.4 s, and a ledger's timeline has 3.2. */
#define KEPT_NS (2400 * NS_PER_MS)
#define SAMPLES 256
/* Samples of a tenant's work before it is given energy, and before that is corrected no more. */
#define SETTLED 25
#define FIRM	600
#define BIN_NS (5 * NS_PER_MS)
/* The power at rest is noted again when it has changed by this part. */
#define NOTE 0.03
#define MOST_REST_MW 1000000
/* No work takes longer, or is billed later. */
#define LONGEST_NS (60 * NS_PER_S)
/* The clock of the day was set if it moved by more against the other one. */
#define SET_NS (5 * NS_PER_MS)

/* A tenant on a device. */
struct energy_use {
	int row;	   /* in its ledger; -1: not there, or not one of SPLIT_TENANTS */
	int tenant;	   /* the number of the device's split */
	uint64_t busy_ns;  /* of its bill: energy was given for that */
	uint64_t given_uj; /* for what came behind it */
	uint64_t since_ns; /* no work since then, as far as energy was given for it */
	uint64_t last_ns;  /* its bill at the last step */
};

struct energy_member {
	struct ledger *ledger;	/* NULL: there is no such member */
	struct energy_use *use; /* [ndevices]; NULL before the driver was asked */
};

struct energy_device {
	uint8_t uuid[16];
	unsigned int index; /* NVML's */
	bool used;	    /* by a member */
	bool silent;	    /* it tells no energy */
	bool known;	    /* the counter was read at the last step */
	uint64_t counter_mj, seen_us;
	double noted_watts; /* at rest */
	struct split split;
};

struct energy {
	atomic_bool begun, over;
	pthread_mutex_t lock; /* of what follows */
	struct role role; /* of others: comers are counted in its file */
	struct roster roster;
	struct nvml *nvml; /* NULL while no tenant uses a device */
	uint64_t now_ns, stepped_ns;
	uint64_t opened_ns; /* when the driver was last opened, or tried; 0: as often as is wished */
	uint64_t wall_ns; /* of the clock of the day beyond now_ns */
	bool set;	  /* it was set since the last step */
	unsigned int ndevices;
	struct energy_device *device;
	struct energy_member member[ROSTER_TENANTS];
};

/* --- Tenants ---------------------------------------------------------------------------------- */

static uint64_t energy_busy_ns(const struct energy_member *member, const struct energy_use *use)
{
	return word_read(&device_time_of(member->ledger, use->row)->busy_ns);
}

static bool energy_uses(const struct energy_member *member, unsigned int d)
{
	return member->use && member->use[d].row >= 0;
}

/* Work of a tenant from long before it was seen is nobody's, as is that which another allotd saw. */
static uint64_t energy_given_ns(const struct energy *energy, const struct energy_member *member,
				const struct energy_use *use)
{
	uint64_t busy_ns = energy_busy_ns(member, use);
	bool is_new = busy_ns < KEPT_NS &&
		      !device_time_energy(member->ledger, use->row, energy->now_ns).uj;

	return is_new ? 0 : busy_ns;
}

static struct energy_use *energy_new_use(unsigned int ndevices)
{
	struct energy_use *use = calloc(ndevices, sizeof(*use));

	for (unsigned int d = 0; use && d < ndevices; d++)
		use[d].row = -1;
	return use;
}

static void energy_find_device(struct energy *energy, struct energy_member *member, unsigned int d)
{
	struct energy_use *use = &member->use[d];
	int row = ledger_find(member->ledger, energy->device[d].uuid);

	if (row < 0)
		return;
	use->tenant = split_enter(&energy->device[d].split);
	if (use->tenant < 0)
		return;
	use->row = row;
	use->busy_ns = energy_given_ns(energy, member, use);
	use->last_ns = energy_busy_ns(member, use);
	use->since_ns = energy->now_ns - KEPT_NS;
}

static void energy_find_devices(struct energy *energy, struct energy_member *member)
{
	if (!member->use)
		member->use = energy_new_use(energy->ndevices);
	for (unsigned int d = 0; member->use && d < energy->ndevices; d++) {
		if (member->use[d].row < 0)
			energy_find_device(energy, member, d);
		energy->device[d].used |= energy_uses(member, d);
	}
}

static int energy_join(void *arg, int i, const char *dir)
{
	struct energy *energy = arg;
	struct energy_member *member = &energy->member[i];

	*member = (struct energy_member){.ledger = NULL};
	return ledger_open(dir, LEDGER_GUEST, &member->ledger);
}

static void energy_give(struct energy *energy, struct energy_member *member, unsigned int d,
			uint32_t milliwatt)
{
	struct energy_use *use = &member->use[d];
	struct split *split = &energy->device[d].split;
	/* A tenant can write any bill, but works for no longer than there was time. */
	uint64_t ns = min_u64(sat_sub_u64(energy_busy_ns(member, use), use->busy_ns),
			      sat_sub_u64(energy->now_ns, use->since_ns));
	uint64_t uj = split_give(split, use->tenant, ns, use->given_uj);

	use->given_uj += uj;
	/* Until much of a new tenant's work was seen, what it was given is corrected with it. */
	if (split->tenant[use->tenant].seen >= FIRM) {
		use->busy_ns += ns;
		use->since_ns = max_u64(use->since_ns + ns, sat_sub_u64(energy->now_ns, LONGEST_NS));
		use->given_uj = 0;
	}
	device_time_add_energy(member->ledger, use->row, uj, milliwatt, energy->now_ns);
}

/* A new tenant is given nothing before the power of its work is known, or it rests. */
static void energy_step_use(struct energy *energy, struct energy_member *member, unsigned int d)
{
	struct energy_use *use = &member->use[d];
	const struct split_tenant *tenant = &energy->device[d].split.tenant[use->tenant];
	uint64_t busy_ns = energy_busy_ns(member, use), ns = energy->now_ns - energy->stepped_ns;
	uint64_t worked_ns = min_u64(sat_sub_u64(busy_ns, use->last_ns), ns);

	use->last_ns = busy_ns;
	if (!worked_ns || tenant->seen >= SETTLED)
		energy_give(energy, member, d,
			    worked_ns ? (uint32_t)(tenant->watts * 1000 * (double)worked_ns / (double)ns) : 0);
}

static void energy_leave(void *arg, int i)
{
	struct energy *energy = arg;
	struct energy_member *member = &energy->member[i];

	for (unsigned int d = 0; d < energy->ndevices; d++)
		if (energy_uses(member, d)) {
			if (energy->device[d].known)
				energy_give(energy, member, d, DEVICE_TIME_NO_POWER);
			split_leave(&energy->device[d].split, member->use[d].tenant);
		}
	free(member->use);
	ledger_close(member->ledger);
	*member = (struct energy_member){.ledger = NULL};
}

static const struct roster_job energy_job = {
	.lives = slot_any_alive,
	.join = energy_join,
	.leave = energy_leave,
};

/* --- Devices ---------------------------------------------------------------------------------- */

/*
 * The power at rest is noted for the next allotd, which may begin while the device never rests: as the
 * text of a symbolic link, which is there as a whole or not at all.
 */
static const char *energy_note(const struct energy *energy, const struct energy_device *device,
			       char ret[static PATH_MAX])
{
	snprintf(ret, PATH_MAX, "%s/.rest-%s", energy->role.runtime, units_uuid(device->uuid).s);
	return ret;
}

static void energy_recall_rest(const struct energy *energy, struct energy_device *device)
{
	char path[PATH_MAX], text[16] = "";
	uint64_t mw;

	if (readlink(energy_note(energy, device, path), text, sizeof(text) - 1) > 0 &&
	    parse_u64(text, 1, MOST_REST_MW, &mw) == 0)
		device->split.rest_watts = device->noted_watts = (double)mw / 1000;
}

static void energy_note_rest(const struct energy *energy, struct energy_device *device)
{
	double rest = device->split.rest_watts;
	char path[PATH_MAX], made[PATH_MAX + 4], text[16];

	if (!rest || (rest < device->noted_watts * (1 + NOTE) && rest > device->noted_watts * (1 - NOTE)))
		return;
	snprintf(text, sizeof(text), "%.0f", rest * 1000);
	snprintf(made, sizeof(made), "%s.new", energy_note(energy, device, path));
	unlink(made);
	if (symlink(text, made) == 0 && rename(made, path) == 0)
		device->noted_watts = rest;
}

/* With it goes what is known of its devices, and of the tenants' work on them. */
static void energy_forget(struct energy *energy)
{
	roster_leave_all(&energy->roster);
	free(energy->device);
	energy->device = NULL;
	energy->ndevices = 0;
	nvml_close(energy->nvml);
	energy->nvml = NULL;
}

/* Their numbers are the driver's for as long as it is open. */
static int energy_open_driver(struct energy *energy)
{
	unsigned int n = 0;
	struct nvml_device d;

	if (energy->nvml)
		return 0;
	if (energy->opened_ns && energy->now_ns < energy->opened_ns + AGAIN_NS)
		return -ENODEV;
	energy->opened_ns = energy->now_ns;
	if (nvml_open(NULL, &energy->nvml) < 0)
		return -ENODEV;
	nvml_device_count(energy->nvml, &n);
	n = (unsigned int)min_u64(n, POLICY_DEVICES);
	energy->device = calloc(n, sizeof(*energy->device));
	for (unsigned int i = 0; energy->device && i < n; i++) {
		struct energy_device *device = &energy->device[energy->ndevices];

		if (nvml_device_get(energy->nvml, i, &d) < 0)
			continue;
		memcpy(device->uuid, d.uuid, sizeof(d.uuid));
		device->index = i;
		energy_recall_rest(energy, device);
		energy->ndevices++;
	}
	if (energy->ndevices)
		return 0;
	energy_forget(energy);
	return -ENODEV;
}

/* --- A step ----------------------------------------------------------------------------------- */

/*
 * The part of a sample that was work of a tenant. A sample follows what the device draws by 4 ms, and then
 * by a low-pass of 14 ms (an H200, measured); the weights are those of each 5 ms before it.
 */
static double energy_part(const struct energy_member *member, const struct energy_use *use,
			  uint64_t at_ns)
{
	static const double weight[] = {0.070, 0.285, 0.199, 0.139, 0.098, 0.068,
					0.048, 0.033, 0.023, 0.016, 0.011, 0.010};
	double part = 0;

	for (size_t i = 0; i < sizeof(weight) / sizeof(weight[0]); i++, at_ns -= BIN_NS)
		part += weight[i] / (double)BIN_NS *
			(double)device_time_busy_ns(member->ledger, use->row, at_ns - BIN_NS, at_ns);
	return part;
}

static void energy_learn(struct energy *energy, unsigned int d, double watts, uint64_t at_ns)
{
	double part[SPLIT_TENANTS] = {0};

	for (int i = 0; i < energy->roster.n; i++) {
		const struct energy_member *member = &energy->member[i];

		if (energy_uses(member, d))
			part[member->use[d].tenant] = energy_part(member, &member->use[d], at_ns);
	}
	split_learn(&energy->device[d].split, watts, part);
}

/* Returns the energy of these samples' time. */
static uint64_t energy_read_samples(struct energy *energy, unsigned int d)
{
	struct energy_device *device = &energy->device[d];
	struct nvml_power samples[SAMPLES];
	uint64_t uj = 0;
	int n;

	/* A clock that was set back has samples before the last one. */
	if (device->seen_us * NS_PER_US > energy->now_ns + energy->wall_ns)
		device->seen_us = 0;
	n = nvml_device_power(energy->nvml, device->index, device->seen_us, samples, SAMPLES);
	for (int i = 0; i < n; i++) {
		uint64_t at_ns = samples[i].at_us * NS_PER_US - energy->wall_ns;
		uint64_t us = i ? samples[i].at_us - samples[i - 1].at_us : 0;

		if (us < KEPT_NS / NS_PER_US)
			uj += us * samples[i].milliwatt / 1000;
		if (at_ns + BILLED_NS > energy->now_ns)
			continue;
		device->seen_us = samples[i].at_us;
		if (at_ns + KEPT_NS > energy->now_ns && !energy->set)
			energy_learn(energy, d, samples[i].milliwatt / 1000.0, at_ns);
	}
	return uj;
}

/*
 * The counter says how much the device took; when it is read for the first time, the samples do. -ENOTSUP
 * for a device that has none.
 */
static int energy_take_device(struct energy *energy, unsigned int d)
{
	struct energy_device *device = &energy->device[d];
	uint64_t mj, sampled_uj;
	int r = nvml_device_energy(energy->nvml, device->index, &mj);

	if (r < 0)
		return r;
	sampled_uj = energy_read_samples(energy, d);
	energy_note_rest(energy, device);
	split_took(&device->split, device->known ? sat_sub_u64(mj, device->counter_mj) * 1000 : sampled_uj);
	device->counter_mj = mj;
	device->known = true;
	for (int i = 0; i < energy->roster.n; i++)
		if (energy_uses(&energy->member[i], d))
			energy_step_use(energy, &energy->member[i], d);
	return 0;
}

/* Returns true if a member has used a device, of whatever maker. */
static bool energy_find_members(struct energy *energy)
{
	struct ledger_device_info info;
	bool any = false;

	roster_scan(&energy->roster, &energy->role, energy->now_ns);
	for (int i = 0; i < energy->roster.n; i++)
		any |= energy->member[i].ledger && !ledger_device_info(energy->member[i].ledger, 0, &info);
	return any;
}

/*
 * A device that has no counter, or does not answer just after the driver was opened, is left alone. If a
 * device stops answering, it is lost, or another driver's by now.
 */
static void energy_take_all(struct energy *energy)
{
	bool fresh = energy->opened_ns == energy->now_ns;
	int r = 0;

	for (unsigned int d = 0; d < energy->ndevices; d++)
		energy->device[d].used = false;
	for (int i = 0; i < energy->roster.n; i++)
		if (energy->member[i].ledger)
			energy_find_devices(energy, &energy->member[i]);
	for (unsigned int d = 0; d < energy->ndevices; d++) {
		struct energy_device *device = &energy->device[d];
		int one = device->used && !device->silent ? energy_take_device(energy, d) : -ENOTSUP;

		device->silent |= device->used && (one == -ENOTSUP || (one < 0 && fresh));
		device->known &= !one;
		if (one < 0 && !device->silent && device->used)
			r = one;
	}
	if (r < 0)
		energy_forget(energy);
}

static void energy_read_clocks(struct energy *energy)
{
	uint64_t was_ns = energy->wall_ns;

	energy->now_ns = now_monotonic_ns();
	energy->wall_ns = now_ns(CLOCK_REALTIME) - energy->now_ns;
	energy->set = energy->wall_ns - was_ns + SET_NS > 2 * SET_NS;
}

static void energy_step_locked(struct energy *energy)
{
	energy_read_clocks(energy);
	if (energy_find_members(energy)) {
		if (energy_open_driver(energy) == 0)
			energy_take_all(energy);
	} else {
		if (energy->nvml)
			energy_forget(energy);
		energy->opened_ns = 0;
	}
	energy->stepped_ns = energy->now_ns;
}

/* --- Its beginning and end -------------------------------------------------------------------- */

int energy_open(const char *runtime, struct energy **ret)
{
	struct energy *energy = calloc(1, sizeof(*energy));
	int r;

	if (!energy)
		return -ENOMEM;
	pthread_mutex_init(&energy->lock, NULL);
	energy->roster = (struct roster){.job = &energy_job, .arg = energy};
	r = role_watch(&energy->role, &role_file_arbiter, runtime);
	if (r < 0) {
		free(energy);
		return r;
	}
	*ret = energy;
	return 0;
}

void energy_begin(struct energy *energy)
{
	if (energy)
		atomic_store(&energy->begun, true);
}

void energy_step(struct energy *energy)
{
	if (!energy || !atomic_load(&energy->begun))
		return;
	pthread_mutex_lock(&energy->lock);
	if (!atomic_load(&energy->over))
		energy_step_locked(energy);
	pthread_mutex_unlock(&energy->lock);
}

void energy_close_driver(struct energy *energy)
{
	if (!energy)
		return;
	pthread_mutex_lock(&energy->lock);
	if (energy->nvml)
		energy_forget(energy);
	pthread_mutex_unlock(&energy->lock);
}

void energy_end(struct energy *energy)
{
	struct timespec until;

	if (!energy)
		return;
	atomic_store(&energy->over, true);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += PATIENCE_S;
	if (pthread_mutex_timedlock(&energy->lock, &until))
		return;
	energy->now_ns = now_monotonic_ns();
	roster_leave_all(&energy->roster);
	pthread_mutex_unlock(&energy->lock);
}
