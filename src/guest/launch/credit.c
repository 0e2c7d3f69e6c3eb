/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/launch/credit.h"

#include "base/number.h"
#include "guest/meter/meter.h"
#include "sched/tuning.h"

/*
 * The word: the ns and the launches that are left, a bit for launches of another key, and the
 * number of the credit, so a thread that read one credit's terms cannot spend the next credit.
 */
#define NS_BITS		  18
#define NS_MASK		  ((UINT64_C(1) << NS_BITS) - 1)
#define LAUNCH		  (UINT64_C(1) << NS_BITS)
#define LAUNCHES	  UINT64_C(255)
#define LAUNCHES_AT(word) ((word) >> NS_BITS & LAUNCHES)
#define MIXED		  (UINT64_C(1) << 26)
#define NUMBER		  (UINT64_C(1) << 27)

/* Most that may be in flight uncounted; less if others wait: no more than the arbiter cares for. */
#define MOST_ALONE_NS (200 * NS_PER_US)

/* The stream that a thread used last: no lock is needed to find it again. */
static _Thread_local struct {
	CUcontext context;
	uint64_t key, serial;
	struct stream *stream;
} last __attribute__((tls_model("initial-exec")));

void credit_give(struct launch_device *device, const struct launch *launch, uint64_t room_ns,
		 uint32_t bills, uint64_t until_ns)
{
	struct credit_terms *terms = &device->credit;
	uint64_t most = launch->now_ns +
			(launch->rival ? TUNING_CREDIT_NS : TUNING_CREDIT_ALONE_NS);

	atomic_store_explicit(&terms->rival, launch->rival, memory_order_relaxed);
	atomic_store_explicit(&terms->yields, launch->yields, memory_order_relaxed);
	atomic_store_explicit(&terms->room_ns, room_ns, memory_order_relaxed);
	atomic_store_explicit(&terms->bills, bills, memory_order_relaxed);
	atomic_store_explicit(&terms->until_ns, min_u64(until_ns, most),
			      memory_order_relaxed);
}

bool credit_lets(const struct launch_state *state, const struct launch_device *device,
		 struct launch *launch)
{
	const struct credit_terms *terms = &device->credit;

	if (launch->now_ns >= atomic_load_explicit(&terms->until_ns, memory_order_relaxed) ||
	    atomic_load_explicit(&state->bills, memory_order_relaxed) !=
		    atomic_load_explicit(&terms->bills, memory_order_relaxed) ||
	    window_due_ns(&device->window) >
		    launch->now_ns + atomic_load_explicit(&terms->room_ns, memory_order_relaxed))
		return false;
	launch->rival = atomic_load_explicit(&terms->rival, memory_order_relaxed);
	launch->yields = atomic_load_explicit(&terms->yields, memory_order_relaxed);
	return true;
}

bool credit_fits(const struct launch_device *device, const struct launch *launch)
{
	return launch->expected_ns <=
	       atomic_load_explicit(&device->credit.room_ns, memory_order_relaxed);
}

bool credit_take(struct launch *launch)
{
	struct stream_credit *credit;
	uint64_t word, left;

	if (last.key != launch->stream_key || last.context != launch->context ||
	    atomic_load_explicit(&last.stream->serial, memory_order_relaxed) != last.serial)
		return false;
	credit = &last.stream->credit;
	word = left = word_acquire(&credit->word);
	if (!LAUNCHES_AT(word) || (word & NS_MASK) < launch->expected_ns)
		return false;
	left -= LAUNCH + launch->expected_ns;
	if (word_read(&credit->key) != launch->key)
		left |= MIXED;
	/* Not if another thread was first: that is rare, and it may be over. */
	if (!word_swap_if(&credit->word, word, left))
		return false;
	word_write(&credit->last_ns, launch->now_ns);
	return true;
}

static uint64_t credit_numbered(uint64_t word)
{
	return word & ~(NUMBER - 1);
}

/*
 * Only from the second launch into the same stream on: a thread that changes between streams has to
 * take the lock anyway.
 */
void credit_open(struct launch_device *device, const struct launch *launch)
{
	struct meter *meter = &device->meter;
	struct stream *stream = launch->in;
	uint64_t most = launch->rival ? TUNING_NEAR_NS : MOST_ALONE_NS, room, until;
	bool again = last.stream == stream && last.key == launch->stream_key &&
		     last.context == launch->context;
	struct stream_credit *credit = &stream->credit;

	last.stream = stream;
	last.context = launch->context;
	last.key = launch->stream_key;
	last.serial = atomic_load(&stream->serial);
	if (!again || launch->end >= 0 || stream->watched || atomic_load(&stream->mute))
		return;
	until = launch->now_ns + atomic_load(&device->credit.room_ns);
	meter_lock(meter);
	room = window_due_ns(&device->window);
	room = until > room ? until - room : 0;
	room = min_u64(room, most);
	if (room && !credit->given) {
		credit->first_ns = launch->now_ns;
		word_write(&credit->last_ns, launch->now_ns);
		word_write(&credit->key, launch->key);
		credit->given = credit_numbered(word_read(&credit->word)) | LAUNCHES * LAUNCH |
				min_u64(room, NS_MASK);
		word_release(&credit->word, credit->given);
	}
	meter_unlock(meter);
}

void credit_count(struct meter *meter, struct stream *stream)
{
	struct stream_credit *credit = &stream->credit;
	uint64_t given = credit->given, next = credit_numbered(given) + NUMBER, left;
	struct burst burst;

	left = __atomic_exchange_n(&credit->word, next, __ATOMIC_ACQ_REL);
	credit->given = 0;
	if (LAUNCHES_AT(left) == LAUNCHES_AT(given))
		return;
	burst = (struct burst){
		.launches = (uint32_t)(LAUNCHES_AT(given) - LAUNCHES_AT(left)),
		.known = true,
		.key = left & MIXED ? 0 : credit->key,
		.expected_ns = (given & NS_MASK) - (left & NS_MASK),
	};
	meter_add(meter, stream, &burst, credit->first_ns, word_read(&credit->last_ns));
}
