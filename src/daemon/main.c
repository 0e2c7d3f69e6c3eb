/* SPDX-License-Identifier: Apache-2.0 */
/*
 * allotd: the daemon of a machine. Limits do not depend on it. It serves metrics, finds processes
 * that use a device without a limit, and decides about turns and about the tenants whose memory is on
 * the devices, in place of a tenant's process. One thread serves, and sleeps without requests; one asks
 * the drivers, which may block, also for the energy that tenants take; two decide.
 */
#include <argp.h>
#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/loop.h"
#include "base/now.h"
#include "control/message.h"
#include "daemon/accrual.h"
#include "daemon/audit/audit.h"
#include "daemon/audit/inventory.h"
#include "daemon/audit/strangers.h"
#include "daemon/cut.h"
#include "daemon/energy/energy.h"
#include "daemon/overcommit.h"
#include "daemon/site/notify.h"
#include "daemon/site/site.h"
#include "daemon/site/site_file.h"
#include "daemon/turns.h"
#include "daemon/users/control.h"
#include "daemon/web/hami.h"
#include "daemon/web/history.h"
#include "daemon/web/http.h"
#include "daemon/web/kube_metrics.h"
#include "daemon/web/listen.h"
#include "daemon/web/metrics.h"
#include "daemon/web/page.h"
#include "daemon/web/put_off.h"
#include "daemon/switch/switch.h"
#include "daemon/web/v1.h"
#include "kube/kube.h"
#include "kube/state/counts.h"
#include "ledger/tenant.h"
#include "node/apart.h"
#include "node/devices.h"
#include "node/journal.h"
#include "node/process/allowance.h"
#include "node/tenants.h"
#include "text/log.h"
#include "text/units.h"

#define LISTEN	  "127.0.0.1:9478"
#define BIG_BYTES (256 << 10) /* of memory */

struct args {
	const char *listen;
	struct listen_address address; /* the same, read */
	struct site_file site;
	bool check;
	enum audit_action outside;
	bool hami;
};

static const struct argp_option options[] = {
	{"listen", 'l', "ADDRESS:PORT", 0, "where pages are served (default " LISTEN ")", 0},
	{"outside", 'o', "report|stop|kill", 0,
	 "what is done to a process that uses a device and is not limited (default report)", 0},
	{"metrics", 'm', "allot|hami", 0,
	 "with hami, also by the names of HAMi and of those like it (default allot)", 0},
	{"config", 'c', "FILE", 0,
	 "what the site gives its users (default " CONTROL_CONFIG ", where that is there)", 0},
	{"check", 'C', NULL, 0, "say what each line of that means, and whether all are right; no more",
	 0},
	{"foreground", 'f', NULL, 0, "stay in the foreground, which it does in any case", 0},
	{0},
};

static error_t main_parse_option(int key, char *arg, struct argp_state *state)
{
	struct args *a = state->input;

	switch (key) {
	case 'l':
		a->listen = arg;
		return 0;
	case 'o':
		if (!strcmp(arg, "report"))
			a->outside = AUDIT_REPORT;
		else if (!strcmp(arg, "stop"))
			a->outside = AUDIT_STOP;
		else if (!strcmp(arg, "kill"))
			a->outside = AUDIT_KILL;
		else
			argp_error(state, "--outside \"%s\": it is report, stop or kill", arg);
		return 0;
	case 'm':
		a->hami = !strcmp(arg, "hami");
		if (!a->hami && strcmp(arg, "allot"))
			argp_error(state, "--metrics \"%s\": it is allot or hami", arg);
		return 0;
	case 'c':
		a->site.path = arg;
		return 0;
	case 'C':
		a->check = a->site.explain = true;
		return 0;
	case 'f':
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp argp = {
	.options = options,
	.parser = main_parse_option,
	.doc = "Serve metrics of this machine's devices and tenants, and look who goes around them.\v"
	       "  allotd --foreground\n"
	       "  curl localhost:9478/metrics\n",
};

struct node {
	char runtime[PATH_MAX];
	struct devices devices;
	struct faults faults; /* of these */
	struct strangers strangers;
	struct faults crowded; /* devices that strangers use */
	uint64_t stamp;	     /* of when they were read at the start */
	struct audit *audit; /* NULL: it could not begin */
	struct turns *turns; /* NULL: tenants decide */
	struct overcommit *overcommit; /* likewise */
	struct history *history;
	struct accrual *accrual; /* NULL: what tenants use is not kept */
	struct energy *energy;	 /* NULL: it cannot be measured */
	char journal[PATH_MAX];
	struct site site;
	struct kube_conf kube_conf; /* as it was at the start */
	struct site_control control; /* likewise */
	struct kube *kube;	    /* NULL: Kubernetes is no matter, or it could not begin */
	char name[HOST_NAME_MAX + 1];
	bool hami;
};

/* Writes a page from the tenants as they are now and the audit's last report, or NULL. */
typedef void main_reader(const struct node *node, struct tenants *tenants,
			 const struct audit_report *audit, FILE *out);

static int main_unreadable(const struct node *node, int r)
{
	log_line(LOG_FAULT, "the runtime directory %s cannot be read: %s", node->runtime, strerror(-r));
	return r;
}

static int main_read(const struct node *node, main_reader *reader, FILE *out)
{
	struct audit_report report = {.n = 0};
	struct tenants tenants;
	int r = tenants_load(node->runtime, &tenants);

	if (r < 0)
		return main_unreadable(node, r);
	if (node->audit)
		r = audit_report(node->audit, &report);
	if (!r)
		r = apart_add(&tenants, report.apart, report.napart);
	if (!r)
		reader(node, &tenants, node->audit ? &report : NULL, out);
	put_off_say(now_monotonic_ns());
	audit_report_free(&report);
	tenants_free(&tenants);
	return r;
}

static void main_read_metrics(const struct node *node, struct tenants *tenants,
			      const struct audit_report *audit, FILE *out)
{
	tenants_find_containers(tenants);
	metrics_write(&node->devices, tenants, audit, out);
	kube_metrics_write(counts_now(), tenants, audit, out);
	if (node->hami)
		hami_write(node->name, &node->devices, tenants, audit, out);
}

static int main_write_metrics(FILE *out, void *arg)
{
	const struct node *node = arg;

	metrics_write_roles(turns_held(node->turns), overcommit_claimed(node->overcommit), out);
	put_off_write(out);
	return main_read(node, main_read_metrics, out);
}

static void main_read_node(const struct node *node, struct tenants *tenants,
			   const struct audit_report *audit, FILE *out)
{
	tenants_find_containers(tenants);
	v1_write_node(&node->devices, tenants, audit, out);
}

static int main_write_node(FILE *out, void *arg)
{
	return main_read(arg, main_read_node, out);
}

static int main_write_history(FILE *out, void *arg)
{
	history_write(((struct node *)arg)->history, now_monotonic_ns(), out);
	return 0;
}

/* Fails, as a status of 500, if what all pages are made of cannot be read. */
static int main_write_health(FILE *out, void *arg)
{
	const struct node *node = arg;

	if (access(node->runtime, R_OK | X_OK) < 0)
		return main_unreadable(node, -errno);
	fputs("ok\n", out);
	return 0;
}

static int main_write_index(FILE *out, void *arg)
{
	v1_write_index(out);
	return 0;
}

static const struct http_page pages[] = {
	{"/", PAGE_TYPE, page_policy, page_write},
	{"/metrics", METRICS_TYPE, NULL, main_write_metrics},
	{"/healthz", "text/plain; charset=utf-8", NULL, main_write_health},
	{"/v1", V1_TYPE, NULL, main_write_index},
	{"/v1/node", V1_TYPE, NULL, main_write_node},
	{"/v1/history", V1_TYPE, NULL, main_write_history},
	{NULL, NULL, NULL, NULL},
};

/* --- History --------------------------------------------------------------------------------- */

struct sampler {
	struct loop_source source;
	const struct node *node;
};

static void main_read_sample(const struct node *node, struct tenants *tenants,
			     const struct audit_report *audit, FILE *out)
{
	history_note(node->history, now_monotonic_ns(), &node->devices, tenants, audit);
	/* Of several daemons the one that decides writes. */
	if (node->accrual && turns_held(node->turns))
		accrual_note(node->accrual, tenants, &node->devices, time(NULL), now_boot_ns());
}

static void main_take_sample(const struct node *node)
{
	/* A reader of the tenants has them open, so they are removed first. */
	if (geteuid() == 0)
		tenants_remove_ended_of(node->runtime, 0);
	main_read(node, main_read_sample, NULL);
}

static void main_sample(struct loop_source *source)
{
	uint64_t late;

	if (read(source->fd, &late, sizeof(late)) == sizeof(late))
		main_take_sample(((struct sampler *)source)->node);
}

/* The first sample is taken at once. */
static int main_start_sampler(struct sampler *sampler, const struct node *node, struct loop *loop)
{
	const struct itimerspec often = {.it_interval = {.tv_sec = HISTORY_STEP_S},
					 .it_value = {.tv_nsec = 1}};
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);

	*sampler = (struct sampler){.source = {.fd = fd, .ready = main_sample}, .node = node};
	if (fd < 0 || timerfd_settime(fd, 0, &often, NULL) < 0)
		return -errno;
	return loop_add(loop, &sampler->source);
}

/* --- Signals --------------------------------------------------------------------------------- */

struct signals {
	struct loop_source source;
	struct loop *loop;
	struct site_file *site;
};

static void main_take_signal(struct loop_source *source)
{
	struct signals *signals = (struct signals *)source;
	struct signalfd_siginfo info;

	if (read(source->fd, &info, sizeof(info)) != sizeof(info))
		return;
	if (info.ssi_signo == SIGHUP)
		site_file_reload(signals->site);
	else
		loop_end(signals->loop);
}

static int main_watch_signals(struct signals *signals, struct loop *loop, struct site_file *site)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	*signals = (struct signals){.source = {.fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK),
					       .ready = main_take_signal},
				    .loop = loop,
				    .site = site};
	return loop_add(loop, &signals->source);
}

/* --- Devices that come later ------------------------------------------------------------------ */

static void main_say_devices(const struct devices *of, const struct devices *others, const char *what)
{
	for (unsigned int i = 0; i < of->n; i++)
		if (!devices_find(others, of->list[i].uuid))
			log_line(LOG_SAY, "device %s (%s) %s", units_uuid(of->list[i].uuid).s,
				 of->list[i].model, what);
}

static void main_take_devices(void *arg, const struct devices *devices)
{
	struct node *node = arg;

	main_say_devices(devices, &node->devices, "has come");
	main_say_devices(&node->devices, devices, "is not there any more");
	node->devices = *devices;
	turns_know(node->turns, devices);
	kube_tell(node->kube, devices);
}

static void main_say_faults(const struct faults *faults, const struct faults *before)
{
	for (unsigned int i = 0; i < faults->n; i++) {
		const char *was = faults_find(before, faults->list[i].uuid);

		if (!was || strcmp(was, faults->list[i].words))
			log_line(LOG_WARN, "device %s is sick: %s", units_uuid(faults->list[i].uuid).s,
				 faults->list[i].words);
	}
	for (unsigned int i = 0; i < before->n; i++)
		if (!faults_find(faults, before->list[i].uuid))
			log_line(LOG_SAY, "device %s is well again", units_uuid(before->list[i].uuid).s);
}

static void main_take_faults(void *arg, const struct faults *faults)
{
	struct node *node = arg;

	main_say_faults(faults, &node->faults);
	node->faults = *faults;
	kube_tell_words(node->kube, NODE_FAULT, faults);
}

static void main_look_for_strangers(void *arg)
{
	struct node *node = arg;
	struct audit_report report = {.n = 0};
	struct faults found;

	if (!node->kube || !node->audit)
		return;
	if (audit_report(node->audit, &report) == 0) {
		strangers_look(&node->strangers, counts_now(), &report, now_monotonic_ns(), &found);
		main_say_faults(&found, &node->crowded);
		node->crowded = found;
		kube_tell_words(node->kube, NODE_STRANGER, &found);
	}
	audit_report_free(&report);
}

/* --- Users' tenants --------------------------------------------------------------------------- */

struct service {
	struct node *node;
	const struct args *args;
	struct loop *loop;
	struct requests requests;
	struct control *control;
	bool failed;
};

/* Users who find no socket would make tenants of their own, without the site's limits. */
static bool main_make_tenants(struct service *s, const char *verb)
{
	const char *runtime = s->node->runtime;
	int r = geteuid() == 0 ? control_open(s->loop, &s->requests, &s->control) : 0;

	if (r == 0)
		return true;
	log_line(LOG_FAULT, "users have no tenants made in %s-users: %s", runtime, strerror(-r));
	if (!site_bounds(&s->node->site))
		return true;
	log_line(LOG_FAULT, "%s would bound nobody: allotd %s", site_file_path(&s->args->site), verb);
	return false;
}

/* A user who wanted a part of a GPU from a node that gives none is to see that at once. */
static bool main_start_kube(struct service *s)
{
	struct node *node = s->node;

	if (!node->kube_conf.ways)
		return true;
	if (kube_open(s->loop, &node->kube_conf, node->runtime, &node->devices, &node->kube) < 0)
		return false;
	kube_tell_words(node->kube, NODE_FAULT, &node->faults);
	return true;
}

static void main_take_over(void *arg)
{
	struct service *s = arg;

	log_line(LOG_SAY, "the other allotd has ended: this allotd decides by now whose turn it is in %s",
		 s->node->runtime);
	energy_begin(s->node->energy);
	s->failed = !main_make_tenants(s, "ends") || !main_start_kube(s);
	if (s->failed)
		loop_end(s->loop);
}

/* If another allotd decides about turns, it also makes the tenants. */
static bool main_start_turns(struct service *s)
{
	struct node *node = s->node;
	int r = turns_start(node->runtime, &node->devices, s->loop, main_take_over, s, &node->turns);

	if (r == 1) {
		log_line(LOG_WARN, "another allotd decides whose turn it is in %s; when it ends, this one "
			 "does", node->runtime);
		return true;
	}
	if (r < 0) {
		log_line(LOG_FAULT, "tenants of %s decide themselves whose turn it is: %s",
			 node->runtime, strerror(-r));
		/* Nor are any made for users. */
		if (geteuid() || !site_bounds(&node->site))
			return true;
		log_line(LOG_FAULT, "%s would bound nobody: allotd does not begin",
			 site_file_path(&s->args->site));
		return false;
	}
	energy_begin(node->energy);
	return main_make_tenants(s, "does not begin") && main_start_kube(s);
}

static void main_start_overcommit(struct node *node)
{
	int r = tenant_make_runtime(node->runtime);

	if (!r)
		r = overcommit_start(node->runtime, &node->overcommit);
	if (r < 0)
		log_line(LOG_FAULT, "tenants of %s decide themselves whose memory is on the devices: %s",
			 node->runtime, strerror(-r));
}

/* Limits and turns do not wait for it. */
static void main_start_switches(const struct node *node, struct loop *loop, struct switches **ret)
{
	struct listen_address address;
	int r;

	if (!*node->control.address)
		return;
	r = listen_parse(node->control.address, &address);
	if (!r)
		r = switch_open(loop, &address, node->runtime, node->control.token, ret);
	if (r < 0)
		log_line(LOG_FAULT, "nobody can switch tenants by HTTP: control = %s: %s",
			 node->control.address, strerror(-r));
	else
		log_line(LOG_SAY, "tenants are suspended and resumed at http://%s/", node->control.address);
}

static void main_open_energy(struct node *node)
{
	int r = tenant_make_runtime(node->runtime);

	if (!r)
		r = energy_open(node->runtime, &node->energy);
	if (r < 0)
		log_line(LOG_WARN, "nobody measures the energy that tenants of %s use: %s", node->runtime,
			 strerror(-r));
}

static void main_start_accrual(struct node *node)
{
	int r = journal_choose(node->runtime, node->site.history, node->journal);

	if (node->site.no_history || r == -ENOENT)
		return;
	if (!r)
		r = journal_make(node->runtime, node->journal);
	if (!r)
		r = accrual_open(node->runtime, node->journal, &node->accrual);
	if (r < 0)
		log_line(LOG_WARN, "what tenants use is not kept for allot report: %s: %s; name another "
			 "folder of root's by history = PATH in %s", node->journal, strerror(-r),
			 CONTROL_CONFIG);
}

/* Until it is told to end. */
static int main_answer(struct node *node, const struct args *a, struct loop *loop)
{
	struct switches *switches = NULL;
	struct http *http = NULL;
	int r = http_open(loop, &a->address, pages, node, &http);

	if (r < 0) {
		log_line(LOG_FAULT, "cannot listen on %s: %s; name another with --listen, like " LISTEN,
			 a->listen, strerror(-r));
		return r;
	}
	log_line(LOG_SAY, "tenants of %s at http://%s/", node->runtime, a->listen);
	main_start_switches(node, loop, &switches);
	notify_send("READY=1");
	r = loop_run(loop);
	notify_send("STOPPING=1");
	switch_close(switches);
	http_close(http);
	return r;
}

static int main_serve(struct node *node, struct args *a, struct loop *loop)
{
	struct service service = {.node = node,
				  .args = a,
				  .loop = loop,
				  .requests = {.runtime = node->runtime,
					       .site = &node->site,
					       .file = &a->site,
					       .devices = &node->devices}};
	const struct inventory_hearer hearer = {main_take_devices, main_take_faults, main_look_for_strangers, node};
	struct inventory *inventory = NULL;
	struct sampler sampler;
	struct signals signals;
	int r = main_watch_signals(&signals, loop, &a->site);

	if (!r)
		r = site_file_watch(&a->site, loop, &node->site);
	if (!r)
		r = inventory_open(loop, &hearer, &inventory);
	if (!r)
		r = main_start_sampler(&sampler, node, loop);
	if (r < 0) {
		log_line(LOG_FAULT, "signals or time cannot be waited for: %s", strerror(-r));
		return EXIT_FAILURE;
	}
	main_open_energy(node);
	r = audit_start(node->runtime, a->outside, node->stamp, inventory, node->energy, &node->audit);
	if (r < 0)
		log_line(LOG_FAULT, "nobody looks who uses the devices: %s", strerror(-r));
	main_start_overcommit(node);
	main_start_accrual(node);
	r = main_start_turns(&service) ? main_answer(node, a, loop) : -ECANCELED;
	if (service.failed)
		r = -ECANCELED;
	energy_end(node->energy);
	if (node->accrual)
		main_take_sample(node);
	accrual_close(node->accrual);
	kube_close(node->kube);
	control_close(service.control);
	overcommit_end(node->overcommit);
	turns_end(node->turns);
	audit_end(node->audit);
	close(sampler.source.fd);
	close(signals.source.fd);
	return r < 0 ? EXIT_FAILURE : 0;
}

int main(int argc, char **argv)
{
	static struct node node;
	static struct args a = {.listen = LISTEN};
	struct loop *loop;
	bool there;
	int r;

	mallopt(M_ARENA_MAX, 1); /* the audit's thread allocates little, and seldom */
	mallopt(M_MMAP_THRESHOLD, BIG_BYTES); /* a page that was sent is given back to the system, */
	mallopt(M_TRIM_THRESHOLD, BIG_BYTES); /* and so are the tenants of which it was made */
	argp_err_exit_status = EXIT_FAILURE;
	argp_program_version = "allotd " ALLOT_VERSION;
	argp_parse(&argp, argc, argv, 0, NULL, &a);
	if (listen_parse(a.listen, &a.address) < 0) {
		log_line(LOG_FAULT, "--listen \"%s\": write an address in numbers and a port from 1 to "
			 "65535, like " LISTEN " or [::1]:9478", a.listen);
		return EXIT_FAILURE;
	}
	r = site_file_read(&a.site, &node.site, &there);
	if (r == 0 && a.check && !there)
		printf("%s is not there: users are not bounded\n", site_file_path(&a.site));
	else if (r == 0 && a.check && !site_bounds(&node.site))
		printf("%s has no line that limits users: they are not bounded\n",
		       site_file_path(&a.site));
	if (r < 0 || a.check)
		return r < 0 ? EXIT_FAILURE : 0;
	node.hami = a.hami;
	node.kube_conf = node.site.kube;
	node.control = node.site.control;
	kube_node_name(node.name, sizeof(node.name));
	signal(SIGPIPE, SIG_IGN);
	r = tenant_runtime_dir(node.runtime, sizeof(node.runtime));
	if (!r)
		r = history_open(&node.history);
	if (!r)
		r = loop_open(&loop);
	if (r < 0) {
		log_line(LOG_FAULT, "cannot start: %s; ALLOT_RUNTIME_DIR has to be absolute",
			 strerror(-r));
		return EXIT_FAILURE;
	}
	allowance_serve();
	if (cut_survive() < 0)
		log_line(LOG_WARN, "a ledger that is cut short ends this daemon: %s", strerror(errno));
	node.stamp = devices_stamp();
	devices_read(&node.devices);
	if (node.kube_conf.ways)
		devices_read_links(&node.devices);
	if (*node.devices.trouble)
		log_line(LOG_WARN, "%s", node.devices.trouble);
	r = main_serve(&node, &a, loop);
	loop_close(loop);
	history_close(node.history);
	site_free(&node.site);
	return r;
}
