"""Speed of layers of molattn and of torch and PyG on the same inputs: the ratio of their times.

    python benchmarks/layer_speed.py attention   # MultiHeadAttention and torch.nn.MultiheadAttention
    python benchmarks/layer_speed.py conv        # TensorDotConv and PyG's TransformerConv

Both layers have the same weights (`MultiHeadAttention.from_torch`, `TensorDotConv.from_pyg`) and outputs; forward, and
forward with backward. They run in turns on one thread; each value is the median over rounds of the ratio within a round
(CPU time of the process), with the quartiles in brackets. Below 1 molattn is faster.

Attention is self-attention of 64 channels in 4 heads, without a mask and with padding, without returned weights. The
graphs are batches of complete graphs of one size with about 10,000 edges, 64 channels in 8 heads and 16 edge features,
as an edge list and as input of `forward_dense`; and one sparse graph of the size of Cora without edge features, as an
edge list.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from itertools import product

import torch
from report import describe_machine, machine, markdown
from torch import Tensor, nn

from molattn.attention import MultiHeadAttention, padding_mask

CHANNELS = 64
PASSES = {"forward": False, "with backward": True}
"""Whether the gradients are computed."""


def seconds(call: Callable[[], object], repeats: int) -> float:
    """CPU seconds of `repeats` calls."""
    start = time.process_time()
    for _ in range(repeats):
        call()
    return time.process_time() - start


def time_ratio(
    ours: Callable[[], Tensor], theirs: Callable[[], Tensor], backward: bool, arguments: argparse.Namespace
) -> str:
    """The median and the quartiles, over rounds, of the time of a layer of molattn divided by that of another layer."""

    def step(layer: Callable[[], Tensor]) -> Callable[[], object]:
        return lambda: layer().sum().backward() if backward else layer()

    with torch.set_grad_enabled(backward):
        steps = (step(ours), step(theirs))
        for call in steps:
            seconds(call, 3)
        repeats = max(1, round(arguments.budget / 2 / max(1e-5, seconds(steps[1], 5) / 5)))
        ratios = []
        for i in range(arguments.rounds):
            # The order alternates: the first call of a round has colder caches.
            times = {j: seconds(steps[j], repeats) for j in ((1, 0) if i % 2 else (0, 1))}
            ratios.append(times[0] / times[1])
    low, middle, high = statistics.quantiles(ratios, n=4)
    return f"{middle:.2f} [{low:.2f}, {high:.2f}]"


def measure_attention(arguments: argparse.Namespace) -> str:
    """The table of multi-head attention."""
    theirs = nn.MultiheadAttention(CHANNELS, num_heads=4, batch_first=True)
    # In training mode: in evaluation mode torch's layer takes a path without gradients.
    ours = MultiHeadAttention.from_torch(theirs).train()
    rows = []
    for batch, length in product(arguments.batches, arguments.sizes or (16, 64, 256, 1024)):
        x = torch.randn(batch, length, CHANNELS)
        is_real = torch.arange(length) < torch.randint(length // 2, length + 1, (batch, 1))
        calls: list[tuple[Callable[[], Tensor], Callable[[], Tensor]]] = []
        for mask, padding in ((None, None), (padding_mask(is_real), ~is_real)):
            their_call = partial(theirs, x, x, x, key_padding_mask=padding, need_weights=False)
            calls.append((partial(ours, x, mask=mask), lambda call=their_call: call()[0]))
        cells = [time_ratio(*pair, backward, arguments) for backward in PASSES.values() for pair in calls]
        rows.append([f"{batch} x {length}", *cells])
    return markdown(["batch x length", *(f"{name}{p}" for name in PASSES for p in ("", ", padded"))], rows)


def measure_conv(arguments: argparse.Namespace) -> str:
    """The table of attention on graphs."""
    from torch_geometric.nn import TransformerConv

    from molattn.graph import DenseGraph, TensorDotConv

    rows, heads, edge_dim = [], 8, 16
    for n in arguments.sizes or (10, 20, 40, 80, 160, 320):
        b = max(1, 10_000 // n**2)
        mask, edges = torch.ones(b, n, dtype=torch.bool), torch.randn(b, n, n, edge_dim)
        dense = DenseGraph(torch.randn(b, n, CHANNELS), mask, edges)
        theirs = TransformerConv(CHANNELS, CHANNELS // heads, heads, edge_dim=edge_dim)
        ours, edge_list = TensorDotConv.from_pyg(theirs), dense.to_edge_list()
        inputs = (edge_list.v, torch.stack([edge_list.sender, edge_list.receiver]), edge_list.e)
        by_pyg, by_list = partial(theirs, *inputs), partial(ours, *inputs)
        by_matrix = partial(ours.forward_dense, dense.v, dense.node_mask, dense.e)
        torch.testing.assert_close(by_list(), by_pyg(), rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(by_matrix().flatten(0, 1), by_pyg(), rtol=1e-4, atol=1e-5)
        pairs = product((by_matrix, by_list), PASSES.values())
        rows.append([f"{b} x {n}", *(time_ratio(call, by_pyg, backward, arguments) for call, backward in pairs)])
    theirs = TransformerConv(CHANNELS, CHANNELS // heads, heads)
    inputs = (torch.randn(2708, CHANNELS), torch.randint(2708, (2, 10_556)))
    calls = partial(TensorDotConv.from_pyg(theirs), *inputs), partial(theirs, *inputs)
    cells = [time_ratio(*calls, backward, arguments) for backward in PASSES.values()]
    rows.append(["1 x 2708, 10,556 edges", "", "", *cells])
    return markdown(
        ["graphs x nodes", *(f"{form}, {name}" for form in ("dense", "edge list") for name in PASSES)], rows
    )


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("layer", choices=("attention", "conv"))
    parser.add_argument("--sizes", type=int, nargs="+", help="lengths of sequences, or numbers of nodes")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 16, 64], help="attention: sequences in a batch")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--budget", type=float, default=0.2, help="seconds of a round")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print({"attention": measure_attention, "conv": measure_conv}[arguments.layer](arguments))
    print(f"\n{describe_machine(machine(('torch', 'torch-geometric')))}")


if __name__ == "__main__":
    main()
