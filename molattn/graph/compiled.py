"""`edge_attention.c`, opened where it can be built: see `molattn.compiled`.

Without it everything goes on in torch's operations: the same numbers to rounding, slower.
"""

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

import torch

from molattn import compiled
from molattn.attention.agreement import first_difference, undisturbed

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
    loaded = compiled.library(SOURCE, (Graphs, Task), _disagreement)
    for name in ("molattn_forward", "molattn_backward") if loaded is not None else ():
        getattr(loaded, name).argtypes = (ctypes.POINTER(Task), ctypes.c_int)
        getattr(loaded, name).restype = ctypes.c_int
    return loaded


def _disagreement() -> str:
    """Where the library differs from `plain_edge_attention` on two molecules; empty for nowhere."""
    from molattn.graph import dense  # whose operation this library is part of

    with undisturbed():
        b, n, h, d, f = 2, 19, 2, 5, 3  # more receivers than a vector has lanes
        mask = torch.arange(n) < torch.tensor([[n], [4]])
        edges = (torch.rand(b, n, n) < 0.7) & mask.unsqueeze(1) & mask.unsqueeze(2)
        dy = torch.randn(b, n, h, d).masked_fill(~mask[:, :, None, None], 0.0)
        pairs = []
        for masked in (False, True):
            shapes = ((b, n, 3 + masked, h, d), (b, n, n, f), (h, d, f), (h, d, f), (h, f))
            inputs: Any = [torch.randn(shape, requires_grad=True) for shape in shapes]
            kept = (torch.rand(b, h, n, n) < 0.8) / 0.8 if masked else None
            terms = dense.EdgeTerms(*inputs, node_mask=mask, edge_mask=edges if masked else None, kept=kept)
            ours, reference = dense.edge_attention(terms), dense.plain_edge_attention(terms)
            found, wanted = (torch.autograd.grad(y, inputs, dy) for y in (ours, reference))
            pairs.append(("attention", ours[mask], reference[mask]))
            names = ("packed", "e", "w_ke", "w_ve", "w_be")
            pairs += [(f"the gradient of {name}", *both) for name, *both in zip(names, found, wanted, strict=True)]
        return first_difference(pairs)


def why_not() -> str:
    """Why `library` is None, in words; empty where it is not."""
    return compiled.why_not(SOURCE)
