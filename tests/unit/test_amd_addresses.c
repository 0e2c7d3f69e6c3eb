/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of buffers, as they are noted, against a table of every page. */
#include "guest/amd/addresses.h"

#include <string.h>

#include "tests/check.h"

#define PAGE  AMD_ADDRESSES_PAGE
#define FILES 2
#define PAGES 64
#define STEPS 20000

static uint32_t draw(uint32_t below)
{
	static uint64_t state = 88172645463325252u;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)(state >> 20) % below;
}

/* What the kernel has at a page of a file's: the buffer, which page of it, and where that began. */
static struct page {
	uint32_t handle, of, first;
} model[FILES][PAGES];

static struct addresses addresses;

static uint64_t key_of(int file, uint32_t handle)
{
	return amd_addresses_file(4711, file + 1) << 32 | handle;
}

static const struct amd_address *list(void)
{
	return (const struct amd_address *)(uintptr_t)addresses.is.list_at;
}

static void check_same(void)
{
	struct page seen[FILES][PAGES] = {{{0}}};

	CHECK_EQ(addresses.is.changing % 2, 0);
	CHECK_EQ(addresses.is.lost, 0);
	for (uint32_t i = 0; i < addresses.is.n; i++) {
		const struct amd_address *a = &list()[i];
		int file = (int)(a->file - amd_addresses_file(4711, 1));
		uint32_t first = (uint32_t)(a->at / PAGE);

		CHECK(file >= 0 && file < FILES && a->bytes && a->flags == AMDGPU_VM_PAGE_READABLE);
		for (uint32_t p = 0; p < a->bytes / PAGE; p++) {
			CHECK(first + p < PAGES && !seen[file][first + p].handle);
			seen[file][first + p] = (struct page){
				a->handle, (uint32_t)(a->offset / PAGE) + p, first};
		}
	}
	CHECK(!memcmp(seen, model, sizeof(seen)));
}

static void note(int file, uint32_t handle, uint32_t operation, uint32_t first, uint32_t n,
		 uint32_t offset, uint32_t flags)
{
	const struct drm_amdgpu_gem_va done = {.handle = handle,
					       .operation = operation,
					       .flags = flags | AMDGPU_VM_DELAY_UPDATE,
					       .va_address = first * PAGE,
					       .offset_in_bo = offset * PAGE,
					       .map_size = n * PAGE};

	addresses_note(&addresses, key_of(file, handle), &done);
}

/* What is left of a mapping begins anew. */
static void model_clear(int file, uint32_t first, uint32_t n)
{
	uint32_t behind = first + n;
	struct page *pages = model[file];

	for (uint32_t p = behind, was = p < PAGES ? pages[p].first : 0;
	     p < PAGES && pages[p].handle && pages[p].first == was && was < behind; p++)
		pages[p].first = behind;
	memset(&pages[first], 0, n * sizeof(*pages));
}

static void model_map(int file, uint32_t handle, uint32_t first, uint32_t n, uint32_t offset)
{
	for (uint32_t p = 0; p < n; p++)
		model[file][first + p] = (struct page){handle, offset + p, first};
}

static void step(void)
{
	int file = (int)draw(FILES);
	uint32_t handle = 1 + draw(3), first = draw(PAGES), n = 1 + draw(PAGES - first), taken = 0;
	uint32_t offset = draw(9);

	for (uint32_t p = 0; p < n; p++)
		taken |= model[file][first + p].handle;
	switch (draw(6)) {
	case 0: /* the kernel maps nothing where something is */
		if (taken)
			break;
		note(file, handle, AMDGPU_VA_OP_MAP, first, n, offset, AMDGPU_VM_PAGE_READABLE);
		model_map(file, handle, first, n, offset);
		break;
	case 1:
		if (!taken)
			note(file, 0, AMDGPU_VA_OP_MAP, first, n, 0, AMDGPU_VM_PAGE_PRT);
		break;
	case 2:
		note(file, handle, AMDGPU_VA_OP_UNMAP, first, 0, 0, 0);
		for (uint32_t p = first; p < PAGES && model[file][p].handle == handle &&
					 model[file][p].first == first; p++)
			model[file][p] = (struct page){0};
		break;
	case 3:
		note(file, 0, AMDGPU_VA_OP_CLEAR, first, n, 0, 0);
		model_clear(file, first, n);
		break;
	case 4:
		note(file, handle, AMDGPU_VA_OP_REPLACE, first, n, offset, AMDGPU_VM_PAGE_READABLE);
		model_clear(file, first, n);
		model_map(file, handle, first, n, offset);
		break;
	case 5:
		addresses_forget(&addresses, key_of(file, handle));
		for (uint32_t p = 0; p < PAGES; p++)
			if (model[file][p].handle == handle)
				model[file][p] = (struct page){0};
		break;
	}
}

static bool is_first_file(uint64_t key, const void *arg)
{
	return key >> 32 == *(const uint64_t *)arg;
}

/* More than its first room; and all of one file's at once. */
static void test_many(void)
{
	const uint64_t first = amd_addresses_file(4711, 1);

	memset(model, 0, sizeof(model));
	for (int file = 0; file < FILES; file++) {
		note(file, 0, AMDGPU_VA_OP_CLEAR, 0, PAGES, 0, 0);
		for (uint32_t i = 0; i < 1000; i++)
			note(file, i + 1, AMDGPU_VA_OP_MAP, PAGES + i, 1, 0, AMDGPU_VM_PAGE_READABLE);
	}
	CHECK_EQ(addresses.is.n, 2000);
	addresses_forget_files(&addresses, is_first_file, &first);
	CHECK_EQ(addresses.is.n, 1000);
	for (uint32_t i = 0; i < 1000; i++) {
		CHECK_EQ(list()[i].file, amd_addresses_file(4711, 2));
		CHECK_EQ(list()[i].handle, i + 1);
	}
}

/* The kernel looks at 48 bits of an address, and at the page that it is in. */
static void test_as_the_kernel(void)
{
	const struct drm_amdgpu_gem_va high = {.handle = 1, .operation = AMDGPU_VA_OP_MAP,
					       .va_address = UINT64_C(0xffff800000001234),
					       .map_size = PAGE};

	addresses_note(&addresses, key_of(0, 1), &high);
	CHECK_EQ(list()[0].at, UINT64_C(0x800000001000));
}

int main(void)
{
	addresses_forget(&addresses, key_of(0, 1)); /* of none */
	for (int i = 0; i < STEPS; i++) {
		step();
		check_same();
	}
	test_many();
	test_as_the_kernel();
	return 0;
}
