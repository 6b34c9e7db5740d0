"""Evaluate a trained model on a table with labels."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from molattn.chem import ReadOptions
from molattn.chem.molecule import map_rows
from molattn.data import RejectedRow, column, guess_smiles_column, read_records, read_table
from molattn.data.tables.number_columns import normalize_numbers
from molattn.data.tables.options import DEFAULT_TABLE_OPTIONS, TableOptions
from molattn.data.tables.units import find_without_unit
from molattn.errors import InputError, SmilesError, UsageError, short_repr
from molattn.models.artifact import Artifact
from molattn.models.baseline import baseline_labels
from molattn.models.predictions import Predictions
from molattn.training.class_names import ZERO_ONE, fold_label, positive_of
from molattn.training.data_messages import no_row_error
from molattn.training.descriptors import append_computed_descriptors
from molattn.training.labels import MatchedLabels, check_atom_targets, match_labels, molecule_key
from molattn.training.metrics import intervals_by_target, mean_over_targets, metrics_by_target, resolve_metrics
from molattn.training.run_status import SPLITS_FILE
from molattn.training.targets import encode_targets
from molattn.training.transforms import reject_undefined, transformed_metrics
from molattn.training.uncertainty_metrics import evaluate_uncertainty


@dataclass(frozen=True)
class Evaluation:
    """The predictions and metrics of a model on a table.

    Attributes:
        rows: (n,) rows of the table that were evaluated, ascending.
        smiles: of these rows.
        targets: (n, T) their labels, NaN where missing; class indices for multiclass targets; (N, T) for targets of
            atoms, as in `PreparedDataset`.
        predictions: the predictions for them.
        metrics: {target: {metric: value, "n": labels}}; "censored" counts the labels that are bounds, such as >10,
            which the metrics leave out.
        intervals: the 95% intervals of the metrics, {target: {metric: [lower, upper]}}; see
            `molattn.training.metrics`.
        mean: of the metrics over the targets; empty for one target.
        baseline: the metrics of the baseline, which always predicts the training mean (with a transform, its inverse of
            the mean of the transformed targets), or the shares of the classes in training; empty if the
            shares were not saved with the model, as by earlier versions.
        seen: (n,) whether the molecule of each row was used to train, select or calibrate the model; all False if the
            run's split is not known.
        unseen_metrics: the metrics of the other rows; empty if all rows or none have been seen.
        rejected: the rows that were not evaluated, and why.
        offsets: (n + 1,) row pointers, as in `LabelledMolecules`; None for one row per molecule.
        uncertainty: the metrics of the model's uncertainties, in the format of a run's metrics.json, with these
            molecules as the test split; empty for a model without uncertainties.
        transformed: the metrics of the transformed targets, each with its "unit"; only targets with a transform.
        warnings: messages on how the table was read.
        baseline_labels: what the baseline predicts, by target, such as "the training mean".
    """

    rows: np.ndarray
    smiles: list[str]
    targets: np.ndarray
    predictions: Predictions
    metrics: dict[str, dict[str, Any]]
    intervals: dict[str, dict[str, Any]]
    mean: dict[str, Any]
    baseline: dict[str, dict[str, Any]]
    seen: np.ndarray
    unseen_metrics: dict[str, dict[str, Any]]
    rejected: list[RejectedRow]
    offsets: np.ndarray | None = None
    uncertainty: dict[str, Any] = field(default_factory=dict)
    transformed: dict[str, dict[str, Any]] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    baseline_labels: dict[str, str] = field(default_factory=dict)


def evaluate(
    artifact: Artifact,
    path: str | Path,
    *,
    smiles_column: str = "",
    target_columns: Sequence[str] = (),
    metrics: tuple[str, ...] = (),
    num_workers: int = 0,
    read_options: ReadOptions | None = None,
    seen: Iterable[str] = (),
    progress: Callable[[int, int], None] | None = None,
    table_options: TableOptions = DEFAULT_TABLE_OPTIONS,
) -> Evaluation:
    """Evaluate a model on a table that has the labels of its targets.

    Args:
        artifact: the model.
        path: of the table.
        smiles_column: found by its name when empty.
        target_columns: the columns of the labels, in the order of the model's targets; by default of the same names.
        metrics: names in `METRICS`; the task's defaults when empty.
        num_workers, progress: as for `molattn.chem.featurize`.
        read_options: how molecules are read; by default as in training.
        seen: SMILES of the molecules that were used to train, select or calibrate the model; see `seen_smiles`.
        table_options: encoding, header and sheet of the table, and the format of its numbers.

    Raises:
        UsageError: a column or a metric that does not exist, or another number of columns than targets.
        InputError: a table that cannot be read, labels that do not match the model's task, or no usable row.
    """
    task, targets = artifact.task, artifact.targets
    columns = tuple(target_columns) or targets
    if len(columns) != len(targets):
        raise UsageError(
            f"--target-columns names {len(columns)} columns for {len(targets)} targets: give a column for each, "
            f"in this order: {', '.join(targets)}"
        )
    read_options = read_options or artifact.read_options
    names = resolve_metrics(task.kind, task.metrics, metrics)
    table = read_table(path, table_options, max_atoms=read_options.max_atoms)
    columns = tuple(find_without_unit(table.columns, name) for name in columns)
    smiles_column = smiles_column or guess_smiles_column(table.columns, table.smiles_column)
    if task.atom_level:
        check_atom_targets(type(artifact.model), read_options.standardize)
    encoded = encode_targets(
        table,
        columns,
        task.name,
        task.classes,
        task.atom_level,
        read_options.add_hs,
        options=table_options,
    )
    class_messages = () if task.classes else _words_as_numbers(columns, encoded.classes)
    scaler = artifact.descriptors
    descriptor_columns = () if scaler is None else scaler.provided
    normalized, number_warnings = normalize_numbers(encoded.table, descriptor_columns, table_options)
    records = read_records(
        normalized,
        smiles_column,
        columns,
        atom_level=task.atom_level,
        descriptor_columns=descriptor_columns,
        options=None,
    )
    outcomes = artifact.model.read(records.smiles, read_options, num_workers, progress)
    scaled, unusable = None, {}
    if scaler is not None:
        values = append_computed_descriptors(scaler.computed, records.descriptors, outcomes, num_workers)
        if values is not None:
            scaled = scaler.scale(values)
            out_of_range = np.flatnonzero(~np.isfinite(scaled).all(1))
            unusable = {int(i): scaler.range_error(values[i].tolist()) for i in out_of_range}

    def predict() -> tuple[MatchedLabels, Predictions, dict[int, str]]:
        """The rows that can be evaluated, their predictions, and why molecules have no prediction, by index."""
        sizes = [
            0 if i in unusable or isinstance(outcome, SmilesError) else outcome.size
            for i, outcome in enumerate(outcomes)
        ]
        matched = match_labels(
            records, sizes, lambda i: getattr(outcomes[i], "reason", unusable.get(i, "")), table, encoded, columns
        )
        matched = reject_undefined(matched, artifact.scaler.transforms, columns, records, table)
        molecules = [outcome for i in matched.indices if not isinstance(outcome := outcomes[i], SmilesError)]
        if not molecules:
            raise no_row_error(path, matched.rejected, "evaluated")
        task.check(matched.targets, columns)
        failed: dict[int, str] = {}
        descriptors = None if scaled is None else scaled[matched.indices]
        predict_molecules = artifact.predict if artifact.calibration is None else artifact.predict_for_intervals
        return matched, predict_molecules(molecules, descriptors, failures=failed), failed

    matched, uncalibrated, failed = predict()
    if failed:
        unusable |= {int(matched.indices[i]): reason for i, reason in failed.items()}
        matched, uncalibrated, _ = predict()
    true = matched.targets
    predictions = artifact.apply_calibration(uncalibrated)
    by_target = metrics_by_target(task, targets, true, predictions, names, matched.bounds)
    constant, baseline = artifact.baseline_predictions(len(true)), {}
    if constant is not None:
        baseline = metrics_by_target(task, targets, true, constant, names, matched.bounds)
    smiles = [records.smiles[i] for i in matched.indices]
    is_seen, keys = _are_seen(smiles, seen, read_options.standardize, num_workers)
    unseen: dict[str, dict[str, Any]] = {}
    if is_seen.any() and not is_seen.all():
        unseen_rows = ~is_seen if matched.offsets is None else np.repeat(~is_seen, np.diff(matched.offsets))
        bounds = None if matched.bounds is None else matched.bounds[unseen_rows]
        unseen = metrics_by_target(task, targets, true[unseen_rows], predictions[unseen_rows], names, bounds)
    return Evaluation(
        rows=records.rows[matched.indices],
        smiles=smiles,
        targets=true,
        predictions=predictions,
        metrics=by_target,
        intervals=intervals_by_target(task, targets, true, predictions, names, keys, matched.offsets),
        mean=mean_over_targets(by_target, names) if len(targets) > 1 else {},
        baseline=baseline,
        seen=is_seen,
        unseen_metrics=unseen,
        rejected=matched.rejected,
        offsets=matched.offsets,
        uncertainty=evaluate_uncertainty(artifact, {"test": (true, uncalibrated)}),
        transformed=transformed_metrics(
            task, targets, artifact.units, artifact.scaler.transforms, true, uncalibrated, names
        ),
        warnings=(*table.warnings, *encoded.warnings, *class_messages, *number_warnings),
        baseline_labels=baseline_labels(task, targets, artifact.scaler.transforms),
    )


def _words_as_numbers(targets: Sequence[str], classes: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Messages on how words are read by a model that was trained on 0 and 1, one for each target that has words.

    Raises:
        InputError: it is not known which word is the positive class.
    """
    messages = []
    for name, (negative, positive) in zip(targets, classes, strict=bool(classes)):
        if (negative, positive) == ZERO_ONE:
            continue
        if not positive_of(fold_label(negative), fold_label(positive)):
            raise InputError(
                f"column {short_repr(name)} holds the words {negative} and {positive}, and the model was trained on 0 "
                "and 1: write 1 for the positive class and 0 for the other"
            )
        messages.append(f"column {short_repr(name)}: {positive} is read as 1 and {negative} as 0")
    return tuple(messages)


def seen_smiles(run: Path) -> list[str]:
    """The SMILES of a run's `splits.csv` outside its test split; none if there is no such file.

    Raises:
        UsageError: a column of the file is missing.
    """
    path = run / SPLITS_FILE
    if not path.is_file():
        return []
    table = read_table(path)
    rows = zip(column(table, "smiles"), column(table, "split"), strict=True)
    return [smiles for smiles, label in rows if label not in ("", "test")]


def _are_seen(
    smiles: Sequence[str], seen: Iterable[str], standardize: str, num_workers: int
) -> tuple[np.ndarray, Sequence[object]]:
    """(n,) whether each molecule is one of `seen`, whatever its SMILES; and a key of each molecule.

    Without `seen` the key is the SMILES as written.
    """
    seen = list(seen)
    if not seen:
        return np.zeros(len(smiles), dtype=bool), smiles
    key = partial(molecule_key, standardize=standardize)
    seen_keys = set(map_rows(seen, key, num_workers))
    keys = map_rows(smiles, key, num_workers)
    return np.array([found in seen_keys for found in keys]), keys
