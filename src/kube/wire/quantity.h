/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quantities as Kubernetes writes them (k8s.io/apimachinery/pkg/api/resource). Pure and exact: no
 * floating point, nothing is rounded.
 *
 *	quantity = number [ suffix ]
 *	number	 = [ "+" | "-" ] ( digits [ "." [ digits ] ] | "." digits )
 *	suffix	 = Ki Mi Gi Ti Pi Ei	(powers of 1024)
 *		 | n u m k M G T P E	(powers of 1000)
 *		 | ( "e" | "E" ) [ "+" | "-" ] digits
 */
#ifndef ALLOT_KUBE_WIRE_QUANTITY_H
#define ALLOT_KUBE_WIRE_QUANTITY_H

#include <stdint.h>

/*
 * The quantity as an integer. 0; -EINVAL: it is none; -ERANGE: negative, beyond 2^63 - 1, or a number of
 * more than 19 digits; -EDOM: it has a fraction.
 */
int quantity_whole(const char *text, uint64_t *ret);

/* Percent as permille: "25" is 250, "12500m" is 125. As above; -ERANGE also for more than 100 percent. */
int quantity_permille(const char *text, uint32_t *ret);

/* Words to stand behind the quantity in a message: "is no quantity". */
const char *quantity_why(int error);

#endif
