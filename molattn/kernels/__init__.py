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
the memory layout of the ctypes structures and its results agree with the reference, forward and backward. `dispatch`
selects the implementation of an operation. binary.c and cip.h, which read molecules, belong to `molattn.chem.binary`.
"""

import os


def describe_kernels() -> str:
    """One line on whether all kernels are in use: where they come from and for which processor, or why not."""
    from molattn.kernels import blocks, edge_attention, elementwise, lookup, segments
    from molattn.kernels.compiler import MARCH_VARIABLE
    from molattn.kernels.dispatch import BACKEND_VARIABLE
    from molattn.kernels.loader import COMPILED_HERE

    allowed = os.environ.get(BACKEND_VARIABLE, "").strip()
    if allowed and "compiled" not in [name.strip() for name in allowed.split(",")]:
        return f"no, {BACKEND_VARIABLE} allows only {allowed}"
    if why := blocks.LIBRARY.unavailable_reason():
        return f"no, torch's operations instead, training about 3 times slower: {why}"
    others = (edge_attention, lookup, elementwise, segments)
    for kernel in others:
        if why := kernel.LIBRARY.unavailable_reason():
            return f"not all, torch's operations instead of {kernel.LIBRARY.source.name}: {why}"
    if allowed:
        return f"yes, but {BACKEND_VARIABLE} allows only {allowed}"
    origins = {kernel.LIBRARY.source.name: kernel.LIBRARY.origin() for kernel in (blocks, *others)}
    if len(set(origins.values())) > 1:
        return "yes: " + "; ".join(f"{name} {origin}" for name, origin in origins.items())
    origin = origins[blocks.LIBRARY.source.name]
    return f"yes, {origin}" + (f"; set {MARCH_VARIABLE} to build for another" if origin == COMPILED_HERE else "")
