"""The table of a run read, its molecules made, each put on a side of the split."""

from dataclasses import asdict, replace

import numpy as np

from molattn.chem import STANDARDIZE, Conformers, Progress
from molattn.chem.molecule import CHUNK, CHUNK_3D
from molattn.data import (
    CALIBRATION,
    SIDES,
    Table,
    column,
    fold_labels,
    read_records,
    read_split_column,
    read_split_file,
    read_table,
    set_aside,
    split_labels,
)
from molattn.data.store.cache import Reading, stored_molecules
from molattn.errors import ConformerError, InputError, UsageError
from molattn.models.base import MoleculeModel
from molattn.models.tasks import Regression
from molattn.training import remarks
from molattn.training.config import DataConfig
from molattn.training.described import computed_names, scaler_of, with_computed
from molattn.training.experiment import Experiment
from molattn.training.labels import check_atoms, means_of_molecules, settle
from molattn.training.source import find_source
from molattn.training.targets import are_of_atoms, choose_task, code_targets


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
    computed = computed_names(data)
    source = find_source(data)
    data, path = source.data, source.path
    table = read_table(path)
    of_atoms = are_of_atoms(table, data.target_columns, data.task_type)
    if of_atoms:
        check_atoms(model, data.standardize)
        # There is no molecule as a whole for them to stand beside.
        data, computed = replace(data, molecule_featurizers=()), ()
    coded = code_targets(table, data.target_columns, data.task_type, of_atoms=of_atoms, add_hs=data.add_hs)
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
        made, stored_in, not_kept = stored_molecules(records.smiles, reading(data, model), num_workers, progress)
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
        raise InputError("; ".join([str(error), *remarks.left_out(rejected)])) from error
    labels[rows] = sides
    experiment = Experiment(
        data=data,
        name=source.name,
        units=source.units,
        sha256=source.sha256,
        smiles=smiles,
        labels=labels,
        rows=rows,
        molecules=molecules,
        targets=targets,
        rejected=rejected,
        warnings=[
            *filter(None, [source.said, not_kept]),
            *coded.warnings,
            *records.warnings,
            *remarks.left_out(rejected, ", see rejected.csv"),
            *remarks.uncertain(molecules),
            *remarks.leaks(rows, keys, groups, labels, taken),
        ],
        task=task,
        taken=said,
        weights=None if records.weights is None else records.weights[kept],
        groups=groups,
        stored_in=stored_in,
        offsets=settled.offsets,
    )
    _check_sides(experiment)
    given = None if records.descriptors is None else records.descriptors[kept]
    beside = with_computed(computed, given, molecules, num_workers)
    if beside is not None:
        experiment = _described(experiment, beside, table)
    experiment.warnings.extend([*remarks.one_class(experiment), *remarks.read_otherwise(experiment, table)])
    return experiment


def conformers_of(data: DataConfig) -> Conformers | None:
    """How the molecules get their distances; None for a run without 3D."""
    if not data.conformers:
        return None
    return Conformers(data.conformer_seed, data.conformer_timeout, data.on_3d_failure)


def reading(data: DataConfig, model: type[MoleculeModel]) -> Reading:
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


def _described(experiment: Experiment, descriptors: np.ndarray, table: Table) -> Experiment:
    """The experiment with `descriptors`, (n, k) in units, beside its molecules.

    Raises:
        InputError: a number that is too far from those of the training molecules.
    """
    train = descriptors[experiment.side("train")]
    scaler, warnings = scaler_of(experiment.data, train)
    z = scaler.scale(descriptors)
    if not np.isfinite(z).all():
        i = int(np.flatnonzero(~np.isfinite(z).all(1))[0])
        place = table.place(int(experiment.rows[i]))
        raise InputError(
            f"{table.source}, {place}: {scaler.range_error(descriptors[i].tolist())}; correct it, or take out the row"
        )
    warnings = [*experiment.warnings, *warnings]
    return replace(experiment, descriptors=z, descriptor_scaler=scaler, warnings=warnings)


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
