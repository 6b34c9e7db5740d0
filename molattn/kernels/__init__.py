"""Kernels in C for the CPU, each registered as an operation with `torch.library`, and their reference implementations.

| operation of `torch.ops.molattn`            | C file           | reference                                     |
|---------------------------------------------|------------------|-----------------------------------------------|
| `edge_attention`                            | edge_attention.c | `attend` with a `PaddedGraphLayout`           |
| `segment_attention`                         | segments.c       | `attend` with an `EdgeListLayout`             |
| `blocks`                                    | blocks.c         | `GraphNetBlock`, in sequence                  |
| `sum_of_rows`                               | lookup.c         | `torch.nn.functional.embedding`, summed       |
| `dropout`, `add_dropout`, `dropout_gelu`    | elementwise.c    | torch's, with the mask of `dropout_mask`      |

`attend` is that of `molattn.attention`. The C files are in `csrc`. `loader` uses the libraries of the wheel
(`shipped`), or has `compiler` build them for this processor at first use. It uses a library only if its structs have
the layout of the ctypes structures and it agrees with its reference, forward and backward. `dispatch` selects the
implementation of an operation. binary.c, which reads molecules, belongs to `molattn.chem.binary`.
"""

import os


def describe_kernels() -> str:
    """Whether all kernels are in use, where they come from and for which processor, or why not, in one line."""
    from molattn.kernels import blocks, edge_attention, elementwise, lookup, segments
    from molattn.kernels.compiler import MARCH_VARIABLE
    from molattn.kernels.dispatch import BACKEND_VARIABLE
    from molattn.kernels.loader import COMPILED_HERE

    chosen = os.environ.get(BACKEND_VARIABLE, "").strip()
    if chosen and "compiled" not in [name.strip() for name in chosen.split(",")]:
        return f"no, {BACKEND_VARIABLE} allows {chosen} alone"
    if why := blocks.LIBRARY.unavailable_reason():
        return f"no, torch's operations instead, training about 3 times slower: {why}"
    others = (edge_attention, lookup, elementwise, segments)
    for kernel in others:
        if why := kernel.LIBRARY.unavailable_reason():
            return f"not all, torch's operations instead of {kernel.LIBRARY.source.name}: {why}"
    if chosen:
        return f"yes, but {BACKEND_VARIABLE} allows {chosen} alone"
    origins = {kernel.LIBRARY.source.name: kernel.LIBRARY.origin() for kernel in (blocks, *others)}
    if len({*origins.values()}) > 1:
        return "yes: " + "; ".join(f"{name} {origin}" for name, origin in origins.items())
    origin = origins[blocks.LIBRARY.source.name]
    return f"yes, {origin}" + (f"; {MARCH_VARIABLE} names another" if origin == COMPILED_HERE else "")
