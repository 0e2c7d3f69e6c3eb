/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the guest allocates once is reached from a page of its own mapping, where LeakSanitizer
 * does not look.
 */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
	return "leak:guest_start\n";
}

__attribute__((visibility("default"))) const char *__lsan_default_options(void);
const char *__lsan_default_options(void)
{
	return "print_suppressions=0";
}
