/* SPDX-License-Identifier: Apache-2.0 */
/* allot cdi: the files by which container runtimes know devices of allot, and their hook. */
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "cdi/spec.h"
#include "cli/cmd/command.h"
#include "cli/container/hook.h"
#include "cli/device/selection.h"
#include "cli/say/arguments.h"
#include "cli/say/exit_status.h"
#include "cli/say/say.h"
#include "node/library.h"

static const struct argp_option options[] = {
	{"dir", 'd', "DIR", 0,
	 "folder of CDI files (default: root's /etc/cdi, other users' ~/.config/cdi)", 0},
	{0},
};

struct args {
	const char *dir, *verb;
	char **names;
	int nnames;
};

static error_t cdi_parse_option(int key, char *arg, struct argp_state *state)
{
	struct args *a = state->input;

	switch (key) {
	case 'd':
		a->dir = arg;
		return 0;
	case ARGP_KEY_ARGS:
		a->verb = state->argv[state->next];
		a->names = state->argv + state->next + 1;
		a->nnames = state->argc - state->next - 1;
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp argp = {
	.options = options,
	.parser = cdi_parse_option,
	.args_doc = "generate|list|remove [NAME...]",
	.doc = "Describe allot's devices to podman, docker, containerd and CRI-O: each container "
	       "that asks for one is a tenant of its own.\v"
	       "Names: 0 (a device, as --gpu has it), all, 8GiB, 8GiB-25 (memory and percent of "
	       "compute, of each device), 0:8GiB-25. \"generate\" alone: each device and all.\n"
	       "\n"
	       "  allot cdi generate 8GiB-25\n"
	       "  podman run --device nvidia.com/gpu=all --device allot.dev/gpu=8GiB-25 ...\n",
};

static int cdi_refuse_name(const char *name)
{
	return say_error("\"%s\": not a name of a device; write it like 0, all, 8GiB, 8GiB-25 or "
			 "0:8GiB-25, with 12.5 for 12.5%%",
			 name);
}

struct generator {
	const char *dir;
	char command[PATH_MAX], library[PATH_MAX], preload[PATH_MAX];
	struct devices devices, amd; /* the first read when a name asks for it */
	bool devices_read;
};

static int cdi_find_files(struct generator *g)
{
	int r = (int)fd_read_link(AT_FDCWD, "/proc/self/exe", g->command, sizeof(g->command));

	if (r < 0)
		return say_error("/proc/self/exe: %s", say_errno(r));
	r = library_find(g->library);
	if (r == -EINVAL)
		return say_error("\"%s\" has a space or a colon in its path; set ALLOT_LIBRARY to a copy "
				 "elsewhere",
				 g->library);
	if (r < 0 || library_preload_list(g->preload) < 0)
		return say_error("liballot.so or its ld.so.preload is not beside this allot; install "
				 "both together");
	return 0;
}

static int cdi_read_devices(struct generator *g, const char *name)
{
	if (!g->devices_read)
		devices_read(&g->devices);
	g->devices_read = true;
	return *g->devices.trouble ? say_error("%s: %s", name, g->devices.trouble) : 0;
}

/* Finds the devices of a name. Its file lists their UUIDs and nodes. */
static int cdi_choose_devices(struct generator *g, const char *name, const char *list,
			      struct devices *ret)
{
	struct selection chosen;

	if (!*list) {
		*ret = g->amd;
		return 0;
	}
	if (cdi_read_devices(g, name) || selection_parse(&g->devices, list, &chosen) < 0)
		return EXIT_ALLOT;
	ret->n = chosen.n;
	for (unsigned int i = 0; i < chosen.n; i++)
		ret->list[i] = g->devices.list[chosen.index[i]];
	return 0;
}

static int cdi_generate_one(struct generator *g, const char *name)
{
	static struct devices devices;
	struct cdi_name parts;
	struct cdi_option limits[2];
	struct cdi_spec spec = {.class = CDI_GPU,
				.name = name,
				.options = limits,
				.devices = &devices,
				.command = g->command,
				.library = g->library,
				.preload = g->preload};
	int r;

	if (cdi_name_parse(name, &parts) < 0)
		return cdi_refuse_name(name);
	if (cdi_choose_devices(g, name, parts.device, &devices))
		return EXIT_ALLOT;
	spec.named = *parts.device;
	if (*parts.memory)
		limits[spec.noptions++] = (struct cdi_option){"--memory", parts.memory};
	if (*parts.share)
		limits[spec.noptions++] = (struct cdi_option){"--compute", parts.share};
	r = cdi_spec_write(g->dir, &spec);
	if (r < 0)
		return say_error("cannot write the file of " CDI_KIND "=%s into %s: %s; choose another "
				 "directory with --dir",
				 name, g->dir, say_errno(r));
	printf(CDI_KIND "=%s\n", name);
	return 0;
}

/* Each device by its index, and all. */
static int cdi_generate_each(struct generator *g)
{
	char index[16];
	int r = cdi_read_devices(g, "allot cdi generate");

	for (unsigned int i = 0; !r && i < g->devices.n; i++) {
		snprintf(index, sizeof(index), "%u", i);
		r = cdi_generate_one(g, index);
	}
	return r ? r : cdi_generate_one(g, "all");
}

static int cdi_generate(const struct args *a)
{
	static struct generator g;
	int r = cdi_find_files(&g);

	g.dir = a->dir;
	if (r)
		return r;
	devices_read_amd(&g.amd);
	if (!a->nnames)
		return cdi_generate_each(&g);
	for (int i = 0; !r && i < a->nnames; i++)
		r = cdi_generate_one(&g, a->names[i]);
	return r;
}

static int cdi_print_name(const char *name, void *arg)
{
	(void)arg;
	printf(CDI_KIND "=%s\n", name);
	return 0;
}

static int cdi_list(const struct args *a)
{
	int r;

	if (a->nnames)
		return say_error("\"%s\": all devices are listed; there is nothing to name",
				 a->names[0]);
	r = cdi_spec_list(a->dir, CDI_GPU, cdi_print_name, NULL);
	return r < 0 ? say_error("%s: %s", a->dir, say_errno(r)) : 0;
}

static int cdi_remove_one(const char *name, void *arg)
{
	const struct args *a = arg;
	struct cdi_name parts;
	int r = cdi_name_parse(name, &parts);

	if (r == 0)
		r = cdi_spec_remove(a->dir, CDI_GPU, name);
	if (r == -ENOENT || r == -EINVAL)
		return say_error("there is no " CDI_KIND "=%s in %s; \"allot cdi list\" lists them",
				 name, a->dir);
	return r < 0 ? say_error("%s: the file of " CDI_KIND "=%s: %s", a->dir, name, say_errno(r))
		     : 0;
}

static int cdi_remove(struct args *a)
{
	int status = 0;

	if (!a->nnames) {
		int r = cdi_spec_list(a->dir, CDI_GPU, cdi_remove_one, a);

		return r < 0 ? say_error("%s: %s", a->dir, say_errno(r)) : r;
	}
	for (int i = 0; i < a->nnames; i++)
		status = cdi_remove_one(a->names[i], a) ? EXIT_ALLOT : status;
	return status;
}

int cmd_cdi(int argc, char **argv)
{
	static char hook[] = "allot cdi hook";
	struct args a = {.nnames = 0};
	char dir[PATH_MAX];

	if (argc > 1 && !strcmp(argv[1], "hook")) {
		argv[1] = hook;
		say_as(hook);
		return hook_run(argc - 1, argv + 1);
	}
	if (arguments_parse(&argp, argc, argv, 0, &a))
		return EXIT_ALLOT;
	if (!a.dir && cdi_spec_dir(dir) < 0)
		return say_error("there is no home for the files; choose a directory with --dir");
	a.dir = a.dir ? a.dir : dir;
	if (a.verb && !strcmp(a.verb, "generate"))
		return cdi_generate(&a);
	if (a.verb && !strcmp(a.verb, "list"))
		return cdi_list(&a);
	if (a.verb && !strcmp(a.verb, "remove"))
		return cdi_remove(&a);
	return say_error("%s%s%s; write: allot cdi generate 8GiB-25, allot cdi list, or allot cdi "
			 "remove 8GiB-25",
			 a.verb ? "\"" : "what of them?", a.verb ? a.verb : "",
			 a.verb ? "\" is nothing that it does" : "");
}
