/* SPDX-License-Identifier: Apache-2.0 */
#include "node/tenants_json.h"

#include "ledger/tenant.h"
#include "node/compute_words.h"
#include "node/moved.h"
#include "sched/controller.h"
#include "text/units.h"

static void tenants_json_put_categories(struct json *j, const uint64_t used[static CAT_N])
{
	json_open(j, "used_by_category", '{');
	for (int c = 0; c < CAT_N; c++)
		json_u64(j, category_name((enum category)c), used[c]);
	json_close(j, '}');
}

static void tenants_json_put_policy_device(struct json *j, const struct policy_device *d, bool all)
{
	json_open(j, NULL, '{');
	json_text(j, "uuid", all ? NULL : units_uuid(d->uuid).s);
	json_known_u64(j, "limit_bytes", d->limit_bytes);
	json_known_u64(j, "limit_permille", d->limit_permille);
	json_known_u64(j, "share_permille", d->share_permille);
	json_close(j, '}');
}

static void tenants_json_put_policy(struct json *j, const struct policy *p)
{
	json_bool(j, "swappable", p->flags & POLICY_SWAPPABLE);
	json_bool(j, "overcommit", p->flags & POLICY_OVERCOMMIT);
	json_known_u64(j, "host_memory_bytes", p->host_bytes);
	json_known_u64(j, "gtt_limit_bytes", (uint64_t)p->gtt_mib << 20);
	json_text(j, "swap_dir", *p->swap_dir ? p->swap_dir : NULL);
	json_text(j, "look", p->flags & POLICY_SWAPPABLE ? policy_look(p) : NULL);
	json_known_u64(j, "idle_suspend_ms", p->idle_s * UINT64_C(1000));
	json_text(j, "accounting", p->flags & POLICY_ACCOUNTING_DRIVER ? "driver" : "ledger");
	json_open(j, "compute", '{');
	json_text(j, "policy", compute_policies[p->compute]);
	json_bool(j, "measured", policy_meters(p));
	json_text(j, "mode", compute_modes[p->mode]);
	json_text(j, "controller", controller_by_id(p->controller)->name);
	json_text(j, "priority", compute_priorities[p->priority]);
	json_u64(j, "floor_permille", policy_floor(p));
	json_known_u64(j, "weight", p->weight);
	json_known_u64(j, "inflight_us", p->inflight_us);
	json_known_u64(j, "latency_us", p->latency_us);
	json_known_u64(j, "slice_us", p->slice_us);
	json_close(j, '}');
	json_open(j, "policy", '[');
	for (uint32_t i = 0; i < p->ndevices; i++)
		tenants_json_put_policy_device(j, &p->device[i],
					  i == 0 && (p->flags & POLICY_ALL_DEVICES));
	json_close(j, ']');
}

static void tenants_json_put_compute(struct json *j, const struct snapshot_device *device)
{
	const struct snapshot_compute *c = &device->compute;
	bool measured = tenants_measured(device);

	json_open(j, "compute", '{');
	json_known_u64(j, "share_permille", c->share_permille);
	json_known_u64(j, "target_permille", c->target_permille);
	json_known_u64(j, "compute_units", c->units);
	json_u64_if(j, "achieved_1s_bp", measured, c->achieved_1s_bp);
	json_u64_if(j, "achieved_60s_bp", measured, c->achieved_60s_bp);
	json_u64_if(j, "busy_ns", measured, c->busy_ns);
	json_u64_if(j, "launches", measured, c->launches);
	json_u64_if(j, "graph_launches", measured, c->graph_launches);
	json_u64_if(j, "throttles", measured, c->throttles);
	json_u64_if(j, "throttled_ns", measured, c->throttled_ns);
	if (measured && c->owes)
		json_i64(j, "debt_ns", c->debt_ns);
	else
		json_none(j, "debt_ns");
	json_u64_if(j, "longest_ns", measured, c->longest_ns);
	json_u64_if(j, "unmeasured_ns", measured, c->unmeasured_ns);
	json_u64_if(j, "host_copy_bytes", measured, c->host_copy_bytes);
	json_close(j, '}');
}

static void tenants_json_put_device(struct json *j, const struct snapshot_device *d)
{
	json_open(j, NULL, '{');
	json_text(j, "uuid", units_uuid(d->uuid).s);
	json_known_u64(j, "total_bytes", d->total_bytes);
	json_known_u64(j, "quota_bytes", d->limit_bytes);
	json_u64(j, "used_bytes", d->used_bytes);
	tenants_json_put_categories(j, d->used);
	json_u64(j, "guessed_bytes", d->guessed_bytes);
	json_u64(j, "pending_bytes", d->pending);
	json_known_u64(j, "driver_bytes", d->driver_bytes);
	json_u64(j, "host_bytes", d->host_bytes);
	json_u64(j, "suspended_bytes", d->out_bytes);
	json_u64(j, "peak_bytes", d->peak_bytes);
	json_u64(j, "refusals", d->refusals);
	json_u64_if(j, "power_mw", d->milliwatt != DEVICE_TIME_NO_POWER, d->milliwatt);
	json_u64_if(j, "energy_uj", d->energy_uj, d->energy_uj);
	tenants_json_put_compute(j, d);
	json_bool(j, "damaged", d->absurd);
	json_close(j, '}');
}

static void tenants_json_put_swap(struct json *j, const struct tenant_entry *e)
{
	struct moved moved = moved_of(e);

	if (!json_open_if(j, "swap", e->snapshot->policy.flags & POLICY_SWAPPABLE))
		return;
	json_u64(j, "resident_bytes", moved.resident_bytes);
	json_u64(j, "host_bytes", moved.host_bytes);
	json_u64(j, "file_bytes", moved.file_bytes);
	json_u64(j, "waiting", moved.waiting);
	json_bool(j, "host_full", moved_waits_for_host(e, &moved));
	json_known_u64(j, "out_ns", moved.out_ns);
	json_known_u64(j, "back_ns", moved.back_ns);
	json_close(j, '}');
}

/* Memory of the machine that GPUs have pinned. */
static void tenants_json_put_host(struct json *j, const struct snapshot_host *h)
{
	if (!json_open_if(j, "gtt", h->known))
		return;
	json_u64(j, "used_bytes", h->used_bytes);
	json_u64(j, "gtt_bytes", h->gtt_bytes);
	json_u64(j, "userptr_bytes", h->userptr_bytes);
	json_u64(j, "peak_bytes", h->peak_bytes);
	json_u64(j, "refusals", h->refusals);
	json_close(j, '}');
}

/* NULL if the tenant is not swappable; transitions are named by their direction. */
static const char *const tenants_json_states[SWAP_STATES] = {
	[SWAP_RUNNING] = "running",	  [SWAP_SUSPENDING] = "suspending",
	[SWAP_READY] = "suspending",	  [SWAP_SUSPENDED] = "suspended",
	[SWAP_RESUMING] = "resuming",	  [SWAP_RETURNED] = "resuming",
};

static void tenants_json_put_process(struct json *j, const struct snapshot *snapshot,
				const struct snapshot_process *p)
{
	json_open(j, NULL, '{');
	json_u64(j, "pid", p->info.pid);
	json_known_u64(j, "host_pid", p->host_pid);
	json_text(j, "name", p->info.comm);
	json_text(j, "command", p->info.command);
	json_text(j, "state", tenants_json_states[p->swap]);
	json_open(j, "devices", '[');
	for (int d = 0; d < snapshot->ndevices; d++) {
		const struct snapshot_process_device *use = &p->device[d];

		if (!use->used_bytes && !use->shared_bytes && !use->driver_bytes &&
		    !use->host_bytes && !use->out_bytes)
			continue;
		json_open(j, NULL, '{');
		json_text(j, "uuid", units_uuid(snapshot->device[d].uuid).s);
		json_u64(j, "used_bytes", use->used_bytes);
		tenants_json_put_categories(j, use->used);
		json_u64(j, "pending_bytes", use->pending);
		json_u64(j, "shared_bytes", use->shared_bytes);
		json_known_u64(j, "driver_bytes", use->driver_bytes);
		json_u64(j, "host_bytes", use->host_bytes);
		json_u64(j, "suspended_bytes", use->out_bytes);
		json_close(j, '}');
	}
	json_close(j, ']');
	json_close(j, '}');
}

static void tenants_json_put_waits(struct json *j, const struct snapshot *v)
{
	const struct turn_waits *w = &v->waits;

	if (!json_open_if(j, "waits", w->at_ns && v->policy.compute != POLICY_COMPUTE_OFF))
		return;
	json_u64(j, "n", w->n);
	json_u64_if(j, "p50_us", w->n, w->p50_us);
	json_u64_if(j, "p99_us", w->n, w->p99_us);
	json_u64_if(j, "longest_us", w->n, w->longest_us);
	json_known_u64(j, "behind_us", w->behind_us);
	json_text(j, "behind", *w->behind ? w->behind : NULL);
	json_u64_if(j, "least_latency_us", w->least_us != TURN_LATENCY_NONE, w->least_us);
	json_close(j, '}');
}

static void tenants_json_put_snapshot(struct json *j, const struct snapshot *v)
{
	tenants_json_put_policy(j, &v->policy);
	tenants_json_put_waits(j, v);
	tenants_json_put_host(j, &v->host);
	json_open(j, "devices", '[');
	for (int i = 0; i < v->ndevices; i++)
		tenants_json_put_device(j, &v->device[i]);
	json_close(j, ']');
	json_open(j, "processes", '[');
	for (int i = 0; i < v->nprocesses; i++)
		if (v->process[i].live)
			tenants_json_put_process(j, v, &v->process[i]);
	json_close(j, ']');
}

static void tenants_json_put_pod(struct json *j, const struct pod *pod)
{
	if (!json_open_if(j, "pod", *pod->name))
		return;
	json_text(j, "namespace", pod->space);
	json_text(j, "name", pod->name);
	json_text(j, "container", *pod->container ? pod->container : NULL);
	json_text(j, "uid", *pod->uid ? pod->uid : NULL);
	json_close(j, '}');
}

void tenants_json_tenant(struct json *j, const struct tenant_entry *e)
{
	uid_t owner = 0;
	bool owned = tenant_name_owner(e->name, &owner);

	json_open(j, NULL, '{');
	json_text(j, "name", e->name);
	json_u64_if(j, "uid", owned, owner);
	json_text(j, "directory", e->dir);
	json_text(j, "container", *e->container ? e->container : NULL);
	tenants_json_put_pod(j, &e->pod);
	json_bool(j, "apart", e->apart);
	json_bool(j, "generated", e->generated);
	json_text(j, "state", tenants_state_word(e));
	json_text(j, "error", e->error ? tenants_error_words(e->error) : NULL);
	if (e->snapshot) {
		tenants_json_put_swap(j, e);
		tenants_json_put_snapshot(j, e->snapshot);
	}
	json_close(j, '}');
}

void tenants_json_begin(struct json *j, const struct tenants *tenants)
{
	json_u64(j, "version", TENANTS_JSON_VERSION);
	json_text(j, "runtime_dir", tenants->runtime);
	json_open(j, "tenants", '[');
	for (size_t i = 0; i < tenants->n; i++)
		tenants_json_tenant(j, &tenants->list[i]);
	json_close(j, ']');
}

void tenants_json_outsider(struct json *j, const struct outsider_found *f)
{
	const struct outsider *o = &f->outsider;

	json_open(j, NULL, '{');
	json_text(j, "uuid", units_uuid(o->uuid).s);
	json_u64(j, "pid", (uint64_t)o->pid);
	json_u64_if(j, "driver_bytes", o->bytes != UINT64_MAX, o->bytes);
	json_text(j, "standing", outsider_standing_word(o->standing));
	json_text(j, "tenant", *o->tenant ? o->tenant : NULL);
	json_u64(j, "ledger_bytes", o->ledger_bytes);
	json_text(j, "user", f->process.user);
	json_text(j, "container", *f->process.container ? f->process.container : NULL);
	json_text(j, "command", f->process.command);
	json_close(j, '}');
}
