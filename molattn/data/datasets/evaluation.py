"""The molecules that models are judged on, as hashes: no pretraining may see them, however they came up."""

import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from molattn.chem import inchikey_skeletons
from molattn.data.datasets.cards import datasets_dir
from molattn.errors import InputError, SmilesError

EVALUATION_SETS = ("esol", "freesolv", "lipophilicity", "bbbp", "tox21")
"""The data sets that results are reported on, by name."""

HASH_FILE = "evaluation-molecules.txt"
"""Where the hashes lie in the folder of data sets, one a line; lines that begin with # say what they are."""

HASH_DIGITS = 12


def molecule_hash(skeleton: str) -> str:
    """The first 12 hexadecimal digits of the sha256 of a skeleton."""
    return hashlib.sha256(skeleton.encode("ascii")).hexdigest()[:HASH_DIGITS]


class ExcludedMolecules:
    """Molecules that are known by their hashes alone: `smiles in excluded`.

    A molecule is one of them if it, or one of its fragments, shares the first block of the InChIKey with one of them,
    or with a fragment of one: see `molattn.chem.inchikey_skeletons`. One for which InChI has no key is taken for one of
    them.

    Args:
        digests: what `molecule_hash` gives of every skeleton.
    """

    def __init__(self, digests: Iterable[str]):
        self.digests = frozenset(digests)

    def __len__(self) -> int:
        return len(self.digests)

    def __contains__(self, smiles: object) -> bool:
        """Whether it must not be seen. Raises SmilesError for what is not a molecule."""
        found = inchikey_skeletons(smiles)
        return not found or any(molecule_hash(skeleton) in self.digests for skeleton in found)

    def __or__(self, other: "ExcludedMolecules") -> "ExcludedMolecules":
        return ExcludedMolecules(self.digests | other.digests)

    @classmethod
    def of(cls, smiles: Iterable[object]) -> "ExcludedMolecules":
        """The hashes of molecules at hand; what is no molecule, or has no InChI, has none."""
        digests: set[str] = set()
        for text in smiles:
            try:
                digests.update(map(molecule_hash, inchikey_skeletons(text)))
            except SmilesError:
                continue
        return cls(digests)


@cache
def evaluation_molecules() -> ExcludedMolecules:
    """The molecules of `EVALUATION_SETS`.

    Raises:
        InputError: the file of hashes is missing or is none.
    """
    path = datasets_dir() / HASH_FILE
    try:
        digests = read_hashes(path)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read ({error}): reinstall molattn") from error
    return ExcludedMolecules(digests)


def read_hashes(path: Path) -> list[str]:
    """The hashes in a file, in its order.

    Raises:
        OSError: there is no such file.
        ValueError: a line is no hash.
    """
    lines = [line for line in path.read_text(encoding="ascii").splitlines() if not line.startswith("#")]
    for line in lines:
        if len(line) != HASH_DIGITS or set(line) - set("0123456789abcdef"):
            raise ValueError(f"{line[:20]!r} is no hash")
    return lines
