/* SPDX-License-Identifier: Apache-2.0 */
/* allot topo: devices, the links between them, and which reach each other. */
#include "cli/device/topo.h"

#include <argp.h>
#include <inttypes.h>
#include <string.h>

#include "cli/cmd/command.h"
#include "cli/say/arguments.h"
#include "cli/say/exit_status.h"
#include "cli/say/say.h"
#include "cli/say/table.h"
#include "text/units.h"

/* `allot doctor` ends with the same where there is no device. */
#define EXIT_NOTHING 1

struct arguments {
	bool json, measure;
};

static const struct argp_option options[] = {
	{"json", 'j', NULL, 0, "print JSON, as docs/json.md describes it", 0},
	{"measure", 'm', NULL, 0, "also measure how fast NVIDIA devices read from each other", 0},
	{0},
};

static error_t topo_parse_option(int key, char *arg, struct argp_state *state)
{
	struct arguments *a = state->input;

	switch (key) {
	case 'j':
		a->json = true;
		return 0;
	case 'm':
		a->measure = true;
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "\"%s\": all devices are shown; there is nothing to name", arg);
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp argp = {
	.options = options,
	.parser = topo_parse_option,
	.doc = "Show the devices of either vendor, the links between them (type, weight, "
	       "bandwidth), and which of them reach memory of which.\v"
	       "Exit status: 0, or 1 if there is no device.\n",
};

static size_t topo_count_reached(const struct topo *topo, size_t from)
{
	size_t n = 0;

	for (size_t i = 0; i < topo->n; i++)
		n += i != from && topo_link(topo, from, i)->reach;
	return n;
}

/* Names of the devices that one reaches, or of the others that it does not; cut if too many. */
static void topo_list_names(const struct topo *topo, size_t from, bool reached, char *names,
			    size_t size)
{
	size_t used = 0;

	*names = '\0';
	for (size_t i = 0; i < topo->n && used < size; i++)
		if (i != from && topo_link(topo, from, i)->reach == reached)
			used += (size_t)snprintf(names + used, size - used, "%s%s", used ? " " : "",
						 topo->device[i].name);
}

/* The cell says it in as few words as it takes: a board has eight devices, more if partitioned. */
static void topo_put_reached(struct table *t, const struct topo *topo, size_t from)
{
	size_t others = topo->n - 1, n = topo_count_reached(topo, from);
	char names[1024];

	topo_list_names(topo, from, n <= others - n, names, sizeof(names));
	if (!n)
		table_cell_if(t, others, "none");
	else if (n == others)
		table_cell(t, "all others");
	else
		table_cell(t, "%s%s", n <= others - n ? "" : "all but ", names);
}

static int topo_print_devices(const struct topo *topo)
{
	struct table *t = table_new("DEVICE|MODEL|>MEMORY|PCI|ID|REACHES");

	for (size_t i = 0; i < topo->n; i++) {
		const struct topo_device *d = &topo->device[i];

		table_cell(t, "%s", d->name);
		table_cell(t, "%s", d->device.model);
		table_cell(t, "%s", units_bytes(d->device.total_bytes).s);
		table_cell(t, "%s", d->device.pci);
		table_cell(t, "%s", units_uuid_short(d->device.uuid).s);
		topo_put_reached(t, topo, i);
	}
	return table_end(t, "", stdout);
}

static bool topo_is_same_link(const struct topo_link *a, const struct topo_link *b)
{
	bool paths = a->path && b->path ? !strcmp(a->path, b->path) : a->path == b->path;

	return a->reach && b->reach && !strcmp(a->type, b->type) && paths && a->count == b->count &&
	       a->weight == b->weight && a->min_mb_per_s == b->min_mb_per_s &&
	       a->max_mb_per_s == b->max_mb_per_s;
}

static void topo_put_speed(struct table *t, uint32_t mb_per_s)
{
	table_cell_if(t, mb_per_s, "%" PRIu32 ".%" PRIu32, mb_per_s / 1000, mb_per_s / 100 % 10);
}

/* In a row for both directions the slower one counts. */
static uint32_t topo_measured_speed(const struct topo *topo, size_t from, size_t to, bool both)
{
	uint32_t there = topo_link(topo, from, to)->measured_mb_per_s;
	uint32_t back = topo_link(topo, to, from)->measured_mb_per_s;

	return both && back < there ? back : there;
}

static void topo_put_link(struct table *t, const struct topo *topo, size_t from, const char *arrow,
			  size_t to)
{
	const struct topo_link *link = topo_link(topo, from, to);

	table_cell(t, "%s %s %s", topo->device[from].name, arrow, topo->device[to].name);
	table_cell(t, "%s", link->type);
	table_cell_if(t, link->count, "%" PRIu32, link->count);
	table_cell(t, "%s", link->path ? link->path : "");
	table_cell_if(t, link->weight, "%" PRIu32, link->weight);
	topo_put_speed(t, link->min_mb_per_s);
	topo_put_speed(t, link->max_mb_per_s);
	topo_put_speed(t, topo_measured_speed(topo, from, to, *arrow == '<'));
}

/* One row for both directions where they are alike. */
static int topo_print_links(const struct topo *topo)
{
	struct table *t = table_new("LINK|TYPE|>COUNT|THROUGH|>WEIGHT|>MIN GB/S|>MAX GB/S|"
				    ">MEASURED GB/S");

	for (size_t i = 0; i < topo->n; i++)
		for (size_t j = i + 1; j < topo->n; j++) {
			const struct topo_link *there = topo_link(topo, i, j);
			const struct topo_link *back = topo_link(topo, j, i);

			if (topo_is_same_link(there, back)) {
				topo_put_link(t, topo, i, "<->", j);
				continue;
			}
			if (there->reach)
				topo_put_link(t, topo, i, "->", j);
			if (back->reach)
				topo_put_link(t, topo, j, "->", i);
		}
	return table_end(t, "\n", stdout);
}

/* About AMD's devices: how sure they are, and how many are not shown, and why. */
static void topo_note_hidden(const struct topo *topo)
{
	bool amd = topo->n && topo->device[topo->n - 1].device.vendor == DEVICE_AMD;

	if (amd)
		printf("\nAMD: as the %s says it; allot has not been tried on a real AMD GPU "
		       "yet.\n",
		       topo->amd_root ? "tree in ALLOT_AMD_ROOT" : "kernel");
	if (topo->amd_hidden)
		say_note("%" PRIu32 " AMD node%s hidden from this process by the device cgroup",
			 topo->amd_hidden, topo->amd_hidden == 1 ? " is" : "s are");
	if (topo->amd_without_render_node)
		say_note("%" PRIu32 " AMD GPU%s no render node in %s" TOPOLOGY_DRI
			 "; in a container, pass it in with --device",
			 topo->amd_without_render_node,
			 topo->amd_without_render_node == 1 ? " has" : "s have",
			 topo->amd_root ? topo->amd_root : "");
}

/* The message tells which vendor's devices are missing; the advice is the same for both. */
static int topo_say_nothing(const struct topo *topo)
{
	char words[DEVICES_WORDS];

	devices_explain_none(topo->nvidia_error, topo->amd_error, words);
	return say_fail(EXIT_NOTHING, "%s", words);
}

int cmd_topo(int argc, char **argv)
{
	const char *nvidia, *amd;
	struct arguments arguments = {0};
	struct topo topo;
	int r = 0;

	arguments_parse(&argp, argc, argv, 0, &arguments);
	if (topo_read(&topo) < 0)
		return say_error("out of memory");
	if (arguments.measure && topo_measure(&topo) < 0)
		r = EXIT_ALLOT;
	nvidia = topo_nvidia_trouble(&topo);
	amd = topo_amd_trouble(&topo);
	if (arguments.json)
		topo_json(&topo, stdout);
	else if (topo.n && (topo_print_devices(&topo) < 0 || topo_print_links(&topo) < 0))
		r = say_error("out of memory for the table");
	if (!arguments.json)
		topo_note_hidden(&topo);
	if (nvidia)
		r = say_error("%s", nvidia);
	if (amd)
		r = say_error("%s%s", topo.amd_root ? "ALLOT_AMD_ROOT: " : "", amd);
	if (!topo.n && !r)
		r = topo_say_nothing(&topo);
	topo_free(&topo);
	return r;
}
