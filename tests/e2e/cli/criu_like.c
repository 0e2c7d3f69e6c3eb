/* SPDX-License-Identifier: Apache-2.0 */
/* As far as `allot doctor` looks: a CRIU of development, which has the name of a hook in it. */
#include <stdio.h>

int main(void)
{
	return puts("Version: 4.2") < 0 || puts(HOOK) < 0;
}
