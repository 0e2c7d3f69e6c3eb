/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /etc/xpu/vgpu.config as a container finds it, for programs that read it: "UsedMem:<MiB>" and
 * "UsedCores:<percent>", a line each. src/dropin reads the same file.
 */
#ifndef ALLOT_KUBE_GRANTS_VGPU_CONFIG_H
#define ALLOT_KUBE_GRANTS_VGPU_CONFIG_H

#include "kube/schedulers/decision.h"

#define VGPU_CONFIG_NAME  "vgpu.config"
#define VGPU_CONFIG_BYTES 64

/*
 * The file holds on each device of the container, so the smallest of each counts. A line without a
 * limit is left out, as 0 MiB would be read as an error. -ENODATA: nothing is limited, and no such
 * file is to be there. Pure.
 */
int vgpu_config_text(const struct decision_container *container,
		     char ret[static VGPU_CONFIG_BYTES]);

/*
 * Puts the file into that directory, mode 0644: written beside, then renamed, so that whoever opens
 * it reads the old one or the new one whole. -ENODATA as above, when what was there is removed;
 * -errno.
 */
int vgpu_config_write(int dir, const struct decision_container *container);

/*
 * vgpu-ids.config beside it, as the XPU pool's plugin writes it: "<UUID>-<part>", a line each. Pure.
 */
#define VGPU_CONFIG_IDS	      "vgpu-ids.config"
#define VGPU_CONFIG_IDS_BYTES (POLICY_DEVICES * 56 + 1)
void vgpu_config_ids(const struct decision_container *container, char ret[static VGPU_CONFIG_IDS_BYTES]);
int vgpu_config_write_ids(int dir, const char *text); /* as vgpu_config_write */

/*
 * Puts a list for ld.so into that directory, by which a container's programs have the library at its place in a
 * container: one list for all that get it by a mount, and their limits by the file. 0 or -errno.
 */
#define VGPU_CONFIG_PRELOAD "ld.so.preload"
int vgpu_config_write_preload(int dir);

/*
 * Puts a copy of the library beside the list. A kubelet uses Allocate's answer for each start of a container, also
 * after upgrades, so that answer can name no file of one version. A container that runs keeps the copy that
 * it has; with the same content the file stays, and containers share its memory. 0 or -errno.
 */
#define VGPU_CONFIG_LIBRARY "liballot.so"
int vgpu_config_write_library(int dir, const char *library);

/* Removes both files, with what a killed writer has left. */
void vgpu_config_remove(int dir);

#endif
