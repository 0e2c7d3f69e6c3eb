/* SPDX-License-Identifier: Apache-2.0 */
#include "tenant/forked.h"

#include <pthread.h>
#include <stddef.h>

#include "base/pages.h"
#include "base/word.h"

#define FORKED_BYTES 4096

/* A page that the kernel wipes in a forked child: 0 there until the first call. */
static uint32_t *forked_word;
/* The child has its parent's, and counts on from it. */
static uint32_t forked_last;

/* For kernels that cannot wipe a page. Another thread may fork before the page is there. */
static void forked_wipe(void)
{
	if (forked_word)
		word_release(forked_word, 0u);
}

/* Before other threads see the page, as guest_get_page() has it. */
static uint32_t *forked_page(void)
{
	uint32_t *word = word_acquire(&forked_word), *expected = NULL;

	if (word)
		return word;
	word = pages_map(FORKED_BYTES);
	if (!word)
		return NULL;
	if (madvise(word, FORKED_BYTES, MADV_WIPEONFORK))
		pthread_atfork(NULL, NULL, forked_wipe);
	if (__atomic_compare_exchange_n(&forked_word, &expected, word, false, __ATOMIC_ACQ_REL,
					__ATOMIC_ACQUIRE))
		return word;
	munmap(word, FORKED_BYTES);
	return expected;
}

uint32_t forked_number(void)
{
	uint32_t *word = forked_page();

	if (!word)
		return 0;
	if (!word_check(word))
		word_swap_if_u32(word, 0, (uint32_t)word_publish_add(&forked_last, 1u) + 1);
	return word_check(word);
}
