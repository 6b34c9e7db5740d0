"""`TensorDotConv` beside `TransformerConv` and `GATv2Conv` of PyG: how many times faster, and in how much memory.

    python benchmarks/attention_layers.py

Forward and backward, the nodes asking for a gradient as they do anywhere but in a first layer, on complete graphs with
self-loops and 8 random edge features; 64 channels in 4 heads and 128 in 8; one thread. Ours is called as users call it:
`forward_dense` with the graphs padded to the largest, and `forward` with the edge list that PyG's layers get. It holds
TransformerConv's weights (`TensorDotConv.from_pyg`), and before anything is timed outputs and gradients of both forms
are compared with TransformerConv's; GATv2Conv has maths of its own. The four run in turns. A ratio is the median over
rounds of the ratio within a round (CPU time of the process), with the quartiles in brackets: above 1 ours is faster.
Each table is measured twice, in processes of their own: with the allocator as it comes, and with one told to keep its
memory (`mallopt`). Page faults are a large part of PyG's time, and only the second ratio is about arithmetic.

`--molecules` takes batches of the sizes of ESOL's molecules and of those of the NCI's that come with RDKit, drawn as
training draws them (`molattn.data.store.batches.BucketBatchSampler`); "filled" is how many of the pairs of places in
the padded form are pairs of atoms. Putting batches together is not counted. `--memory` takes the most memory that a
process of one side ever held.
"""

import argparse
import csv
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
from report import in_words, machine
from torch import Tensor, nn
from torch_geometric.nn import GATv2Conv, TransformerConv

from molattn.data.store.batches import BucketBatchSampler
from molattn.graph import DenseGraph, Graph, TensorDotConv
from molattn.kernels.edge_attention import load_library, unavailable_reason

EDGE_DIM = 8
HEAD_DIM = 16
OURS = ("forward_dense", "forward")
THEIRS = ("TransformerConv", "GATv2Conv")
MEASURED = (*(f"{name}, us per graph" for name in OURS), *(f"{b} / {a}" for a in OURS for b in THEIRS))


@dataclass(frozen=True)
class Batch:
    """Complete graphs in both forms, and the gradient that comes back to the output of each node."""

    dense: DenseGraph
    listed: Graph
    edge_index: Tensor
    dy: Tensor

    @classmethod
    def of_sizes(cls, sizes: list[int], channels: int) -> "Batch":
        """Graphs of these sizes with random nodes and edges."""
        b, n = len(sizes), max(sizes)
        mask = torch.arange(n) < torch.tensor(sizes).unsqueeze(-1)
        dense = DenseGraph(torch.randn(b, n, channels), mask, torch.randn(b, n, n, EDGE_DIM))
        listed = dense.to_edge_list()
        for x in (dense.v, listed.v):
            x.requires_grad_()
        dy = torch.randn(b, n, channels).masked_fill(~mask.unsqueeze(-1), 0.0)
        return cls(dense, listed, torch.stack([listed.sender, listed.receiver]), dy)

    @property
    def filled(self) -> float:
        """Pairs of nodes over pairs of places."""
        return len(self.listed.sender) / self.dense.edges.numel()


def layers(channels: int) -> dict[str, nn.Module]:
    """Each side and its layer, ours with TransformerConv's weights."""
    heads = channels // HEAD_DIM
    transformer = TransformerConv(channels, HEAD_DIM, heads, edge_dim=EDGE_DIM)
    gat = GATv2Conv(channels, HEAD_DIM, heads, edge_dim=EDGE_DIM, add_self_loops=False)
    ours = TensorDotConv.from_pyg(transformer)
    return {"forward_dense": ours, "forward": ours, "TransformerConv": transformer, "GATv2Conv": gat}


def step(name: str, layer: nn.Module, batch: Batch) -> Tensor:
    """Forward and backward; the output."""
    layer.zero_grad()
    batch.dense.v.grad = batch.listed.v.grad = None
    if name == "forward_dense":
        assert isinstance(layer, TensorDotConv)
        output = layer.forward_dense(batch.dense.v, batch.dense.node_mask, batch.dense.e)
        output.backward(batch.dy)
    else:
        output = layer(batch.listed.v, batch.edge_index, batch.listed.e)
        output.backward(batch.dy[batch.dense.node_mask])
    return output.detach()


def check(sides: dict[str, nn.Module], batch: Batch) -> None:
    """Both forms of ours and TransformerConv agree: output and gradients of nodes to 1e-5 of the largest, those of the
    edge weight, sums over all edges, to 1e-4.

    Raises:
        AssertionError: they do not.
    """
    answers = []
    for name, weight in (("TransformerConv", "lin_edge"), ("forward_dense", "phi_e.w_ke"), ("forward", "phi_e.w_ke")):
        output, v = step(name, sides[name], batch), batch.listed.v.grad
        if name == "forward_dense":
            assert batch.dense.v.grad is not None
            output, v = output[batch.dense.node_mask], batch.dense.v.grad[batch.dense.node_mask]
        answers.append((output, v, sides[name].get_parameter(f"{weight}.weight").grad))
    for ours in answers[1:]:
        for a, b, tolerance in zip(ours, answers[0], (1e-5, 1e-5, 1e-4), strict=True):
            apart = float((a - b).abs().max() / b.abs().max())
            assert apart < tolerance, f"the two sides lie {apart:.1e} apart"


def measured(sides: dict[str, nn.Module], batches: list[Batch], rounds: int, budget: float) -> list[str]:
    """The cells under `MEASURED`: microseconds per graph of ours, and how many times longer a peer takes."""

    def seconds(name: str, repeats: int) -> float:
        start = time.process_time()
        for _ in range(repeats):
            for batch in batches:
                step(name, sides[name], batch)
        return (time.process_time() - start) / repeats

    repeats = {}
    for name in sides:
        seconds(name, 1)
        repeats[name] = max(1, round(budget / seconds(name, 1)))
    times: dict[str, list[float]] = {name: [] for name in sides}
    for i in range(rounds):
        # Who goes first takes turns too: the first call of a round finds colder caches.
        for name in list(sides) if i % 2 else list(sides)[::-1]:
            times[name].append(seconds(name, repeats[name]))
    graphs = sum(batch.listed.num_graphs for batch in batches)
    cells = [f"{statistics.median(times[name]) / graphs * 1e6:.0f}" for name in OURS]
    for ours in OURS:
        for theirs in THEIRS:
            ratios = [b / a for a, b in zip(times[ours], times[theirs], strict=True)]
            low, middle, high = statistics.quantiles(ratios, n=4)
            cells.append(f"{middle:.1f} [{low:.1f}, {high:.1f}]")
    return cells


def esol_sizes() -> list[int]:
    """The heavy atoms of ESOL's molecules."""
    with (Path(__file__).parents[1] / "datasets" / "esol.csv").open(newline="", encoding="utf-8") as file:
        return _atoms([row["smiles"] for row in csv.DictReader(file)])


def nci_sizes() -> list[int]:
    """The heavy atoms of the molecules of the NCI that come with RDKit."""
    from rdkit import RDConfig

    lines = (Path(RDConfig.RDDataDir) / "NCI" / "first_5K.smi").read_text(encoding="utf-8").splitlines()
    return _atoms([line.split()[0] for line in lines if line.split()])


def _atoms(smiles: list[str]) -> list[int]:
    from rdkit import Chem, rdBase

    rdBase.DisableLog("rdApp.*")
    molecules = map(Chem.MolFromSmiles, smiles)
    return [molecule.GetNumAtoms() for molecule in molecules if molecule is not None and molecule.GetNumAtoms()]


def keep_memory() -> None:
    """Tell glibc's allocator to give no memory back, and to ask for plenty at a time."""
    libc = ctypes.CDLL("libc.so.6")
    trim_threshold, top_pad, mmap_threshold = -1, -2, -3
    for option, value in ((mmap_threshold, 2**30), (trim_threshold, 2**31 - 1), (top_pad, 2**26)):
        if not libc.mallopt(option, value):
            raise OSError("the allocator takes no advice")


def _row(*cells: object) -> None:
    print(f"| {' | '.join(map(str, cells))} |", flush=True)


def _header(*columns: str) -> None:
    _row(*columns)
    _row(*["---"] * len(columns))


def measure_sizes(arguments: argparse.Namespace) -> None:
    """The table over numbers of atoms."""
    _header("channels", "heads", "atoms", "batch", *MEASURED)
    for channels in arguments.hidden:
        for atoms in arguments.atoms:
            torch.manual_seed(0)
            sides, batch = layers(channels), Batch.of_sizes([atoms] * arguments.batch, channels)
            check(sides, batch)
            cells = measured(sides, [batch], arguments.rounds, arguments.budget)
            _row(channels, channels // HEAD_DIM, atoms, arguments.batch, *cells)


def measure_molecules(arguments: argparse.Namespace) -> None:
    """The table over batches of molecules, as training draws them."""
    _header("molecules", "channels", "heads", "batch", "filled", *MEASURED)
    for name, sizes in (("ESOL", esol_sizes()), ("NCI", nci_sizes())):
        for channels in arguments.hidden:
            for graphs in arguments.batches:
                torch.manual_seed(0)
                sides = layers(channels)
                drawn = islice(BucketBatchSampler(sizes, graphs, seed=0), 4)
                batches = [Batch.of_sizes([sizes[i] for i in rows], channels) for rows in drawn]
                for batch in batches:
                    check(sides, batch)
                filled = statistics.mean(batch.filled for batch in batches)
                cells = measured(sides, batches, arguments.rounds, arguments.budget)
                _row(name, channels, channels // HEAD_DIM, graphs, f"{filled:.2f}", *cells)


def measure_memory(arguments: argparse.Namespace) -> None:
    """The table of peak memory: each side in a process of its own, less what it held before the first step."""
    names = (*OURS, THEIRS[0])
    _header("channels", "heads", "atoms", "batch", *(f"{name}, MB" for name in names))
    atoms, graphs = arguments.atoms[-1], arguments.batch
    for channels in arguments.hidden:
        options = ["--hidden", str(channels), "--atoms", str(atoms), "--batch", str(graphs)]
        commands = [[sys.executable, __file__, "--side", name, *options] for name in names]
        peaks = [subprocess.run(command, check=True, capture_output=True, text=True).stdout for command in commands]
        _row(channels, channels // HEAD_DIM, atoms, graphs, *(f"{float(peak):.0f}" for peak in peaks))


def peak(side: str, channels: int, atoms: int, graphs: int) -> float:
    """What three steps add to the most memory ever held, in MB."""
    torch.manual_seed(0)
    layer = layers(channels)[side]
    small, batch = Batch.of_sizes([4], channels), Batch.of_sizes([atoms] * graphs, channels)
    step(side, layer, small)
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    for _ in range(3):
        step(side, layer, batch)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - pages * os.sysconf("SC_PAGE_SIZE") / 2**20


TIMED = {"sizes": measure_sizes, "molecules": measure_molecules}
ALLOCATORS = {"default": "Allocator as it comes", "kept": "Memory kept"}


def main() -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--atoms", type=int, nargs="+", default=[10, 20, 40, 80], help="--memory takes the last")
    parser.add_argument("--hidden", type=int, nargs="+", default=[64, 128], help=f"channels, in heads of {HEAD_DIM}")
    parser.add_argument("--batch", type=int, default=64, help="graphs in a batch")
    parser.add_argument("--batches", type=int, nargs="+", default=[64, 256], help="of molecules")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--budget", type=float, default=0.25, help="seconds of one side in a round")
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
    way = "Compiled attention" if load_library() is not None else f"No compiled attention ({unavailable_reason()})"
    print(f"\n{in_words(machine(('torch', 'torch_geometric')))} {way}.")


if __name__ == "__main__":
    main()
