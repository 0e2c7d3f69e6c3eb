/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tenant back from a directory that save.h has written.
 *
 *	each byte of it is read and checked
 *	tenant, policy, ledger: the slots await their processes
 *	note in the tenant's directory, GIVEN
 *	CRIU                                    processes, without content
 *	and from here as `allot resume`         slots, room, content, contexts, devices
 *
 * On AMD GPUs CRIU's plugin brings content, too. Processes take their slots and go on.
 */
#ifndef ALLOT_CLI_CHECKPOINT_BRING_H
#define ALLOT_CLI_CHECKPOINT_BRING_H

/*
 * 0; or an exit status after a message: then nothing is left of it, or, where only a device or the
 * quota has no room by now, the tenant is there and suspended.
 */
int bring_tenant(const char *dir);

#endif
