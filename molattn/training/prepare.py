"""Prepare the data set of a run: read the table and its molecules, split them, and collect warnings."""

from dataclasses import asdict, replace

import numpy as np

from molattn.chem import STANDARDIZE, ConformerOptions, Progress, ReadOptions
from molattn.chem.molecule import CHUNK_SIZE, CHUNK_SIZE_3D
from molattn.data import (
    Table,
    column,
    read_records,
    read_table,
)
from molattn.data.store.cache import Featurization, cached_molecules
from molattn.data.tables.number_columns import normalize_numbers
from molattn.errors import ConformerError, InputError, UsageError, unknown_choice
from molattn.models.base import MoleculeModel, model_class
from molattn.models.task import Task
from molattn.models.tasks import Regression
from molattn.training.config import DataConfig
from molattn.training.data_messages import (
    describe_constant_targets,
    describe_rejected,
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
from molattn.training.split_rows import assign_splits, check_splits, read_split_labels, with_default_split
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
    check_unreadable(encoded.table, encoded.unreadable, encoded.num_cells, config.max_unreadable, encoded.advice)
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
        place = f", {table.location(int(records.rows[error.row]))}" if error.row is not None else ""
        raise InputError(f"{path}{place}: {error}; add --on-3d-failure paths or reject") from error
    matched = match_labels(records, outcomes.sizes, lambda i: outcomes[i].reason, table, encoded, config.target_columns)

    def find_task() -> tuple[Task, str]:
        names = config.target_columns
        return resolve_task(
            config.task_type, loss, matched.targets, names, encoded.classes, atom_level, alpha, matched.bounds
        )

    transforms: Transforms = ()
    if config.target_transform and len(matched.indices):
        transforms = resolve_transforms(config.target_transform, config.target_columns, source.units, find_task()[0])
        matched = reject_undefined(matched, transforms, config.target_columns, records, table)
    molecules = outcomes[matched.indices]
    if not len(molecules):
        raise no_row_error(path, matched.rejected)
    task, task_message = find_task()
    config = replace(config, task_type=task.name)
    smiles = column(table, config.smiles_column)
    split_labels = np.full(len(smiles), "", dtype="<U5")
    labels_read, origin = read_split_labels(config, table, smiles, seed)
    # Two SMILES of one molecule have the same key, so they get the same split label.
    usable = UsableRows.of_records(
        records, matched.indices, molecules.canonical_smiles, matched.targets, matched.rejected, matched.bounds
    )
    merged = None
    if config.duplicates != KEEP:
        merged = merge_rows(config, usable, task, transforms, table, labels_read)
        usable, molecules = merged.usable, molecules[merged.indices]
    rows, groups, targets, rejected = usable.rows, usable.groups, usable.targets, usable.rejected
    stratify = targets if matched.offsets is None else molecule_means(targets, matched.offsets)
    split_labels[rows] = assign_splits(config, usable, stratify, labels_read, origin, seed)
    leakage = describe_split_leakage(rows, usable.keys, groups, split_labels, origin)
    for duplicate in merged.duplicates if merged else ():
        if duplicate.merged_into is not None:
            split_labels[duplicate.row] = split_labels[duplicate.merged_into]
    fitted = fit_transforms(
        transforms,
        config.target_transform,
        config.target_columns,
        task,
        targets,
        split_labels[rows] == "train",
        usable.bounds,
    )
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
        transforms=fitted.transforms,
        transform_reasons=fitted.reasons,
        duplicates=merged.duplicates if merged else (),
        lines=table.lines,
        line_kind=table.line_kind,
        bounds=usable.bounds,
    )
    check_splits(dataset)
    values = append_computed_descriptors(computed, usable.descriptors, molecules, num_workers)
    if values is not None:
        dataset = _add_descriptors(dataset, values, table)
    dataset.warnings.extend([*describe_constant_targets(dataset), *describe_standardized(dataset, table)])
    return dataset


def _add_descriptors(dataset: PreparedDataset, values: np.ndarray, table: Table) -> PreparedDataset:
    """The data set with these extra descriptors, (n, k), standardized by those of the training molecules."""
    rows = dataset.rows
    scaler, z, warnings = standardize_descriptors(
        dataset.config,
        values,
        dataset.indices("train"),
        np.arange(len(rows)),
        lambda i: f"{table.source}, {table.location(int(rows[i]))}",
    )
    dataset.warnings.extend(warnings)
    return replace(dataset, descriptors=z, descriptor_scaler=scaler)


def prepare_run(config: RunConfig, progress: Progress | None = None) -> PreparedDataset:
    """`prepare` with the settings of a run, which include defaults that depend on the base model and the data set.

    Raises:
        UsageError, InputError: as `prepare` does; also for featurizers of molecules with atom-level targets.
    """
    data, settings = resolve_initialization(config)[0].data, config.training
    data = with_default_split(data, config.explicit_keys)
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
