/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#include "amd/topology_parse.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/number.h"
#include "base/parse.h"

#define NAME_MOST 63

/* A property: where its number goes, and what it may be. */
struct field {
	const char *name;
	uint16_t offset;
	uint16_t bytes; /* 4 or 8 */
	uint64_t most;
	uint32_t otherwise; /* where it is missing, which is an error if it is REQUIRED */
	bool required;
};

#define MEMBER(type, member) offsetof(struct type, member), sizeof(((struct type *)0)->member)
#define ANY32 UINT32_MAX

#define NODE(name, member, most) {name, MEMBER(topology_node, member), most, 0, true}
#define NODE_OR(name, member, most, otherwise) \
	{name, MEMBER(topology_node, member), most, otherwise, false}

/*
 * Required is what an answer would be wrong without; for the rest there is a value for where it is
 * missing, since no two kernels write the same list.
 */
static const struct field node_fields[] = {
	NODE("cpu_cores_count", cpu_cores, ANY32),
	NODE("simd_count", simds, ANY32),
	NODE("mem_banks_count", bank_count, TOPOLOGY_PARTS),
	NODE("caches_count", cache_count, TOPOLOGY_PARTS),
	NODE("io_links_count", io_link_count, TOPOLOGY_PARTS),
	NODE_OR("p2p_links_count", p2p_link_count, TOPOLOGY_PARTS, TOPOLOGY_ABSENT),
	NODE_OR("max_waves_per_simd", waves_per_simd, ANY32, 0),
	NODE_OR("lds_size_in_kb", lds_kib, ANY32, 0),
	NODE_OR("gds_size_in_kb", gds_kib, ANY32, 0),
	NODE_OR("num_gws", gws, ANY32, 0),
	NODE_OR("wave_front_size", wave_lanes, ANY32, 0),
	NODE_OR("array_count", arrays, ANY32, 0),
	NODE_OR("simd_arrays_per_engine", arrays_per_engine, ANY32, 0),
	NODE_OR("cu_per_simd_array", cus_per_array, ANY32, 0),
	NODE_OR("simd_per_cu", simds_per_cu, ANY32, 0),
	NODE_OR("max_slots_scratch_cu", scratch_slots_per_cu, ANY32, 0),
	NODE_OR("gfx_target_version", gfx_version, ANY32, 0),
	NODE_OR("vendor_id", vendor_id, ANY32, 0),
	NODE_OR("device_id", device_id, ANY32, 0),
	NODE("location_id", location, ANY32),
	NODE_OR("domain", domain, ANY32, 0),
	NODE("drm_render_minor", render_minor, ANY32),
	NODE_OR("hive_id", hive_id, UINT64_MAX, 0),
	NODE_OR("unique_id", unique_id, UINT64_MAX, 0),
	NODE_OR("num_sdma_engines", sdma_engines, ANY32, 0),
	NODE_OR("num_sdma_xgmi_engines", sdma_xgmi_engines, ANY32, 0),
	NODE_OR("num_sdma_queues_per_engine", sdma_queues_per_engine, ANY32, 0),
	NODE_OR("num_cp_queues", cp_queues, ANY32, 0),
	NODE_OR("num_xcc", xccs, ANY32, 1),
	NODE_OR("max_engine_clk_fcompute", engine_mhz, ANY32, 0),
	NODE_OR("local_mem_size", local_bytes, UINT64_MAX, 0),
	NODE_OR("fw_version", firmware, ANY32, 0),
	NODE_OR("sdma_fw_version", sdma_firmware, ANY32, 0),
	NODE_OR("capability", capability, ANY32, 0),
};

#define BANK(name, member, most, required) \
	{name, MEMBER(topology_bank, member), most, 0, required}

static const struct field bank_fields[] = {
	BANK("heap_type", heap, ANY32, true),
	BANK("size_in_bytes", size_bytes, UINT64_MAX, true),
	BANK("flags", flags, ANY32, false),
	BANK("width", width_bits, ANY32, false),
	BANK("mem_clk_max", clock_mhz, ANY32, false),
};

#define CACHE(name, member, required) {name, MEMBER(topology_cache, member), ANY32, 0, required}

static const struct field cache_fields[] = {
	CACHE("processor_id_low", processor_id_low, false),
	CACHE("level", level, true),
	CACHE("size", size_kib, true),
	CACHE("cache_line_size", line_bytes, false),
	CACHE("cache_lines_per_tag", lines_per_tag, false),
	CACHE("association", association, false),
	CACHE("latency", latency_ns, false),
	CACHE("type", type, false),
};

#define LINK(name, member, most, required) \
	{name, MEMBER(topology_link, member), most, 0, required}

static const struct field link_fields[] = {
	LINK("type", type, ANY32, true),
	LINK("node_from", from, TOPOLOGY_NODES - 1, true),
	LINK("node_to", to, TOPOLOGY_NODES - 1, true),
	LINK("weight", weight, ANY32, true),
	LINK("min_latency", min_latency_ns, ANY32, false),
	LINK("max_latency", max_latency_ns, ANY32, false),
	LINK("min_bandwidth", min_mb_per_s, ANY32, false),
	LINK("max_bandwidth", max_mb_per_s, ANY32, false),
	LINK("recommended_transfer_size", transfer_bytes, ANY32, false),
	LINK("flags", flags, ANY32, false),
};

/* A piece of the text. */
struct piece {
	const char *at;
	size_t len;
};

/* Its beginning, fit to be shown. */
struct shown {
	char s[36];
};

static struct shown topology_parse_show_text(struct piece piece)
{
	struct shown shown;
	size_t n = min_u64(piece.len, 32);

	for (size_t i = 0; i < n; i++)
		shown.s[i] = piece.at[i] < 0x20 || piece.at[i] > 0x7e ? '?' : piece.at[i];
	snprintf(shown.s + n, sizeof(shown.s) - n, "%s", piece.len > n ? "..." : "");
	return shown;
}

#define complain(r, what, ...) err_say(what, TOPOLOGY_WHAT_BYTES, r, __VA_ARGS__)

static int topology_parse_value(struct piece piece, uint64_t most, uint64_t *ret)
{
	char digits[24];

	if (piece.len >= sizeof(digits))
		return strspn(piece.at, "0123456789") >= piece.len ? -ERANGE : -EINVAL;
	memcpy(digits, piece.at, piece.len);
	digits[piece.len] = '\0';
	return parse_u64(digits, 0, most, ret);
}

/* The next line without its end; false after the last. */
static bool topology_parse_next_line(struct piece *rest, struct piece *ret)
{
	const char *end = rest->len ? memchr(rest->at, '\n', rest->len) : NULL;

	if (!end)
		return false;
	*ret = (struct piece){rest->at, (size_t)(end - rest->at)};
	rest->len -= ret->len + 1;
	rest->at = end + 1;
	return true;
}

static const struct field *topology_parse_find_field(const struct field *fields, size_t n,
						     struct piece name)
{
	for (size_t i = 0; i < n; i++)
		if (strlen(fields[i].name) == name.len &&
		    !memcmp(fields[i].name, name.at, name.len))
			return &fields[i];
	return NULL;
}

/* memcpy: what is written to is a member of a struct that only the offset names. */
static void topology_parse_store(void *out, const struct field *field, uint64_t value)
{
	uint32_t narrow = (uint32_t)value;

	if (field->bytes == sizeof(value))
		memcpy((char *)out + field->offset, &value, sizeof(value));
	else
		memcpy((char *)out + field->offset, &narrow, sizeof(narrow));
}

static int topology_parse_line(const struct field *fields, size_t n, struct piece line,
			       unsigned int number, uint64_t *seen, void *out,
			       char ret_what[TOPOLOGY_WHAT_BYTES])
{
	const char *space = line.len ? memchr(line.at, ' ', line.len) : NULL;
	struct piece name = {line.at, space ? (size_t)(space - line.at) : line.len};
	const struct field *field;
	struct piece value;
	uint64_t bit, v;
	int r;

	if (name.len > NAME_MOST)
		return complain(-EINVAL, ret_what, "line %u: a name of more than %d bytes: \"%s\"",
				number, NAME_MOST, topology_parse_show_text(name).s);
	if (!space || !name.len)
		return complain(-EINVAL, ret_what, "line %u: not a name and a value: \"%s\"",
				number, topology_parse_show_text(line).s);
	field = topology_parse_find_field(fields, n, name);
	if (!field)
		return 0;
	bit = UINT64_C(1) << (field - fields);
	if (*seen & bit)
		return complain(-EINVAL, ret_what, "line %u: %s a second time", number,
				field->name);
	*seen |= bit;
	value = (struct piece){space + 1, line.len - name.len - 1};
	r = topology_parse_value(value, field->most, &v);
	if (r == -ERANGE)
		return complain(r, ret_what, "line %u: %s is out of range: \"%s\"", number,
				field->name, topology_parse_show_text(value).s);
	if (r < 0)
		return complain(r, ret_what, "line %u: %s is no number: \"%s\"", number,
				field->name, topology_parse_show_text(value).s);
	topology_parse_store(out, field, v);
	return 0;
}

/* The caller passes a copy: what was set before an error is thrown away. */
static int topology_parse_fields(const struct field *fields, size_t n, const char *text, size_t len,
				 void *out, char ret_what[TOPOLOGY_WHAT_BYTES])
{
	struct piece rest = {text, len}, line;
	unsigned int number = 1;
	uint64_t seen = 0;

	if (len && memchr(text, '\0', len))
		return complain(-EINVAL, ret_what, "a zero byte in it");
	for (; topology_parse_next_line(&rest, &line); number++) {
		int r = topology_parse_line(fields, n, line, number, &seen, out, ret_what);

		if (r < 0)
			return r;
	}
	if (rest.len)
		return complain(-ENODATA, ret_what, "line %u has no end: \"%s\"", number,
				topology_parse_show_text(rest).s);
	for (size_t i = 0; i < n; i++) {
		if (seen & UINT64_C(1) << i)
			continue;
		if (fields[i].required)
			return complain(-ENODATA, ret_what, "%s is missing", fields[i].name);
		topology_parse_store(out, &fields[i], fields[i].otherwise);
	}
	return 0;
}

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

#define PARSER(function, type, fields)                                          \
	_Static_assert(COUNT(fields) <= 64, "a bit for each");                  \
	int function(const char *text, size_t len, struct type *ret,            \
		     char ret_what[TOPOLOGY_WHAT_BYTES])                        \
	{                                                                       \
		struct type out = *ret;                                         \
		int r = topology_parse_fields(fields, COUNT(fields), text, len, &out, ret_what); \
                                                                                \
		if (r == 0)                                                     \
			*ret = out;                                             \
		return r;                                                       \
	}

PARSER(topology_parse_node, topology_node, node_fields)
PARSER(topology_parse_bank, topology_bank, bank_fields)
PARSER(topology_parse_cache, topology_cache, cache_fields)
PARSER(topology_parse_link, topology_link, link_fields)

int topology_parse_number(const char *text, size_t len, uint32_t most, uint32_t *ret,
			  char ret_what[TOPOLOGY_WHAT_BYTES])
{
	struct piece rest = {text, len}, line = {text, 0};
	uint64_t value;
	int r;

	if (len && memchr(text, '\0', len))
		return complain(-EINVAL, ret_what, "a zero byte in it");
	if (!topology_parse_next_line(&rest, &line))
		return complain(-ENODATA, ret_what, len ? "its line has no end" : "it is empty");
	r = rest.len ? -EINVAL : topology_parse_value(line, most, &value);
	if (r == -ERANGE)
		return complain(r, ret_what, "out of range: \"%s\"",
				topology_parse_show_text(line).s);
	if (r < 0)
		return complain(r, ret_what, "not one number: \"%s\"",
				topology_parse_show_text(line).s);
	*ret = (uint32_t)value;
	return 0;
}
