"""Predictions row by row, for any number of SMILES."""

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from molattn.data.tables.row_stream import CHUNK_SIZE
from molattn.data.tables.writers import NewColumn
from molattn.inference.base_predictor import BasePredictor
from molattn.inference.molecules import as_smiles
from molattn.inference.options import DEFAULT_OPTIONS, PredictionOptions
from molattn.inference.prediction_plan import PredictionPlan
from molattn.inference.rows import RowPrediction, RowValues, all_finite, merge_predictions, transpose
from molattn.models.batching import NOT_FINITE, rows_per_molecule
from molattn.models.descriptor_stream import DescriptorStream, InputRow
from molattn.models.molecule import Molecule


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
            smiles: as for `predict`; any iterable.
            num_workers: processes that read molecules; 0 to read them in this process.
            progress: called after each chunk with the number of SMILES read so far.
            descriptors: an iterable of a row for each SMILES, or a data frame; those of a data frame of molecules are
                taken from its columns by default.
            options: what is computed in addition; `extra_value_columns` has the names.

        Raises:
            UsageError: the model does not support the options; or, while the rows are read, a data frame without a
                column of SMILES, or descriptors that are missing, not read by the model, too few or too many.
            TypeError: when the first row is requested: `smiles` is neither a molecule nor a list of them.
        """
        predict = partial(self._predict_batch, PredictionPlan(self._artifact, options))
        return self._iter_rows(smiles, num_workers, progress, predict, descriptors)

    def extra_value_columns(self, options: PredictionOptions = DEFAULT_OPTIONS) -> list[NewColumn]:
        """The columns of `RowPrediction.extra_values` with these options, each with its `name` and `kind`.

        Args:
            options: as for `predict_rows`.

        Raises:
            UsageError: the model does not support them.
        """
        return PredictionPlan(self._artifact, options).columns

    def embed_rows(
        self,
        smiles: Any,
        num_workers: int = 0,
        progress: Callable[[int], None] | None = None,
        descriptors: Any = None,
    ) -> Generator[RowPrediction, None, None]:
        """As `predict_rows`, with the d numbers of the learned embedding as `values`.

        Args:
            smiles, num_workers, progress, descriptors: as for `predict_rows`.

        Raises:
            UsageError: while the rows are read: as `predict_rows`.
            TypeError: when the first row is requested: `smiles` is neither a molecule nor a list of them.
        """
        return self._iter_rows(smiles, num_workers, progress, self._embed_batch, descriptors)

    def _predict_batch(
        self, plan: PredictionPlan, molecules: Sequence[Molecule], z: np.ndarray | None
    ) -> list[RowValues | str]:
        failures: dict[int, str] = {}
        predicted: list[RowValues | str] = [*plan.predict(molecules, z, failures)]
        if self.task.atom_level:
            atoms: Any = iter(predicted)
            by_molecule = (list(islice(atoms, n)) for n in rows_per_molecule(molecules, True).tolist())
            predicted = [(transpose(v for v, _ in rows), transpose(e for _, e in rows)) for rows in by_molecule]
        return _with_failures(predicted, failures)

    def _embed_batch(self, molecules: Sequence[Molecule], z: np.ndarray | None) -> list[RowValues | str]:
        failures: dict[int, str] = {}
        vectors = self._artifact.embed(molecules, z, failures)
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
        molecules = as_smiles(smiles)
        stream = DescriptorStream(self._artifact.descriptors, self._descriptors_of(molecules, descriptors))
        with closing(self._read_rows(molecules.smiles, num_workers, progress, stream)) as chunks:
            for rows in chunks:
                waiting += rows
                while len(waiting) >= CHUNK_SIZE:
                    yield from merge_predictions(waiting[:CHUNK_SIZE], predict)
                    del waiting[:CHUNK_SIZE]
        yield from merge_predictions(waiting, predict)


def _with_failures(predicted: list[RowValues | str], failures: dict[int, str]) -> list[RowValues | str]:
    """The values of each molecule, or why it has none; values with NaN or infinity are replaced by `NOT_FINITE`."""
    return [
        failures[i] if i in failures else result if isinstance(result, str) or all_finite(result) else NOT_FINITE
        for i, result in enumerate(predicted)
    ]
