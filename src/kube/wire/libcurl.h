/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcurl, loaded when somebody asks an API server: with what it loads in turn it has more pages than all of
 * allotd, and most machines' allotd asks none.
 */
#ifndef ALLOT_KUBE_WIRE_LIBCURL_H
#define ALLOT_KUBE_WIRE_LIBCURL_H

#define CURL_DISABLE_TYPECHECK /* it would be of functions that are linked */
#include <curl/curl.h>

#define LIBCURL_FUNCTIONS(X)    \
	X(curl_easy_cleanup)        \
	X(curl_easy_getinfo)        \
	X(curl_easy_init)           \
	X(curl_easy_setopt)         \
	X(curl_easy_strerror)       \
	X(curl_global_init)         \
	X(curl_multi_add_handle)    \
	X(curl_multi_assign)        \
	X(curl_multi_cleanup)       \
	X(curl_multi_info_read)     \
	X(curl_multi_init)          \
	X(curl_multi_remove_handle) \
	X(curl_multi_setopt)        \
	X(curl_multi_socket_action) \
	X(curl_slist_append)        \
	X(curl_slist_free_all)

#define LIBCURL_MEMBER(name) __typeof__(name) *name;
struct libcurl {
	LIBCURL_FUNCTIONS(LIBCURL_MEMBER)
};

/* Its functions, and libcurl itself begun; NULL: it is not there, after a line in the log. */
const struct libcurl *libcurl_load(void);

#endif
