/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shares of emulated AMD GPUs: programs that know nothing of allot make queues in tenants, and the
 * emulator's own roster says which units and how much time they have.
 */
#include "tests/sim/queues.h"

static int quarter = 27, half = 55, rest = 44, all = 110; /* 25, 50, 40 and 100 % of 110 */
static bool pairs;

static bool in_pairs(const struct puppet *p, uint32_t id)
{
	struct roster_queue is = roster_get(p, id);

	for (int i = 0; i < ROSTER_MASK_WORDS; i++)
		if ((is.mask[i] ^ is.mask[i] >> 1) & 0x55555555)
			return false;
	return true;
}

/* Until there is no such thing in the process any more, or there is one. */
static bool wait_keeper(const struct puppet *p, bool wanted)
{
	uint64_t since = now_monotonic_ns();

	while (has_keeper(p) != wanted && now_monotonic_ns() < since + WAIT_NS)
		usleep(500);
	return has_keeper(p) == wanted;
}

/* Fewest that there are in some milliseconds: the keeper opens some, and closes them. */
static int fewest_fds(const struct puppet *p)
{
	int least = INT_MAX;

	for (int i = 0; i < 40; i++, usleep(500)) {
		int n = count_fds(p);

		least = n < least ? n : least;
	}
	return least;
}

/* A quarter of the units from the beginning, in every queue; half of them when that is said. */
static void test_masks(void)
{
	struct puppet a = puppet_start("a", OPTIONS("--compute", "25"));
	struct puppet b = puppet_start("b", OPTIONS("--compute", "40"));
	uint32_t one = puppet_make(&a, 0, AQL), two = puppet_make(&a, 0, PM4), other;
	uint64_t took_ms;

	CHECK(bits(&a, one) == quarter && bits(&a, two) == quarter);
	CHECK(roster_get(&a, one).active && roster_get(&a, two).active);
	other = puppet_make(&b, 0, AQL);
	CHECK(bits(&b, other) == rest && disjoint(&a, one, &b, other));
	usleep(150000); /* until nobody looks for any other reason */
	tenant_set("a", 500);
	took_ms = wait_bits(&a, one, half);
	wait_bits(&a, two, half);
	fprintf(stderr, "a new share was in force after %llu ms\n", (unsigned long long)took_ms);
	wait_bits(&b, other, rest);
	CHECK(disjoint(&a, one, &b, other) && disjoint(&a, two, &b, other));
	CHECK(!pairs || (in_pairs(&a, one) && in_pairs(&b, other)));
	CHECK(roster_get(&a, one).active && roster_get(&a, two).active);
	/* On another GPU nobody else is. */
	CHECK_EQ(bits(&a, puppet_make(&a, 1, AQL)), half);
	puppet_end(&a);
	puppet_end(&b);
}

/* Who shares has what others leave; all of it when they are gone, whichever way. */
static void test_sharing(void)
{
	struct puppet s = puppet_start("s", OPTIONS("--weight", "1"));
	struct puppet t = puppet_start("t", OPTIONS("--weight", "1")), b;
	uint32_t mine = puppet_make(&s, 0, AQL), theirs;

	CHECK_EQ(bits(&s, mine), all);
	theirs = puppet_make(&t, 0, AQL);
	CHECK_EQ(bits(&t, theirs), half);
	wait_bits(&s, mine, half);
	CHECK(disjoint(&s, mine, &t, theirs));
	puppet_kill(&t);
	wait_bits(&s, mine, all);

	b = puppet_start("b", OPTIONS("--compute", "40"));
	theirs = puppet_make(&b, 0, AQL);
	CHECK_EQ(bits(&b, theirs), rest);
	wait_bits(&s, mine, all * 6 / 10);
	CHECK(disjoint(&s, mine, &b, theirs));
	puppet(&b, (struct queue_ask){.op = QUEUE_DESTROY, .id = theirs});
	wait_bits(&s, mine, all);
	puppet_end(&b);
	puppet_end(&s);
}

static int own_mask(struct puppet *p, uint32_t id, uint32_t word, uint32_t n)
{
	struct queue_ask ask = {.op = QUEUE_MASK, .id = id, .bits = n, .mask = {word}};

	return puppet_try(p, ask).result;
}

/* What the program itself asks for is kept, as far as it is inside. */
static void test_own_masks(void)
{
	struct puppet a = puppet_start("own", OPTIONS("--compute", "25"));
	struct puppet b = puppet_start("b", OPTIONS("--compute", "40"));
	uint32_t id = puppet_make(&a, 0, AQL), other = puppet_make(&b, 0, AQL);
	struct roster_queue tenants, others;
	struct queue_ask whole = {
		.op = QUEUE_MASK, .id = id, .bits = 1024, .mask = {[0 ... 31] = ~0u}};
	struct queue_ask every_other = {
		.op = QUEUE_MASK, .id = id, .bits = 1024, .mask = {[0 ... 31] = 0x00ff00ff}};
	struct queue_ask theirs = {.op = QUEUE_MASK, .id = id, .bits = 1024};
	uint64_t since;
	int few, i;

	usleep(150000); /* until each has made room for the other */
	tenants = roster_get(&a, id);
	others = roster_get(&b, other);
	puppet(&a, every_other);
	few = bits(&a, id);
	CHECK(few && few < quarter && disjoint(&a, id, &b, other));
	for (i = 0; i < ROSTER_MASK_WORDS; i++)
		CHECK_EQ(roster_get(&a, id).mask[i], tenants.mask[i] & 0x00ff00ff);
	/* All of the GPU is all of the tenant's; and what would hang the queue is passed over. */
	puppet(&a, whole);
	CHECK_EQ(bits(&a, id), quarter);
	memcpy(theirs.mask, others.mask, sizeof(others.mask));
	puppet(&a, theirs);
	CHECK_EQ(bits(&a, id), quarter);
	CHECK(disjoint(&a, id, &b, other));
	/* It holds for every share that the tenant has later. */
	puppet(&a, every_other);
	puppet_end(&b);
	tenant_set("own", 1000 / 2);
	since = now_monotonic_ns();
	while (bits(&a, id) <= few && now_monotonic_ns() < since + WAIT_NS)
		usleep(500);
	CHECK(bits(&a, id) > few && bits(&a, id) < half);
	tenant_set("own", 0);
	wait_bits(&a, id, (all + 31) / 32 * 16);
	puppet_end(&a);
}

/* As the kernel answers what it does not take. */
static void test_bad_masks(void)
{
	struct puppet a = puppet_start("bad", OPTIONS("--compute", "25"));
	uint32_t id = puppet_make(&a, 0, AQL);
	struct queue_ask wild = {.op = QUEUE_MASK, .id = id, .bits = 1024, .wild = 16};

	CHECK_EQ(own_mask(&a, id, 3, 0), -EINVAL);
	CHECK_EQ(own_mask(&a, id, 3, 31), -EINVAL);
	CHECK_EQ(own_mask(&a, id, 1, 32), pairs ? -EINVAL : 0);
	CHECK_EQ(own_mask(&a, 999, 3, 32), -EFAULT);
	CHECK_EQ(own_mask(&a, UINT32_MAX, 3, 32), -EFAULT);
	CHECK_EQ(puppet_try(&a, wild).result, -EFAULT);
	wild.wild = UINT64_MAX - 7;
	CHECK_EQ(puppet_try(&a, wild).result, -EFAULT);
	CHECK(bits(&a, id) <= quarter);
	puppet_end(&a);
}

/* How often the keeper, and who waits in its place, have gone to sleep; -1: there is none. */
static long keeper_naps(const struct puppet *p)
{
	char path[300], text[4096];
	struct dirent *entry;
	long naps = -1;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", p->pid);
	dir = opendir(path);
	CHECK(dir);
	while ((entry = readdir(dir))) {
		const char *at;

		snprintf(path, sizeof(path), "/proc/%d/task/%.20s/status", p->pid, entry->d_name);
		if (fd_read_text(AT_FDCWD, path, text, sizeof(text)) <= 0 ||
		    !strstr(text, "allot-keeper"))
			continue;
		at = strstr(text, "\nvoluntary_ctxt_switches:");
		CHECK(at);
		naps = (naps < 0 ? 0 : naps) + atol(at + strlen("\nvoluntary_ctxt_switches:"));
	}
	closedir(dir);
	return naps;
}

/* Until there is a keeper that does not look at anything by itself. */
static bool wait_asleep(const struct puppet *p)
{
	uint64_t since = now_monotonic_ns();
	long was, is = -1;

	do {
		was = is;
		usleep(200000);
		is = keeper_naps(p);
	} while ((is < 0 || is != was) && now_monotonic_ns() < since + 4 * WAIT_NS);
	return is >= 0 && is == was;
}

static bool wait_awake(const struct puppet *p)
{
	long was = keeper_naps(p);
	uint64_t since = now_monotonic_ns();

	while (keeper_naps(p) < was + 20 && now_monotonic_ns() < since + 4 * WAIT_NS)
		usleep(10000);
	return keeper_naps(p) >= was + 20;
}

/* All of each GPU but of the second. */
static int limit_second(struct policy *policy, void *arg)
{
	struct topology_complaint complaint;
	struct topology *topology;
	uint32_t gpus = 0;

	CHECK_EQ(topology_read(NULL, &topology, &complaint), 0);
	CHECK(policy->flags & POLICY_ALL_DEVICES && policy->ndevices == 1);
	for (uint32_t i = 0; i < topology->node_count; i++)
		if (topology->nodes[i].gpu_id && gpus++ == 1)
			amd_identity(&topology->nodes[i], policy->device[1].uuid);
	topology_free(topology);
	policy->compute = POLICY_COMPUTE_CAP;
	policy->ndevices = 2;
	policy->device[1].limit_permille = 1000;
	policy->device[1].share_permille = 250;
	return 0;
}

/*
 * A limit that comes when the queues are there already, and goes again; the program makes no call
 * meanwhile.
 */
static void test_on_and_off(void)
{
	struct puppet a = puppet_start("later", OPTIONS("--memory", "32MiB"));
	uint32_t id = puppet_make(&a, 0, AQL);

	CHECK(!roster_get(&a, id).mask_bits);
	CHECK(wait_asleep(&a));
	tenant_set("later", 250);
	wait_bits(&a, id, quarter);
	tenant_set("later", 0);
	wait_bits(&a, id, all);
	CHECK(wait_asleep(&a));
	tenant_set("later", 500);
	wait_bits(&a, id, half);
	tenant_set("later", 1000);
	wait_bits(&a, id, all);
	CHECK(wait_asleep(&a));
	tenant_set("later", 250);
	CHECK_EQ(bits(&a, puppet_make(&a, 0, AQL)), quarter);
	wait_bits(&a, id, quarter);
	puppet_end(&a);

	/* Who waits for one GPU to have a limit does not look after another that has one. */
	a = puppet_start("part", OPTIONS("--memory", "32MiB"));
	tenant_edit("part", limit_second, NULL);
	puppet_make(&a, 0, AQL);
	CHECK(wait_asleep(&a));
	CHECK_EQ(bits(&a, puppet_make(&a, 1, AQL)), quarter);
	CHECK(wait_awake(&a));
	puppet_end(&a);
}

/* UPDATE_QUEUE changes what the program may change, and nothing else. */
static void test_updates(void)
{
	struct puppet a = puppet_start("a", OPTIONS("--compute", "50"));
	struct queue_ask make = {.op = QUEUE_MAKE, .type = AQL, .percent = 0};
	uint32_t id = puppet_make(&a, 0, AQL), off = puppet(&a, make);
	struct queue_ask update = {.op = QUEUE_UPDATE, .id = id, .percent = 0};
	struct queue_told told;

	CHECK(!roster_get(&a, off).active && bits(&a, off) == half);
	told = puppet_try(&a, update);
	CHECK(!told.result && told.percent == 0);
	CHECK(!roster_get(&a, id).active && bits(&a, id) == half);
	update.percent = 60;
	told = puppet_try(&a, update);
	CHECK(!told.result && told.percent == 60);
	CHECK(roster_get(&a, id).active && bits(&a, id) == half);
	update.percent = 101;
	CHECK_EQ(puppet_try(&a, update).result, -EINVAL);
	update = (struct queue_ask){.op = QUEUE_UPDATE, .id = 999, .percent = 100};
	CHECK_EQ(puppet_try(&a, update).result, -EFAULT);
	usleep(100000);
	CHECK(!roster_get(&a, off).active && roster_get(&a, id).active);
	CHECK_EQ(puppet_try(&a, (struct queue_ask){.op = QUEUE_DESTROY, .id = 999}).result,
		 -EINVAL);
	puppet_end(&a);
}

/*
 * Until there are no more: on a busy machine the keeper may have one open for long, and where the
 * program has closed that meanwhile (QUEUE_CLOSE), it closes one of the program's.
 */
static bool come_to_fds(const struct puppet *p, int n)
{
	uint64_t since = now_monotonic_ns();

	for (; now_monotonic_ns() < since + WAIT_NS; usleep(500))
		if (count_fds(p) <= n)
			return true;
	return false;
}

/* The thread of ours is there while it is needed, and no descriptor of ours at any time. */
static void test_guest(void)
{
	struct puppet a = puppet_start("guest", OPTIONS("--compute", "50"));
	uint32_t id;
	int fds;

	CHECK_EQ(own_mask(&a, 999, 3, 32), -EFAULT);
	CHECK(!has_keeper(&a));
	fds = fewest_fds(&a);
	id = puppet_make(&a, 0, AQL);
	CHECK(wait_keeper(&a, true));
	CHECK(come_to_fds(&a, fds));
	/* Whatever becomes of the file that the queue was made with. */
	puppet(&a, (struct queue_ask){.op = QUEUE_CLOSE});
	fds = fewest_fds(&a);
	tenant_set("guest", 250);
	wait_bits(&a, id, quarter);
	CHECK(come_to_fds(&a, fds));
	puppet_end(&a);

	a = puppet_start("guest", OPTIONS("--compute", "25"));
	id = puppet_make(&a, 0, AQL);
	CHECK(wait_keeper(&a, true));
	puppet(&a, (struct queue_ask){.op = QUEUE_DESTROY, .id = id});
	CHECK(wait_keeper(&a, false));
	CHECK_EQ(bits(&a, puppet_make(&a, 0, AQL)), quarter);
	CHECK(wait_keeper(&a, true));
	/* A child has nothing of it, and all of it for queues of its own. */
	puppet(&a, (struct queue_ask){.op = QUEUE_FORK});
	CHECK(!has_keeper(&a));
	id = puppet_make(&a, 0, AQL);
	CHECK(wait_keeper(&a, true) && bits(&a, id) == quarter);
	tenant_set("guest", 500);
	wait_bits(&a, id, half);
	puppet_end(&a);
}

/* Blocks that are none: the answer is an error, the program goes on, and has nothing by it. */
static void test_wild(void)
{
	static const uint64_t at[] = {0, 16, 0x7fffffffff00, UINT64_MAX - 7};
	static const uint32_t sizes[] = {0, 8, 40, 56, 88, 96, 104, 16383};
	static const uint32_t numbers[] = {0x02, 0x03, 0x07, 0x1a};
	struct puppet a = puppet_start("wild", OPTIONS("--compute", "25"));
	struct roster_queue is;
	uint32_t id;

	puppet_make(&a, 0, AQL); /* number 0, which is what a block without bytes says */
	id = puppet_make(&a, 0, AQL);
	for (size_t n = 0; n < 4; n++)
		for (size_t s = 0; s < 8; s++)
			for (size_t i = 0; i < 4; i++) {
				struct queue_ask ask = {
					.op = QUEUE_RAW,
					.request = _IOC(_IOC_READ | _IOC_WRITE, 'K', numbers[n],
							sizes[s]),
					.wild = at[i]};

				CHECK(puppet_try(&a, ask).result < 0 || !sizes[s]);
			}
	CHECK_EQ(bits(&a, id), quarter);
	for (uint32_t other = 0; other < 8; other++)
		CHECK(other == id || !roster_find(&a, other, &is, NULL));
	puppet_end(&a);
}

int main(int argc, char **argv)
{
	const char *model = argc > 3 ? argv[3] : "gfx90a";

	queues_begin(argv);
	if (!strcmp(model, "gfx1030")) {
		quarter = 20, half = 40, rest = 32, all = 80;
		pairs = true;
	} else if (!strcmp(model, "gfx942")) {
		quarter = 76, half = 152, rest = 121, all = 304;
	}
	test_masks();
	test_sharing();
	test_own_masks();
	test_bad_masks();
	test_on_and_off();
	test_updates();
	test_guest();
	test_wild();
	return 0;
}
