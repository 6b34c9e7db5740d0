"""From the rows of a table, and the molecules made of their SMILES, to labels; each row is accounted for."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from molattn.chem import read_smiles
from molattn.data.tables.atom_lists import offsets_of
from molattn.data.tables.records import Records, Rejected
from molattn.data.tables.table import Table
from molattn.errors import UsageError, short_repr
from molattn.models.base import MoleculeModel
from molattn.training.targets import Coded

ANY_NUMBER = 10**9
"""More atoms than a molecule has: those that are read here were within the limit before."""


@dataclass(frozen=True)
class Settled:
    """The rows that are molecules with labels, and the others.

    Attributes:
        kept: (n,) their places among the records, ascending.
        targets: (N, T) labels, NaN where missing: a row for each molecule, or one for each of its atoms, molecule by
            molecule, in the order of the SMILES.
        rejected: the rows of the table that cannot be used, and why, in their order.
        offsets: (n + 1,) where the rows of targets of each molecule begin, and where the last end; None for one each.
    """

    kept: np.ndarray
    targets: np.ndarray
    rejected: list[Rejected]
    offsets: np.ndarray | None = None


def settle(
    records: Records,
    sizes: Sequence[int] | np.ndarray,
    error: Callable[[int], str],
    table: Table,
    coded: Coded,
    names: Sequence[str],
) -> Settled:
    """Put records and the molecules that were made of them together.

    A list of targets belongs to the atoms that the model reads, in the order of the SMILES: one of another length is
    a reason to leave the row out. So is what is no molecule.

    Args:
        records: of the table.
        sizes: how many places the molecule of each record has; 0 where there is none.
        error: why there is none, by the place of the record.
        table: which they are of.
        coded: says why a row holds no class.
        names: of the targets.
    """
    sizes = np.asarray(sizes, dtype=np.int64)
    reasons = {i: error(i) for i in np.flatnonzero(sizes == 0).tolist()}
    for i, lists in enumerate(records.lists or ()):
        if sizes[i] and (reason := _misfit(lists, names, records.smiles[i], int(sizes[i]))):
            reasons[i] = reason
    kept = np.setdiff1d(np.arange(len(sizes)), list(reasons))
    rejected = [replace(r, reason=coded.reasons.get(r.row, r.reason)) for r in records.rejected]
    for i, reason in reasons.items():
        row = int(records.rows[i])
        rejected.append(Rejected(row, table.lines[row], records.smiles[i], reason, table.unit))
    rejected.sort(key=lambda r: r.row)
    if records.lists is None:
        return Settled(kept, records.targets[kept], rejected)
    parts = [_side_by_side(records.lists[i], int(sizes[i])) for i in kept.tolist()]
    targets = np.concatenate([np.empty((0, len(names))), *parts])
    return Settled(kept, targets, rejected, offsets_of(sizes[kept]))


def check_atoms(model: type[MoleculeModel], standardize: str) -> None:
    """UsageError for what does not go with targets of atoms: a model, a standard form."""
    if not model.answers_atoms:
        raise UsageError("targets of atoms need a model of atoms, which a model of SMILES is not: use --model graph")
    if standardize:
        raise UsageError(
            "--standardize writes a molecule anew, and lists of targets follow the atoms as they are written: leave it "
            "out, or standardise the table beforehand, lists and all"
        )


def means_of_molecules(targets: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """(n, T) from (N, T): the mean over the labelled atoms of each molecule, whatever their order, NaN without one."""
    # Sorted before they are summed: the last digit must not depend on the order of the atoms.
    parts = [np.sort(part, axis=0) for part in np.split(targets, offsets[1:-1])]
    known = [np.isfinite(part).sum(0) for part in parts]
    return np.array([np.nansum(part, 0) / np.where(n > 0, n, np.nan) for part, n in zip(parts, known, strict=True)])


def _side_by_side(lists: Sequence[np.ndarray], n: int) -> np.ndarray:
    """(n, T); the column of an empty cell is all missing."""
    return np.stack([numbers if len(numbers) else np.full(n, np.nan) for numbers in lists], 1)


def _misfit(lists: Sequence[np.ndarray], names: Sequence[str], smiles: str, n: int) -> str:
    """Why the lists are not those of the n atoms of a molecule; empty where they are."""
    for numbers, name in zip(lists, names, strict=True):
        if len(numbers) not in (0, n):
            held = "1 value" if len(numbers) == 1 else f"{len(numbers)} values"
            atoms = "1 atom" if n == 1 else f"{n} atoms"
            hydrogens = _hydrogens(smiles, n, len(numbers))
            return f"column {short_repr(name)}: {held} for the {atoms} of {short_repr(smiles)}{hydrogens}"
    return ""


def _hydrogens(smiles: str, n: int, values: int) -> str:
    """What to do where the list seems to count hydrogens that are no atoms of the graph; empty where it does not."""
    whole = read_smiles(smiles, max_atoms=ANY_NUMBER, add_hs=True).GetNumAtoms()
    if whole == n or (values != whole and "[H]" not in smiles):
        return ""
    return (
        ": hydrogens are no atoms here, nor are those written as [H]: leave their values out, or add --add-hs, which "
        f"puts them behind the others, {whole} atoms in all"
    )
