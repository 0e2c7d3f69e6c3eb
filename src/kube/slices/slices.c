/* SPDX-License-Identifier: Apache-2.0 */
/*
 *	slices_sync ──► GET node ──► LIST own slices ──► nothing differs: watch ──► something happens ──► GET node
 *	                                   ▲    │
 *	                                   └────┴── one write
 *	what fails ──► wait ──► GET node
 *
 * After each write the slices are listed again, so that a round ends only when what is there is what is
 * wanted. One request is under way at a time.
 */
#include "kube/slices/slices.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/now.h"
#include "base/number.h"
#include "kube/slices/slice.h"
#include "kube/slices/slices_watch.h"
#include "text/log.h"

#define SLICES_PATH "/apis/resource.k8s.io/v1/resourceslices"
#define REQUEST_MS  30000
#define RETRY_MS    500	  /* after the first failure; twice that after each further one */
#define RETRY_MOST_MS	60000
#define REFUSED_MOST_MS 600000 /* where the server refuses what is written: asking again changes little */
#define PROBE_MS	600000 /* how seldom a cluster without a feature is tried again */
/* A device may come and go all the time: so many writes at once, and one in each further gap. */
#define GAP_MS		10000
#define GAPS_AHEAD	4
#define WRITES_MOST	8      /* of a round: somebody else writes the same slices */
#define RACES		4      /* lost one after the other, before the log has a line of it */
#define PATH_BYTES	1024
#define UID_BYTES	128
#define DRIVER_BYTES	63 /* what Kubernetes takes */

/* The last part of a request's way: what is done with the answer. */
enum slices_write { WRITE_CREATE, WRITE_UPDATE, WRITE_DELETE };

struct slices {
	struct loop_source source; /* its timer */
	struct api *api;
	const struct kube_conf *conf;
	const struct node_devices *devices;
	struct api_call *call; /* under way; NULL: none */
	struct slices_watch watch;
	bool again;	       /* they are to be looked at once more */
	char node_uid[UID_BYTES];
	unsigned int without; /* bits of enum slice_without */
	unsigned int said;    /* the same, of those that the log names */
	json_t *wanted, *kept; /* what was written last, and what the server made of it */
	enum slices_write write;
	unsigned int writes, failures;
	uint64_t due_ns;  /* when the timer ends; UINT64_MAX: it is not set */
	uint64_t paid_ns; /* until then what was written would take, one in a gap */
	uint64_t probed_ns; /* when the server's answer to a write was learnt last */
	bool settled;	  /* a round has ended since slices_sync */
	int told; /* status of the failure that the log names; 0: none */
};

static void slices_begin(struct slices *s);
static void slices_list(struct slices *s);

/* --- Time ---------------------------------------------------------------------------------- */

/* Less than what was asked for, by up to a half: many nodes do the same at the same time. */
static uint64_t slices_jitter(uint64_t ms)
{
	uint32_t random = 0;

	if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random))
		random = (uint32_t)now_monotonic_ns();
	return ms - ms * (random % 1024) / 2048;
}

static void slices_wake_in(struct slices *s, uint64_t ms)
{
	struct itimerspec spec = {.it_value = {.tv_sec = (time_t)(ms / 1000),
					       .tv_nsec = (long)(ms % 1000 * NS_PER_MS) + !ms}};

	s->due_ns = now_monotonic_ns() + ms * NS_PER_MS;
	timerfd_settime(s->source.fd, 0, &spec, NULL);
}

static void slices_ready(struct loop_source *source)
{
	struct slices *s = (struct slices *)source;
	uint64_t times;

	if (read(source->fd, &times, sizeof(times)) <= 0)
		return;
	s->due_ns = UINT64_MAX;
	if (!s->call)
		slices_begin(s);
}

/* In so many ms, and later where much has been written lately. */
static void slices_wake(struct slices *s, uint64_t ms)
{
	uint64_t ahead_ns = sat_sub_u64(s->paid_ns, now_monotonic_ns());

	slices_wake_in(s, max_u64(ms, sat_sub_u64(ahead_ns / NS_PER_MS, GAPS_AHEAD * GAP_MS)));
}

static void slices_path(const struct slices *s, char ret[static PATH_BYTES])
{
	snprintf(ret, PATH_BYTES, SLICES_PATH "?fieldSelector=spec.driver%%3D%s%%2Cspec.nodeName%%3D%s",
		 s->conf->driver, s->conf->node);
}

/* --- How a round ends ---------------------------------------------------------------------- */

static void slices_rest(struct slices *s, const char *version)
{
	char path[PATH_BYTES];

	if (s->told)
		log_line(LOG_SAY, "kubernetes: the ResourceSlice of node %s is as it is to be again",
			 s->conf->node);
	s->told = 0;
	s->failures = 0;
	s->settled = !s->again;
	if (s->again) {
		slices_wake(s, 0);
		return;
	}
	slices_path(s, path);
	slices_watch_begin(&s->watch, path, version);
}

/*
 * The watch's: no round is under way while there is one. A round that slices_sync asked for comes first, and
 * events without end do not put a look off.
 */
static void slices_look(void *arg, uint64_t ms)
{
	struct slices *s = arg;

	ms = slices_jitter(2 * ms);
	if (!s->again && now_monotonic_ns() + ms * NS_PER_MS < s->due_ns)
		slices_wake(s, ms);
}

static const char *slices_advice(int status)
{
	switch (status) {
	case 401:
		return "; the token of allotd's service account is not taken: see that its file is mounted "
		       "and renewed";
	case 403:
		return "; give allotd's service account the rights of deploy/kubernetes: get on nodes; "
		       "list, watch, create, update and delete on resourceslices";
	case 404:
		return "; resource.k8s.io/v1 needs Kubernetes 1.34 or newer, and [kubernetes] node must "
		       "name this node as the cluster does";
	default:
		return "";
	}
}

/* Somebody else was faster, which is worth words only if it goes on. */
static bool slices_is_race(const struct slices *s, int status)
{
	return (status == 409 || status == 410) && s->failures < RACES;
}

/* Words of the server's own, if these are a Status. */
static void slices_tell(struct slices *s, int status, const char *what, const char *bytes, size_t len)
{
	json_t *root = slice_parse(bytes, len);
	const char *message = json_string_value(json_object_get(root, "message"));

	if (status == 200)
		message = "what answers is no API server of Kubernetes";
	if (status != s->told)
		log_line(LOG_WARN, "kubernetes: cannot %s node %s: %s%d: %.300s%s; it is tried again", what,
			 s->conf->node, status > 0 ? "HTTP " : "error ", abs(status),
			 message ? message : bytes, slices_advice(status));
	s->told = status;
	json_decref(root);
}

static void slices_fail(struct slices *s, int status, const char *what, const char *bytes, size_t len)
{
	bool refused = status == 400 || status == 413 || status == 422;
	uint64_t most = refused ? REFUSED_MOST_MS : RETRY_MOST_MS;
	uint64_t ms = min_u64(most, (uint64_t)RETRY_MS << min_u64(s->failures, 20));

	if (status == -ECANCELED)
		return;
	if (!slices_is_race(s, status))
		slices_tell(s, status, what, bytes, len);
	s->failures++;
	slices_wake_in(s, slices_jitter(ms));
}

static void slices_ask(struct slices *s, const struct api_request *request, const char *what)
{
	int r = api_ask(s->api, request, &s->call);

	if (r) {
		char words[PATH_MAX + 128];
		int n = snprintf(words, sizeof(words),
				 "no request can be made (%s); see that %s/token can be read",
				 strerror(-r), s->conf->account);

		s->call = NULL;
		slices_fail(s, r, what, words, (size_t)n);
	}
}

/* --- What is wanted ------------------------------------------------------------------------ */

static void slices_read_version(const struct device *device, char ret[static SLICE_VERSION_BYTES])
{
	char text[64];

	ret[0] = '\0';
	if (fd_read_text(AT_FDCWD,
			 device->vendor == DEVICE_AMD ? "/sys/module/amdgpu/version"
						      : "/sys/module/nvidia/version",
			 text, sizeof(text)) > 0)
		slice_version(text, ret);
}

static void slices_read_facts(const struct device *device, struct slice_facts *ret)
{
	char path[128], link[PATH_MAX];

	slices_read_version(device, ret->version);
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s", device->pci);
	if (fd_read_link(AT_FDCWD, path, link, sizeof(link)) < 0)
		*link = '\0';
	slice_pcie_root(link, ret->pcie_root);
}

static json_t *slices_want(const struct slices *s)
{
	struct slice_facts facts[POLICY_DEVICES];

	for (unsigned int i = 0; i < s->devices->n; i++)
		slices_read_facts(&s->devices->list[i].device, &facts[i]);
	return slice_spec(s->conf, s->devices, facts, s->without);
}

/* --- Writes -------------------------------------------------------------------------------- */

static void slices_say_dropped(struct slices *s, unsigned int dropped)
{
	unsigned int news = dropped & ~s->said;

	s->said = (s->said & ~SLICE_NO_SHARING) | dropped;
	if (news & SLICE_NO_SHARING)
		log_line(LOG_WARN,
			 "kubernetes: this cluster does not know consumable capacity: a GPU of node %s goes "
			 "to one claim at a time, as a whole, and limits: {allot.dev/...: 1} gets no part of "
			 "one; switch the feature gate DRAConsumableCapacity on (API server, scheduler, "
			 "controller manager, kubelet), or use Kubernetes 1.36 or newer, where it is on",
			 s->conf->node);
	if (news & SLICE_NO_TAINTS)
		log_line(LOG_WARN,
			 "kubernetes: this cluster does not know device taints: a sick GPU of node %s is left "
			 "out of its ResourceSlice; switch the feature gate DRADeviceTaints on to see it there",
			 s->conf->node);
}

/* Notes the fields that the server does not keep, so that they are no difference the next time. */
static void slices_learn(struct slices *s, const char *bytes, size_t len)
{
	json_t *root = slice_parse(bytes, len);
	const json_t *kept = json_object_get(root, "spec");

	json_decref(s->kept);
	s->kept = json_deep_copy(kept);
	s->probed_ns = now_monotonic_ns();
	if (kept && s->wanted) {
		unsigned int dropped = slice_dropped(s->wanted, kept);

		slices_say_dropped(s, dropped);
		s->without |= dropped & SLICE_NO_TAINTS;
	}
	json_decref(root);
}

static void slices_written(void *arg, int status, const char *bytes, size_t len)
{
	static const char *const what[] = {"create the ResourceSlice of", "update the ResourceSlice of",
					   "delete a ResourceSlice of"};
	struct slices *s = arg;
	bool gone = s->write == WRITE_DELETE && status == 404;

	s->call = NULL;
	if (!gone && (status < 200 || status > 299)) {
		slices_fail(s, status, what[s->write], bytes, len);
		return;
	}
	s->paid_ns = max_u64(s->paid_ns, now_monotonic_ns()) + GAP_MS * NS_PER_MS;
	if (s->write != WRITE_DELETE)
		slices_learn(s, bytes, len);
	slices_list(s);
}

static void slices_write(struct slices *s, enum slices_write write, const char *name, const json_t *object)
{
	static const char *const method[] = {"POST", "PUT", "DELETE"};
	char *body = object ? json_dumps(object, JSON_COMPACT) : NULL;
	char path[PATH_BYTES];

	if (++s->writes > WRITES_MOST || (write != WRITE_DELETE && !body)) {
		static const char words[] = "somebody else writes the same slices, or there is no memory";

		free(body);
		slices_fail(s, -EBUSY, "settle the ResourceSlice of", words, sizeof(words) - 1);
		return;
	}
	s->write = write;
	snprintf(path, sizeof(path), SLICES_PATH "%s%s", name ? "/" : "", name ? name : "");
	slices_ask(s,
		   &(struct api_request){.method = method[write],
					 .path = path,
					 .body = body,
					 .timeout_ms = REQUEST_MS,
					 .ended = slices_written,
					 .arg = s},
		   "write the ResourceSlice of");
	free(body);
}

/* --- What is there ------------------------------------------------------------------------- */

static const char *slices_name_of(const json_t *object)
{
	return json_string_value(json_object_get(json_object_get(object, "metadata"), "name"));
}

/* Kubernetes' names of objects; whoever answers with another one is no API server. */
static bool slices_is_name(const char *name)
{
	return name && isalnum((unsigned char)*name) && strlen(name) < KUBE_NAME_BYTES &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-.") == strlen(name);
}

/* The slice that stays; any further one is `ret_extra`. The one of our name is preferred. */
static const json_t *slices_choose(const struct slices *s, const json_t *items, const json_t **ret_extra)
{
	const json_t *own = NULL;
	char name[KUBE_NAME_BYTES];
	json_t *item;
	size_t i;

	slice_name(s->conf, name);
	*ret_extra = NULL;
	json_array_foreach (items, i, item) {
		bool named = slices_is_name(slices_name_of(item));

		if (!named || !slice_is_ours(s->conf, item))
			continue;
		if (!own || !strcmp(slices_name_of(item), name)) {
			*ret_extra = own ? own : *ret_extra;
			own = item;
		} else {
			*ret_extra = item;
		}
	}
	return own;
}

static bool slices_is_right(const struct slices *s, const json_t *own, const json_t *wanted)
{
	const json_t *spec = json_object_get(own, "spec");

	if (!slice_is_owned(own, s->node_uid))
		return false;
	return slice_same(spec, wanted) ||
	       (s->kept && slice_same(wanted, s->wanted) && slice_same(spec, s->kept));
}

/* The pool's name cannot be changed: such a slice goes, and another one comes. */
static bool slices_is_other_pool(const struct slices *s, const json_t *own)
{
	const char *pool = json_string_value(json_object_get(
		json_object_get(json_object_get(own, "spec"), "pool"), "name"));

	return !pool || strcmp(pool, s->conf->node) != 0;
}

static void slices_put(struct slices *s, const json_t *own, json_t *wanted)
{
	json_t *object = slice_object(s->conf, wanted, s->node_uid, own);

	json_decref(s->wanted);
	s->wanted = json_incref(wanted);
	json_decref(s->kept);
	s->kept = NULL;
	slices_write(s, own ? WRITE_UPDATE : WRITE_CREATE, own ? slices_name_of(own) : NULL, object);
	json_decref(object);
}

/* One step towards what is wanted, or none. */
static void slices_step(struct slices *s, const json_t *list)
{
	const json_t *items = json_object_get(list, "items");
	json_t *wanted = slices_want(s);
	const json_t *extra, *own = slices_choose(s, items, &extra);

	if (own && (slices_is_other_pool(s, own) || !s->devices->n))
		extra = own;
	if (extra)
		slices_write(s, WRITE_DELETE, slices_name_of(extra), NULL);
	else if (!s->devices->n || (own && slices_is_right(s, own, wanted)))
		slices_rest(s, json_string_value(json_object_get(json_object_get(list, "metadata"),
								 "resourceVersion")));
	else
		slices_put(s, own, wanted);
	json_decref(wanted);
}

static void slices_listed(void *arg, int status, const char *bytes, size_t len)
{
	struct slices *s = arg;
	json_t *root = status == 200 ? slice_parse(bytes, len) : NULL;
	const json_t *items = json_object_get(root, "items");

	s->call = NULL;
	if (json_is_array(items) || json_is_null(items))
		slices_step(s, root);
	else
		slices_fail(s, status, "list the ResourceSlices of", bytes, len);
	json_decref(root);
}

static void slices_list(struct slices *s)
{
	char path[PATH_BYTES];

	slices_path(s, path);
	slices_ask(s,
		   &(struct api_request){.method = "GET",
					 .path = path,
					 .timeout_ms = REQUEST_MS,
					 .ended = slices_listed,
					 .arg = s},
		   "list the ResourceSlices of");
}

/* --- The node ------------------------------------------------------------------------------ */

static void slices_node_heard(void *arg, int status, const char *bytes, size_t len)
{
	struct slices *s = arg;
	json_t *root = status == 200 ? slice_parse(bytes, len) : NULL;
	const char *uid = json_string_value(json_object_get(json_object_get(root, "metadata"), "uid"));

	s->call = NULL;
	if (uid && strlen(uid) < sizeof(s->node_uid)) {
		memcpy(s->node_uid, uid, strlen(uid) + 1);
		slices_list(s);
	} else {
		slices_fail(s, status, "get", bytes, len);
	}
	json_decref(root);
}

/*
 * Rounds that nobody asked for try once more whether the cluster knows what it did not: its gate may be on by
 * now. Not of taints: a sick device would be offered as one that is well until the answer is there.
 */
static void slices_begin(struct slices *s)
{
	char path[PATH_BYTES];

	if (!s->again && !s->failures && s->said & SLICE_NO_SHARING &&
	    now_monotonic_ns() - s->probed_ns > PROBE_MS * NS_PER_MS) {
		json_decref(s->kept);
		s->kept = NULL;
	}
	slices_watch_end(&s->watch);
	s->again = false;
	s->writes = 0;
	snprintf(path, sizeof(path), "/api/v1/nodes/%s", s->conf->node);
	slices_ask(s,
		   &(struct api_request){.method = "GET",
					 .path = path,
					 .timeout_ms = REQUEST_MS,
					 .ended = slices_node_heard,
					 .arg = s},
		   "get");
}

/* --- The API ------------------------------------------------------------------------------- */

static bool slices_is_named(const struct kube_conf *conf)
{
	bool node = slices_is_name(conf->node);
	bool driver = slices_is_name(conf->driver) && strlen(conf->driver) <= DRIVER_BYTES;

	if (!node || !driver)
		log_line(LOG_FAULT,
			 "kubernetes: \"%s\" is no name of a %s in Kubernetes, which has lower case letters, "
			 "digits, '-' and '.'; write %s = ... in [kubernetes]",
			 node ? conf->driver : conf->node, node ? "driver" : "node", node ? "driver" : "node");
	return node && driver;
}

int slices_open(struct loop *loop, struct api *api, const struct kube_conf *conf,
		const struct node_devices *devices, struct slices **ret)
{
	struct slices *s;
	int r;

	if (!slices_is_named(conf))
		return -EINVAL;
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	*s = (struct slices){.source = {.fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK),
					.ready = slices_ready},
			     .api = api,
			     .conf = conf,
			     .devices = devices,
			     .due_ns = UINT64_MAX,
			     .watch = {.api = api, .look = slices_look, .arg = s}};
	r = s->source.fd < 0 ? err_errno() : loop_add(loop, &s->source);
	if (r)
		slices_close(s);
	else
		*ret = s;
	return r;
}

void slices_sync(struct slices *s)
{
	s->again = true;
	s->settled = false;
	if (!s->call)
		slices_wake(s, 0);
}

bool slices_is_settled(const struct slices *s)
{
	return s->settled;
}

void slices_close(struct slices *s)
{
	if (!s)
		return;
	slices_watch_end(&s->watch);
	if (s->call)
		api_forget(s->call);
	if (s->source.fd >= 0)
		close(s->source.fd);
	json_decref(s->wanted);
	json_decref(s->kept);
	free(s);
}
