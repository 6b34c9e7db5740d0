"""What a run learns from: the table read, its molecules made, each on a side of the split."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from molattn.chem import (
    NO_GEOMETRY,
    NOT_OPTIMISED,
    STANDARDIZE,
    Conformers,
    Progress,
    canonical_smiles,
    read_smiles,
)
from molattn.data import (
    SIDES,
    Rejected,
    Table,
    column,
    describe_leakage,
    fold_labels,
    guess_smiles_column,
    label_rows,
    leakage,
    obtain,
    offsets_of,
    read_records,
    read_split_column,
    read_split_file,
    read_table,
    split_labels,
)
from molattn.errors import ConformerError, InputError, SmilesError, UsageError, shown
from molattn.models.base import Molecule, MoleculeModel
from molattn.models.tasks import ATOM, REGRESSION, Task
from molattn.training.config import DataConfig
from molattn.training.fit import Labelled
from molattn.training.labels import check_atoms, means_of_molecules, settle
from molattn.training.targets import are_of_atoms, choose_task, code_targets, lone_classes, task_kind


@dataclass(frozen=True)
class Experiment:
    """Molecules, targets and sides of the split, and what was left out.

    Attributes:
        data: the settings, with the columns that were found.
        name: of the data set: its card's, or the stem of its file.
        units: unit of each target, empty where unknown.
        sha256: of the table's bytes.
        smiles: of every row of the table, as written.
        labels: side of every row of the table; empty for a row that is left out.
        rows: (n,) rows of the table that can be used, ascending.
        molecules: those rows as the model reads them.
        targets: their targets, (N, T), NaN where missing: a row for each molecule, N = n, or where targets are of
            atoms one for each of its atoms, molecule by molecule, in the order of the SMILES.
        rejected: the rows that cannot be used, and why.
        warnings: what a user should know.
        task: what the targets are; of several classes they are places among them.
        taken: in one sentence, what the task was guessed to be; empty where it was said.
        weights: how much each of the n rows counts, (n,); None where no column says so.
        groups: what each of the n rows belongs to; None where no column says so.
        offsets: (n + 1,) where the rows of targets of each molecule begin, and where the last end; None for one each.
    """

    data: DataConfig
    name: str
    units: tuple[str, ...]
    sha256: str
    smiles: list[str]
    labels: np.ndarray
    rows: np.ndarray
    molecules: list[Molecule]
    targets: np.ndarray
    rejected: list[Rejected]
    warnings: list[str]
    task: Task = REGRESSION
    taken: str = ""
    weights: np.ndarray | None = None
    groups: list[str] | None = None
    offsets: np.ndarray | None = None

    def side(self, name: str) -> np.ndarray:
        """Which of the n molecules are on the side `name`, as indices."""
        return np.flatnonzero(self.labels[self.rows] == name)

    def targets_of(self, molecules: np.ndarray) -> np.ndarray:
        """Which rows of `targets` belong to some of the n molecules, as indices."""
        return molecules if self.offsets is None else label_rows(self.offsets, molecules)

    @property
    def standardized(self) -> list[tuple[int, str]]:
        """The rows whose molecule is read in another form than the table has it in, and that form's SMILES."""
        if not self.data.standardize:
            return []
        return [
            (int(row), m.smiles)
            for row, m in zip(self.rows, self.molecules, strict=True)
            if m.smiles != self.smiles[row]
        ]

    def labelled(self, name: str) -> Labelled:
        """The molecules of one side with their targets."""
        chosen = self.side(name)
        weights = None if self.weights is None else self.weights[chosen]
        offsets = None if self.offsets is None else offsets_of(np.diff(self.offsets)[chosen])
        return Labelled([self.molecules[i] for i in chosen], self.targets[self.targets_of(chosen)], weights, offsets)


def prepare(
    data: DataConfig,
    model: type[MoleculeModel],
    seed: int,
    num_workers: int = 0,
    progress: Progress | None = None,
    loss: str = "",
) -> Experiment:
    """Read the table, make of its molecules what `model` reads, and split them.

    `loss` is the one asked for, if any: the task is made with it.

    Raises:
        UsageError: a data set, column, split, task, loss or file that does not exist.
        InputError: a table that cannot be read, no usable row, an empty side, or a molecule without a geometry where
            that is to stop the run.
    """
    if data.standardize and data.standardize not in STANDARDIZE:
        raise UsageError(f"unknown standardize {data.standardize!r}: choose one of {', '.join(STANDARDIZE)}")
    data, path, name, units, fetched = _resolved(data)
    table = read_table(path)
    of_atoms = are_of_atoms(table, data.target_columns, data.task_type)
    if of_atoms:
        check_atoms(model, data.standardize, path)
    coded = code_targets(table, data.target_columns, data.task_type, of_atoms=of_atoms)
    table = coded.table
    records = read_records(
        table, data.smiles_column, data.target_columns, data.weight_column, data.group_column, of_atoms
    )
    try:
        made = model.read(
            records.smiles,
            add_hs=data.add_hs,
            max_atoms=data.max_atoms,
            num_workers=num_workers,
            conformers=conformers_of(data),
            progress=progress,
            standardize=data.standardize,
        )
    except ConformerError as error:
        line = f", {table.place(int(records.rows[error.row]))}" if error.row is not None else ""
        raise InputError(f"{path}{line}: {error}; --on-3d-failure paths or reject goes on") from error
    sizes = [0 if isinstance(outcome, SmilesError) else outcome.size for outcome in made]
    settled = settle(records, sizes, lambda i: getattr(made[i], "reason", ""), table, coded, data.target_columns)
    kept, targets, rejected = settled.kept, settled.targets, settled.rejected
    molecules = [outcome for i in kept if not isinstance(outcome := made[i], SmilesError)]
    if not molecules:
        first = f"the first, {table.place(rejected[0].row)}: {rejected[0].reason}" if rejected else "it has none"
        raise InputError(f"{path}: no row can be used; {first}")
    rows = records.rows[kept]
    task, said = choose_task(data.task_type, loss, targets, data.target_columns, coded.classes, of_atoms)
    data = replace(data, task_type=task.name)
    smiles = column(table, data.smiles_column)
    labels = np.full(len(smiles), "", dtype=object)
    # One molecule under two spellings is one molecule to a split.
    keys = [canonical_smiles(read_smiles(m.smiles, max_atoms=data.max_atoms)) for m in molecules]
    worth = targets if settled.offsets is None else means_of_molecules(targets, settled.offsets)
    try:
        sides, taken = _sides(data, table, smiles, rows, keys, worth, seed)
    except InputError as error:
        # The rows that are missing may be why.
        raise InputError("; ".join([str(error), *_left_out(rejected, table)])) from error
    labels[rows] = sides
    experiment = Experiment(
        data=data,
        name=name,
        units=units,
        sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        smiles=smiles,
        labels=labels,
        rows=rows,
        molecules=molecules,
        targets=targets,
        rejected=rejected,
        warnings=[*filter(None, [fetched]), *_warnings(molecules, keys, labels[rows], rejected, taken, table)],
        task=task,
        taken=said,
        weights=None if records.weights is None else records.weights[kept],
        groups=None if records.groups is None else [records.groups[i] for i in kept],
        offsets=settled.offsets,
    )
    _check_sides(experiment)
    if lone := lone_classes(experiment.labelled("train").targets, data.target_columns, task):
        count = f"{shown(lone[0])} has" if len(lone) == 1 else f"{len(lone)} targets, the first {shown(lone[0])}, have"
        experiment.warnings.append(f"{count} training labels of one class only: there is nothing to tell apart")
    if changed := experiment.standardized:
        row, form = changed[0]
        verb = "molecule is" if len(changed) == 1 else "molecules are"
        experiment.warnings.append(
            f"{len(changed)} {verb} read in another form, see standardized.csv; the first, {table.place(row)}: "
            f"{shown(experiment.smiles[row])} as {shown(form)}"
        )
    return experiment


def _sides(
    data: DataConfig,
    table: Table,
    smiles: list[str],
    rows: np.ndarray,
    keys: list[str],
    targets: np.ndarray,
    seed: int,
) -> tuple[np.ndarray, str]:
    """The sides of the usable rows, and what is taken as it is where no split of ours decides."""
    given = [name for name, value in (("split_column", data.split_column), ("splits_file", data.splits_file)) if value]
    if len(given) > 1:
        raise UsageError("split_column and splits_file both say who is on which side: give one of them")
    if given and data.num_folds > 1:
        raise UsageError(f"{given[0]} is one split, not {data.num_folds} folds: leave out one or the other")
    if data.splits_file:
        return read_split_file(data.splits_file, smiles)[rows], f"{data.splits_file} is taken as it is"
    if data.split_column:
        return read_split_column(table, data.split_column)[rows], f"column {data.split_column!r} is taken as it is"
    if data.num_folds > 1:
        return fold_labels(data.split, keys, targets, data.split_sizes, seed, data.num_folds, data.fold), ""
    return split_labels(data.split, keys, targets, data.split_sizes, seed), ""


def checksum(data: DataConfig) -> str:
    """The sha256 of the table's bytes."""
    path = _resolved(data)[1]
    return hashlib.sha256(path.read_bytes()).hexdigest()


def conformers_of(data: DataConfig) -> Conformers | None:
    """How the molecules get their distances; None for a run without 3D."""
    if not data.conformers:
        return None
    return Conformers(data.conformer_seed, data.conformer_timeout, data.on_3d_failure)


def is_path(dataset: str) -> bool:
    """Whether a data set is given as the path of a table, not by its name."""
    return bool(Path(dataset).suffix) or Path(dataset).is_file()


def _resolved(data: DataConfig) -> tuple[DataConfig, Path, str, tuple[str, ...], str]:
    """The settings with every column named, where the table lies, its name, its units, and how it came here if now."""
    data = replace(data, task_type=task_kind(data.task_type))
    if not data.dataset:
        raise UsageError("say what to learn from: --dataset esol, or the path of a table such as my.csv")
    if is_path(data.dataset):
        path = Path(data.dataset)
        columns = read_table(path).columns
        smiles = data.smiles_column or guess_smiles_column(columns)
        no_target = (smiles.strip(), data.weight_column, data.group_column, data.split_column)
        others = [c for c in columns if c.strip() not in no_target]
        targets = data.target_columns or (tuple(others) if len(others) == 1 else ())
        if not targets:
            raise UsageError(f"say which column to learn with --target-columns: {path} has {', '.join(others)}")
        data = replace(data, smiles_column=smiles, target_columns=targets)
        return data, path, path.stem, ("",) * len(targets), ""
    card, said = obtain(data.dataset, data.data_dir)
    smiles = data.smiles_column or card.smiles_column
    of_card = card.atom_targets if data.task_type.startswith(ATOM) else card.targets
    if data.task_type.startswith(ATOM) and not (of_card or data.target_columns):
        raise UsageError(f"the data set {card.name} has no targets of atoms, as {data.task_type} needs them")
    targets = data.target_columns or tuple(t.name for t in of_card)
    if not targets:
        no_target = (smiles, data.weight_column, data.group_column, data.split_column)
        targets = tuple(name for name in read_table(card.path).columns if name not in no_target)
    units = {t.name: t.unit for t in (*card.targets, *card.atom_targets)}
    known = {t.name for t in card.targets}
    data = replace(
        data,
        smiles_column=smiles,
        target_columns=targets,
        task_type=data.task_type or (task_kind(card.task) if set(targets) <= known else ""),
    )
    return data, card.path, card.name, tuple(units.get(t, "") for t in targets), said


def _of_3d(warning: str) -> bool:
    return warning.startswith((NO_GEOMETRY, NOT_OPTIMISED))


# What is uncertain about a molecule, and which of its warnings say so.
_UNCERTAIN: tuple[tuple[str, Callable[[str], bool]], ...] = (
    ("parts that the codes do not know", lambda w: not _of_3d(w)),
    ("no 3D geometry", lambda w: w.startswith(NO_GEOMETRY)),
    ("a 3D geometry that is not optimised", lambda w: w.startswith(NOT_OPTIMISED)),
)


def _warnings(
    molecules: list[Molecule],
    keys: list[str],
    labels: np.ndarray,
    rejected: list[Rejected],
    taken: str,
    table: Table,
) -> list[str]:
    warnings = _left_out(rejected, table, ", see rejected.csv")
    for what, kind in _UNCERTAIN:
        uncertain = [(m.smiles, w) for m in molecules if (w := next(filter(kind, m.warnings), None))]
        if uncertain:
            count = "1 molecule has" if len(uncertain) == 1 else f"{len(uncertain)} molecules have"
            smiles, warning = uncertain[0]
            warnings.append(f"{count} {what}; the first, {smiles}: {warning}")
    leaks = leakage(keys, labels.tolist())
    if leaks:
        warnings.append(f"{describe_leakage(leaks)}; {taken}")
    return warnings


def _left_out(rejected: list[Rejected], table: Table, where: str = "") -> list[str]:
    """How many rows cannot be used, and the first of them, in a sentence; none where there are none."""
    if not rejected:
        return []
    first = rejected[0]
    count = "1 row is" if len(rejected) == 1 else f"{len(rejected)} rows are"
    return [f"{count} left out{where}; the first, {table.place(first.row)}: {first.reason}"]


def _check_sides(experiment: Experiment) -> None:
    for side in SIDES:
        chosen = experiment.side(side)
        if not len(chosen):
            raise InputError(f"the split leaves no molecule for {side}: give more rows or other --split-sizes")
        labels = experiment.targets[experiment.targets_of(chosen)]
        for target, values in zip(experiment.data.target_columns, labels.T, strict=True):
            if side == "train" and not np.isfinite(values).any():
                raise InputError(
                    f"the training molecules have no value in column {target!r}: there is nothing to learn"
                )
