/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lines that the guest prints unasked, on standard error: it is about to refuse the GPU, and a
 * program that only sees an error number could not tell why; or a limit that somebody asked for
 * cannot be in force.
 */
#ifndef ALLOT_GUEST_PROCESS_COMPLAIN_H
#define ALLOT_GUEST_PROCESS_COMPLAIN_H

/* "allot: the GPU is refused: <why>" */
void complain_refusal(const char *why);
/* "allot: <line>" */
void complain_line(const char *line);

#endif
