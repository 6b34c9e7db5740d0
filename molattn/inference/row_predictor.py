"""Predictions row by row, for any number of SMILES, and the columns that they add to a table."""

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from molattn.chem import MAX_ATOMS
from molattn.data.tables.row_stream import CHUNK_SIZE
from molattn.data.tables.writers import Column, NewColumn
from molattn.inference.base_predictor import (
    DEFAULT_OPTIONS,
    BasePredictor,
    BatchPredictor,
    PredictionOptions,
)
from molattn.inference.molecules import as_smiles
from molattn.inference.rows import RowPrediction, RowValues, all_finite, merge_predictions, transpose
from molattn.models.base import Molecule
from molattn.models.descriptor_stream import DescriptorStream, InputRow
from molattn.models.predict import NOT_FINITE, compute_embeddings


class RowPredictor(BasePredictor):
    """The part of a `Predictor` that predicts row by row, in bounded memory."""

    def predict_rows(
        self,
        smiles: Any,
        num_workers: int = 0,
        progress: Callable[[int], None] | None = None,
        descriptors: Any = None,
        options: PredictionOptions = DEFAULT_OPTIONS,
    ) -> Generator[RowPrediction, None, None]:
        """One `RowPrediction` for each SMILES, in order; a bad one has an error and does not stop the others.

        Args:
            smiles, descriptors: as for `predict`; any iterables.
            num_workers: processes that read molecules.
            progress: called after each chunk with the number of SMILES read so far.
            options: what is computed in addition; `extra_columns_for` has the names.

        Raises:
            UsageError: descriptors are missing, not needed, too few or too many; or the model does not support the
                options.
        """
        predict = partial(self._predict_batch, BatchPredictor(self._artifact, options))
        return self._iter_rows(smiles, num_workers, progress, predict, descriptors)

    def extra_columns_for(self, options: PredictionOptions = DEFAULT_OPTIONS) -> list[NewColumn]:
        """The columns of `RowPrediction.extra_values` with these options.

        Raises:
            UsageError: the model does not support them.
        """
        return BatchPredictor(self._artifact, options).columns

    def embed_rows(
        self,
        smiles: Any,
        num_workers: int = 0,
        progress: Callable[[int], None] | None = None,
        descriptors: Any = None,
    ) -> Generator[RowPrediction, None, None]:
        """As `predict_rows`, with the d numbers of the learned embedding as `values`."""
        return self._iter_rows(smiles, num_workers, progress, self._embed_batch, descriptors)

    def _predict_batch(
        self, predictor: BatchPredictor, molecules: Sequence[Molecule], z: np.ndarray | None
    ) -> list[RowValues | str]:
        failures: dict[int, str] = {}
        predicted: list[RowValues | str] = [*predictor.predict(molecules, z, failures)]
        if self.task.atom_level:
            atoms: Any = iter(predicted)
            by_molecule = (list(islice(atoms, n)) for n in self._artifact.model.rows_per_molecule(molecules).tolist())
            predicted = [(transpose(v for v, _ in rows), transpose(e for _, e in rows)) for rows in by_molecule]
        return _with_failures(predicted, failures)

    def _embed_batch(self, molecules: Sequence[Molecule], z: np.ndarray | None) -> list[RowValues | str]:
        failures: dict[int, str] = {}
        vectors = compute_embeddings(self._artifact.model, molecules, descriptors=z, failures=failures)
        return _with_failures([(tuple(vector), ()) for vector in vectors.tolist()], failures)

    def _iter_rows(
        self,
        smiles: Any,
        num_workers: int,
        progress: Callable[[int], None] | None,
        predict: Callable[[Sequence[Molecule], np.ndarray | None], list[RowValues | str]],
        descriptors: Any,
    ) -> Generator[RowPrediction, None, None]:
        """A row for each SMILES, `CHUNK_SIZE` of them predicted together, in bounded memory."""
        waiting: list[InputRow] = []
        stream = DescriptorStream(self._artifact.descriptors, descriptors)
        with closing(self._read_rows(as_smiles(smiles).smiles, num_workers, progress, stream)) as chunks:
            for rows in chunks:
                waiting += rows
                while len(waiting) >= CHUNK_SIZE:
                    yield from merge_predictions(waiting[:CHUNK_SIZE], predict)
                    del waiting[:CHUNK_SIZE]
        yield from merge_predictions(waiting, predict)


def _with_failures(predicted: list[RowValues | str], failures: dict[int, str]) -> list[RowValues | str]:
    """The values of each molecule, or why it has none; values with NaN or infinity are replaced by `NOT_FINITE`."""
    return [
        failures[i] if i in failures else one if isinstance(one, str) or all_finite(one) else NOT_FINITE
        for i, one in enumerate(predicted)
    ]


RowFunction = Callable[[Iterable[object], int, Callable[[int], None], object], Generator[RowPrediction, None, None]]
"""From SMILES, a number of workers, a progress callback, and the rows of descriptors or None, to one result per row."""


STATUS_COLUMNS = (NewColumn("status"), NewColumn("error"))


@dataclass(frozen=True)
class TableTask:
    """The columns that are added to a table, and how they are computed.

    Attributes:
        noun: the result of a row, in messages: "prediction" or "embedding".
        predict_rows: computes the results.
        columns: the new columns; renamed where the table has a column of that name.
        cells: from results to the values of the new columns.
        model_sha256: checksum of the model.
        options: the options that the results depend on, as text.
        numbers_only: whether the output is a .npy matrix of the new columns, without those of the table.
        descriptors: columns of the table that the model reads in addition to the molecules.
        max_atoms: the largest number of atoms in a molecule.
        slow_reason: why the model runs slower than it could; empty if it does not.
    """

    noun: str
    predict_rows: RowFunction
    columns: Sequence[NewColumn]
    cells: Callable[[Sequence[RowPrediction]], list[Column]]
    model_sha256: Callable[[], str]
    options: str = ""
    numbers_only: bool = False
    descriptors: Sequence[str] = ()
    max_atoms: int = MAX_ATOMS
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
    if predictor.task.atom_level:
        kinds = [(name, f"list<{kind}>") for name, kind in kinds]
    return TableTask(
        noun="prediction",
        predict_rows=partial(predictor.predict_rows, options=options),
        columns=[*(NewColumn(name, kind) for name, kind in kinds), *STATUS_COLUMNS],
        cells=partial(_cells, len(kinds), False),
        model_sha256=predictor.model_sha256,
        options=str(options),
        descriptors=predictor.descriptors,
        max_atoms=predictor.read_options.max_atoms,
        slow_reason=predictor.model.slow_reason,
    )


def embedding_task(predictor: RowPredictor, output: Path) -> TableTask:
    """The task that adds `f0`, `f1`, ..., `status` and `error`; a .npy output has only the embeddings.

    Raises:
        UsageError: an atom-level model, which has no embedding of a molecule.
    """
    numbers_only = output.suffix.lower() == ".npy"
    numbers = [NewColumn(f"f{i}", "float32") for i in range(predictor.dim)]
    return TableTask(
        noun="embedding",
        predict_rows=predictor.embed_rows,
        columns=numbers if numbers_only else [*numbers, *STATUS_COLUMNS],
        cells=partial(_cells, predictor.dim, numbers_only),
        model_sha256=predictor.model_sha256,
        numbers_only=numbers_only,
        descriptors=predictor.descriptors,
        max_atoms=predictor.read_options.max_atoms,
        slow_reason=predictor.model.slow_reason,
    )


def _cells(width: int, numbers_only: bool, rows: Sequence[RowPrediction]) -> list[Column]:
    """The values of the new columns: numbers or names, None where a row failed; then status and error."""
    missing = (None,) * width
    values = zip(*(missing if r.values is None else (*r.values, *r.extra_values) for r in rows), strict=True)
    columns: list[Column] = [*map(list, values)]
    if numbers_only:
        return columns
    return [*columns, ["error" if r.error else "ok" for r in rows], [r.error for r in rows]]
