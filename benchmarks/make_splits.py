"""Write the splits of the arena into datasets/splits, made by molattn's own splits with the number as the seed.

    python benchmarks/make_splits.py                                         # ESOL: random3 to random9
    python benchmarks/make_splits.py --splits scaffold-balanced0 random10 -o folder
    python benchmarks/make_splits.py --dataset freesolv                      # all that the arena has, in one table

Of ESOL each split is a file of SMILES and sides, for `--splits-file`. Of another data set, whose molecules do not come
with molattn, all are columns of one table without SMILES, row by row of the data set's table: beside it they serve as
`--split-column`. A row that RDKit cannot read has no side. Rows of one molecule are on one side, unlike in ESOL's
random0 to random2, which were cut row by row.
"""

import argparse
from pathlib import Path

import numpy as np
from accuracy import DIGEST, SPLITS, Dataset, split_file

from molattn.data import datasets_dir, write_table


def main() -> None:
    """Write the files, and name them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="esol")
    parser.add_argument("--splits", nargs="+", help="random3, scaffold-balanced0, ...")
    parser.add_argument("-o", "--output-dir", type=Path, default=datasets_dir() / "splits")
    arguments = parser.parse_args()
    dataset = Dataset.load(arguments.dataset)

    def labels(split: str) -> np.ndarray:
        sides = np.full(len(dataset.table_smiles), "", dtype="<U5")
        sides[dataset.rows] = dataset.made(split)
        return sides

    if dataset.name == "esol":
        for split in arguments.splits or [f"random{seed}" for seed in range(3, 10)]:
            path = arguments.output_dir / split_file(dataset.name, split).name
            write_table(path, ("smiles", "split"), zip(dataset.table_smiles, labels(split), strict=True))
            print(path)
    else:
        splits = arguments.splits or SPLITS
        path = arguments.output_dir / split_file(dataset.name).name
        write_table(path, (DIGEST, *splits), zip(dataset.digests(), *map(labels, splits), strict=True))
        print(path)


if __name__ == "__main__":
    main()
