/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/energy/energy.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "base/futex.h"
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

#define STEP_NS NS_PER_S
#define REST_NS (10 * NS_PER_S)
/* Work is on the bill when its end was measured; a longer kernel counts in the samples behind it. */
#define BILLED_NS (300 * NS_PER_MS)
/* The driver keeps samples for 2.4 s. */
#define KEPT_NS (2400 * NS_PER_MS)
#define SAMPLES 256
/* Samples of a tenant's work before it is given energy, and before that is corrected no more. */
#define SETTLED 60
#define FIRM	600
#define BIN_NS (5 * NS_PER_MS)
/* By which part the power at rest changes before it is noted again. */
#define NOTE 0.03
#define MOST_REST_MW 1000000

/* A tenant on a device. */
struct energy_use {
	int row;	   /* in its ledger; -1: not there, or not one of SPLIT_TENANTS */
	int tenant;	   /* the number of the device's split */
	uint64_t busy_ns;  /* of its bill: energy was given for that */
	uint64_t given_uj; /* for what came behind it */
	uint64_t given_ns; /* when that was */
};

struct energy_member {
	struct ledger *ledger;
	struct energy_use use[POLICY_DEVICES]; /* as energy's devices */
};

struct energy_device {
	uint8_t uuid[16];
	unsigned int index; /* NVML's */
	bool used;	    /* by a member */
	bool known;	    /* the counter was read at the last step */
	uint64_t counter_mj, seen_us;
	double noted_watts; /* at rest */
	struct split split;
};

struct energy {
	pthread_t thread;
	uint32_t end; /* a futex */
	struct role role; /* of which it hears who comes */
	struct roster roster;
	struct nvml *nvml; /* NULL while no tenant lives */
	uint64_t now_ns;
	unsigned int ndevices;
	struct energy_device device[POLICY_DEVICES];
	struct energy_member member[ROSTER_TENANTS];
};

/* --- Tenants ---------------------------------------------------------------------------------- */

static uint64_t energy_busy_ns(const struct energy_member *member, const struct energy_use *use)
{
	return word_read(&device_time_of(member->ledger, use->row)->busy_ns);
}

static int energy_find_row(struct ledger *ledger, const uint8_t uuid[static 16])
{
	struct ledger_device_info info;

	for (int row = 0; !ledger_device_info(ledger, row, &info); row++)
		if (!memcmp(info.uuid, uuid, sizeof(info.uuid)))
			return ledger_allocate(ledger, row) < 0 ? -1 : row;
	return -1;
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

static void energy_find_device(struct energy *energy, struct energy_member *member, unsigned int d)
{
	struct energy_use *use = &member->use[d];
	int row = energy_find_row(member->ledger, energy->device[d].uuid);

	if (row < 0)
		return;
	use->tenant = split_enter(&energy->device[d].split);
	if (use->tenant < 0)
		return;
	use->row = row;
	use->busy_ns = energy_given_ns(energy, member, use);
	use->given_ns = energy->now_ns;
}

static void energy_find_devices(struct energy *energy, struct energy_member *member)
{
	for (unsigned int d = 0; d < energy->ndevices; d++) {
		if (member->use[d].row < 0)
			energy_find_device(energy, member, d);
		energy->device[d].used |= member->use[d].row >= 0;
	}
}

static int energy_join(void *arg, int i, const char *dir)
{
	struct energy *energy = arg;
	struct energy_member *member = &energy->member[i];

	memset(member, 0, sizeof(*member));
	for (int d = 0; d < POLICY_DEVICES; d++)
		member->use[d].row = -1;
	return ledger_open(dir, LEDGER_GUEST, &member->ledger);
}

static void energy_give(struct energy *energy, struct energy_member *member, unsigned int d)
{
	struct energy_use *use = &member->use[d];
	struct split *split = &energy->device[d].split;
	uint64_t busy_ns = energy_busy_ns(member, use), ns = energy->now_ns - use->given_ns, uj;

	uj = split_give(split, use->tenant, sat_sub_u64(busy_ns, use->busy_ns), use->given_uj);
	use->given_ns = energy->now_ns;
	use->given_uj += uj;
	/* Until much of a new tenant's work was seen, what it was given is corrected with it. */
	if (split->tenant[use->tenant].seen >= FIRM) {
		use->busy_ns = busy_ns;
		use->given_uj = 0;
	}
	device_time_add_energy(member->ledger, use->row, uj,
			       (uint32_t)min_u64(ns ? uj * NS_PER_MS / ns : 0, UINT32_MAX), energy->now_ns);
}

static bool energy_is_settled(const struct energy *energy, const struct energy_use *use, unsigned int d)
{
	return use->row >= 0 && energy->device[d].split.tenant[use->tenant].seen >= SETTLED;
}

static void energy_leave(void *arg, int i)
{
	struct energy *energy = arg;
	struct energy_member *member = &energy->member[i];

	for (unsigned int d = 0; member->ledger && d < energy->ndevices; d++)
		if (member->use[d].row >= 0) {
			energy_give(energy, member, d);
			split_leave(&energy->device[d].split, member->use[d].tenant);
		}
	ledger_close(member->ledger);
	member->ledger = NULL;
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
	char path[PATH_MAX], text[16];

	if (rest < device->noted_watts * (1 + NOTE) && rest > device->noted_watts * (1 - NOTE))
		return;
	snprintf(text, sizeof(text), "%.0f", rest * 1000);
	unlink(energy_note(energy, device, path));
	if (symlink(text, path) == 0)
		device->noted_watts = rest;
}

/* Their numbers are the driver's for as long as it is open. A device that was known keeps its split. */
static int energy_open_driver(struct energy *energy)
{
	unsigned int n = 0;
	struct nvml_device d;

	if (energy->nvml)
		return 0;
	if (nvml_open(NULL, &energy->nvml) < 0)
		return -ENODEV;
	nvml_device_count(energy->nvml, &n);
	energy->ndevices = 0;
	for (unsigned int i = 0; i < n && energy->ndevices < POLICY_DEVICES; i++) {
		struct energy_device *device = &energy->device[energy->ndevices];

		if (nvml_device_get(energy->nvml, i, &d) < 0)
			continue;
		if (memcmp(device->uuid, d.uuid, sizeof(d.uuid)) != 0) {
			memset(device, 0, sizeof(*device));
			memcpy(device->uuid, d.uuid, sizeof(d.uuid));
			energy_recall_rest(energy, device);
		}
		device->index = i;
		device->known = false;
		energy->ndevices++;
	}
	return 0;
}

static void energy_close_driver(struct energy *energy)
{
	if (!energy->nvml)
		return;
	nvml_close(energy->nvml);
	energy->nvml = NULL;
	roster_leave_all(&energy->roster);
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
		const struct energy_use *use = &member->use[d];

		if (member->ledger && use->row >= 0)
			part[use->tenant] = energy_part(member, use, at_ns);
	}
	split_learn(&energy->device[d].split, watts, part);
}

/* Returns the energy of these samples' time. */
static uint64_t energy_read_samples(struct energy *energy, unsigned int d, uint64_t wall_ns)
{
	struct energy_device *device = &energy->device[d];
	struct nvml_power samples[SAMPLES];
	int n = nvml_device_power(energy->nvml, device->index, device->seen_us, samples, SAMPLES);
	uint64_t uj = 0;

	for (int i = 0; i < n; i++) {
		uint64_t at_ns = samples[i].at_us * NS_PER_US - wall_ns;

		if (i)
			uj += (samples[i].at_us - samples[i - 1].at_us) * samples[i].milliwatt / 1000;
		/* A clock that was set makes samples of another time. */
		if (at_ns + BILLED_NS > energy->now_ns)
			break;
		device->seen_us = samples[i].at_us;
		if (at_ns + KEPT_NS + BILLED_NS > energy->now_ns)
			energy_learn(energy, d, samples[i].milliwatt / 1000.0, at_ns);
	}
	return uj;
}

/* The counter says what the device took; when it is read for the first time, the samples do. */
static bool energy_take_device(struct energy *energy, unsigned int d, uint64_t wall_ns)
{
	struct energy_device *device = &energy->device[d];
	uint64_t mj, sampled_uj;

	if (nvml_device_energy(energy->nvml, device->index, &mj) < 0)
		return false;
	sampled_uj = energy_read_samples(energy, d, wall_ns);
	energy_note_rest(energy, device);
	split_took(&device->split, device->known ? sat_sub_u64(mj, device->counter_mj) * 1000 : sampled_uj);
	device->counter_mj = mj;
	device->known = true;
	for (int i = 0; i < energy->roster.n; i++)
		if (energy->member[i].ledger && energy_is_settled(energy, &energy->member[i].use[d], d))
			energy_give(energy, &energy->member[i], d);
	return true;
}

static bool energy_find_members(struct energy *energy)
{
	bool any = false;

	roster_scan(&energy->roster, &energy->role, energy->now_ns);
	for (int i = 0; i < energy->roster.n; i++)
		any |= roster_has(&energy->roster, i);
	return any;
}

/* Returns true if tenants live. */
static bool energy_step(struct energy *energy)
{
	bool answers = true;
	struct timespec wall;
	uint64_t wall_ns;

	energy->now_ns = now_monotonic_ns();
	clock_gettime(CLOCK_REALTIME, &wall);
	wall_ns = (uint64_t)wall.tv_sec * NS_PER_S + (uint64_t)wall.tv_nsec - energy->now_ns;
	if (!energy_find_members(energy)) {
		energy_close_driver(energy);
		return false;
	}
	if (energy_open_driver(energy) < 0)
		return true;
	for (unsigned int d = 0; d < energy->ndevices; d++)
		energy->device[d].used = false;
	for (int i = 0; i < energy->roster.n; i++)
		if (energy->member[i].ledger)
			energy_find_devices(energy, &energy->member[i]);
	for (unsigned int d = 0; d < energy->ndevices; d++)
		if (energy->device[d].used)
			answers = energy_take_device(energy, d, wall_ns);
		else
			energy->device[d].known = false;
	if (!answers) /* it is another driver by now, or its device is lost */
		energy_close_driver(energy);
	return true;
}

static void *energy_run(void *arg)
{
	struct energy *energy = arg;

	prctl(PR_SET_NAME, "allotd-energy");
	for (;;) {
		uint32_t rung = role_rung(&energy->role);

		if (word_check(&energy->end))
			break;
		if (energy_step(energy))
			futex_wait_until(&energy->end, 0, now_monotonic_ns() + STEP_NS);
		else /* a tenant in a container does not ring */
			role_sleep(&energy->role, rung, now_monotonic_ns() + REST_NS);
	}
	energy->now_ns = now_monotonic_ns();
	energy_close_driver(energy);
	return NULL;
}

int energy_start(const char *runtime, struct energy **ret)
{
	struct energy *energy = calloc(1, sizeof(*energy));
	int r;

	if (!energy)
		return -ENOMEM;
	energy->roster = (struct roster){.job = &energy_job, .arg = energy};
	r = role_watch(&energy->role, &role_file_arbiter, runtime);
	if (!r)
		r = -pthread_create(&energy->thread, NULL, energy_run, energy);
	if (r < 0) {
		free(energy);
		return r;
	}
	*ret = energy;
	return 0;
}

void energy_end(struct energy *energy)
{
	if (!energy)
		return;
	word_publish(&energy->end, 1);
	futex_wake_all(&energy->end);
	role_ring(&energy->role);
	pthread_join(energy->thread, NULL);
	role_close(&energy->role);
	free(energy);
}
