"""What is fast: C for the CPU, each operation registered with `torch.library`, beside its reference.

| operation of `torch.ops.molattn`            | C file           | reference                                     |
|---------------------------------------------|------------------|-----------------------------------------------|
| `edge_attention`                            | edge_attention.c | `attend` of `molattn.attention`, with `edges` |
| `segment_attention`                         | segments.c       | `attend` with an `EdgeListLayout`             |
| `blocks`                                    | blocks.c         | `GraphNetBlock`, one after another            |
| `sum_of_rows`                               | lookup.c         | `torch.nn.functional.embedding`, summed       |
| `dropout`, `add_dropout`, `dropout_gelu`    | elementwise.c    | torch's, with the mask of `dropout_mask`      |

The C lies in `csrc`; `loader` builds it for this processor at first use, and takes a library only if its structures are
laid out as Python's and it agrees with its reference, forward and backward. `dispatch` decides which implementation an
operation takes. binary.c, which reads molecules, belongs to `molattn.chem.binary`.
"""
