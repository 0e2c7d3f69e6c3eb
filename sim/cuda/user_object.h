/* SPDX-License-Identifier: Apache-2.0 */
/*
 * User objects: what a program keeps for as long as graphs need it. Graphs own references, and so do
 * their copies, executables among them. The last reference that goes runs the destructor.
 */
#ifndef ALLOT_SIM_USER_OBJECT_H
#define ALLOT_SIM_USER_OBJECT_H

#include "sim/cuda/work.h"

struct user_object_ref; /* what a graph owns of one object */

/* Adds so many references to an object; `move`: of those that the caller has. */
CUresult user_object_refs_retain(struct user_object_ref **refs, CUuserObject handle,
				 unsigned int count, bool move);
/* Takes so many away. INVALID_VALUE: there are not as many. */
CUresult user_object_refs_give(struct user_object_ref **refs, CUuserObject handle,
			       unsigned int count);

/* Adds references like those of `from`. -ENOMEM, and then nothing was added. */
int user_object_refs_copy(struct user_object_ref **refs, const struct user_object_ref *from);

/*
 * Lets go of all of them: at once, or when a launch that was made is done, by another thread. Takes
 * no reference to the mark; NULL: there was no launch.
 */
void user_object_refs_release(struct user_object_ref *refs, struct sim_mark *last);

#endif
