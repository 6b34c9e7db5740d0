"""Write splits of ESOL into datasets/splits: molattn's own `random` split with seeds 3 to 9, and `scaffold-balanced`.

    python benchmarks/make_splits.py                             # random3 to random9, where they are kept
    python benchmarks/make_splits.py --split scaffold-balanced --seeds 0
    python benchmarks/make_splits.py --seeds 10 11 -o folder     # others, elsewhere

A file has a row per row of the table. The two rows of a repeated molecule are on one side, unlike in random0 to
random2, which were cut row by row.
"""

import argparse
from pathlib import Path

import numpy as np

from molattn.chem import canonical_smiles, read_smiles
from molattn.data import SPLITS, column, datasets_dir, load_card, read_table, split_labels, write_table


def main() -> None:
    """Write one file per seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="esol")
    parser.add_argument("--split", choices=list(SPLITS), default="random")
    parser.add_argument("--seeds", type=int, nargs="+", default=range(3, 10))
    parser.add_argument("-o", "--output-dir", type=Path, default=datasets_dir() / "splits")
    arguments = parser.parse_args()
    card = load_card(arguments.dataset)
    table = read_table(card.path)
    smiles, values = column(table, card.smiles_column), column(table, card.targets[0].name)
    keys = [canonical_smiles(read_smiles(text)) for text in smiles]
    targets = np.array([float(value) for value in values])
    for seed in arguments.seeds:
        path = arguments.output_dir / f"{card.name}-{arguments.split}{seed}.csv"
        sides = split_labels(arguments.split, keys, targets, (0.8, 0.1, 0.1), seed)
        write_table(path, ("smiles", "split"), zip(smiles, sides, strict=True))
        print(path)


if __name__ == "__main__":
    main()
