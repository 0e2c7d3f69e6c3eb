/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/ps/trace_words.h"

#include <inttypes.h>
#include <string.h>

#include "base/now.h"
#include "base/number.h"
#include "ledger/records.h"
#include "ledger/trace/trace.h"
#include "text/units.h"

enum trace_room {
	ROOM_LAUNCH,
	ROOM_METER,
	ROOM_MEMORY,
	ROOM_SWAP,
	ROOM_TURNS,
	ROOM_RESIDENCY,
};

enum trace_unit {
	UNIT_NONE,
	UNIT_NS,
	UNIT_AGO, /* an instant, before the event */
	UNIT_BYTES,
	UNIT_COUNT,
	UNIT_PERMILLE,
	UNIT_YES,
	UNIT_PART, /* of SWAP_ALL */
	UNIT_WHY,
	UNIT_PHASE,
	UNIT_STATE,
	UNIT_TROUBLE,
};

static const struct {
	const char *name;
	enum trace_room room;
	bool instant;
	struct {
		const char *name;
		enum trace_unit unit;
	} number[TRACE_NUMBERS];
	const char *words;
} events[TRACE_EVENTS] = {
#define INSTANT_AT   true
#define INSTANT_SPAN false
#define INSTANT_PAST false
#define TRACE(event, json, room, time, n0, u0, n1, u1, n2, u2, words)                              \
	{json, ROOM_##room, INSTANT_##time, {{n0, UNIT_##u0}, {n1, UNIT_##u1}, {n2, UNIT_##u2}}, words},
#include "ledger/trace/trace.def"
#undef TRACE
};

static const char *const rooms[] = {
	[ROOM_LAUNCH] = "launch", [ROOM_METER] = "meter", [ROOM_MEMORY] = "memory",
	[ROOM_SWAP] = "swap",	  [ROOM_TURNS] = "turns", [ROOM_RESIDENCY] = "residency",
};

static const char *const whys[TRACE_WHYS] = {
	[TRACE_WHY_TURN] = "for its turn",
	[TRACE_WHY_DEBT] = "for its share",
	[TRACE_WHY_ROOM] = "for room in flight",
};

static const char *const phases[SWAP_PHASES] = {
	[SWAP_RUN] = "run",
	[SWAP_PREPARE] = "prepare",
	[SWAP_OUT] = "out",
	[SWAP_BACK] = "back",
	[SWAP_BARE] = "bare",
	[SWAP_GIVEN] = "given",
	[SWAP_PREPARE_CONTEXTS] = "prepare with contexts",
	[SWAP_COME] = "come",
	[SWAP_STILL] = "still",
};

static const char *const states[SWAP_STATES] = {
	[SWAP_NONE] = "none",		[SWAP_RUNNING] = "running",
	[SWAP_SUSPENDING] = "suspending", [SWAP_READY] = "ready",
	[SWAP_SUSPENDED] = "suspended", [SWAP_RESUMING] = "resuming",
	[SWAP_RETURNED] = "returned",
};

static const char *const troubles[SWAP_WHYS] = {
	[SWAP_FINE] = "no trouble",
	[SWAP_ARRAYS] = "arrays",
	[SWAP_MANAGED] = "managed memory",
	[SWAP_HANDLES] = "handles",
	[SWAP_POOLS] = "pools",
	[SWAP_GRAPHS] = "graphs",
	[SWAP_IMPORTS] = "imported memory",
	[SWAP_FIXED] = "memory that cannot move",
	[SWAP_CAPTURE] = "a capture",
	[SWAP_BUSY] = "work that does not end",
	[SWAP_HOST] = "no host memory",
	[SWAP_QUOTA] = "the quota",
	[SWAP_DEVICE] = "no room on the device",
	[SWAP_DRIVER] = "the driver",
	[SWAP_ELSEWHERE] = "its content is elsewhere",
	[SWAP_EXPORTS] = "exported memory",
	[SWAP_SHARED] = "shared memory",
	[SWAP_SVM] = "SVM",
	[SWAP_DMABUFS] = "dma-bufs",
	[SWAP_NODES] = "render nodes' memory",
	[SWAP_ADDRESS] = "memory without an address",
	[SWAP_RINGS] = "render nodes' work",
	[SWAP_VIEWS] = "memory mapped for the CPU",
	[SWAP_OTHERS] = "memory by Vulkan or OpenCL",
	[SWAP_FILE] = "no file",
};

static const char *trace_words_of(const char *const *words, uint64_t n, uint64_t value)
{
	return value < n && words[value] ? words[value] : "?";
}

/* NULL: the number is no word of a list. */
static const char *trace_words_find(enum trace_unit unit, uint64_t value)
{
	switch (unit) {
	case UNIT_WHY:
		return trace_words_of(whys, TRACE_WHYS, value);
	case UNIT_PHASE:
		return trace_words_of(phases, SWAP_PHASES, value);
	case UNIT_STATE:
		return trace_words_of(states, SWAP_STATES, value);
	case UNIT_TROUBLE:
		return trace_words_of(troubles, SWAP_WHYS, value);
	default:
		return NULL;
	}
}

static struct units_text trace_words_number(enum trace_unit unit, uint64_t value, uint64_t at_ns)
{
	const char *word = trace_words_find(unit, value);
	struct units_text text;

	switch (unit) {
	case UNIT_NS:
		return units_duration(value);
	case UNIT_AGO:
		return units_duration(sat_sub_u64(at_ns, value));
	case UNIT_BYTES:
		return units_bytes(value);
	case UNIT_PERMILLE:
		return units_permille(value < UINT32_MAX ? (uint32_t)value : UINT32_MAX);
	case UNIT_PART:
		return units_permille(value < SWAP_ALL ? (uint32_t)(value * 1000 / SWAP_ALL) : 1000);
	case UNIT_YES:
		word = value ? "yes" : "no";
		break;
	default:
		break;
	}
	if (word)
		snprintf(text.s, sizeof(text.s), "%s", word);
	else
		snprintf(text.s, sizeof(text.s), "%" PRIu64, value);
	return text;
}

static void trace_words_sentence(const struct trace_said *said, FILE *out)
{
	for (const char *p = events[said->event].words; *p; p++) {
		int i = p[0] == '{' ? p[1] - '0' : -1;

		if (i < 0 || i >= TRACE_NUMBERS) {
			putc(*p, out);
			continue;
		}
		fputs(trace_words_number(events[said->event].number[i].unit, said->number[i], said->at_ns).s,
		      out);
		p += 2;
	}
}

void trace_words_print(const struct trace_said *said, uint64_t from_ns, FILE *out)
{
	uint64_t since_us = (said->at_ns - from_ns) / NS_PER_US;

	fprintf(out, "%6" PRIu64 ".%06" PRIu64 "  ", since_us / 1000000, since_us % 1000000);
	if (said->pid)
		fprintf(out, "%7" PRIu32 "/%-7" PRIu32, said->pid, said->thread);
	else
		fprintf(out, "%15s", rooms[events[said->event].room]);
	if (said->device >= 0)
		fprintf(out, "  %2d  ", said->device);
	else
		fputs("   -  ", out);
	trace_words_sentence(said, out);
	putc('\n', out);
}

/* --- The picture ------------------------------------------------------------------------------ */

struct trace_lane trace_words_lane(const struct trace_said *said)
{
	enum trace_room room = events[said->event].room;
	uint64_t device = (uint64_t)(said->device + 1);

	if (room == ROOM_METER) /* beyond what a thread may have */
		return (struct trace_lane){said->pid, (UINT64_C(1) << 32) + device};
	return (struct trace_lane){said->pid, said->pid ? said->thread : room};
}

bool trace_words_name_lane(const struct trace_said *said, FILE *out)
{
	struct trace_lane lane = trace_words_lane(said);
	enum trace_room room = events[said->event].room;

	if (said->pid && room != ROOM_METER)
		return false;
	fprintf(out, "{\"name\": \"thread_name\", \"ph\": \"M\", \"pid\": %" PRIu32 ", \"tid\": %" PRIu64
		", \"args\": {\"name\": \"%s", lane.pid, lane.tid,
		room == ROOM_METER ? "work on device " : rooms[room]);
	if (room == ROOM_METER)
		fprintf(out, "%d", said->device);
	fputs("\"}}", out);
	return true;
}

static void trace_words_us(const char *key, uint64_t ns, FILE *out)
{
	fprintf(out, ", \"%s\": %" PRIu64 ".%03" PRIu64, key, ns / NS_PER_US, ns % NS_PER_US);
}

/* Words in place of numbers that stand for such. */
static void trace_words_args(const struct trace_said *said, FILE *out)
{
	if (said->device >= 0)
		fprintf(out, "\"device\": %d", said->device);
	else
		fputs("\"device\": null", out);
	for (int i = 0; i < TRACE_NUMBERS; i++) {
		enum trace_unit unit = events[said->event].number[i].unit;
		const char *word = trace_words_find(unit, said->number[i]);

		if (unit == UNIT_NONE)
			continue;
		fprintf(out, ", \"%s\": ", events[said->event].number[i].name);
		if (word)
			fprintf(out, "\"%s\"", word);
		else if (unit == UNIT_YES)
			fputs(said->number[i] ? "true" : "false", out);
		else
			fprintf(out, "%" PRIu64, said->number[i]);
	}
}

void trace_words_json(const struct trace_said *said, FILE *out)
{
	struct trace_lane lane = trace_words_lane(said);
	uint64_t lasted_ns = trace_lasted_ns(said);

	fprintf(out, "{\"name\": \"%s\", \"cat\": \"%s\", \"ph\": \"%s\", \"pid\": %" PRIu32
		", \"tid\": %" PRIu64, events[said->event].name, rooms[events[said->event].room],
		events[said->event].instant ? "i" : "X", lane.pid, lane.tid);
	trace_words_us("ts", trace_ended_ns(said) - lasted_ns, out);
	if (events[said->event].instant)
		fputs(", \"s\": \"t\"", out);
	else
		trace_words_us("dur", lasted_ns, out);
	fputs(", \"args\": {", out);
	trace_words_args(said, out);
	fputs("}}", out);
}
