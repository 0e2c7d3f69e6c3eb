/* SPDX-License-Identifier: Apache-2.0 */
/* The fields of --query-gpu and --query-compute-apps: their names, units and values. */
#ifndef ALLOT_SIM_SMI_FIELDS_H
#define ALLOT_SIM_SMI_FIELDS_H

#include "sim/smi/driver.h"

/* A line of the output: a device, and of compute-apps one of its processes. */
struct fields_line {
	struct driver *driver;
	const struct driver_device *device;
	const nvmlProcessInfo_t *process;
};

struct field {
	const char *name, *alias; /* the alias may be NULL; the heading has the name */
	const char *unit;	  /* NULL: none */
	/* Writes the value. False: NVML does not tell it. */
	bool (*put)(const struct fields_line *line, char ret[static DRIVER_TEXT]);
};

/* Each ends with a field without a name. */
extern const struct field fields_gpu[], fields_apps[];

/* NULL: there is none of that name, or of that alias. */
const struct field *fields_find(const struct field *table, const char *name);

/* The value with its unit, or "[N/A]". */
void fields_put(const struct field *field, const struct fields_line *line, bool units,
		char ret[static DRIVER_TEXT]);

#endif
