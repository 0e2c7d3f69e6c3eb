/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forks children that use the GPU while another thread loads and unloads a library. Says how many
 * of them did not come to their end. LINKED: built against the driver, which the parent then does
 * not call, nor look up a function of.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nvidia/cuda_api.h"
#include "sim/cuda/api.h"
#include "tests/check.h"

#define CHILDREN   40
#define PATIENCE_S 60

static struct cuda_driver cu;
static _Atomic bool over;

static void *load_and_unload(void *arg)
{
	while (!atomic_load(&over)) {
		void *library = dlopen("libresolv.so.2", RTLD_NOW);

		if (library)
			dlclose(library);
	}
	return NULL;
}

static int child(void)
{
	CUcontext context;
	CUdeviceptr block;

	alarm(PATIENCE_S);
	return cu.cuInit(0) || cu.cuDevicePrimaryCtxRetain(&context, 0) ||
	       cu.cuCtxSetCurrent(context) || cu.cuMemAlloc_v2(&block, 1 << 20);
}

static void bind(void)
{
#ifdef LINKED
#define CUDA_HOOK(name, kind, params, args) cu.name = name;
#else
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);

	CHECK(driver);
#define CUDA_HOOK(name, kind, params, args) *(void **)&cu.name = dlsym(driver, #name);
#endif
#define CUDA_CALL(name, kind, params, args) CUDA_HOOK(name, kind, params, args)
#include "nvidia/cuda_api.def"
}

int main(void)
{
	int hung = 0, status;
	pthread_t thread;

	bind();
	CHECK_EQ(pthread_create(&thread, NULL, load_and_unload, NULL), 0);
	for (int i = 0; i < CHILDREN && hung < 2; i++) {
		pid_t pid = fork();

		CHECK(pid >= 0);
		if (!pid)
			_exit(child());
		CHECK_EQ(waitpid(pid, &status, 0), pid);
		CHECK(status == 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM));
		hung += status != 0;
	}
	atomic_store(&over, true);
	pthread_join(thread, NULL);
	printf("%d\n", hung);
	return 0;
}
