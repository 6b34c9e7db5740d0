"""Speed and memory of `TensorDotConv`, and of `TransformerConv` and `GATv2Conv` of PyG.

    python benchmarks/attention_layers.py

Forward and backward, with gradients of the nodes as in all layers but the first, on complete graphs with self-loops and
8 random edge features; 64 channels in 4 heads and 128 in 8; one thread. TensorDotConv is called in both forms:
`forward_dense` with the graphs padded to the largest, and `forward` with the edge list that PyG's layers get. It has
the weights of TransformerConv (`TensorDotConv.from_pyg`), and the outputs and gradients of both forms are compared with
those of TransformerConv first; GATv2Conv has other equations. The four run in turns. A ratio is the median over rounds
of the ratio within a round (CPU time of the process), with the quartiles in brackets: above 1 TensorDotConv is faster.
Each table is measured twice, in processes of their own: with the default allocator, and with one that keeps its memory
(`mallopt`). Page faults are a large part of the time of PyG, and the second ratio excludes them.

`--molecules` measures batches with the sizes of the molecules of ESOL and of the NCI molecules in RDKit's data, sampled
as in training (`molattn.data.store.batches.BucketBatchSampler`); "filled" is the share of the pairs in the padded form
that are pairs of atoms. The time of collating is not included. `--memory` measures the peak memory of a process for
each layer.
"""

import argparse
import ctypes
import os
import resource
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch
from commands import DATASETS
from report import describe_machine, machine
from tables import nci_smiles, read_rows
from torch import Tensor, nn
from torch_geometric.nn import GATv2Conv, TransformerConv

from molattn.data.store.batches import BucketBatchSampler
from molattn.graph import DenseGraph, Graph, TensorDotConv
from molattn.kernels.edge_attention import LIBRARY

EDGE_DIM = 8
HEAD_DIM = 16
TENSOR_DOT = ("forward_dense", "forward")
PYG = ("TransformerConv", "GATv2Conv")
COLUMNS = (*(f"{name}, us per graph" for name in TENSOR_DOT), *(f"{b} / {a}" for a in TENSOR_DOT for b in PYG))


@dataclass(frozen=True)
class Batch:
    """Complete graphs in both forms, and the gradient of the output of each node."""

    dense: DenseGraph
    edge_list: Graph
    edge_index: Tensor
    dy: Tensor

    @classmethod
    def of_sizes(cls, sizes: list[int], channels: int) -> "Batch":
        """Graphs of these sizes with random nodes and edges."""
        b, n = len(sizes), max(sizes)
        mask = torch.arange(n) < torch.tensor(sizes).unsqueeze(-1)
        dense = DenseGraph(torch.randn(b, n, channels), mask, torch.randn(b, n, n, EDGE_DIM))
        edge_list = dense.to_edge_list()
        for x in (dense.v, edge_list.v):
            x.requires_grad_()
        dy = torch.randn(b, n, channels).masked_fill(~mask.unsqueeze(-1), 0.0)
        return cls(dense, edge_list, torch.stack([edge_list.sender, edge_list.receiver]), dy)

    @property
    def filled(self) -> float:
        """The share of the pairs of the padded form that are pairs of nodes."""
        return len(self.edge_list.sender) / self.dense.edges.numel()


def layers(channels: int) -> dict[str, nn.Module]:
    """The layer of each name, TensorDotConv with the weights of TransformerConv."""
    heads = channels // HEAD_DIM
    transformer = TransformerConv(channels, HEAD_DIM, heads, edge_dim=EDGE_DIM)
    gat = GATv2Conv(channels, HEAD_DIM, heads, edge_dim=EDGE_DIM, add_self_loops=False)
    ours = TensorDotConv.from_pyg(transformer)
    return {"forward_dense": ours, "forward": ours, "TransformerConv": transformer, "GATv2Conv": gat}


def step(name: str, layer: nn.Module, batch: Batch) -> Tensor:
    """The output after a forward and a backward pass."""
    layer.zero_grad()
    batch.dense.v.grad = batch.edge_list.v.grad = None
    if name == "forward_dense":
        assert isinstance(layer, TensorDotConv)
        output = layer.forward_dense(batch.dense.v, batch.dense.node_mask, batch.dense.e)
        output.backward(batch.dy)
    else:
        output = layer(batch.edge_list.v, batch.edge_index, batch.edge_list.e)
        output.backward(batch.dy[batch.dense.node_mask])
    return output.detach()


def check(layers_by_name: dict[str, nn.Module], batch: Batch) -> None:
    """Compare both forms of TensorDotConv with TransformerConv.

    Raises:
        AssertionError: outputs or gradients of nodes differ by 1e-5 of the largest value, or the gradients of the edge
            weight, which are sums over all edges, by 1e-4.
    """
    results = []
    for name, weight in (("TransformerConv", "lin_edge"), ("forward_dense", "phi_e.w_ke"), ("forward", "phi_e.w_ke")):
        output, v = step(name, layers_by_name[name], batch), batch.edge_list.v.grad
        if name == "forward_dense":
            assert batch.dense.v.grad is not None
            output, v = output[batch.dense.node_mask], batch.dense.v.grad[batch.dense.node_mask]
        results.append((output, v, layers_by_name[name].get_parameter(f"{weight}.weight").grad))
    for ours in results[1:]:
        for a, b, tolerance in zip(ours, results[0], (1e-5, 1e-5, 1e-4), strict=True):
            apart = float((a - b).abs().max() / b.abs().max())
            assert apart < tolerance, f"the results differ by {apart:.1e}"


def measure(layers_by_name: dict[str, nn.Module], batches: list[Batch], rounds: int, budget: float) -> list[str]:
    """The cells of `COLUMNS`: microseconds per graph of TensorDotConv, and the ratios of the times of PyG's layers."""

    def seconds(name: str, repeats: int) -> float:
        start = time.process_time()
        for _ in range(repeats):
            for batch in batches:
                step(name, layers_by_name[name], batch)
        return (time.process_time() - start) / repeats

    repeats = {}
    for name in layers_by_name:
        seconds(name, 1)
        repeats[name] = max(1, round(budget / seconds(name, 1)))
    times: dict[str, list[float]] = {name: [] for name in layers_by_name}
    for i in range(rounds):
        # The order alternates: the first call of a round has colder caches.
        for name in list(layers_by_name) if i % 2 else list(layers_by_name)[::-1]:
            times[name].append(seconds(name, repeats[name]))
    graphs = sum(batch.edge_list.num_graphs for batch in batches)
    cells = [f"{statistics.median(times[name]) / graphs * 1e6:.0f}" for name in TENSOR_DOT]
    for ours in TENSOR_DOT:
        for theirs in PYG:
            ratios = [b / a for a, b in zip(times[ours], times[theirs], strict=True)]
            low, middle, high = statistics.quantiles(ratios, n=4)
            cells.append(f"{middle:.1f} [{low:.1f}, {high:.1f}]")
    return cells


def molecule_sizes(smiles: list[str]) -> list[int]:
    """The numbers of heavy atoms of the molecules that RDKit can read."""
    from rdkit import Chem, rdBase

    with rdBase.BlockLogs():
        molecules = [Chem.MolFromSmiles(text) for text in smiles]
    return [molecule.GetNumAtoms() for molecule in molecules if molecule is not None and molecule.GetNumAtoms()]


def keep_memory() -> None:
    """Make glibc's allocator keep freed memory, and allocate large blocks."""
    libc = ctypes.CDLL("libc.so.6")
    trim_threshold, top_pad, mmap_threshold = -1, -2, -3
    for option, value in ((mmap_threshold, 2**30), (trim_threshold, 2**31 - 1), (top_pad, 2**26)):
        if not libc.mallopt(option, value):
            raise OSError("mallopt is not supported")


def _row(*cells: object) -> None:
    print(f"| {' | '.join(map(str, cells))} |", flush=True)


def _header(*columns: str) -> None:
    _row(*columns)
    _row(*["---"] * len(columns))


def measure_sizes(arguments: argparse.Namespace) -> None:
    """The table over numbers of atoms."""
    _header("channels", "heads", "atoms", "batch", *COLUMNS)
    for channels in arguments.hidden:
        for atoms in arguments.atoms:
            torch.manual_seed(0)
            layers_by_name, batch = layers(channels), Batch.of_sizes([atoms] * arguments.batch, channels)
            check(layers_by_name, batch)
            cells = measure(layers_by_name, [batch], arguments.rounds, arguments.budget)
            _row(channels, channels // HEAD_DIM, atoms, arguments.batch, *cells)


def measure_molecules(arguments: argparse.Namespace) -> None:
    """The table over batches of molecules, sampled as in training."""
    esol = [row["smiles"] for row in read_rows(DATASETS / "esol.csv")]
    _header("molecules", "channels", "heads", "batch", "filled", *COLUMNS)
    for name, sizes in (("ESOL", molecule_sizes(esol)), ("NCI", molecule_sizes(nci_smiles()))):
        for channels in arguments.hidden:
            for graphs in arguments.batches:
                torch.manual_seed(0)
                layers_by_name = layers(channels)
                sampled = islice(BucketBatchSampler(sizes, graphs, seed=0), 4)
                batches = [Batch.of_sizes([sizes[i] for i in rows], channels) for rows in sampled]
                for batch in batches:
                    check(layers_by_name, batch)
                filled = statistics.mean(batch.filled for batch in batches)
                cells = measure(layers_by_name, batches, arguments.rounds, arguments.budget)
                _row(name, channels, channels // HEAD_DIM, graphs, f"{filled:.2f}", *cells)


def measure_memory(arguments: argparse.Namespace) -> None:
    """The table of peak memory, in addition to the memory before the first step; each layer in its own process."""
    names = (*TENSOR_DOT, PYG[0])
    _header("channels", "heads", "atoms", "batch", *(f"{name}, MB" for name in names))
    atoms, graphs = arguments.atoms[-1], arguments.batch
    for channels in arguments.hidden:
        options = ["--hidden", str(channels), "--atoms", str(atoms), "--batch", str(graphs)]
        commands = [[sys.executable, __file__, "--side", name, *options] for name in names]
        peaks = [subprocess.run(command, check=True, capture_output=True, text=True).stdout for command in commands]
        _row(channels, channels // HEAD_DIM, atoms, graphs, *(f"{float(peak):.0f}" for peak in peaks))


def peak(side: str, channels: int, atoms: int, graphs: int) -> float:
    """The memory in MB that three steps add to the peak."""
    torch.manual_seed(0)
    layer = layers(channels)[side]
    small, batch = Batch.of_sizes([4], channels), Batch.of_sizes([atoms] * graphs, channels)
    step(side, layer, small)
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    for _ in range(3):
        step(side, layer, batch)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - pages * os.sysconf("SC_PAGE_SIZE") / 2**20


TIMED = {"sizes": measure_sizes, "molecules": measure_molecules}
ALLOCATORS = {"default": "Default allocator", "kept": "Memory kept"}


def main() -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--atoms", type=int, nargs="+", default=[10, 20, 40, 80], help="--memory takes the last")
    parser.add_argument("--hidden", type=int, nargs="+", default=[64, 128], help=f"channels, in heads of {HEAD_DIM}")
    parser.add_argument("--batch", type=int, default=64, help="graphs in a batch")
    parser.add_argument("--batches", type=int, nargs="+", default=[64, 256], help="of molecules")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--budget", type=float, default=0.25, help="seconds of one layer in a round")
    parser.add_argument("--allocator", choices=(*ALLOCATORS, "both"), default="both")
    parser.add_argument("--sizes", action="store_true", help="only the table over numbers of atoms")
    parser.add_argument("--molecules", action="store_true", help="only the table over molecules")
    parser.add_argument("--memory", action="store_true", help="only the table of peak memory")
    parser.add_argument("--side", help=argparse.SUPPRESS)
    parser.add_argument("--table", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.side:
        print(peak(arguments.side, arguments.hidden[0], arguments.atoms[0], arguments.batch))
        return
    if arguments.table:
        if arguments.allocator == "kept":
            keep_memory()
        TIMED[arguments.table](arguments)
        return
    everything = not (arguments.sizes or arguments.molecules or arguments.memory)
    for name in TIMED:
        for allocator, title in ALLOCATORS.items():
            if (everything or getattr(arguments, name)) and arguments.allocator in (allocator, "both"):
                print(f"{title}, {name}:\n", flush=True)
                options = [*sys.argv[1:], "--table", name, "--allocator", allocator]
                subprocess.run([sys.executable, __file__, *options], check=True)
                print(flush=True)
    if everything or arguments.memory:
        measure_memory(arguments)
    reason = LIBRARY.unavailable_reason()
    implementation = f"No compiled attention ({reason})" if reason else "Compiled attention"
    print(f"\n{describe_machine(machine(('torch', 'torch_geometric')))} {implementation}.")


if __name__ == "__main__":
    main()
