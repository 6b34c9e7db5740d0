"""The attention layer beside `TransformerConv` and `GATv2Conv` of PyG: how many times faster, and in how much memory.

    python benchmarks/attention_layers.py

Forward and backward, the nodes asking for a gradient as they do anywhere but in a first layer, on complete graphs with
self-loops and 8 random edge features; 64 channels in 4 heads and 128 in 8; one thread. Ours does TransformerConv's
maths with the same weights: edges in keys and values, and a skip connection; before anything is timed the two are
compared. GATv2Conv has maths of its own. The three run in turns; a figure is the median over rounds of the ratio within
a round (CPU time of the process), with the quartiles in brackets: above 1 ours is faster. Each table is measured twice,
in processes of their own: with the allocator as it comes, and with one told to keep its memory (`mallopt`). Page faults
are a large part of PyG's time, and only the second ratio is about arithmetic.

`--molecules` takes random batches of the sizes of ESOL's molecules and of those of the NCI's that come with RDKit.
There ours gets them cut into dense batches of like size, PyG one edge list; putting either together is not counted.
`--filled` says how many of the pairs that are worked on are pairs of atoms: where batches are padded to their largest
molecule, drawn at random or sorted by size, and where they are cut. `--memory` takes the most memory that a process of
one side ever held.
"""

import argparse
import csv
import ctypes
import os
import platform
import random
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import torch
from torch import Tensor, nn
from torch_geometric.nn import GATv2Conv, TransformerConv

from molattn.attention import linear
from molattn.graph import BucketedGraphs, Graph, bucketed_edge_attention, cut_by_size
from molattn.graph.compiled import library, why_not

EDGE_DIM = 8
HEAD_DIM = 16
BATCH = {10: 64, 20: 64, 40: 64, 80: 64, 160: 16}
"""Graphs in a batch; at 160 atoms PyG's messages of 64 graphs would not fit into the memory of a small machine."""


class TensorDot(nn.Module):
    """TransformerConv's maths, with its weights.

    o_i = sum_j softmax_j( q_i . (k_j + W_e e_ij) / sqrt(d) ) (v_j + W_e e_ij) + W_s v_i
    """

    def __init__(self, like: TransformerConv):
        super().__init__()
        layers = (like.lin_query, like.lin_key, like.lin_value, like.lin_skip)
        self.heads = like.heads
        self.weight = nn.Parameter(torch.cat([layer.weight for layer in layers]).detach().clone())
        self.bias = nn.Parameter(torch.cat([layer.bias for layer in layers]).detach().clone())
        self.w_e = nn.Parameter(like.get_parameter("lin_edge.weight").detach().clone())

    def forward(self, v: Tensor, graphs: BucketedGraphs) -> Tensor:
        """(rows, channels) to the same."""
        packed = linear(v, self.weight, self.bias).unflatten(-1, (4, self.heads, -1))
        w_e = self.w_e.unflatten(0, (self.heads, -1))
        return bucketed_edge_attention(packed, graphs, w_e, w_e).flatten(1)


@dataclass(frozen=True)
class Batch:
    """One batch in both forms."""

    graph: Graph
    edge_index: Tensor
    bucketed: BucketedGraphs
    v: Tensor
    rows: Tensor
    dv: Tensor
    drows: Tensor

    @classmethod
    def of_sizes(cls, sizes: list[int], channels: int) -> "Batch":
        """Complete graphs of these sizes with random nodes and edges."""
        counts = torch.tensor(sizes)
        first = counts.cumsum(0) - counts
        sender = torch.cat([torch.arange(n).repeat(n) + a for n, a in zip(sizes, first.tolist(), strict=True)])
        receiver = torch.cat(
            [torch.arange(n).repeat_interleave(n) + a for n, a in zip(sizes, first.tolist(), strict=True)]
        )
        v, e = torch.randn(int(counts.sum()), channels), torch.randn(len(sender), EDGE_DIM)
        node_graph = torch.repeat_interleave(torch.arange(len(sizes)), counts)
        graph = Graph(v, sender, receiver, node_graph, len(sizes), e)
        bucketed = BucketedGraphs.from_graph(graph)
        edge_index = torch.stack([sender, receiver])
        rows, dv = bucketed.v, torch.randn_like(v)
        drows = torch.zeros_like(rows).index_copy(0, bucketed.place, dv)
        return cls(graph, edge_index, bucketed, v.clone().requires_grad_(), rows.requires_grad_(), dv, drows)


def layers(channels: int) -> dict[str, nn.Module]:
    """Ours and the peers, ours with TransformerConv's weights."""
    heads = channels // HEAD_DIM
    transformer = TransformerConv(channels, HEAD_DIM, heads, edge_dim=EDGE_DIM)
    gat = GATv2Conv(channels, HEAD_DIM, heads, edge_dim=EDGE_DIM, add_self_loops=False)
    return {"ours": TensorDot(transformer), "TransformerConv": transformer, "GATv2Conv": gat}


def step(name: str, layer: nn.Module, batch: Batch) -> Tensor:
    """Forward and backward; the output."""
    layer.zero_grad()
    batch.v.grad = batch.rows.grad = None
    ours = name == "ours"
    output = layer(batch.rows, batch.bucketed) if ours else layer(batch.v, batch.edge_index, batch.graph.e)
    output.backward(batch.drows if ours else batch.dv)
    return output.detach()


def check(sides: dict[str, nn.Module], batch: Batch) -> None:
    """Ours and TransformerConv agree, output and gradient of the nodes, to 1e-5 of the largest number.

    Raises:
        AssertionError: they do not.
    """
    ours = batch.bucketed.in_order(step("ours", sides["ours"], batch))
    of_rows = batch.rows.grad
    theirs = step("TransformerConv", sides["TransformerConv"], batch)
    assert of_rows is not None and batch.v.grad is not None
    for a, b in ((ours, theirs), (batch.bucketed.in_order(of_rows), batch.v.grad)):
        apart = float((a - b).abs().max() / b.abs().max())
        assert apart < 1e-5, f"the two sides lie {apart:.1e} apart"
    assert int(of_rows.any(-1).sum()) == len(batch.v), "the padding has gradients"


def ratios(sides: dict[str, nn.Module], batches: list[Batch], rounds: int, budget: float) -> list[str]:
    """Ours in microseconds per graph, and how many times longer each peer takes: median and quartiles."""

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
    graphs = sum(batch.graph.num_graphs for batch in batches)
    times: dict[str, list[float]] = {name: [] for name in sides}
    for i in range(rounds):
        # Who goes first takes turns too: the first call of a round finds colder caches.
        for name in list(sides) if i % 2 else list(sides)[::-1]:
            times[name].append(seconds(name, repeats[name]))
    cells = [f"{statistics.median(times['ours']) / graphs * 1e6:.0f}"]
    for name in list(sides)[1:]:
        low, middle, high = statistics.quantiles([a / b for a, b in zip(times[name], times["ours"], strict=True)], n=4)
        cells.append(f"{middle:.1f} [{low:.1f}, {high:.1f}]")
    return cells


def esol_sizes() -> list[int]:
    """The heavy atoms of ESOL's molecules."""
    from rdkit import Chem

    table = Path(__file__).parent.parent / "datasets" / "esol.csv"
    with table.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    column = next(name for name in rows[0] if name.lower() == "smiles")
    molecules = (Chem.MolFromSmiles(row[column]) for row in rows)
    return [molecule.GetNumAtoms() for molecule in molecules if molecule is not None]


def nci_sizes() -> list[int]:
    """The heavy atoms of the molecules of the NCI that come with RDKit."""
    from rdkit import Chem, RDConfig, rdBase

    rdBase.DisableLog("rdApp.*")
    lines = (Path(RDConfig.RDDataDir) / "NCI" / "first_5K.smi").read_text(encoding="utf-8").splitlines()
    molecules = (Chem.MolFromSmiles(line.split()[0]) for line in lines if line.split())
    return [molecule.GetNumAtoms() for molecule in molecules if molecule is not None and molecule.GetNumAtoms()]


MOLECULES: dict[str, Callable[[], list[int]]] = {"ESOL": esol_sizes, "NCI": nci_sizes}


def keep_memory() -> None:
    """Tell glibc's allocator to give no memory back, and to ask for plenty at a time."""
    libc = ctypes.CDLL("libc.so.6")
    trim_threshold, top_pad, mmap_threshold = -1, -2, -3
    for option, value in ((mmap_threshold, 2**30), (trim_threshold, 2**31 - 1), (top_pad, 2**26)):
        if not libc.mallopt(option, value):
            raise OSError("the allocator takes no advice")


def measure_sizes(arguments: argparse.Namespace) -> None:
    """The table over numbers of atoms."""
    print("| channels | heads | atoms | batch | ours, us per graph | TransformerConv | GATv2Conv |")
    print("|---|---|---|---|---|---|---|")
    for channels in arguments.hidden:
        for atoms in arguments.atoms:
            torch.manual_seed(0)
            sides = layers(channels)
            graphs = arguments.batch or BATCH.get(atoms, 64)
            batch = Batch.of_sizes([atoms] * graphs, channels)
            check(sides, batch)
            cells = ratios(sides, [batch], arguments.rounds, arguments.budget)
            print(f"| {channels} | {channels // HEAD_DIM} | {atoms} | {graphs} | {' | '.join(cells)} |", flush=True)


def measure_molecules(arguments: argparse.Namespace) -> None:
    """The table over random batches of molecules as they come."""
    print(
        "| molecules | channels | heads | batch | buckets | filled | ours, us per graph | TransformerConv | GATv2Conv |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for name, sizes_of in MOLECULES.items():
        sizes = sizes_of()
        for channels in arguments.hidden:
            for graphs in arguments.batches:
                torch.manual_seed(0)
                sides = layers(channels)
                draw = random.Random(0)
                batches = [Batch.of_sizes(draw.sample(sizes, graphs), channels) for _ in range(4)]
                for batch in batches:
                    check(sides, batch)
                parts = [bucket for batch in batches for bucket in batch.bucketed.buckets]
                filled = sum(len(b.graph.sender) for b in batches) / sum(
                    p.node_mask[:, None].numel() * p.node_mask.shape[1] for p in parts
                )
                cells = ratios(sides, batches, arguments.rounds, arguments.budget)
                shape = f"{name} | {channels} | {channels // HEAD_DIM} | {graphs} | {len(parts) / 4:.1f} | {filled:.2f}"
                print(f"| {shape} | {' | '.join(cells)} |", flush=True)


def measure_filled(arguments: argparse.Namespace) -> None:
    """The table of the pairs of atoms among all that dense batches hold."""
    print("| molecules | batch | random, padded | sorted, padded | random, cut by size | dense batches for each |")
    print("|---|---|---|---|---|---|")
    for name, sizes_of in MOLECULES.items():
        sizes = sizes_of()
        mixed = random.Random(0).sample(sizes, len(sizes))
        for graphs in arguments.batches:
            batches = [mixed[i : i + graphs] for i in range(0, len(mixed), graphs)]
            cut = [[batch[i] for i in bucket] for batch in batches for bucket in cut_by_size(batch)]
            ordered = [sorted(sizes)[i : i + graphs] for i in range(0, len(sizes), graphs)]
            cells = [f"{_filled(padded):.2f}" for padded in (batches, ordered, cut)]
            print(f"| {name} | {graphs} | {' | '.join(cells)} | {len(cut) / len(batches):.1f} |", flush=True)


def _filled(batches: list[list[int]]) -> float:
    """Pairs of atoms over pairs of places, where each batch is padded to its largest graph."""
    return sum(n * n for sizes in batches for n in sizes) / sum(len(sizes) * max(sizes) ** 2 for sizes in batches)


def measure_memory(arguments: argparse.Namespace) -> None:
    """The table of peak memory: each side in a process of its own, less what it held before the first step."""
    print("| channels | heads | atoms | batch | ours, MB | TransformerConv, MB | ratio |")
    print("|---|---|---|---|---|---|---|")
    for channels in arguments.hidden:
        sizes = {}
        for side in ("ours", "TransformerConv"):
            command = [sys.executable, __file__, "--side", side, "--hidden", str(channels)]
            sizes[side] = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        cells = f"{sizes['ours']:.0f} | {sizes['TransformerConv']:.0f} | {sizes['TransformerConv'] / sizes['ours']:.1f}"
        print(f"| {channels} | {channels // HEAD_DIM} | 80 | 64 | {cells} |", flush=True)


def peak(side: str, channels: int) -> None:
    """Print what three steps add to the most memory ever held, in MB."""
    torch.manual_seed(0)
    sides = layers(channels)
    small, batch = Batch.of_sizes([4], channels), Batch.of_sizes([80] * 64, channels)
    step(side, sides[side], small)
    before = resident()
    for _ in range(3):
        step(side, sides[side], batch)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - before)


def resident() -> float:
    """The memory that the process holds now, in MB."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def main() -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--atoms", type=int, nargs="+", default=[10, 20, 40, 80, 160])
    parser.add_argument("--hidden", type=int, nargs="+", default=[64, 128], help=f"channels, in heads of {HEAD_DIM}")
    parser.add_argument("--batch", type=int, help="graphs in a batch; 64 by default, 16 of 160 atoms")
    parser.add_argument("--batches", type=int, nargs="+", default=[64, 256], help="of molecules as they come")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--budget", type=float, default=0.25, help="seconds of one side in a round")
    parser.add_argument("--allocator", choices=("default", "kept", "both"), default="both")
    parser.add_argument("--sizes", action="store_true", help="only the table over numbers of atoms")
    parser.add_argument("--molecules", action="store_true", help="only the table over molecules as they come")
    parser.add_argument("--filled", action="store_true", help="only the table of pairs that are pairs of atoms")
    parser.add_argument("--memory", action="store_true", help="only the table of peak memory")
    parser.add_argument("--side", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.side:
        peak(arguments.side, arguments.hidden[0])
        return
    everything = not (arguments.sizes or arguments.molecules or arguments.filled or arguments.memory)
    timed = [name for name in ("sizes", "molecules") if everything or getattr(arguments, name)]
    if arguments.allocator != "both":
        if arguments.allocator == "kept":
            keep_memory()
        for name in timed:
            {"sizes": measure_sizes, "molecules": measure_molecules}[name](arguments)
            print(flush=True)
        return
    for name in timed:
        for allocator, title in (("default", "Allocator as it comes"), ("kept", "Memory kept")):
            print(f"{title}:\n", flush=True)
            subprocess.run(
                [sys.executable, __file__, *_passed(arguments), f"--{name}", "--allocator", allocator], check=True
            )
    for name, table in (("filled", measure_filled), ("memory", measure_memory)):
        if everything or getattr(arguments, name):
            table(arguments)
            print()
    packages = ", ".join(f"{name} {version(name)}" for name in ("torch", "torch_geometric"))
    way = "compiled attention" if library() is not None else f"no compiled attention ({why_not()})"
    print(
        f"One thread of a machine with {os.cpu_count()} CPU cores ({platform.machine()}, "
        f"{torch.backends.cpu.get_cpu_capability()}), {packages}, {way}."
    )


def _passed(arguments: argparse.Namespace) -> list[str]:
    """The options that a process for one table is given."""
    passed = ["--rounds", str(arguments.rounds), "--budget", str(arguments.budget)]
    for name in ("atoms", "hidden", "batches"):
        passed += [f"--{name}", *map(str, getattr(arguments, name))]
    return passed + (["--batch", str(arguments.batch)] if arguments.batch else [])


if __name__ == "__main__":
    main()
