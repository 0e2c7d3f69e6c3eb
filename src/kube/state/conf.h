/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The site's section [kubernetes] of /etc/allot/allotd.conf. Without the section
 * nothing is said to a kubelet.
 *
 *	[kubernetes]
 *	ways = dra device-plugin
 *	scheduler = volcano
 *	resource = huawei.com/vgpu-number slots 10
 *	resource = huawei.com/vgpu-memory.1Gi memory 1GiB
 *	resource = huawei.com/vgpu-cores cores 1
 *	cores = limit
 *
 * Further keys, of which each has a usual value: driver, delivery, nvidia-cdi, kubelet, cdi, xpu, priority-max,
 * api, account, node.
 */
#ifndef ALLOT_KUBE_STATE_CONF_H
#define ALLOT_KUBE_STATE_CONF_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum kube_way { KUBE_DRA = 1 << 0, KUBE_PLUGIN = 1 << 1 };

/* The scheduler of Pods with device plugins: one that leaves its decision in annotations, or the stock one. */
enum kube_scheduler { KUBE_STOCK, KUBE_VOLCANO, KUBE_HAMI, KUBE_XPU };

/* The unit that a device of a resource is for the kubelet. */
enum kube_unit {
	KUBE_SLOTS,  /* `amount` on each GPU: who has one has a part of that GPU */
	KUBE_MEMORY, /* of so many bytes */
	KUBE_CORES,  /* of so many percent of a GPU's time */
};

#define KUBE_RESOURCES 8
#define KUBE_NAME_BYTES 254 /* of what Kubernetes calls a DNS subdomain */

struct kube_resource {
	char name[KUBE_NAME_BYTES]; /* "huawei.com/vgpu-number" */
	enum kube_unit unit;
	uint64_t amount;
};

struct kube_conf {
	unsigned int ways; /* bits of enum kube_way; 0: Kubernetes is none of this daemon's affairs */
	enum kube_scheduler scheduler;
	bool claims_high; /* a claim may ask for priority high itself; else a DeviceClass alone gives that */
	/*
	 * The container's runtime knows nothing of CDI: library, limits and NVIDIA's variable come by Allocate's
	 * answer, and the library limits the container by its vgpu.config.
	 */
	bool by_mounts;
	bool cores_limit; /* of a resource of cores: the part is a cap; else it is what is guaranteed */
	char driver[KUBE_NAME_BYTES]; /* of dynamic resource allocation: "gpu.allot.dev" */
	/*
	 * Kind of the CDI devices by which NVIDIA's driver comes into a container, "nvidia.com/gpu"; "": the
	 * first of the known ones that is there; "none": it comes another way.
	 */
	char nvidia_cdi[KUBE_NAME_BYTES];
	char kubelet[PATH_MAX]; /* "/var/lib/kubelet" */
	char cdi[PATH_MAX];	/* where CDI files of ours go: "/var/run/cdi" */
	/*
	 * Where each container's vgpu.config is on the node, in a folder of its own: "/etc/xpu". "": its programs
	 * read none, as where no resource is called huawei.com/.
	 */
	char xpu[PATH_MAX];
	char api[PATH_MAX];	/* "https://10.96.0.1:443"; "": as a Pod is told */
	char account[PATH_MAX]; /* directory with token and ca.crt */
	char node[KUBE_NAME_BYTES];
	struct kube_resource resource[KUBE_RESOURCES];
	size_t nresources;
};

/* The node's name as a Pod is told it (NODE_NAME), or else the machine's. */
void kube_node_name(char *ret, size_t size);

#define KUBE_CONF_WHY 512

/* One line of the section. 0; -ENOENT: there is no such key; -EINVAL with words. Zeroed in the beginning. */
int kube_conf_take(struct kube_conf *conf, const char *key, const char *value,
		   char why[static KUBE_CONF_WHY]);
/* At its end: what was not said is as usual. 0, or -EINVAL with words. */
int kube_conf_complete(struct kube_conf *conf, char why[static KUBE_CONF_WHY]);

/* The resource of that name. NULL: it is none of ours. */
const struct kube_resource *kube_conf_resource(const struct kube_conf *conf, const char *name);

#endif
