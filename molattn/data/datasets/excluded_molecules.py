"""The molecules of the evaluation data sets, as hashes: they are excluded from pretraining."""

import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from molattn.chem import inchikey_skeletons
from molattn.data.datasets.folders import datasets_dir
from molattn.errors import InputError, SmilesError

EVALUATION_SETS = ("esol", "freesolv", "lipophilicity", "bbbp", "tox21")
"""The data sets that results are reported on with several splits, by name: all their molecules are excluded."""

EVALUATION_GROUPS = ("tdc", "moleculeace")
"""The groups of data sets with a fixed test split: their test molecules are excluded."""

HASH_FILE = "evaluation-molecules.txt"
"""The file of hashes of `EVALUATION_SETS` in the folder of data sets, one per line; lines that begin with # are
comments."""

TEST_HASH_FILE = "test-molecules.txt"
"""The file of further hashes: of the test molecules of `EVALUATION_GROUPS` and of other test sets."""

HASH_DIGITS = 12


def molecule_hash(skeleton: str) -> str:
    """The first 12 hexadecimal digits of the sha256 of a skeleton: see `molattn.chem.inchikey_skeletons`."""
    return hashlib.sha256(skeleton.encode("ascii")).hexdigest()[:HASH_DIGITS]


class ExcludedMolecules:
    """A set of molecules that are stored as hashes only: `smiles in excluded`.

    A SMILES is in the set if its molecule, or a fragment of it, has the same first block of the InChIKey as a molecule
    that was added, or as a fragment of one: see `molattn.chem.inchikey_skeletons`. A molecule without an InChIKey is in
    every set.

    Args:
        hashes: the `molecule_hash` of every skeleton.
    """

    def __init__(self, hashes: Iterable[str]):
        self.hashes = frozenset(hashes)

    def __len__(self) -> int:
        return len(self.hashes)

    def __contains__(self, smiles: object) -> bool:
        """Whether a molecule is excluded. Raises SmilesError for an invalid SMILES."""
        found = inchikey_skeletons(smiles)
        return not found or any(molecule_hash(skeleton) in self.hashes for skeleton in found)

    def __or__(self, other: "ExcludedMolecules") -> "ExcludedMolecules":
        return ExcludedMolecules(self.hashes | other.hashes)

    @classmethod
    def from_smiles(cls, smiles: Iterable[object]) -> "ExcludedMolecules":
        """The set of some molecules; an invalid SMILES, or one without an InChI, is ignored."""
        hashes: set[str] = set()
        for text in smiles:
            try:
                hashes.update(map(molecule_hash, inchikey_skeletons(text)))
            except SmilesError:
                continue
        return cls(hashes)


@cache
def evaluation_molecules() -> ExcludedMolecules:
    """The molecules of `EVALUATION_SETS`, the test molecules of `EVALUATION_GROUPS`, and those of other test sets.

    Raises:
        InputError: a file of hashes is missing or invalid.
    """
    hashes: list[str] = []
    for name in (HASH_FILE, TEST_HASH_FILE):
        path = datasets_dir() / name
        try:
            hashes += read_hashes(path)
        except (OSError, ValueError) as error:
            raise InputError(f"{path} cannot be read ({error}): reinstall molattn") from error
    return ExcludedMolecules(hashes)


def read_hashes(path: Path) -> list[str]:
    """The hashes in a file, in order.

    Raises:
        OSError: the file is missing.
        ValueError: a line is not a hash.
    """
    lines = [line for line in path.read_text(encoding="ascii").splitlines() if not line.startswith("#")]
    for line in lines:
        if len(line) != HASH_DIGITS or set(line) - set("0123456789abcdef"):
            raise ValueError(f"{line[:20]!r} is not a hash")
    return lines
