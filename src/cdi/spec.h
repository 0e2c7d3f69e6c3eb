/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that tell container runtimes what a device of allot is (the Container Device Interface),
 * one for each name, so that one is added or removed without reading others. A container that asks
 * for such a device gets:
 *
 *	CDI_HOME/liballot.so	the library
 *	/etc/ld.so.preload	which names it, so that every process has it that glibc's loader starts
 *	CDI_HOME/tenant		its own tenant, made and mounted by a hook (`allot cdi hook`)
 *	AMD's device nodes	NVIDIA's come by NVIDIA's own device or runtime
 *
 * All but the tenant is there by the file itself: a runtime that left out the hook would start
 * programs that have the library and no tenant, and so no GPU.
 */
#ifndef ALLOT_CDI_SPEC_H
#define ALLOT_CDI_SPEC_H

#include <limits.h>

#include "base/container.h"
#include "cdi/name.h"
#include "node/devices.h"

#define CDI_VENDOR "allot.dev"
#define CDI_KIND   CDI_VENDOR "/" CDI_GPU

/*
 * Classes of devices: those that people ask for by names, and those that Kubernetes gave to a
 * container.
 */
#define CDI_GPU	  "gpu"
#define CDI_GRANT "grant"

/* In the container. */
#define CDI_HOME    CONTAINER_HOME
#define CDI_LIBRARY CONTAINER_LIBRARY
#define CDI_TENANT  CONTAINER_TENANT

#define CDI_XPU "/etc/xpu" /* in the container: programs that know vgpu.config look there */

/* "--memory", "8GiB" */
struct cdi_option {
	const char *option, *value; /* NULL: it has none */
};

struct cdi_spec {
	const char *class;
	const char *beside; /* NULL; else it brings nothing, see cdi_spec_write_beside */
	const char *name; /* behind "allot.dev/CLASS=" */
	const struct cdi_option *options; /* of the hook, beside its devices */
	size_t noptions;
	const struct devices *devices; /* those that it is for */
	bool named;		       /* by people, and so the policy's; else it is for all */
	bool by_variable; /* NVIDIA's driver comes by NVIDIA_VISIBLE_DEVICES, as its runtime class reads it */
	const char *command, *library, *preload; /* files of this machine */
	const char *xpu; /* a folder of this machine, with vgpu.config; NULL: none */
};

/* /etc/cdi for root, else $XDG_CONFIG_HOME/cdi or ~/.config/cdi. -ENOENT: there is no home. */
int cdi_spec_dir(char ret[static PATH_MAX]);

/*
 * Makes the directory if it is missing, and puts the file there in one step: a reader sees the old
 * one or the new one. 0 or -errno.
 */
int cdi_spec_write(const char *dir, const struct cdi_spec *spec);

/*
 * Likewise a device without content: a further one of a container that has `of`, whose edits do
 * everything.
 */
int cdi_spec_write_beside(const char *dir, const char *class, const char *name, const char *of);

/* Of its file. -ENAMETOOLONG. */
int cdi_spec_path(const char *dir, const char *class, const char *name, char ret[static PATH_MAX]);

/* Calls fn for each name of the class that has a file there, sorted; its answer, if not 0, ends it. */
int cdi_spec_list(const char *dir, const char *class, int (*fn)(const char *name, void *arg), void *arg);

/* Removes files of the class that were begun by writers which have been killed. -errno. */
int cdi_spec_sweep(const char *dir, const char *class);

/* 0, -ENOENT and others. */
int cdi_spec_remove(const char *dir, const char *class, const char *name);

#endif
