"""Write `datasets/evaluation-molecules.txt`: hashes of the molecules that models are evaluated on.

    MOLATTN_DATA=folder python benchmarks/make_evaluation_hashes.py
    MOLATTN_DATA=folder python benchmarks/make_evaluation_hashes.py --further hashes.txt

The tables of the data sets are downloaded if necessary, as by `molattn train --dataset NAME`. Of the data sets that
results are reported on with splits of our own, all molecules are taken; of TDC's ADMET group and MoleculeACE, with
their fixed tests, the test molecules. `--further` adds the hashes in a file, of molecules of other evaluation sets. A
hash is the first 12 hexadecimal digits of the sha256 of the first block of an InChIKey: of a molecule, and of each of
its fragments. Pretraining excludes molecules with one of these hashes.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

from molattn.data import column, dataset_names, fetch_dataset, read_table
from molattn.data.datasets.excluded_molecules import (
    EVALUATION_GROUPS,
    EVALUATION_SETS,
    HASH_FILE,
    ExcludedMolecules,
    read_hashes,
)

HEAD = """\
# Hashes of molecules that models are evaluated on, which no pretraining may see: {names};
# the test molecules of {groups}; and {further} of other evaluation sets.
# Each is the first 12 hexadecimal digits of the sha256 of the first block of an InChIKey, of a molecule or of one of
# its fragments. Written by: python benchmarks/make_evaluation_hashes.py
"""


def evaluation_smiles() -> Iterator[tuple[str, list[str]]]:
    """The names of the data sets, each with the SMILES of the molecules that models are evaluated on."""
    for name in EVALUATION_SETS:
        card, _ = fetch_dataset(name)
        yield name, column(read_table(card.path), card.smiles_column)
    for name in dataset_names():
        if name.startswith(tuple(f"{group}/" for group in EVALUATION_GROUPS)):
            card, _ = fetch_dataset(name)
            table = read_table(card.path)
            assert card.official_split is not None
            parts = column(table, card.official_split.column)
            smiles = column(table, card.smiles_column)
            yield name, [text for text, part in zip(smiles, parts, strict=True) if part == "test"]


def main() -> None:
    """Write the file, and print the numbers of hashes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--further", type=Path, help="a file of hashes to add, one per line")
    arguments = parser.parse_args()
    excluded = ExcludedMolecules(())
    for name, smiles in evaluation_smiles():
        found = ExcludedMolecules.from_smiles(smiles)
        print(f"{name}: {len(smiles)} molecules, {len(found)} hashes")
        excluded |= found
    further = ExcludedMolecules(read_hashes(arguments.further) if arguments.further else ())
    print(f"{arguments.further}: {len(further)} hashes")
    path = Path(__file__).parents[1] / "datasets" / HASH_FILE
    names, groups = ", ".join(EVALUATION_SETS), " and ".join(EVALUATION_GROUPS)
    excluded |= further
    text = HEAD.format(names=names, groups=groups, further=len(further)) + "".join(
        f"{d}\n" for d in sorted(excluded.hashes)
    )
    path.write_text(text, encoding="ascii")
    print(f"{path}: {len(excluded)} hashes")


if __name__ == "__main__":
    main()
