"""What becomes of each SMILES that a model is asked about."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np

from molattn.chem import NO_GEOMETRY
from molattn.errors import MolattnWarning, SmilesError, short_repr
from molattn.models.base import Molecule
from molattn.models.descriptors import MoleculeRow, stack_descriptors

Value = float | str | tuple[float, ...] | tuple[str, ...]
"""What is said of one target: a number or the name of a class; or one for each atom."""

# The values of a molecule, and what stands beside them.
Said = tuple[tuple[Value, ...], tuple[Value, ...]]


@dataclass(frozen=True)
class RowPrediction:
    """What became of one SMILES.

    Attributes:
        smiles: as it was given.
        values: the prediction per target: a number in units, the probability of the positive class, or the name of
            a class; of a target of atoms, a tuple with one for each atom, in the order of the SMILES; or the numbers of
            the fingerprint, where that was asked for. None when there is an error.
        error: why there is none; empty otherwise.
        warnings: what the model could not see in the molecule, a sentence each.
        more: what stands beside the values, see `molattn.Predictor.more`; empty when there is an error.
    """

    smiles: object
    values: tuple[Value, ...] | None
    error: str = ""
    warnings: tuple[str, ...] = ()
    more: tuple[Value, ...] = ()


def columns(rows: Iterable[Sequence[Any]]) -> tuple[Value, ...]:
    """What is said of atoms, (n, T), target by target: T tuples of n."""
    return tuple(zip(*rows, strict=True))


def all_finite(values: Value | Said | tuple[Value, ...]) -> bool:
    """Whether there is no number among some values that is NaN or infinite."""
    if isinstance(values, tuple):
        return all(all_finite(value) for value in values)
    return isinstance(values, str) or isfinite(values)


def of_each_atom(row: RowPrediction) -> list[RowPrediction]:
    """What is said of a molecule's atoms as a row for each; none where there is no prediction."""
    if row.values is None:
        return []
    values: list[Any] = list(zip(*row.values, strict=True))  # pyright: ignore[reportArgumentType]
    more: list[Any] = list(zip(*row.more, strict=True)) or [()] * len(values)  # pyright: ignore[reportArgumentType]
    return [RowPrediction(row.smiles, v, more=m) for v, m in zip(values, more, strict=True)]


def without_geometry(rows: Sequence[RowPrediction]) -> str:
    """How many predictions rest on path lengths for want of a 3D geometry, and the first; empty for none."""
    found = [(i, r, w) for i, r in enumerate(rows) if (w := geometry_warning(r))]
    if not found:
        return ""
    i, first, warning = found[0]
    count = f"{len(found)} of {len(rows)} SMILES have no 3D geometry"
    return f"{count}; the first, row {i}, {short_repr(first.smiles)}: {warning}"


def geometry_warning(row: RowPrediction) -> str:
    """What stands in for the 3D geometry of a molecule; empty where it has one, or none was asked for."""
    return next((w for w in row.warnings if w.startswith(NO_GEOMETRY)), "")


def answered(
    rows: Sequence[MoleculeRow], answer: Callable[[Sequence[Molecule], np.ndarray | None], list[Said | str]]
) -> Iterator[RowPrediction]:
    """A row for each SMILES: what is said of its molecule, or why nothing is, in the molecule's place."""
    molecules = [m for _, m, _ in rows if not isinstance(m, SmilesError)]
    answers = iter(answer(molecules, stack_descriptors(z for _, m, z in rows if not isinstance(m, SmilesError))))
    for text, outcome, _ in rows:
        if isinstance(outcome, SmilesError):
            yield RowPrediction(text, None, outcome.reason)
            continue
        said = next(answers)
        if isinstance(said, str):
            yield RowPrediction(text, None, said)
        else:
            values, more = said
            yield RowPrediction(text, values, "", outcome.warnings, more)


def warn(rows: Sequence[RowPrediction], what: str) -> None:
    """Tell whoever called the caller which rows have NaN, and which have no geometry."""
    bad = [(i, r) for i, r in enumerate(rows) if r.error]
    if bad:
        i, first = bad[0]
        message = f"{len(bad)} of {len(rows)} SMILES have no {what} (NaN); the first, row {i}, "
        warnings.warn(MolattnWarning(f"{message}{short_repr(first.smiles)}: {first.error}"), stacklevel=3)
    if message := without_geometry(rows):
        warnings.warn(MolattnWarning(message), stacklevel=3)
