"""What a run learns from: the table read, its molecules made, each on a side of the split."""

import hashlib
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from molattn.chem import (
    NO_GEOMETRY,
    NOT_OPTIMISED,
    STANDARDIZE,
    Conformers,
    Progress,
)
from molattn.chem.molecule import CHUNK, CHUNK_3D
from molattn.data import (
    CALIBRATION,
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
    read_columns,
    read_records,
    read_split_column,
    read_split_file,
    read_table,
    set_aside,
    split_labels,
)
from molattn.data.columns import listed
from molattn.data.store import MoleculeStore
from molattn.data.store_cache import Reading, stored_molecules
from molattn.errors import ConformerError, InputError, UsageError, shown
from molattn.models.base import MoleculeModel
from molattn.models.scaler import DescriptorScaler
from molattn.models.tasks import ATOM, REGRESSION, Regression, Task
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
        stored_in: the folder where the molecules were found, read before; None where they were read now.
        descriptors: (n, k) what stands beside each molecule, standardised; None where no column is asked for.
        descriptor_scaler: how it was, from the training molecules alone.
        offsets: (n + 1,) where the rows of targets of each molecule begin, and where the last end; None for one each.
    """

    data: DataConfig
    name: str
    units: tuple[str, ...]
    sha256: str
    smiles: list[str]
    labels: np.ndarray
    rows: np.ndarray
    molecules: MoleculeStore
    targets: np.ndarray
    rejected: list[Rejected]
    warnings: list[str]
    task: Task = REGRESSION
    taken: str = ""
    weights: np.ndarray | None = None
    groups: list[str] | None = None
    stored_in: Path | None = None
    descriptors: np.ndarray | None = None
    descriptor_scaler: DescriptorScaler | None = None
    offsets: np.ndarray | None = None

    def side(self, name: str) -> np.ndarray:
        """Which of the n molecules are on the side `name`, as indices."""
        return np.flatnonzero(self.labels[self.rows] == name)

    @property
    def has_calibration(self) -> bool:
        """Whether molecules are set aside for calibration."""
        return bool(len(self.side(CALIBRATION)))

    def targets_of(self, molecules: np.ndarray) -> np.ndarray:
        """Which rows of `targets` belong to some of the n molecules, as indices."""
        return molecules if self.offsets is None else label_rows(self.offsets, molecules)

    @property
    def standardized(self) -> list[tuple[int, str]]:
        """The rows whose molecule is read in another form than the table has it in, and that form's SMILES."""
        if not self.data.standardize:
            return []
        forms = zip(self.rows.tolist(), self.molecules.smiles, strict=True)
        return [(row, form) for row, form in forms if form != self.smiles[row]]

    def labelled(self, name: str) -> Labelled:
        """The molecules of one side with their targets."""
        chosen = self.side(name)
        weights = None if self.weights is None else self.weights[chosen]
        offsets = None if self.offsets is None else offsets_of(np.diff(self.offsets)[chosen])
        descriptors = None if self.descriptors is None else self.descriptors[chosen]
        targets = self.targets[self.targets_of(chosen)]
        return Labelled(self.molecules[chosen], targets, weights, offsets, descriptors)


def prepare(
    data: DataConfig,
    model: type[MoleculeModel],
    seed: int,
    num_workers: int = 0,
    progress: Progress | None = None,
    loss: str = "",
    alpha: float = Regression.alpha,
) -> Experiment:
    """Read the table, make of its molecules what `model` reads, and split them.

    `loss` is the one asked for, if any, and `alpha` its setting: the task is made with them.

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
        table,
        data.smiles_column,
        data.target_columns,
        data.weight_column,
        data.group_column,
        of_atoms,
        data.descriptor_columns,
    )
    try:
        made, stored_in, not_kept = stored_molecules(records.smiles, _reading(data, model), num_workers, progress)
    except ConformerError as error:
        line = f", {table.place(int(records.rows[error.row]))}" if error.row is not None else ""
        raise InputError(f"{path}{line}: {error}; --on-3d-failure paths or reject goes on") from error
    settled = settle(records, made.sizes, lambda i: made[i].reason, table, coded, data.target_columns)
    kept, targets, rejected = settled.kept, settled.targets, settled.rejected
    molecules = made[kept]
    if not len(molecules):
        first = f"the first, {rejected[0].place}: {rejected[0].reason}" if rejected else "it has none"
        raise InputError(f"{path}: no row can be used; {first}")
    rows = records.rows[kept]
    task, said = choose_task(data.task_type, loss, targets, data.target_columns, coded.classes, of_atoms, alpha)
    data = replace(data, task_type=task.name)
    smiles = column(table, data.smiles_column)
    labels = np.full(len(smiles), "", dtype="<U5")
    # One molecule under two spellings is one molecule to a split.
    keys = molecules.keys
    groups = None if records.groups is None else [records.groups[i].strip() for i in kept]
    worth = targets if settled.offsets is None else means_of_molecules(targets, settled.offsets)
    try:
        sides, taken = _sides(data, table, smiles, rows, keys, worth, seed, groups)
        if data.calibration_size:
            if CALIBRATION in sides:
                raise UsageError(
                    f"{taken}, and has calibration molecules: leave out --calibration-size, which would take others"
                )
            sides = set_aside(
                sides, "random" if taken else data.split, keys, worth, data.calibration_size, seed, groups
            )
    except InputError as error:
        # The rows that are missing may be why.
        raise InputError("; ".join([str(error), *_left_out(rejected)])) from error
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
        warnings=[
            *filter(None, [fetched, not_kept]),
            *_warnings(molecules, rejected),
            *_leaks(rows, keys, groups, labels, taken),
        ],
        task=task,
        taken=said,
        weights=None if records.weights is None else records.weights[kept],
        groups=groups,
        stored_in=stored_in,
        offsets=settled.offsets,
    )
    _check_sides(experiment)
    if records.descriptors is not None:
        experiment = _described(experiment, records.descriptors[kept], table)
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


def _reading(data: DataConfig, model: type[MoleculeModel]) -> Reading:
    """How the molecules of a run are read, and what to know them by when they were."""
    conformers = conformers_of(data)
    how = {"add_hs": data.add_hs, "max_atoms": data.max_atoms, "standardize": data.standardize}
    return Reading(
        make=model.reader(**how, conformers=conformers),
        packing=model.packing(conformers=conformers is not None),
        settings={
            **how,
            "conformers": None if conformers is None else asdict(conformers),
            "vocabulary": model.vocabulary(),
        },
        stop=data.on_3d_failure == "stop",
        chunk=CHUNK if conformers is None else CHUNK_3D,
    )


def _described(experiment: Experiment, descriptors: np.ndarray, table: Table) -> Experiment:
    """The experiment with `descriptors`, (n, k) as in the table, beside its molecules.

    Raises:
        InputError: a number that is too far from those of the training molecules.
    """
    train = descriptors[experiment.side("train")]
    scaler = DescriptorScaler.fit(experiment.data.descriptor_columns, train)
    z = scaler.scale(descriptors)
    if not np.isfinite(z).all():
        i = int(np.flatnonzero(~np.isfinite(z).all(1))[0])
        place = table.place(int(experiment.rows[i]))
        raise InputError(
            f"{table.source}, {place}: {scaler.too_far(descriptors[i].tolist())}; correct it, or take out the row"
        )
    warnings = [*experiment.warnings]
    if constant := scaler.constant:
        have = "has" if len(constant) == 1 else "have"
        warnings.append(f"{listed(constant)} {have} one value in training: the model does not look at it")
    return replace(experiment, descriptors=z, descriptor_scaler=scaler, warnings=warnings)


def _sides(
    data: DataConfig,
    table: Table,
    smiles: list[str],
    rows: np.ndarray,
    keys: list[str],
    targets: np.ndarray,
    seed: int,
    groups: list[str] | None,
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
        return fold_labels(data.split, keys, targets, data.split_sizes, seed, data.num_folds, data.fold, groups), ""
    return split_labels(data.split, keys, targets, data.split_sizes, seed, groups), ""


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
        columns, known = read_columns(path)
        smiles = data.smiles_column or guess_smiles_column(columns, known)
        no_target = _no_targets(data, smiles)
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
        no_target = _no_targets(data, smiles)
        targets = tuple(name for name in read_columns(card.path)[0] if name not in no_target)
    units = {t.name: t.unit for t in (*card.targets, *card.atom_targets)}
    known = {t.name for t in card.targets}
    data = replace(
        data,
        smiles_column=smiles,
        target_columns=targets,
        task_type=data.task_type or (task_kind(card.task) if set(targets) <= known else ""),
    )
    return data, card.path, card.name, tuple(units.get(t, "") for t in targets), said


def _no_targets(data: DataConfig, smiles: str) -> set[str]:
    """The names of the columns that are something else."""
    others = (smiles, data.weight_column, data.group_column, data.split_column, *data.descriptor_columns)
    return {name.strip() for name in others}


def _of_3d(warning: str) -> bool:
    return warning.startswith((NO_GEOMETRY, NOT_OPTIMISED))


# What is uncertain about a molecule, and which of its warnings say so.
_UNCERTAIN: tuple[tuple[str, Callable[[str], bool]], ...] = (
    ("parts that the codes do not know", lambda w: not _of_3d(w)),
    ("no 3D geometry", lambda w: w.startswith(NO_GEOMETRY)),
    ("a 3D geometry that is not optimised", lambda w: w.startswith(NOT_OPTIMISED)),
)


def _warnings(molecules: MoleculeStore, rejected: list[Rejected]) -> list[str]:
    warnings = _left_out(rejected, ", see rejected.csv")
    warned = list(molecules.warnings)
    for what, kind in _UNCERTAIN:
        uncertain = [(i, w) for i, found in warned if (w := next(filter(kind, found), None))]
        if uncertain:
            count = "1 molecule has" if len(uncertain) == 1 else f"{len(uncertain)} molecules have"
            first, warning = uncertain[0]
            warnings.append(f"{count} {what}; the first, {molecules[[first]].smiles[0]}: {warning}")
    return warnings


def _leaks(rows: np.ndarray, keys: list[str], groups: list[str] | None, labels: np.ndarray, taken: str) -> list[str]:
    """What stands on two sides, in the rows of the table: molecules, and groups where a column names them."""
    found = []
    for what, names in (("molecule", keys), ("group", groups)):
        if names is not None:
            of_rows = np.full(len(labels), "", dtype=object)
            of_rows[rows] = names
            if leaks := leakage(of_rows.tolist(), labels.tolist()):
                found.append(f"{describe_leakage(leaks, what)}; {taken}")
    return found


def _left_out(rejected: list[Rejected], where: str = "") -> list[str]:
    """How many rows cannot be used, and the first of them, in a sentence; none where there are none."""
    if not rejected:
        return []
    first = rejected[0]
    count = "1 row is" if len(rejected) == 1 else f"{len(rejected)} rows are"
    return [f"{count} left out{where}; the first, {first.place}: {first.reason}"]


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
