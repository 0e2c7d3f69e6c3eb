/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/slots/prestart.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/now.h"
#include "base/number.h"
#include "kube/state/counts.h"
#include "kube/schedulers/decided.h"
#include "kube/pods/holder.h"
#include "kube/pods/pod_resources.h"
#include "kube/slots/slot_grants.h"
#include "text/log.h"

/* Two lists end a grant, and then its tenant is looked for (kube.c): 6 s after a Pod at most. */
#define SWEEP_NS (2 * NS_PER_S)
/* All of a Pod is allocated by then; until its scheduler hears of that it places nothing here. */
#define ALLOCATED_NS (100 * NS_PER_MS)
#define TOLD	     256
#define TELL_NS	     (1 * NS_PER_S) /* until a scheduler that could not be told is told again; doubled each time */
#define TELL_MOST_NS (60 * NS_PER_S)
#define RETRY_NS     (200 * NS_PER_MS)
#define UNKNOWN_NS   (2 * NS_PER_S)  /* a container may be missing in the list so long */
#define SILENT_NS    (20 * NS_PER_S) /* and there may be no list; the kubelet gives up after 30 s */
#define SLOTS_MOST 512 /* of a container */

struct waiting {
	struct waiting *next;
	struct prestart *prestart;
	const struct kube_resource *resource;
	struct grpc_call *call;
	V1beta1__PreStartContainerRequest *request;
	uint64_t since_ns;
	/* Where a scheduler decides, and whose the slots are is known: */
	struct decided_call *deciding;
	char space[KUBE_NAME_BYTES], pod[KUBE_NAME_BYTES], container[KUBE_NAME_BYTES];
};

/* A Pod of which its scheduler hears. */
struct telling {
	uint64_t hash;
	uint64_t slot;	      /* the hash of its first one's name */
	bool told;	      /* or is being told */
	enum decided_end end; /* of the call before, where it is to be told again */
};

struct prestart {
	struct lister *lister;
	struct lister_hearer hearer;
	const struct kube_conf *conf;
	const struct node_devices *devices;
	struct slot_grants *grants;
	struct decided *decided;  /* NULL: no scheduler decides */
	uint64_t allocated_at_ns; /* when to tell schedulers of Pods; UINT64_MAX: of none */
	uint64_t tell_wait_ns;
	struct telling telling[TOLD];
	size_t ntelling;
	struct waiting *waiting;
	uint64_t list_at_ns; /* for those that wait */
	uint64_t sweep_at_ns;
};

static void prestart_heard(void *arg, const V1__ListPodResourcesResponse *list, const char *why);

int prestart_open(struct lister *lister, struct api *api, const struct kube_conf *conf,
		  const struct node_devices *devices, struct prestart **ret)
{
	struct prestart *prestart = calloc(1, sizeof(*prestart));
	bool decides = conf->scheduler != KUBE_STOCK;
	int r;

	if (!prestart)
		return -ENOMEM;
	*prestart = (struct prestart){.lister = lister,
				      .hearer = {.heard = prestart_heard, .arg = prestart},
				      .conf = conf,
				      .devices = devices,
				      .allocated_at_ns = UINT64_MAX,
				      .tell_wait_ns = TELL_NS};
	lister_add(lister, &prestart->hearer);
	r = slot_grants_open(conf, &prestart->grants);
	if (r == 0 && decides) {
		/* Pods that were allocated before this daemon was there, too. */
		prestart->allocated_at_ns = 0;
		r = decided_open(api, conf, &prestart->decided);
	}
	if (r < 0)
		prestart_close(prestart);
	else
		*ret = prestart;
	return r;
}

/* Of *at, which is the next one afterwards. */
static void prestart_remove(struct waiting **at)
{
	struct waiting *w = *at;

	*at = w->next;
	decided_forget(w->deciding);
	v1beta1__pre_start_container_request__free_unpacked(w->request, NULL);
	free(w);
}

void prestart_close(struct prestart *prestart)
{
	if (!prestart)
		return;
	lister_remove(prestart->lister, &prestart->hearer);
	while (prestart->waiting)
		prestart_remove(&prestart->waiting);
	decided_close(prestart->decided);
	slot_grants_close(prestart->grants);
	free(prestart);
}

void prestart_gone(struct prestart *prestart, const struct grpc_call *call)
{
	struct waiting **at = &prestart->waiting;

	while (*at)
		if ((*at)->call == call)
			prestart_remove(at);
		else
			at = &(*at)->next;
}

/* --- What a list says ------------------------------------------------------------------------ */

static int prestart_grant(struct prestart *prestart, const struct holder *holder,
			  char why[static HOLDER_WHY])
{
	_Static_assert(GRANT_WHY == HOLDER_WHY, "either fits");
	uint64_t given_bytes[POLICY_DEVICES];
	static struct policy policy;
	int r;

	slot_grants_given(prestart->grants, prestart->devices, holder->container, given_bytes);
	r = holder_policy(prestart->conf, prestart->devices, holder, given_bytes, &policy, why);
	if (r < 0)
		return r;
	return slot_grants_put(prestart->grants, holder->container, holder->first, &policy, NULL, why);
}

static void prestart_finish(struct waiting **at, enum grpc_status status, const char *text)
{
	counts_answered(COUNTS_PRESTART, (*at)->since_ns);
	grpc_finish((*at)->call, status, text);
	prestart_remove(at);
}

static void prestart_refuse(struct waiting **at, enum grpc_status status, const char *text)
{
	log_line(LOG_WARN, "%s", text);
	prestart_finish(at, status, text);
}

static void prestart_finish_holder(struct waiting **at, const struct holder *holder, int r,
				   const char *why)
{
	char text[2 * HOLDER_WHY];

	if (r == 0 && grpc_send((*at)->call, NULL, 0) == 0) {
		prestart_finish(at, GRPC_OK, NULL);
		return;
	}
	snprintf(text, sizeof(text), "%.64s/%.256s, container %.64s: %s", holder->pod->namespace_,
		 holder->pod->name, holder->container->name, r < 0 ? why : "out of memory");
	prestart_refuse(at, r == -ENOSPC ? GRPC_RESOURCE_EXHAUSTED : GRPC_INTERNAL, text);
}

/* --- What a scheduler decided ----------------------------------------------------------------- */

/* The container as the list had it, which is gone by now. */
struct again {
	V1__ContainerDevices devices, *list[1];
	V1__ContainerResources container;
	V1__PodResources pod;
	struct holder holder;
};

static void prestart_make_again(const struct waiting *w, struct again *a)
{
	v1__container_devices__init(&a->devices);
	v1__container_resources__init(&a->container);
	v1__pod_resources__init(&a->pod);
	a->devices.resource_name = (char *)w->resource->name;
	a->devices.device_ids = w->request->devices_ids;
	a->devices.n_device_ids = w->request->n_devices_ids;
	a->list[0] = &a->devices;
	a->container.devices = a->list;
	a->container.n_devices = 1;
	a->container.name = (char *)w->container;
	a->pod.name = (char *)w->pod;
	a->pod.namespace_ = (char *)w->space;
	holder_read(w->prestart->conf, w->prestart->devices, &a->pod, &a->container, &a->holder);
}

static void prestart_choose_folder(const struct waiting *w, const struct pod_decision *decision,
				   struct grant_folder *ret)
{
	xpu_folder_name(decision->uid, w->container, ret->name);
	*ret->ids = 0;
	if (w->prestart->conf->scheduler == KUBE_XPU)
		vgpu_config_ids(&decision->container, ret->ids);
}

static void prestart_decided(void *arg, const struct pod_decision *decision, const char *said)
{
	struct waiting *w = arg, **at = &w->prestart->waiting;
	struct prestart *prestart = w->prestart;
	uint64_t given_bytes[POLICY_DEVICES];
	static struct policy policy;
	static struct again again;
	static struct grant_folder folder;
	char why[HOLDER_WHY];
	int r = -EINVAL;

	while (*at != w)
		at = &(*at)->next;
	w->deciding = NULL;
	prestart_make_again(w, &again);
	snprintf(why, sizeof(why), "%.500s", said);
	slot_grants_given(prestart->grants, prestart->devices, &again.container, given_bytes);
	if (decision)
		r = holder_policy_decided(prestart->conf, prestart->devices, &again.holder,
					  &decision->container, given_bytes, &policy, why);
	if (r == 0) {
		prestart_choose_folder(w, decision, &folder);
		r = slot_grants_put(prestart->grants, &again.container, again.holder.first, &policy,
				    &folder, why);
	}
	prestart_finish_holder(at, &again.holder, r, why);
}

/* Returns true if it waits for that. */
static bool prestart_decide(struct prestart *prestart, struct waiting **at,
			    const struct holder *holder)
{
	struct waiting *w = *at;
	int r;

	snprintf(w->space, sizeof(w->space), "%s", holder->pod->namespace_);
	snprintf(w->pod, sizeof(w->pod), "%s", holder->pod->name);
	snprintf(w->container, sizeof(w->container), "%s", holder->container->name);
	r = decided_ask(prestart->decided, w->space, w->pod, w->container, prestart_decided, w,
			&w->deciding);
	if (r < 0)
		prestart_finish_holder(at, holder, r, strerror(-r));
	return r == 0;
}

static struct telling *prestart_find_telling(struct prestart *prestart, uint64_t hash)
{
	for (size_t i = 0; i < TOLD; i++)
		if (prestart->telling[i].hash == hash)
			return &prestart->telling[i];
	return NULL;
}

/* In place of the oldest where it is new. */
static struct telling *prestart_note_telling(struct prestart *prestart, const V1__PodResources *pod,
					     const char *first)
{
	uint64_t hash = hash_string(hash_string(HASH_SEED, pod->namespace_), first);
	struct telling *telling;

	hash = hash_mix(hash_string(hash, pod->name));
	telling = prestart_find_telling(prestart, hash);
	if (!telling) {
		telling = &prestart->telling[prestart->ntelling++ % TOLD];
		*telling = (struct telling){
			.hash = hash, .slot = hash_string(HASH_SEED, first), .end = DECIDED_UNTOLD};
	}
	return telling;
}

/* A slot that is allocated has another Pod by now, which may have the name of the one before. */
static void prestart_forget_telling(struct prestart *prestart, const char *slot)
{
	uint64_t hash = hash_string(HASH_SEED, slot);

	for (size_t i = 0; i < TOLD; i++)
		if (prestart->telling[i].slot == hash)
			prestart->telling[i] = (struct telling){.hash = 0};
}

static void prestart_tell_later(struct prestart *prestart)
{
	uint64_t at_ns = now_monotonic_ns() + prestart->tell_wait_ns;

	prestart->allocated_at_ns = min_u64(prestart->allocated_at_ns, at_ns);
	prestart->tell_wait_ns = min_u64(2 * prestart->tell_wait_ns, TELL_MOST_NS);
}

static void prestart_told(void *arg, uint64_t hash, enum decided_end end)
{
	struct prestart *prestart = arg;
	struct telling *telling = prestart_find_telling(prestart, hash);

	if (end == DECIDED_TOLD) {
		prestart->tell_wait_ns = TELL_NS;
		return;
	}
	if (telling) {
		telling->told = false;
		telling->end = end;
	}
	prestart_tell_later(prestart);
}

static void prestart_tell_of(struct prestart *prestart, const V1__PodResources *pod,
			     const V1__ContainerResources *container, const char *first)
{
	struct telling *telling = prestart_note_telling(prestart, pod, first);
	int r;

	if (telling->told)
		return;
	telling->told = true;
	r = decided_tell(prestart->decided, pod->namespace_, pod->name, container->name,
			 telling->end == DECIDED_LOCKED, prestart_told, prestart, telling->hash);
	if (r == 0)
		return;
	log_line(LOG_WARN, "%s/%s: the API server cannot be asked: %s", pod->namespace_, pod->name,
		 strerror(-r));
	telling->told = r == -EINVAL; /* such a Pod is no API server's */
	if (!telling->told)
		prestart_tell_later(prestart);
}

static void prestart_tell(struct prestart *prestart, const V1__PodResources *pod)
{
	static struct holder holder;

	for (size_t k = 0; k < pod->n_containers; k++) {
		holder_read(prestart->conf, prestart->devices, pod, pod->containers[k], &holder);
		if (!holder.first)
			continue;
		prestart_tell_of(prestart, pod, pod->containers[k], holder.first);
		return;
	}
}

static void prestart_tell_all(struct prestart *prestart, const V1__ListPodResourcesResponse *list)
{
	if (now_monotonic_ns() < prestart->allocated_at_ns)
		return;
	prestart->allocated_at_ns = UINT64_MAX;
	for (size_t i = 0; i < list->n_pod_resources; i++)
		prestart_tell(prestart, list->pod_resources[i]);
}

void prestart_allocated(struct prestart *prestart, const V1beta1__AllocateRequest *request)
{
	if (!prestart->decided)
		return;
	for (size_t i = 0; i < request->n_container_requests; i++) {
		const V1beta1__ContainerAllocateRequest *container = request->container_requests[i];

		for (size_t k = 0; k < container->n_devices_ids; k++)
			prestart_forget_telling(prestart, container->devices_ids[k]);
	}
	prestart->allocated_at_ns = now_monotonic_ns() + ALLOCATED_NS;
}

/* --- What is answered ------------------------------------------------------------------------- */

/* Returns true if it waits on. */
static bool prestart_answer(struct prestart *prestart, struct waiting **at,
			    const V1__ListPodResourcesResponse *list)
{
	const struct waiting *w = *at;
	static struct holder holder;
	char text[HOLDER_WHY];
	int r = holder_find(prestart->conf, prestart->devices, list, w->resource->name,
			    w->request->devices_ids, w->request->n_devices_ids, &holder);

	if (r == -ENOENT && now_monotonic_ns() - w->since_ns < UNKNOWN_NS)
		return true;
	if (r == 0 && prestart->decided)
		return prestart_decide(prestart, at, &holder);
	if (r == 0) {
		r = prestart_grant(prestart, &holder, text);
		prestart_finish_holder(at, &holder, r, text);
		return false;
	}
	snprintf(text, sizeof(text), "%.253s: %s has slot %.63s and those beside it; %s",
		 w->resource->name,
		 r == -ENOTUNIQ ? "more than one container of the kubelet's list"
				: "no container of the kubelet's list",
		 w->request->devices_ids[0],
		 r == -ENOTUNIQ ? "delete the Pod that has ended"
				: "an init container must ask for as many as another of its Pod");
	prestart_refuse(at, GRPC_NOT_FOUND, text);
	return false;
}

/* The same where there is no list. */
static bool prestart_wait_on(struct waiting **at, const char *why)
{
	char text[HOLDER_WHY];

	if (now_monotonic_ns() - (*at)->since_ns < SILENT_NS)
		return true;
	snprintf(text, sizeof(text),
		 "the kubelet does not say which container has slot %.63s: %.320s; see "
		 "pod-resources/kubelet.sock in its directory",
		 (*at)->request->devices_ids[0], why);
	prestart_refuse(at, GRPC_UNAVAILABLE, text);
	return false;
}

static void prestart_sweep(struct prestart *prestart, const V1__ListPodResourcesResponse *list)
{
	uint64_t now = now_monotonic_ns();

	if (now < prestart->sweep_at_ns)
		return;
	prestart->sweep_at_ns = now + SWEEP_NS;
	/* Else a container that runs would lose its limits, and others would get its memory. */
	if (list && pod_resources_has_api_pods(prestart->conf, list) &&
	    pod_resources_is_whole(prestart->conf, list))
		slot_grants_sweep(prestart->grants);
}

static void prestart_heard(void *arg, const V1__ListPodResourcesResponse *list, const char *why)
{
	struct prestart *prestart = arg;
	struct waiting **at = &prestart->waiting;
	bool late = false; /* somebody came after this list was asked for */

	if (list)
		slot_grants_look(prestart->grants, list);
	while (*at) {
		if (!(*at)->deciding && (*at)->since_ns > lister_asked_ns(prestart->lister))
			late = true;
		else if (!(*at)->deciding &&
			 (list ? !prestart_answer(prestart, at, list) : !prestart_wait_on(at, why)))
			continue;
		at = &(*at)->next;
	}
	prestart->list_at_ns = late ? 0 : now_monotonic_ns() + RETRY_NS;
	prestart_sweep(prestart, list);
	if (list)
		prestart_tell_all(prestart, list);
	prestart_run(prestart);
}

/* --- When to ask ----------------------------------------------------------------------------- */

static void prestart_list(struct prestart *prestart)
{
	struct waiting **at = &prestart->waiting;
	int r = lister_ask(prestart->lister);

	if (r == 0)
		return;
	prestart->list_at_ns = now_monotonic_ns() + RETRY_NS;
	prestart->sweep_at_ns = now_monotonic_ns() + SWEEP_NS;
	while (*at)
		if ((*at)->deciding || prestart_wait_on(at, strerror(-r)))
			at = &(*at)->next;
}

void prestart_ask(struct prestart *prestart, const struct kube_resource *resource,
		  struct grpc_call *call, V1beta1__PreStartContainerRequest *request)
{
	struct waiting *w = calloc(1, sizeof(*w)), **end = &prestart->waiting;

	if (!w || !request->n_devices_ids || request->n_devices_ids > SLOTS_MOST) {
		v1beta1__pre_start_container_request__free_unpacked(request, NULL);
		grpc_finish(call, w ? GRPC_INVALID_ARGUMENT : GRPC_RESOURCE_EXHAUSTED,
			    w ? "a container has 1 to 512 slots" : "out of memory");
		free(w);
		return;
	}
	*w = (struct waiting){.prestart = prestart,
			      .resource = resource,
			      .call = call,
			      .request = request,
			      .since_ns = now_monotonic_ns()};
	while (*end)
		end = &(*end)->next;
	*end = w;
	/* Those that wait for another try are tried with it. */
	prestart->list_at_ns = 0;
	prestart_run(prestart);
}

static uint64_t prestart_due_ns(const struct prestart *prestart)
{
	uint64_t due = prestart->allocated_at_ns;

	if (lister_is_asking(prestart->lister))
		return UINT64_MAX;
	for (const struct waiting *w = prestart->waiting; w; w = w->next)
		if (!w->deciding)
			return prestart->list_at_ns;
	if (slot_grants_any(prestart->grants))
		due = min_u64(due, prestart->sweep_at_ns);
	/* Where there was no list one is not asked for at once. */
	return due == UINT64_MAX ? due : max_u64(due, prestart->list_at_ns);
}

int prestart_timeout_ms(const struct prestart *prestart)
{
	uint64_t due = prestart_due_ns(prestart), now = now_monotonic_ns();

	if (due == UINT64_MAX)
		return -1;
	return (int)(sat_sub_u64(due + NS_PER_MS - 1, now) / NS_PER_MS);
}

void prestart_run(struct prestart *prestart)
{
	if (prestart_due_ns(prestart) <= now_monotonic_ns())
		prestart_list(prestart);
}
