"""Speed of `TensorDotConv` and PyG's `TransformerConv` on the same graphs: the ratio of their times.

    python benchmarks/conv_speed.py

Both layers have the same weights (`TensorDotConv.from_pyg`), 64 channels in 8 heads and 16 edge features, and the same
outputs. The graphs are batches of complete graphs of one size with about 10,000 edges, as an edge list and as input of
`forward_dense`, and one sparse graph of the size of Cora without edge features, as an edge list. One thread; each value
is the median over rounds of the ratio within a round (CPU time of the process), with the quartiles in brackets. Below 1
molattn is faster.
"""

import argparse
from functools import partial

import torch
from multihead_speed import PASSES, time_ratio
from report import describe_machine, machine, markdown
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
    rows = []
    for n in arguments.sizes:
        b = max(1, EDGES // n**2)
        dense = DenseGraph(
            torch.randn(b, n, CHANNELS), torch.ones(b, n, dtype=torch.bool), torch.randn(b, n, n, EDGE_DIM)
        )
        theirs = TransformerConv(CHANNELS, CHANNELS // HEADS, HEADS, edge_dim=EDGE_DIM)
        ours, edge_list = TensorDotConv.from_pyg(theirs), dense.to_edge_list()
        edge_index = torch.stack([edge_list.sender, edge_list.receiver])
        by_pyg = partial(theirs, edge_list.v, edge_index, edge_list.e)
        by_list = partial(ours, edge_list.v, edge_index, edge_list.e)
        by_matrix = partial(ours.forward_dense, dense.v, dense.node_mask, dense.e)
        torch.testing.assert_close(by_list(), by_pyg(), rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(by_matrix().flatten(0, 1), by_pyg(), rtol=1e-4, atol=1e-5)
        cells = [
            time_ratio(call, by_pyg, backward, arguments) for call in (by_matrix, by_list) for backward in (False, True)
        ]
        rows.append([f"{b} x {n}", *cells])
    theirs = TransformerConv(CHANNELS, CHANNELS // HEADS, HEADS)
    ours = TensorDotConv.from_pyg(theirs)
    x, edge_index = torch.randn(2708, CHANNELS), torch.randint(2708, (2, 10_556))
    cells = [
        time_ratio(partial(ours, x, edge_index), partial(theirs, x, edge_index), b, arguments) for b in (False, True)
    ]
    rows.append(["1 x 2708, 10,556 edges", "", "", *cells])
    print(
        markdown(["graphs x nodes", *(f"{form}, {name}" for form in ("dense", "edge list") for name in PASSES)], rows)
    )
    print(f"\n{describe_machine(machine(('torch', 'torch-geometric')))}")


if __name__ == "__main__":
    main()
