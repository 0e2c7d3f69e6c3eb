/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#include "criu/kfd/match.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* GPUs of one kind can be tried in any order: more tries than this are not made. */
#define TRIES_MOST 1000000

#define NO_LINK UINT8_MAX

/* --- From a snapshot ---------------------------------------------------------------------------
 */

static bool match_is_all_visible(const struct topology_node *node)
{
	for (uint32_t i = 0; i < node->bank_count; i++)
		if (node->banks[i].heap == TOPOLOGY_HEAP_VRAM)
			return false;
	return true;
}

static bool match_is_cpu_joined(const struct topology *t, const struct topology_node *gpu)
{
	for (uint32_t i = 0; i < t->node_count; i++)
		if (!t->nodes[i].gpu_id && topology_link(t, i, gpu->id) &&
		    topology_link(t, gpu->id, i))
			return true;
	return false;
}

static struct match_gpu match_describe(const struct topology *t, const struct topology_node *node)
{
	return (struct match_gpu){
		.vram_bytes = topology_vram_bytes(node),
		.hive_id = node->hive_id,
		.gpu_id = node->gpu_id,
		.render_minor = node->render_minor,
		.vendor_id = node->vendor_id,
		.device_id = node->device_id,
		.gfx_version = node->gfx_version,
		.simds = node->simds,
		.simds_per_cu = node->simds_per_cu,
		.cus_per_array = node->cus_per_array,
		.arrays = node->arrays,
		.arrays_per_engine = node->arrays_per_engine,
		.xccs = node->xccs,
		.waves_per_simd = node->waves_per_simd,
		.wave_lanes = node->wave_lanes,
		.scratch_slots_per_cu = node->scratch_slots_per_cu,
		.lds_kib = node->lds_kib,
		.sdma_engines = node->sdma_engines,
		.sdma_xgmi_engines = node->sdma_xgmi_engines,
		.sdma_queues_per_engine = node->sdma_queues_per_engine,
		.cp_queues = node->cp_queues,
		.all_visible = match_is_all_visible(node),
		.cpu_joined = match_is_cpu_joined(t, node),
		.capability = node->capability,
		.gws = node->gws,
		.caches = node->cache_count,
		.firmware = node->firmware,
		.sdma_firmware = node->sdma_firmware,
	};
}

int match_read(const struct topology *t, uint32_t *ret_ngpus, struct match_gpu **ret_gpus,
	       uint32_t *ret_nlinks, struct match_link **ret_links)
{
	const struct topology_node *nodes[MATCH_GPUS];
	uint32_t ngpus = 0, nlinks = 0;
	struct match_gpu *gpus = calloc(MATCH_GPUS, sizeof(*gpus));
	struct match_link *links = calloc(MATCH_GPUS * MATCH_GPUS, sizeof(*links));

	if (!gpus || !links) {
		free(gpus);
		free(links);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < t->node_count && ngpus < MATCH_GPUS; i++) {
		if (!t->nodes[i].gpu_id)
			continue;
		nodes[ngpus] = &t->nodes[i];
		gpus[ngpus++] = match_describe(t, &t->nodes[i]);
	}
	for (uint32_t i = 0; i < ngpus; i++)
		for (uint32_t j = 0; j < ngpus; j++) {
			const struct topology_link *link =
				i == j ? NULL : topology_link(t, nodes[i]->id, nodes[j]->id);

			if (link)
				links[nlinks++] = (struct match_link){i, j, link->type};
		}
	*ret_ngpus = ngpus;
	*ret_gpus = gpus;
	*ret_nlinks = nlinks;
	*ret_links = links;
	return 0;
}

/* --- One GPU for another -----------------------------------------------------------------------
 */

#define FIELD(name) offsetof(struct match_gpu, name), sizeof(((struct match_gpu *)0)->name), #name

static const struct property {
	size_t at, bytes;
	const char *name;
	bool more;	    /* may be more than it was, */
	unsigned int relax; /* and is passed over where that is said */
} properties[] = {
	{FIELD(vendor_id), false, 0},
	{FIELD(device_id), false, 0},
	{FIELD(gfx_version), false, 0},
	{FIELD(simds), false, 0},
	{FIELD(simds_per_cu), false, 0},
	{FIELD(cus_per_array), false, 0},
	{FIELD(arrays), false, 0},
	{FIELD(arrays_per_engine), false, 0},
	{FIELD(xccs), false, 0},
	{FIELD(waves_per_simd), false, 0},
	{FIELD(wave_lanes), false, 0},
	{FIELD(scratch_slots_per_cu), false, 0},
	{FIELD(lds_kib), false, 0},
	{FIELD(sdma_engines), false, 0},
	{FIELD(sdma_xgmi_engines), false, 0},
	{FIELD(sdma_queues_per_engine), false, 0},
	{FIELD(cp_queues), false, 0},
	{FIELD(all_visible), true, 0},
	{FIELD(cpu_joined), true, 0},
	{FIELD(capability), false, MATCH_OTHER_CAPABILITY},
	{FIELD(gws), true, MATCH_FEWER_GWS},
	{FIELD(caches), true, MATCH_FEWER_CACHES},
	{FIELD(firmware), true, MATCH_OLDER_FIRMWARE},
	{FIELD(sdma_firmware), true, MATCH_OLDER_FIRMWARE},
	{FIELD(vram_bytes), true, MATCH_SMALLER_MEMORY},
};
#define PROPERTIES (sizeof(properties) / sizeof(properties[0]))

static uint64_t match_value(const struct match_gpu *gpu, const struct property *p)
{
	uint64_t value = 0;

	memcpy(&value, (const char *)gpu + p->at, p->bytes);
	return value;
}

/* The number of properties that fit, all of them where it can stand in. */
static size_t match_compare(const struct match_gpu *was, const struct match_gpu *is,
			    unsigned int relax)
{
	size_t i = 0;

	for (; i < PROPERTIES; i++) {
		uint64_t old = match_value(was, &properties[i]),
			 new = match_value(is, &properties[i]);

		if (old != new && !(properties[i].more && new > old) &&
		    !(properties[i].relax & relax))
			break;
	}
	return i;
}

/* --- All of them -------------------------------------------------------------------------------
 */

struct search {
	const struct match_machine *was, *is;
	uint8_t was_link[MATCH_GPUS][MATCH_GPUS], is_link[MATCH_GPUS][MATCH_GPUS];
	bool fits[MATCH_GPUS][MATCH_GPUS];
	bool taken[MATCH_GPUS];
	uint32_t order[MATCH_GPUS]; /* GPUs of `was`, as they are placed */
	uint32_t *to;
	uint32_t deepest; /* how many of them were placed at most */
	uint64_t tries;
};

static void match_fill_links(const struct match_machine *m, uint8_t ret[MATCH_GPUS][MATCH_GPUS])
{
	memset(ret, NO_LINK, MATCH_GPUS * sizeof(ret[0]));
	for (uint32_t i = 0; i < m->nlinks; i++)
		ret[m->links[i].from][m->links[i].to] =
			m->links[i].type < NO_LINK ? (uint8_t)m->links[i].type : 0;
}

/* xGMI can replace PCIe, but not the reverse. */
static bool match_link_fits(uint8_t was, uint8_t is)
{
	return was == NO_LINK ||
	       (is != NO_LINK && (was != TOPOLOGY_LINK_XGMI || is == TOPOLOGY_LINK_XGMI));
}

static bool match_may_place(const struct search *s, uint32_t depth, uint32_t gpu, uint32_t at)
{
	uint64_t hive = s->was->gpus[gpu].hive_id, at_hive = s->is->gpus[at].hive_id;

	if (s->taken[at] || !s->fits[gpu][at])
		return false;
	for (uint32_t i = 0; i < depth; i++) {
		uint32_t other = s->order[i], other_at = s->to[other];

		if (!match_link_fits(s->was_link[gpu][other], s->is_link[at][other_at]) ||
		    !match_link_fits(s->was_link[other][gpu], s->is_link[other_at][at]))
			return false;
		if (hive && s->was->gpus[other].hive_id == hive &&
		    (!at_hive || s->is->gpus[other_at].hive_id != at_hive))
			return false;
	}
	return true;
}

static bool match_place(struct search *s, uint32_t depth)
{
	uint32_t gpu = s->order[depth];

	if (depth > s->deepest)
		s->deepest = depth;
	if (depth == s->was->ngpus)
		return true;
	for (uint32_t i = 0; i <= s->is->ngpus; i++) {
		/* Its own place is tried first: on the same machine everything is as it was. */
		uint32_t at = i ? i - 1 : gpu;

		if (at >= s->is->ngpus || (i && at == gpu) || !match_may_place(s, depth, gpu, at))
			continue;
		if (++s->tries > TRIES_MOST)
			return false;
		s->taken[at] = true;
		s->to[gpu] = at;
		if (match_place(s, depth + 1))
			return true;
		s->taken[at] = false;
	}
	return false;
}

/* Whole hives come first, one after the other: they have the fewest places. */
static void match_order(struct search *s)
{
	const struct match_gpu *gpus = s->was->gpus;
	bool done[MATCH_GPUS] = {false};
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->was->ngpus; i++)
		for (uint32_t j = i; gpus[i].hive_id && !done[i] && j < s->was->ngpus; j++)
			if (gpus[j].hive_id == gpus[i].hive_id) {
				s->order[n++] = j;
				done[j] = j > i;
			}
	for (uint32_t i = 0; i < s->was->ngpus; i++)
		if (!gpus[i].hive_id)
			s->order[n++] = i;
}

/* Which of the properties it is that no GPU has, by the one that is most like it. */
static void match_say_unlike(const struct search *s, uint32_t gpu, unsigned int relax,
			     char why[static MATCH_WHY_BYTES])
{
	const struct match_gpu *was = &s->was->gpus[gpu], *best = &s->is->gpus[0];
	const struct property *p;

	for (uint32_t i = 1; i < s->is->ngpus; i++)
		if (match_compare(was, &s->is->gpus[i], relax) > match_compare(was, best, relax))
			best = &s->is->gpus[i];
	p = &properties[match_compare(was, best, relax)];
	snprintf(why, MATCH_WHY_BYTES,
		 "no GPU here is like GPU %u of the image: %s was %" PRIu64
		 " there, and is %" PRIu64 " at GPU %u, which is the closest%s",
		 was->gpu_id, p->name, match_value(was, p), match_value(best, p), best->gpu_id,
		 p->relax ? "; this check can be turned off" : "");
}

static int match_say(const struct search *s, unsigned int relax, char why[static MATCH_WHY_BYTES])
{
	for (uint32_t i = 0; i < s->was->ngpus; i++) {
		uint32_t j = 0;

		while (j < s->is->ngpus && !s->fits[i][j])
			j++;
		if (j < s->is->ngpus)
			continue;
		match_say_unlike(s, i, relax, why);
		return -ENODEV;
	}
	snprintf(
		why, MATCH_WHY_BYTES,
		"each GPU of the image has its like here, but not all at once, with the links that "
		"they had: no place %s for GPU %u",
		s->tries > TRIES_MOST ? "was found in time" : "is left",
		s->was->gpus[s->order[s->deepest]].gpu_id);
	return -ENODEV;
}

static int match_run(struct search *s, unsigned int relax, char why[static MATCH_WHY_BYTES])
{
	match_fill_links(s->was, s->was_link);
	match_fill_links(s->is, s->is_link);
	for (uint32_t i = 0; i < s->was->ngpus; i++)
		for (uint32_t j = 0; j < s->is->ngpus; j++)
			s->fits[i][j] = match_compare(&s->was->gpus[i], &s->is->gpus[j], relax) ==
					PROPERTIES;
	match_order(s);
	return match_place(s, 0) ? 0 : match_say(s, relax, why);
}

int match_gpus(const struct match_machine *was, const struct match_machine *is, unsigned int relax,
	       uint32_t ret_to[static MATCH_GPUS], char why[static MATCH_WHY_BYTES])
{
	uint32_t to[MATCH_GPUS] = {0};
	struct search *s;
	int r;

	/* The kernel restores a process only where it has as many GPUs as it had. */
	if (was->ngpus != is->ngpus || was->ngpus > MATCH_GPUS) {
		snprintf(why, MATCH_WHY_BYTES,
			 "the image is of %u GPUs and there are %u here: show the process as many",
			 was->ngpus, is->ngpus);
		return -ENODEV;
	}
	s = calloc(1, sizeof(*s));
	if (!s) {
		snprintf(why, MATCH_WHY_BYTES, "out of memory");
		return -ENOMEM;
	}
	s->was = was;
	s->is = is;
	s->to = to;
	r = match_run(s, relax, why);
	free(s);
	if (r == 0)
		memcpy(ret_to, to, sizeof(to));
	return r;
}
