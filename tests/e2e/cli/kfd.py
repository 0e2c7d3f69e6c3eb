# SPDX-License-Identifier: Apache-2.0
"""A program that asks AMD's kernel driver as ROCm's library does, for tests of the command.

It says how many GPUs it sees, and of each line on stdin "ok" or the name of the error: "GPU BYTES"
takes memory of a GPU, by its place, and "GPU queue" makes a queue there. It ends with its input.
"""

import ctypes
import errno
import fcntl
import mmap
import os
import struct
import sys

NODES = "/sys/devices/virtual/kfd/kfd/topology/nodes"
ACQUIRE_VM, ALLOC_MEMORY, MAP_MEMORY, CREATE_QUEUE = 0x40084b15, 0xc0284b16, 0xc0184b18, 0xc0584b02
AQL = 2
VRAM, USERPTR, WRITABLE = 1 << 0, 1 << 2, 1 << 31


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


def give_page(kfd, number, at):
    """A page of the program's becomes an object that the GPU has at the same address."""
    alloc = bytearray(struct.pack("=QQQQII", at, mmap.PAGESIZE, 0, at, number, USERPTR | WRITABLE))
    fcntl.ioctl(kfd, ALLOC_MEMORY, alloc)
    numbers = (ctypes.c_uint32 * 1)(number)
    fcntl.ioctl(kfd, MAP_MEMORY, bytearray(struct.pack(
        "=8sQII", bytes(alloc[16:24]), ctypes.addressof(numbers), 1, 0)))


def make_queue(kfd, number):
    """What it answers is the queue's memory, which has to stay."""
    ring = mmap.mmap(-1, 2 * mmap.PAGESIZE)
    at = ctypes.addressof(ctypes.c_char.from_buffer(ring))
    give_page(kfd, number, at)
    give_page(kfd, number, at + mmap.PAGESIZE)
    fcntl.ioctl(kfd, CREATE_QUEUE, bytearray(struct.pack(
        "=QQQQIIIIIIQQQII", at, at + mmap.PAGESIZE, at + mmap.PAGESIZE + 8, 0, mmap.PAGESIZE,
        number, AQL, 100, 7, 0, 0, 0, 0, 0, 0)))
    return ring


def main():
    kfd = os.open("/dev/kfd", os.O_RDWR)
    devices = gpus()
    held = []  # to the end
    for number, node in devices:
        held.append(os.open(node, os.O_RDWR))
        fcntl.ioctl(kfd, ACQUIRE_VM, struct.pack("=II", held[-1], number))
    address = 1 << 40
    print(len(devices), flush=True)
    for line in sys.stdin:
        gpu, what = line.split()
        number = devices[int(gpu)][0]
        try:
            if what == "queue":
                held.append(make_queue(kfd, number))
            else:
                fcntl.ioctl(kfd, ALLOC_MEMORY, bytearray(struct.pack(
                    "=QQQQII", address, int(what), 0, 0, number, VRAM | WRITABLE)))
                address += int(what) + mmap.PAGESIZE
            print("ok", flush=True)
        except OSError as e:
            print(errno.errorcode[e.errno], flush=True)


main()
