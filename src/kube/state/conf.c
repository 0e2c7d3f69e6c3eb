/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/state/conf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/parse.h"

static const char *const ways[] = {"dra", "device-plugin"};
static const char *const schedulers[] = {
	[KUBE_STOCK] = "stock", [KUBE_VOLCANO] = "volcano", [KUBE_HAMI] = "hami", [KUBE_XPU] = "xpu"};
static const char *const units[] = {[KUBE_SLOTS] = "slots", [KUBE_MEMORY] = "memory", [KUBE_CORES] = "cores"};
static const char *const cores[] = {"share", "limit"};
static const char *const priorities[] = {"normal", "high"};
static const char *const deliveries[] = {"cdi", "mounts"}; /* by_mounts */

#define LENGTH(array) (int)(sizeof(array) / sizeof((array)[0]))
#define SLOTS_MOST    1000

#define conf_refuse(why, ...) err_say(why, KUBE_CONF_WHY, -EINVAL, __VA_ARGS__)

static int conf_take_ways(struct kube_conf *conf, char *text, char why[static KUBE_CONF_WHY])
{
	char *word;
	int i;

	conf->ways = 0;
	while ((word = strsep(&text, " \t"))) {
		i = *word ? parse_word(word, ways, LENGTH(ways)) : 0;
		if (i < 0)
			return conf_refuse(why, "\"%s\": write dra, device-plugin, or both", word);
		if (*word)
			conf->ways |= 1u << i;
	}
	return conf->ways ? 0 : conf_refuse(why, "write dra, device-plugin, or both");
}

/* "huawei.com/vgpu-number": a domain, a slash and a name. */
static int conf_check_name(const char *name)
{
	const char *slash = strchr(name, '/');

	if (!slash || slash == name || !slash[1] || strchr(slash + 1, '/') ||
	    strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/") !=
		    strlen(name) ||
	    strlen(slash + 1) > 63 || strlen(name) >= KUBE_NAME_BYTES)
		return -EINVAL;
	return 0;
}

static int conf_take_amount(const char *text, struct kube_resource *resource)
{
	struct size_spec size;

	switch (resource->unit) {
	case KUBE_SLOTS:
		return parse_u64(text, 1, SLOTS_MOST, &resource->amount);
	case KUBE_MEMORY:
		if (parse_quota(text, &size) < 0 || size.permille)
			return -EINVAL;
		resource->amount = size.bytes;
		return 0;
	case KUBE_CORES:
		return parse_u64(text, 1, 100, &resource->amount);
	}
	return -EINVAL;
}

static int conf_take_resource(struct kube_conf *conf, char *text, char why[static KUBE_CONF_WHY])
{
	char *rest = NULL, *name = strtok_r(text, " \t", &rest), *unit = strtok_r(NULL, " \t", &rest);
	char *amount = strtok_r(NULL, " \t", &rest);
	struct kube_resource *resource = &conf->resource[conf->nresources];
	int i = unit ? parse_word(unit, units, LENGTH(units)) : -1;

	if (i < 0 || !amount || strtok_r(NULL, " \t", &rest))
		return conf_refuse(why, "write a name, one of slots, memory and cores, and how much one is, like "
					"huawei.com/vgpu-memory.1Gi memory 1GiB");
	if (conf_check_name(name) < 0)
		return conf_refuse(why, "\"%s\": a resource's name is like huawei.com/vgpu-number", name);
	if (conf->nresources == KUBE_RESOURCES)
		return conf_refuse(why, "%s: there are %d already", name, KUBE_RESOURCES);
	for (size_t k = 0; k < conf->nresources; k++)
		if (!strcmp(conf->resource[k].name, name) || conf->resource[k].unit == (enum kube_unit)i)
			return conf_refuse(why, "%s: a resource of that name or unit is there already, %s", name,
					   conf->resource[k].name);
	*resource = (struct kube_resource){.unit = (enum kube_unit)i};
	strcpy(resource->name, name);
	if (conf_take_amount(amount, resource) < 0)
		return conf_refuse(why, "%s: \"%s\" is not how much one is: slots are 1 to 1000 of each GPU, "
					"memory a size like 1GiB, cores 1 to 100 percent", name, amount);
	conf->nresources++;
	return 0;
}

static int conf_take_word(const char *text, const char *const *list, int n, int *ret,
			  char why[static KUBE_CONF_WHY])
{
	char all[128] = "";

	*ret = parse_word(text, list, n);
	if (*ret >= 0)
		return 0;
	for (int i = 0; i < n; i++)
		snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s%s", i ? ", " : "", list[i]);
	return conf_refuse(why, "write one of %s", all);
}

static int conf_take_text(const char *text, char *ret, size_t size, bool is_path,
			  char why[static KUBE_CONF_WHY])
{
	if (strlen(text) >= size || !*text || (is_path && *text != '/'))
		return conf_refuse(why, is_path ? "write a path from the top" : "write a name that is no longer "
									     "than 253 letters");
	strcpy(ret, text);
	return 0;
}

/* Keys whose value is a text as it stands. */
static const struct text_key {
	const char *key;
	size_t at, size; /* in struct kube_conf */
	bool is_path;
} text_keys[] = {
#define TEXT(key, field, is_path) \
	{key, offsetof(struct kube_conf, field), sizeof(((struct kube_conf *)0)->field), is_path}
	TEXT("driver", driver, false), TEXT("nvidia-cdi", nvidia_cdi, false), TEXT("node", node, false),
	TEXT("kubelet", kubelet, true), TEXT("cdi", cdi, true), TEXT("xpu", xpu, true),
	TEXT("api", api, false), TEXT("account", account, true),
#undef TEXT
};

static int conf_take_text_key(struct kube_conf *conf, const char *key, const char *text,
			      char why[static KUBE_CONF_WHY])
{
	for (int i = 0; i < LENGTH(text_keys); i++) {
		const struct text_key *k = &text_keys[i];

		if (!strcmp(key, k->key))
			return conf_take_text(text, (char *)conf + k->at, k->size, k->is_path, why);
	}
	return -ENOENT;
}

int kube_conf_take(struct kube_conf *conf, const char *key, const char *value,
		   char why[static KUBE_CONF_WHY])
{
	char text[1024];
	int i = 0, r;

	if (snprintf(text, sizeof(text), "%s", value) >= (int)sizeof(text))
		return conf_refuse(why, "it is too long");
	if (!strcmp(key, "ways"))
		return conf_take_ways(conf, text, why);
	if (!strcmp(key, "resource"))
		return conf_take_resource(conf, text, why);
	if (!strcmp(key, "scheduler")) {
		r = conf_take_word(text, schedulers, LENGTH(schedulers), &i, why);
		if (r == 0)
			conf->scheduler = (enum kube_scheduler)i;
		return r;
	}
	if (!strcmp(key, "cores")) {
		r = conf_take_word(text, cores, LENGTH(cores), &i, why);
		if (r == 0)
			conf->cores_limit = i;
		return r;
	}
	if (!strcmp(key, "delivery")) {
		r = conf_take_word(text, deliveries, LENGTH(deliveries), &i, why);
		if (r == 0)
			conf->by_mounts = i;
		return r;
	}
	if (!strcmp(key, "priority-max")) {
		r = conf_take_word(text, priorities, LENGTH(priorities), &i, why);
		if (r == 0)
			conf->claims_high = i;
		return r;
	}
	return conf_take_text_key(conf, key, text, why);
}

static void conf_default(char *ret, size_t size, const char *value)
{
	if (!*ret)
		snprintf(ret, size, "%s", value);
}

/* Those of the first system of this kind, see the manual. */
static void conf_default_resources(struct kube_conf *conf)
{
	static const struct kube_resource usual[] = {
		{"huawei.com/vgpu-number", KUBE_SLOTS, 10},
		{"huawei.com/vgpu-memory.1Gi", KUBE_MEMORY, UINT64_C(1) << 30},
		{"huawei.com/vgpu-cores", KUBE_CORES, 1},
	};

	if (conf->nresources)
		return;
	memcpy(conf->resource, usual, sizeof(usual));
	conf->nresources = LENGTH(usual);
}

static void conf_default_xpu(struct kube_conf *conf)
{
	for (size_t i = 0; i < conf->nresources; i++)
		if (!strncmp(conf->resource[i].name, "huawei.com/", strlen("huawei.com/")))
			conf_default(conf->xpu, sizeof(conf->xpu), "/etc/xpu");
}

/* A scheduler's decision is known when the container starts, and then its mounts are. */
static int conf_check_mounts(struct kube_conf *conf, char why[static KUBE_CONF_WHY])
{
	if (!conf->by_mounts)
		return 0;
	if (conf->ways != KUBE_PLUGIN || conf->scheduler != KUBE_STOCK)
		return conf_refuse(why, "delivery = mounts: that needs ways = device-plugin and scheduler = stock; the "
					"others need a runtime with CDI");
	conf_default(conf->xpu, sizeof(conf->xpu), "/etc/xpu");
	return 0;
}

void kube_node_name(char *ret, size_t size)
{
	const char *told = getenv("NODE_NAME");

	ret[size - 1] = '\0';
	if (told)
		snprintf(ret, size, "%s", told);
	else
		gethostname(ret, size - 1);
}

int kube_conf_complete(struct kube_conf *conf, char why[static KUBE_CONF_WHY])
{
	if (!conf->ways)
		return conf_refuse(why, "ways: write which, dra, device-plugin, or both");
	conf_default(conf->driver, sizeof(conf->driver), "gpu.allot.dev");
	conf_default(conf->kubelet, sizeof(conf->kubelet), "/var/lib/kubelet");
	conf_default(conf->cdi, sizeof(conf->cdi), "/var/run/cdi");
	conf_default(conf->account, sizeof(conf->account), "/var/run/secrets/kubernetes.io/serviceaccount");
	if (!*conf->node)
		kube_node_name(conf->node, sizeof(conf->node));
	conf_default_resources(conf);
	conf_default_xpu(conf);
	if (conf_check_mounts(conf, why) < 0)
		return -EINVAL;
	for (size_t i = 0; i < conf->nresources; i++)
		if (conf->resource[i].unit == KUBE_SLOTS)
			return 0;
	return conf_refuse(why, "resource: none is of slots, so no container would get a GPU");
}

const struct kube_resource *kube_conf_resource(const struct kube_conf *conf, const char *name)
{
	for (size_t i = 0; i < conf->nresources; i++)
		if (!strcmp(conf->resource[i].name, name))
			return &conf->resource[i];
	return NULL;
}
