# SPDX-License-Identifier: Apache-2.0
"""A program that takes memory of AMD GPUs as ROCm's library does, for tests of the command.

Of each line on stdin, "GPU BYTES" with the GPU's place among those that it sees, it says "ok" or
the name of the error; it ends with its input.
"""

import errno
import fcntl
import mmap
import os
import struct
import sys

NODES = "/sys/devices/virtual/kfd/kfd/topology/nodes"
ACQUIRE_VM, ALLOC_MEMORY = 0x40084b15, 0xc0284b16
VRAM, WRITABLE = 1 << 0, 1 << 31


def gpus():
    """[(the kernel's number, render node)], without those that are hidden."""
    found = []
    for node in sorted(os.listdir(NODES), key=int):
        try:
            with open(f"{NODES}/{node}/gpu_id", encoding="ascii") as file:
                number = int(file.read())
        except PermissionError:
            continue
        with open(f"{NODES}/{node}/properties", encoding="ascii") as file:
            properties = dict(line.split() for line in file)
        if number:
            found.append((number, f"/dev/dri/renderD{properties['drm_render_minor']}"))
    return found


def main():
    kfd = os.open("/dev/kfd", os.O_RDWR)
    devices = gpus()
    held = []  # addresses and files, to the end
    for number, node in devices:
        held.append(os.open(node, os.O_RDWR))
        fcntl.ioctl(kfd, ACQUIRE_VM, struct.pack("=II", held[-1], number))
    address = 1 << 40
    print(len(devices), flush=True)
    for line in sys.stdin:
        gpu, size = map(int, line.split())
        block = bytearray(struct.pack("=QQQQII", address, size, 0, 0, devices[gpu][0],
                                      VRAM | WRITABLE))
        try:
            fcntl.ioctl(kfd, ALLOC_MEMORY, block)
            print("ok", flush=True)
        except OSError as e:
            print(errno.errorcode[e.errno], flush=True)
        address += size + mmap.PAGESIZE


main()
