/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvidia-smi of `allot sim`: what scripts ask first, answered for simulated devices in the real
 * program's words. An option that is not here is refused, so that no script takes silence for an answer.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/smi/driver.h"
#include "sim/smi/list.h"
#include "sim/smi/log.h"
#include "sim/smi/sheet.h"

enum { QUERY_GPU = 256, QUERY_APPS, FORMAT, LOOP_MS, VERSION };

static const struct option options[] = {
	{"list-gpus", no_argument, NULL, 'L'},
	{"query", no_argument, NULL, 'q'},
	{"id", required_argument, NULL, 'i'},
	{"filename", required_argument, NULL, 'f'},
	{"loop", required_argument, NULL, 'l'},
	{"loop-ms", required_argument, NULL, LOOP_MS},
	{"query-gpu", required_argument, NULL, QUERY_GPU},
	{"query-compute-apps", required_argument, NULL, QUERY_APPS},
	{"format", required_argument, NULL, FORMAT},
	{"version", no_argument, NULL, VERSION},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

static const char help[] =
	"nvidia-smi of \"allot sim\": simulated GPUs\n\n"
	"    nvidia-smi [-i LIST]                  the table\n"
	"    nvidia-smi -L                         the GPUs and their UUIDs\n"
	"    nvidia-smi -q                         all that there is about them\n"
	"    nvidia-smi --query-gpu=FIELD,...  --format=csv[,noheader][,nounits]\n"
	"    nvidia-smi --query-compute-apps=FIELD,...  --format=csv[,noheader][,nounits]\n\n"
	"    -i, --id=LIST        indices, UUIDs or bus ids\n"
	"    -f, --filename=FILE  write there\n"
	"    -l, --loop=SECONDS, -lms, --loop-ms=MS: again and again\n";

enum what { SHEET, LIST, LOG, QUERY, SAY_VERSION };

struct args {
	enum what what;
	const char *chosen, *file;
	char *fields;
	bool apps, format_said;
	struct list_format format;
	struct list_query query;
	useconds_t every_us; /* 0: once */
};

static int main_refuse(const char *word, const char *why)
{
	fprintf(stderr,
		"nvidia-smi of allot sim: \"%s\": %s; \"nvidia-smi --help\" lists what is simulated\n",
		word, why);
	return EXIT_BAD_ARGUMENT;
}

static int main_take_every(const char *text, double us, struct args *a)
{
	char *end;
	double every = strtod(text, &end) * us;

	if (*end || !(every >= 1000) || every > 3600e6)
		return main_refuse(text, "not a time between 1 ms and an hour");
	a->every_us = (useconds_t)every;
	return 0;
}

static int main_take(int key, char *value, struct args *a)
{
	switch (key) {
	case 'L':
		a->what = LIST;
		return 0;
	case 'q':
		a->what = LOG;
		return 0;
	case VERSION:
		a->what = SAY_VERSION;
		return 0;
	case 'i':
		a->chosen = value;
		return 0;
	case 'f':
		a->file = value;
		return 0;
	case 'l':
		return main_take_every(value, 1e6, a);
	case LOOP_MS:
		return main_take_every(value, 1e3, a);
	case QUERY_GPU:
	case QUERY_APPS:
		a->what = QUERY;
		a->apps = key == QUERY_APPS;
		a->fields = value;
		return 0;
	case FORMAT:
		a->format_said = true;
		if (list_parse_format(value, &a->format))
			return 0;
		return main_refuse(value, "not a format; write --format=csv, or csv,noheader,nounits");
	}
	return 0;
}

/* In the real program's words, on stdout: scripts look for them. */
static int main_check_query(struct args *a)
{
	const char *wrong;

	if (!a->format_said) {
		puts("\"--format=\" switch is missing. You need to specify it, like --format=csv");
		return EXIT_BAD_ARGUMENT;
	}
	wrong = list_parse_query(a->fields, a->apps, &a->query);
	if (!wrong)
		return 0;
	printf("Field \"%s\" is not a valid field to query.\n\n", wrong);
	return EXIT_BAD_ARGUMENT;
}

static int main_parse(int argc, char **argv, struct args *a)
{
	static char loop_ms[] = "--loop-ms";
	int key, r = 0;

	opterr = 0;
	/* The only long option with one hyphen: getopt would take it for -l with "ms". */
	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], "-lms"))
			argv[i] = loop_ms;
	while (!r && (key = getopt_long(argc, argv, "+Lqi:f:l:h", options, NULL)) >= 0) {
		if (key == '?')
			return main_refuse(argv[optind - 1], "not simulated");
		if (key == 'h') {
			fputs(help, stdout);
			exit(0);
		}
		r = main_take(key, optarg, a);
	}
	if (!r && optind < argc)
		return main_refuse(argv[optind], "not simulated");
	return r ? r : a->what == QUERY ? main_check_query(a) : 0;
}

static void main_say_version(struct driver *driver)
{
	char version[DRIVER_TEXT], cuda[DRIVER_TEXT];

	driver_version(driver, version);
	driver_cuda_version(driver, cuda);
	printf("NVIDIA-SMI version  : %s\nDRIVER version      : %s\nCUDA Version        : %s\n", version,
	       version, cuda);
}

static void main_print(const struct args *a, struct driver *driver, bool again)
{
	struct list_format format = a->format;

	format.header &= !again;
	switch (a->what) {
	case SHEET:
		sheet_print(driver);
		break;
	case LIST:
		list_print_devices(driver);
		break;
	case LOG:
		log_print(driver);
		break;
	case QUERY:
		list_print_query(driver, &a->query, format);
		break;
	case SAY_VERSION:
		main_say_version(driver);
		break;
	}
	fflush(stdout);
}

int main(int argc, char **argv)
{
	static struct driver driver;
	static struct args a;
	int r = main_parse(argc, argv, &a);

	if (r)
		return r;
	if (a.file && !freopen(a.file, "w", stdout))
		return main_refuse(a.file, "cannot be written");
	r = driver_open(&driver, a.chosen);
	if (r)
		return r;
	main_print(&a, &driver, false);
	while (a.every_us && !ferror(stdout)) {
		usleep(a.every_us);
		main_print(&a, &driver, true);
	}
	driver_close(&driver);
	return ferror(stdout) ? EXIT_FAILURE : 0;
}
