/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/audit/audit.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/now.h"
#include "daemon/audit/driver_pids.h"
#include "daemon/audit/names.h"
#include "daemon/energy/energy.h"
#include "node/apart.h"
#include "node/faults.h"
#include "nvidia/uuid.h"
#include "text/log.h"
#include "text/units.h"

#define LOOK_NS	   NS_PER_S
#define PATIENCE_S 1
#define PROCESSES_HELD 128 /* by a descriptor */
/* How often the ledgers are read even if the drivers' lists have not changed: 80 take 8 ms. */
#define LEDGERS_NS (20 * NS_PER_S)

/* How often devices that have come or gone are looked for; and how often again where a driver fails. */
#define DEVICES_NS    (5 * NS_PER_S)
#define DEVICES_TRIES 12

struct audit {
	char runtime[PATH_MAX];
	enum audit_action action;
	struct inventory *inventory;
	struct energy *energy;
	pthread_t thread;

	/* The thread's own: */
	struct usage_reader *reader; /* NULL: no driver is here */
	struct faults_reader *faults_reader;
	struct faults faults; /* by the last look */
	size_t nsilent;	      /* devices that did not answer that, nor the one before */
	uint8_t silent[POLICY_DEVICES][16];
	uint64_t stamp, stamped_ns;  /* of the devices; when it was last compared */
	int tries;		     /* that are left to read those of this stamp */
	struct usage_list usage; /* by the last look */
	uint64_t compared_ns;	 /* with the ledgers; 0: that failed */
	bool failed;		 /* the last look did, which was said */
	unsigned int held;	 /* processes, for the next look */

	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t ended;
	bool end;
	uint64_t looked_ns; /* when a look succeeded; 0: none did yet */
	size_t n, nlost;
	struct audit_finding *finding;
	uint8_t lost[POLICY_DEVICES][16];
	struct usage_busy busy;
	size_t napart;
	pid_t *apart;
};

/* --- Messages and actions --------------------------------------------------------------------- */

static void audit_say(const struct audit_finding *f, const char *what)
{
	static const char *const words[] = {
		[OUTSIDER_UNLIMITED] = "is in no tenant",
		[OUTSIDER_UNREAD] = ("keeps to a ledger that cannot be read (of another version of "
				     "allot), or has so many mappings that it is not known yet, so it "
				     "is let be"),
		[OUTSIDER_HIDDEN] = "what it keeps to cannot be seen by this user, so it is let be",
		[OUTSIDER_TOOL] = "is a measurement of allot's, so it is let be",
	};
	const struct outsider_process *p = &f->found.process;
	const struct outsider *o = &f->found.outsider;
	char knows[160];

	snprintf(knows, sizeof(knows), "%s", words[o->standing]);
	if (*o->tenant)
		snprintf(knows, sizeof(knows), "its tenant \"%s\" %s %s", o->tenant,
			 o->by_quota ? "has a quota that leaves it" : "knows of",
			 units_bytes(o->ledger_bytes).s);
	log_line(LOG_WARN, "%s: pid %d (%s) of user %s%s%.12s has %s of %s, and %s", what, o->pid,
		 p->command, p->user, *p->container ? ", container " : "", p->container,
		 o->bytes == UINT64_MAX ? "memory" : units_bytes(o->bytes).s,
		 units_uuid(o->uuid).s, knows);
}

/* At the second look, by a descriptor of the first: it is the process that was seen then. */
static void audit_act(const struct audit *audit, struct audit_finding *f)
{
	int sig = audit->action == AUDIT_KILL ? SIGKILL : SIGSTOP;

	if (audit->action == AUDIT_REPORT || f->acted_on || f->pidfd < 0 ||
	    f->found.outsider.standing != OUTSIDER_UNLIMITED || f->found.outsider.spared)
		return;
	f->acted_on = true;
	if (syscall(SYS_pidfd_send_signal, f->pidfd, sig, NULL, 0) < 0)
		log_line(LOG_FAULT, "pid %d cannot be ended: %s; run allotd as root",
			 f->found.outsider.pid, strerror(errno));
	else
		audit_say(f, audit->action == AUDIT_KILL ? "killed" : "stopped");
	close(f->pidfd);
	f->pidfd = -1;
}

/*
 * Opens a pidfd only for a process that is to be ended, and for PROCESSES_HELD at most: users can
 * begin any number of processes, and descriptors are needed elsewhere, too. The next look takes the
 * others.
 */
static int audit_hold(const struct audit *audit, pid_t pid)
{
	if (audit->action == AUDIT_REPORT || audit->held >= PROCESSES_HELD)
		return -1;
	return (int)syscall(SYS_pidfd_open, pid, 0);
}

/* --- Looking --------------------------------------------------------------------------------- */

static bool audit_is_same(const struct outsider *a, const struct outsider *b)
{
	return a->pid == b->pid && !memcmp(a->uuid, b->uuid, sizeof(a->uuid));
}

static struct audit_finding *audit_before(struct audit *audit, const struct outsider *outsider)
{
	for (size_t i = 0; i < audit->n; i++)
		if (audit_is_same(&audit->finding[i].found.outsider, outsider))
			return &audit->finding[i];
	return NULL;
}

/*
 * Takes over the knowledge of the look before. The action needs the same finding in both looks: a
 * process is ended only if it was seen without a limit twice.
 */
static void audit_go_on(struct audit *audit, struct audit_finding *f)
{
	struct audit_finding *before = audit_before(audit, &f->found.outsider);

	f->pidfd = -1;
	if (before) {
		f->pidfd = before->pidfd;
		f->acted_on = before->acted_on;
		before->pidfd = -1;
	}
	if (before && before->found.outsider.standing == f->found.outsider.standing) {
		audit_act(audit, f);
	} else {
		audit_say(f, f->found.outsider.standing == OUTSIDER_UNLIMITED ? "not limited"
									    : "not known");
	}
	if (f->pidfd < 0 && !f->acted_on)
		f->pidfd = audit_hold(audit, f->found.outsider.pid);
	audit->held += f->pidfd >= 0;
}

/* `usage` is NULL in the end. */
static void audit_replace(struct audit *audit, const struct usage_list *usage,
			  struct audit_finding *finding, size_t n)
{
	struct audit_finding *old;
	size_t nold;

	pthread_mutex_lock(&audit->lock);
	old = audit->finding;
	nold = audit->n;
	audit->finding = finding;
	audit->n = n;
	audit->nlost = 0;
	for (; usage && audit->nlost < usage->nlost; audit->nlost++)
		memcpy(audit->lost[audit->nlost], usage->lost[audit->nlost], 16);
	audit->looked_ns = now_monotonic_ns();
	pthread_mutex_unlock(&audit->lock);
	for (size_t i = 0; i < nold; i++)
		if (old[i].pidfd >= 0)
			close(old[i].pidfd);
	free(old);
}

/* The pages ask no drivers, and find the tenants apart by these processes. */
static int audit_note_apart(struct audit *audit, const struct tenants *tenants)
{
	pid_t *apart = calloc(tenants->n + 1, sizeof(*apart)), *old;
	size_t n = 0;

	if (!apart)
		return -ENOMEM;
	for (size_t i = 0; i < tenants->n; i++)
		if (tenants->list[i].apart)
			apart[n++] = tenants->list[i].apart;
	pthread_mutex_lock(&audit->lock);
	old = audit->apart;
	audit->apart = apart;
	audit->napart = n;
	pthread_mutex_unlock(&audit->lock);
	free(old);
	return 0;
}

static int audit_compare(struct audit *audit, const struct usage_list *usage)
{
	struct tenants tenants = {.n = 0};
	struct audit_finding *finding = NULL;
	struct outsider_found *found;
	size_t n;
	int r = usage->n ? tenants_load(audit->runtime, &tenants) : 0;

	if (r < 0)
		return r;
	driver_pids_tell(usage, &tenants);
	r = apart_add_users(&tenants, usage);
	if (!r)
		r = audit_note_apart(audit, &tenants);
	if (!r)
		r = outsiders_list(usage, &tenants, names_find, &found, &n);
	tenants_free(&tenants);
	if (r < 0)
		return r;
	finding = calloc(n + 1, sizeof(*finding));
	audit->held = 0;
	for (size_t i = 0; finding && i < n; i++) {
		finding[i].found = found[i];
		audit_go_on(audit, &finding[i]);
	}
	free(found);
	if (!finding)
		return -ENOMEM;
	audit_replace(audit, usage, finding, n);
	return 0;
}

/*
 * Most of the time nobody takes or gives memory. Then a ledger says less than before only for a
 * library that went wrong, and so is not read each time.
 */
static bool audit_is_settled(const struct audit *audit, const struct usage_list *usage)
{
	return !audit->n && audit->compared_ns &&
	       now_monotonic_ns() < audit->compared_ns + LEDGERS_NS &&
	       usage->n == audit->usage.n && usage->nlost == audit->usage.nlost &&
	       (!usage->n ||
		!memcmp(usage->list, audit->usage.list, usage->n * sizeof(*usage->list)));
}

/* One answer may fail for other reasons: a device is silent that did not answer two looks after each other. */
static void audit_note_silent(struct audit *audit, const struct usage_list *usage)
{
	audit->nsilent = 0;
	for (size_t i = 0; i < usage->nlost; i++)
		if (uuid_is_listed(audit->usage.lost, audit->usage.nlost, usage->lost[i]))
			memcpy(audit->silent[audit->nsilent++], usage->lost[i], 16);
}

/* Drivers first: a process is in its tenant's ledger before it has anything. */
static void audit_look(struct audit *audit)
{
	struct usage_list usage = {.n = 0};
	size_t n = audit->n;
	int r = usage_read(audit->reader, &usage);

	if (!r)
		audit_note_silent(audit, &usage);
	if (!r && audit_is_settled(audit, &usage)) {
		audit_replace(audit, &usage, NULL, 0);
	} else if (!r) {
		r = audit_compare(audit, &usage);
		audit->compared_ns = r ? 0 : now_monotonic_ns();
	}
	if (r < 0 && !audit->failed)
		log_line(LOG_FAULT, "the audit does not see who uses the devices: %s", strerror(-r));
	audit->failed = r < 0;
	if (n || audit->n)
		inventory_tell_look(audit->inventory);
	usage_free(&audit->usage);
	audit->usage = usage;
}

/* After a look: the findings include devices that do not answer. */
static void audit_look_for_faults(struct audit *audit)
{
	struct faults faults;

	faults_read(audit->faults_reader, audit->silent, audit->nsilent, &faults);
	if (!memcmp(&faults, &audit->faults, sizeof(faults)))
		return;
	audit->faults = faults;
	inventory_offer_faults(audit->inventory, &faults);
}

/*
 * NVML lists the devices of its opening, so it is opened again. A driver that fails is asked again
 * later, and its old devices stay known until then.
 */
static void audit_read_devices(struct audit *audit)
{
	struct devices devices;

	usage_close(audit->reader);
	faults_rest(audit->faults_reader);
	energy_close_driver(audit->energy);
	audit->reader = NULL;
	audit->tries--;
	devices_read(&devices);
	if (usage_open(&audit->reader) < 0)
		audit->reader = NULL;
	faults_renew(audit->faults_reader);
	if (!devices.n)
		return;
	audit->tries = 0;
	devices_read_links(&devices);
	inventory_offer(audit->inventory, &devices);
}

static void audit_look_for_devices(struct audit *audit)
{
	uint64_t now_ns = now_monotonic_ns(), stamp;

	if (now_ns < audit->stamped_ns + DEVICES_NS)
		return;
	audit->stamped_ns = now_ns;
	stamp = devices_stamp();
	if (stamp != audit->stamp || (audit->reader && !usage_is_current(audit->reader)))
		audit->tries = DEVICES_TRIES;
	audit->stamp = stamp;
	if (audit->tries > 0)
		audit_read_devices(audit);
}

static void audit_look_how_busy(struct audit *audit)
{
	struct usage_busy busy;

	usage_read_busy(audit->reader, &busy);
	pthread_mutex_lock(&audit->lock);
	audit->busy = busy;
	pthread_mutex_unlock(&audit->lock);
}

static bool audit_sleep(struct audit *audit, uint64_t until_ns)
{
	struct timespec until = {.tv_sec = (time_t)(until_ns / NS_PER_S),
				 .tv_nsec = (long)(until_ns % NS_PER_S)};
	bool end;

	pthread_mutex_lock(&audit->lock);
	while (!audit->end && !pthread_cond_timedwait(&audit->ended, &audit->lock, &until))
		;
	end = audit->end;
	pthread_mutex_unlock(&audit->lock);
	return !end;
}

static void *audit_watch(void *arg)
{
	struct audit *audit = arg;

	do {
		audit_look_for_devices(audit);
		if (audit->reader)
			audit_look(audit);
		if (audit->reader)
			audit_look_for_faults(audit);
		if (audit->reader)
			audit_look_how_busy(audit);
		if (audit->reader)
			energy_step(audit->energy);
	} while (audit_sleep(audit, now_monotonic_ns() + (audit->reader ? LOOK_NS : DEVICES_NS)));
	return NULL;
}

/* --- Its beginning and end ------------------------------------------------------------------- */

int audit_start(const char *runtime, enum audit_action action, uint64_t stamp,
		struct inventory *inventory, struct energy *energy, struct audit **ret)
{
	struct audit *audit = calloc(1, sizeof(*audit));
	pthread_condattr_t clock;
	int r = audit ? faults_open(&audit->faults_reader) : -ENOMEM;

	if (!r)
		r = usage_open(&audit->reader);
	if (r < 0 && r != -ENODEV) {
		inventory_close(inventory);
		if (audit)
			faults_close(audit->faults_reader);
		free(audit);
		return r;
	}
	snprintf(audit->runtime, sizeof(audit->runtime), "%s", runtime);
	audit->action = action;
	audit->inventory = inventory;
	audit->energy = energy;
	audit->stamp = stamp;
	audit->stamped_ns = now_monotonic_ns();
	pthread_mutex_init(&audit->lock, NULL);
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&audit->ended, &clock);
	r = -pthread_create(&audit->thread, NULL, audit_watch, audit);
	if (r < 0) {
		inventory_close(inventory);
		usage_close(audit->reader);
		faults_close(audit->faults_reader);
		free(audit);
		return r;
	}
	*ret = audit;
	return 0;
}

void audit_end(struct audit *audit)
{
	struct timespec until;

	if (!audit)
		return;
	pthread_mutex_lock(&audit->lock);
	audit->end = true;
	pthread_cond_signal(&audit->ended);
	pthread_mutex_unlock(&audit->lock);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += PATIENCE_S;
	/* A driver that blocks is not waited for: the process ends, and the thread with it. */
	if (pthread_timedjoin_np(audit->thread, NULL, &until))
		return;
	audit_replace(audit, NULL, NULL, 0);
	free(audit->apart);
	usage_free(&audit->usage);
	usage_close(audit->reader);
	faults_close(audit->faults_reader);
	inventory_close(audit->inventory);
	free(audit);
}

int audit_report(struct audit *audit, struct audit_report *ret)
{
	struct audit_report report = {.age_ns = UINT64_MAX};
	int r = 0;

	pthread_mutex_lock(&audit->lock);
	if (audit->looked_ns)
		report.age_ns = now_monotonic_ns() - audit->looked_ns;
	report.finding = calloc(audit->n + 1, sizeof(*report.finding));
	report.apart = calloc(audit->napart + 1, sizeof(*report.apart));
	if (!report.finding || !report.apart)
		r = -ENOMEM;
	for (; !r && report.napart < audit->napart; report.napart++)
		report.apart[report.napart] = audit->apart[report.napart];
	for (; !r && report.n < audit->n; report.n++)
		report.finding[report.n] = audit->finding[report.n];
	report.nlost = audit->nlost;
	memcpy(report.lost, audit->lost, sizeof(report.lost));
	report.busy = audit->busy;
	pthread_mutex_unlock(&audit->lock);
	*ret = report;
	return r;
}

bool audit_is_lost(const struct audit_report *report, const uint8_t uuid[static 16])
{
	return uuid_is_listed(report->lost, report->nlost, uuid);
}

bool audit_busy_percent(const struct audit_report *report, const uint8_t uuid[static 16],
			uint32_t *ret)
{
	for (size_t i = 0; i < report->busy.n; i++)
		if (!memcmp(report->busy.list[i].uuid, uuid, sizeof(report->busy.list[i].uuid))) {
			*ret = report->busy.list[i].percent;
			return true;
		}
	return false;
}

uint64_t audit_outside_bytes(const struct audit_report *report, const uint8_t uuid[static 16])
{
	uint64_t sum = 0;

	for (size_t i = 0; i < report->n; i++) {
		const struct outsider *o = &report->finding[i].found.outsider;

		if (o->bytes != UINT64_MAX && o->bytes > o->ledger_bytes &&
		    !memcmp(o->uuid, uuid, sizeof(o->uuid)))
			sum += o->bytes - o->ledger_bytes;
	}
	return sum;
}

void audit_report_free(struct audit_report *report)
{
	free(report->finding);
	free(report->apart);
	*report = (struct audit_report){.n = 0};
}
