# SPDX-License-Identifier: Apache-2.0
"""What a program may know of the tenant of allot that it runs in.

    import allot_tenant

    with allot_tenant.Tenant() as tenant:
        state = tenant.get()
        for gpu in state.devices:
            print(gpu.uuid, gpu.used_bytes, "of", gpu.limit_bytes)

    allot_tenant.watch(lambda state, change: cache.shrink_to(state.limit_bytes or 1 << 30),
                       notice=True)

This is include/allot/tenant.h by ctypes: the header and allot_tenant(3) describe each figure, with
units and errors. Without a tenant nothing is limited: `state.limited` is False, there are no devices,
and nothing changes. Errors are OSError with the library's errno.
"""
import contextlib
import ctypes
import enum
import errno
import os
import threading
import time

__all__ = ["Change", "Device", "Place", "State", "Tenant", "watch"]

# In front of what is installed: for containers, a wheel may have the library in it.
_BESIDE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "liballot-tenant.so.0")

# A signal that comes just before a sleep is seen within that, in s.
_PART_S = 0.5


class Place(enum.IntEnum):
    """Where the tenant's device memory is."""
    RUNNING = 0
    SUSPENDING = 1
    SUSPENDED = 2
    RESUMING = 3


class Change(enum.IntFlag):
    """What `Tenant.wait` found changed. NONE: the timeout was over first."""
    NONE = 0
    LIMITS = 1
    MOVED = 2
    NOTICE = 4
    CAME = 8


class _State(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("flags", ctypes.c_uint32), ("place", ctypes.c_uint32),
                ("devices", ctypes.c_uint32), ("processes", ctypes.c_uint32),
                ("turns", ctypes.c_uint32), ("notice_ns", ctypes.c_uint64),
                ("wait_p50_us", ctypes.c_uint32), ("wait_p99_us", ctypes.c_uint32),
                ("wait_longest_us", ctypes.c_uint32), ("reserved", ctypes.c_uint32),
                ("name", ctypes.c_char * 64), ("limit_bytes", ctypes.c_uint64),
                ("limit_permille", ctypes.c_uint32), ("reserved2", ctypes.c_uint32)]


class _Device(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("measured", ctypes.c_uint32),
                ("uuid", ctypes.c_uint8 * 16), ("total_bytes", ctypes.c_uint64),
                ("limit_bytes", ctypes.c_uint64), ("used_bytes", ctypes.c_uint64),
                ("peak_bytes", ctypes.c_uint64), ("out_bytes", ctypes.c_uint64),
                ("process_bytes", ctypes.c_uint64), ("refusals", ctypes.c_uint64),
                ("share_permille", ctypes.c_uint32), ("cap_permille", ctypes.c_uint32),
                ("entitled_permille", ctypes.c_uint32), ("had_1s_bp", ctypes.c_uint32),
                ("had_60s_bp", ctypes.c_uint32), ("reserved", ctypes.c_uint32),
                ("busy_ns", ctypes.c_uint64), ("held_ns", ctypes.c_uint64),
                ("launches", ctypes.c_uint64), ("name", ctypes.c_char * 48)]


class Device:
    """One device, as one look found it: bytes, ns, and parts of 1 (share, cap, entitled, had_1s,
    had_60s). `uuid` is its name in text, as `allot ps` shows it: "GPU-...". Figures of time are None
    where they are not measured."""

    def __init__(self, raw):
        self.uuid = raw.name.decode("ascii", "replace")
        for name in ("total_bytes", "limit_bytes", "used_bytes", "peak_bytes", "out_bytes",
                     "process_bytes", "refusals"):
            setattr(self, name, getattr(raw, name))
        self.share = raw.share_permille / 1000
        self.cap = raw.cap_permille / 1000
        self.entitled = raw.entitled_permille / 1000
        known = bool(raw.measured)
        self.had_1s = raw.had_1s_bp / 10000 if known else None
        self.had_60s = raw.had_60s_bp / 10000 if known else None
        self.busy_ns = raw.busy_ns if known else None
        self.held_ns = raw.held_ns if known else None
        self.launches = raw.launches if known else None

    @property
    def free_bytes(self):
        """What is left of the quota; 0 where more is used than a lowered quota allows."""
        return max(0, self.limit_bytes - self.used_bytes)

    def __repr__(self):
        return f"Device({self.uuid}, {self.used_bytes} of {self.limit_bytes} bytes)"


def _place(number):
    """One that this module does not know stays a number."""
    try:
        return Place(number)
    except ValueError:
        return number


class State:
    """The tenant, as one look found it. `limit_bytes` and `limit_part` (a part of 1 of the device's
    memory) are the quota on any device, also before the first use of a GPU; 0: none."""

    def __init__(self, raw, devices):
        self.limited = bool(raw.flags & 1)
        self.swappable = bool(raw.flags & 2)
        self.overcommit = bool(raw.flags & 4)
        self.place = _place(raw.place)
        self.processes = raw.processes
        self.turns = raw.turns
        self.notice_ns = raw.notice_ns
        self.wait_p50_us = raw.wait_p50_us
        self.wait_p99_us = raw.wait_p99_us
        self.wait_longest_us = raw.wait_longest_us
        self.name = raw.name.decode("ascii", "replace")
        self.limit_bytes = raw.limit_bytes
        self.limit_part = raw.limit_permille / 1000
        self.devices = devices

    @property
    def suspended(self):
        """True if calls for the GPU wait."""
        return self.place != Place.RUNNING

    def __repr__(self):
        place = getattr(self.place, "name", self.place)
        return f"State({self.name!r}, {place}, {self.devices})" if self.limited \
            else "State(no tenant)"


def _load():
    for path in (os.environ.get("ALLOT_TENANT_LIBRARY"), _BESIDE if os.path.exists(_BESIDE) else None,
                 "liballot-tenant.so.0"):
        if path:
            return ctypes.CDLL(path)
    return None


_library = None


def _bound():
    """The library, loaded by its first user: importing this module needs none."""
    global _library  # one a process, whatever thread is first
    if _library is None:
        library = _load()
        handle, changes = ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint32)
        for name, result, arguments in (
                ("open", ctypes.c_int, [ctypes.POINTER(handle)]), ("close", None, [handle]),
                ("get", ctypes.c_int, [handle, ctypes.POINTER(_State)]),
                ("get_device", ctypes.c_int, [handle, ctypes.c_uint32, ctypes.POINTER(_Device)]),
                ("wait", ctypes.c_int, [handle, ctypes.c_int, changes]),
                ("listen", ctypes.c_int, [handle]), ("ready", None, [handle])):
            function = getattr(library, "allot_tenant_" + name)
            function.restype, function.argtypes = result, arguments
        _library = library
    return _library


def _check(result):
    if result < 0:
        raise OSError(-result, os.strerror(-result))


class Tenant:
    """The tenant of this process, or none. For one thread at a time; threads have one each. `close`
    may be called by any thread, and by a signal's handler: a call that is under way ends first."""

    def __init__(self):
        handle = ctypes.c_void_p()
        self._lock = threading.RLock()  # a handler may run where its own thread has it
        self._handle, self._calls, self._closing = None, 0, None
        _check(_bound().allot_tenant_open(ctypes.byref(handle)))
        self._handle = handle.value

    def close(self):
        """Further calls raise ValueError."""
        with self._lock:
            handle, self._handle = self._handle, None
            if handle and self._calls:
                self._closing, handle = handle, None
        if handle:
            _library.allot_tenant_close(handle)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        if getattr(self, "_handle", None):
            self.close()

    def _leave(self):
        with self._lock:
            self._calls -= 1
            handle = None
            if not self._calls:
                handle, self._closing = self._closing, None
        if handle:
            _library.allot_tenant_close(handle)

    @contextlib.contextmanager
    def _open(self):
        """The handle, which is not closed meanwhile. The count comes first: a handler that runs
        between the two and closes has taken the handle."""
        with self._lock:
            self._calls += 1
            handle = self._handle
        try:
            if not handle:
                raise ValueError("the tenant is closed")
            yield handle
        finally:
            self._leave()

    def get(self):
        """Looks: a State with its Devices. Takes some 100 us."""
        raw, devices = _State(size=ctypes.sizeof(_State)), []
        with self._open() as handle:
            _check(_library.allot_tenant_get(handle, ctypes.byref(raw)))
            for number in range(raw.devices):
                device = _Device(size=ctypes.sizeof(_Device))
                _check(_library.allot_tenant_get_device(handle, number, ctypes.byref(device)))
                devices.append(Device(device))
        return State(raw, devices)

    def wait(self, timeout=None):
        """Waits for a change since the last wait, for `timeout` seconds at most: a Change. Signals'
        handlers run meanwhile."""
        changes = ctypes.c_uint32()
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            left = _PART_S if until is None else min(_PART_S, max(0, until - time.monotonic()))
            with self._open() as handle:
                result = _library.allot_tenant_wait(handle, round(left * 1000), ctypes.byref(changes))
            if result == 0:
                return Change(changes.value)
            if result not in (-errno.ETIMEDOUT, -errno.EINTR):
                _check(result)
            if until is not None and time.monotonic() >= until:
                return Change.NONE

    def listen(self):
        """From here on `allot suspend --notice` waits for `ready`, or its time."""
        with self._open() as handle:
            _check(_library.allot_tenant_listen(handle))

    def ready(self):
        """What this process wanted to do before it is suspended is done."""
        with self._open() as handle:
            _library.allot_tenant_ready(handle)


def watch(callback, notice=False):
    """Calls callback(state, change) once at its start (Change.NONE), and after each change, in a
    thread of its own that ends with the program. With `notice`, also before the tenant is suspended:
    state.notice_ns is then the time that is left, and `allot suspend --notice` waits for the callback
    to return, or for its time. An exception of the callback, or of the tenant, ends the watch by
    threading.excepthook."""
    tenant = Tenant()
    if notice:
        tenant.listen()

    def run():
        with tenant:
            change = Change.NONE
            while True:
                state = tenant.get()
                callback(state, change)
                if notice and state.notice_ns:
                    tenant.ready()
                change = tenant.wait()

    thread = threading.Thread(target=run, name="allot-tenant", daemon=True)
    thread.start()
    return thread
