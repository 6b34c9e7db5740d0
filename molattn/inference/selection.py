"""Active learning: which molecules of a pool to measure next."""

from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace

import numpy as np
import torch

from molattn.chem import morgan_bits, standardized_smiles
from molattn.chem.diversity import select_diverse
from molattn.data.files import atomic_write
from molattn.data.tables.row_stream import CHUNK_SIZE, Chunk
from molattn.data.tables.units import find_without_unit
from molattn.data.tables.writers import Column, NewColumn, TableWriter, TextFormat, open_compressed
from molattn.errors import UsageError, unknown_choice
from molattn.inference.added_columns import STATUS_COLUMNS, prediction_columns
from molattn.inference.open_table import check_strict, open_table
from molattn.inference.options import PredictionOptions
from molattn.inference.row_counts import RowCounts
from molattn.inference.row_predictor import RowPredictor
from molattn.inference.rows import RowPrediction, rows_to_arrays
from molattn.inference.table_engine import ProgressFactory, Warn
from molattn.inference.table_job import TableJob
from molattn.models.artifact import Artifact
from molattn.models.target_transform import TargetTransform
from molattn.models.uncertainty import NONE

UNCERTAINTY, IMPROVEMENT, DIVERSE = STRATEGIES = ("uncertainty", "expected-improvement", "diverse")
"""How molecules are selected."""

GOALS = ("maximize", "minimize")
"""Whether higher or lower values of the target are better."""


@dataclass(frozen=True)
class Selection:
    """Molecules that were selected from a pool, the first choice first.

    Attributes:
        rows: (k,) their indices in the pool; fewer than requested if the pool has fewer readable molecules.
        scores: (k,) their scores. "uncertainty": the standard deviation in the unit of the target, or the
            entropy of the classes in nats. "expected-improvement": the expected improvement in the unit of the target.
            "diverse": the Tanimoto distance to the nearest molecule among the training molecules that the model keeps
            and those selected before.
        predictions: the k predictions.
        failed: the rows of the pool that have no prediction.
        errors: why, for each of them.

    >>> import numpy as np
    >>> from molattn.inference import Selection
    >>> pool = ["CCO", "CCN", "CCC"]
    >>> selection = Selection(rows=np.array([2, 0]), scores=np.array([0.9, 0.4]), predictions=())  # of Predictor.select
    >>> [pool[row] for row in selection.rows]
    ['CCC', 'CCO']
    """

    rows: np.ndarray
    scores: np.ndarray
    predictions: tuple[RowPrediction, ...]
    failed: tuple[int, ...] = ()
    errors: tuple[str, ...] = ()


@dataclass(frozen=True)
class SelectionOptions:
    """How molecules are selected.

    Attributes:
        size: k, how many.
        strategy: one of `STRATEGIES`.
        target: name of the target, for the first two strategies; required if the model has several.
        goal: one of `GOALS`, for "expected-improvement".
        best: the best value measured so far, in the unit of the target, for "expected-improvement".
        uncertainty_method: how standard deviations are computed; the model's default when empty.
        seed: of the first molecule of "diverse", if the model keeps no training molecules.

    Raises:
        UsageError: a size below 1, an unknown strategy or goal, or a `best` that is missing or not needed.
    """

    size: int
    strategy: str = UNCERTAINTY
    target: str | None = None
    goal: str = "maximize"
    best: float | None = None
    uncertainty_method: str = ""
    seed: int = 0

    def __post_init__(self):
        if not isinstance(self.size, int | np.integer) or self.size < 1:
            raise UsageError(f"a whole number of molecules is selected, at least 1, not {self.size}")
        if self.strategy not in STRATEGIES:
            raise UsageError(unknown_choice("strategy", self.strategy, STRATEGIES))
        if self.goal not in GOALS:
            raise UsageError(unknown_choice("goal", self.goal, GOALS))
        if self.strategy == IMPROVEMENT and (self.best is None or not np.isfinite(self.best)):
            raise UsageError("expected-improvement needs the best value measured so far: give best (--best)")
        if self.strategy != IMPROVEMENT and self.best is not None:
            raise UsageError(f"best applies only to expected-improvement, not to {self.strategy}: leave it out")

    def prediction_options(self, artifact: Artifact) -> PredictionOptions:
        """What has to be predicted for the selection.

        Raises:
            UsageError: an atom-level model; an unknown target, or none of several; expected improvement of classes; or
                no standard deviations.
        """
        task = artifact.task
        if task.atom_level:
            raise UsageError("molecules are selected by molecule-level targets, and those of the model are atom-level")
        if self.strategy == DIVERSE:
            return PredictionOptions(uncertainty_method=self.uncertainty_method)
        self.target_index(artifact)
        if self.strategy == IMPROVEMENT and task.kind != "regression":
            raise UsageError("expected-improvement applies only to regression: use the strategy uncertainty")
        method = self.uncertainty_method or artifact.uncertainty_method
        if task.kind == "regression" and method == NONE:
            raise UsageError(
                f"{self.strategy} needs standard deviations, and the model has none: train with --ensemble-size 5 or "
                "the loss mve, evidential or quantile, or give --uncertainty-method dropout "
                "(uncertainty_method='dropout')"
            )
        return PredictionOptions(uncertainty_method=self.uncertainty_method)

    def target_index(self, artifact: Artifact) -> int:
        """The index of the target.

        Raises:
            UsageError: there is none of this name, or the model has several and none is named.
        """
        targets = list(artifact.targets)
        if self.target is None and len(targets) > 1:
            raise UsageError(
                f"the model has several targets, {', '.join(targets)}: choose one with --target (target={targets[0]!r})"
            )
        name = targets[0] if self.target is None else find_without_unit(targets, self.target)
        if name not in targets:
            raise UsageError(unknown_choice("target", name, targets))
        return targets.index(name)


def expected_improvement(mean: np.ndarray, std: np.ndarray, best: float, goal: str = "maximize") -> np.ndarray:
    """The expected improvement on `best` of values with normal distributions.

    EI = (mean - best) Phi(z) + std phi(z),  z = (mean - best) / std

    with the signs of mean and best reversed if the goal is "minimize"; max(mean - best, 0) where std is 0.

    Args:
        mean, std: (n,).
        best: the best value so far.
        goal: one of `GOALS`.

    Source: Jones et al., J. Global Optim. 1998, 13, 455 (https://doi.org/10.1023/A:1008306431147).

    >>> expected_improvement(np.array([0.0, 1.0]), np.array([1.0, 0.0]), best=0.0).round(4).tolist()
    [0.3989, 1.0]
    """
    difference = (mean - best) if goal == "maximize" else (best - mean)
    spread = np.where(std > 0, std, 1.0)
    z = difference / spread
    cumulative = torch.special.ndtr(torch.from_numpy(z)).numpy()
    density = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    return np.where(std > 0, difference * cumulative + spread * density, np.maximum(difference, 0.0))


def entropy(probabilities: np.ndarray) -> np.ndarray:
    """-sum_c p_c ln p_c of (n, classes), in nats.

    >>> entropy(np.array([[0.5, 0.5], [1.0, 0.0]])).round(4).tolist()
    [0.6931, 0.0]
    """
    logs = np.log(probabilities, out=np.zeros_like(probabilities), where=probabilities > 0)
    return 0.0 - (probabilities * logs).sum(-1)


def transformed_goal(goal: str, transform: TargetTransform | None) -> str:
    """The goal for the transformed target: the other one of `GOALS` if the transform decreases, as pIC50 does."""
    return goal if transform is None or transform.increasing else GOALS[1 - GOALS.index(goal)]


def select_highest(scores: np.ndarray, size: int) -> np.ndarray:
    """The rows of the `size` highest scores, the highest first, ties in row order; NaN is never selected.

    >>> select_highest(np.array([1.0, 3.0, np.nan, 3.0]), 3).tolist()
    [1, 3, 0]
    """
    rows = np.flatnonzero(~np.isnan(scores))
    return rows[np.argsort(-scores[rows], kind="stable")[:size]]


def select(artifact: Artifact, rows: Sequence[RowPrediction], options: SelectionOptions) -> Selection:
    """Select among the molecules of a pool.

    Args:
        artifact: the model.
        rows: n predictions, with the options of `SelectionOptions.prediction_options`.
        options: how.
    """
    usable = np.array([row.values is not None for row in rows], dtype=bool)
    if options.strategy == DIVERSE:
        indices = np.flatnonzero(usable)
        read = artifact.read_options
        smiles = [standardized_smiles(rows[i].smiles, read.standardize, read.max_atoms) for i in indices.tolist()]
        bits = morgan_bits(smiles, max_atoms=read.max_atoms)
        known = bits[:0] if artifact.domain is None else artifact.domain.bits
        selected, scores = select_diverse(bits, known, options.size, options.seed)
        selected = indices[selected]
    else:
        row_scores = _scores(artifact, rows, options)
        selected = select_highest(row_scores, options.size)
        scores = row_scores[selected]
    failed = np.flatnonzero(~usable).tolist()
    predictions = tuple(rows[i] for i in selected.tolist())
    return Selection(selected, scores, predictions, tuple(failed), tuple(rows[i].error for i in failed))


def _scores(artifact: Artifact, rows: Sequence[RowPrediction], options: SelectionOptions) -> np.ndarray:
    """The scores of "uncertainty" and "expected-improvement", (n,); NaN without a prediction.

    Those of a target with a transform are of the transformed target.
    """
    task, t = artifact.task, options.target_index(artifact)
    width = len(artifact.extra_columns(options.uncertainty_method))
    values, std = rows_to_arrays(task, rows, len(artifact.targets), width)
    values = values[:, t]
    if task.kind != "regression":
        return entropy(np.stack([1 - values, values], -1) if values.ndim == 1 else values)
    std, best, goal = std[:, t], options.best, options.goal
    transform = artifact.scaler.transform_of(t)
    if transform is not None:
        # Of a logarithm, the standard deviation in the unit of the target is large where the target is.
        values = transform.forward(values)
        std = std / transform.slope(values)
        if best is not None:
            if reason := transform.undefined(best):
                raise UsageError(f"best: {reason}")
            best = float(transform.forward(np.array(best)))
        goal = transformed_goal(goal, transform)
    if options.strategy == UNCERTAINTY:
        return std
    assert best is not None
    return expected_improvement(values, std, best, goal)


def select_from_table(
    predictor: RowPredictor, job: TableJob, options: SelectionOptions, progress: ProgressFactory, warn: Warn
) -> tuple[Selection, RowCounts]:
    """Select rows of a table, and write them with all their columns, the first choice first.

    The new columns are the predictions, `selection_score` and `selection_rank`, from 1.

    Args:
        predictor: the model.
        job: the table and the output, which the caller has locked.
        options: how rows are selected.
        progress: called for the table.
        warn: receives warnings.

    Raises:
        InputError: a table that cannot be read.
        UsageError: as `SelectionOptions.prediction_options`, or an output format that does not exist.
        RowsFailed: a row has no prediction, and the job is strict.
    """
    artifact = predictor._artifact
    prediction = prediction_columns(predictor, options.prediction_options(artifact))
    numbers = (NewColumn("selection_score", "float64"), NewColumn("selection_rank", "float64"))
    num_predictions = len(prediction.columns) - len(STATUS_COLUMNS)
    added_columns = replace(prediction, columns=[*prediction.columns[:num_predictions], *numbers])
    counts = RowCounts()
    chunks: list[Chunk] = []
    rows: list[RowPrediction] = []
    with ExitStack() as stack:
        table = stack.enter_context(open_table(job, added_columns, warn))
        first, end, _ = table.row_range()
        report = stack.enter_context(progress(None if end is None else end - first, 0))
        predicted = table.results(table.chunks(first, end, lambda part: True), job.num_workers, report)  # noqa: ARG005
        for _, chunk, found in stack.enter_context(closing(predicted)):
            counts.add(
                RowCounts.of_rows(found, [f"{table.stream.line_kind} {line}" for line in chunk.lines], chunk.start)
            )
            check_strict(job, added_columns, counts)
            chunks.append(chunk)
            rows += found
        selection = select(artifact, rows, options)
        predictions = prediction.cells(selection.predictions)[:num_predictions]
        ranks = np.arange(1.0, 1 + len(selection.rows)).tolist()
        added: list[Column] = [*predictions, selection.scores.tolist(), ranks]
        selected = [chunks[row // CHUNK_SIZE].take_row(row % CHUNK_SIZE) for row in selection.rows.tolist()]
        if job.output is None:
            assert isinstance(table.output, TextFormat) and job.write_text is not None
            _write(table.output.text_writer(job.write_text), selected, added)
        else:
            with atomic_write(job.output) as file, open_compressed(job.output, file) as inner:
                _write(table.output.writer(inner), selected, added)
    return selection, counts


def _write(writer: TableWriter, selected: Sequence[Chunk], added: Sequence[Column]) -> None:
    """Write rows, each as a chunk of one row, with their values of the new columns."""
    for chunk, *values in zip(selected, *added, strict=True):
        writer.write(chunk, [[value] for value in values])
    writer.close()
