"""Molecules for pretraining: from a table or RDKit, and generated ones, without those for evaluation."""

import hashlib
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from molattn.chem import MAX_ATOMS, MAX_LENGTH, Progress, grow_molecules, inchi_key, inchikey_skeletons, nci_molecules
from molattn.chem.molecule import map_rows
from molattn.data import RejectedRow, column, guess_smiles_column, read_table
from molattn.data.datasets.excluded_molecules import ExcludedMolecules, evaluation_molecules, molecule_hash
from molattn.data.tables.options import DEFAULT_TABLE_OPTIONS, TableOptions
from molattn.errors import InputError, MolattnWarning, SmilesError, UsageError, short_repr

NCI_MOLECULES = "nci"
"""The name of the molecules that RDKit includes."""

EVALUATION = "a molecule that models are evaluated on"
_NO_KEY = "it has no InChIKey, which is compared with those of molecules that models are evaluated on"
_EXCLUDED = "it is one of the molecules to exclude"
_DUPLICATE = "it is a duplicate of a molecule above"


@dataclass(frozen=True)
class UnlabelledMolecules:
    """Molecules for pretraining.

    Attributes:
        smiles: of n molecules without duplicates, the generated ones last.
        source: `NCI_MOLECULES`, or the name of the table.
        sha256: of their SMILES, a line each.
        num_generated: the number of molecules that were generated from the others.
        rejected: the rejected rows of the table, and why.
        rejection_counts: the number of rejected molecules, by reason.
    """

    smiles: tuple[str, ...]
    source: str
    sha256: str
    num_generated: int
    rejected: list[RejectedRow]
    rejection_counts: dict[str, int]


def collect_molecules(
    molecules: str = NCI_MOLECULES,
    *,
    smiles_column: str = "",
    table_options: TableOptions = DEFAULT_TABLE_OPTIONS,
    max_molecules: int = 0,
    num_generated: int = 0,
    seed: int = 0,
    exclude: Sequence[str] = (),
    max_atoms: int = MAX_ATOMS,
    num_workers: int = 0,
    progress: Progress | None = None,
) -> UnlabelledMolecules:
    """Collect the unique molecules of a table, and molecules generated from them, without those for evaluation.

    Args:
        molecules: the path of a table, or `NCI_MOLECULES`.
        smiles_column: the SMILES column of the table; found by its name when empty.
        table_options: its encoding, header and sheet; a `MolattnWarning` reports what was detected or assumed.
        max_molecules: the number of rows to sample at random from a larger table; 0 for all.
        num_generated: the number of molecules to generate, see `molattn.chem.grow_molecules`.
        seed: of the sampled rows and of the generated molecules.
        exclude: paths of tables with further molecules to exclude.
        max_atoms: larger molecules are rejected.
        num_workers: processes that read molecules.
        progress: called with the number of rows that are read.

    Raises:
        UsageError: a column or a table that does not exist.
        InputError: a table that cannot be read, or that leaves no molecule.
    """
    check_molecules(molecules)
    excluded = ExcludedMolecules(())
    for path in exclude:
        table = read_table(path)
        name = guess_smiles_column(table.columns, table.smiles_column)
        excluded |= ExcludedMolecules.from_smiles(column(table, name))
    if molecules == NCI_MOLECULES:
        table, texts = None, nci_molecules(MAX_LENGTH)
    else:
        table = read_table(molecules, table_options, max_atoms=max_atoms)
        for message in table.warnings:
            warnings.warn(MolattnWarning(message), stacklevel=2)
        texts = column(table, smiles_column or guess_smiles_column(table.columns, table.smiles_column))
    reasons: dict[int, str] = {} if table is None else dict(table.structure_errors)
    seen: set[str] = set()
    unique: list[str] = []
    rows = _sampled_rows(len(texts), max_molecules, seed)
    sampled = [texts[row] for row in rows]
    inchi_keys = map_rows(sampled, partial(_inchi_keys, max_atoms=max_atoms), num_workers, progress=progress)
    for row, found in zip(rows, inchi_keys, strict=True):
        if row in reasons:
            continue
        if isinstance(found, SmilesError):
            reasons[row] = found.reason
        elif reason := _rejection_reason(*found, seen, excluded):
            reasons[row] = reason
        else:
            seen.add(found[0])
            unique.append(texts[row].strip())
    if not unique:
        first = f"; the first, {short_repr(texts[min(reasons)])}: {reasons[min(reasons)]}" if reasons else ""
        raise InputError(f"{molecules} leaves no molecule to learn from{first}")
    generated = _generate(unique, num_generated, seed, excluded) if num_generated else []
    smiles = (*unique, *generated)
    return UnlabelledMolecules(
        smiles=smiles,
        source=NCI_MOLECULES if table is None else Path(molecules).name,
        sha256=hashlib.sha256("".join(f"{text}\n" for text in smiles).encode()).hexdigest(),
        num_generated=len(generated),
        rejected=[] if table is None else [table.reject(row, texts[row], reasons[row]) for row in sorted(reasons)],
        rejection_counts=dict(Counter(_short_reason(reason) for reason in reasons.values()).most_common()),
    )


def _sampled_rows(count: int, max_molecules: int, seed: int) -> Sequence[int]:
    """The rows to read, in order: all, or a random sample of `max_molecules`."""
    if not 0 < max_molecules < count:
        return range(count)
    return np.sort(np.random.default_rng(seed).choice(count, max_molecules, replace=False)).tolist()


def check_molecules(molecules: str) -> None:
    """Raise UsageError unless `molecules` is `NCI_MOLECULES` or the path of a file."""
    if molecules != NCI_MOLECULES and not Path(molecules).is_file():
        raise UsageError(
            f"there is no file {short_repr(molecules)}: give a table of SMILES, or none for those of RDKit"
        )


def _inchi_keys(smiles: object, max_atoms: int) -> tuple[str, tuple[str, ...]]:
    """The InChIKey of a molecule, empty if it has none, and its skeletons."""
    return inchi_key(smiles, max_atoms), inchikey_skeletons(smiles, max_atoms)


def _rejection_reason(key: str, skeletons: Sequence[str], seen: set[str], excluded: ExcludedMolecules) -> str:
    """Why a molecule is rejected; empty if it is not."""
    if not key or not skeletons:
        return _NO_KEY
    hashes = {molecule_hash(skeleton) for skeleton in skeletons}
    if not hashes.isdisjoint(evaluation_molecules().hashes):
        return EVALUATION
    if not hashes.isdisjoint(excluded.hashes):
        return _EXCLUDED
    return _DUPLICATE if key in seen else ""


def _short_reason(reason: str) -> str:
    """The category of a reason, for counting: all errors of reading a SMILES are one."""
    return reason if reason in (EVALUATION, _NO_KEY, _EXCLUDED, _DUPLICATE) else "it cannot be read"


def _generate(smiles: Sequence[str], count: int, seed: int, excluded: ExcludedMolecules) -> list[str]:
    """Generate molecules from those of a single fragment."""
    excluded |= evaluation_molecules()
    single = [text for text in smiles if "." not in text]
    return grow_molecules(single, count, seed=seed, is_excluded=lambda text: text in excluded)
