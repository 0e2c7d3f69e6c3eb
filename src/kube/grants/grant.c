/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/grants/grant.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "amd/identity.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/parse.h"
#include "cdi/find.h"
#include "cdi/spec.h"
#include "kube/grants/vgpu_config.h"
#include "kube/grants/xpu_folder.h"
#include "ledger/tenant.h"
#include "node/library.h"
#include "node/process/pod.h"
#include "node/tenants.h"
#include "text/units.h"

_Static_assert(GRANT_ID_BYTES == POD_GRANT_BYTES, "a tenant's note has a grant's id");

/* --- Names ------------------------------------------------------------------------------------ */

/* As much of each as a third of the room has. */
void grant_name(const char *space, const char *of, const char *part, const char *unique,
		char ret[static POLICY_NAME_BYTES])
{
	uint64_t hash = hash_string(HASH_SEED, unique);
	int third = (POLICY_NAME_BYTES - 1 - 3 - 8) / 3;

	snprintf(ret, POLICY_NAME_BYTES, "%.*s.%.*s.%.*s-%08" PRIx32, third, space, third, of, third,
		 part, (uint32_t)(hash ^ hash >> 32));
	for (char *c = ret; *c; c++)
		if (!isalnum((unsigned char)*c) && *c != '.' && *c != '-' && *c != '_')
			*c = '_';
	if (!isalnum((unsigned char)*ret))
		*ret = '0';
}

/* Returns true if CDI and tenants' notes take it for a name; no path leads out of a directory by it. */
static bool grant_is_id(const char *id)
{
	size_t n = strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");

	return n && n < GRANT_ID_BYTES && !id[n] && isalnum((unsigned char)*id) &&
	       isalnum((unsigned char)id[n - 1]);
}

#define grant_refuse(why, error, ...) err_say(why, GRANT_WHY, error, __VA_ARGS__)

/* --- A policy as the hook's options ------------------------------------------------------------ */

#define VALUE_BYTES 24 /* of a limit, with its comma */
#define OPTIONS	    12

struct grant_words {
	char memory[POLICY_DEVICES * VALUE_BYTES], compute[POLICY_DEVICES * VALUE_BYTES], weight[16];
	size_t n;
	struct cdi_option option[OPTIONS];
};

static void grant_add(struct grant_words *w, const char *option, const char *value)
{
	w->option[w->n++] = (struct cdi_option){option, value};
}

/* "12.5": tenths of a percent are what permille are. */
static int grant_print_permille(char *out, uint32_t permille, const char *unit)
{
	return sprintf(out, "%" PRIu32 ".%" PRIu32 "%s", permille / 10, permille % 10, unit);
}

static void grant_put_memory(struct grant_words *w, const struct policy *policy)
{
	char *out = w->memory;

	for (uint32_t i = 0; i < policy->ndevices; i++) {
		const struct policy_device *d = &policy->device[i];

		if (i)
			*out++ = ',';
		out += d->limit_bytes ? sprintf(out, "%" PRIu64, d->limit_bytes)
				      : grant_print_permille(out, d->limit_permille, "%");
	}
	grant_add(w, "--memory", w->memory);
}

static void grant_put_compute(struct grant_words *w, const struct policy *policy)
{
	char *out = w->compute;

	if (policy->compute == POLICY_COMPUTE_OFF)
		return;
	grant_add(w, "--policy", policy->compute == POLICY_COMPUTE_CAP ? "cap" : "share");
	if (policy->weight) {
		snprintf(w->weight, sizeof(w->weight), "%" PRIu32, policy->weight);
		grant_add(w, "--weight", w->weight);
		return;
	}
	for (uint32_t i = 0; i < policy->ndevices; i++) {
		if (i)
			*out++ = ',';
		out += grant_print_permille(out, policy->device[i].share_permille, "");
	}
	grant_add(w, "--compute", w->compute);
}

static void grant_describe(const struct grant *grant, struct grant_words *ret)
{
	const struct policy *p = &grant->policy;

	ret->n = 0;
	grant_add(ret, "--tenant", p->name);
	grant_add(ret, "--grant", grant->id);
	grant_put_memory(ret, p);
	grant_put_compute(ret, p);
	if (p->priority != POLICY_PRIORITY_NORMAL)
		grant_add(ret, "--priority", p->priority == POLICY_PRIORITY_HIGH ? "high" : "low");
	if (p->mode == POLICY_MODE_SPACE)
		grant_add(ret, "--mode", "space");
	if (p->flags & POLICY_OVERCOMMIT)
		grant_add(ret, "--overcommit", NULL);
	else if (p->flags & POLICY_SWAPPABLE)
		grant_add(ret, "--swappable", NULL);
	if (*grant->memo)
		grant_add(ret, "--memo", grant->memo);
}

/* --- Files ------------------------------------------------------------------------------------ */

struct grant_files {
	char command[PATH_MAX], library[PATH_MAX], preload[PATH_MAX];
};

static int grant_find_files(struct grant_files *ret, char why[static GRANT_WHY])
{
	int r = library_command(ret->command);

	if (r == 0)
		r = library_find(ret->library);
	if (r == 0)
		r = library_preload_list(ret->preload);
	if (r < 0)
		return grant_refuse(why, r, "allot, liballot.so or its ld.so.preload is not beside this allotd: "
				    "%s; install all of it on the node", strerror(-r));
	library_find_kept(ret->library);
	return 0;
}

/* Of AMD's their nodes stand in the file, so they are looked up. */
static int grant_list_devices(const struct grant *grant, struct devices *ret, char why[static GRANT_WHY])
{
	static struct devices amd;
	bool amd_read = false;

	ret->n = 0;
	for (uint32_t i = 0; i < grant->policy.ndevices; i++) {
		const uint8_t *uuid = grant->policy.device[i].uuid;
		struct device *device = &ret->list[ret->n++];
		const struct device *found;

		*device = (struct device){.vendor = DEVICE_NVIDIA};
		memcpy(device->uuid, uuid, sizeof(device->uuid));
		if (!amd_identity_is(uuid))
			continue;
		if (!amd_read)
			devices_read_amd(&amd);
		amd_read = true;
		found = devices_find(&amd, uuid);
		if (!found)
			return grant_refuse(why, -ENODEV, "%s: the kernel does not list it", units_uuid(uuid).s);
		*device = *found;
	}
	return 0;
}

static int grant_check(const struct grant *grant, char why[static GRANT_WHY])
{
	if (!grant_is_id(grant->id))
		return grant_refuse(why, -EINVAL, "\"%s\" is no name of a grant", grant->id);
	if (grant->policy.flags & POLICY_ALL_DEVICES || policy_check(&grant->policy) < 0)
		return grant_refuse(why, -EINVAL, "grant %s: no policy can say that", grant->id);
	return 0;
}

/* 0, -ENOENT, -EINVAL as grant_memo. To be freed by json_decref. */
static int grant_load(const struct kube_conf *conf, const char *id, json_t **ret)
{
	char path[PATH_MAX];
	json_error_t error;
	int r = grant_is_id(id) ? cdi_spec_path(conf->cdi, CDI_GRANT, id, path) : -EINVAL;

	if (r < 0)
		return r;
	if (access(path, F_OK) < 0)
		return -errno;
	*ret = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
	return *ret ? 0 : -EINVAL;
}

/* --- Folders of vgpu.config -------------------------------------------------------------------- */

/* "": it has no folder of vgpu.config in the site's one. */
static void grant_find_xpu(const struct kube_conf *conf, const char *id, char ret[static PATH_MAX])
{
	json_t *spec = NULL;

	*ret = 0;
	if (grant_load(conf, id, &spec) == 0)
		xpu_folder_find(conf, spec, ret);
	json_decref(spec);
}

/* That of the Pod that had the slot before. */
static void grant_remove_former_xpu(const struct kube_conf *conf, const char *id, const char *xpu)
{
	static char former[PATH_MAX];

	grant_find_xpu(conf, id, former);
	if (*former && strcmp(former, xpu) != 0)
		xpu_folder_remove(conf, former);
}

static int grant_write_spec(const struct kube_conf *conf, const struct grant *grant, const struct grant_files *files,
			    const char *xpu, char why[static GRANT_WHY])
{
	static struct devices devices;
	static struct grant_words words;
	struct cdi_spec spec = {.class = CDI_GRANT,
				.name = grant->id,
				.devices = &devices,
				.named = true,
				.by_variable = !strcmp(conf->nvidia_cdi, "none"),
				.command = files->command,
				.library = files->library,
				.preload = files->preload,
				.xpu = *xpu ? xpu : NULL};
	int r = grant_list_devices(grant, &devices, why);

	if (r < 0)
		return r;
	grant_describe(grant, &words);
	spec.options = words.option;
	spec.noptions = words.n;
	r = cdi_spec_write(conf->cdi, &spec);
	return r < 0 ? grant_refuse(why, r, "grant %s cannot be written into %s: %s", grant->id, conf->cdi,
				    strerror(-r))
		     : 0;
}

static int grant_refuse_xpu(const struct kube_conf *conf, const struct grant *grant, int error,
			    char why[static GRANT_WHY])
{
	return grant_refuse(why, error, "grant %s: vgpu.config, or what is mounted with it, cannot be written into %s: %s",
			    grant->id, conf->xpu, strerror(-error));
}

/*
 * The file alone names the folder: so a folder goes before the file that names it, and is made behind it. A writer
 * that is killed in between leaves no folder that nothing names.
 */
int grant_put(const struct kube_conf *conf, const struct grant *grant, char why[static GRANT_WHY])
{
	static char xpu[PATH_MAX];
	static struct grant_files files;
	int r = grant_check(grant, why);

	if (r == 0)
		r = grant_find_files(&files, why);
	if (r < 0)
		return r;
	*xpu = 0;
	if (grant->xpu)
		r = xpu_folder_choose(conf, &grant->policy, *grant->folder.name ? grant->folder.name : grant->id, xpu);
	if (r < 0)
		return grant_refuse_xpu(conf, grant, r, why);
	grant_remove_former_xpu(conf, grant->id, xpu);
	r = grant_write_spec(conf, grant, &files, xpu, why);
	if (r < 0 || !*xpu)
		return r;
	r = xpu_folder_write(conf, &grant->policy, grant->folder.ids, files.library, xpu);
	return r < 0 ? grant_refuse_xpu(conf, grant, r, why) : 0;
}

int grant_mounts(const struct kube_conf *conf, const char *id, struct grant_mounts *ret,
		 char why[static GRANT_WHY])
{
	int r = grant_is_id(id) ? xpu_folder_path(conf, id, ret->folder) : -EINVAL;

	if (r == 0)
		r = xpu_folder_path(conf, VGPU_CONFIG_LIBRARY, ret->library);
	if (r == 0)
		r = xpu_folder_path(conf, VGPU_CONFIG_PRELOAD, ret->preload);
	return r < 0 ? grant_refuse(why, r, "grant %s has no path in %s: %s", id, conf->xpu, strerror(-r)) : 0;
}

int grant_put_beside(const struct kube_conf *conf, const char *id, const char *of,
		     char why[static GRANT_WHY])
{
	int r = grant_is_id(id) && grant_is_id(of) ? 0 : -EINVAL;

	if (r == 0) {
		grant_remove_former_xpu(conf, id, "");
		r = cdi_spec_write_beside(conf->cdi, CDI_GRANT, id, of);
	}
	return r < 0 ? grant_refuse(why, r, "grant %s cannot be written into %s: %s", id, conf->cdi,
				    strerror(-r))
		     : 0;
}

int grant_sweep_files(const struct kube_conf *conf)
{
	return cdi_spec_sweep(conf->cdi, CDI_GRANT);
}

struct grant_listing {
	const char *prefix;
	int (*fn)(const char *id, void *arg);
	void *arg;
};

static int grant_list_one(const char *id, void *arg)
{
	const struct grant_listing *listing = arg;

	if (strncmp(id, listing->prefix, strlen(listing->prefix)) || !grant_is_id(id))
		return 0;
	return listing->fn(id, listing->arg);
}

int grant_list(const struct kube_conf *conf, const char *prefix, int (*fn)(const char *id, void *arg),
	       void *arg)
{
	struct grant_listing listing = {prefix, fn, arg};

	return cdi_spec_list(conf->cdi, CDI_GRANT, grant_list_one, &listing);
}

/* The word behind an option in the hook's; "" where it has none, NULL where there is no hook. */
static const char *grant_find_word(const json_t *spec, const char *option)
{
	const json_t *device = json_array_get(json_object_get(spec, "devices"), 0);
	const json_t *edits = json_object_get(device, "containerEdits");
	const json_t *hook = json_array_get(json_object_get(edits, "hooks"), 0);
	const json_t *args = json_object_get(hook, "args"), *word;
	bool next = false;
	size_t i;

	json_array_foreach (args, i, word) {
		const char *text = json_string_value(word);

		if (next || !text)
			return text;
		next = !strcmp(text, option);
	}
	return hook ? "" : NULL;
}

static int grant_read_word(const struct kube_conf *conf, const char *id, const char *option, char *ret,
			   size_t size)
{
	const char *word;
	json_t *spec;
	int r = grant_load(conf, id, &spec);

	if (r < 0)
		return r;
	word = grant_find_word(spec, option);
	if (!word || strlen(word) >= size)
		r = -EINVAL;
	else
		strcpy(ret, word);
	json_decref(spec);
	return r;
}

int grant_memo(const struct kube_conf *conf, const char *id, char ret[static GRANT_MEMO_BYTES])
{
	return grant_read_word(conf, id, "--memo", ret, GRANT_MEMO_BYTES);
}

static const struct node_device *grant_find_device(const struct node_devices *devices, const char *name)
{
	for (unsigned int i = 0; i < devices->n; i++)
		if (!strcmp(units_uuid(devices->list[i].device.uuid).s, name))
			return &devices->list[i];
	return NULL;
}

/* Of a device that is not here any more nothing is had. */
static int grant_take_memory(const struct node_devices *devices, const char *name, const char *amount,
			     uint64_t ret_bytes[static POLICY_DEVICES])
{
	const struct node_device *device = grant_find_device(devices, name);
	struct size_spec size;

	if (!amount || parse_quota(amount, &size) < 0)
		return -EINVAL;
	if (device)
		ret_bytes[device - devices->list] =
			size.permille ? device->device.total_bytes / 1000 * size.permille : size.bytes;
	return 0;
}

int grant_read_memory(const struct kube_conf *conf, const char *id, const struct node_devices *devices,
		      uint64_t ret_bytes[static POLICY_DEVICES])
{
	static char names[POLICY_DEVICES * sizeof(struct units_text)];
	static char amounts[POLICY_DEVICES * VALUE_BYTES];
	char *name, *amount, *rest = names, *others = amounts;
	int r = grant_read_word(conf, id, "--gpu", names, sizeof(names));

	memset(ret_bytes, 0, POLICY_DEVICES * sizeof(*ret_bytes));
	if (r == 0)
		r = grant_read_word(conf, id, "--memory", amounts, sizeof(amounts));
	while (r == 0 && (name = strsep(&rest, ","))) {
		amount = strsep(&others, ",");
		r = grant_take_memory(devices, name, amount, ret_bytes);
	}
	return r;
}

/* --- Its end ----------------------------------------------------------------------------------- */

int grant_drop(const struct kube_conf *conf, const char *id, char why[static GRANT_WHY])
{
	char xpu[PATH_MAX] = "";
	int r = grant_is_id(id) ? 0 : -EINVAL;

	if (r == 0)
		grant_find_xpu(conf, id, xpu);
	xpu_folder_remove(conf, xpu);
	if (r == 0)
		r = cdi_spec_remove(conf->cdi, CDI_GRANT, id);
	if (r == -ENOENT)
		return 0;
	return r < 0 ? grant_refuse(why, r, "grant %s cannot be removed from %s: %s", id, conf->cdi,
				    strerror(-r))
		     : 0;
}

/* --- Tenants ----------------------------------------------------------------------------------- */

struct grant_sweeping {
	const struct kube_conf *conf;
	const char *runtime;
	unsigned int left;
};

/* A slot's grant may be the next container's by now, which has another tenant. */
static bool grant_is_of_another(const struct kube_conf *conf, const char *id, const char *tenant)
{
	char now[POLICY_NAME_BYTES];
	int r = grant_read_word(conf, id, "--tenant", now, sizeof(now));

	return r == -ENOENT || (r == 0 && *now && strcmp(now, tenant));
}

static int grant_sweep_one(const char *name, const char *dir, void *arg)
{
	struct grant_sweeping *sweeping = arg;
	char id[POD_GRANT_BYTES];
	int r;

	if (pod_read_grant(dir, id) < 0 || !grant_is_of_another(sweeping->conf, id, name))
		return 0;
	r = tenants_remove(sweeping->runtime, name, false);
	sweeping->left += r < 0 && r != -ENOENT;
	return 0;
}

unsigned int grant_sweep(const struct kube_conf *conf, const char *runtime)
{
	struct grant_sweeping sweeping = {conf, runtime, 0};

	/* Without its directory nothing is known of grants. */
	if (access(conf->cdi, F_OK) == 0)
		tenant_list(runtime, grant_sweep_one, &sweeping);
	return sweeping.left;
}

/* --- What a container is to ask for ------------------------------------------------------------- */

static const char *const known_kinds[] = {"nvidia.com/gpu", "k8s.device-plugin.nvidia.com/gpu",
					  "management.nvidia.com/gpu"};

/* Which kind NVIDIA's own device has; NULL: none is there. */
static const char *grant_find_kind(const struct kube_conf *conf, const char *name)
{
	if (*conf->nvidia_cdi)
		return conf->nvidia_cdi;
	for (size_t i = 0; i < sizeof(known_kinds) / sizeof(known_kinds[0]); i++)
		if (cdi_dir_has(conf->cdi, known_kinds[i], name) ||
		    cdi_dir_has("/etc/cdi", known_kinds[i], name))
			return known_kinds[i];
	return NULL;
}

static int grant_add_nvidia(const struct kube_conf *conf, const uint8_t uuid[static 16],
			    struct grant_names *ret, char why[static GRANT_WHY])
{
	struct units_text name = units_uuid(uuid);
	const char *kind = grant_find_kind(conf, name.s);

	if (!kind)
		return grant_refuse(why, -ENODEV, "no CDI file in %s or /etc/cdi brings NVIDIA's driver for %s; "
				    "run nvidia-ctk cdi generate with --device-name-strategy=uuid, or say "
				    "nvidia-cdi = none in allotd.conf where a runtime class brings it",
				    conf->cdi, name.s);
	snprintf(ret->name[ret->n++], sizeof(ret->name[0]), "%s=%s", kind, name.s);
	return 0;
}

int grant_names(const struct kube_conf *conf, const struct grant *grant, struct grant_names *ret,
		char why[static GRANT_WHY])
{
	int r = 0;

	ret->n = 1;
	snprintf(ret->name[0], sizeof(ret->name[0]), GRANT_KIND "=%s", grant->id);
	if (!strcmp(conf->nvidia_cdi, "none"))
		return 0;
	for (uint32_t i = 0; r == 0 && i < grant->policy.ndevices; i++)
		if (!amd_identity_is(grant->policy.device[i].uuid))
			r = grant_add_nvidia(conf, grant->policy.device[i].uuid, ret, why);
	return r;
}
