"""Hashes of the molecules of evaluation data sets, which are excluded from pretraining."""

import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from molattn.chem import inchikey_skeletons
from molattn.data.datasets.folders import datasets_dir
from molattn.errors import InputError, SmilesError

EVALUATION_SETS = ("esol", "freesolv", "lipophilicity", "bbbp", "tox21")
"""Data sets that results are reported on with several splits: all their molecules are excluded."""

EVALUATION_GROUPS = ("tdc", "moleculeace")
"""Groups of data sets with fixed test rows: their test molecules are excluded."""

HASH_FILE = "evaluation-molecules.txt"
"""The file of hashes of `EVALUATION_SETS` in the folder of data sets, one per line; lines that begin with # are
comments."""

TEST_HASH_FILE = "test-molecules.txt"
"""The file of hashes of the test molecules of `EVALUATION_GROUPS` and of other test sets."""

HASH_DIGITS = 12
"""Length of a hash, in hexadecimal digits."""


def molecule_hash(skeleton: str) -> str:
    """The first `HASH_DIGITS` hexadecimal digits of the SHA-256 of a skeleton, the first block of an InChIKey."""
    return hashlib.sha256(skeleton.encode("ascii")).hexdigest()[:HASH_DIGITS]


class ExcludedMolecules:
    """A set of molecules, stored as hashes; `smiles in excluded` is whether a molecule is in it.

    A molecule is in the set if it, or one of its fragments, has the same first InChIKey block as a molecule of the set
    or one of its fragments: see `molattn.chem.inchikey_skeletons`. A molecule without an InChIKey is in every set.

    Args:
        hashes: the `molecule_hash` of every skeleton.
    """

    def __init__(self, hashes: Iterable[str]):
        self.hashes = frozenset(hashes)

    def __len__(self) -> int:
        return len(self.hashes)

    def __contains__(self, smiles: object) -> bool:
        """Whether a molecule is excluded. Raises SmilesError for an invalid SMILES."""
        skeletons = inchikey_skeletons(smiles)
        return not skeletons or any(molecule_hash(skeleton) in self.hashes for skeleton in skeletons)

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
