"""Speed of `MultiHeadAttention` and `torch.nn.MultiheadAttention` on the same inputs: the ratio of their times.

    python benchmarks/multihead_speed.py

Both layers have the same weights (`MultiHeadAttention.from_torch`) and the same self-attention inputs, 64 channels in 4
heads, and do not return weights; forward, and forward with backward; without a mask and with padding. They run in turns
on one thread; each value is the median over rounds of the ratio within a round (CPU time of the process), with the
quartiles in brackets. Below 1 molattn is faster.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from report import describe_machine, machine, markdown
from torch import Tensor, nn

from molattn.attention import MultiHeadAttention, padding_mask

CHANNELS, HEADS = 64, 4
PASSES = ("forward", "with backward")


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
    # In training mode: in evaluation mode torch's layer takes a path without gradients.
    ours = MultiHeadAttention.from_torch(theirs).train()
    rows = []
    for batch in arguments.batches:
        for length in arguments.lengths:
            x = torch.randn(batch, length, CHANNELS)
            is_real = torch.arange(length) < torch.randint(length // 2, length + 1, (batch, 1))
            cells = []
            for backward in (False, True):
                for mask in (None, is_real):
                    ours_mask, padding = (None, None) if mask is None else (padding_mask(mask), ~mask)
                    cells.append(
                        time_ratio(
                            lambda x=x, mask=ours_mask: ours(x, mask=mask),
                            lambda x=x, mask=padding: theirs(x, x, x, key_padding_mask=mask, need_weights=False)[0],
                            backward,
                            arguments,
                        )
                    )
            rows.append([f"{batch} x {length}", *cells])
    print(markdown(["batch x length", *(f"{w}{p}" for w in PASSES for p in ("", ", padded"))], rows))
    print(f"\n{describe_machine(machine(('torch',)))}")


if __name__ == "__main__":
    main()
