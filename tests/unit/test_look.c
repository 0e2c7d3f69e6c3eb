/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The code that a device runs to hash what is in its memory, run here, an instruction after the other,
 * and its results beside those of the formula in look_code.h.
 */
#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvidia/look_code.h"
#include "sim/cuda/look.h"

#define NAMES	     128
#define INSTRUCTIONS 1024
#define OPERANDS     6
#define SHARED_BYTES 65536

/* Of `name`, or of what is at it. */
struct operand {
	enum { NONE, REGISTER, IMMEDIATE, PARAMETER, LABEL } kind;
	int name;
	uint64_t value; /* of an immediate; else what is added to the register */
};

struct instruction {
	char op[24];
	int predicate; /* a register's number; -1: none */
	struct operand operand[OPERANDS];
	int n;
};

struct thread {
	uint64_t reg[NAMES];
	int at; /* instruction; -1: it has ended */
};

static struct instruction code[INSTRUCTIONS];
static int instructions;

/* Registers, labels (which have their instruction) and shared arrays (which have their place). */
static struct {
	char text[24];
	uint64_t value;
	bool is_array;
} name[NAMES];
static int names;

static const struct {
	const char *text;
	int number;
} parameters[] = {{"granules", 0}, {"seen", 1}, {"key", 2}, {"n", 3}};

static int name_of(const char *text)
{
	for (int i = 0; i < names; i++)
		if (!strcmp(name[i].text, text))
			return i;
	assert(names < NAMES && strlen(text) < sizeof(name[0].text));
	strcpy(name[names].text, text);
	return names++;
}

/* --- Reading it ------------------------------------------------------------------------------ */

static struct operand read_operand(const char *op, char *word)
{
	struct operand operand = {.kind = REGISTER};
	char *plus = strchr(word, '+');

	if (plus) {
		*plus = '\0';
		operand.value = strtoull(plus + 1, NULL, 0);
	}
	if (!strncmp(op, "ld.param", 8) && *word != '%') {
		operand.kind = PARAMETER;
		for (size_t i = 0; i < sizeof(parameters) / sizeof(parameters[0]); i++)
			if (!strcmp(parameters[i].text, word))
				operand.name = parameters[i].number;
		return operand;
	}
	if (*word >= '0' && *word <= '9')
		return (struct operand){.kind = IMMEDIATE, .value = strtoull(word, NULL, 0)};
	operand.name = name_of(word);
	if (*word != '%')
		operand.kind = LABEL;
	return operand;
}

static void read_instruction(char *line)
{
	struct instruction *in = &code[instructions++];
	char *save, *word = strtok_r(line, " \t,{}[];", &save);

	assert(instructions < INSTRUCTIONS);
	in->predicate = -1;
	if (*word == '@') {
		in->predicate = name_of(word + 1);
		word = strtok_r(NULL, " \t,{}[];", &save);
	}
	assert(strlen(word) < sizeof(in->op));
	strcpy(in->op, word);
	while ((word = strtok_r(NULL, " \t,{}[];", &save))) {
		assert(in->n < OPERANDS);
		in->operand[in->n++] = read_operand(in->op, word);
	}
}

static void read_array(const char *line)
{
	static uint64_t end;
	unsigned int align, bits, n;
	char text[24];
	int i;

	if (sscanf(line, " .shared .align %u .b%u %23[a-z0-9][%u]", &align, &bits, text, &n) != 4)
		return;
	i = name_of(text);
	end = (end + align - 1) / align * align;
	name[i].value = end;
	name[i].is_array = true;
	end += n * (bits / 8);
	assert(end <= SHARED_BYTES);
}

static void read_line(char *line)
{
	size_t len = strlen(line);

	while (*line == '\t' || *line == ' ')
		line++, len--;
	if (*line == '.' || !strncmp(line, "\t.", 2))
		read_array(line);
	else if (len && line[len - 1] == ':') {
		line[len - 1] = '\0';
		name[name_of(line)].value = (uint64_t)instructions;
	} else if (len > 1)
		read_instruction(line);
}

static void read_code(void)
{
	char *text = strdup(look_code), *save, *line;

	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		read_line(line);
	free(text);
}

/* --- Running it ------------------------------------------------------------------------------ */

static uint64_t arguments[4];
static char shared[SHARED_BYTES];
static uint32_t block, blocks;

static uint64_t value(const struct thread *thread, int number, const struct operand *operand)
{
	const char *text = name[operand->name].text;

	if (operand->kind == IMMEDIATE)
		return operand->value;
	if (operand->kind == LABEL)
		return name[operand->name].value;
	if (!strcmp(text, "%tid.x"))
		return (uint64_t)number;
	if (!strcmp(text, "%ctaid.x"))
		return block;
	if (!strcmp(text, "%nctaid.x"))
		return blocks;
	return thread->reg[operand->name] + operand->value;
}

/* What a load or a store is about: words in order, of 4 or 8 bytes. */
static void move_memory(struct thread *thread, int number, const struct instruction *in)
{
	bool store = *in->op == 's', wide = strstr(in->op, "u64");
	int n = in->n - 1, first = store;
	uint64_t at = value(thread, number, &in->operand[store ? 0 : n]);
	char *memory = strstr(in->op, ".shared") ? shared + at : (char *)(uintptr_t)at;
	size_t bytes = wide ? 8 : 4;

	assert(memory >= shared + SHARED_BYTES || memory < shared || strstr(in->op, ".shared"));
	assert(at % (bytes * (size_t)n) == 0 || n == 1);
	for (int i = 0; i < n; i++) {
		uint64_t *reg = &thread->reg[in->operand[first + i].name], got = 0;

		if (store) {
			memcpy(memory + (size_t)i * bytes, reg, bytes);
			continue;
		}
		memcpy(&got, memory + (size_t)i * bytes, bytes);
		*reg = got;
	}
}

static uint64_t compute(const char *op, const uint64_t in[3])
{
	static const struct {
		const char *text;
		int number;
	} ops[] = {{"mov.u32", 0}, {"mov.u64", 0}, {"cvt.u64.u32", 0}, {"cvt.u32.u64", 1},
		   {"mad.wide.u32", 2}, {"mul.wide.u32", 3}, {"add.u32", 4}, {"add.u64", 5},
		   {"xor.b32", 6}, {"or.b32", 7}, {"or.b64", 7}, {"shr.u32", 8}, {"setp.ge.u32", 9},
		   {"setp.ne.u32", 10}, {"setp.lt.u32", 11}};
	int number = -1;

	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
		if (!strcmp(ops[i].text, op))
			number = ops[i].number;
	switch (number) {
	case 0: return in[0];
	case 1: return (uint32_t)in[0];
	case 2: return (uint64_t)(uint32_t)in[0] * (uint32_t)in[1] + in[2];
	case 3: return (uint64_t)(uint32_t)in[0] * (uint32_t)in[1];
	case 4: return (uint32_t)(in[0] + in[1]);
	case 5: return in[0] + in[1];
	case 6: return in[0] ^ in[1];
	case 7: return in[0] | in[1];
	case 8: return (uint32_t)in[0] >> in[1];
	case 9: return in[0] >= in[1];
	case 10: return in[0] != in[1];
	case 11: return in[0] < in[1];
	}
	fprintf(stderr, "no instruction %s is known\n", op);
	abort();
}

/* Returns false at a barrier, and at the end. */
static bool step(struct thread *thread, int number)
{
	const struct instruction *in = &code[thread->at++];
	uint64_t operand[3] = {0};

	if (in->predicate >= 0 && !thread->reg[in->predicate])
		return true;
	if (!strcmp(in->op, "ret"))
		return thread->at = -1, false;
	if (!strcmp(in->op, "bar.sync"))
		return false;
	if (!strcmp(in->op, "bra")) {
		thread->at = (int)name[in->operand[0].name].value;
	} else if (!strncmp(in->op, "ld.param", 8)) {
		thread->reg[in->operand[0].name] = arguments[in->operand[1].name];
	} else if (!strncmp(in->op, "ld.", 3) || !strncmp(in->op, "st.", 3)) {
		move_memory(thread, number, in);
	} else if (!strcmp(in->op, "mov.b64")) {
		operand[0] = value(thread, number, &in->operand[2]);
		thread->reg[in->operand[0].name] = (uint32_t)operand[0];
		thread->reg[in->operand[1].name] = operand[0] >> 32;
	} else {
		for (int i = 1; i < in->n; i++)
			operand[i - 1] = value(thread, number, &in->operand[i]);
		thread->reg[in->operand[0].name] = compute(in->op, operand);
	}
	return true;
}

/* Backwards, so that nobody has what another one writes only because it comes first. */
static void run_block(void)
{
	static struct thread thread[LOOK_THREADS];
	bool any = true;

	memset(thread, 0, sizeof(thread));
	memset(shared, 0xee, sizeof(shared));
	while (any) {
		any = false;
		for (int i = LOOK_THREADS - 1; i >= 0; i--) {
			while (thread[i].at >= 0 && step(&thread[i], i))
				;
			any |= thread[i].at >= 0;
		}
	}
}

static void run(const uint64_t *granules, struct look_seen *seen, const struct look_key *key,
		uint32_t n)
{
	arguments[0] = (uint64_t)(uintptr_t)granules;
	arguments[1] = (uint64_t)(uintptr_t)seen;
	arguments[2] = (uint64_t)(uintptr_t)key;
	arguments[3] = n;
	for (block = 0; block < blocks; block++)
		run_block();
}

/* --- Tests ----------------------------------------------------------------------------------- */

static uint32_t draw(void)
{
	static uint64_t state = 88172645463325252u;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)(state >> 16);
}

static void draw_words(void *at, size_t bytes)
{
	uint32_t *word = at;

	for (size_t i = 0; i < bytes / 4; i++)
		word[i] = draw();
}

static struct look_key *a_key(void)
{
	struct look_key *key = aligned_alloc(16, (sizeof(*key) + 15) / 16 * 16);

	assert(key);
	draw_words(key, sizeof(*key));
	return key;
}

#define GRANULES 5

static void check_code(void)
{
	char *memory = aligned_alloc(4096, GRANULES * LOOK_BYTES);
	struct look_key *key = a_key();
	uint64_t granules[GRANULES];
	struct look_seen seen[GRANULES + 1], want;

	assert(memory);
	draw_words(memory, GRANULES * LOOK_BYTES);
	memset(memory + LOOK_BYTES, 0, LOOK_BYTES);
	for (size_t i = 0; i < LOOK_BYTES / 4; i++)
		((uint32_t *)(memory + 2 * LOOK_BYTES))[i] = 0x7fc00000;
	memset(memory + 3 * LOOK_BYTES, 0xff, LOOK_BYTES - 1);
	for (int i = 0; i < GRANULES; i++)
		granules[i] = (uint64_t)(uintptr_t)(memory + (uint64_t)(GRANULES - 1 - i) * LOOK_BYTES);
	memset(seen, 0x77, sizeof(seen));
	blocks = 2;
	run(granules, seen, key, GRANULES);
	for (int i = 0; i < GRANULES; i++) {
		want = sim_look((void *)(uintptr_t)granules[i], key);
		assert(!memcmp(&want, &seen[i], sizeof(want)));
	}
	assert(seen[GRANULES].word == 0x77777777);
	assert(!seen[3].word && !seen[3].differs);
	assert(seen[2].word == 0x7fc00000 && !seen[2].differs);
	assert(seen[1].differs && seen[0].differs && seen[4].differs);
	free(memory);
	free(key);
}

/* Of any two contents of which one bit differs, or of which two words are exchanged. */
static void check_differs(int rounds)
{
	uint32_t *memory = aligned_alloc(4096, LOOK_BYTES), was;
	struct look_key *key = a_key();
	struct look_seen before, after;

	assert(memory);
	draw_words(memory, LOOK_BYTES);
	before = sim_look(memory, key);
	for (int i = 0; i < rounds; i++) {
		uint32_t a = draw() % (LOOK_BYTES / 4), b = draw() % (LOOK_BYTES / 4);
		uint32_t bit = draw() % 33;

		was = memory[a];
		if (bit < 32) {
			memory[a] ^= UINT32_C(1) << bit;
		} else {
			memory[a] = memory[b];
			memory[b] = was;
		}
		after = sim_look(memory, key);
		assert((memcmp(before.hash, after.hash, sizeof(before.hash)) != 0) ==
		       (memory[a] != was));
		if (bit == 32)
			memory[b] = memory[a];
		memory[a] = was;
	}
	free(memory);
	free(key);
}

int main(int argc, char **argv)
{
	read_code();
	check_code();
	check_differs(argc > 1 ? atoi(argv[1]) : 200);
	return 0;
}
