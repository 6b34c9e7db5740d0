"""The split of the usable rows of a run: read from a column, a file or a benchmark, or computed by a split method."""

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from molattn.data import (
    CALIBRATION,
    SPLIT_LABELS,
    OfficialSplit,
    Table,
    fold_labels,
    hold_out_calibration,
    load_card,
    official_split_labels,
    read_split_column,
    read_split_file,
    split_labels,
)
from molattn.errors import InputError, UsageError
from molattn.training.config import OFFICIAL_SPLIT, DataConfig
from molattn.training.data_messages import describe_rejected
from molattn.training.dataset import PreparedDataset
from molattn.training.table_source import is_path
from molattn.training.usable_rows import UsableRows


def with_default_split(config: DataConfig, explicit_keys: Collection[str]) -> DataConfig:
    """The settings with the official split of their data set, if it has one and no other is requested.

    explicit_keys: the settings that were set explicitly, as "section.key".
    """
    chosen = "data.split" in explicit_keys or config.split_column or config.splits_file or config.num_folds > 1
    if chosen or not config.dataset or is_path(config.dataset) or load_card(config.dataset).official_split is None:
        return config
    return replace(config, split=OFFICIAL_SPLIT)


def read_split_labels(config: DataConfig, table: Table, smiles: list[str], seed: int) -> tuple[np.ndarray | None, str]:
    """Read the split labels of all rows from a column, a file or a benchmark; None if the settings name none of these.

    Also returns their origin, a phrase for messages; empty for None.

    Raises:
        UsageError: two of these are configured, one of them with folds, or there is no official split.
    """
    options = (("split_column", config.split_column), ("splits_file", config.splits_file))
    configured = [name for name, value in options if value]
    if len(configured) > 1:
        raise UsageError("split_column and splits_file both define the split: give one of them")
    is_official = config.split == OFFICIAL_SPLIT and not configured
    if (configured or is_official) and config.num_folds > 1:
        name = configured[0] if configured else f"the split {OFFICIAL_SPLIT!r}"
        raise UsageError(f"{name} is one split, not {config.num_folds} folds: leave out one or the other")
    if is_official:
        labels = official_split_labels(_official_split(config), table, smiles, seed)
        return labels, f"the official split of {config.dataset} is used unchanged"
    if config.splits_file:
        return read_split_file(config.splits_file, smiles), f"{config.splits_file} is used unchanged"
    if config.split_column:
        return read_split_column(table, config.split_column), f"column {config.split_column!r} is used unchanged"
    return None, ""


def _official_split(config: DataConfig) -> OfficialSplit:
    """The official split of the data set."""
    official = None if is_path(config.dataset) else load_card(config.dataset).official_split
    if official is None:
        raise UsageError(
            f"{config.dataset} has no official split: give --split-column for a split of the table, or another --split"
        )
    return official


def assign_splits(
    config: DataConfig, usable: UsableRows, targets: np.ndarray, labels: np.ndarray | None, origin: str, seed: int
) -> np.ndarray:
    """The split label of each of the n usable rows, those for calibration included.

    Args:
        config: the settings.
        usable: the rows.
        targets: (n, T), by which rows are stratified.
        labels, origin: from `read_split_labels`.
        seed: of the split.

    Raises:
        UsageError: the split was read and has calibration molecules, and `calibration_size` is configured as well.
        InputError: there are too few rows.
    """
    keys, groups = usable.keys, usable.groups
    try:
        assigned = _split(config, keys, targets, seed, groups) if labels is None else labels[usable.rows]
        if not config.calibration_size:
            return assigned
        if CALIBRATION in assigned:
            raise UsageError(f"{origin}, and has calibration molecules: leave out --calibration-size")
        method = "random" if origin else config.split
        return hold_out_calibration(assigned, method, keys, targets, config.calibration_size, seed, groups)
    except InputError as error:
        # Rejected rows may be the cause.
        raise InputError("; ".join([str(error), *describe_rejected(usable.rejected)])) from error


def _split(config: DataConfig, keys: list[str], targets: np.ndarray, seed: int, groups: list[str] | None) -> np.ndarray:
    """The split labels of the usable rows, by the split method of the settings."""
    if config.num_folds > 1:
        return fold_labels(config.split, keys, targets, config.split_sizes, seed, config.num_folds, config.fold, groups)
    return split_labels(config.split, keys, targets, config.split_sizes, seed, groups)


def check_splits(dataset: PreparedDataset) -> None:
    """Raise InputError for a split without molecules, or a target without a label in the training split."""
    for split in SPLIT_LABELS:
        indices = dataset.indices(split)
        if not len(indices):
            advice = "give more rows or other --split-sizes"
            if not dataset.config.split_sizes[SPLIT_LABELS.index(split)]:
                advice = "a training needs train, val and test, so give each a share above 0 in --split-sizes"
            raise InputError(f"the split leaves no molecule for {split}: {advice}")
        labels = dataset.targets[dataset.target_rows(indices)]
        for target, values in zip(dataset.config.target_columns, labels.T, strict=True):
            if split == "train" and not np.isfinite(values).any():
                value = "value" if dataset.bounds is None else "exact value"
                raise InputError(
                    f"the training molecules have no {value} in column {target!r}: there is nothing to learn"
                )
