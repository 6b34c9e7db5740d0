"""Write the splits of `accuracy.py` to datasets/splits, made by `molattn.data` with the number as the seed.

    python benchmarks/make_splits.py                                         # ESOL: random3 to random9
    python benchmarks/make_splits.py --splits scaffold-balanced0 random10 -o folder
    python benchmarks/make_splits.py --dataset freesolv                      # all splits, in one table

For ESOL, each split is a file with columns smiles and split, for `--splits-file`. For other data sets, whose molecules
are not part of molattn, the splits are columns of one table without SMILES, in the order of the data set's table, for
`--split-column`. The label of a row that RDKit cannot read is empty. All rows of a molecule have the same label, except
in ESOL's random0 to random2, which were made by row.
"""

import argparse
from pathlib import Path

import numpy as np
from accuracy import DIGEST, SPLITS, Dataset, split_file

from molattn.data import datasets_dir, write_table


def main() -> None:
    """Write the files, and print their names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="esol")
    parser.add_argument("--splits", nargs="+", help="random3, scaffold-balanced0, ...")
    parser.add_argument("-o", "--output-dir", type=Path, default=datasets_dir() / "splits")
    arguments = parser.parse_args()
    dataset = Dataset.load(arguments.dataset)

    def table_labels(split: str) -> np.ndarray:
        labels = np.full(len(dataset.table_smiles), "", dtype="<U5")
        labels[dataset.rows] = dataset.new_split_labels(split)
        return labels

    if dataset.name == "esol":
        for split in arguments.splits or [f"random{seed}" for seed in range(3, 10)]:
            path = arguments.output_dir / split_file(dataset.name, split).name
            write_table(path, ("smiles", "split"), zip(dataset.table_smiles, table_labels(split), strict=True))
            print(path)
    else:
        splits = arguments.splits or SPLITS
        path = arguments.output_dir / split_file(dataset.name).name
        write_table(path, (DIGEST, *splits), zip(dataset.digests(), *map(table_labels, splits), strict=True))
        print(path)


if __name__ == "__main__":
    main()
