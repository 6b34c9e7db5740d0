"""Write `datasets/evaluation-molecules.txt` and `test-molecules.txt`: hashes of molecules that models are evaluated on.

    MOLATTN_DATA=folder python benchmarks/make_evaluation_hashes.py
    MOLATTN_DATA=folder python benchmarks/make_evaluation_hashes.py --further hashes.txt

The tables of the data sets are downloaded if necessary, as by `molattn train --dataset NAME`. The first file has all
molecules of the data sets that results are reported on with splits of our own; the second the test molecules of TDC's
ADMET group and MoleculeACE, which have fixed tests, and the hashes that `--further` adds, of molecules of other test
sets. A hash is the first 12 hexadecimal digits of the sha256 of the first block of an InChIKey: of a molecule, and of
each of its fragments. Pretraining excludes molecules with one of these hashes.
"""

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path

from molattn.data import column, dataset_names, fetch_dataset, read_table
from molattn.data.datasets.excluded_molecules import (
    EVALUATION_GROUPS,
    EVALUATION_SETS,
    HASH_FILE,
    TEST_HASH_FILE,
    ExcludedMolecules,
    read_hashes,
)

FORM = """\
# Each is the first 12 hexadecimal digits of the sha256 of the first block of an InChIKey, of a molecule or of one of
# its fragments. Written by: python benchmarks/make_evaluation_hashes.py
"""
HEAD = "# Hashes of the molecules of {names}, which no pretraining may see.\n" + FORM
TEST_HEAD = (
    """\
# Hashes of the test molecules of {groups}, and {further:,} of other test sets, which no pretraining may see, in
# addition to those in {file}.
"""
    + FORM
)


def test_smiles() -> Iterator[tuple[str, list[str]]]:
    """The data sets with a fixed test, each with the SMILES of its test molecules."""
    for name in dataset_names():
        if name.startswith(tuple(f"{group}/" for group in EVALUATION_GROUPS)):
            card, _ = fetch_dataset(name)
            table = read_table(card.path)
            assert card.official_split is not None
            parts, smiles = column(table, card.official_split.column), column(table, card.smiles_column)
            yield name, [text for text, part in zip(smiles, parts, strict=True) if part == "test"]


def collect(molecules: Iterable[tuple[str, list[str]]]) -> ExcludedMolecules:
    """The hashes of the molecules of data sets; prints their numbers."""
    excluded = ExcludedMolecules(())
    for name, smiles in molecules:
        found = ExcludedMolecules.from_smiles(smiles)
        print(f"{name}: {len(smiles)} molecules, {len(found)} hashes")
        excluded |= found
    return excluded


def write(name: str, head: str, hashes: Iterable[str]) -> None:
    """Write a file of hashes into the folder of data sets."""
    path = Path(__file__).parents[1] / "datasets" / name
    lines = sorted(hashes)
    path.write_text(head + "".join(f"{line}\n" for line in lines), encoding="ascii")
    print(f"{path}: {len(lines)} hashes")


def main() -> None:
    """Write the files, and print the numbers of hashes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--further", type=Path, help="a file of hashes to add, one per line")
    arguments = parser.parse_args()
    cards = (fetch_dataset(name)[0] for name in EVALUATION_SETS)
    whole = collect((card.name, column(read_table(card.path), card.smiles_column)) for card in cards)
    tests = collect(test_smiles())
    further = ExcludedMolecules(read_hashes(arguments.further) if arguments.further else ())
    write(HASH_FILE, HEAD.format(names=", ".join(EVALUATION_SETS)), whole.hashes)
    head = TEST_HEAD.format(groups=" and ".join(EVALUATION_GROUPS), further=len(further), file=HASH_FILE)
    write(TEST_HASH_FILE, head, (tests | further).hashes - whole.hashes)


if __name__ == "__main__":
    main()
