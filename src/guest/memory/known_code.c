/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/memory/known_code.h"

#include "base/hash.h"

uint64_t known_code_key(const struct known_code *known, uint64_t handle, const char *name,
			uint64_t context)
{
	uint64_t hash = hash_word(HASH_SEED, atomic_load(&known->forgotten));

	hash = hash_word(hash_word(hash, context), handle);
	return hash_mix(name ? hash_string(hash, name) : hash) | 1; /* 0: no function */
}

bool known_code_has(const struct known_code *known, uint64_t key)
{
	const _Atomic uint64_t *set = known->key[(key >> 32) % KNOWN_CODE_SETS];

	for (int i = 0; i < KNOWN_CODE_WAYS; i++)
		if (atomic_load_explicit(&set[i], memory_order_relaxed) == key)
			return true;
	return false;
}

void known_code_add(struct known_code *known, uint64_t key)
{
	_Atomic uint64_t *set = known->key[(key >> 32) % KNOWN_CODE_SETS];
	int at = (int)((key >> 48) % KNOWN_CODE_WAYS);

	for (int i = 0; i < KNOWN_CODE_WAYS; i++)
		if (!atomic_load_explicit(&set[i], memory_order_relaxed))
			at = i;
	atomic_store_explicit(&set[at], key, memory_order_relaxed);
}

void known_code_forget(struct known_code *known)
{
	atomic_fetch_add(&known->forgotten, 1);
}
