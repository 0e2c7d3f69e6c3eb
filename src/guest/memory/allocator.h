/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The makers of a tenant's memory: the driver's own allocations, or pieces that can leave the
 * device (movable/). One of the two tables is chosen as the process claims its slot, before any
 * allocation, and never changes. Hooks go through it and do not ask which one it is.
 */
#ifndef ALLOT_GUEST_MEMORY_ALLOCATOR_H
#define ALLOT_GUEST_MEMORY_ALLOCATOR_H

#include "guest/core/guest.h"
#include "guest/core/object.h"

typedef CUresult free_async_fn(CUdeviceptr at, CUstream stream);
typedef CUresult map_array_fn(CUarrayMapInfo *list, unsigned int count, CUstream stream);

struct pool_request;

struct allocator {
	/* As cuMemAlloc, in the current context, whose device is `device`. */
	CUresult (*alloc)(struct guest *guest, struct guest_device *device, uint64_t bytes,
			  CUdeviceptr *ret);
	/* As cuMemAllocPitch. */
	CUresult (*alloc_pitched)(struct guest *guest, struct guest_device *device,
				  CUdeviceptr *ret, size_t *ret_pitch, size_t width, size_t height,
				  unsigned int element);
	/* As cuMemFree, of any address. */
	CUresult (*free)(struct guest *guest, CUdeviceptr at);
	/*
	 * As cuMemFreeAsync. `stream` is as the program gave it, `order` the stream that it means;
	 * `real` is the driver's call.
	 */
	CUresult (*free_in_stream)(struct guest *guest, CUdeviceptr at, CUstream stream,
				   CUstream order, free_async_fn *real);

	/* As cuMemAllocAsync and its like, in a stream that does not capture. */
	CUresult (*alloc_from_pool)(struct guest *guest, struct pool_request *request);
	/* After the driver has made a pool, and before it ends one. */
	CUresult (*pool_made)(struct guest *guest, CUmemoryPool handle,
			      const CUmemPoolProps *props);
	void (*pool_ends)(struct guest *guest, CUmemoryPool handle);
	/* Behind the driver's own answer. */
	void (*pool_trim)(struct guest *guest, CUmemoryPool handle, uint64_t keep);
	void (*pool_set)(struct guest *guest, CUmemoryPool handle, CUmemPool_attribute which,
			 const void *value);
	void (*pool_figure)(struct guest *guest, CUmemoryPool handle, CUmemPool_attribute which,
			    void *value);
	void (*pool_set_access)(struct guest *guest, CUmemoryPool handle,
				const CUmemAccessDesc *desc, size_t count);

	/* The device in whose reservation (movable/backing.h) the address is; NULL: in none. */
	struct guest_device *(*holds)(struct guest *guest, CUdeviceptr at);

	/* The allocation at such an address: its object, which may be in no table. */
	bool (*find)(struct guest *guest, CUdeviceptr at, struct object *ret);
	/* The program sets an attribute of it: its piece is never spare. */
	void (*mark)(struct guest *guest, CUdeviceptr at);

	/* As cuIpcGetMemHandle and cuIpcCloseMemHandle, of such an address. */
	CUresult (*ipc_name)(struct guest *guest, CUdeviceptr at, CUipcMemHandle *ret);
	CUresult (*ipc_close)(struct guest *guest, CUdeviceptr at);
	/* As cuIpcOpenMemHandle. False: the handle is the driver's. */
	bool (*ipc_open)(struct guest *guest, const CUipcMemHandle *handle, CUdeviceptr *ret,
			 CUresult *ret_e);

	/*
	 * A handle of physical memory (cuMemCreate), whose object is about to be recorded: sets the
	 * program's handle as its key, and OBJECT_BACKED, where the driver's may change.
	 */
	CUresult (*adopt)(struct guest *guest, struct guest_device *device,
			  const CUmemAllocationProp *prop, struct object *handle);
	/* Ends such a handle, of OBJECT_BACKED; `name` is the program's. */
	void (*abandon)(struct guest *guest, uint64_t name, const struct object *handle);
	/* The driver's handle for one of the program's; 0: it has ended. */
	CUmemGenericAllocationHandle (*real_handle)(struct guest *guest,
						    CUmemGenericAllocationHandle handle);
	/* The handle that is mapped at an address, if it is not the driver's; else 0. */
	uint64_t (*mapped_handle)(struct guest *guest, CUdeviceptr at);
	/* As cuMemExportToShareableHandle, of a handle that is not the driver's. */
	CUresult (*export_handle)(struct guest *guest, CUmemGenericAllocationHandle handle,
				  int *ret_fd);
	/* As cuMemImportFromShareableHandle. False: the descriptor is the driver's. */
	bool (*import_handle)(struct guest *guest, int fd, CUmemGenericAllocationHandle *ret,
			      CUresult *ret_e);
	/* As cuMemMapArrayAsync. */
	CUresult (*map_tiles)(struct guest *guest, CUarrayMapInfo *list, unsigned int count,
			      CUstream stream, map_array_fn *real);

	/*
	 * Ends the spare pieces of the device (movable/backing.h), with their charge: before
	 * anything is refused, and when the program asks what is free. Disturbs no capture. The
	 * caller has a pass, or moves memory.
	 */
	void (*end_spare)(struct guest *guest, struct guest_device *device);
	/* The same without a pass: where the gate is shut nothing is spare. */
	void (*show_spare)(struct guest *guest, struct guest_device *device);

	/*
	 * Around a wait of the program's: before it, which frees it may cover; behind it, that the
	 * stream, or the context (NULL: the current one), has come so far.
	 */
	uint64_t (*frees)(struct guest *guest);
	void (*waited)(struct guest *guest, CUstream stream, uint64_t frees);
	void (*waited_context)(struct guest *guest, CUcontext context, uint64_t frees);
	/* Gives back what pools have beyond their thresholds. */
	void (*settle)(struct guest *guest);
	/* A stream is about to end; a context has ended. */
	void (*stream_ends)(struct guest *guest, CUstream stream);
	void (*context_ended)(struct guest *guest, CUcontext context);

	const struct holder *const *holders; /* for account/holder.h; NULL behind the last */

	/* As memory_freed, of OBJECT_BACKED. */
	void (*release)(struct guest *guest, struct guest_device *device,
			const struct object *object);
};

extern const struct allocator allocator_driver;

#endif
