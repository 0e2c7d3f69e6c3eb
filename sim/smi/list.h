/* SPDX-License-Identifier: Apache-2.0 */
/* Lists: -L, and the values of --query-gpu and --query-compute-apps as CSV. */
#ifndef ALLOT_SIM_SMI_LIST_H
#define ALLOT_SIM_SMI_LIST_H

#include "sim/smi/fields.h"

struct list_format {
	bool header, units;
};

/* "csv,noheader,nounits", in any order. False: it is another one. */
bool list_parse_format(const char *text, struct list_format *ret);

#define LIST_FIELDS 64

struct list_query {
	const struct field *field[LIST_FIELDS];
	unsigned int n;
	bool apps;
};

/* The fields of a query. NULL, or the first word that is none: "" if there are none, or too many. */
const char *list_parse_query(char *words, bool apps, struct list_query *ret);

void list_print_devices(struct driver *driver);
void list_print_query(struct driver *driver, const struct list_query *query, struct list_format format);

#endif
