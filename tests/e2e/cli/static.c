/* SPDX-License-Identifier: Apache-2.0 */
/* Linked statically: a program that LD_PRELOAD does not reach. */
int main(void)
{
	return 3;
}
