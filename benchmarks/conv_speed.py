"""`TensorDotConv` beside PyG's `TransformerConv` on the same graphs: the ratio of their times.

    python benchmarks/conv_speed.py

Both layers hold the same weights (`TensorDotConv.from_pyg`), 64 channels in 8 heads and 16 edge features, and give the
same numbers. Complete graphs of one size, about 10,000 edges in all, as an edge list and as `forward_dense` takes
them; and one sparse graph of Cora's size without edge features, as an edge list. One thread; a figure is the median
over rounds of the ratio within a round (CPU time of the process), with the quartiles in brackets. Below 1 molattn is
faster.
"""

import argparse
import os
import platform
from collections.abc import Callable
from importlib.metadata import version

import torch
from multihead_speed import ratio
from torch import Tensor
from torch_geometric.nn import TransformerConv

from molattn.graph import DenseGraph, TensorDotConv

CHANNELS, HEADS, EDGE_DIM, EDGES = 64, 8, 16, 10_000


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10, 20, 40, 80, 160, 320])
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--budget", type=float, default=0.2, help="seconds of a round")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print("| graphs x nodes | dense, forward | dense, with backward | edge list, forward | edge list, with backward |")
    print("|---|---|---|---|---|")
    for n in arguments.sizes:
        b = max(1, EDGES // n**2)
        dense = DenseGraph(
            torch.randn(b, n, CHANNELS), torch.ones(b, n, dtype=torch.bool), torch.randn(b, n, n, EDGE_DIM)
        )
        theirs = TransformerConv(CHANNELS, CHANNELS // HEADS, HEADS, edge_dim=EDGE_DIM)
        ours, listed = TensorDotConv.from_pyg(theirs), dense.to_edge_list()
        x, edge_index = listed.v, torch.stack([listed.sender, listed.receiver])
        e = listed.e

        def by_pyg(theirs: TransformerConv = theirs, x: Tensor = x, edges: Tensor = edge_index, e: Tensor | None = e):
            return theirs(x, edges, e)

        def by_list(ours: TensorDotConv = ours, x: Tensor = x, edges: Tensor = edge_index, e: Tensor | None = e):
            return ours(x, edges, e)

        def by_matrix(ours: TensorDotConv = ours, graph: DenseGraph = dense):
            return ours.forward_dense(graph.v, graph.node_mask, graph.e)

        torch.testing.assert_close(by_list(), by_pyg(), rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(by_matrix().flatten(0, 1), by_pyg(), rtol=1e-4, atol=1e-5)
        cells = [_measured(way, by_pyg, back, arguments) for way in (by_matrix, by_list) for back in (False, True)]
        print(f"| {b} x {n} | {' | '.join(cells)} |", flush=True)
    theirs = TransformerConv(CHANNELS, CHANNELS // HEADS, HEADS)
    ours = TensorDotConv.from_pyg(theirs)
    x, edge_index = torch.randn(2708, CHANNELS), torch.randint(2708, (2, 10_556))
    cells = [_measured(lambda: ours(x, edge_index), lambda: theirs(x, edge_index), b, arguments) for b in (False, True)]
    print(f"| 1 x 2708, 10,556 edges | | | {' | '.join(cells)} |")
    print(f"\nOne thread of a machine with {os.cpu_count()} CPU cores ({platform.machine()}), ", end="")
    print(f"torch {version('torch')}, torch-geometric {version('torch-geometric')}.")


def _measured(
    ours: Callable[[], Tensor], theirs: Callable[[], Tensor], backward: bool, arguments: argparse.Namespace
) -> str:
    def call(layer: Callable[[], Tensor]) -> None:
        y = layer()
        if backward:
            y.sum().backward()

    with torch.set_grad_enabled(backward):
        return ratio(lambda: call(ours), lambda: call(theirs), arguments.rounds, arguments.budget)


if __name__ == "__main__":
    main()
