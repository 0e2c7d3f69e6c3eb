/* SPDX-License-Identifier: Apache-2.0 */
/* allot restore: a tenant from a disk, where `allot checkpoint` has put it. */
#include <argp.h>

#include "cli/checkpoint/bring.h"
#include "cli/cmd/command.h"
#include "cli/say/arguments.h"
#include "cli/say/exit_status.h"
#include "cli/say/say.h"

static const struct argp argp = {
	.parser = arguments_take_one,
	.args_doc = "DIR",
	.doc = "Continue a tenant that \"allot checkpoint\" wrote to DIR.\v"
	       "All of DIR is read and checked before anything is started. The tenant keeps its "
	       "name, its quota and its processes.\n",
};

int cmd_restore(int argc, char **argv)
{
	const char *dir = NULL;

	if (arguments_parse(&argp, argc, argv, 0, &dir))
		return EXIT_ALLOT;
	if (!dir)
		return say_error("which checkpoint? write: allot restore DIR");
	return bring_tenant(dir);
}
