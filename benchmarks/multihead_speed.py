"""Multi-head attention beside `torch.nn.MultiheadAttention` on the same work: the ratio of their times.

    python benchmarks/multihead_speed.py

Both layers hold the same weights (`MultiHeadAttention.from_torch`) and see the same self-attention inputs, 64 channels
in 4 heads, without weights asked for; forward, and forward with backward; without a mask and with padding. They run in
turns on one thread; a figure is the median over rounds of the ratio within a round (CPU time of the process), with the
quartiles in brackets. Below 1 molattn is faster.
"""

import argparse
import os
import platform
import statistics
import time
from collections.abc import Callable
from importlib.metadata import version

import torch
from torch import Tensor, nn

from molattn.attention import MultiHeadAttention, padding_mask

CHANNELS, HEADS = 64, 4


def seconds(call: Callable[[], object], repeats: int) -> float:
    """CPU seconds of `repeats` calls."""
    start = time.process_time()
    for _ in range(repeats):
        call()
    return time.process_time() - start


def ratio(ours: Callable[[], object], theirs: Callable[[], object], rounds: int, budget: float) -> str:
    """The median of ours / theirs over `rounds` rounds of about `budget` seconds, and its quartiles."""
    for call in (ours, theirs):
        seconds(call, 3)
    repeats = max(1, round(budget / 2 / max(1e-5, seconds(theirs, 5) / 5)))
    ratios = []
    for i in range(rounds):
        # Who goes first takes turns too: the first call of a round finds colder caches.
        if i % 2:
            b, a = seconds(theirs, repeats), seconds(ours, repeats)
        else:
            a, b = seconds(ours, repeats), seconds(theirs, repeats)
        ratios.append(a / b)
    low, middle, high = statistics.quantiles(ratios, n=4)
    return f"{middle:.2f} [{low:.2f}, {high:.2f}]"


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", type=int, nargs="+", default=[16, 64, 256, 1024])
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 16, 64])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--budget", type=float, default=0.1, help="seconds of a round")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    theirs = nn.MultiheadAttention(CHANNELS, HEADS, batch_first=True)
    # In training mode: in evaluation torch's layer leaves the path that can be trained for one that cannot.
    ours = MultiHeadAttention.from_torch(theirs).train()
    print("| batch x length | forward | forward, padded | with backward | with backward, padded |")
    print("|---|---|---|---|---|")
    for batch in arguments.batches:
        for length in arguments.lengths:
            x = torch.randn(batch, length, CHANNELS)
            there = torch.arange(length) < torch.randint(length // 2, length + 1, (batch, 1))
            cells = []
            for backward in (False, True):
                for padded in (False, True):
                    cells.append(_measured(ours, theirs, x, there if padded else None, backward, arguments))
            print(f"| {batch} x {length} | {' | '.join(cells)} |", flush=True)
    print(
        f"\nOne thread of a machine with {os.cpu_count()} CPU cores ({platform.machine()}), torch {version('torch')}."
    )


def _measured(
    ours: MultiHeadAttention,
    theirs: nn.MultiheadAttention,
    x: Tensor,
    there: Tensor | None,
    backward: bool,
    arguments: argparse.Namespace,
) -> str:
    mask = None if there is None else padding_mask(there)
    hidden = None if there is None else ~there

    def our_call() -> None:
        y = ours(x, mask=mask)
        if backward:
            y.sum().backward()

    def their_call() -> None:
        y, _ = theirs(x, x, x, key_padding_mask=hidden, need_weights=False)
        if backward:
            y.sum().backward()

    with torch.set_grad_enabled(backward):
        return ratio(our_call, their_call, arguments.rounds, arguments.budget)


if __name__ == "__main__":
    main()
