/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Points at which a test may kill a process, to prove that its leavings are repaired.
 * ALLOT_FAULT=<name>[:<n>] raises SIGKILL at the n-th passage (first is 1) of the named point;
 * ALLOT_FAULT=<name>[:<n>]/STOP, SIGSTOP. Not armed, a point is one relaxed load and a branch; with
 * the build option fault_points off it is nothing.
 */
#ifndef ALLOT_BASE_FAULT_H
#define ALLOT_BASE_FAULT_H

#include <stdatomic.h>

/* The one list. A name says which action was the last when the process dies. */
#define FAULT_POINTS(X)                                                             \
	X(TENANT_BUILT)        /* directory complete under its temporary name */     \
	X(TENANT_NAMED)        /* in the list, and nobody noted who made it */       \
	X(TENANT_NOTED)        /* and nobody holds it */                             \
	X(TENANT_HIDDEN)       /* removed from the list, files still there */        \
	X(SLOT_LOCKED)         /* lock of a slot held, its content still old */      \
	X(SLOT_BUMPED)         /* generation raised, rows still old */               \
	X(SLOT_ROWS_CLEARED)   /* rows zero, holder bits still set */                \
	X(SLOT_SCRUBBED)       /* nothing left of the last owner */                  \
	X(SLOT_DESCRIBED)      /* pid and command written, not yet marked live */    \
	X(SLOT_CLAIMED)                                                              \
	X(DEVICE_HALF_NAMED)   /* low half of the UUID is in the device table */     \
	X(DEVICE_NAMED)                                                              \
	X(RESERVE_PUBLISHED)   /* pending raised, not yet checked */                 \
	X(RESERVE_ADMITTED)                                                          \
	X(RESERVE_RETRACTED)                                                         \
	X(SLOW_LOCKED)         /* quota lock held */                                 \
	X(SLOW_RECLAIMED)      /* and dead slots scrubbed */                         \
	X(SLOW_PUBLISHED)                                                            \
	X(SLOW_SETTLED)        /* decided, lock still held */                        \
	X(COMMIT_ADDED)        /* in its category and still pending: counted twice */ \
	X(COMMIT_DONE)                                                               \
	X(CANCELLED)                                                                 \
	X(RELEASED)                                                                  \
	X(SHARED_PUBLISHED)    /* pending raised for a shared object */              \
	X(SHARED_FILLED)       /* entry written, nobody holds it */                  \
	X(SHARED_HELD)         /* held and still pending: counted twice */           \
	X(SHARED_ADDED)                                                              \
	X(SHARED_UNCOVERED)    /* charged to the entry and still to the owner */     \
	X(SHARED_DROPPED)                                                            \
	X(SHARED_RENAMED)      /* half: a new importer is charged once more */       \
	X(SHARED_RAISED)       /* others may have more, and cannot have it yet */    \
	X(SHARED_SHED_ROW)     /* charged to the entry and still to the owner */     \
	X(TRACE_TAKEN)         /* a ring without a birth, and so nobody's */         \
	X(TRACE_PLACED)        /* its record is the one of a round before */         \
	X(TRACE_HALF)          /* a mixture of the two, with the old seal */         \
	X(TRACE_FILLED)                                                              \
	X(POLICY_HALF_WRITTEN) /* idle copy torn */                                  \
	X(POLICY_WRITTEN)      /* idle copy complete, not yet the current one */     \
	X(POLICY_FLIPPED)                                                            \
	X(GUEST_RESERVED)      /* bytes are ours, the driver not yet asked */         \
	X(GUEST_DRIVER_GAVE)   /* recorded or not; still pending */                  \
	X(GUEST_DRIVER_TOOK)   /* freed by the driver, still charged */              \
	X(GUEST_POOL_GREW)     /* a pool took more than it is charged for */         \
	X(GUEST_HANDLE_MAPPED) /* counted as mapped, the mapping not recorded */     \
	X(GUEST_EXPORTED)      /* a descriptor is out, nobody was told */            \
	X(GUEST_CONTEXT_MADE)  /* charged by guess, the driver's figure not asked */ \
	X(GUEST_FIGURE_HALF)   /* code set from the driver's figure, contexts not */  \
	X(SLOT_ADOPTED)        /* taken again after an image, and still awaited */   \
	X(SWAP_ASKED)          /* a request is in the policy, nobody was woken for it */ \
	X(SPARE_KEPT)          /* said, and not looked whether somebody asks */      \
	X(SPARE_ASKED)         /* and nothing given back for it */                   \
	X(GUEST_SHARE_ASKED)   /* an exporter was asked for a descriptor */          \
	X(GUEST_SHARE_SERVED)  /* and has sent it */                                 \
	X(GUEST_ROOM_WISHED)   /* an allocation waits for room, nobody was told */   \
	X(RESIDENCY_TAKEN)     /* the role is held, nothing is known yet */          \
	X(RESIDENCY_DECIDED)   /* the moves are decided, nobody was asked yet */     \
	X(RESIDENCY_LEAVES)    /* a tenant was asked to prepare */                   \
	X(RESIDENCY_OUT)       /* and to leave */                                    \
	X(RESIDENCY_COMES)     /* and to come back */                                \
	X(RESIDENCY_RUNS)      /* and to go on */                                    \
	X(GUEST_SWAP_SHUT)     /* nothing is admitted or in flight, nothing moved */ \
	X(GUEST_SWAP_FILE)     /* the disk has room for what is beyond host memory */ \
	X(GUEST_SWAP_COPIED)   /* in host memory, and still on the device */         \
	X(GUEST_SWAP_HALF_OUT) /* some of it has left the device */                  \
	X(GUEST_SWAP_OUT)      /* all of it has, and is still charged */             \
	X(GUEST_SWAP_BARE)     /* no driver knows its host memory, or it is empty */ \
	X(GUEST_SWAP_HALF_IN)  /* some of it is back */                              \
	X(GUEST_SWAP_IN)       /* all of it is, the command not told */              \
	X(CONTEXTS_LOCKED)     /* one process is held by the driver; the next one not */ \
	X(CONTEXTS_TAKEN)      /* its contexts have left the device */               \
	X(CONTEXTS_RETURNED)   /* and are back; it is still held */                  \
	X(CONTEXTS_UNLOCKED)                                                         \
	X(CONTENT_SAVED)       /* of one piece, in an image that is not finished */  \
	X(CONTENT_PUT_BACK)    /* of one piece, from there */                        \
	X(STORE_NOTED)         /* the tenant knows its image, and has its content */ \
	X(STORE_GIVEN)         /* only the image has it */                           \
	X(STORE_DUMPED)        /* CRIU has the processes, stopped */                 \
	X(STORE_LISTED)        /* the checkpoint is whole, and so is the tenant */   \
	X(STORE_KILLED)        /* the processes are gone, their tenant is not */     \
	X(BRING_MADE)          /* the tenant is there, without a ledger of its own */ \
	X(BRING_AWAITED)       /* and expects its processes */                       \
	X(BRING_RESTORED)      /* which are there, without content */                \
	X(CU_LOCKED)           /* what tenants have of a GPU is about to change */     \
	X(CU_TORN)             /* and half written for one of them */                \
	X(CU_WRITTEN)          /* whole for one, not for the next */                 \
	X(CHECKPOINT_LOCKED)   /* simulated driver: held, its work still under way */ \
	X(CHECKPOINT_JUDGED)   /* what a restore will answer is known, nothing done */ \
	X(CHECKPOINT_TAKEN)                                                          \
	X(CHECKPOINT_RESTORED)                                                       \
	X(CHECKPOINT_UNLOCKED) /* and nobody woken */                                 \
	X(IMAGE_OBJECTS_WRITTEN) /* and on the disk, by their temporary name */       \
	X(IMAGE_MANIFEST_WRITTEN)                                                    \
	X(IMAGE_HALF_NAMED)    /* the objects by their own name, the manifest not */ \
	X(IMAGE_NAMED)

enum fault_point {
#define X(name) FAULT_##name,
	FAULT_POINTS(X)
#undef X
	FAULT_POINT_N,
};

#ifdef ALLOT_FAULT_POINTS

/* -1 environment not read yet, 0 nothing armed, else 1 + the armed point. */
extern _Atomic int fault_state;

void fault_pass(enum fault_point point);

#define FAULT_POINT(name)                                               \
	do {                                                            \
		if (__builtin_expect(FAULT_STATE() != 0, 0))            \
			fault_pass(FAULT_##name);                       \
	} while (0)
#define FAULT_STATE() atomic_load_explicit(&fault_state, memory_order_relaxed)

#else
#define FAULT_POINT(name) \
	do {              \
	} while (0)
#endif

/*
 * Arms the fault points as ALLOT_FAULT does, from within; NULL disarms. 0, -EINVAL for an unknown
 * name or bad count, -ENOSYS when points are not compiled in.
 */
int fault_arm(const char *spec);

/* "RESERVE_PUBLISHED" and so on. */
const char *fault_name(enum fault_point point);

#endif
