"""The table of a run, and the labels of its molecules; every row is either used or rejected with a reason."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from molattn.chem import read_smiles
from molattn.data import fetch_dataset, guess_smiles_column, read_columns
from molattn.data.tables.atom_lists import offsets_from_counts
from molattn.data.tables.records import Records, RejectedRow
from molattn.data.tables.table import Table
from molattn.errors import UsageError, short_repr
from molattn.models.base import MoleculeModel
from molattn.models.tasks import ATOM_PREFIX
from molattn.training.config import DataConfig
from molattn.training.targets import EncodedTable, parse_task_type


@dataclass(frozen=True)
class TableSource:
    """The table of a run.

    Attributes:
        config: the settings, with every column named.
        path: of the table.
        name: that on its card, or the stem of its file.
        units: unit of each target, empty where unknown.
        message: how it was downloaded, if this call did that; otherwise empty.
    """

    config: DataConfig
    path: Path
    name: str
    units: tuple[str, ...]
    message: str = ""

    @property
    def sha256(self) -> str:
        """The checksum of the table's bytes."""
        return hashlib.sha256(self.path.read_bytes()).hexdigest()


def is_path(dataset: str) -> bool:
    """Whether a data set is given as the path of a table, rather than by name."""
    return bool(Path(dataset).suffix) or Path(dataset).is_file()


def find_table(config: DataConfig) -> TableSource:
    """Find the table that the settings name.

    Raises:
        UsageError: there is none, it cannot be downloaded, or the target columns are ambiguous.
    """
    config = replace(config, task_type=parse_task_type(config.task_type))
    if not config.dataset:
        raise UsageError("no data set is given: add --dataset esol, or the path of a table such as my.csv")
    if is_path(config.dataset):
        path = Path(config.dataset)
        columns, known = read_columns(path)
        smiles = config.smiles_column or guess_smiles_column(columns, known)
        reserved = _reserved_columns(config, smiles)
        others = [c for c in columns if c.strip() not in reserved]
        targets = config.target_columns or (tuple(others) if len(others) == 1 else ())
        if not targets:
            raise UsageError(f"name the columns to learn with --target-columns: {path} has {', '.join(others)}")
        config = replace(config, smiles_column=smiles, target_columns=targets)
        return TableSource(config, path, path.stem, ("",) * len(targets))
    card, message = fetch_dataset(config.dataset, config.data_dir)
    smiles = config.smiles_column or card.smiles_column
    of_card = card.atom_targets if config.task_type.startswith(ATOM_PREFIX) else card.targets
    if config.task_type.startswith(ATOM_PREFIX) and not (of_card or config.target_columns):
        raise UsageError(f"the data set {card.name} has no targets of atoms, as {config.task_type} needs them")
    targets = config.target_columns or tuple(t.name for t in of_card)
    if not targets:
        reserved = _reserved_columns(config, smiles)
        targets = tuple(name for name in read_columns(card.path)[0] if name not in reserved)
    units = {t.name: t.unit for t in (*card.targets, *card.atom_targets)}
    known = {t.name for t in card.targets}
    config = replace(
        config,
        smiles_column=smiles,
        target_columns=targets,
        task_type=config.task_type or (parse_task_type(card.task) if set(targets) <= known else ""),
    )
    return TableSource(config, card.path, card.name, tuple(units.get(t, "") for t in targets), message)


def _reserved_columns(config: DataConfig, smiles: str) -> set[str]:
    """The names of the columns that are not targets."""
    others = (smiles, config.weight_column, config.group_column, config.split_column, *config.descriptor_columns)
    return {name.strip() for name in others}


NO_ATOM_LIMIT = 10**9
"""More atoms than any molecule has: the limit was applied when the molecules were first read."""


@dataclass(frozen=True)
class MatchedLabels:
    """The records that are molecules with labels, and the rejected rows.

    Attributes:
        indices: (n,) of the records that can be used, ascending.
        targets: (N, T) labels, NaN where missing: a row for each molecule, or one for each of its atoms, molecule by
            molecule, in the order of the SMILES.
        rejected: the rows of the table that cannot be used, and why, in their order.
        offsets: (n + 1,) where the rows of targets of each molecule begin, and where the last end; None for one row per
            molecule.
    """

    indices: np.ndarray
    targets: np.ndarray
    rejected: list[RejectedRow]
    offsets: np.ndarray | None = None


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
        table: that the records were read from.
        encoded: the table's targets, with the reasons why rows hold no class.
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
        rejected.append(RejectedRow(row, table.lines[row], records.smiles[i], reason, table.unit))
    rejected.sort(key=lambda r: r.row)
    if records.atom_targets is None:
        return MatchedLabels(indices, records.targets[indices], rejected)
    parts = [_stack_columns(records.atom_targets[i], int(sizes[i])) for i in indices.tolist()]
    targets = np.concatenate([np.empty((0, len(names))), *parts])
    return MatchedLabels(indices, targets, rejected, offsets_from_counts(sizes[indices]))


def check_atom_targets(model: type[MoleculeModel], standardize: str) -> None:
    """Raise UsageError if the model or standardisation does not support targets of atoms."""
    if not model.supports_atom_targets:
        raise UsageError("targets of atoms need a model of atoms, which a model of SMILES is not: use --model graph")
    if standardize:
        raise UsageError(
            "--standardize changes the order of atoms, and lists of targets follow the order in the SMILES: leave it "
            "out, or standardise the table beforehand, with its lists"
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
            advice = _hydrogens(smiles, n, len(numbers))
            return f"column {short_repr(name)}: {values} for the {atoms} of {short_repr(smiles)}{advice}"
    return ""


def _hydrogens(smiles: str, n: int, values: int) -> str:
    """Advice if the list seems to include hydrogens that are not atoms of the graph; empty if it does not."""
    with_hydrogens = read_smiles(smiles, max_atoms=NO_ATOM_LIMIT, add_hs=True).GetNumAtoms()
    if with_hydrogens == n or (values != with_hydrogens and "[H]" not in smiles):
        return ""
    return (
        ": hydrogens are not atoms of the graph, even those written as [H]: leave their values out, or add --add-hs, "
        f"which puts them after the others, {with_hydrogens} atoms in all"
    )
