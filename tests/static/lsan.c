/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the guest keeps for as long as the process lives, itself, its events and the tenants that its
 * arbiter knows, is reached from pages of its own mapping, where LeakSanitizer does not look.
 */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
	return "leak:guest_start\nleak:contexts_clock\nleak:arbiter_host_step\n"
	       "leak:order_record\n";
}

__attribute__((visibility("default"))) const char *__lsan_default_options(void);
const char *__lsan_default_options(void)
{
	return "print_suppressions=0";
}
