/* SPDX-License-Identifier: Apache-2.0 */
/* Section [kubernetes] of the site's file, line by line. */
#include <errno.h>
#include <string.h>

#include "kube/state/conf.h"
#include "tests/check.h"

static struct kube_conf conf;
static char why[KUBE_CONF_WHY];

static int take(const char *key, const char *value)
{
	*why = '\0';
	return kube_conf_take(&conf, key, value, why);
}

static void refused(int error, const char *words)
{
	CHECK_EQ(error, -EINVAL);
	if (!strstr(why, words))
		fprintf(stderr, "\"%s\" is not in \"%s\"\n", words, why);
	CHECK(strstr(why, words));
}

static void fresh(void)
{
	memset(&conf, 0, sizeof(conf));
}

static void check_usual(void)
{
	fresh();
	refused(kube_conf_complete(&conf, why), "ways");
	CHECK_EQ(take("ways", "device-plugin"), 0);
	CHECK_EQ(kube_conf_complete(&conf, why), 0);
	CHECK_EQ(conf.ways, KUBE_PLUGIN);
	CHECK_EQ(conf.scheduler, KUBE_STOCK);
	CHECK_EQ(conf.nresources, 3);
	CHECK_EQ(conf.resource[1].unit, KUBE_MEMORY);
	CHECK_EQ(conf.resource[1].amount, UINT64_C(1) << 30);
	CHECK(!strcmp(conf.driver, "gpu.allot.dev"));
	CHECK(!strcmp(conf.xpu, "/etc/xpu"));
	CHECK(*conf.node);
	CHECK(!conf.claims_high && !conf.cores_limit);
}

static void check_said(void)
{
	fresh();
	CHECK_EQ(take("ways", "  dra\tdevice-plugin "), 0);
	CHECK_EQ(take("resource", "volcano.sh/vgpu-number slots 4"), 0);
	CHECK_EQ(take("resource", "volcano.sh/vgpu-memory memory 512MiB"), 0);
	CHECK_EQ(take("scheduler", "volcano"), 0);
	CHECK_EQ(take("cores", "limit"), 0);
	CHECK_EQ(take("priority-max", "high"), 0);
	CHECK_EQ(take("kubelet", "/k"), 0);
	CHECK_EQ(take("node", "n1"), 0);
	CHECK_EQ(kube_conf_complete(&conf, why), 0);
	CHECK_EQ(conf.ways, KUBE_DRA | KUBE_PLUGIN);
	CHECK_EQ(conf.nresources, 2);
	CHECK_EQ(conf.resource[1].amount, UINT64_C(512) << 20);
	CHECK(conf.cores_limit && conf.claims_high);
	/* Nobody looks for such a file by these names. */
	CHECK(!*conf.xpu);
	CHECK(!strcmp(conf.node, "n1"));
}

static void check_mounts(void)
{
	fresh();
	refused(take("delivery", "nri"), "cdi, mounts");
	CHECK_EQ(take("delivery", "mounts"), 0);
	CHECK_EQ(take("ways", "device-plugin"), 0);
	CHECK_EQ(take("resource", "a.b/c slots 4"), 0);
	CHECK_EQ(kube_conf_complete(&conf, why), 0);
	CHECK(conf.by_mounts && !strcmp(conf.xpu, "/etc/xpu"));
	CHECK_EQ(take("scheduler", "hami"), 0);
	refused(kube_conf_complete(&conf, why), "scheduler = stock");
	CHECK_EQ(take("scheduler", "stock"), 0);
	CHECK_EQ(take("ways", "dra device-plugin"), 0);
	refused(kube_conf_complete(&conf, why), "ways = device-plugin");
}

static void check_wrong(void)
{
	char text[2048];

	fresh();
	CHECK_EQ(take("wayss", "dra"), -ENOENT);
	refused(take("ways", "dra plugin"), "\"plugin\"");
	refused(take("ways", " "), "dra, device-plugin");
	refused(take("scheduler", "mine"), "stock, volcano, hami, xpu");
	refused(take("cores", ""), "share, limit");
	refused(take("resource", "a.b/c slots"), "how much one is");
	refused(take("resource", "a.b/c slots 0"), "slots are 1 to 1000");
	refused(take("resource", "a.b/c memory 50%"), "memory a size");
	refused(take("resource", "a.b/c cores 101"), "cores 1 to 100");
	refused(take("resource", "nodomain slots 1"), "a resource's name");
	refused(take("resource", "a.b/../c slots 1"), "a resource's name");
	refused(take("resource", "a.b/c slots 1 more"), "how much one is");
	CHECK_EQ(take("resource", "a.b/c memory 1GiB"), 0);
	refused(take("resource", "a.b/d memory 1GiB"), "is there already, a.b/c");
	refused(take("kubelet", "var/lib"), "from the top");
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	refused(take("driver", text), "too long");
	text[300] = '\0';
	refused(take("driver", text), "no longer than 253");
	/* Memory alone gives nobody a GPU. */
	CHECK_EQ(take("ways", "dra"), 0);
	refused(kube_conf_complete(&conf, why), "none is of slots");
}

int main(void)
{
	check_usual();
	check_said();
	check_mounts();
	check_wrong();
	return 0;
}
