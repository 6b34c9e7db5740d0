"""Predictions row by row, for any number of SMILES."""

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from molattn.data.tables.row_stream import CHUNK_SIZE
from molattn.inference.base_predictor import BasePredictor
from molattn.inference.batch_predictor import DEFAULT_OPTIONS, BatchPredictor, ExtraColumn, PredictionOptions
from molattn.inference.rows import RowPrediction, RowValues, all_finite, predict_reads, transpose
from molattn.models.base import Molecule
from molattn.models.descriptors import DescriptorStream, MoleculeRow
from molattn.models.predict import NOT_FINITE, embed_molecules


class RowPredictor(BasePredictor):
    """The part of a `Predictor` that predicts row by row, in bounded memory."""

    def predict_rows(
        self,
        smiles: Iterable[object],
        num_workers: int = 0,
        progress: Callable[[int], None] | None = None,
        descriptors: Any = None,
        options: PredictionOptions = DEFAULT_OPTIONS,
    ) -> Generator[RowPrediction, None, None]:
        """One `RowPrediction` for each SMILES, in order; a bad one has an error and does not stop the others.

        Args:
            smiles, descriptors: as for `predict`; any iterables.
            num_workers: processes that read molecules.
            progress: called now and then with the number of SMILES read so far.
            options: what is computed in addition; `extra_columns_for` has the names.

        Raises:
            UsageError: descriptors are missing, not needed, too few or too many; or the model does not support the
                options.
        """
        predict = partial(self._predict_batch, BatchPredictor(self._artifact, options))
        return self._iter_rows(smiles, num_workers, progress, predict, descriptors)

    def extra_columns_for(self, options: PredictionOptions = DEFAULT_OPTIONS) -> list[ExtraColumn]:
        """The columns of `RowPrediction.extra_values` with these options.

        Raises:
            UsageError: the model does not support them.
        """
        return BatchPredictor(self._artifact, options).columns

    def embed_rows(
        self,
        smiles: Iterable[object],
        num_workers: int = 0,
        progress: Callable[[int], None] | None = None,
        descriptors: Any = None,
    ) -> Generator[RowPrediction, None, None]:
        """As `predict_rows`, with the d numbers of the fingerprint as `values`."""
        return self._iter_rows(smiles, num_workers, progress, self._embed_batch, descriptors)

    def _predict_batch(
        self, predictor: BatchPredictor, molecules: Sequence[Molecule], z: np.ndarray | None
    ) -> list[RowValues | str]:
        failures: dict[int, str] = {}
        predicted: list[RowValues | str] = [*predictor.predict(molecules, z, failures)]
        if self.task.of_atoms:
            atoms: Any = iter(predicted)
            of_each = (list(islice(atoms, n)) for n in self._artifact.model.rows_per_molecule(molecules).tolist())
            predicted = [(transpose(v for v, _ in rows), transpose(e for _, e in rows)) for rows in of_each]
        return _with_failures(predicted, failures)

    def _embed_batch(self, molecules: Sequence[Molecule], z: np.ndarray | None) -> list[RowValues | str]:
        failures: dict[int, str] = {}
        vectors = embed_molecules(self._artifact.model, molecules, descriptors=z, failures=failures)
        return _with_failures([(tuple(vector), ()) for vector in vectors.tolist()], failures)

    def _iter_rows(
        self,
        smiles: Iterable[object],
        num_workers: int,
        progress: Callable[[int], None] | None,
        predict: Callable[[Sequence[Molecule], np.ndarray | None], list[RowValues | str]],
        descriptors: Any,
    ) -> Generator[RowPrediction, None, None]:
        """A row for each SMILES, `CHUNK_SIZE` of them predicted together, in bounded memory."""
        waiting: list[MoleculeRow] = []
        rows = DescriptorStream(self._artifact.descriptors, descriptors)
        with closing(self._iter_reads(smiles, num_workers, progress, rows)) as chunks:
            for reads in chunks:
                waiting += reads
                while len(waiting) >= CHUNK_SIZE:
                    yield from predict_reads(waiting[:CHUNK_SIZE], predict)
                    del waiting[:CHUNK_SIZE]
        yield from predict_reads(waiting, predict)


def _with_failures(predicted: list[RowValues | str], failures: dict[int, str]) -> list[RowValues | str]:
    """The values of each molecule, or why it has none; no number of them is NaN or infinite."""
    return [
        failures[i] if i in failures else one if isinstance(one, str) or all_finite(one) else NOT_FINITE
        for i, one in enumerate(predicted)
    ]
