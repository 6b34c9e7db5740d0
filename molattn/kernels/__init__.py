"""Kernels in C for the CPU, each registered as an operation with `torch.library`, and their reference implementations.

| operation of `torch.ops.molattn`            | C file           | reference                                     |
|---------------------------------------------|------------------|-----------------------------------------------|
| `edge_attention`                            | edge_attention.c | `attend` with a `PaddedGraphLayout`           |
| `segment_attention`                         | segments.c       | `attend` with an `EdgeListLayout`             |
| `blocks`                                    | blocks.c         | `GraphNetBlock`, in sequence                  |
| `sum_of_rows`                               | lookup.c         | `torch.nn.functional.embedding`, summed       |
| `dropout`, `add_dropout`, `dropout_gelu`    | elementwise.c    | torch's, with the mask of `dropout_mask`      |

`attend` is that of `molattn.attention`. The C files are in `csrc`. `loader` builds them for this processor at first
use, and uses a library only if its structs have the layout of the ctypes structures and it agrees with its reference,
forward and backward. `dispatch` selects the implementation of an operation. binary.c, which reads molecules, belongs to
`molattn.chem.binary`.
"""
