"""The attention layer whose pairs of atoms have a bias by code, beside the arithmetic that nobody can leave out.

    python benchmarks/layer_floor.py

The layer is o = W_o attend(W_q v, W_k v, W_v v), with the bias that each of its heads (of 16 channels) has for one of
22 codes of a pair, such as path lengths. Its floor is the time of its matrix products alone, of the atoms that there
are and not of padding, at the rate at which torch multiplies matrices of 1,024 here: with N atoms of D channels and P
pairs of atoms, 2 N D (4 D) + 4 P D operations forward and twice as many backward. The rate and the layer are measured
in turns in one process, one thread, CPU time; figures are medians over rounds, with quartiles in brackets.

Molecules come in random batches, cut into dense batches of like size; putting them together is not counted. Attention
is in float32, training a step forward and backward with gradients for atoms, maps and biases. A minute of CPU time.
"""

import argparse
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from attention_layers import HEAD_DIM, MOLECULES, Batch
from report import in_words, machine, markdown, save, shown, spread
from torch import Tensor, nn

from molattn.attention import linear
from molattn.graph import BucketedGraphs, code_attention
from molattn.graph.compiled import library, why_not

CODES = 22
COLUMNS = ("molecules", "channels", "heads", "batch", "filled", "matrix rate, GFLOP/s", "floor, us")
WAYS = ("training, us", "times its floor", "forward only, us", "times its floor")


class BiasLayer(nn.Module):
    """o = W_o attend(W_q v, W_k v, W_v v), with a bias by code."""

    def __init__(self, channels: int):
        super().__init__()
        self.heads = channels // HEAD_DIM
        self.w_qkv = nn.Parameter(torch.randn(3 * channels, channels) * channels**-0.5)
        self.w_o = nn.Parameter(torch.randn(channels, channels) * channels**-0.5)
        self.table = nn.Parameter(torch.randn(self.heads, CODES))

    def forward(self, v: Tensor, graphs: BucketedGraphs, codes: list[Tensor]) -> Tensor:
        """(rows, channels) to the same."""
        packed = linear(v, self.w_qkv).unflatten(-1, (3, self.heads, HEAD_DIM))
        return linear(code_attention(packed, graphs, codes, self.table).flatten(1), self.w_o)


def codes_of(graphs: BucketedGraphs) -> list[Tensor]:
    """A random code for every pair."""
    return [torch.randint(CODES, (p.b, p.n, p.n), dtype=torch.uint8) for p in graphs.places]


def operations(batches: list[Batch], channels: int) -> tuple[int, int]:
    """Multiplications and additions of the matrix products, forward and backward, of atoms and pairs that there are."""
    atoms = sum(len(batch.v) for batch in batches)
    pairs = sum(len(batch.graph.sender) for batch in batches)
    forward = 8 * atoms * channels**2 + 4 * pairs * channels
    return forward, 2 * forward


def cpu(work: Callable[[], object]) -> float:
    """The CPU time of a call."""
    start = time.process_time()
    work()
    return time.process_time() - start


def measure(sizes: list[int], channels: int, graphs: int, rounds: int) -> dict[str, Any]:
    """One row of the table."""
    torch.manual_seed(0)
    draw = random.Random(0)
    batches = [Batch.of_sizes(draw.sample(sizes, graphs), channels) for _ in range(4)]
    work = [(batch, codes_of(batch.bucketed)) for batch in batches]
    layer = BiasLayer(channels)
    square = torch.randn(1024, 1024)

    def training() -> None:
        for batch, codes in work:
            layer.zero_grad()
            batch.rows.grad = None
            layer(batch.rows, batch.bucketed, codes).backward(batch.drows)

    def forward() -> None:
        with torch.inference_mode():
            for batch, codes in work:
                layer(batch.rows, batch.bucketed, codes)

    for _ in range(3):
        training()
        forward()
        torch.mm(square, square)
    rates, times = [], {"training": [], "forward": []}
    for _ in range(rounds):
        rates.append(4 * 2 * 1024**3 / cpu(lambda: [torch.mm(square, square) for _ in range(4)]))
        times["training"].append(cpu(lambda: [training() for _ in range(4)]) / 4)
        times["forward"].append(cpu(lambda: [forward() for _ in range(8)]) / 8)
    of_forward, of_backward = operations(batches, channels)
    count, rate = 4 * graphs, statistics.median(rates)
    floors = {"training": (of_forward + of_backward) / rate, "forward": of_forward / rate}
    rows = sum(p.b * p.n * p.n for batch in batches for p in batch.bucketed.places)
    result: dict[str, Any] = {
        "channels": channels,
        "batch": graphs,
        "filled": sum(len(batch.graph.sender) for batch in batches) / rows,
        "rate": spread(rates),
    }
    for name, seconds in times.items():
        result[name] = spread(s / count * 1e6 for s in seconds)
        result[f"{name} floor"] = floors[name] / count * 1e6
        result[f"{name} times"] = spread(s * r / (rate * floors[name]) for s, r in zip(seconds, rates, strict=True))
    return result


def main() -> None:
    """Measure, print the table, write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hidden", type=int, nargs="+", default=[64, 128], help=f"channels, in heads of {HEAD_DIM}")
    parser.add_argument("--batches", type=int, nargs="+", default=[64, 256])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("-o", "--output", type=Path, help="a JSON file for every figure")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    results, rows = [], []
    for name, sizes_of in MOLECULES.items():
        sizes = sizes_of()
        for channels in arguments.hidden:
            for graphs in arguments.batches:
                result = {"molecules": name, **measure(sizes, channels, graphs, arguments.rounds)}
                results.append(result)
                cells: list[object] = [name, channels, channels // HEAD_DIM, graphs, f"{result['filled']:.2f}"]
                cells += [f"{result['rate']['median'] / 1e9:.0f}", f"{result['training floor']:.1f}"]
                for way in ("training", "forward"):
                    cells += [f"{result[way]['median']:.1f}", shown(result[f"{way} times"])]
                rows.append(cells)
    print(markdown((*COLUMNS, *WAYS), rows))
    where = machine(("torch",))
    way = "Compiled attention" if library() is not None else f"No compiled attention ({why_not()})"
    print(f"\n{in_words(where)} {way}.")
    if arguments.output:
        settings = {"hidden": arguments.hidden, "batches": arguments.batches, "rounds": arguments.rounds}
        save(arguments.output, "layer_floor", settings, results, where)


if __name__ == "__main__":
    main()
