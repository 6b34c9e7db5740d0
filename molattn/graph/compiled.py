"""`edge_attention.c`, opened where it can be built: see `molattn.compiled`.

Without it everything goes on in torch's operations: the same numbers to rounding, slower.
"""

import ctypes
from functools import cache
from pathlib import Path

from molattn import compiled

SOURCE = Path(__file__).with_name("edge_attention.c")


TABLES = 4
"""The most tables of rows that edges are sums of."""


class Graphs(ctypes.Structure):
    """`Graphs` of the C source: addresses, and how many."""

    _fields_ = (
        ("count", ctypes.c_int64),
        ("n", ctypes.c_int64),
        ("sizes", ctypes.c_void_p),
        ("e", ctypes.c_void_p),
        ("allowed", ctypes.c_void_p),
        ("kept", ctypes.c_void_p),
        ("d_e", ctypes.c_void_p),
        ("edge_codes", ctypes.c_void_p * TABLES),
    )


class Task(ctypes.Structure):
    """`Task` of the C source."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("h", "d", "f", "parts")),
        ("scale", ctypes.c_float),
        *((name, ctypes.c_void_p) for name in ("packed", "w_ke", "w_ve", "w_be")),
        ("graphs", ctypes.POINTER(Graphs)),
        *((name, ctypes.c_void_p) for name in ("output", "dy", "d_packed", "d_w_ke", "d_w_ve", "d_w_be")),
        ("dropping", ctypes.c_void_p),
        ("tables", ctypes.c_int64),
        ("num_rows", ctypes.c_int64 * TABLES),
        ("rows", ctypes.c_void_p * TABLES),
        ("d_rows", ctypes.c_void_p * TABLES),
        ("add_edges", ctypes.c_int64),
    )


@cache
def library() -> ctypes.CDLL | None:
    """The built library, at the first call of a process; None where there is none to be had: see `why_not`."""
    loaded = compiled.library(SOURCE)
    for name in ("molattn_forward", "molattn_backward") if loaded is not None else ():
        getattr(loaded, name).argtypes = (ctypes.POINTER(Task), ctypes.c_int)
        getattr(loaded, name).restype = ctypes.c_int
    return loaded


def why_not() -> str:
    """Why `library` is None, in words; empty where it is not."""
    return compiled.why_not(SOURCE)
