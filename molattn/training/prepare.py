"""Prepare the data set of a run: read the table and its molecules, split them, and collect warnings."""

from collections.abc import Callable
from dataclasses import asdict, replace

import numpy as np

from molattn.chem import NO_GEOMETRY, NOT_OPTIMIZED, STANDARDIZE, ConformerOptions, Progress, ReadOptions
from molattn.chem.molecule import CHUNK_SIZE, CHUNK_SIZE_3D
from molattn.data import (
    CALIBRATION,
    SPLIT_LABELS,
    RejectedRow,
    Table,
    column,
    describe_leakage,
    find_leakage,
    fold_labels,
    hold_out_calibration,
    read_records,
    read_split_column,
    read_split_file,
    read_table,
    split_labels,
)
from molattn.data.store.cache import Featurization, cached_molecules
from molattn.data.store.molecule_store import MoleculeStore
from molattn.errors import ConformerError, InputError, UsageError, short_repr
from molattn.models.base import MoleculeModel
from molattn.models.tasks import Regression
from molattn.training.config import DataConfig
from molattn.training.dataset import PreparedDataset, ReplicateRow
from molattn.training.descriptors import (
    append_computed_descriptors,
    computed_descriptor_names,
    fit_descriptor_scaler,
)
from molattn.training.labels import check_atom_targets, match_labels, molecule_means
from molattn.training.merge_replicates import KEEP, UsableRows, check_replicates_setting, merge_rows
from molattn.training.table_source import find_table, table_options_of
from molattn.training.targets import encode_targets, has_atom_targets
from molattn.training.task_inference import resolve_task, single_class_targets
from molattn.training.transforms import Transforms, fit_transforms, reject_undefined, resolve_transforms
from molattn.training.unreadable import check_unreadable


def rejected_rows(rejected: list[RejectedRow], where: str = "") -> list[str]:
    """How many rows were rejected, and the first of them; empty if none were."""
    if not rejected:
        return []
    first = rejected[0]
    count = "1 row is" if len(rejected) == 1 else f"{len(rejected)} rows are"
    return [f"{count} left out{where}; the first, {first.location}: {first.reason}"]


def _is_about_3d(warning: str) -> bool:
    return warning.startswith((NO_GEOMETRY, NOT_OPTIMIZED))


# Problems of molecules, and a test of which warnings report each.
_PROBLEMS: tuple[tuple[str, Callable[[str], bool]], ...] = (
    ("parts that the codes cannot represent", lambda w: not _is_about_3d(w)),
    ("no 3D geometry", lambda w: w.startswith(NO_GEOMETRY)),
    ("a 3D geometry that is not optimized", lambda w: w.startswith(NOT_OPTIMIZED)),
)


def unreliable_molecules(molecules: MoleculeStore) -> list[str]:
    """For each problem, how many molecules the model's input does not represent fully, and the first of them."""
    messages = []
    warned = list(molecules.warnings)
    for problem, reports in _PROBLEMS:
        affected = [(i, w) for i, found in warned if (w := next(filter(reports, found), None))]
        if affected:
            count = "1 molecule has" if len(affected) == 1 else f"{len(affected)} molecules have"
            first, warning = affected[0]
            messages.append(f"{count} {problem}; the first, {molecules[[first]].smiles[0]}: {warning}")
    return messages


def split_leakage(
    rows: np.ndarray, keys: list[str], groups: list[str] | None, split_labels: np.ndarray, origin: str
) -> list[str]:
    """Messages about molecules, and groups if there are any, that are in more than one split."""
    messages = []
    for what, names in (("molecule", keys), ("group", groups)):
        if names is not None:
            of_rows = np.full(len(split_labels), "", dtype=object)
            of_rows[rows] = names
            if found := find_leakage(of_rows.tolist(), split_labels.tolist()):
                messages.append(f"{describe_leakage(found, what)}; {origin}")
    return messages


def single_class_labels(dataset: PreparedDataset) -> list[str]:
    """The targets whose training labels are all of one class; empty if there are none."""
    names = single_class_targets(dataset.subset("train").targets, dataset.config.target_columns, dataset.task)
    if not names:
        return []
    count = (
        f"{short_repr(names[0])} has"
        if len(names) == 1
        else f"{len(names)} targets, the first {short_repr(names[0])}, have"
    )
    return [f"{count} training labels of one class only: there is nothing to tell apart"]


def standardized_molecules(dataset: PreparedDataset, table: Table) -> list[str]:
    """How many molecules standardisation changed, and the first of them; empty if it changed none."""
    changed = dataset.standardized
    if not changed:
        return []
    row, form = changed[0]
    verb = "molecule is" if len(changed) == 1 else "molecules are"
    return [
        f"{len(changed)} {verb} read in another form, see standardized.csv; the first, {table.location(row)}: "
        f"{short_repr(dataset.smiles[row])} as {short_repr(form)}"
    ]


def prepare(
    config: DataConfig,
    model: type[MoleculeModel],
    seed: int,
    num_workers: int = 0,
    progress: Progress | None = None,
    loss: str = "",
    alpha: float = Regression.alpha,
) -> PreparedDataset:
    """Read the table of a run, convert its molecules to what `model` reads, and split them.

    Args:
        config: the settings of the data.
        model: the class of the model.
        seed: of the split.
        num_workers, progress: as for `molattn.chem.featurize`.
        loss: the configured loss; the task's default when empty.
        alpha: of the loss "quantile".

    Raises:
        UsageError: a data set, column, split, task, loss or file that does not exist.
        InputError: a table that cannot be read, no usable row, an empty split, or a molecule without a geometry if
            the settings make that an error.
    """
    if config.standardize and config.standardize not in STANDARDIZE:
        raise UsageError(f"unknown standardize {config.standardize!r}: choose one of {', '.join(STANDARDIZE)}")
    computed = computed_descriptor_names(config)
    source = find_table(config)
    config, path = source.config, source.path
    table = read_table(path, table_options_of(config))
    of_atoms = has_atom_targets(table, config.target_columns, config.task_type)
    check_replicates_setting(config.replicates, of_atoms)
    if of_atoms:
        check_atom_targets(model, config.standardize)
        # Descriptors of molecules do not apply to atoms.
        config, computed = replace(config, molecule_featurizers=()), ()
    encoded = encode_targets(
        table,
        config.target_columns,
        config.task_type,
        of_atoms=of_atoms,
        add_hs=config.add_hs,
        positive_class=config.positive_class,
        loss=loss,
        decimal=config.decimal,
        thousands=config.thousands,
    )
    check_unreadable(encoded.table, encoded.unreadable, encoded.num_cells, config.max_unreadable)
    table = encoded.table
    records = read_records(
        table,
        config.smiles_column,
        config.target_columns,
        config.weight_column,
        config.group_column,
        of_atoms,
        config.descriptor_columns,
    )
    try:
        outcomes, stored_in, storage_warning = cached_molecules(
            records.smiles, featurization(config, model), num_workers, progress
        )
    except ConformerError as error:
        line = f", {table.location(int(records.rows[error.row]))}" if error.row is not None else ""
        raise InputError(f"{path}{line}: {error}; --on-3d-failure paths or reject goes on") from error
    matched = match_labels(records, outcomes.sizes, lambda i: outcomes[i].reason, table, encoded, config.target_columns)
    transforms: Transforms = ()
    if config.target_transform and len(matched.indices):
        known = config.task_type, loss, matched.targets, config.target_columns, encoded.classes, of_atoms, alpha
        transforms = resolve_transforms(
            config.target_transform, config.target_columns, source.units, resolve_task(*known, matched.bounds)[0]
        )
        matched = reject_undefined(matched, transforms, config.target_columns, records, table)
    usable, targets, rejected = matched.indices, matched.targets, matched.rejected
    molecules = outcomes[usable]
    if not len(molecules):
        first = f"the first, {rejected[0].location}: {rejected[0].reason}" if rejected else "it has none"
        raise InputError(f"{path}: no row can be used; {first}")
    task, task_message = resolve_task(
        config.task_type, loss, targets, config.target_columns, encoded.classes, of_atoms, alpha, matched.bounds
    )
    config = replace(config, task_type=task.name)
    smiles = column(table, config.smiles_column)
    split_labels = np.full(len(smiles), "", dtype="<U5")
    explicit, origin = _explicit_labels(config, table, smiles)
    # Two SMILES of one molecule have the same key, so they get the same split label.
    used = UsableRows.of_records(records, usable, molecules.keys, targets, rejected, matched.bounds)
    replicates: tuple[ReplicateRow, ...] = ()
    merge_message = ""
    if config.replicates != KEEP:
        used, kept, replicates, merge_message = merge_rows(config, used, task, transforms, table, explicit)
        molecules = molecules[kept]
    rows, keys, groups, targets, rejected = used.rows, used.keys, used.groups, used.targets, used.rejected
    stratify = targets if matched.offsets is None else molecule_means(targets, matched.offsets)
    try:
        assigned = _split(config, keys, stratify, seed, groups) if explicit is None else explicit[rows]
        if config.calibration_size:
            if CALIBRATION in assigned:
                raise UsageError(
                    f"{origin}, and has calibration molecules: leave out --calibration-size, which would take others"
                )
            assigned = hold_out_calibration(
                assigned, "random" if origin else config.split, keys, stratify, config.calibration_size, seed, groups
            )
    except InputError as error:
        # Rejected rows may be the cause.
        raise InputError("; ".join([str(error), *rejected_rows(rejected)])) from error
    split_labels[rows] = assigned
    leakage = split_leakage(rows, keys, groups, split_labels, origin)
    for replicate in replicates:
        if replicate.merged_into is not None:
            split_labels[replicate.row] = split_labels[replicate.merged_into]
    dataset = PreparedDataset(
        config=config,
        name=source.name,
        units=source.units,
        sha256=source.sha256,
        smiles=smiles,
        split_labels=split_labels,
        rows=rows,
        molecules=molecules,
        targets=targets,
        rejected=rejected,
        warnings=[
            *filter(None, [source.message, storage_warning]),
            *table.messages,
            *encoded.warnings,
            *records.warnings,
            *rejected_rows(rejected, ", see rejected.csv"),
            *filter(None, [merge_message]),
            *unreliable_molecules(molecules),
            *leakage,
        ],
        task=task,
        task_message="; ".join(filter(None, [source.columns_message, task_message])),
        weights=used.weights,
        groups=groups,
        stored_in=stored_in,
        offsets=matched.offsets,
        transforms=fit_transforms(transforms, targets[split_labels[rows] == "train"]) if transforms else (),
        replicates=replicates,
        lines=table.lines,
        line_unit=table.unit,
        bounds=used.bounds,
    )
    _check_splits(dataset)
    descriptors = append_computed_descriptors(computed, used.descriptors, molecules, num_workers)
    if descriptors is not None:
        dataset = _with_descriptors(dataset, descriptors, table)
    dataset.warnings.extend([*single_class_labels(dataset), *standardized_molecules(dataset, table)])
    return dataset


def read_options(config: DataConfig) -> ReadOptions:
    """How the molecules of a run are read."""
    conformers = None
    if config.conformers:
        conformers = ConformerOptions(config.conformer_seed, config.conformer_timeout, config.on_3d_failure)
    return ReadOptions(config.add_hs, config.max_atoms, conformers, config.standardize)


def featurization(config: DataConfig, model: type[MoleculeModel]) -> Featurization:
    """How the molecules of a run are read and packed, with the settings that identify them in the cache."""
    options = read_options(config)
    conformers = options.conformers
    return Featurization(
        featurize=model.reader(options),
        packing=model.packing(conformers=conformers is not None),
        settings={**asdict(options), "vocabulary": model.vocabulary()},
        stop_on_conformer_error=config.on_3d_failure == "stop",
        chunk_size=CHUNK_SIZE if conformers is None else CHUNK_SIZE_3D,
    )


def _explicit_labels(config: DataConfig, table: Table, smiles: list[str]) -> tuple[np.ndarray | None, str]:
    """The split labels of all rows from a column or a file, None for neither, and where they come from."""
    options = (("split_column", config.split_column), ("splits_file", config.splits_file))
    explicit = [name for name, value in options if value]
    if len(explicit) > 1:
        raise UsageError("split_column and splits_file both define the split: give one of them")
    if explicit and config.num_folds > 1:
        raise UsageError(f"{explicit[0]} is one split, not {config.num_folds} folds: leave out one or the other")
    if config.splits_file:
        return read_split_file(config.splits_file, smiles), f"{config.splits_file} is taken as it is"
    if config.split_column:
        return read_split_column(table, config.split_column), f"column {config.split_column!r} is taken as it is"
    return None, ""


def _split(config: DataConfig, keys: list[str], targets: np.ndarray, seed: int, groups: list[str] | None) -> np.ndarray:
    """The split labels of the usable rows, by the split method of the settings."""
    if config.num_folds > 1:
        return fold_labels(config.split, keys, targets, config.split_sizes, seed, config.num_folds, config.fold, groups)
    return split_labels(config.split, keys, targets, config.split_sizes, seed, groups)


def _with_descriptors(dataset: PreparedDataset, descriptors: np.ndarray, table: Table) -> PreparedDataset:
    """The dataset with extra descriptors, (n, k) in their units, which are standardised here.

    Raises:
        InputError: a value that is too far from those of the training molecules.
    """
    train = descriptors[dataset.indices("train")]
    scaler, warnings = fit_descriptor_scaler(dataset.config, train)
    z = scaler.scale(descriptors)
    if not np.isfinite(z).all():
        i = int(np.flatnonzero(~np.isfinite(z).all(1))[0])
        place = table.location(int(dataset.rows[i]))
        raise InputError(
            f"{table.source}, {place}: {scaler.range_error(descriptors[i].tolist())}; correct it, or take out the row"
        )
    warnings = [*dataset.warnings, *warnings]
    return replace(dataset, descriptors=z, descriptor_scaler=scaler, warnings=warnings)


def _check_splits(dataset: PreparedDataset) -> None:
    for split in SPLIT_LABELS:
        indices = dataset.indices(split)
        if not len(indices):
            raise InputError(f"the split leaves no molecule for {split}: give more rows or other --split-sizes")
        labels = dataset.targets[dataset.targets_of(indices)]
        for target, values in zip(dataset.config.target_columns, labels.T, strict=True):
            if split == "train" and not np.isfinite(values).any():
                value = "value" if dataset.bounds is None else "exact value"
                raise InputError(
                    f"the training molecules have no {value} in column {target!r}: there is nothing to learn"
                )
