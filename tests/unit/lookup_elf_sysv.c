/* SPDX-License-Identifier: Apache-2.0 */
/* A library with the old hash table only. */
int sysv_function(void);
int sysv_other(void);
extern int sysv_data;

__attribute__((visibility("default"))) int sysv_data = 3;

__attribute__((visibility("default"))) int sysv_function(void)
{
	return 1;
}

__attribute__((visibility("default"))) int sysv_other(void)
{
	return 2;
}
