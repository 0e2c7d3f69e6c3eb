/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A grant: what Kubernetes has given to a claim's request or to a container, as this node keeps it. It is one
 * file in CDI's directory, <vendor>-<class>-<id>.json, by which the container's runtime has `allot cdi hook`
 * make or join the tenant, with this policy. So the file is the whole record: it is there before the
 * container is, a container without it does not start, and the tenant is made anew from it where
 * /run was emptied.
 */
#ifndef ALLOT_KUBE_GRANTS_GRANT_H
#define ALLOT_KUBE_GRANTS_GRANT_H

#include <stdbool.h>

#include "kube/state/conf.h"
#include "kube/grants/vgpu_config.h"
#include "kube/grants/xpu_folder.h"
#include "kube/state/node.h"
#include "ledger/policy.h"

#define GRANT_KIND "allot.dev/grant" /* of the CDI device: GRANT_KIND "=" id */
#define GRANT_ID_BYTES 128
#define GRANT_MEMO_BYTES 4096
#define GRANT_WHY 512

/* A container's folder in the site's one. All zero: by the grant's id, with vgpu.config alone. */
struct grant_folder {
	char name[XPU_FOLDER_BYTES]; /* "<uid of the Pod>/<container>"; "": the id */
	char ids[VGPU_CONFIG_IDS_BYTES]; /* of vgpu-ids.config; "": there is no such file */
};

struct grant {
	char id[GRANT_ID_BYTES]; /* letters, digits, '.', '_', '-' */
	/* The limits of the container's programs; its `name` is the tenant's. */
	struct policy policy;
	bool xpu; /* its programs may look for /etc/xpu/vgpu.config */
	struct grant_folder folder; /* of that file */
	char memo[GRANT_MEMO_BYTES]; /* what its maker wants to find again; "": nothing */
};

/*
 * A tenant's name that people recognize: of a namespace, of a Pod or a claim there, and of a container or a
 * request, as far as they fit; no two have the same one by `unique`.
 */
void grant_name(const char *space, const char *of, const char *part, const char *unique,
		char ret[static POLICY_NAME_BYTES]);

/* 0, also where it is there already, or -errno with words: what failed, of which grant, and what to do. */
int grant_put(const struct kube_conf *conf, const struct grant *grant, char why[static GRANT_WHY]);

/*
 * Files of this machine for a container whose runtime has no CDI. grant_put makes all of them, and no upgrade takes
 * one away: a kubelet has a container mount them at each of its starts, by one answer.
 */
struct grant_mounts {
	char folder[PATH_MAX];	/* with vgpu.config */
	char preload[PATH_MAX]; /* a list for ld.so */
	char library[PATH_MAX];
};

/* 0, or -errno with words. */
int grant_mounts(const struct kube_conf *conf, const char *id, struct grant_mounts *ret,
		 char why[static GRANT_WHY]);

/*
 * A file for one more CDI device of a container that has that grant: a slot beside the first one. It
 * brings nothing.
 */
int grant_put_beside(const struct kube_conf *conf, const char *id, const char *of,
		     char why[static GRANT_WHY]);

/* 0, -ENOENT; -EINVAL: the file is none of ours. */
int grant_memo(const struct kube_conf *conf, const char *id, char ret[static GRANT_MEMO_BYTES]);

/* Memory that its container may have of each device, by the device's place. 0, -ENOENT, -EINVAL as grant_memo. */
int grant_read_memory(const struct kube_conf *conf, const char *id, const struct node_devices *devices,
		      uint64_t ret_bytes[static POLICY_DEVICES]);

/* Removes what writers of grants have left that were killed. -errno. */
int grant_sweep_files(const struct kube_conf *conf);

/* The file; the tenant goes by grant_sweep. 0, also where there is none, or -errno with words. */
int grant_drop(const struct kube_conf *conf, const char *id, char why[static GRANT_WHY]);

/* Calls fn for the id of each grant whose id begins so; its answer, if that is not 0, ends it. */
int grant_list(const struct kube_conf *conf, const char *prefix, int (*fn)(const char *id, void *arg),
	       void *arg);

/* Removes the tenants in `runtime` whose grants are no more and in which nothing lives: how many stay. */
unsigned int grant_sweep(const struct kube_conf *conf, const char *runtime);

/* The names of a container's CDI devices: ours, and NVIDIA's for each device of the policy. */
struct grant_names {
	size_t n;
	char name[1 + POLICY_DEVICES][KUBE_NAME_BYTES + 64];
};

/* -ENODEV with words: NVIDIA's driver comes by no CDI device that is there. */
int grant_names(const struct kube_conf *conf, const struct grant *grant, struct grant_names *ret,
		char why[static GRANT_WHY]);

#endif
