/* SPDX-License-Identifier: Apache-2.0 */
/* peak TREE: the most that the first emulated GPU had given at once, and what it has given now. */
#include <stdio.h>

#include "amd/abi/kfd.h"
#include "sim/kfd/bank.h"
#include "tests/check.h"

int main(int argc, char **argv)
{
	struct bank *bank;

	CHECK_EQ(argc, 2);
	CHECK_EQ(bank_open(argv[1], &bank), 0);
	printf("%llu %llu\n", (unsigned long long)bank_peak(bank, 0),
	       (unsigned long long)bank_used(bank, 0, KFD_IOC_ALLOC_MEM_FLAGS_VRAM));
	return 0;
}
