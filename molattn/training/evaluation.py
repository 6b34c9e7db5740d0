"""A trained model on a table with labels that it may never have seen."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from molattn.chem import Conformers
from molattn.data import Rejected, guess_smiles_column, read_records, read_table
from molattn.errors import InputError, SmilesError
from molattn.models.artifact import Artifact
from molattn.models.base import Molecule
from molattn.models.predict import outputs_of
from molattn.models.tasks import Answers
from molattn.training.metrics import mean_over_targets, metrics_for
from molattn.training.run_folder import target_metrics
from molattn.training.targets import code_targets


@dataclass(frozen=True)
class Evaluation:
    """What a model is worth on a table.

    Attributes:
        rows: (n,) rows of the table that were measured, ascending.
        smiles: theirs.
        targets: (n, T) their labels, NaN where missing; of several classes, places among them.
        answers: the predictions for them.
        metrics: {target: {metric: value, "n": labels}}.
        mean: of the metrics over the targets; empty for one target.
        rejected: the rows that were not measured, and why.
    """

    rows: np.ndarray
    smiles: list[str]
    targets: np.ndarray
    answers: Answers
    metrics: dict[str, dict[str, Any]]
    mean: dict[str, Any]
    rejected: list[Rejected]


def evaluate(
    artifact: Artifact,
    path: str | Path,
    *,
    smiles_column: str = "",
    metrics: tuple[str, ...] = (),
    num_workers: int = 0,
    conformers: Conformers | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """The metrics of a model on a table that has the columns of its targets.

    Args:
        artifact: the model.
        path: of the table.
        smiles_column: found by its name when empty.
        metrics: names in `METRICS`; the task's own when empty.
        num_workers, progress: as for `molattn.chem.featurize`.
        conformers: how molecules get distances; None for a model without 3D.

    Raises:
        UsageError: a column or a metric that does not exist.
        InputError: a table that cannot be read, labels that the model's task does not know, or no usable row.
    """
    task, targets = artifact.task, artifact.targets
    names = metrics_for(task.kind, task.metrics, metrics)
    table = read_table(path)
    column = smiles_column or guess_smiles_column(table.columns, table.smiles_column)
    coded = code_targets(table, targets, task.kind, task.classes)
    beside = artifact.descriptors
    records = read_records(coded.table, column, targets, descriptor_columns=() if beside is None else beside.names)
    task.check(records.targets, targets)
    made = artifact.model.read(
        records.smiles,
        add_hs=artifact.add_hs,
        max_atoms=artifact.max_atoms,
        num_workers=num_workers,
        conformers=conformers,
        progress=progress,
        standardize=artifact.standardize,
    )
    described = None if beside is None or records.descriptors is None else beside.scale(records.descriptors)
    kept: list[int] = []
    molecules: list[Molecule] = []
    rejected = [replace(r, reason=coded.reasons.get(r.row, r.reason)) for r in records.rejected]
    for i, (row, smiles, outcome) in enumerate(zip(records.rows.tolist(), records.smiles, made, strict=True)):
        if isinstance(outcome, SmilesError):
            rejected.append(Rejected(row, table.lines[row], smiles, outcome.reason, table.unit))
        elif described is not None and not np.isfinite(described[i]).all():
            assert beside is not None and records.descriptors is not None
            reason = beside.too_far(records.descriptors[i].tolist())
            rejected.append(Rejected(row, table.lines[row], smiles, reason, table.unit))
        else:
            kept.append(i)
            molecules.append(outcome)
    rejected.sort(key=lambda r: r.row)
    if not molecules:
        first = f"; the first, {rejected[0].place}: {rejected[0].reason}" if rejected else ""
        raise InputError(f"{path}: no row can be measured{first}")
    true = records.targets[kept]
    outputs = outputs_of(artifact.model, molecules, descriptors=None if described is None else described[kept])
    answers = task.answers(outputs, artifact.scaler)
    measured = target_metrics(task, targets, true, answers, names)
    return Evaluation(
        rows=records.rows[kept],
        smiles=[records.smiles[i] for i in kept],
        targets=true,
        answers=answers,
        metrics=measured,
        mean=mean_over_targets(measured, names) if len(targets) > 1 else {},
        rejected=rejected,
    )
