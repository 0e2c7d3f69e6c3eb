/* SPDX-License-Identifier: Apache-2.0 */
/* The words of the text that Prometheus reads, exposition format 0.0.4. */
#ifndef ALLOT_DAEMON_WEB_EXPOSITION_H
#define ALLOT_DAEMON_WEB_EXPOSITION_H

#include <stdint.h>
#include <stdio.h>

/* Before all samples of a metric, once. */
void exposition_head(FILE *out, const char *name, const char *kind, const char *help);

/* Names and values by turns. */
#define LABELS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* A sample, up to its value. */
void exposition_begin(FILE *out, const char *name, const char *const *label);

/* A whole one. */
void exposition_put(FILE *out, const char *name, const char *const *label, uint64_t value);

/* A number of which the last `digits` stand behind the point. */
void exposition_put_parts(FILE *out, uint64_t value, int digits);
/* A time, in seconds. */
void exposition_put_ns(FILE *out, uint64_t ns);

#endif
