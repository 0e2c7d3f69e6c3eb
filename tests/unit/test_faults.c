/* SPDX-License-Identifier: Apache-2.0 */
/* When a device that reported an error is well again. */
#include "node/faults.h"

#include <string.h>

#include "base/now.h"
#include "tests/check.h"

static struct fault_state state(void)
{
	return (struct fault_state){.xid = 79, .since_ns = 100 * NS_PER_S, .recovery = NVML_RECOVERY_UNKNOWN};
}

static uint64_t at(uint64_t seconds)
{
	return (100 + seconds) * NS_PER_S;
}

static void check_programs(void)
{
	static const uint64_t of_programs[] = {13, 31, 43, 45, 68, 109};

	for (size_t i = 0; i < sizeof(of_programs) / sizeof(of_programs[0]); i++)
		CHECK(!fault_is_of_device(of_programs[i]));
	CHECK(fault_is_of_device(48) && fault_is_of_device(63) && fault_is_of_device(79) && fault_is_of_device(94));
	CHECK(fault_is_of_device(0) && fault_is_of_device(999) && fault_is_of_device(UINT64_MAX));
}

/* The driver never asks for anything: the error may pass. */
static void check_nothing_needed(void)
{
	struct fault_state s = state();

	CHECK(!fault_is_over(&s, NVML_RECOVERY_NONE, at(0)));
	CHECK(!fault_is_over(&s, NVML_RECOVERY_NONE, at(59)));
	CHECK(fault_is_over(&s, NVML_RECOVERY_NONE, at(60)));
}

static void check_reset(void)
{
	struct fault_state s = state();

	CHECK(!fault_is_over(&s, NVML_RECOVERY_RESET, at(0)));
	CHECK(!fault_is_over(&s, NVML_RECOVERY_RESET, at(600)));
	CHECK(!fault_is_over(&s, NVML_RECOVERY_UNKNOWN, at(601)));
	CHECK(fault_is_over(&s, NVML_RECOVERY_NONE, at(602)));
	s = state();
	CHECK(!fault_is_over(&s, NVML_RECOVERY_REBOOT, at(0)));
	CHECK(fault_is_over(&s, NVML_RECOVERY_NONE, at(1)));
}

static void check_not_told(void)
{
	struct fault_state s = state();

	CHECK(!fault_is_over(&s, NVML_RECOVERY_UNKNOWN, at(100000)));
	CHECK(!s.needed);
}

static void check_words(void)
{
	char words[FAULT_WORDS];
	struct fault_state s = state();

	for (int r = NVML_RECOVERY_NONE; r <= NVML_RECOVERY_UNKNOWN; r++) {
		s.xid = UINT64_MAX;
		s.recovery = (enum nvml_recovery)r;
		fault_print(&s, words);
		CHECK(strstr(words, "Xid 18446744073709551615") && strlen(words) < FAULT_WORDS - 1);
	}
	s = state();
	s.recovery = NVML_RECOVERY_RESET;
	fault_print(&s, words);
	CHECK(!strcmp(words, "the driver reported Xid 79; reset it (nvidia-smi --gpu-reset)"));
}

int main(void)
{
	check_programs();
	check_nothing_needed();
	check_reset();
	check_not_told();
	check_words();
	return 0;
}
