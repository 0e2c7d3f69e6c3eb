/* SPDX-License-Identifier: Apache-2.0 */
/* A driver of two functions with symbol versions, which the simulated one does not have. */
int driver_old(unsigned int flags);
int driver_new(unsigned int flags);
int cuOther(void);

__asm__(".symver driver_old, cuInit@DRIVER_1");
__asm__(".symver driver_new, cuInit@@DRIVER_2");

__attribute__((visibility("default"))) int driver_old(unsigned int flags)
{
	return 1;
}

__attribute__((visibility("default"))) int driver_new(unsigned int flags)
{
	return 2;
}

__attribute__((visibility("default"))) int cuOther(void)
{
	return 3;
}
