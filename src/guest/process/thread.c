/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/process/thread.h"

#include <pthread.h>
#include <signal.h>

int thread_start(void *(*run)(void *), void *arg)
{
	pthread_attr_t attr;
	sigset_t all, old;
	pthread_t thread;
	int r;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	/* With the usual stack: a small one may not hold the program's thread-local variables. */
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	r = pthread_create(&thread, &attr, run, arg);
	pthread_attr_destroy(&attr);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return -r;
}
