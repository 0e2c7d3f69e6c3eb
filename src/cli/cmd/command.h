/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commands of allot: one row a command in main.c's table, one file a command. A command gets
 * its own argv (argv[0] is "allot <name>") and returns the exit status.
 */
#ifndef ALLOT_CLI_CMD_COMMAND_H
#define ALLOT_CLI_CMD_COMMAND_H

int cmd_run(int argc, char **argv);
int cmd_ps(int argc, char **argv);
int cmd_top(int argc, char **argv);
int cmd_set(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_resume(int argc, char **argv);
int cmd_suspend(int argc, char **argv);
int cmd_rm(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_cdi(int argc, char **argv);
int cmd_checkpoint(int argc, char **argv);
int cmd_restore(int argc, char **argv);
int cmd_image(int argc, char **argv);
int cmd_sim(int argc, char **argv);
int cmd_topo(int argc, char **argv);
int cmd_trace(int argc, char **argv);

#endif
