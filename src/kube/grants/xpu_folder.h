/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A container's folder in the site's one (`xpu` of allotd.conf), which the container has as /etc/xpu: vgpu.config, and
 * vgpu-ids.config where a scheduler of the XPU pool decided. The grant's file names it.
 */
#ifndef ALLOT_KUBE_GRANTS_XPU_FOLDER_H
#define ALLOT_KUBE_GRANTS_XPU_FOLDER_H

#include <jansson.h>
#include <limits.h>

#include "kube/state/conf.h"
#include "ledger/policy.h"

#define XPU_FOLDER_BYTES 192

/* The folder's name for a Pod's container; "" if these are no uid and name of Kubernetes'. */
void xpu_folder_name(const char *uid, const char *container, char ret[static XPU_FOLDER_BYTES]);

/* 0 or -ENAMETOOLONG. */
int xpu_folder_path(const struct kube_conf *conf, const char *name, char ret[static PATH_MAX]);

/* That of a container whose CDI file says so; "": it has none in the site's one. */
void xpu_folder_find(const struct kube_conf *conf, const json_t *spec, char ret[static PATH_MAX]);

/*
 * The path of the folder of that name. "": there is to be none, as nothing is limited. -ENODATA: nothing is, and
 * nothing else would limit the container.
 */
int xpu_folder_choose(const struct kube_conf *conf, const struct policy *policy, const char *name,
		      char ret[static PATH_MAX]);

/*
 * Makes it, and what containers without CDI have beside it; `ids` are vgpu-ids.config's lines, "": there is no such
 * file. 0 or -errno.
 */
int xpu_folder_write(const struct kube_conf *conf, const struct policy *policy, const char *ids, const char *library,
		     char *folder);

/* With the folder of its Pod, when that is empty. `folder` is changed. */
void xpu_folder_remove(const struct kube_conf *conf, char *folder);

#endif
