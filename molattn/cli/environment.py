"""Process settings of torch and of the memory allocator, for a computer that runs other processes too."""

import ctypes
import os


def set_environment(progress_bars: bool = True) -> None:
    """Set the environment variables that libraries read, unless the user has; before they are imported.

    progress_bars: whether huggingface_hub may draw them.
    """
    if not progress_bars:
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    # OpenMP threads that spin while they wait are very slow when another process needs the cores.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    # oneDNN and torch each cache primitives for 1,024 matrix shapes. Every batch brings new shapes, so that a long
    # table would fill hundreds of megabytes with entries that are never used again.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
    os.environ.setdefault("LRU_CACHE_CAPACITY", "64")


def keep_memory() -> None:
    """Configure glibc's allocator to keep memory between batches: returning it and faulting its pages in again takes
    longer than the computation."""
    mmap_threshold, trim_threshold = -3, -1
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return
    mallopt(mmap_threshold, 2**25)
    mallopt(trim_threshold, 2**27)
