/* SPDX-License-Identifier: Apache-2.0 */
/* In place of cmd/image.c, checkpoint.c and restore.c, where jansson was not there when allot was built. */
#include "cli/cmd/command.h"
#include "cli/say/say.h"

static int image_none(void)
{
	return say_error("this allot was built without jansson, and so without images; build it "
			 "with libjansson-dev");
}

int cmd_image(int argc, char **argv)
{
	(void)argc, (void)argv;
	return image_none();
}

int cmd_checkpoint(int argc, char **argv)
{
	(void)argc, (void)argv;
	return image_none();
}

int cmd_restore(int argc, char **argv)
{
	(void)argc, (void)argv;
	return image_none();
}
