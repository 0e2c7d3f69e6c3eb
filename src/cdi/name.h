/* SPDX-License-Identifier: Apache-2.0 */
/* Parses names after "allot.dev/gpu=": which devices, and how much of each. Pure. */
#ifndef ALLOT_CDI_NAME_H
#define ALLOT_CDI_NAME_H

#define CDI_NAME_BYTES 64

/*
 *	name   = device | [ device ":" ] memory [ "-" share ]
 *	device = "all" | whatever --gpu takes
 *
 * as in 0, all, 8GiB, 8GiB-25, 0:8GiB-25. A number alone is a device, so memory has its unit; "%"
 * is none of CDI's characters.
 */
struct cdi_name {
	char device[CDI_NAME_BYTES]; /* "": none was named, so it is for all */
	char memory[CDI_NAME_BYTES]; /* "": no limit */
	char share[CDI_NAME_BYTES];  /* in percent; "": no limit */
};

/* 0, or -EINVAL for text that is no such name, or none that CDI takes. */
int cdi_name_parse(const char *name, struct cdi_name *ret);

#endif
