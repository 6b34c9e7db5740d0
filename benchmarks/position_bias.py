"""What a key bias per position is good for: eight trainings, their final losses beside the published ones.

    python benchmarks/position_bias.py              # 200 epochs each, under a minute
    python benchmarks/position_bias.py --seed 1

Each training is one multi-head self-attention layer on 1,000 inputs of 5 rows and 7 channels, uniform in [0, 1); Adam
at 0.001 on batches of 32, mean squared error. "Row 2" is the second one, index 1. Seeds differ from the published run,
so the figures are of an order of magnitude: what must hold is how they compare with each other.
"""

import argparse
import os
import platform
import time
from importlib.metadata import version

import torch

from molattn.sequence import TRAININGS, train_on_positions


def main() -> None:
    """Train, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # the layer is too small to share
    print("| task | key bias | heads | head size | final loss | published |")
    print("|---|---|---|---|---|---|")
    start = time.perf_counter()
    for t in TRAININGS:
        loss = train_on_positions(t, arguments.epochs, arguments.seed).losses[-1]
        kind = t.key_bias.replace("_", " ")
        print(f"| {t.task} | {kind} | {t.num_heads} | {t.head_dim} | {loss:.2g} | {t.published_loss:.2g} |", flush=True)
    seconds = time.perf_counter() - start
    print(
        f"\nSeed {arguments.seed}, {arguments.epochs} epochs, {seconds:.0f} s in all, on one thread of "
        f"a machine with {os.cpu_count()} CPU cores ({platform.machine()}), torch {version('torch')}."
    )


if __name__ == "__main__":
    main()
