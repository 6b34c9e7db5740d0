"""Random calls of the compiled operations, each with one invalid argument.

    python -m tests.kernels.invalid_arguments SEED COUNT

Prints how many calls of each operation were rejected and how many succeeded; none may crash the process.
"""

import random
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from molattn.graph import SumEmbedding
from molattn.graph.embedding import look_up
from molattn.kernels import elementwise
from molattn.kernels.blocks import BatchEdges, BlockTensors, BlockWeights, compiled_blocks
from molattn.kernels.edge_attention import edge_attention
from molattn.kernels.segments import segment_attention

REFUSED = (ValueError, IndexError, RuntimeError, TypeError)


def wrong_shape(x: Tensor, rng: random.Random) -> Tensor:
    """Another size, or one dimension less or more."""
    if not x.dim() or rng.random() < 0.2:
        return x.unsqueeze(0)
    at = rng.randrange(x.dim())
    if rng.random() < 0.2:
        return x.select(at, 0) if x.shape[at] else x.flatten()
    size = rng.choice([0, 1, x.shape[at] - 1, x.shape[at] + 1, 3 * x.shape[at]])
    return x.new_ones((*x.shape[:at], max(0, size), *x.shape[at + 1 :]))


def wrong_type(x: Tensor, rng: random.Random) -> Tensor:
    """The same values with another dtype."""
    return x.to(rng.choice([torch.uint8, torch.int8, torch.int32, torch.float64, torch.bool, torch.bfloat16]))


def wrong_values(x: Tensor, rng: random.Random) -> Tensor:
    """Integers that are too small or too large; floats that are not finite."""
    x = x.clone()
    if x.numel() and x.dtype != torch.bool:
        numbers = [float("nan"), float("inf")] if x.is_floating_point() else [-1, 255, 2**31 - 1, 2**32, 2**32 + 1]
        number = rng.choice(numbers)
        if not x.is_floating_point():
            info = torch.iinfo(x.dtype)
            number = max(info.min, min(info.max, number))
        x.view(-1)[rng.randrange(x.numel())] = number
    return x


def wrong_device_or_layout(x: Tensor, rng: random.Random) -> Tensor:
    """Not on the CPU, or not contiguous."""
    return x.to("meta") if rng.random() < 0.5 else x.repeat_interleave(2, -1)[..., ::2] if x.dim() else x.to("meta")


WRONG = (wrong_shape, wrong_type, wrong_values, wrong_device_or_layout)


def corrupted(x: Any, rng: random.Random) -> Any:
    """`x` with one invalid part."""
    if isinstance(x, Tensor):
        return rng.choice(WRONG)(x, rng)
    if isinstance(x, list | tuple):
        if not x or rng.random() < 0.2:
            return [*x, *x[-1:]] if rng.random() < 0.5 else list(x[:-1])
        at = rng.randrange(len(x))
        return type(x)(corrupted(y, rng) if k == at else y for k, y in enumerate(x))
    if isinstance(x, float):
        return rng.choice([-0.1, 1.0, 2.0, float("nan")])
    return x


def operations() -> dict[str, tuple[Callable[..., Tensor], dict[str, Any]]]:
    """The compiled operations, each with valid arguments."""
    b, n, h, d, f, c, hidden = 3, 5, 2, 8, 4, 16, 32
    codes = torch.randint(4, (b, n, n), dtype=torch.uint8)
    masks = {"node_mask": torch.arange(n) < torch.tensor([5, 2, 3]).unsqueeze(-1), "edge_mask": None}

    def blocks(v, tensors, edges, counts, edge_mask, codes, dropout):
        block = BlockWeights(2, (1e-5, 1e-5), dropout, BlockTensors(*tensors))
        return compiled_blocks([block, replace(block)], v, edges, BatchEdges(counts, edge_mask, tuple(codes)))

    norm = [torch.ones(c), torch.zeros(c)]
    matrices = [
        *[torch.randn(c, c)] * 3,
        *[torch.randn(c, f)] * 2,
        torch.randn(2, f),
        torch.randn(c, c),
        torch.zeros(c),
    ]
    weights = [*norm, *matrices, *norm, torch.randn(hidden, c), torch.zeros(hidden), torch.randn(c, hidden), norm[1]]
    block_arguments = {
        "v": torch.randn(b, n, c),
        "tensors": weights,
        "counts": torch.tensor([5, 2, 3]),
        "edge_mask": None,
    }
    qkv = {name: torch.randn(b, n, h, d) for name in ("q", "k", "v")}
    edge_arguments = {"e": torch.randn(b, n, n, f), "dropout_mask": torch.rand(b, h, n, n), **masks}
    tables = [torch.randn(4, f), torch.randn(4, f)]
    layer = SumEmbedding([4, 3], 6)
    x = torch.randn(7, 9)
    return {
        "look_up": (look_up, {"table": torch.randn(4, 6), "codes": torch.randint(4, (b, n))}),
        "SumEmbedding": (layer, {"codes": torch.randint(3, (b, n, 2))}),
        "edge_attention": (
            lambda q, k, v, e, dropout_mask, node_mask, edge_mask, w_ke, w_ve, w_be: edge_attention(
                q, k, v, e, w_ke, w_ve, w_be, node_mask, edge_mask, dropout_mask
            ),
            {
                **qkv,
                **edge_arguments,
                "w_ke": torch.randn(h, d, f),
                "w_ve": torch.randn(h, d, f),
                "w_be": torch.randn(h, f),
            },
        ),
        "segment_attention": (
            lambda q, k, v, sender, receiver, e, w_ke, w_ve, w_be, dropout_mask: segment_attention(
                q, k, v, sender, receiver, e, w_ke, w_ve, w_be, dropout_mask
            )[0],
            {
                **{name: torch.randn(n, h, d) for name in ("q", "k", "v")},
                **{name: torch.randint(n, (12,)) for name in ("sender", "receiver")},
                **{"e": torch.randn(12, f), "w_ke": torch.randn(h, d, f), "w_ve": torch.randn(h, d, f)},
                **{"w_be": torch.randn(h, f), "dropout_mask": torch.rand(12, h)},
            },
        ),
        "blocks of edges": (
            blocks,
            {**block_arguments, "edges": [torch.randn(b, n, n, f)], "codes": [], "dropout": 0.1},
        ),
        "blocks of codes": (
            blocks,
            {**block_arguments, "edges": tables, "codes": [codes, codes.flip(0)], "dropout": 0.1},
        ),
        "dropout": (lambda x, p: elementwise.dropout(x, p, 7), {"x": x, "p": 0.1}),
        "add_dropped": (lambda a, x, p: elementwise.add_dropout(a, x, p, 7), {"a": x, "x": x + 1, "p": 0.1}),
        "gelu": (lambda x, p: elementwise.dropout_gelu(x, p, 7), {"x": x, "p": 0.1}),
    }


def outcome(function: Callable[..., Tensor], arguments: dict[str, Any]) -> str:
    """The outcome of a call, forward and backward."""
    for x in arguments.values():
        for y in x if isinstance(x, list) else [x]:
            if isinstance(y, Tensor) and y.is_floating_point() and y.is_leaf:
                y.requires_grad_()
    try:
        out = function(**arguments)
        if out.requires_grad:
            out.sum().backward()
    except REFUSED:
        return "refused"
    return "done"


def main(seed: int, count: int) -> None:
    """See above."""
    rng, found = random.Random(seed), Counter[str]()
    torch.manual_seed(seed)
    known = operations()
    for name, (function, arguments) in known.items():
        assert outcome(function, arguments) == "done", name
    for _ in range(count):
        for name, (function, arguments) in known.items():
            key = rng.choice([key for key, x in arguments.items() if x is not None and x != []])
            changed = {**arguments, key: corrupted(arguments[key], rng)}
            detached = {
                k: [y.detach() for y in x]
                if isinstance(x, list | tuple)
                else x.detach()
                if isinstance(x, Tensor)
                else x
                for k, x in changed.items()
            }
            found[f"{name}: {outcome(function, detached)}"] += 1
    print(*(f"{name} {number}" for name, number in sorted(found.items())), sep="\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
