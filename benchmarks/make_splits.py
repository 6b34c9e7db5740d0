"""Write the random splits 3 to 9 of ESOL into datasets/splits: molattn's own `random` split with those seeds.

    python benchmarks/make_splits.py                          # writes them where they are kept
    python benchmarks/make_splits.py --seeds 10 11 -o folder  # others, elsewhere

A file has a row per row of the table. The two rows of a repeated molecule are on one side, unlike in random0 to
random2, which were cut row by row.
"""

import argparse
from pathlib import Path

from molattn.chem import canonical_smiles, read_smiles
from molattn.data import column, datasets_dir, load_card, random_split, read_table, write_table


def main() -> None:
    """Write one file per seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="esol")
    parser.add_argument("--seeds", type=int, nargs="+", default=range(3, 10))
    parser.add_argument("-o", "--output-dir", type=Path, default=datasets_dir() / "splits")
    arguments = parser.parse_args()
    card = load_card(arguments.dataset)
    smiles = column(read_table(card.path), card.smiles_column)
    keys = [canonical_smiles(read_smiles(text)) for text in smiles]
    for seed in arguments.seeds:
        path = arguments.output_dir / f"{card.name}-random{seed}.csv"
        write_table(path, ("smiles", "split"), zip(smiles, random_split(keys, seed=seed), strict=True))
        print(path)


if __name__ == "__main__":
    main()
