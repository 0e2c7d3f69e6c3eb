# SPDX-License-Identifier: Apache-2.0
"""Each way in to the driver ends at the same hooks: a program that uses it sees the quota as the
device's memory and is refused there."""
import glob
import os
import shutil
import sys

from harness import GRANULE, HERE, SLACK, Trouble, library_path, mib, run, size

PROGRAMS = HERE / "programs"
QUOTA = "2GiB"
REFUSED = 2  # CUDA_ERROR_OUT_OF_MEMORY, and the runtime's number for it


def compiled(bench, name, command):
    """Builds here and now what needs the vendor's tools; answers the program or None."""
    out = bench.tmp / name.replace(" ", "-")
    status, _, err = run([*command, "-o", out], 120)
    if status:
        raise Trouble(f"does not build: {err[-300:]}")
    return out


def nvcc():
    places = (shutil.which("nvcc"), "/usr/local/cuda/bin/nvcc")
    return next((p for p in places if p and os.path.exists(p)), None)


def linked(bench):
    driver = library_path("libcuda.so.1")
    return [compiled(bench, "way linked", ["gcc", "-DLINKED", f"-I{HERE.parent.parent}/src",
                                           "-Wl,--allow-shlib-undefined", PROGRAMS / "way.c",
                                           driver])]


def runtime(kind):
    def build(bench):
        compiler = nvcc()
        if not compiler:
            raise Trouble("no nvcc here")
        places = glob.glob("/usr/local/cuda*/lib64") + glob.glob("/usr/local/cuda*/targets/*/lib")
        return [compiled(bench, f"way {kind}", [
            compiler, "-cudart", kind, PROGRAMS / "way.cu",
            *(word for p in places for word in ("-L", p, "-Xlinker", f"-rpath={p}"))])]
    return build


WAYS = {
    "linked with libcuda": linked,
    "dlopen and cuGetProcAddress": lambda bench: [bench.program("way")],
    "Python's ctypes": lambda bench: [sys.executable, PROGRAMS / "way.py"],
    "CUDA runtime, shared": runtime("shared"),
    "CUDA runtime, static": runtime("static"),
}


def one(bench, name, command):
    limit = size(QUOTA)
    with bench.start(bench.tenant(), QUOTA, command) as child:
        said = child.hear("full", 60)
        figure = bench.figures.of(child.pid)
        child.end()
    bench.results.figure("ways", name, {"said": said, "figure": figure})
    bench.results.check("ways", name, said["total"] == limit and said["device_total"] == limit
                        and said["refused"] == REFUSED
                        and limit - GRANULE <= figure <= limit + SLACK,
                        f"total {mib(said['total'])}, figure {mib(figure)}", f"{QUOTA}, refused")


def versions(bench):
    """cuGetProcAddress for every name, version and flag, by liballot and bare; in no tenant."""
    status, out, err = run([bench.build / "tests/e2e/lookup/lookup_versions"], 120,
                           env={**os.environ, "LD_PRELOAD": str(bench.library)})
    bench.results.check("versions", "cuGetProcAddress, every name, version and flag", status == 0,
                        out.strip() if status == 0 else f"{status} {(out + err)[-300:]}",
                        "as without us")


def part(bench):
    for name in bench.chosen("ways", WAYS):
        if bench.sim and name.startswith("CUDA runtime"):
            bench.results.skip("ways", name, "the simulated driver has no runtime's private tables")
            continue
        try:
            one(bench, name, WAYS[name](bench))
        except Trouble as trouble:
            if "no nvcc" in str(trouble) or "cannot find -lcudart" in str(trouble):
                bench.results.skip("ways", name, str(trouble))
            else:
                bench.results.check("ways", name, False, str(trouble)[:400], "runs to its end")
