"""NVIDIA's driver, started while Python imports PyTorch."""

import ctypes
from contextlib import suppress
from threading import Thread

LIBRARY = "libcuda.so.1"


def start_driver() -> Thread:
    """Load the driver and make the context of the first GPU, in a thread; PyTorch finds them made, or makes them.

    That takes half a second, and importing PyTorch one. Where there is no driver nothing happens, and what fails here
    fails again in PyTorch, which says so. The process ends after it.
    """
    thread = Thread(target=_start)
    thread.start()
    return thread


def _start() -> None:
    with suppress(OSError):
        driver = ctypes.CDLL(LIBRARY)
        device, context = ctypes.c_int(), ctypes.c_void_p()
        if not (driver.cuInit(0) or driver.cuDeviceGet(ctypes.byref(device), 0)):
            driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
