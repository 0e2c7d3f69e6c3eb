/* SPDX-License-Identifier: Apache-2.0 */
/* Which GPUs stand in for which: a table of machines, and what a refusal says. */
#include <errno.h>
#include <string.h>

#include "criu/kfd/match.h"
#include "tests/check.h"

#define LINKS (MATCH_GPUS * MATCH_GPUS)

/*
 * A machine, with a letter for each GPU: its kind, its hive ('.': none) and what reaches its memory
 * other than its hive: 'P' all GPUs and a CPU, 'C' a CPU alone, '-' nobody.
 */
struct words {
	const char *kinds, *hives, *reach;
};

struct built {
	struct match_gpu gpus[MATCH_GPUS];
	struct match_link links[LINKS];
	struct match_machine machine;
};

static struct match_gpu gpu(char kind, uint32_t id)
{
	return (struct match_gpu){.vram_bytes = UINT64_C(2) << 30,
				  .gpu_id = id,
				  .vendor_id = 0x1002,
				  .device_id = (uint32_t)kind,
				  .simds = 416,
				  .caches = 10,
				  .firmware = 50,
				  .capability = 7};
}

static void build(const struct words *w, uint32_t first_id, struct built *ret)
{
	uint32_t n = (uint32_t)strlen(w->kinds), nlinks = 0;

	CHECK(strlen(w->hives) == n && strlen(w->reach) == n);
	memset(ret, 0, sizeof(*ret));
	for (uint32_t i = 0; i < n; i++) {
		ret->gpus[i] = gpu(w->kinds[i], first_id + i);
		ret->gpus[i].hive_id = w->hives[i] == '.' ? 0 : (uint64_t)w->hives[i];
		ret->gpus[i].cpu_joined = w->reach[i] != '-';
		for (uint32_t j = 0; j < n; j++) {
			bool joined = w->hives[i] != '.' && w->hives[i] == w->hives[j];

			if (i != j && (joined || w->reach[j] == 'P'))
				ret->links[nlinks++] = (struct match_link){
					i, j, joined ? TOPOLOGY_LINK_XGMI : TOPOLOGY_LINK_PCIE};
		}
	}
	ret->machine = (struct match_machine){n, nlinks, ret->gpus, ret->links};
}

static uint8_t link_of(const struct match_machine *m, uint32_t from, uint32_t to)
{
	for (uint32_t i = 0; i < m->nlinks; i++)
		if (m->links[i].from == from && m->links[i].to == to)
			return (uint8_t)m->links[i].type;
	return 0;
}

/* What a result must be, whichever it is. */
static void check_result(const struct match_machine *was, const struct match_machine *is,
			 const uint32_t to[MATCH_GPUS])
{
	bool taken[MATCH_GPUS] = {false};

	for (uint32_t i = 0; i < was->ngpus; i++) {
		CHECK(to[i] < is->ngpus && !taken[to[i]]);
		taken[to[i]] = true;
		CHECK_EQ(was->gpus[i].device_id, is->gpus[to[i]].device_id);
		for (uint32_t j = 0; j < was->ngpus; j++) {
			uint8_t old = link_of(was, i, j), new = link_of(is, to[i], to[j]);

			CHECK(!old || (new && (old != TOPOLOGY_LINK_XGMI || new == old)));
		}
	}
}

static const struct {
	const char *what;
	struct words was, is;
	const char *to; /* NULL: refused; "": in any way that is right */
} cases[] = {
	/* What CRIU's own tests of its matcher ask, in our words: they are cases 0 to 8 there. */
	{"two hives of two kinds, which change places",
	 {"00001111", "aaaabbbb", "PPPPPPPP"},
	 {"11110000", "aaaabbbb", "PPPPPPPP"},
	 "45670123"},
	{"two GPUs that nobody reaches",
	 {"00000000", "aaaabbbb", "PPPPPP--"},
	 {"00000000", "aaaabbbb", "PPPPPP--"},
	 "01234567"},
	{"... in the hive of the other kind",
	 {"00001111", "aaaabbbb", "PPPPPP--"},
	 {"11110000", "aaaabbbb", "PPPPPP--"},
	 NULL},
	{"one of each hive that a CPU reaches, elsewhere in it",
	 {"00001111", "aaaabbbb", "--C----C"},
	 {"00001111", "aaaabbbb", "C----C--"},
	 ""},
	{"... and none that a CPU reaches",
	 {"00001111", "aaaabbbb", "--C----C"},
	 {"00001111", "aaaabbbb", "C-------"},
	 NULL},
	{"a hive, and four in none",
	 {"00000000", "aaaa....", "PPPPPPPP"},
	 {"00000000", "aaaa....", "PPPPPPPP"},
	 "01234567"},
	{"kinds at other places", {"00101", ".....", "PPPP-"}, {"01001", ".....", "PPPP-"}, ""},
	{"a hive more than there was",
	 {"00000000", "aaaa....", "PPPPPPPP"},
	 {"00000000", "aaaabbbb", "PPPPPPPP"},
	 "01234567"},
	{"more GPUs that all reach",
	 {"00000", ".....", "PPP--"},
	 {"00000", ".....", "PPPP-"},
	 "01234"},
	/* And what they do not ask. */
	{"the same machine", {"00", "..", "PP"}, {"00", "..", "PP"}, "01"},
	{"one GPU less", {"00", "..", "PP"}, {"0", ".", "P"}, NULL},
	{"one GPU more, which the kernel does not take", {"0", ".", "P"}, {"00", "..", "PP"}, NULL},
	{"another kind", {"0", ".", "P"}, {"1", ".", "P"}, NULL},
	{"xGMI where PCIe was", {"00", "..", "PP"}, {"00", "aa", "PP"}, "01"},
	{"PCIe where xGMI was", {"00", "aa", "PP"}, {"00", "..", "PP"}, NULL},
	{"who was in no hive leaves it to who was",
	 {"0000", "..aa", "PPPP"},
	 {"0000", "aa..", "PPPP"},
	 "2301"},
	{"hives of other sizes", {"0000", "aabb", "PPPP"}, {"0000", "aaab", "PPPP"}, NULL},
	{"a way back from the first choice", {"000", "...", "--P"}, {"000", "...", "P--"}, ""},
	{"links of one direction", {"00", "..", "P-"}, {"00", "..", "-P"}, "10"},
	{"none in either direction", {"00", "..", "P-"}, {"00", "..", "--"}, NULL},
};

static void test_cases(void)
{
	static struct built was, is;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint32_t to[MATCH_GPUS];
		char why[MATCH_WHY_BYTES] = "";
		int r;

		build(&cases[i].was, 100, &was);
		build(&cases[i].is, 200, &is);
		r = match_gpus(&was.machine, &is.machine, 0, to, why);
		if ((r == 0) != !!cases[i].to || (r < 0 && !*why))
			fprintf(stderr, "%s: %d, %s\n", cases[i].what, r, why);
		CHECK_EQ(r, cases[i].to ? 0 : -ENODEV);
		CHECK(r == 0 || *why);
		if (r == 0)
			check_result(&was.machine, &is.machine, to);
		for (uint32_t g = 0; r == 0 && cases[i].to[g]; g++)
			CHECK_EQ(to[g], (uint32_t)cases[i].to[g] - '0');
	}
}

/* A property each: by how much the new GPU may differ, and what turns the check off. */
static void test_properties(void)
{
	static const struct {
		const char *name;
		size_t at, bytes;
		int64_t by;
		unsigned int relax;
		bool fits;
	} rows[] = {
#define ROW(name, by, relax, fits)                                                                 \
	{                                                                                          \
		#name,                                                                             \
		offsetof(struct match_gpu, name),                                                  \
		sizeof(((struct match_gpu *)0)->name),                                             \
		by,                                                                                \
		relax,                                                                             \
		fits}
		ROW(vram_bytes, -(INT64_C(1) << 30), MATCH_SMALLER_MEMORY, false),
		ROW(vram_bytes, INT64_C(1) << 30, 0, true),
		ROW(firmware, -1, MATCH_OLDER_FIRMWARE, false),
		ROW(firmware, 1, 0, true),
		ROW(sdma_firmware, 1, 0, true),
		ROW(caches, -1, MATCH_FEWER_CACHES, false),
		ROW(gws, 64, 0, true),
		ROW(capability, 8, MATCH_OTHER_CAPABILITY, false),
		ROW(simds, 8, 0, false),
		ROW(lds_kib, 64, 0, false),
		ROW(cp_queues, 24, 0, false),
		ROW(all_visible, 1, 0, true),
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct match_gpu old = gpu('0', 100), new = gpu('0', 200);
		struct match_machine was = {.ngpus = 1, .gpus = &old},
				     is = {.ngpus = 1, .gpus = &new};
		char why[MATCH_WHY_BYTES] = "";
		uint32_t to[MATCH_GPUS];
		uint64_t value = 0;

		memcpy(&value, (char *)&new + rows[i].at, rows[i].bytes);
		value += (uint64_t)rows[i].by;
		memcpy((char *)&new + rows[i].at, &value, rows[i].bytes);
		CHECK_EQ(match_gpus(&was, &is, 0, to, why), rows[i].fits ? 0 : -ENODEV);
		CHECK(rows[i].fits || strstr(why, rows[i].name));
		CHECK(!strstr(why, "turned off") == !rows[i].relax);
		if (rows[i].relax)
			CHECK_EQ(match_gpus(&was, &is, rows[i].relax, to, why), 0);
		if (!rows[i].fits)
			CHECK_EQ(match_gpus(&was, &is, ~rows[i].relax, to, why), -ENODEV);
	}
}

/* A machine on which every order would have to be tried: it ends, and says so. */
static void test_endless(void)
{
	static struct built was, is;
	char why[MATCH_WHY_BYTES];
	uint32_t to[MATCH_GPUS];

	build(&(struct words){"0000000000000000", "................", "PPPPPPPPPPPPPPPP"}, 100,
	      &was);
	build(&(struct words){"0000000000000000", "................", "PPPPPPPPPPPPPPPP"}, 200,
	      &is);
	is.machine.nlinks -= 1;
	CHECK_EQ(match_gpus(&was.machine, &is.machine, 0, to, why), -ENODEV);
	CHECK(strstr(why, "in time"));
}

int main(void)
{
	test_cases();
	test_properties();
	test_endless();
	return 0;
}
