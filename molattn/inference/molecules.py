"""The molecules that a caller passes: one or many, SMILES or RDKit molecules, in a list, an array or a data frame."""

from collections.abc import Iterable, Iterator, Mapping, Set, Sized
from typing import Any, NamedTuple

import numpy as np

from molattn.chem import is_mol, smiles_from_mol
from molattn.chem.parse import is_missing
from molattn.data import guess_smiles_column
from molattn.errors import SmilesError, UsageError, short_repr, warn_caller


class SmilesInput(NamedTuple):
    """The molecules that a caller passed, as SMILES.

    Attributes:
        smiles: a SMILES for each molecule, in order; other objects, which a reader rejects, are passed on.
        single: whether one molecule was passed, and not a list of them.
        frame: the data frame that holds them, if there is one.
    """

    smiles: Iterable[object]
    single: bool = False
    frame: Any = None


def as_smiles(molecules: object, *, atom_order: bool = False) -> SmilesInput:
    """The SMILES of one molecule or of many.

    Args:
        molecules: a SMILES or an RDKit molecule, or an iterable of them: a list, a Series, an array, (n,) or (n, 1), a
            generator, which is read row by row. Or a data frame (pandas, polars, pyarrow): its only column, or the one
            that is named as the SMILES column of a table is.
        atom_order: whether to warn of RDKit molecules whose atoms cannot be written in their own order.

    Raises:
        TypeError: anything else, such as a number, numbers in place of all molecules, a dictionary, or a set, which has
            no order.
        UsageError: a data frame without a column of SMILES, or with several of the same name.

    >>> as_smiles(np.array([["CCO"], ["C"]])).smiles
    ['CCO', 'C']
    """
    if isinstance(molecules, str) or is_mol(molecules):
        return SmilesInput([*_mols_to_smiles([molecules], atom_order)], single=True)
    if hasattr(molecules, "collect_schema") and hasattr(molecules, "collect"):
        raise TypeError("a LazyFrame has no rows yet: pass the result of its collect()")
    names = getattr(molecules, "column_names", getattr(molecules, "columns", None))
    if names is not None:
        frame: Any = molecules
        column = frame[_smiles_column([*names])]
        return SmilesInput(_mols_to_smiles(_to_python_objects(column), atom_order), frame=frame)
    if isinstance(molecules, np.ndarray):
        if molecules.ndim != 1 and not (molecules.ndim == 2 and molecules.shape[1] == 1):
            raise TypeError(
                f"an array of shape {molecules.shape} is not a list of molecules: pass (n,) or (n, 1) SMILES"
            )
        return SmilesInput([*_mols_to_smiles(_to_python_objects(molecules.ravel().tolist()), atom_order)])
    if isinstance(molecules, Mapping | Set | bytes) or not isinstance(molecules, Iterable):
        raise TypeError(
            f"{type(molecules).__name__} is not a type of molecules: pass a SMILES or an RDKit molecule, or a list, "
            "an array, a Series or a data frame of them"
        )
    return SmilesInput(_mols_to_smiles(_to_python_objects(molecules), atom_order))


def _to_python_objects(column: Any) -> Iterable[object]:
    """The elements of a column, those of pyarrow converted to Python objects.

    Raises:
        TypeError: none of its elements can be a molecule. A single bad element is not an error here: the reader reports
            it for its row. The elements of an iterator are not checked, because they can be read only once.
    """
    elements: Iterable[object] = column.to_pylist() if hasattr(column, "to_pylist") else column
    if not isinstance(elements, Sized) or not len(elements):
        return elements
    if not any(isinstance(x, str) or is_mol(x) or is_missing(x) for x in elements):
        first = next(iter(elements))
        raise TypeError(
            f"the {len(elements):,} elements are not molecules, the first is {type(first).__name__} "
            f"{short_repr(first)}: pass SMILES or RDKit molecules"
        )
    return elements


def _smiles_column(names: list[Any]) -> Any:
    """The name of the SMILES column of a data frame."""
    if not names:
        raise UsageError("the data frame has no columns: pass one with a column of SMILES")
    if len(names) == 1:
        return names[0]
    try:
        name = names[[*map(str, names)].index(guess_smiles_column([*map(str, names)]))]
    except UsageError as error:
        found = str(error).partition(": ")[0]
        raise UsageError(f"{found}: pass the column of the SMILES, such as frame[{names[0]!r}]") from error
    if names.count(name) > 1:
        raise UsageError(f"the data frame has {names.count(name)} columns {short_repr(name)}: rename all but one")
    return name


def _mols_to_smiles(molecules: Iterable[object], atom_order: bool) -> Iterator[object]:
    """RDKit molecules as SMILES, everything else as it is."""
    for row, molecule in enumerate(molecules):
        if not is_mol(molecule):
            yield molecule
            continue
        try:
            smiles, in_order = smiles_from_mol(molecule)
        except SmilesError:
            yield molecule  # the reader rejects it, as an error of its row
            continue
        if atom_order and not in_order:
            warn_caller(
                f"row {row}: the atoms are in the order of the SMILES {smiles!r}, which is not that of the RDKit "
                "molecule: no SMILES of it has that order"
            )
        yield smiles
