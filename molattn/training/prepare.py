"""Prepare the data set of a run: read the table and its molecules, split them, and collect warnings."""

from dataclasses import asdict, replace

import numpy as np

from molattn.chem import STANDARDIZE, ConformerOptions, Progress, ReadOptions
from molattn.chem.molecule import CHUNK_SIZE, CHUNK_SIZE_3D
from molattn.data import (
    CALIBRATION,
    SPLIT_LABELS,
    Table,
    column,
    fold_labels,
    hold_out_calibration,
    read_records,
    read_split_column,
    read_split_file,
    read_table,
    split_labels,
)
from molattn.data.store.cache import Featurization, cached_molecules
from molattn.data.tables.number_columns import normalize_numbers
from molattn.errors import ConformerError, InputError, UsageError, unknown_choice
from molattn.models.base import MoleculeModel, model_class
from molattn.models.tasks import Regression
from molattn.training.config import DataConfig
from molattn.training.data_messages import (
    describe_rejected,
    describe_single_classes,
    describe_split_leakage,
    describe_standardized,
    describe_unreliable,
    no_row_error,
)
from molattn.training.dataset import PreparedDataset
from molattn.training.descriptors import (
    append_computed_descriptors,
    check_featurizers,
    computed_descriptor_names,
    standardize_descriptors,
)
from molattn.training.encoded_table import check_unreadable
from molattn.training.initialization import resolve_initialization
from molattn.training.labels import check_atom_targets, match_labels, molecule_means
from molattn.training.merge_duplicates import KEEP, check_duplicates_setting, merge_rows
from molattn.training.run_config import RunConfig
from molattn.training.table_source import find_table, table_options_of
from molattn.training.targets import encode_targets, has_atom_targets
from molattn.training.task_inference import resolve_task
from molattn.training.transforms import Transforms, fit_transforms, reject_undefined, resolve_transforms
from molattn.training.usable_rows import UsableRows


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
        raise UsageError(unknown_choice("standardize", config.standardize, STANDARDIZE))
    computed = computed_descriptor_names(config)
    source = find_table(config)
    config, path = source.config, source.path
    options = table_options_of(config)
    table = read_table(path, options, max_atoms=config.max_atoms)
    atom_level = has_atom_targets(table, config.target_columns, config.task_type)
    check_duplicates_setting(config.duplicates, atom_level)
    if atom_level:
        check_atom_targets(model, config.standardize)
        # Descriptors of molecules do not apply to atoms.
        config, computed = replace(config, molecule_featurizers=()), ()
    encoded = encode_targets(
        table,
        config.target_columns,
        config.task_type,
        atom_level=atom_level,
        add_hs=config.add_hs,
        positive_class=config.positive_class,
        loss=loss,
        options=options,
    )
    check_unreadable(encoded.table, encoded.unreadable, encoded.num_cells, config.max_unreadable)
    weight = (config.weight_column,) if config.weight_column else ()
    table, number_warnings = normalize_numbers(encoded.table, (*weight, *config.descriptor_columns), options)
    records = read_records(
        table,
        config.smiles_column,
        config.target_columns,
        config.weight_column,
        config.group_column,
        atom_level,
        config.descriptor_columns,
        options=None,
    )
    try:
        outcomes, cache_folder, cache_warning = cached_molecules(
            records.smiles, featurization(config, model), num_workers, progress
        )
    except ConformerError as error:
        line = f", {table.location(int(records.rows[error.row]))}" if error.row is not None else ""
        raise InputError(f"{path}{line}: {error}; add --on-3d-failure paths or reject") from error
    matched = match_labels(records, outcomes.sizes, lambda i: outcomes[i].reason, table, encoded, config.target_columns)
    transforms: Transforms = ()
    if config.target_transform and len(matched.indices):
        task, _ = resolve_task(
            config.task_type,
            loss,
            matched.targets,
            config.target_columns,
            encoded.classes,
            atom_level,
            alpha,
            matched.bounds,
        )
        transforms = resolve_transforms(config.target_transform, config.target_columns, source.units, task)
        matched = reject_undefined(matched, transforms, config.target_columns, records, table)
    targets, rejected = matched.targets, matched.rejected
    molecules = outcomes[matched.indices]
    if not len(molecules):
        raise no_row_error(path, rejected)
    task, task_message = resolve_task(
        config.task_type, loss, targets, config.target_columns, encoded.classes, atom_level, alpha, matched.bounds
    )
    config = replace(config, task_type=task.name)
    smiles = column(table, config.smiles_column)
    split_labels = np.full(len(smiles), "", dtype="<U5")
    given, origin = _given_split_labels(config, table, smiles)
    # Two SMILES of one molecule have the same key, so they get the same split label.
    usable = UsableRows.of_records(
        records, matched.indices, molecules.canonical_smiles, targets, rejected, matched.bounds
    )
    merged = None
    if config.duplicates != KEEP:
        merged = merge_rows(config, usable, task, transforms, table, given)
        usable, molecules = merged.usable, molecules[merged.indices]
    rows, keys, groups, targets, rejected = usable.rows, usable.keys, usable.groups, usable.targets, usable.rejected
    stratify = targets if matched.offsets is None else molecule_means(targets, matched.offsets)
    try:
        assigned = _split(config, keys, stratify, seed, groups) if given is None else given[rows]
        if config.calibration_size:
            if CALIBRATION in assigned:
                raise UsageError(f"{origin}, and has calibration molecules: leave out --calibration-size")
            assigned = hold_out_calibration(
                assigned, "random" if origin else config.split, keys, stratify, config.calibration_size, seed, groups
            )
    except InputError as error:
        # Rejected rows may be the cause.
        raise InputError("; ".join([str(error), *describe_rejected(rejected)])) from error
    split_labels[rows] = assigned
    leakage = describe_split_leakage(rows, keys, groups, split_labels, origin)
    for duplicate in merged.duplicates if merged else ():
        if duplicate.merged_into is not None:
            split_labels[duplicate.row] = split_labels[duplicate.merged_into]
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
            *filter(None, [source.message, cache_warning]),
            *table.warnings,
            *encoded.warnings,
            *number_warnings,
            *describe_rejected(rejected, ", see rejected.csv"),
            *filter(None, [merged and merged.message]),
            *describe_unreliable(molecules),
            *leakage,
        ],
        task=task,
        task_message="; ".join(filter(None, [source.columns_message, task_message])),
        weights=usable.weights,
        groups=groups,
        cache_folder=cache_folder,
        offsets=matched.offsets,
        transforms=fit_transforms(transforms, targets[split_labels[rows] == "train"]) if transforms else (),
        duplicates=merged.duplicates if merged else (),
        lines=table.lines,
        line_unit=table.unit,
        bounds=usable.bounds,
    )
    _check_splits(dataset)
    descriptors = append_computed_descriptors(computed, usable.descriptors, molecules, num_workers)
    if descriptors is not None:
        train, every_row, source = dataset.indices("train"), np.arange(len(rows)), table.source
        scaler, z, warnings = standardize_descriptors(
            config, descriptors, train, every_row, lambda i: f"{source}, {table.location(int(rows[i]))}"
        )
        dataset = replace(dataset, descriptors=z, descriptor_scaler=scaler)
        dataset.warnings.extend(warnings)
    dataset.warnings.extend([*describe_single_classes(dataset), *describe_standardized(dataset, table)])
    return dataset


def prepare_run(config: RunConfig, progress: Progress | None = None) -> PreparedDataset:
    """`prepare` with the settings of a run, which include defaults that depend on the base model.

    Raises:
        UsageError, InputError: as `prepare` does; also for featurizers of molecules with atom-level targets.
    """
    data, settings = resolve_initialization(config)[0].data, config.training
    model = model_class(config.model.kind)
    dataset = prepare(data, model, settings.seed, settings.num_workers, progress, settings.loss, settings.alpha)
    check_featurizers(config, dataset.task.atom_level)
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


def _given_split_labels(config: DataConfig, table: Table, smiles: list[str]) -> tuple[np.ndarray | None, str]:
    """The split labels of all rows from a column or a file, None for neither, and where they come from."""
    options = (("split_column", config.split_column), ("splits_file", config.splits_file))
    given = [name for name, value in options if value]
    if len(given) > 1:
        raise UsageError("split_column and splits_file both define the split: give one of them")
    if given and config.num_folds > 1:
        raise UsageError(f"{given[0]} is one split, not {config.num_folds} folds: leave out one or the other")
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


def _check_splits(dataset: PreparedDataset) -> None:
    for split in SPLIT_LABELS:
        indices = dataset.indices(split)
        if not len(indices):
            raise InputError(f"the split leaves no molecule for {split}: give more rows or other --split-sizes")
        labels = dataset.targets[dataset.target_rows(indices)]
        for target, values in zip(dataset.config.target_columns, labels.T, strict=True):
            if split == "train" and not np.isfinite(values).any():
                value = "value" if dataset.bounds is None else "exact value"
                raise InputError(
                    f"the training molecules have no {value} in column {target!r}: there is nothing to learn"
                )
