/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#include "amd/topology_read.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "amd/topology_indirect.h"
#include "amd/topology_parse.h"
#include "base/dir.h"
#include "base/err.h"
#include "base/fd.h"

/* Numbers of render nodes, as the kernel gives them. */
#define RENDER_FIRST 128
#define RENDER_LAST  ((1u << 20) - 1)

/* In the map from sysfs's numbers to ours: a node that is not shown. */
#define NOT_SHOWN UINT32_MAX

/* One try. */
struct reading {
	const char *root;
	struct topology_complaint *complaint;
	char path[PATH_MAX];		    /* of the file that is being read */
	char text[TOPOLOGY_FILE_BYTES + 2]; /* and what is in it */
	size_t len;
	uint32_t sysfs_nodes;
	uint32_t map[TOPOLOGY_NODES]; /* by sysfs's number: ours, or NOT_SHOWN */
};

static int topology_read_complain(struct reading *rd, int r, const char *what)
{
	snprintf(rd->complaint->text, sizeof(rd->complaint->text), "%.360s: %s", rd->path, what);
	return r;
}

__attribute__((format(printf, 2, 3))) static int set_path(struct reading *rd, const char *fmt, ...)
{
	int n = snprintf(rd->path, sizeof(rd->path), "%s", rd->root), m;
	va_list ap;

	if (n < 0 || (size_t)n >= sizeof(rd->path))
		return topology_read_complain(rd, -ENAMETOOLONG, "the path is too long");
	va_start(ap, fmt);
	m = vsnprintf(rd->path + n, sizeof(rd->path) - (size_t)n, fmt, ap);
	va_end(ap);
	if (m < 0 || (size_t)m >= sizeof(rd->path) - (size_t)n)
		return topology_read_complain(rd, -ENAMETOOLONG, "the path is too long");
	return 0;
}

/* The file at rd->path. */
static int topology_read_file(struct reading *rd)
{
	ssize_t n = fd_read_text(AT_FDCWD, rd->path, rd->text, sizeof(rd->text));

	if (n < 0)
		return topology_read_complain(rd, (int)n, strerror((int)-n));
	if (n > TOPOLOGY_FILE_BYTES)
		return topology_read_complain(rd, -EFBIG, "it is longer than a page");
	rd->len = (size_t)n;
	return 0;
}

/* The kernel's answer where the device cgroup forbids; permission bits, where a tree has them. */
static bool topology_read_is_forbidden(int r)
{
	return r == -EPERM || r == -EACCES;
}

static int topology_read_number(struct reading *rd, uint32_t *ret)
{
	char what[TOPOLOGY_WHAT_BYTES];
	int r = topology_read_file(rd);

	if (r < 0)
		return r;
	r = topology_parse_number(rd->text, rd->len, UINT32_MAX, ret, what);
	return r < 0 ? topology_read_complain(rd, r, what) : 0;
}

static int topology_read_generation(struct reading *rd, uint32_t *ret)
{
	int r = set_path(rd, TOPOLOGY_DIR "/generation_id");

	return r < 0 ? r : topology_read_number(rd, ret);
}

/* Nodes are directories 0 to n-1; where one is missing, reading it tells. */
static int topology_read_count_nodes(struct reading *rd)
{
	int r = set_path(rd, TOPOLOGY_DIR "/nodes");
	CLEANUP_DIR DIR *dir = NULL;
	uint32_t n = 0;

	if (r < 0)
		return r;
	dir = opendir(rd->path);
	if (!dir) {
		r = err_errno();
		return topology_read_complain(rd, r, strerror(-r));
	}
	while (n <= TOPOLOGY_NODES && dir_next(dir))
		n++;
	if (n > TOPOLOGY_NODES)
		return topology_read_complain(rd, -ERANGE, "more nodes in it than are believed");
	rd->sysfs_nodes = n;
	return 0;
}

/*
 * Asked, not opened as ROCm does: opening wakes a GPU that sleeps. The kernel gives the same
 * answer, the device cgroup's included.
 */
static int topology_read_check_render_node(struct reading *rd, uint32_t minor, bool *ret_there)
{
	bool there;
	int r;

	if (minor < RENDER_FIRST || minor > RENDER_LAST)
		return topology_read_complain(rd, -ERANGE,
					      "drm_render_minor is not that of a render node");
	r = set_path(rd, TOPOLOGY_DRI "/renderD%" PRIu32, minor);
	if (r < 0)
		return r;
	there = !faccessat(AT_FDCWD, rd->path, R_OK | W_OK, AT_EACCESS);
	if (there || errno == ENOENT || errno == EPERM) {
		*ret_there = there;
		return 0;
	}
	if (errno == EACCES)
		return topology_read_complain(
			rd, -EACCES,
			"no permission; ask for the group that it belongs to (often "
			"render)");
	r = err_errno();
	return topology_read_complain(rd, r, strerror(-r));
}

static int topology_read_name(struct reading *rd, struct topology_node *node)
{
	int r = set_path(rd, TOPOLOGY_DIR "/nodes/%" PRIu32 "/name", node->sysfs_id);

	if (r < 0)
		return r;
	r = topology_read_file(rd);
	if (r < 0)
		return r == -ENOENT ? 0 : r; /* a name is for people */
	rd->text[strcspn(rd->text, "\n")] = '\0';
	snprintf(node->name, sizeof(node->name), "%.*s", TOPOLOGY_NAME_BYTES - 1, rd->text);
	return 0;
}

/* A node's own files. 0 with ret_shown false for one that this process is not to see. */
static int topology_read_node(struct reading *rd, struct topology *t, struct topology_node *node,
			      bool *ret_shown)
{
	char what[TOPOLOGY_WHAT_BYTES];
	bool there = true;
	int r = set_path(rd, TOPOLOGY_DIR "/nodes/%" PRIu32 "/gpu_id", node->sysfs_id);

	if (r < 0)
		return r;
	r = topology_read_number(rd, &node->gpu_id);
	if (r == 0) {
		r = set_path(rd, TOPOLOGY_DIR "/nodes/%" PRIu32 "/properties", node->sysfs_id);
		if (r < 0)
			return r;
		r = topology_read_file(rd);
	}
	if (topology_read_is_forbidden(r)) {
		t->hidden++;
		*ret_shown = false;
		return 0;
	}
	if (r < 0)
		return r;
	r = topology_parse_node(rd->text, rd->len, node, what);
	if (r < 0)
		return topology_read_complain(rd, r, what);
	if (node->gpu_id && topology_gpu(t, node->gpu_id))
		return topology_read_complain(rd, -EINVAL,
					      "its gpu_id is that of another node, too");
	if (node->gpu_id) {
		r = topology_read_check_render_node(rd, node->render_minor, &there);
		if (r < 0)
			return r;
		t->without_render_node += !there;
	}
	r = there ? topology_read_name(rd, node) : 0;
	if (r == 0)
		*ret_shown = there;
	return r;
}

static int topology_read_nodes(struct reading *rd, struct topology *t)
{
	int r = topology_read_count_nodes(rd);

	if (r < 0)
		return r;
	t->nodes = calloc(rd->sysfs_nodes + 1, sizeof(*t->nodes));
	if (!t->nodes)
		return -ENOMEM;
	for (uint32_t i = 0; i < rd->sysfs_nodes; i++) {
		struct topology_node node = {.id = t->node_count, .sysfs_id = i};
		bool shown;

		r = topology_read_node(rd, t, &node, &shown);
		if (r < 0)
			return r;
		rd->map[i] = shown ? node.id : NOT_SHOWN;
		if (!shown)
			continue;
		t->gpu_count += node.gpu_id != 0;
		t->nodes[t->node_count++] = node;
	}
	return 0;
}

static int topology_read_set_part(struct reading *rd, const struct topology_node *node,
				  const char *parts, uint32_t index)
{
	int r = set_path(rd, TOPOLOGY_DIR "/nodes/%" PRIu32 "/%s/%" PRIu32 "/properties",
			 node->sysfs_id, parts, index);

	return r < 0 ? r : topology_read_file(rd);
}

static int topology_read_banks(struct reading *rd, struct topology_node *node)
{
	char what[TOPOLOGY_WHAT_BYTES];

	node->banks = calloc(node->bank_count + 1u, sizeof(*node->banks));
	if (!node->banks)
		return -ENOMEM;
	for (uint32_t i = 0; i < node->bank_count; i++) {
		int r = topology_read_set_part(rd, node, "mem_banks", i);

		if (r < 0)
			return r;
		r = topology_parse_bank(rd->text, rd->len, &node->banks[i], what);
		if (r < 0)
			return topology_read_complain(rd, r, what);
	}
	return 0;
}

static int topology_read_caches(struct reading *rd, struct topology_node *node)
{
	char what[TOPOLOGY_WHAT_BYTES];

	node->caches = calloc(node->cache_count + 1u, sizeof(*node->caches));
	if (!node->caches)
		return -ENOMEM;
	for (uint32_t i = 0; i < node->cache_count; i++) {
		int r = topology_read_set_part(rd, node, "caches", i);

		if (r < 0)
			return r;
		r = topology_parse_cache(rd->text, rd->len, &node->caches[i], what);
		if (r < 0)
			return topology_read_complain(rd, r, what);
	}
	return 0;
}

/* A link of the node to one that is shown is added to it. */
static int topology_read_link(struct reading *rd, struct topology_node *node, const char *parts,
			      uint32_t index)
{
	struct topology_link link = {0};
	char what[TOPOLOGY_WHAT_BYTES];
	int r = topology_read_set_part(rd, node, parts, index);

	if (topology_read_is_forbidden(r))
		return 0; /* a link to a GPU that is hidden */
	if (r < 0)
		return r;
	r = topology_parse_link(rd->text, rd->len, &link, what);
	if (r < 0)
		return topology_read_complain(rd, r, what);
	if (link.from != node->sysfs_id)
		return topology_read_complain(rd, -EINVAL,
					      "node_from is not the node that the link is of");
	if (link.to >= rd->sysfs_nodes)
		return topology_read_complain(rd, -ERANGE, "node_to is no node");
	if (rd->map[link.to] == NOT_SHOWN)
		return 0;
	link.from = node->id;
	link.to = rd->map[link.to];
	node->links[node->link_count++] = link;
	return 0;
}

static int topology_read_links(struct reading *rd, struct topology_node *node)
{
	uint32_t p2p = node->p2p_link_count == TOPOLOGY_ABSENT ? 0 : node->p2p_link_count;

	node->links = calloc((size_t)node->io_link_count + p2p + 1, sizeof(*node->links));
	if (!node->links)
		return -ENOMEM;
	for (uint32_t i = 0; i < node->io_link_count; i++) {
		int r = topology_read_link(rd, node, "io_links", i);

		if (r < 0)
			return r;
	}
	for (uint32_t i = 0; i < p2p; i++) {
		int r = topology_read_link(rd, node, "p2p_links", i);

		if (r < 0)
			return r;
	}
	return 0;
}

static int topology_read_tree(struct reading *rd, struct topology *t)
{
	bool p2p_listed = false;
	int r = topology_read_nodes(rd, t);

	for (uint32_t i = 0; r == 0 && i < t->node_count; i++) {
		struct topology_node *node = &t->nodes[i];

		if ((r = topology_read_banks(rd, node)) < 0 ||
		    (r = topology_read_caches(rd, node)) < 0 ||
		    (r = topology_read_links(rd, node)) < 0)
			break;
		p2p_listed |= node->p2p_link_count != TOPOLOGY_ABSENT;
	}
	if (r == 0 && !p2p_listed)
		r = topology_add_indirect(t);
	return r;
}

/* 1: the tree changed meanwhile, and what was read of it, errors included, means nothing. */
static int topology_read_try_once(struct reading *rd, struct topology **ret)
{
	CLEANUP_TOPOLOGY struct topology *t = calloc(1, sizeof(*t));
	struct topology_complaint found;
	uint32_t after = 0;
	int r, r2;

	if (!t)
		return -ENOMEM;
	r = topology_read_generation(rd, &t->generation);
	if (r < 0)
		return r;
	r = topology_read_tree(rd, t);
	found = *rd->complaint;
	r2 = topology_read_generation(rd, &after);
	if (r2 < 0)
		return r2;
	if (after != t->generation)
		return 1;
	if (r < 0) {
		*rd->complaint = found;
		return r;
	}
	*ret = TAKE_PTR(t);
	return 0;
}

int topology_read(const char *root, struct topology **ret_topology,
		  struct topology_complaint *complaint)
{
	CLEANUP_FREE struct reading *rd = calloc(1, sizeof(*rd));
	int r = 1;

	snprintf(complaint->text, sizeof(complaint->text), "out of memory");
	if (!rd)
		return -ENOMEM;
	rd->root = root ? root : "";
	rd->complaint = complaint;
	for (int i = 0; r == 1 && i < TOPOLOGY_TRIES; i++)
		r = topology_read_try_once(rd, ret_topology);
	if (r == 1)
		return topology_read_complain(rd, -EAGAIN,
					      "it changed whenever the topology was read");
	return r;
}
