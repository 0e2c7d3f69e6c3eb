/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For a file whose hooks follow from the list: rows of every kind are nothing. It defines the row
 * of its own kind again, and then includes the list.
 */
#define CUDA_HOOK(name, kind, params, args) ROW_##kind(name, params, args)
#define ROW_ALLOC(name, params, args)
#define ROW_ARRAY(name, params, args)
#define ROW_CAPTURE(name, params, args)
#define ROW_CONTEXT(name, params, args)
#define ROW_COPY(name, params, args)
#define ROW_EXTERNAL(name, params, args)
#define ROW_FREE(name, params, args)
#define ROW_GRAPH(name, params, args)
#define ROW_INIT(name, params, args)
#define ROW_IPC(name, params, args)
#define ROW_LAUNCH(name, params, args)
#define ROW_LOOKUP(name, params, args)
#define ROW_MODULE(name, params, args)
#define ROW_NAMES(name, params, args)
#define ROW_POINTER(name, params, args)
#define ROW_POOL(name, params, args)
#define ROW_QUERY(name, params, args)
#define ROW_SETTLE(name, params, args)
#define ROW_SPLIT(name, params, args)
#define ROW_STREAM_END(name, params, args)
#define ROW_VMM(name, params, args)
#define ROW_WAIT(name, params, args)
#define ROW_WAIT_VALUE(name, params, args)
