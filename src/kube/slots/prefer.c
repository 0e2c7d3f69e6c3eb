/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/slots/prefer.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "kube/pods/device_id.h"

struct gpu {
	size_t free, taken; /* slots */
	unsigned int links; /* to those that are taken; while none is, the most to one with free slots */
};

struct choice {
	const struct prefer_request *request;
	const struct node_devices *devices;
	int *gpu_of; /* of each available slot: its GPU, or one of enum gone */
	struct gpu gpu[POLICY_DEVICES];
	bool has_node;
	int node; /* NUMA node that is preferred */
};

enum gone { TAKEN = -1, UNKNOWN = -2 };

static void choice_take(struct choice *c, size_t i)
{
	int gpu = c->gpu_of[i];

	if (gpu >= 0) {
		c->gpu[gpu].free--;
		c->gpu[gpu].taken++;
	}
	c->gpu_of[i] = TAKEN;
}

static void choice_read(struct choice *c)
{
	struct device_slot slot;

	for (size_t i = 0; i < c->request->n_available; i++) {
		c->gpu_of[i] = UNKNOWN;
		if (device_id_parse(c->devices, c->request->available[i], &slot) < 0)
			continue;
		c->gpu_of[i] = (int)slot.device;
		c->gpu[slot.device].free++;
	}
}

/* A kubelet says these among the available ones as well. */
static void choice_take_must(struct choice *c, char **ret)
{
	const struct prefer_request *r = c->request;

	for (size_t m = 0; m < r->n_must; m++) {
		struct device_slot slot;
		size_t i = 0;

		ret[m] = r->must[m];
		while (i < r->n_available && strcmp(r->available[i], r->must[m]))
			i++;
		if (i < r->n_available)
			choice_take(c, i);
		else if (device_id_parse(c->devices, r->must[m], &slot) == 0)
			c->gpu[slot.device].taken++;
	}
}

struct node_room {
	size_t gpus, free; /* GPUs with free slots, and these slots */
};

static struct node_room choice_room(const struct choice *c, int node)
{
	struct node_room room = {0, 0};

	for (unsigned int i = 0; i < c->devices->n; i++)
		if (c->devices->list[i].numa == node && c->gpu[i].free) {
			room.gpus++;
			room.free += c->gpu[i].free;
		}
	return room;
}

/* Returns true if a GPU with so many free slots comes before the other one. */
static bool choice_is_before(const struct choice *c, size_t a, size_t b)
{
	return c->request->sized ? a > b : a < b;
}

static bool room_is_better(const struct choice *c, struct node_room a, struct node_room b,
			   size_t wanted)
{
	if (a.gpus < wanted || b.gpus < wanted)
		return a.gpus > b.gpus;
	return choice_is_before(c, a.free, b.free);
}

/* The node of what is taken; else the best one of those with enough GPUs. */
static void choice_find_node(struct choice *c, size_t wanted)
{
	struct node_room best = {0, 0};

	for (unsigned int i = 0; i < c->devices->n; i++) {
		int node = c->devices->list[i].numa;
		struct node_room room = choice_room(c, node);

		if (c->gpu[i].taken) {
			c->node = node;
			c->has_node = true;
			return;
		}
		if (room.gpus && (!c->has_node || room_is_better(c, room, best, wanted))) {
			best = room;
			c->node = node;
			c->has_node = true;
		}
	}
}

static bool choice_is_better(const struct choice *c, int a, int b)
{
	const struct gpu *ga, *gb;
	bool away_a, away_b;

	if (a < 0 || b < 0)
		return a > b;
	ga = &c->gpu[a];
	gb = &c->gpu[b];
	away_a = c->has_node && c->devices->list[a].numa != c->node;
	away_b = c->has_node && c->devices->list[b].numa != c->node;
	if (ga->taken != gb->taken)
		return ga->taken < gb->taken;
	if (ga->links != gb->links)
		return ga->links > gb->links;
	if (away_a != away_b)
		return away_b;
	return ga->free != gb->free ? choice_is_before(c, ga->free, gb->free) : a < b;
}

static unsigned int choice_links(const struct choice *c, unsigned int gpu, bool any_taken)
{
	const uint8_t *links = c->devices->nvlinks[gpu];
	unsigned int all = 0, most = 0;

	for (unsigned int i = 0; i < c->devices->n; i++) {
		if (c->gpu[i].taken)
			all += links[i];
		if (c->gpu[i].free && links[i] > most)
			most = links[i];
	}
	return any_taken ? all : most;
}

/* A single slot is on no two GPUs. */
static void choice_count_links(struct choice *c)
{
	bool any_taken = false;

	for (unsigned int i = 0; i < c->devices->n; i++)
		any_taken |= c->gpu[i].taken > 0;
	for (unsigned int i = 0; c->request->size > 1 && i < c->devices->n; i++)
		c->gpu[i].links = choice_links(c, i, any_taken);
}

static int choice_next(struct choice *c, char **ret)
{
	size_t best = c->request->n_available;

	choice_count_links(c);
	for (size_t i = 0; i < c->request->n_available; i++)
		if (c->gpu_of[i] != TAKEN && (best == c->request->n_available ||
					      choice_is_better(c, c->gpu_of[i], c->gpu_of[best])))
			best = i;
	if (best == c->request->n_available)
		return -EINVAL;
	*ret = c->request->available[best];
	choice_take(c, best);
	return 0;
}

int prefer_slots(const struct node_devices *devices, const struct prefer_request *request,
		 char **ret)
{
	struct choice c = {.request = request, .devices = devices};
	CLEANUP_FREE int *gpu_of = calloc(request->n_available + 1, sizeof(*gpu_of));
	int r = 0;

	if (!gpu_of)
		return -ENOMEM;
	if (request->n_must > request->size ||
	    request->size > request->n_available + request->n_must)
		return -EINVAL;
	c.gpu_of = gpu_of;
	choice_read(&c);
	choice_take_must(&c, ret);
	if (request->size > 1)
		choice_find_node(&c, request->size - request->n_must);
	for (size_t n = request->n_must; r == 0 && n < request->size; n++)
		r = choice_next(&c, &ret[n]);
	return r;
}
