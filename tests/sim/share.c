/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that goes from process to process: charged once a tenant, whoever lets go of it or dies
 * first. Two puppets, of one tenant or of two.
 *
 *     share <liballot.so> <share_puppet>
 */
#include "share_stage.h"

#define CONTEXT (20 * MIB)
#define BYTES (96 * MIB)
/* A second charge would not fit. */
#define QUOTA (2 * CONTEXT + BYTES + 60 * MIB)

struct scene {
	struct tenant tenant[2];
	bool two; /* tenants; else both puppets are in the first */
	struct program from, to;
	enum puppet_kind export_kind, import_kind;
	uint64_t inside; /* of an allocation, the address that is exported */
};

static const struct {
	const char *name;
	enum puppet_kind export_kind, import_kind;
} kinds[] = {
	{"IPC", PLAIN, PLAIN},
	{"handle", HANDLE, HANDLE},
	{"external memory", HANDLE, EXTERNAL},
	{"external array", HANDLE, EXTERNAL_ARRAY},
	{"pool", POOLED, POOLED},
};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static struct tenant *importer_tenant(struct scene *s)
{
	return &s->tenant[s->two];
}

/* Charged to the exporter and to the importer, if it is in a tenant of its own; given in all. */
static void expect(struct scene *s, uint64_t from, uint64_t to, uint64_t in_all)
{
	EXPECT("given", given(0), in_all);
	if (!s->two) {
		EXPECT("charged", charged(&s->tenant[0], 0), in_all);
		return;
	}
	EXPECT("charged to the exporter's tenant", charged(&s->tenant[0], 0), from);
	EXPECT("charged to the importer's tenant", charged(&s->tenant[1], 0), to);
}

static void open_scene(struct scene *s, bool two, size_t kind, const char *name)
{
	static char title[96];
	uint64_t quota = QUOTA;

	snprintf(title, sizeof(title), "%s, %s, %s", kinds[kind].name,
		 two ? "two tenants" : "one tenant", name);
	stage_scene = title;
	s->two = two;
	s->inside = 0;
	s->export_kind = kinds[kind].export_kind;
	s->import_kind = kinds[kind].import_kind;
	tenant_new(&s->tenant[0], "first", &quota, 1, 0);
	tenant_new(&s->tenant[1], "second", &quota, 1, 0);
	puppet_start(&s->from, &s->tenant[0]);
	puppet_start(&s->to, importer_tenant(s));
	puppet(&s->from, (struct puppet_ask){.op = DO_INIT});
	puppet(&s->to, (struct puppet_ask){.op = DO_INIT});
	puppet(&s->from, (struct puppet_ask){.op = DO_CONTEXT});
	puppet(&s->to, (struct puppet_ask){.op = DO_CONTEXT});
	expect(s, CONTEXT, CONTEXT, 2 * CONTEXT);
}

static void close_scene(struct scene *s)
{
	for (int i = 0; i < 2; i++) {
		if (!host_clean(&s->tenant[i], stage_scene))
			exit(1);
		tenant_end(&s->tenant[i]);
	}
}

static int make(struct scene *s, uint64_t bytes)
{
	return (int)puppet(&s->from, (struct puppet_ask){.op = DO_MAKE, .kind = s->export_kind,
							 .bytes = bytes})
		.a;
}

/* The message from the exporter to the importer. */
struct parcel {
	struct puppet_ask ask;
	int fd;
};

static struct parcel pack(struct scene *s, int slot, uint64_t bytes)
{
	struct parcel parcel = {{.op = DO_IMPORT, .kind = s->import_kind, .bytes = bytes}, -1};
	struct puppet_ask ask = {.op = DO_EXPORT, .slot = slot, .bytes = s->inside};
	struct puppet_answer answer = puppet_try(&s->from, ask, -1, &parcel.fd);

	EXPECT("export", answer.result, 0);
	memcpy(parcel.ask.blob, answer.blob, sizeof(parcel.ask.blob));
	return parcel;
}

static struct puppet_answer try_pass(struct scene *s, int slot, uint64_t bytes,
				     struct program *to)
{
	struct parcel parcel = pack(s, slot, bytes);

	return puppet_try(to, parcel.ask, parcel.fd, NULL);
}

static int pass(struct scene *s, int slot, uint64_t bytes)
{
	struct puppet_answer answer = try_pass(s, slot, bytes, &s->to);

	EXPECT("import", answer.result, 0);
	return (int)answer.a;
}

static void drop(struct program *p, int slot)
{
	puppet(p, (struct puppet_ask){.op = DO_FREE, .slot = slot});
}

static void importer_first(struct scene *s)
{
	int from = make(s, BYTES), to = pass(s, from, BYTES);

	expect(s, CONTEXT + BYTES, CONTEXT + BYTES, 2 * CONTEXT + BYTES);
	drop(&s->to, to);
	expect(s, CONTEXT + BYTES, CONTEXT, 2 * CONTEXT + BYTES);
	drop(&s->from, from);
	expect(s, CONTEXT, CONTEXT, 2 * CONTEXT);
	puppet_end(&s->from);
	puppet_end(&s->to);
}

static void exporter_first(struct scene *s)
{
	int from = make(s, BYTES), to = pass(s, from, BYTES);

	drop(&s->from, from);
	expect(s, CONTEXT, CONTEXT + BYTES, 2 * CONTEXT + BYTES);
	/* Looking at the driver's figure changes nothing, wherever it shows the bytes now. */
	puppet(&s->to, (struct puppet_ask){.op = DO_INFO});
	usleep(6000);
	drop(&s->to, (int)puppet(&s->to, (struct puppet_ask){.op = DO_MAKE, .bytes = 4096}).a);
	expect(s, CONTEXT, CONTEXT + BYTES, 2 * CONTEXT + BYTES);
	drop(&s->to, to);
	expect(s, CONTEXT, CONTEXT, 2 * CONTEXT);
	puppet_end(&s->to);
	puppet_end(&s->from);
}

static void exporter_dies(struct scene *s)
{
	int to = pass(s, make(s, BYTES), BYTES);

	puppet_kill(&s->from);
	expect(s, 0, CONTEXT + BYTES, CONTEXT + BYTES);
	drop(&s->to, to);
	expect(s, 0, CONTEXT, CONTEXT);
	puppet_end(&s->to);
}

static void importer_dies(struct scene *s)
{
	int from = make(s, BYTES);

	pass(s, from, BYTES);
	puppet_kill(&s->to);
	expect(s, CONTEXT + BYTES, 0, CONTEXT + BYTES);
	drop(&s->from, from);
	expect(s, CONTEXT, 0, CONTEXT);
	puppet_end(&s->from);
}

#define MANY 70
#define FIRST_KEPT 54

static void many(struct scene *s)
{
	uint64_t most = s->export_kind == POOLED ? 0 : MANY * 2 * MIB;
	int from[MANY], to[MANY];

	/* A pool is one object, and grows by more. */
	for (int i = 0; i < MANY && s->export_kind != POOLED; i++) {
		from[i] = make(s, 2 * MIB);
		to[i] = pass(s, from[i], 2 * MIB);
	}
	expect(s, CONTEXT + most, CONTEXT + most, 2 * CONTEXT + most);
	for (int i = 0; most && i < MANY; i += 2)
		drop(&s->from, from[i]);
	expect(s, CONTEXT + most / 2, CONTEXT + most, 2 * CONTEXT + most);
	for (int i = 0; most && i < MANY; i++)
		drop(&s->to, to[i]);
	expect(s, CONTEXT + most / 2, CONTEXT, 2 * CONTEXT + most / 2);
	for (int i = 1; most && i < MANY; i += 2)
		drop(&s->from, from[i]);
	expect(s, CONTEXT, CONTEXT, 2 * CONTEXT);
	puppet_end(&s->from);
	puppet_end(&s->to);
}

static void importer_ends(struct scene *s)
{
	int from = make(s, BYTES);

	pass(s, from, BYTES);
	drop(&s->from, from);
	puppet_end(&s->to);
	expect(s, CONTEXT, 0, CONTEXT);
	puppet_end(&s->from);
}

/* The same memory twice in one process. */
static void imported_twice(struct scene *s)
{
	int from = make(s, BYTES), one = pass(s, from, BYTES), two = pass(s, from, BYTES);

	expect(s, CONTEXT + BYTES, CONTEXT + BYTES, 2 * CONTEXT + BYTES);
	drop(&s->to, one);
	expect(s, CONTEXT + BYTES, CONTEXT + BYTES, 2 * CONTEXT + BYTES);
	drop(&s->from, from);
	expect(s, CONTEXT, CONTEXT + BYTES, 2 * CONTEXT + BYTES);
	drop(&s->to, two);
	expect(s, CONTEXT, CONTEXT, 2 * CONTEXT);
	puppet_end(&s->to);
	puppet_end(&s->from);
}

/* What was exported is gone there, but lives on elsewhere, when more is exported. */
static void exported_anew(struct scene *s)
{
	int one = make(s, BYTES), in_one = pass(s, one, BYTES), two, in_two;
	uint64_t kept = s->import_kind == POOLED ? BYTES : 0; /* by the importer's pool */

	drop(&s->from, one);
	two = make(s, 32 * MIB);
	in_two = pass(s, two, 32 * MIB);
	expect(s, CONTEXT + 32 * MIB, CONTEXT + BYTES + 32 * MIB, 2 * CONTEXT + BYTES + 32 * MIB);
	drop(&s->to, in_one);
	expect(s, CONTEXT + 32 * MIB, CONTEXT + kept + 32 * MIB,
	       2 * CONTEXT + kept + 32 * MIB);
	drop(&s->from, two);
	expect(s, CONTEXT, CONTEXT + kept + 32 * MIB, 2 * CONTEXT + kept + 32 * MIB);
	drop(&s->to, in_two);
	expect(s, CONTEXT, CONTEXT, 2 * CONTEXT);
	puppet_end(&s->to);
	puppet_end(&s->from);
}

/*
 * A descriptor is on its way while its exporter lets go of the memory and exports much else, which is
 * the exporter's still.
 */
static void on_its_way(struct scene *s)
{
	uint64_t bytes = BYTES / 2, kept = (MANY - FIRST_KEPT) * 2 * MIB;
	int from = make(s, bytes), others[MANY];
	struct parcel parcel = pack(s, from, bytes);
	struct puppet_answer answer;

	drop(&s->from, from);
	for (int i = 0; i < MANY; i++) {
		others[i] = make(s, 2 * MIB);
		close(pack(s, others[i], 2 * MIB).fd);
		if (i < FIRST_KEPT)
			drop(&s->from, others[i]);
	}
	answer = puppet_try(&s->to, parcel.ask, parcel.fd, NULL);
	EXPECT("import", answer.result, 0);
	/*
	 * The exporter's figure had the memory until the importer closed the descriptor, and is
	 * looked at again.
	 */
	puppet(&s->to, (struct puppet_ask){.op = DO_INFO});
	usleep(12000);
	puppet(&s->from, (struct puppet_ask){.op = DO_INFO});
	expect(s, CONTEXT + kept, CONTEXT + bytes, 2 * CONTEXT + bytes + kept);
	for (int i = FIRST_KEPT; i < MANY; i++)
		drop(&s->from, others[i]);
	expect(s, CONTEXT, CONTEXT + bytes, 2 * CONTEXT + bytes);
	drop(&s->to, (int)answer.a);
	expect(s, CONTEXT, CONTEXT, 2 * CONTEXT);
	puppet_end(&s->to);
	puppet_end(&s->from);
}

/* The handle of an address inside of an allocation is the allocation's. */
static void inside(struct scene *s)
{
	int from = make(s, BYTES), to;

	s->inside = BYTES / 2;
	to = pass(s, from, BYTES);
	expect(s, CONTEXT + BYTES, CONTEXT + BYTES, 2 * CONTEXT + BYTES);
	drop(&s->from, from);
	expect(s, CONTEXT, CONTEXT + BYTES, 2 * CONTEXT + BYTES);
	drop(&s->to, to);
	expect(s, CONTEXT, CONTEXT, 2 * CONTEXT);
	puppet_end(&s->to);
	puppet_end(&s->from);
}

/* A buffer mapped from external memory holds it when the import is destroyed. */
static void import_destroyed(struct scene *s)
{
	int from = make(s, BYTES), to = pass(s, from, BYTES);

	drop(&s->from, from);
	puppet(&s->to, (struct puppet_ask){.op = DO_LET_GO, .slot = to});
	expect(s, CONTEXT, CONTEXT + BYTES, 2 * CONTEXT + BYTES);
	puppet(&s->to, (struct puppet_ask){.op = DO_INFO});
	usleep(6000);
	drop(&s->to, (int)puppet(&s->to, (struct puppet_ask){.op = DO_MAKE, .bytes = 4096}).a);
	expect(s, CONTEXT, CONTEXT + BYTES, 2 * CONTEXT + BYTES);
	drop(&s->to, to);
	expect(s, CONTEXT, CONTEXT, 2 * CONTEXT);
	puppet_end(&s->to);
	puppet_end(&s->from);
}

/* The importer says less than there is; in a tenant of its own nobody there knows better. */
static void said_smaller(struct scene *s)
{
	int from = make(s, BYTES), to = pass(s, from, 8 * MIB);

	drop(&s->from, from);
	if (!s->two)
		expect(s, CONTEXT, CONTEXT + BYTES, 2 * CONTEXT + BYTES);
	puppet(&s->to, (struct puppet_ask){.op = DO_INFO});
	usleep(6000);
	drop(&s->to, (int)puppet(&s->to, (struct puppet_ask){.op = DO_MAKE, .bytes = 4096}).a);
	if (!s->two)
		expect(s, CONTEXT, CONTEXT + BYTES, 2 * CONTEXT + BYTES);
	drop(&s->to, to);
	puppet_end(&s->to);
	puppet_end(&s->from);
}

/* A pool grows by this for 2 MiB. */
#define STEP (32 * MIB)

/* An importer of a small piece of a pool keeps all that the pool grew by for it. */
static void part_of_pool(struct scene *s)
{
	int small = make(s, 2 * MIB), to = pass(s, small, 2 * MIB), large;

	expect(s, CONTEXT + STEP, CONTEXT + STEP, 2 * CONTEXT + STEP);
	/* The pool lets go of what nobody imported: at most what was exported is charged for that. */
	large = make(s, STEP + MIB);
	expect(s, CONTEXT + 3 * STEP, CONTEXT + STEP, 2 * CONTEXT + 3 * STEP);
	drop(&s->from, large);
	EXPECT("given", given(0), 2 * CONTEXT + STEP);
	EXPECT("charged", charged(&s->tenant[0], 0),
	       s->two ? CONTEXT + STEP : 2 * CONTEXT + 2 * STEP);
	drop(&s->from, small);
	expect(s, CONTEXT, CONTEXT + STEP, 2 * CONTEXT + STEP);
	/* The pointer is freed, and the pool is not destroyed. */
	puppet(&s->to, (struct puppet_ask){.op = DO_LET_GO, .slot = to});
	expect(s, CONTEXT, CONTEXT + STEP, 2 * CONTEXT + STEP);
	drop(&s->to, to);
	expect(s, CONTEXT, CONTEXT, 2 * CONTEXT);
	puppet_end(&s->to);
	puppet_end(&s->from);
}

/*
 * An importer whose tenant has room for some of a pointer, but not for all of it, does not get it.
 * The driver keeps the memory for its pool nevertheless, so it is charged.
 */
static void kept_beyond(struct scene *s)
{
	uint64_t rest = s->two ? BYTES : 8 * MIB;
	int from = make(s, BYTES);
	struct puppet_answer answer;

	puppet(&s->to, (struct puppet_ask){.op = DO_MAKE, .bytes = rest});
	for (int i = 0; s->two && i < 2; i++) {
		answer = try_pass(s, from, BYTES, &s->to);
		EXPECT("import", answer.result, CUDA_ERROR_OUT_OF_MEMORY);
		EXPECT("charged", charged(&s->tenant[1], 0), CONTEXT + rest + BYTES);
	}
	drop(&s->from, from);
	expect(s, CONTEXT, CONTEXT + rest + BYTES, 2 * CONTEXT + rest + (s->two ? BYTES : 0));
	puppet_end(&s->to);
	expect(s, CONTEXT, 0, CONTEXT);
	puppet_end(&s->from);
}

static void part_then_dies(struct scene *s)
{
	int small = make(s, 2 * MIB), first = pass(s, small, 2 * MIB), to;

	/* Its pool goes, and another one of the same process has the pointer. */
	puppet(&s->to, (struct puppet_ask){.op = DO_FREE, .slot = first});
	expect(s, CONTEXT + STEP, CONTEXT, 2 * CONTEXT + STEP);
	to = pass(s, small, 2 * MIB);
	make(s, STEP + MIB);
	expect(s, CONTEXT + 3 * STEP, CONTEXT + STEP, 2 * CONTEXT + 3 * STEP);
	puppet_kill(&s->from);
	expect(s, 0, CONTEXT + STEP, CONTEXT + STEP);
	drop(&s->to, to);
	expect(s, 0, CONTEXT, CONTEXT);
	puppet_end(&s->to);
}

/* A tenant that cannot hold it does not get it; one that shares it already can. */
static void does_not_fit(struct scene *s)
{
	int from = make(s, BYTES), rest;
	struct puppet_answer answer;

	rest = (int)puppet(&s->to, (struct puppet_ask){.op = DO_MAKE,
						       .bytes = s->two ? QUOTA - CONTEXT - MIB :
									 50 * MIB})
		       .a;
	answer = try_pass(s, from, BYTES, &s->to);
	EXPECT("import", answer.result, s->two ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS);
	if (s->two)
		EXPECT("charged", charged(&s->tenant[1], 0) <= QUOTA, true);
	drop(&s->from, from);
	if (!s->two)
		drop(&s->to, (int)answer.a);
	drop(&s->to, rest);
	expect(s, CONTEXT, CONTEXT, 2 * CONTEXT);
	puppet_end(&s->to);
	puppet_end(&s->from);
}

static const struct {
	const char *name;
	void (*play)(struct scene *scene);
	int only; /* kinds of import, a bit each; 0: all */
} plays[] = {
	{"importer first", importer_first}, {"exporter first", exporter_first},
	{"exporter dies", exporter_dies},   {"importer dies", importer_dies},
	{"importer ends", importer_ends},   {"imported twice", imported_twice},
	{"exported anew", exported_anew},   {"does not fit", does_not_fit},
	{"many", many},
	{"on its way", on_its_way, 1 << HANDLE | 1 << EXTERNAL},
	{"inside", inside, 1 << PLAIN},
	{"import destroyed", import_destroyed, 1 << EXTERNAL | 1 << EXTERNAL_ARRAY},
	{"said smaller", said_smaller, 1 << EXTERNAL},
	{"part of a pool", part_of_pool, 1 << POOLED},
	{"kept beyond", kept_beyond, 1 << POOLED},
	{"part of a pool, exporter dies", part_then_dies, 1 << POOLED},
};

int main(int argc, char **argv)
{
	int failures = 0, n = 0;

	if (argc < 3)
		return 2;
	host_begin(argv[1], "1", "1GiB", "20MiB");
	stage_program = argv[2];
	/* Each scene in a process, so that one which fails ends alone. */
	for (size_t k = 0; k < KINDS; k++)
		for (int two = 0; two < 2; two++)
			for (size_t i = 0; i < sizeof(plays) / sizeof(plays[0]); i++, n++) {
				struct scene scene;
				int status;
				pid_t pid;

				if ((argc > 3 && atoi(argv[3]) != n) ||
				    (plays[i].only &&
				     !(plays[i].only >> kinds[k].import_kind & 1)))
					continue;
				pid = fork();
				CHECK(pid >= 0);
				if (!pid) {
					host_again();
					open_scene(&scene, two, k, plays[i].name);
					plays[i].play(&scene);
					close_scene(&scene);
					exit(0);
				}
				CHECK_EQ(waitpid(pid, &status, 0), pid);
				failures += status != 0;
			}
	printf("%d scenes, %d fail\n", n, failures);
	return failures != 0;
}
