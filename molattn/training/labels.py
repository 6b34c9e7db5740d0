"""Labels for the molecules that were read from a table; every row is either used or rejected with a reason."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from molattn.chem import canonical_smiles, read_smiles, standardized_smiles
from molattn.chem.parse import NO_ATOM_LIMIT
from molattn.data.tables.atom_lists import offsets_from_counts
from molattn.data.tables.records import Records
from molattn.data.tables.table import RejectedRow, Table
from molattn.errors import UsageError, short_repr
from molattn.models.base import MoleculeModel
from molattn.training.encoded_table import EncodedTable


def molecule_key(smiles: object, standardize: str = "") -> str:
    """The canonical SMILES of a molecule, of any number of atoms; with `standardize` that of its standard form."""
    if standardize:
        smiles = standardized_smiles(smiles, standardize, NO_ATOM_LIMIT)
    return canonical_smiles(read_smiles(smiles, max_atoms=NO_ATOM_LIMIT), max_atoms=NO_ATOM_LIMIT)


@dataclass(frozen=True)
class MatchedLabels:
    """The records that are molecules with labels, and the rejected rows.

    Attributes:
        indices: (n,) of the records that can be used, ascending.
        targets: (N, T) labels, NaN where missing: a row for each molecule, or one for each of its atoms, molecule by
            molecule, in the order of the SMILES.
        rejected: the rows of the table that cannot be used, in order, and why.
        offsets: (n + 1,) row pointers, as in `LabelledMolecules`; None for one row per molecule.
        bounds: (n, T, 2), as in `Records`, or None.
    """

    indices: np.ndarray
    targets: np.ndarray
    rejected: list[RejectedRow]
    offsets: np.ndarray | None = None
    bounds: np.ndarray | None = None


def match_labels(
    records: Records,
    sizes: Sequence[int] | np.ndarray,
    error: Callable[[int], str],
    table: Table,
    encoded: EncodedTable,
    names: Sequence[str],
) -> MatchedLabels:
    """Match the records of a table with the molecules that were read from them.

    A list of targets belongs to the atoms that the model reads, in the order of the SMILES. A row with a list of
    another length is rejected, and so is one whose SMILES cannot be read.

    Args:
        records: of the table.
        sizes: the number of atoms or tokens of each record's molecule; 0 if there is none.
        error: returns why there is no molecule, by the index of the record.
        table: the table that the records were read from.
        encoded: the table's targets; its reasons explain rows without a class.
        names: of the targets.
    """
    sizes = np.asarray(sizes, dtype=np.int64)
    reasons = {i: error(i) for i in np.flatnonzero(sizes == 0).tolist()}
    for i, lists in enumerate(records.atom_targets or ()):
        if sizes[i] and (reason := _length_mismatch(lists, names, records.smiles[i], int(sizes[i]))):
            reasons[i] = reason
    indices = np.setdiff1d(np.arange(len(sizes)), list(reasons))
    rejected = [replace(r, reason=encoded.reasons.get(r.row, r.reason)) for r in records.rejected]
    for i, reason in reasons.items():
        row = int(records.rows[i])
        rejected.append(table.reject(row, records.smiles[i], reason))
    rejected.sort(key=lambda r: r.row)
    if records.atom_targets is None:
        bounds = None if records.bounds is None else records.bounds[indices]
        return MatchedLabels(indices, records.targets[indices], rejected, bounds=bounds)
    parts = [_stack_columns(records.atom_targets[i], int(sizes[i])) for i in indices.tolist()]
    targets = np.concatenate([np.empty((0, len(names))), *parts])
    return MatchedLabels(indices, targets, rejected, offsets_from_counts(sizes[indices]))


def check_atom_targets(model: type[MoleculeModel], standardize: str) -> None:
    """Raise UsageError if the model or standardization does not support atom-level targets."""
    if not model.supports_atom_level:
        raise UsageError("atom-level targets need a graph model, and this one reads SMILES as text: use --model graph")
    if standardize:
        raise UsageError(
            "--standardize changes the order of atoms, and lists of targets follow the order in the SMILES: leave it "
            "out, or standardize the table beforehand, with its lists"
        )


def molecule_means(targets: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """The mean over the labelled atoms of each molecule, (n, T) from (N, T); NaN for a molecule without labels."""
    # Sorted before they are summed: the last digit must not depend on the order of the atoms.
    parts = [np.sort(part, axis=0) for part in np.split(targets, offsets[1:-1])]
    known = [np.isfinite(part).sum(0) for part in parts]
    return np.array([np.nansum(part, 0) / np.where(n > 0, n, np.nan) for part, n in zip(parts, known, strict=True)])


def _stack_columns(lists: Sequence[np.ndarray], n: int) -> np.ndarray:
    """The lists as the columns of an array, (n, T); an empty list becomes a column of NaN."""
    return np.stack([numbers if len(numbers) else np.full(n, np.nan) for numbers in lists], 1)


def _length_mismatch(lists: Sequence[np.ndarray], names: Sequence[str], smiles: str, n: int) -> str:
    """The error if a list does not have one value for each of the n atoms; empty if all do."""
    for numbers, name in zip(lists, names, strict=True):
        if len(numbers) not in (0, n):
            values = "1 value" if len(numbers) == 1 else f"{len(numbers)} values"
            atoms = "1 atom" if n == 1 else f"{n} atoms"
            advice = _hydrogen_advice(smiles, n, len(numbers))
            return f"column {short_repr(name)}: {values} for the {atoms} of {short_repr(smiles)}{advice}"
    return ""


def _hydrogen_advice(smiles: str, n: int, values: int) -> str:
    """Advice if the list seems to include hydrogens that are not atoms of the graph; empty if it does not."""
    with_hydrogens = read_smiles(smiles, max_atoms=NO_ATOM_LIMIT, add_hs=True).GetNumAtoms()
    if with_hydrogens == n or (values != with_hydrogens and "[H]" not in smiles):
        return ""
    return (
        ": hydrogens are not atoms of the graph, even those written as [H]: leave their values out, or add --add-hs, "
        f"which puts them after the others, {with_hydrogens} atoms in all"
    )
