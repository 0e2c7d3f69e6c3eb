/* SPDX-License-Identifier: Apache-2.0 */
/* allot image: shows an image of a tenant, and checks each byte. */
#include "image/image.h"

#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cli/cmd/command.h"
#include "cli/say/arguments.h"
#include "cli/say/exit_status.h"
#include "cli/say/say.h"
#include "cli/say/table.h"
#include "text/text.h"
#include "text/units.h"

#define EXIT_DAMAGED 1

static const struct argp argp = {
	.parser = arguments_take_one,
	.args_doc = "DIR",
	.doc = "Show a tenant's image in DIR: its owner, and its memory, object by object. All of "
	       "it is read, and each byte is checked.\v"
	       "Exit status: 0; 1 if the image is damaged or was never finished; 125.\n",
};

struct listing {
	struct table *table;
	uint64_t bytes, content_bytes;
	unsigned int nobjects;
};

/* "1000 1001": the processes that hold it, each once where its mappings follow each other. */
static void image_put_holders(struct table *t, const struct object *object,
			      const struct manifest *m)
{
	char text[128] = "";
	size_t used = 0;

	for (uint32_t i = 0; i < object->nholders && used < sizeof(text); i++)
		if (!i || object->holders[i].process != object->holders[i - 1].process)
			used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%d",
						 used ? " " : "",
						 m->processes[object->holders[i].process].pid);
	table_cell(t, "%s%s", text, used < sizeof(text) ? "" : "...");
}

struct telling {
	struct listing *listing;
	const struct manifest *manifest;
};

static void image_list_object(const struct object *object, uint64_t content_bytes, void *arg)
{
	const struct telling *telling = arg;
	struct listing *l = telling->listing;
	struct table *t = l->table;

	table_cell(t, "%u", l->nobjects++);
	table_cell(t, "%u", object->device);
	table_cell(t, "%s", units_bytes(object->bytes).s);
	table_cell(t, "%s", units_bytes(content_bytes).s);
	if (object->nholders && object->holders[0].bytes)
		table_cell(t, "0x%" PRIx64, object->holders[0].address);
	else
		table_skip(t, 1);
	image_put_holders(t, object, telling->manifest);
	l->bytes += object->bytes;
	l->content_bytes += content_bytes;
}

static void image_print_text(const char *text)
{
	char line[MANIFEST_TEXT];

	snprintf(line, sizeof(line), "%s", text);
	text_make_printable(line);
	puts(line);
}

static void image_print_manifest(const struct manifest *m)
{
	time_t created = (time_t)m->created_s;
	char when[64] = "?";
	struct tm tm;

	if (gmtime_r(&created, &tm))
		strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S UTC", &tm);
	printf("tenant %.*s, written %s\n", POLICY_NAME_BYTES, m->policy.name, when);
	for (uint32_t i = 0; i < m->ndevices; i++) {
		printf("device %u: %s, %s, ", i, units_uuid(m->devices[i].uuid).s,
		       units_bytes(m->devices[i].memory_bytes).s);
		image_print_text(m->devices[i].model);
	}
	for (uint32_t i = 0; i < m->nprocesses; i++) {
		printf("process %d: ", m->processes[i].pid);
		image_print_text(m->processes[i].command);
	}
}

static int image_show(struct image *image, struct damage *damage)
{
	struct listing l = {.table = table_new(">OBJECT|>DEVICE|>SIZE|>CONTENT|ADDRESS|HELD BY")};
	struct telling telling = {.listing = &l, .manifest = image_manifest(image)};
	int r = l.table ? image_verify(image, image_list_object, &telling, damage) : -ENOMEM;

	image_print_manifest(image_manifest(image));
	if (table_end(l.table, "", stdout) < 0)
		r = -ENOMEM;
	if (!r)
		printf("%u objects of %s, %s of it not zero: each byte is as it was written\n",
		       l.nobjects, units_bytes(l.bytes).s, units_bytes(l.content_bytes).s);
	return r;
}

int cmd_image(int argc, char **argv)
{
	struct damage damage = {.text = "no memory"};
	const char *dir = NULL;
	struct image *image;
	int r;

	if (arguments_parse(&argp, argc, argv, 0, &dir))
		return EXIT_ALLOT;
	if (!dir)
		return say_error("which image? write: allot image DIR");
	r = image_open(dir, false, &image, &damage);
	if (!r) {
		r = image_show(image, &damage);
		image_close(image);
	}
	if (!r)
		return 0;
	say_error("%s: %s", dir, damage.text);
	return r == -EBADMSG || r == -ENODATA ? EXIT_DAMAGED : EXIT_ALLOT;
}
