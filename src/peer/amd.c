/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AMD's GPUs: opening them, in the order in which ROCm's library does, so that one and the same
 * driver sees one and the same customer.
 */
#include "peer/amd.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "amd/abi/kfd.h"
#include "amd/kfd_ioctl.h"
#include "amd/topology_read.h"
#include "base/cleanup.h"
#include "peer/amd_files.h"
#include "peer/complain.h"

static int amd_open_kfd(struct amd_state *s)
{
	struct kfd_ioctl_get_version_args version = {0};
	int r;

	s->kfd = amd_file_kfd();
	if (s->kfd < 0)
		return complain(s->kfd, "open: /dev/kfd: %s%s", complain_words(s->kfd),
				s->kfd == -EACCES
					? "; ask for the group that it belongs to (often render)"
					: "");
	r = amd_ioctl(s->kfd, _IOR('K', KFD_NR_GET_VERSION, version), &version);
	if (r < 0)
		return complain(r, "open: /dev/kfd does not tell its version: %s",
				complain_words(r));
	if (version.major_version != KFD_IOCTL_MAJOR_VERSION)
		return complain(-ENOTSUP, "open: the KFD interface is %u.%u; only 1 is known here",
				version.major_version, version.minor_version);
	s->minor = version.minor_version;
	return 0;
}

/* Takes the nodes that are GPUs, and their reach. */
static int amd_take_devices(struct allot_peer *peer, struct amd_state *s)
{
	const struct topology *t = s->topology;

	for (uint32_t i = 0; i < t->node_count; i++) {
		const struct topology_node *node = &t->nodes[i];
		struct allot_peer_device *d = &peer->device[peer->n];
		char gfx[TOPOLOGY_GFX_BYTES];

		if (!node->gpu_id)
			continue;
		if (peer->n == ALLOT_PEER_DEVICES)
			return complain(-E2BIG, "open: more than %d GPUs", ALLOT_PEER_DEVICES);
		topology_gfx_name(node, gfx);
		snprintf(d->name, sizeof(d->name), "%s", *gfx ? gfx : node->name);
		topology_pci_name(node, d->pci);
		d->memory_bytes = topology_vram_bytes(node);
		d->id = node->id;
		d->gpu_id = node->gpu_id;
		s->gpu[peer->n].node = node;
		s->gpu[peer->n++].gpu_id = node->gpu_id;
	}
	for (uint32_t i = 0; i < peer->n; i++)
		for (uint32_t j = 0; j < peer->n; j++)
			if (topology_can_reach(t, s->gpu[i].node->id, s->gpu[j].node->id))
				peer->reach[i] |= UINT64_C(1) << j;
	return peer->n ? 0 : complain(-ENODEV, "open: no GPU that this process may use");
}

static int amd_open_renders(struct allot_peer *peer, struct amd_state *s)
{
	for (uint32_t i = 0; i < peer->n; i++) {
		int fd = amd_file_render(s->gpu[i].node->render_minor);

		if (fd < 0)
			return complain(fd, "open: %s: /dev/dri/renderD%" PRIu32 ": %s",
					peer_name(peer, i).text, s->gpu[i].node->render_minor,
					complain_words(fd));
		s->gpu[i].render = fd;
	}
	return 0;
}

/* Finds the addresses that all GPUs and the CPU can use: the lower half of the CPU's addresses. */
static int amd_take_apertures(struct allot_peer *peer, struct amd_state *s)
{
	const struct topology *t = s->topology;
	/* The kernel counts GPUs that are hidden here, too, and needs room for all of them. */
	uint32_t nodes = t->node_count + t->hidden + t->without_render_node;
	struct kfd_process_device_apertures found[TOPOLOGY_NODES] = {0};
	struct kfd_ioctl_get_process_apertures_new_args a = {
		.kfd_process_device_apertures_ptr = (uintptr_t)found, .num_of_nodes = nodes};
	struct aperture all[1 + ALLOT_PEER_DEVICES] = {
		{ADDRESS_PAGE_BYTES, ADDRESS_CANONICAL_LAST}};
	uint32_t n = 1;
	int r = amd_ioctl(s->kfd, _IOWR('K', KFD_NR_GET_PROCESS_APERTURES_NEW, a), &a);

	if (r < 0)
		return complain(r, "open: the GPUs' apertures: %s", complain_words(r));
	if (a.num_of_nodes > nodes)
		return complain(-ERANGE, "open: the driver tells of more GPUs than it was asked");
	for (uint32_t i = 0; i < a.num_of_nodes; i++)
		for (uint32_t j = 0; j < peer->n; j++)
			if (found[i].gpu_id == s->gpu[j].gpu_id && n <= peer->n)
				all[n++] = (struct aperture){found[i].gpuvm_base,
							     found[i].gpuvm_limit};
	if (n != 1 + peer->n)
		return complain(-ENODEV,
				"open: the driver tells apertures of %u GPUs, not of the "
				"%u in its topology",
				n - 1, peer->n);
	r = address_common(all, n, &peer->aperture);
	return r < 0 ? complain(r, "open: the GPUs have no addresses in common") : 0;
}

static int amd_acquire_vm(struct allot_peer *peer, struct amd_state *s)
{
	for (uint32_t i = 0; i < peer->n; i++) {
		struct kfd_ioctl_acquire_vm_args a = {.drm_fd = (uint32_t)s->gpu[i].render,
						      .gpu_id = s->gpu[i].gpu_id};
		int r = amd_ioctl(s->kfd, _IOW('K', KFD_NR_ACQUIRE_VM, a), &a);

		if (r < 0)
			return complain(r, "open: %s: %s%s", peer_name(peer, i).text,
					complain_words(r),
					r == -EBUSY ? "; another library in this process (ROCm's?) "
						      "has it: open this first"
						    : "");
	}
	return 0;
}

/*
 * Coherent where memory does not say otherwise, and nowhere another policy: no bytes are no
 * alternate aperture, while one has to begin and end at multiples of 64 KiB. GPUs of the ninth
 * generation and later do not look at it.
 */
static int amd_set_policy(struct allot_peer *peer, struct amd_state *s)
{
	for (uint32_t i = 0; i < peer->n; i++) {
		struct kfd_ioctl_set_memory_policy_args a = {
			.gpu_id = s->gpu[i].gpu_id,
			.default_policy = KFD_IOC_CACHE_POLICY_COHERENT,
			.alternate_policy = KFD_IOC_CACHE_POLICY_COHERENT};
		int r = amd_ioctl(s->kfd, _IOW('K', KFD_NR_SET_MEMORY_POLICY, a), &a);

		if (r < 0)
			return complain(r, "open: %s: how it caches memory: %s",
					peer_name(peer, i).text, complain_words(r));
	}
	return 0;
}

static void amd_free_state(struct amd_state *s)
{
	if (s)
		topology_free(s->topology);
	free(s);
}
DEFINE_CLEANUP(struct amd_state, amd_free_state)

static int amd_open(struct allot_peer *peer)
{
	CLEANUP(cleanup_amd_free_state) struct amd_state *s = calloc(1, sizeof(*s));
	struct topology_complaint why;
	int r;

	if (!s)
		return complain(-ENOMEM, "open: out of memory");
	r = amd_open_kfd(s);
	if (r < 0)
		return r;
	r = topology_read(NULL, &s->topology, &why);
	if (r < 0)
		return complain(r, "open: %s", why.text);
	if ((r = amd_take_devices(peer, s)) < 0 || (r = amd_open_renders(peer, s)) < 0 ||
	    (r = amd_take_apertures(peer, s)) < 0 || (r = amd_acquire_vm(peer, s)) < 0 ||
	    (r = amd_set_policy(peer, s)) < 0)
		return r;
	peer->page = ADDRESS_PAGE_BYTES;
	peer->state = TAKE_PTR(s);
	for (uint32_t i = 0; i < peer->n; i++)
		amd_registers_open(peer, i);
	return 0;
}

static void amd_close(struct allot_peer *peer, bool forked)
{
	for (uint32_t i = 0; !forked && i < peer->n; i++)
		amd_registers_close(peer, i);
	amd_free_state(peer->state);
}

static int amd_link(const struct allot_peer *peer, uint32_t from, uint32_t to,
		    struct allot_peer_link *ret_link)
{
	const struct amd_state *s = peer->state;
	const struct topology_link *link =
		topology_link(s->topology, s->gpu[from].node->id, s->gpu[to].node->id);

	snprintf(ret_link->type, sizeof(ret_link->type), "%s", topology_link_name(link->type));
	ret_link->weight = link->weight;
	ret_link->max_mb_per_s = link->max_mb_per_s;
	return 0;
}

const struct peer_backend peer_amd = {
	.name = "amd",
	.open = amd_open,
	.close = amd_close,
	.link = amd_link,
	.reserve = amd_reserve,
	.release = amd_release,
	.alloc = amd_alloc,
	.free = amd_free,
	.map = amd_map,
	.export_fd = amd_export,
	.inspect = amd_inspect,
	.import = amd_import,
	.read = amd_read,
	.write = amd_write,
};
