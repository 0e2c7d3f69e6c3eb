# SPDX-License-Identifier: Apache-2.0
"""Writes what arguments.c includes: for each hook of the lists, a function that calls it with valid
arguments but for the pointers that are to be left out, and the table of these functions.

    arguments_calls.py OUTPUT

VALUES says what a parameter is given. A hook whose parameters it does not cover is an error, so
that a new one is covered as well.
"""
import re
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "abi"))

import abi  # noqa: E402

# What a program can leave out: pointers, and the handles and addresses that 0 stands for.
POINTER = re.compile(r".*\*|CU(context|module|function|library|kernel|array|mipmappedArray|event|"
                     r"stream|externalMemory|graph|graphNode|graphExec|memoryPool|greenCtx|"
                     r"devResourceDesc|hostFn|streamCallback|deviceptr(_v1)?|"
                     r"memGenericAllocationHandle)|nvmlDevice_t")
# These end what their first argument names, so that nothing is left to be freed behind the case.
ENDS_IT = re.compile(r"cu\w*(Destroy|Free|Unload|Detach|MemRelease|IpcClose)\w*")
# These end the context that every case needs: the next case begins in a process of its own.
ENDS_ALL = re.compile(r"cuDevicePrimaryCtxRe(lease|set)\w*")
# Whoever uses NVLink multicast can put the GPUs of a host out of service for all who share it.
SIMULATED_ONLY = re.compile(r"cuMulticast\w*")

OUT = 'out("{name}", {form}, sizeof({pointee}), {undo})'


def out(form, undo="NULL"):
    return OUT.replace("{form}", form).replace("{undo}", undo)


# (hook, type, name, expression): regular expressions of which all three match as a whole; the first
# such row counts. {name} and {pointee} are replaced.
VALUES = (
    # Numbers.
    ("cuCtxSetLimit", "size_t", "value", "1024"),
    ("cuMemAllocPitch.*", ".*", "WidthInBytes", "65536 - 100"),
    ("cuMemAllocPitch.*", ".*", "Height", "SIZE / 65536"),
    ("cuMemAllocManaged", ".*", "flags", "CU_MEM_ATTACH_GLOBAL"),
    ("cuGreenCtxCreate", "unsigned int", "flags", "1"),
    ("cuIpcOpenMemHandle.*", "unsigned int", "Flags", "CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS"),
    ("cuPointerGetAttributes", ".*", "numAttributes", "2"),
    ("cuPointerGetAttribute", ".*", "attribute", "CU_POINTER_ATTRIBUTE_RANGE_SIZE"),
    ("cuPointerSetAttribute", ".*", "attribute", "CU_POINTER_ATTRIBUTE_SYNC_MEMOPS"),
    ("cuDeviceGetAttribute", ".*", "attrib", "CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT"),
    ("cuMemPoolSetAttribute", ".*", "attr", "CU_MEMPOOL_ATTR_RELEASE_THRESHOLD"),
    ("cuMemPoolGetAttribute", ".*", "attr", "CU_MEMPOOL_ATTR_USED_MEM_CURRENT"),
    ("cu.*", "unsigned int|size_t", "bytesize|size", "SIZE"),
    ("cu.*", "unsigned int|size_t", "ByteCount", "BYTES_COPIED"),
    ("cu.*", "unsigned int", "ElementSizeBytes", "4"),
    ("cuGetProcAddress.*", "int", "cudaVersion", "12000"),
    ("cuCtxCreate_v3", "int", "numParams", "0"),  # others only under MPS
    ("cu.*", "size_t", "bufferSize", "64"),
    ("cu.*", "size_t", "dstPitch", "64"),
    ("cu.*", "size_t", "Width|Height|N", "4"),
    ("cu.*", "int|unsigned int|size_t", "(grid|block|num|grid_).*|count", "1"),
    ("cu.*", "unsigned (char|short|int)", "u[cis]", "1"),
    ("cu.*", ".*int.*|unsigned long long|size_t",
     "[fF]lags|.*Offset|offset|sharedMemBytes|value|minBytesToKeep", "0"),
    ("nvml.*", "unsigned long long", "lastSeenTimeStamp", "0"),
    ("nvml.*", "unsigned int", "pid", "(unsigned int)getpid()"),
    ("nvml.*", "nvmlSamplingType_t", "type", "0"),
    ("cu.*", "CUdevice", "dev|device", "0"),
    ("cu.*", "CUlimit", ".*", "CU_LIMIT_STACK_SIZE"),
    ("cu.*", "CUmemAllocationHandleType", ".*", "CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR"),
    ("cu.*", "CUmemRangeHandleType", ".*", "CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD"),
    ("cu.*", "CUmemAllocationType", ".*", "CU_MEM_ALLOCATION_TYPE_PINNED"),
    ("cu.*", "CUstreamCaptureMode", ".*", "CU_STREAM_CAPTURE_MODE_RELAXED"),

    # Handles and addresses.
    ("cu(CtxDestroy|CtxDetach|CtxEnable|CtxDisable).*", "CUcontext", ".*", "make_context()"),
    ("cu.*", "CUcontext", ".*", "primary"),
    ("cu.*", "CUgreenCtx", ".*", "make_green_context()"),
    ("cu.*", "CUdevResourceDesc", ".*", "make_green_description()"),
    ("cuLaunch(Grid.*)?", "CUfunction", ".*", "make_shaped_function()"),
    ("cu.*", "CUfunction", ".*", "make_function()"),
    ("cu.*", "CUmodule", ".*", "make_module()"),
    ("cu.*", "CUlibrary", ".*", "make_library()"),
    ("cu.*", "CUkernel", ".*", "make_kernel()"),
    ("cu.*", "CUarray", ".*", "make_array()"),
    ("cu.*", "CUmipmappedArray", ".*", "make_mipmapped()"),
    ("cu.*", "CUevent", ".*", "make_event()"),
    ("cuStreamEndCapture.*", "CUstream", ".*", "make_capturing_stream()"),
    ("cu.*", "CUstream", ".*", "make_stream()"),
    ("cu.*", "CUexternalMemory", ".*", "make_external()"),
    ("cu.*", "CUgraph", ".*", "make_graph()"),
    ("cuGraph.*Memcpy.*", "CUgraphNode", ".*", "make_copy_node()"),
    ("cu.*", "CUgraphNode", ".*", "make_set_node()"),
    ("cu.*", "CUgraphExec", ".*", "make_graph_exec()"),
    ("cuMemPoolImportPointer", "CUmemoryPool", ".*", "make_imported_pool()"),
    ("cu.*", "CUmemoryPool", ".*", "make_pool()"),
    ("cu.*", "CUmemGenericAllocationHandle", "mcHandle", "make_multicast()"),
    ("cu.*", "CUmemGenericAllocationHandle", ".*", "make_handle()"),
    ("cu.*", "CUipcMemHandle", ".*", "exported"),
    ("cuMemFreeAsync.*", "CUdeviceptr", ".*", "make_async_memory()"),
    ("cuMemPoolExportPointer", "CUdeviceptr", ".*", "make_pool_memory()"),
    ("cuMem(Map|AddressFree)", "CUdeviceptr", ".*", "make_reserved()"),
    ("cuMem(Unmap|SetAccess|GetAccess)|cuMulticast.*", "CUdeviceptr", ".*", "make_mapped()"),
    ("cuIpcCloseMemHandle", "CUdeviceptr", ".*", "make_imported_memory()"),
    ("cu.*", "CUdeviceptr(_v1)?", ".*", "({type})make_memory()"),
    ("cu.*", "CUhostFn", ".*", "on_host"),
    ("cu.*", "CUstreamCallback", ".*", "on_callback"),
    ("nvml.*", "nvmlDevice_t", ".*", "make_nvml_device()"),

    # What the driver reads.
    ("cu.*", r"const char \*", "symbol", '"cuMemGetInfo"'),
    ("cu.*", r"const char \*", "name", "KERNEL"),
    ("cu.*", r"const char \*", "fileName|fname", "make_module_file()"),
    ("cu.*", r"const void \*", "image|code|fatCubin", "module_text"),
    ("cu.*", r"CUjit_option \*", ".*", "(CUjit_option[]){{CU_JIT_MAX_REGISTERS}}"),
    ("cu.*", r"CUlibraryOption \*", ".*", "(CUlibraryOption[]){{CU_LIBRARY_BINARY_IS_PRESERVED}}"),
    ("cu.*", r"void \*\*", "optionValues|jitOptionsValues", "(void *[]){{(void *)32}}"),
    ("cu.*", r"void \*\*", "libraryOptionValues", "(void *[]){{(void *)1}}"),
    ("cu.*", r"CUexecAffinityParam \*", ".*", "&(CUexecAffinityParam){{.param.smCount.val = 8}}"),
    ("cu.*", r"CUctxCreateParams \*", ".*", "&(CUctxCreateParams){{0}}"),
    ("cu.*", r"const CUmemPoolProps \*", ".*", "&pool_props"),
    ("cu.*", r"const CUmemAllocationProp \*", ".*", "&memory_props"),
    ("cu.*", r"const CUmemAccessDesc \*", ".*", "&device_access"),
    ("cu.*", r"(const )?CUmemLocation \*", ".*", "(CUmemLocation *)&device_access.location"),
    ("cu.*", r"const CUmulticastObjectProp \*", ".*", "&multicast_props"),
    ("cuMemPoolSetAttribute", r"void \*", "value", "&(cuuint64_t){{0}}"),
    ("cuPointerSetAttribute", r"const void \*", "value", "&(unsigned int){{1}}"),
    ("cuMemPoolImportFromShareableHandle", r"void \*", "handle",
     "as_pointer(make_pool_descriptor())"),
    ("cu.*", r"CUmemPoolPtrExportData \*", "shareData", "make_pool_export()"),
    ("cu.*", r"void \*", "osHandle", "as_pointer(make_memory_descriptor())"),
    ("cu.*", r"void \*", "addr", "(void *)(uintptr_t)make_mapped()"),
    ("cu.*", r"CUarrayMapInfo \*", ".*", "make_map_info()"),
    ("cu.*", r"const CUDA_ARRAY3D_DESCRIPTOR_v1 \*", ".*",
     "&(CUDA_ARRAY3D_DESCRIPTOR_v1){{ARRAY_SHAPE}}"),
    ("cu.*", r"const CUDA_ARRAY3D_DESCRIPTOR \*", ".*",
     "&(CUDA_ARRAY3D_DESCRIPTOR){{ARRAY_SHAPE}}"),
    ("cu.*", r"const CUDA_ARRAY_DESCRIPTOR_v1 \*", ".*",
     "&(CUDA_ARRAY_DESCRIPTOR_v1){{ARRAY_SHAPE}}"),
    ("cu.*", r"const CUDA_ARRAY_DESCRIPTOR \*", ".*", "&(CUDA_ARRAY_DESCRIPTOR){{ARRAY_SHAPE}}"),
    ("cu.*", r"const CUexternalSemaphore \*", ".*", "(CUexternalSemaphore[]){{NULL}}"),
    ("cu.*", r"const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS \*", ".*",
     "&(CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS){{0}}"),
    ("cu.*", r"const CUDA_EXTERNAL_MEMORY_BUFFER_DESC \*", ".*",
     "&(CUDA_EXTERNAL_MEMORY_BUFFER_DESC){{.size = SIZE}}"),
    ("cu.*", r"const CUDA_EXTERNAL_MEMORY_HANDLE_DESC \*", ".*", "make_external_description()"),
    ("cu.*", r"const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC \*", ".*",
     "&(CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC){{.arrayDesc = {{ARRAY_SHAPE}}, "
     ".numLevels = 1}}"),
    ("cu.*", r"CUDA_LAUNCH_PARAMS \*", ".*", "make_launch_params()"),
    ("cu.*", r"const CUlaunchConfig \*", ".*", "make_launch_config()"),
    ("cu.*", r"void \*\*", "kernelParams", "kernel_params"),
    # A launch with both is refused.
    ("cu.*", r"void \*\*", "extra", "kernelParams ? NULL : kernel_extra"),
    ("cu.*", r"const CUgraphNode \*", "dependencies", "(CUgraphNode[]){{make_set_node()}}"),
    ("cu.*", r"const CUgraphEdgeData \*", ".*", "&(CUgraphEdgeData){{0}}"),
    ("cu.*", r"const CUDA_MEMCPY2D \*", ".*", "make_copy_2d()"),
    ("cu.*", r"const CUDA_MEMCPY3D \*", ".*", "make_copy_3d()"),
    ("cu.*", r"const CUDA_MEMCPY3D_PEER \*", ".*", "make_copy_3d_peer()"),
    ("cu.*", r"CUDA_MEMCPY3D_BATCH_OP \*", ".*", "make_batch_copy()"),
    ("cu.*", r"const CUDA_MEMSET_NODE_PARAMS \*", ".*", "make_set_params()"),
    ("cu.*", r"CUstreamBatchMemOpParams \*", ".*", "make_memory_operation()"),
    ("cuMemcpyBatch.*", r"CUdeviceptr \*", "dsts|srcs", "(CUdeviceptr[]){{make_memory()}}"),
    ("cuMemcpyBatch.*", r"size_t \*", "sizes", "(size_t[]){{BYTES_COPIED}}"),
    ("cuMemcpyBatch.*", r"size_t \*", "attrsIdxs", "(size_t[]){{0}}"),
    ("cu.*", r"CUmemcpyAttributes \*", ".*",
     "&(CUmemcpyAttributes){{.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM}}"),
    ("cuPointerGetAttributes", r"CUpointer_attribute \*", ".*",
     "(CUpointer_attribute[]){{CU_POINTER_ATTRIBUTE_MEMORY_TYPE, "
     "CU_POINTER_ATTRIBUTE_RANGE_SIZE}}"),
    ("cu.*", r"struct CUmemDecompressParams_st \*", ".*", "(void *)zeros"),
    ("cu.*", r"const struct CUDA_RESOURCE_DESC_st \*", ".*", "make_texture_resource()"),
    ("cu.*", r"const struct CUDA_TEXTURE_DESC_st \*", ".*", "(void *)zeros"),
    ("cu.*", r"const struct CUDA_RESOURCE_VIEW_DESC_st \*", ".*", "make_texture_view()"),
    ("cuMemcpyHto.*", r"const void \*", "srcHost", "host_bytes"),

    # What the driver reads and writes.
    ("cu.*", r"CUDA_GRAPH_INSTANTIATE_PARAMS \*", ".*",
     'inout("{name}", BYTES, &(CUDA_GRAPH_INSTANTIATE_PARAMS){{0}}, '
     "sizeof(CUDA_GRAPH_INSTANTIATE_PARAMS))"),
    ("cu.*", r"CUDA_MEM_ALLOC_NODE_PARAMS \*", ".*",
     'inout("{name}", BYTES, &alloc_params, sizeof(alloc_params))'),
    ("cu.*", r"CUgraphNodeParams \*", ".*",
     'inout("{name}", BYTES, make_node_params(), sizeof(CUgraphNodeParams))'),
    ("nvml.*", r"unsigned int \*", ".*[cC]ount",
     'inout("{name}", BYTES, &(unsigned int){{NVML_ENTRIES}}, sizeof(unsigned int))'),
    ("nvml.*", r"nvmlMemory_v2_t \*", ".*",
     'inout("{name}", BYTES, &(nvmlMemory_v2_t){{.version = NVML_VERSION(nvmlMemory_v2_t, 2)}}, '
     "sizeof(nvmlMemory_v2_t))"),
    ("nvml.*", r"nvmlProcessDetailList_t \*", ".*",
     'inout("{name}", BYTES, &(nvmlProcessDetailList_t){{'
     ".version = NVML_VERSION(nvmlProcessDetailList_t, 1), .numProcArrayEntries = NVML_ENTRIES, "
     '.procArray = out("procArray", BYTES, NVML_ENTRIES * sizeof(nvmlProcessDetail_v1_t), '
     "NULL)}}, sizeof(nvmlProcessDetailList_t))"),
    ("nvml.*", r"nvmlProcessesUtilizationInfo_t \*", ".*",
     'inout("{name}", BYTES, &(nvmlProcessesUtilizationInfo_t){{'
     ".version = NVML_VERSION(nvmlProcessesUtilizationInfo_t, 1), "
     ".processSamplesCount = NVML_ENTRIES, "
     '.procUtilArray = out("procUtilArray", BYTES, NVML_ENTRIES * '
     "sizeof(nvmlProcessUtilizationInfo_v1_t), NULL)}}, "
     "sizeof(nvmlProcessesUtilizationInfo_t))"),

    # What the driver writes.
    ("cu(DeviceTotalMem|MemGetInfo).*", r"(unsigned int|size_t) \*", ".*", out("HANDLE")),
    ("cuGetProcAddress.*", r"void \*\*", "pfn", out("HANDLE")),
    ("cuDeviceGetAttribute", r"int \*", "pi", 'out("pi", VALUE, sizeof(int), NULL)'),
    ("cuPointerGetAttributes", r"void \*\*", "data", "make_attribute_data()"),
    ("cuLaunchHostFunc.*|cuStreamAddCallback.*", r"void \*", "userData",
     'out("{name}", VALUE, sizeof(unsigned int), NULL)'),
    ("cuPointerGetAttribute|cuMemPoolGetAttribute", r"void \*", "data|value",
     'out("{name}", VALUE, sizeof(uint64_t), NULL)'),
    ("cuMem.*", r"void \*", "handle|handle_out|shareableHandle",
     'out("{name}", HANDLE, sizeof(int), undo_descriptor)'),
    ("cuMemcpy.*", r"void \*", "dstHost", 'out("{name}", BYTES, BYTES_COPIED, NULL)'),
    ("cuGraphInstantiate.*", r"char \*", "logBuffer", 'out("{name}", BYTES, 64, NULL)'),
    ("cuCtxAttach", r"CUcontext \*", ".*", out("HANDLE", "undo_attach")),
    ("cuDevicePrimaryCtxRetain", r"CUcontext \*", ".*", out("HANDLE", "undo_retain")),
    ("cu.*", r"CUcontext \*", ".*", out("HANDLE", "undo_context")),
    ("cu.*", r"CUgreenCtx \*", ".*", out("HANDLE", "undo_green_context")),
    ("cuMemGetAddressRange.*", r"CUdeviceptr \*", ".*", out("HANDLE")),
    ("cuIpc.*", r"CUdeviceptr \*", ".*", out("HANDLE", "undo_imported_memory")),
    ("cu.*", r"CUdeviceptr(_v1)? \*", ".*", out("HANDLE", "undo_memory")),
    ("cu.*", r"CUmodule \*", ".*", out("HANDLE", "undo_module")),
    ("cu.*", r"CUlibrary \*", ".*", out("HANDLE", "undo_library")),
    ("cu.*", r"CUarray \*", ".*", out("HANDLE", "undo_array")),
    ("cu.*", r"CUmipmappedArray \*", ".*", out("HANDLE", "undo_mipmapped")),
    ("cu.*", r"CUmemoryPool \*", ".*", out("HANDLE", "undo_pool")),
    ("cu.*", r"CUmemGenericAllocationHandle \*", ".*", out("HANDLE", "undo_handle")),
    ("cu.*", r"CUexternalMemory \*", ".*", out("HANDLE", "undo_external")),
    ("cu.*", r"CUgraphExec \*", ".*", out("HANDLE", "undo_graph_exec")),
    ("cu.*", r"CUgraph \*", ".*", out("HANDLE", "undo_graph")),
    ("cuTexObjectCreate", r"unsigned long long \*", ".*", out("HANDLE", "undo_texture")),
    ("cu.*", r"CU(function|graphNode) \*", ".*", out("HANDLE")),
    ("cu.*", r"CU(ipcMemHandle|memPoolPtrExportData|memAllocationProp|"
             r"graphExecUpdateResultInfo) \*", ".*", out("BYTES")),
    ("cu.*", r"(size_t|unsigned int|unsigned long long|CUdriverProcAddressQueryResult|"
             r"CUgraphExecUpdateResult) \*", ".*", out("VALUE")),
    ("nvml.*", r".*\*", ".*", 'out("{name}", BYTES, NVML_ENTRIES * sizeof({pointee}), NULL)'),
)
RULES = [(*(re.compile(pattern) for pattern in row[:3]), row[3]) for row in VALUES]


def parameters(text):
    """[(type, name)] of a parameter list."""
    found = []
    for part in " ".join(text.strip("()").split()).split(","):
        if part.strip() != "void":
            kind, name = re.fullmatch(r"\s*(.*?)(\w+)", part).groups()
            found.append((kind.strip(), name))
    return found


def value(hook, kind, name):
    for for_hook, for_kind, for_name, expression in RULES:
        if for_hook.fullmatch(hook) and for_kind.fullmatch(kind) and for_name.fullmatch(name):
            return expression.format(name=name, type=kind, pointee=kind.removesuffix("*").strip())
    sys.exit(f"arguments_calls.py: {hook}: VALUES has nothing for {kind} {name}")


def call(api, hook, params):
    """The function that calls a hook, and the table's row for it."""
    pointers = [name for kind, name in params if POINTER.fullmatch(kind)]
    lines = [f"static int call_{hook}(unsigned int left_out)", "{"]
    for kind, name in params:
        given = value(hook, kind, name)
        if name in pointers:
            given = f"left_out & {1 << pointers.index(name)} ? 0 : {given}"
        lines.append(f"\t{kind} {name} = {given};")
    names = ", ".join(name for _, name in params)
    lines += ["\tint r;", "", "\tready();", f"\tr = {api}.{hook}({names});"]
    if ENDS_IT.fullmatch(hook) and params[0][1] in pointers:
        lines += ["\tif (!r)", f"\t\tforget((uint64_t)(uintptr_t){params[0][1]});"]
    lines += ["\treturn r;", "}", ""]
    flags = "".join(f", .{flag} = true" for flag, which in
                    (("ends_all", ENDS_ALL), ("simulated_only", SIMULATED_ONLY))
                    if which.fullmatch(hook))
    texts = ", ".join(f'"{name}"' for name in pointers)
    row = f'\t{{"{hook}", call_{hook}, {len(pointers)}, {{{texts or "NULL"}}}{flags}}},'
    return "\n".join(lines), row


def main():
    calls, table = [], []
    for api, variable in ((abi.CUDA, "cu"), (abi.NVML, "nvml")):
        for form, hook, params in abi.rows(api):
            if form == "HOOK":
                text, row = call(variable, hook, parameters(params))
                calls.append(text)
                table.append(row)
    Path(sys.argv[1]).write_text(
        "\n".join(["/* Written by arguments_calls.py. */", *calls,
                   "static const struct row rows[] = {", *table, "};", ""]), encoding="utf-8")


main()
