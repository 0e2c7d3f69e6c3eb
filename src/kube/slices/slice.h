/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ResourceSlice (resource.k8s.io/v1) of a node's devices, as JSON. Pure.
 *
 * One slice holds all of them: a node has at most POLICY_DEVICES, which is what Kubernetes takes where a
 * device has a taint. So a change is one write, and no scheduler sees half of it.
 */
#ifndef ALLOT_KUBE_SLICES_SLICE_H
#define ALLOT_KUBE_SLICES_SLICE_H

#include <jansson.h>

#include "kube/state/conf.h"
#include "kube/state/node.h"

#define SLICE_ROOT_BYTES    32
#define SLICE_VERSION_BYTES 65

/* The part of a device that a request takes if it names no amount, and that one of an extended resource is. */
#define SLICE_DEFAULT_PART 4

/* Facts of a device that the kernel tells, beside its driver. Empty: not known. */
struct slice_facts {
	char pcie_root[SLICE_ROOT_BYTES];     /* "pci0000:16" */
	char version[SLICE_VERSION_BYTES]; /* of the driver, as semver.org has it: "580.159.3" */
};

/* Features that a cluster may not have: its API server drops their fields. */
enum slice_without {
	SLICE_NO_SHARING = 1 << 0, /* gate DRAConsumableCapacity: alpha, off, before Kubernetes 1.36 */
	SLICE_NO_TAINTS = 1 << 1,  /* gate DRADeviceTaints, the same */
};

/* "580.159.03" as a semantic version; "" for what is none. */
void slice_version(const char *text, char ret[static SLICE_VERSION_BYTES]);
/* The root complex, of a link of /sys/bus/pci/devices: "../../../devices/pci0000:16/...". */
void slice_pcie_root(const char *link, char ret[static SLICE_ROOT_BYTES]);

/*
 * spec of the slice, with its pool's generation 0. `facts` has one for each device. Without taints (bits of
 * enum slice_without) sick devices are left out. NULL: no memory.
 */
json_t *slice_spec(const struct kube_conf *conf, const struct node_devices *devices,
		   const struct slice_facts *facts, unsigned int without);

/* A name that is this node's and this driver's: a second attempt to create it finds the first. */
void slice_name(const struct kube_conf *conf, char ret[static KUBE_NAME_BYTES]);

/*
 * The object to be written: `spec` with the next generation, owned by the node of that uid. `was` is the one
 * that is there, whose labels and resourceVersion are kept, or NULL. NULL: no memory.
 */
json_t *slice_object(const struct kube_conf *conf, const json_t *spec, const char *node_uid,
		     const json_t *was);

/* Returns true if both specs say the same, whatever their generation is and when taints were added. */
bool slice_same(const json_t *a, const json_t *b);
/* Returns true if the object is owned by the node of that uid. */
bool slice_is_owned(const json_t *object, const char *node_uid);
/* Returns true if the object is of this driver and this node. */
bool slice_is_ours(const struct kube_conf *conf, const json_t *object);

/* The parts of `wrote` that are not in `kept`, bits of enum slice_without. */
unsigned int slice_dropped(const json_t *wrote, const json_t *kept);

/* Text of an answer of the API server, with limits of depth and size; NULL: it is no object. */
json_t *slice_parse(const char *bytes, size_t len);

#endif
