/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshots of written trees. Linked so that each file that is read passes __wrap_fd_read_text:
 * a test may change the tree while it is read, or answer as the kernel does where the device
 * cgroup forbids.
 */
#include <sys/wait.h>

#include "tests/unit/topology_tree.h"

ssize_t __real_fd_read_text(int dirfd, const char *path, char *buf, size_t len);
ssize_t __wrap_fd_read_text(int dirfd, const char *path, char *buf, size_t len);

static struct {
	const char *ends; /* of the path; NULL: none */
	int answer;	  /* -errno instead of reading; 0: call `act` before */
	void (*act)(struct tree *t);
	struct tree *tree;
	unsigned int passed;
} on_read;

ssize_t __wrap_fd_read_text(int dirfd, const char *path, char *buf, size_t len)
{
	size_t n = strlen(path), m = on_read.ends ? strlen(on_read.ends) : 0;

	if (on_read.ends && n >= m && !strcmp(path + n - m, on_read.ends)) {
		on_read.passed++;
		if (on_read.answer)
			return on_read.answer;
		on_read.act(on_read.tree);
	}
	return __real_fd_read_text(dirfd, path, buf, len);
}

static struct topology *snapshot(struct tree *t)
{
	struct topology_complaint complaint;
	struct topology *topology = NULL;
	int r = topology_read(t->root, &topology, &complaint);

	if (r < 0)
		fprintf(stderr, "%s\n", complaint.text);
	CHECK_EQ(r, 0);
	return topology;
}

/* Not readable, by this errno, and the complaint has these words. */
static void refuses(struct tree *t, int err, const char *file, const char *words)
{
	struct topology_complaint complaint;
	struct topology *topology = NULL;
	int r = topology_read(t->root, &topology, &complaint);

	if (r != err || !strstr(complaint.text, file) || !strstr(complaint.text, words))
		fprintf(stderr, "%s: %s: %d: %s\n", file, words, r, complaint.text);
	CHECK_EQ(r, err);
	CHECK(!topology);
	CHECK(strstr(complaint.text, file));
	CHECK(strstr(complaint.text, words));
	CHECK(!strncmp(complaint.text, t->root, strlen(t->root)));
}

/* These GPUs and no others reach memory of the owner; the list ends with 0, which is a CPU. */
static void check_reach(const struct topology *t, uint32_t owner, const uint32_t *wanted)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < t->node_count; i++)
		n += t->nodes[i].gpu_id && topology_can_reach(t, i, owner);
	for (uint32_t i = 0; wanted[i]; i++, n--)
		CHECK(topology_can_reach(t, wanted[i], owner));
	CHECK_EQ(n, 0);
}

#define GPUS(...) ((const uint32_t[]){__VA_ARGS__, 0})

static void test_one_gpu(void)
{
	char gfx[TOPOLOGY_GFX_BYTES], pci[TOPOLOGY_PCI_BYTES];
	const struct topology_link *link;
	const struct topology_node *gpu;
	struct topology *t;
	struct tree tree;

	tree_begin(&tree);
	tree_board(&tree, 1, 0);
	CHECK_EQ(tree_write(&tree), 0);
	t = snapshot(&tree);
	CHECK_EQ(t->generation, 2);
	CHECK_EQ(t->node_count, 2);
	CHECK_EQ(t->gpu_count, 1);
	CHECK_EQ(t->hidden + t->without_render_node, 0);
	CHECK_EQ(t->nodes[0].cpu_cores, 64);
	CHECK_EQ(topology_vram_bytes(&t->nodes[0]), 0);
	gpu = topology_gpu(t, 10111);
	CHECK(gpu == &t->nodes[1]);
	CHECK(!topology_gpu(t, 10112) && !topology_gpu(t, 0));
	CHECK_EQ(gpu->id, 1);
	CHECK_EQ(gpu->simds, 440);
	CHECK_EQ(gpu->xccs, 1);
	CHECK_EQ(gpu->render_minor, 129);
	CHECK_EQ(gpu->unique_id, 0x1234567890abcd01);
	CHECK(!strcmp(gpu->name, "aldebaran"));
	CHECK_EQ(topology_vram_bytes(gpu), TREE_VRAM);
	CHECK_EQ(gpu->banks[0].width_bits, 4096);
	CHECK_EQ(gpu->cache_count, 2);
	CHECK_EQ(gpu->caches[0].size_kib, 16);
	topology_gfx_name(gpu, gfx);
	CHECK(!strcmp(gfx, "gfx90a"));
	topology_gfx_name(&t->nodes[0], gfx);
	CHECK(!strcmp(gfx, ""));
	topology_pci_name(gpu, pci);
	CHECK(!strcmp(pci, "0000:01:00.0"));
	link = topology_link(t, 1, 0);
	CHECK(link && link->type == TOPOLOGY_LINK_PCIE && link->weight == 20 && !link->indirect);
	CHECK_EQ(link->min_mb_per_s, 31500);
	CHECK_EQ(link->max_mb_per_s, 63000);
	check_reach(t, 1, GPUS(1));
	CHECK(topology_can_reach(t, 1, 1) && !topology_can_reach(t, 2, 2));
	CHECK(!topology_link(t, 2, 0) && !topology_link(t, 0, 2) && !topology_link(t, 1, 1));
	topology_free(t);
	topology_free(NULL);
	tree_end(&tree);
}

static void test_xgmi(void)
{
	struct topology *t;
	struct tree tree;

	for (uint32_t gpus = 2; gpus <= 8; gpus += 6) {
		tree_begin(&tree);
		tree_board(&tree, gpus, 7);
		CHECK_EQ(tree_write(&tree), 0);
		t = snapshot(&tree);
		CHECK_EQ(t->gpu_count, gpus);
		CHECK_EQ(t->nodes[2].hive_id, 7);
		CHECK_EQ(topology_link(t, 1, 2)->type, TOPOLOGY_LINK_XGMI);
		if (gpus == 2)
			check_reach(t, 2, GPUS(2, 1));
		else
			check_reach(t, 2, GPUS(2, 1, 3, 4, 5, 6, 7, 8));
		topology_free(t);
		tree_end(&tree);
	}
}

/* Who maps needs the link to the owner; one from the owner does not help. */
static void test_direction(void)
{
	struct topology *t;
	struct tree tree;

	tree_begin(&tree);
	tree_board(&tree, 8, 7);
	tree_unlink(&tree, 1, 2);
	CHECK_EQ(tree_write(&tree), 0);
	t = snapshot(&tree);
	CHECK(!topology_can_reach(t, 1, 2) && topology_can_reach(t, 2, 1));
	check_reach(t, 2, GPUS(2, 3, 4, 5, 6, 7, 8));
	check_reach(t, 1, GPUS(1, 2, 3, 4, 5, 6, 7, 8));
	topology_free(t);
	tree_end(&tree);
}

/* Of several links the closest; a second one makes nobody a peer twice. */
static void test_closest(void)
{
	struct topology *t;
	struct tree tree;

	tree_begin(&tree);
	tree_board(&tree, 2, 0);
	tree.node[1].p2p[0] = (struct tree_link){2, TOPOLOGY_LINK_PCIE, 40, 32000};
	tree.node[1].p2p[1] = (struct tree_link){2, TOPOLOGY_LINK_XGMI, 15, 50000};
	tree.node[1].p2p[2] = (struct tree_link){2, 99, 15, 1};
	tree.node[1].np2p = 3;
	CHECK_EQ(tree_write(&tree), 0);
	t = snapshot(&tree);
	CHECK_EQ(topology_link(t, 1, 2)->type, TOPOLOGY_LINK_XGMI);
	check_reach(t, 2, GPUS(2, 1));
	check_reach(t, 1, GPUS(1));
	CHECK(!strcmp(topology_link_name(99), "other"));
	topology_free(t);
	tree_end(&tree);
}

/* Without xGMI: nobody, whom the kernel lists, or whom it would have listed. */
static void test_pcie(void)
{
	struct topology *t;
	struct tree tree;

	tree_begin(&tree);
	tree_board(&tree, 2, 0);
	CHECK_EQ(tree_write(&tree), 0);
	t = snapshot(&tree);
	check_reach(t, 1, GPUS(1));
	topology_free(t);

	tree.no_p2p_lists = true;
	CHECK_EQ(tree_write(&tree), 0);
	t = snapshot(&tree);
	check_reach(t, 1, GPUS(1, 2));
	CHECK(topology_link(t, 1, 2)->indirect);
	CHECK_EQ(topology_link(t, 1, 2)->weight, 40);
	CHECK_EQ(topology_link(t, 1, 2)->type, TOPOLOGY_LINK_PCIE);
	CHECK_EQ(topology_link(t, 1, 2)->max_mb_per_s, 0);
	topology_free(t);

	/* The CPU does not see that one's memory, so no other GPU does. */
	tree.node[2].heap = TOPOLOGY_HEAP_VRAM;
	CHECK_EQ(tree_write(&tree), 0);
	t = snapshot(&tree);
	check_reach(t, 1, GPUS(1, 2));
	check_reach(t, 2, GPUS(2));
	topology_free(t);
	tree_end(&tree);
}

static void test_hives_have_no_way_round(void)
{
	struct topology *t;
	struct tree tree;

	tree_begin(&tree);
	tree.no_p2p_lists = true;
	tree_board(&tree, 3, 7);
	tree_unlink(&tree, 1, 2);
	tree.node[3].hive = 8;
	tree_unlink(&tree, 1, 3);
	CHECK_EQ(tree_write(&tree), 0);
	t = snapshot(&tree);
	CHECK(!topology_can_reach(t, 1, 2));
	CHECK(topology_can_reach(t, 1, 3) && topology_link(t, 1, 3)->indirect);
	topology_free(t);
	tree_end(&tree);
}

/* Nodes 0 and 1 are sockets, 2 and 3 a GPU on each. */
static void test_sockets(void)
{
	static const struct {
		uint32_t type, weight;
		bool reach;
	} joins[] = {
		{TOPOLOGY_LINK_QPI, 20, true},
		{TOPOLOGY_LINK_QPI, 21, false},
		{TOPOLOGY_LINK_HYPERTRANSPORT, 32, true},
		{TOPOLOGY_LINK_HYPERTRANSPORT, UINT32_MAX, true},
	};
	struct topology *t;
	struct tree tree;

	for (size_t i = 0; i < sizeof(joins) / sizeof(joins[0]); i++) {
		tree_begin(&tree);
		tree.no_p2p_lists = true;
		tree_cpu(&tree);
		tree_cpu(&tree);
		tree_gpu(&tree, 0);
		tree_gpu(&tree, 0);
		tree_link_both(&tree, 0, 1, joins[i].type, joins[i].weight, 0);
		tree_link_both(&tree, 0, 2, TOPOLOGY_LINK_PCIE, 20, 0);
		tree_link_both(&tree, 1, 3, TOPOLOGY_LINK_PCIE, 20, 0);
		CHECK_EQ(tree_write(&tree), 0);
		t = snapshot(&tree);
		CHECK_EQ(topology_can_reach(t, 2, 3), joins[i].reach);
		CHECK_EQ(topology_can_reach(t, 3, 2), joins[i].reach);
		/* The other socket is reached in any case. */
		CHECK(topology_can_reach(t, 2, 1) && topology_can_reach(t, 1, 2));
		if (joins[i].reach)
			CHECK_EQ(topology_link(t, 2, 3)->type, joins[i].type);
		if (joins[i].weight == UINT32_MAX)
			CHECK_EQ(topology_link(t, 2, 3)->weight, UINT32_MAX);
		topology_free(t);
		tree_end(&tree);
	}
}

/* What is left moves up, and nothing leads to what is not. */
static void check_without_second(struct tree *tree, bool hidden)
{
	struct topology *t = snapshot(tree);

	CHECK_EQ(t->hidden, hidden);
	CHECK_EQ(t->without_render_node, !hidden);
	CHECK_EQ(t->node_count, 3);
	CHECK_EQ(t->gpu_count, 2);
	CHECK_EQ(t->nodes[2].id, 2);
	CHECK_EQ(t->nodes[2].sysfs_id, 3);
	CHECK(!topology_gpu(t, tree->node[2].gpu_id));
	check_reach(t, 1, GPUS(1, 2));
	check_reach(t, 2, GPUS(2, 1));
	CHECK_EQ(t->nodes[0].link_count, 2);
	for (uint32_t i = 0; i < t->nodes[0].link_count; i++)
		CHECK(t->nodes[0].links[i].from == 0 && t->nodes[0].links[i].to < 3);
	topology_free(t);
}

static void test_hidden(void)
{
	static const char *const files[] = {"/nodes/2/gpu_id", "/nodes/2/properties"};
	static const int answers[] = {-EPERM, -EACCES};
	struct tree tree;

	tree_begin(&tree);
	tree_board(&tree, 3, 7);
	CHECK_EQ(tree_write(&tree), 0);
	for (int i = 0; i < 4; i++) {
		on_read.ends = files[i / 2];
		on_read.answer = answers[i % 2];
		check_without_second(&tree, true);
		on_read.ends = NULL;
	}
	/* The kernel keeps links to a hidden GPU back, too: not an error, and no link. */
	on_read.ends = "/nodes/0/io_links/1/properties";
	on_read.answer = -EPERM;
	CHECK_EQ(tree.node[0].io[1].to, 2);
	{
		struct topology *t = snapshot(&tree);

		CHECK_EQ(t->nodes[0].link_count, 2);
		CHECK(!topology_can_reach(t, 0, 2) && topology_can_reach(t, 0, 3));
		topology_free(t);
	}
	on_read.ends = NULL;
	tree_remove(&tree, TOPOLOGY_DRI "/renderD130");
	check_without_second(&tree, false);
	tree_end(&tree);
}

/* A render node of another group is something to tell. In a child, which is not root. */
static void test_render_permission(void)
{
	char path[PATH_MAX];
	struct tree tree;
	int status;
	pid_t pid;

	tree_begin(&tree);
	tree_board(&tree, 1, 0);
	CHECK_EQ(tree_write(&tree), 0);
	snprintf(path, sizeof(path), "%s" TOPOLOGY_DRI "/renderD129", tree.root);
	CHECK_EQ(chmod(path, 0), 0);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		if (!geteuid() && (setgid(65534) || setuid(65534)))
			exit(1);
		refuses(&tree, -EACCES, "/renderD129", "ask for the group");
		exit(0);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
	tree_end(&tree);
}

static void raise_generation(struct tree *t)
{
	char text[16];

	snprintf(text, sizeof(text), "%u\n", 2 + on_read.passed);
	CHECK_EQ(tree_put(t, TOPOLOGY_DIR "/generation_id", text), 0);
}

/* Once: a link goes, and a file is torn meanwhile. */
static void change_once(struct tree *t)
{
	if (on_read.passed > 1)
		return;
	raise_generation(t);
	tree_remove(t, TOPOLOGY_DIR "/nodes/1/io_links");
	tree_unlink(t, 1, 2);
	CHECK_EQ(tree_write_node(t, 1), 0);
	CHECK_EQ(tree_put(t, TOPOLOGY_DIR "/nodes/1/mem_banks/0/properties", "heap_ty"), 0);
}

static void mend(struct tree *t)
{
	CHECK_EQ(tree_write_node(t, 1), 0);
}

static void change_and_mend(struct tree *t)
{
	if (on_read.passed == 1)
		change_once(t);
	else
		mend(t);
}

static void test_generation(void)
{
	struct topology *t;
	struct tree tree;

	tree_begin(&tree);
	tree_board(&tree, 2, 7);
	CHECK_EQ(tree_write(&tree), 0);
	on_read.tree = &tree;
	on_read.answer = 0;
	on_read.passed = 0;
	on_read.act = change_and_mend;
	on_read.ends = "/nodes/1/properties";
	t = snapshot(&tree);
	CHECK_EQ(on_read.passed, 2);
	CHECK_EQ(t->generation, 3);
	check_reach(t, 2, GPUS(2));
	check_reach(t, 1, GPUS(1, 2));
	topology_free(t);

	/* The same damage without a change of the tree's count is an error. */
	CHECK_EQ(tree_put(&tree, TOPOLOGY_DIR "/nodes/1/mem_banks/0/properties", "heap_ty"), 0);
	on_read.ends = NULL;
	refuses(&tree, -ENODATA, "/nodes/1/mem_banks/0/properties", "line 1 has no end");

	CHECK_EQ(tree_write(&tree), 0);
	on_read.passed = 0;
	on_read.act = raise_generation;
	on_read.ends = "/nodes/2/properties";
	refuses(&tree, -EAGAIN, "/generation_id", "changed whenever");
	CHECK_EQ(on_read.passed, TOPOLOGY_TRIES);
	on_read.ends = NULL;
	tree_end(&tree);
}

#define NODE(n) TOPOLOGY_DIR "/nodes/" n

/* Each of them is spoiled alone. */
static void test_damage(void)
{
	static const struct {
		const char *file, *text;
		int err;
		const char *words;
	} cases[] = {
		{TOPOLOGY_DIR "/generation_id", "", -ENODATA, "empty"},
		{TOPOLOGY_DIR "/generation_id", "x\n", -EINVAL, "not one number"},
		{NODE("1/gpu_id"), "4294967296\n", -ERANGE, "out of range"},
		{NODE("1/gpu_id"), "-1\n", -EINVAL, "\"-1\""},
		{NODE("1/gpu_id"), "12\n13\n", -EINVAL, "not one number"},
		{NODE("1/gpu_id"), "12", -ENODATA, "no end"},
		{NODE("1/properties"), "", -ENODATA, "cpu_cores_count is missing"},
		{NODE("1/mem_banks/0/properties"), "heap_type 1\n", -ENODATA, "size_in_bytes"},
		{NODE("1/mem_banks/0/properties"), "heap_type 1\nsize_in_bytes 1e9\n", -EINVAL,
		 "line 2: size_in_bytes is no number: \"1e9\""},
		{NODE("1/caches/0/properties"), "level\n", -EINVAL, "not a name and a value"},
		{NODE("1/io_links/0/properties"), "type 2\nnode_from 2\nnode_to 0\nweight 20\n",
		 -EINVAL, "node_from"},
		{NODE("1/io_links/0/properties"), "type 2\nnode_from 1\nnode_to 5\nweight 20\n",
		 -ERANGE, "node_to"},
		{NODE("1/io_links/0/properties"), "type 2\nnode_from 1\nnode_to 256\nweight 20\n",
		 -ERANGE, "line 3: node_to"},
		{NODE("2/gpu_id"), "10111\n", -EINVAL, "that of another node"},
	};
	struct tree tree;

	tree_begin(&tree);
	tree_board(&tree, 2, 7);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *named = cases[i].file + strlen(TOPOLOGY_DIR);

		/* What is wrong with two is seen once the second's properties are read. */
		if (!strcmp(named, "/nodes/2/gpu_id"))
			named = "/nodes/2/";
		CHECK_EQ(tree_write(&tree), 0);
		CHECK_EQ(tree_put(&tree, cases[i].file, cases[i].text), 0);
		refuses(&tree, cases[i].err, named, cases[i].words);
	}
	tree_end(&tree);
}

static void test_missing_files(void)
{
	static const char *const paths[] = {
		"/nodes/1/gpu_id",
		"/nodes/1/properties",
		"/nodes/1/mem_banks",
		"/nodes/2/caches/0",
		"/nodes/2/io_links/1/properties",
		"/nodes/1",
		"/nodes",
		"/generation_id",
	};
	struct tree tree;

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		tree_begin(&tree);
		tree_board(&tree, 2, 7);
		CHECK_EQ(tree_write(&tree), 0);
		tree_remove(&tree, TOPOLOGY_DIR "%s", paths[i]);
		refuses(&tree, -ENOENT, paths[i], "No such file");
		tree_end(&tree);
	}
	/* A name is for people. */
	tree_begin(&tree);
	tree_board(&tree, 1, 0);
	CHECK_EQ(tree_write(&tree), 0);
	tree_remove(&tree, NODE("1/name"));
	topology_free(snapshot(&tree));
	tree_end(&tree);
	/* No KFD at all. */
	tree_begin(&tree);
	refuses(&tree, -ENOENT, TOPOLOGY_DIR "/generation_id", "No such file");
	tree_end(&tree);
}

static void test_odd_files(void)
{
	char text[4097];
	char path[PATH_MAX];
	struct tree tree;

	tree_begin(&tree);
	tree_board(&tree, 1, 0);
	CHECK_EQ(tree_write(&tree), 0);
	memset(text, 'x', sizeof(text));
	CHECK_EQ(tree_put_bytes(&tree, NODE("1/properties"), text, sizeof(text)), 0);
	refuses(&tree, -EFBIG, "/nodes/1/properties", "longer than a page");
	CHECK_EQ(tree_put_bytes(&tree, NODE("1/properties"), text, 4000), 0);
	refuses(&tree, -ENODATA, "/nodes/1/properties", "no end");
	text[3999] = '\n';
	CHECK_EQ(tree_put_bytes(&tree, NODE("1/properties"), text, 4000), 0);
	refuses(&tree, -EINVAL, "/nodes/1/properties", "more than 63 bytes: \"xxxx");
	CHECK_EQ(tree_put_bytes(&tree, NODE("1/properties"), "simd_count 1\0\n", 14), 0);
	refuses(&tree, -EINVAL, "/nodes/1/properties", "zero byte");
	CHECK_EQ(tree_write(&tree), 0);

	/* A long name is cut, and none of these is waited for or followed. */
	CHECK_EQ(tree_put_bytes(&tree, NODE("1/name"), text, 1000), 0);
	topology_free(snapshot(&tree));
	snprintf(path, sizeof(path), "%s" NODE("1/gpu_id"), tree.root);
	CHECK_EQ(unlink(path), 0);
	CHECK_EQ(mkfifo(path, 0600), 0);
	refuses(&tree, -ENODATA, "/nodes/1/gpu_id", "empty");
	CHECK_EQ(unlink(path), 0);
	CHECK_EQ(mkdir(path, 0700), 0);
	refuses(&tree, -EISDIR, "/nodes/1/gpu_id", "directory");
	CHECK_EQ(rmdir(path), 0);
	CHECK_EQ(symlink("../0/gpu_id", path), 0);
	refuses(&tree, -ELOOP, "/nodes/1/gpu_id", "links");
	tree_end(&tree);
}

static void test_counts(void)
{
	struct topology_complaint complaint;
	struct topology *topology = NULL;
	char root[PATH_MAX], name[128];
	struct tree tree;

	tree_begin(&tree);
	tree_board(&tree, 1, 0);
	CHECK_EQ(tree_write(&tree), 0);
	tree.node[1].nio = 4097;
	snprintf(name, sizeof(name), "%s",
		 "cpu_cores_count 0\nsimd_count 1\nmem_banks_count 4097\n");
	CHECK_EQ(tree_put(&tree, NODE("1/properties"), name), 0);
	refuses(&tree, -ERANGE, "/nodes/1/properties", "mem_banks_count is out of range");
	tree.node[1].nio = 1;
	CHECK_EQ(tree_write(&tree), 0);
	for (int i = 2; i <= TOPOLOGY_NODES; i++) {
		snprintf(name, sizeof(name), TOPOLOGY_DIR "/nodes/%d/gpu_id", i);
		CHECK_EQ(tree_put(&tree, name, "0\n"), 0);
	}
	refuses(&tree, -ERANGE, "/nodes", "more nodes");
	tree_end(&tree);

	memset(root, 'r', sizeof(root));
	root[0] = '/';
	root[sizeof(root) - 1] = '\0';
	CHECK_EQ(topology_read(root, &topology, &complaint), -ENAMETOOLONG);
	root[sizeof(root) - 20] = '\0';
	CHECK_EQ(topology_read(root, &topology, &complaint), -ENAMETOOLONG);
	CHECK(!topology);
}

/* A GPU without a number of a render node is damage, not absence. */
static void test_minors(void)
{
	static const char *const minors[] = {"0", "127", "1048576", "4294967295"};
	char text[512];
	struct tree tree;

	tree_begin(&tree);
	tree_board(&tree, 1, 0);
	CHECK_EQ(tree_write(&tree), 0);
	for (size_t i = 0; i < sizeof(minors) / sizeof(minors[0]); i++) {
		snprintf(text, sizeof(text),
			 "cpu_cores_count 0\nsimd_count 1\nmem_banks_count 0\ncaches_count 0\n"
			 "io_links_count 0\nlocation_id 0\ndrm_render_minor %s\n",
			 minors[i]);
		CHECK_EQ(tree_put(&tree, NODE("1/properties"), text), 0);
		refuses(&tree, -ERANGE, "/nodes/1/properties", "drm_render_minor");
	}
	tree_end(&tree);
}

int main(void)
{
	test_one_gpu();
	test_xgmi();
	test_direction();
	test_closest();
	test_pcie();
	test_hives_have_no_way_round();
	test_sockets();
	test_hidden();
	test_render_permission();
	test_generation();
	test_damage();
	test_missing_files();
	test_odd_files();
	test_counts();
	test_minors();
	return 0;
}
