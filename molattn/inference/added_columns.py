"""The columns that predictions and embeddings add to a table."""

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from molattn.chem import MAX_ATOMS
from molattn.data.tables.writers import Column, NewColumn
from molattn.inference.options import DEFAULT_OPTIONS, PredictionOptions
from molattn.inference.row_predictor import RowPredictor
from molattn.inference.rows import RowPrediction

RowFunction = Callable[[Iterable[object], int, Callable[[int], None], object], Generator[RowPrediction, None, None]]
"""From SMILES, a number of workers, a progress callback, and the rows of descriptors or None, to one result per row."""


STATUS_COLUMNS = (NewColumn("status"), NewColumn("error"))


@dataclass(frozen=True)
class AddedColumns:
    """The columns that are added to a table, and how they are computed.

    Attributes:
        noun: the result of a row, in messages: "prediction" or "embedding".
        compute_rows: computes the results.
        columns: the new columns; renamed where the table has a column of that name.
        cells: from results to the values of the new columns.
        config_sha256: checksum of the model.
        options: the options that the results depend on, as text.
        numbers_only: whether the output is a .npy matrix of the new columns, without those of the table.
        descriptors: columns of the table that the model reads in addition to the molecules.
        max_atoms: the largest number of atoms in a molecule.
        slow_reason: why the model runs slower than it could; empty if it does not.
    """

    noun: str
    compute_rows: RowFunction
    columns: Sequence[NewColumn]
    cells: Callable[[Sequence[RowPrediction]], list[Column]]
    config_sha256: Callable[[], str]
    options: str = ""
    numbers_only: bool = False
    descriptors: Sequence[str] = ()
    max_atoms: int = MAX_ATOMS
    slow_reason: Callable[[], str] = str


def prediction_columns(predictor: RowPredictor, options: PredictionOptions = DEFAULT_OPTIONS) -> AddedColumns:
    """`<target>_pred` for every target, the columns of `options`, `status` and `error`.

    Raises:
        UsageError: the model does not support the options.
    """
    extra = predictor.extra_value_columns(options)
    # The prediction of a target of several classes is the name of a class.
    kind = "string" if predictor.task.kind == "multiclass" else "float64"
    columns = [(f"{t}_pred", kind) for t in predictor.targets] + [(c.name, c.kind) for c in extra]
    if predictor.task.atom_level:
        columns = [(name, f"list<{kind}>") for name, kind in columns]
    return AddedColumns(
        noun="prediction",
        compute_rows=partial(predictor.predict_rows, options=options),
        columns=[*(NewColumn(name, kind) for name, kind in columns), *STATUS_COLUMNS],
        cells=partial(_cells, len(columns), False),
        config_sha256=predictor.config_sha256,
        options=f"{options} {predictor.precision}",
        descriptors=predictor.descriptors,
        max_atoms=predictor.read_options.max_atoms,
        slow_reason=predictor.slow_reason,
    )


def embedding_columns(predictor: RowPredictor, output: Path) -> AddedColumns:
    """`f0`, `f1`, ..., `status` and `error`; a .npy output has only the embeddings.

    Raises:
        UsageError: a model of atoms, which has no embedding of a molecule.
    """
    numbers_only = output.suffix.lower() == ".npy"
    features = [NewColumn(f"f{i}", "float32") for i in range(predictor.embedding_dim)]
    return AddedColumns(
        noun="embedding",
        compute_rows=predictor.embed_rows,
        columns=features if numbers_only else [*features, *STATUS_COLUMNS],
        cells=partial(_cells, predictor.embedding_dim, numbers_only),
        config_sha256=predictor.config_sha256,
        options=predictor.precision,
        numbers_only=numbers_only,
        descriptors=predictor.descriptors,
        max_atoms=predictor.read_options.max_atoms,
        slow_reason=predictor.slow_reason,
    )


def _cells(width: int, numbers_only: bool, rows: Sequence[RowPrediction]) -> list[Column]:
    """The values of the new columns: numbers or names, None where a row failed; then status and error."""
    missing = (None,) * width
    values = zip(*(missing if r.values is None else (*r.values, *r.extra_values) for r in rows), strict=True)
    columns: list[Column] = [*map(list, values)]
    if numbers_only:
        return columns
    return [*columns, ["error" if r.error else "ok" for r in rows], [r.error for r in rows]]
