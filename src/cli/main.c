/* SPDX-License-Identifier: Apache-2.0 */
/*
 * allot: one table drives dispatch and help.
 */
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cmd/command.h"
#include "cli/say/exit_status.h"
#include "cli/say/say.h"

static const struct {
	const char *name; /* NULL: a heading, which is the summary */
	const char *args;
	const char *summary;
	int (*run)(int argc, char **argv);
} commands[] = {
	{NULL, NULL, "Run programs, and limit them:", NULL},
	{"run", "[--name NAME] [--gpu LIST] [--memory LIST] [--compute LIST] -- COMMAND...",
	 "run a command as a tenant with a memory quota and a share of compute", cmd_run},
	{"set", "NAME [--memory LIST] [--compute LIST] ...",
	 "change a running tenant's quota or share at once", cmd_set},
	{"rm", "NAME...", "remove tenants that have no processes left", cmd_rm},
	{NULL, NULL, "Look at devices and tenants:", NULL},
	{"ps", "[--json] [--ended] [NAME...]",
	 "show tenants: quota, use, share of compute, processes", cmd_ps},
	{"top", "[--once] [--sort KEY] [NAME]",
	 "show devices, tenants and other programs, live; change and end tenants", cmd_top},
	{"report", "[--since DATE|Nd|Nh] [--by user|name|day] [--csv|--json]",
	 "add up what tenants had of devices in the last days", cmd_report},
	{"trace", "NAME [--follow] [--json]",
	 "show what a tenant's processes decided: held launches, bills, refusals, moves", cmd_trace},
	{"topo", "[--json]", "show devices, the links between them, and which reach each other",
	 cmd_topo},
	{"doctor", "[-- COMMAND...]", "say what is wrong on this machine and what to do",
	 cmd_doctor},
	{"bench", "[--gpu GPU] [--json FILE]", "measure how exact shares of a device's time are",
	 cmd_bench},
	{NULL, NULL, "Move tenants off their devices:", NULL},
	{"suspend", "NAME [--contexts] [--host-memory SIZE]",
	 "move a swappable tenant's device memory to the host, and stop its use of the GPU",
	 cmd_suspend},
	{"resume", "NAME", "move the tenant's memory back to its devices and continue it",
	 cmd_resume},
	{"checkpoint", "NAME --to DIR [--leave-running]",
	 "write a swappable tenant to a disk: device memory, and processes by CRIU",
	 cmd_checkpoint},
	{"restore", "DIR", "continue a tenant that \"allot checkpoint\" wrote to DIR", cmd_restore},
	{"image", "DIR", "show and check a tenant's image, as \"allot checkpoint\" wrote it",
	 cmd_image},
	{NULL, NULL, "Containers, and machines without a GPU:", NULL},
	{"cdi", "generate|list|remove [NAME...]",
	 "describe allot's devices to podman, docker and other container engines", cmd_cdi},
	{"sim", "[--gpus N] [--memory SIZE] -- COMMAND...", "run a command with simulated GPUs",
	 cmd_sim},
};

#define NCOMMANDS (sizeof(commands) / sizeof(commands[0]))

static void main_help(FILE *out)
{
	fputs("Usage: allot COMMAND [OPTION...]\n"
	      "Share a GPU: memory quotas and shares of compute for unmodified programs.\n",
	      out);
	for (size_t i = 0; i < NCOMMANDS; i++)
		if (commands[i].name)
			fprintf(out, "  allot %-7s %s\n  %-14s %s\n", commands[i].name,
				commands[i].args, "", commands[i].summary);
		else
			fprintf(out, "\n%s\n", commands[i].summary);
	fputs("\nSizes: 8GiB 512M 1.5G (1024-based), 8GB (1000-based), plain bytes, 25% of the "
	      "device.\n"
	      "Exit status: the command's own; 125 allot failed; 126 the command cannot be run;\n"
	      "127 it was not found.\n"
	      "More: allot COMMAND --help, man allot.\n",
	      out);
}

/* Output that was lost (a full disk) is an error, whatever the command thought. */
static int main_finish(int status)
{
	errno = 0;
	if (fflush(stdout) || ferror(stdout))
		return say_error("cannot write the output: %s; nothing else went wrong",
				 errno ? say_errno(errno) : "write error");
	return status;
}

int main(int argc, char **argv)
{
	static char name[32];
	const char *word = argc > 1 ? argv[1] : NULL;

	argp_err_exit_status = EXIT_ALLOT;
	argp_program_version = "allot " ALLOT_VERSION;

	if (!word) {
		main_help(stderr);
		return EXIT_ALLOT;
	}
	if (!strcmp(word, "--version") || !strcmp(word, "-V")) {
		puts(argp_program_version);
		return main_finish(0);
	}
	if (!strcmp(word, "--help") || !strcmp(word, "-h") || !strcmp(word, "-?") ||
	    (!strcmp(word, "help") && argc == 2)) {
		main_help(stdout);
		return main_finish(0);
	}
	/* "allot help run" is "allot run --help". */
	if (!strcmp(word, "help")) {
		static char option[] = "--help";

		word = argv[2];
		argv[2] = option;
		argc = 3;
	}
	for (size_t i = 0; i < NCOMMANDS; i++) {
		if (!commands[i].name || strcmp(word, commands[i].name))
			continue;
		snprintf(name, sizeof(name), "allot %s", commands[i].name);
		say_as(name);
		argv[1] = name;
		return main_finish(commands[i].run(argc - 1, argv + 1));
	}
	return say_error("\"%s\" is not a command; \"allot --help\" lists them", word);
}
