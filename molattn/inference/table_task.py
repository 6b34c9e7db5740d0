"""What a model adds to every row of a table: predictions or fingerprints."""

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from molattn.data.tables.writers import Column, NewColumn
from molattn.inference.batch_predictor import DEFAULT_OPTIONS, PredictionOptions
from molattn.inference.row_predictor import RowPredictor
from molattn.inference.rows import RowPrediction

RowFunction = Callable[[Iterable[object], int, Callable[[int], None], object], Generator[RowPrediction, None, None]]
"""From SMILES, a number of workers, a progress callback, and the rows of descriptors or None, to one result per row."""


@dataclass(frozen=True)
class TableTask:
    """What is added to every row of a table.

    Attributes:
        noun: what a row gets, in messages: "prediction" or "fingerprint".
        predict_rows: computes it.
        columns: the new columns; renamed where the table has a column of that name.
        cells: from results to the values of the new columns.
        model_sha256: checksum of the model.
        options: what else the results depend on, as text.
        numbers_only: the output is a .npy matrix of the new columns, without those of the table.
        descriptors: columns of the table that the model reads in addition to the molecules.
        slow_reason: why the model runs slower than it could; empty where it does not.
    """

    noun: str
    predict_rows: RowFunction
    columns: Sequence[NewColumn]
    cells: Callable[[Sequence[RowPrediction]], list[Column]]
    model_sha256: Callable[[], str]
    options: str = ""
    numbers_only: bool = False
    descriptors: Sequence[str] = ()
    slow_reason: Callable[[], str] = str


def prediction_task(predictor: RowPredictor, options: PredictionOptions = DEFAULT_OPTIONS) -> TableTask:
    """The task that adds `<target>_pred` for every target, the columns of `options`, `status` and `error`.

    Raises:
        UsageError: the model does not support the options.
    """
    extra = predictor.extra_columns_for(options)
    # The prediction of a target of several classes is the name of a class.
    kind = "string" if predictor.task.kind == "multiclass" else "float64"
    kinds = [(f"{t}_pred", kind) for t in predictor.targets] + [(c.name, c.kind) for c in extra]
    if predictor.task.of_atoms:
        kinds = [(name, f"list<{kind}>") for name, kind in kinds]
    # The manifests of unfinished outputs hold this text, so it keeps its old form: None for options that are not set.
    text = [options.interval, options.uncertainty_method or None, options.calibration_method or None]
    return TableTask(
        noun="prediction",
        predict_rows=partial(predictor.predict_rows, options=options),
        columns=[*(NewColumn(name, kind) for name, kind in kinds), *_status_columns()],
        cells=partial(_cells, len(kinds), False),
        model_sha256=predictor.model_sha256,
        options=str([*text, options.applicability]),
        descriptors=predictor.descriptors,
        slow_reason=predictor.model.slow_reason,
    )


def fingerprint_task(predictor: RowPredictor, numbers_only: bool = False) -> TableTask:
    """The task that adds `f0`, `f1`, ..., `status` and `error`, or with `numbers_only` writes fingerprints alone.

    Raises:
        UsageError: a model of atoms, which has no fingerprint of a molecule.
    """
    numbers = [NewColumn(f"f{i}", "float32") for i in range(predictor.dim)]
    return TableTask(
        noun="fingerprint",
        predict_rows=predictor.embed_rows,
        columns=numbers if numbers_only else [*numbers, *_status_columns()],
        cells=partial(_cells, predictor.dim, numbers_only),
        model_sha256=predictor.model_sha256,
        numbers_only=numbers_only,
        descriptors=predictor.descriptors,
        slow_reason=predictor.model.slow_reason,
    )


def _status_columns() -> list[NewColumn]:
    return [NewColumn("status"), NewColumn("error")]


def _cells(width: int, numbers_only: bool, rows: Sequence[RowPrediction]) -> list[Column]:
    """The values of the new columns: numbers or names, None where a row failed; then status and error."""
    missing = (None,) * width
    values = zip(*(missing if r.values is None else (*r.values, *r.extra_values) for r in rows), strict=True)
    columns: list[Column] = [*map(list, values)]
    if numbers_only:
        return columns
    return [*columns, ["error" if r.error else "ok" for r in rows], [r.error for r in rows]]
