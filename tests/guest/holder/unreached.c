/* SPDX-License-Identifier: Apache-2.0 */
/* A buffer that the CPU does not reach, beside one that it does: content by the engine that copies. */
#include <string.h>
#include <unistd.h>

#include "criu/gpu/engine.h"
#include "holder.h"

#define NO_CPU_ACCESS 2

static uint32_t words[BYTES / 4];

/* The engine is left open. */
void copy_by_engine(struct engine *engine, int dmabuf, void *memory, bool out)
{
	int r = engine_open(engine, 128);

	if (r == 0)
		r = engine_have(engine, dmabuf);
	if (r == 0 && out)
		memcpy(engine_staging(engine, 0), memory, BYTES);
	if (r == 0)
		r = engine_submit(engine, 0, 0, BYTES, out);
	if (r == 0)
		r = engine_await(engine, 0);
	if (r < 0)
		wrong("the engine does not copy: %s", strerror(-r));
	if (!out)
		memcpy(memory, engine_staging(engine, 0), BYTES);
}

static void copy(int fd, uint32_t handle, bool out)
{
	struct engine engine;
	int dmabuf = export(fd, handle);

	copy_by_engine(&engine, dmabuf, words, out);
	engine_close(&engine);
	close(dmabuf);
}

void unreached(void)
{
	static const uint32_t handles[] = {1, 2, 0};
	int fd = node(0);
	uint32_t hidden = create_as(fd, 4096, AMDGPU_GEM_DOMAIN_VRAM, NO_CPU_ACCESS);
	void *at = map(fd, create(fd));
	union drm_amdgpu_gem_mmap args = {.in = {.handle = hidden}};

	fill(at, 0x2002);
	fill(words, 0x1001);
	words[1] = 1;
	copy(fd, hidden, true);
	memset(words, 0, sizeof(words));
	rest();
	check_handles("unreached", fd, handles);
	check_filled("reached", at, 0, 0x2002);
	if (CALL(fd, DRM_NR_AMDGPU_GEM_MMAP, &args) >= 0)
		wrong("the CPU reaches the buffer now");
	copy(fd, hidden, false);
	if (words[1] != 1)
		wrong("not reached: word 1 is %#x", words[1]);
	check_filled("not reached", words, 2, 0x1001);
}
