/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/schedulers/announce.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/now.h"
#include "base/number.h"
#include "kube/schedulers/annotation.h"
#include "kube/schedulers/patch.h"
#include "text/log.h"

/* A scheduler waits 60 s for a sign of life. Nodes that started together ask at different times. */
#define LOOK_MS	   10000
#define JITTER_MS  4000
#define TIMEOUT_MS 10000
#define NOTES	   4
#define PATH_BYTES (KUBE_NAME_BYTES + 32)

struct announce {
	struct api *api;
	const struct kube_conf *conf;
	const struct node_devices *devices;
	struct api_call *asked; /* NULL: none is under way */
	uint64_t at_ns;
	bool again;  /* the devices changed while one was under way */
	bool failed; /* and that was logged */
	char path[PATH_BYTES];
};

int announce_open(struct api *api, const struct kube_conf *conf, const struct node_devices *devices,
		  struct announce **ret)
{
	struct announce *announce = calloc(1, sizeof(*announce));

	if (!announce)
		return -ENOMEM;
	*announce = (struct announce){.api = api, .conf = conf, .devices = devices};
	snprintf(announce->path, sizeof(announce->path), "/api/v1/nodes/%s", conf->node);
	*ret = announce;
	return 0;
}

void announce_close(struct announce *announce)
{
	if (announce && announce->asked)
		api_forget(announce->asked);
	free(announce);
}

void announce_tell(struct announce *announce)
{
	announce->again = announce->asked;
	announce->at_ns = 0;
}

static void announce_wait(struct announce *announce)
{
	uint64_t now = now_monotonic_ns(), jitter = hash_mix(now) % JITTER_MS;

	announce->asked = NULL;
	announce->at_ns = announce->again ? 0 : now + (LOOK_MS + jitter) * NS_PER_MS;
	announce->again = false;
}

/* The first failure of several. */
static void announce_fail(struct announce *announce, const char *what, int status, const char *why)
{
	if (!announce->failed)
		log_line(
			LOG_WARN,
			"node %s: its scheduler does not hear of its devices: %s: status %d %.200s",
			announce->conf->node, what, status, why);
	announce->failed = true;
	announce_wait(announce);
}

static void announce_written(void *arg, int status, const char *bytes, size_t len)
{
	struct announce *announce = arg;

	if (status != 200) {
		announce_fail(announce, "PATCH", status, bytes);
		return;
	}
	announce->failed = false;
	announce_wait(announce);
}

static void announce_write(struct announce *announce, const struct annotation *list, size_t n)
{
	int r = patch_send(announce->api, announce->path, annotation_patch(list, n), announce_written,
			   announce, &announce->asked);

	if (r < 0)
		announce_fail(announce, "PATCH", r, strerror(-r));
}

struct notes {
	const json_t *now; /* those of the node */
	size_t n;
	struct annotation list[NOTES];
};

/* If it is another one than the node has. */
static void notes_add(struct notes *notes, const char *key, const char *value)
{
	const char *now = json_string_value(json_object_get(notes->now, key));

	if (value && (!now || strcmp(now, value)))
		notes->list[notes->n++] = (struct annotation){key, value};
}

static void announce_compare(struct announce *announce, const json_t *now)
{
	const struct annotation_keys *keys = annotation_keys(announce->conf->scheduler);
	const char *asks = json_string_value(json_object_get(now, keys->handshake));
	char *devices = annotation_registered(announce->conf, announce->devices);
	char *topology = keys->topology ? annotation_topology(announce->devices) : NULL;
	char *unused = keys->used && !json_object_get(now, keys->used)
			       ? annotation_unused(announce->devices)
			       : NULL;
	char alive[ANNOTATION_TIME_BYTES];
	struct notes notes = {.now = now};

	notes_add(&notes, keys->registered, devices);
	if (topology)
		notes_add(&notes, keys->topology, topology);
	if (unused)
		notes_add(&notes, keys->used, unused);
	annotation_reported(announce->conf->scheduler, time(NULL), alive);
	if (notes.n || annotation_is_asked(asks))
		notes_add(&notes, keys->handshake, alive);
	if (notes.n)
		announce_write(announce, notes.list, notes.n);
	else
		announce_written(announce, 200, "", 0);
	free(devices);
	free(topology);
	free(unused);
}

static void announce_read(void *arg, int status, const char *bytes, size_t len)
{
	struct announce *announce = arg;
	json_error_t error;
	json_t *node = status == 200 ? json_loadb(bytes, len, 0, &error) : NULL;

	announce->asked = NULL;
	if (node)
		announce_compare(announce,
				 json_object_get(json_object_get(node, "metadata"), "annotations"));
	else
		announce_fail(announce, "GET", status, status == 200 ? "no JSON" : bytes);
	json_decref(node);
}

int announce_timeout_ms(const struct announce *announce)
{
	if (announce->asked)
		return -1;
	return (int)(sat_sub_u64(announce->at_ns + NS_PER_MS - 1, now_monotonic_ns()) / NS_PER_MS);
}

void announce_run(struct announce *announce)
{
	int r;

	if (announce->asked || now_monotonic_ns() < announce->at_ns)
		return;
	r = api_get(announce->api, announce->path, TIMEOUT_MS, announce_read, announce, &announce->asked);
	if (r < 0)
		announce_fail(announce, "GET", r, strerror(-r));
}
