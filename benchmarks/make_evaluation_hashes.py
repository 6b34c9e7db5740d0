"""Write `datasets/evaluation-molecules.txt`: hashes of the molecules that models are evaluated on.

    MOLATTN_DATA=folder python benchmarks/make_evaluation_hashes.py

The tables of the data sets are downloaded if necessary, as by `molattn train --dataset NAME`. A hash is the first 12
hexadecimal digits of the sha256 of the first block of an InChIKey: of a molecule, and of each of its fragments.
Pretraining excludes molecules with one of these hashes.
"""

from pathlib import Path

from molattn.data import column, fetch_dataset, read_table
from molattn.data.datasets.excluded_molecules import EVALUATION_SETS, HASH_FILE, ExcludedMolecules

HEAD = """\
# Hashes of the molecules of {names}, which no pretraining may see.
# Each is the first 12 hexadecimal digits of the sha256 of the first block of an InChIKey, of a molecule or of one of
# its fragments. Written by: python benchmarks/make_evaluation_hashes.py
"""


def main() -> None:
    """Write the file, and print the numbers of hashes."""
    excluded = ExcludedMolecules(())
    for name in EVALUATION_SETS:
        card, _ = fetch_dataset(name)
        smiles = column(read_table(card.path), card.smiles_column)
        found = ExcludedMolecules.from_smiles(smiles)
        print(f"{name}: {len(smiles)} rows, {len(found)} hashes")
        excluded |= found
    path = Path(__file__).parents[1] / "datasets" / HASH_FILE
    text = HEAD.format(names=", ".join(EVALUATION_SETS)) + "".join(f"{d}\n" for d in sorted(excluded.hashes))
    path.write_text(text, encoding="ascii")
    print(f"{path}: {len(excluded)} hashes")


if __name__ == "__main__":
    main()
