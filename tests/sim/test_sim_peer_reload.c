/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plugin that uses peer memory is loaded, unloaded and loaded again, and with it the library:
 * `test_sim_peer_reload LIBRARY`, by `allot sim --amd 2 --memory 64MiB`. The kernel lets a process
 * say once what its address space on a GPU is.
 */
#include <dlfcn.h>

#include "allot/peer.h"
#include "tests/check.h"

static void *find(void *library, const char *name)
{
	void *address = dlsym(library, name);

	CHECK(address);
	return address;
}

int main(int argc, char **argv)
{
	CHECK_EQ(argc, 2);
	for (int i = 0; i < 3; i++) {
		void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
		__typeof__(&allot_peer_close) close_peer;
		__typeof__(&allot_peer_open) open_peer;
		struct allot_peer *peer;

		CHECK(library);
		open_peer = (__typeof__(open_peer))find(library, "allot_peer_open");
		close_peer = (__typeof__(close_peer))find(library, "allot_peer_close");
		CHECK_EQ(open_peer(ALLOT_PEER_AMD, &peer), 0);
		close_peer(peer);
		CHECK_EQ(dlclose(library), 0);
	}
	return 0;
}
