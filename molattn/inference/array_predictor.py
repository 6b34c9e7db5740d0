"""Predictions and embeddings as arrays."""

from typing import Any, Literal, overload

import numpy as np

from molattn.errors import InputError, UsageError, describe_bad_smiles, unknown_choice
from molattn.inference.molecules import as_smiles
from molattn.inference.options import PredictionOptions
from molattn.inference.prediction_plan import PredictionPlan
from molattn.inference.row_counts import warn_failed
from molattn.inference.row_predictor import RowPredictor
from molattn.inference.rows import RowPrediction, rows_to_arrays, split_atoms
from molattn.models.predictions import NONE


class ArrayPredictor(RowPredictor):
    """The part of a `Predictor` that returns arrays."""

    @overload
    def predict(
        self,
        smiles: Any,
        num_workers: int = 0,
        on_error: Literal["nan", "raise"] = "nan",
        descriptors: Any = None,
        return_std: Literal[False] = False,
        uncertainty_method: str = "",
    ) -> Any: ...
    @overload
    def predict(
        self,
        smiles: Any,
        num_workers: int = 0,
        on_error: Literal["nan", "raise"] = "nan",
        descriptors: Any = None,
        *,
        return_std: Literal[True],
        uncertainty_method: str = "",
    ) -> tuple[Any, Any]: ...
    def predict(
        self,
        smiles: Any,
        num_workers: int = 0,
        on_error: Literal["nan", "raise"] = "nan",
        descriptors: Any = None,
        return_std: bool = False,
        uncertainty_method: str = "",
    ) -> Any:
        """The predictions, in the order of `smiles`: numbers in units, or probabilities of the positive class.

        Shapes: (n,) for one target, (n, T) for several; a single string has no first axis. Targets of
        several classes add an axis with the probability of every class, in the order of `task.classes`.

        A model that was trained with descriptors needs those of every SMILES: (n, k) numbers, in the order of
        `self.descriptors`, or a data frame that has their columns; for a single string its k numbers.

        For atom-level targets the result is a list of arrays, one for each SMILES: (atoms,) for one target, (atoms, T)
        for several, the atoms in the order of the SMILES, followed by the hydrogens that training added.

        The result for a SMILES that cannot be read is NaN, or an empty array of atoms. A `MolattnWarning` reports how
        many there are, with the first reason; `predict_rows` gives all. Another warning reports molecules with path
        lengths instead of a 3D geometry.

        With `return_std` the result is a pair: the predictions and their standard deviations, in the same unit: see
        `molattn.models.uncertainty.predict_with_uncertainty`. For classification it is the standard deviation of the
        probability of the positive, or the predicted, class, (n,) or (n, T).

        Args:
            smiles: a SMILES or an RDKit molecule; or many of them: a list, an array, a Series, a data frame with a
                column of SMILES.
            descriptors: see above; those of a data frame of molecules are taken from its columns by default.
            num_workers: processes that read molecules; 0 to read them in this process.
            on_error: "nan", or "raise" to raise InputError for SMILES that cannot be read.
            return_std: whether to return standard deviations as well.
            uncertainty_method: how standard deviations are computed, such as "dropout"; the model's default when empty.

        Raises:
            InputError: SMILES that cannot be read, by their rows, if `on_error` is "raise".
            TypeError: `smiles` is neither a molecule nor a list of them.
            UsageError: another `on_error`; a data frame without a column of SMILES; descriptors that are missing, too
                few, too many or not read by the model; an unknown `uncertainty_method`, or one that the model does not
                support; standard deviations of a model that has none.
        """
        plan = PredictionPlan(self._artifact, PredictionOptions(uncertainty_method=uncertainty_method))
        if return_std and plan.uncertainty == NONE:
            raise UsageError(
                "the model has no standard deviations: train with ensemble_size=5, or with the loss mve, "
                "evidential, quantile or dirichlet, or pass uncertainty_method='dropout'"
            )
        rows, single = self._rows(smiles, num_workers, descriptors, plan.options, on_error)
        groups = [split_atoms(row) for row in rows] if self.task.atom_level else [rows]
        pairs = [rows_to_arrays(self.task, group, len(self.targets), len(plan.columns)) for group in groups]
        warn_failed(rows, "prediction")
        results: list[Any] = [[self._squeeze(pair[k]) for pair in pairs] for k in range(1 + return_std)]
        if not self.task.atom_level:
            results = [result[0] for result in results]
        if single:
            results = [result[0] for result in results]
        return tuple(results) if return_std else results[0]

    def predict_interval(
        self,
        smiles: Any,
        level: float = 0.9,
        num_workers: int = 0,
        descriptors: Any = None,
        calibration_method: str = "",
        on_error: Literal["nan", "raise"] = "nan",
    ) -> tuple[Any, Any]:
        """Lower and upper ends of prediction intervals: (lower, upper), each shaped as predictions.

        The true value is between them with a probability of `level`.

        The intervals are conformal, unless the model was trained with another calibration method: see
        `molattn.models.calibration.prediction_intervals`.

        Args:
            smiles, num_workers, descriptors, on_error: as for `predict`.
            level: above 0 and below 1.
            calibration_method: "conformal-regression", "zscaling" or "isotonic"; "none" for the model's own,
                uncalibrated ones; the model's default when empty.

        Raises:
            InputError: SMILES that cannot be read, by their rows, if `on_error` is "raise".
            TypeError: `smiles` is neither a molecule nor a list of them.
            UsageError: a model of classes or of atoms; a model without calibration, unless `calibration_method` is
                "none" and it has standard deviations; too few calibration molecules for the level, or an invalid level
                or method; and as `predict`.
        """
        if self.task.kind != "regression":
            raise UsageError("intervals apply only to regression, and the model predicts classes: use predict_set")
        options = PredictionOptions(level=level, calibration_method=calibration_method)
        rows, single = self._rows(smiles, num_workers, descriptors, options, on_error)
        ends = np.full((len(rows), len(self.targets), 2), np.nan)
        for i, row in enumerate(rows):
            if row.values is not None:
                ends[i] = np.reshape(row.extra_values[len(self.extra_columns) :], (-1, 2))
        warn_failed(rows, "prediction")
        lower, upper = (self._squeeze(ends[..., k]) for k in range(2))
        return (lower[0], upper[0]) if single else (lower, upper)

    def predict_set(
        self,
        smiles: Any,
        level: float = 0.9,
        num_workers: int = 0,
        descriptors: Any = None,
        calibration_method: str = "",
        on_error: Literal["nan", "raise"] = "nan",
    ) -> Any:
        """Prediction sets: a tuple of class names for each SMILES, the true one among them with probability `level`.

        For several targets a tuple of such tuples; None for a SMILES that cannot be read. See
        `molattn.models.calibration.prediction_sets`.

        Args:
            smiles, num_workers, descriptors, on_error: as for `predict`.
            level: above 0 and below 1.
            calibration_method: "conformal-multiclass", "conformal-adaptive" or "isotonic"; "none" for sets from the
                uncalibrated probabilities; the model's default when empty.

        Raises:
            InputError: SMILES that cannot be read, by their rows, if `on_error` is "raise".
            TypeError: `smiles` is neither a molecule nor a list of them.
            UsageError: a model of numbers or of atoms; a model without calibration, unless `calibration_method` is
                "none"; too few calibration molecules for the level, or an invalid level or method; and as `predict`.
        """
        if self.task.kind == "regression":
            raise UsageError("sets apply only to classification, and the model predicts numbers: use predict_interval")
        options = PredictionOptions(level=level, calibration_method=calibration_method)
        rows, single = self._rows(smiles, num_workers, descriptors, options, on_error)
        several = len(self.targets) > 1
        first = len(self.extra_columns)
        found = [
            None if row.values is None else (row.extra_values[first:] if several else row.extra_values[first])
            for row in rows
        ]
        warn_failed(rows, "prediction")
        return found[0] if single else found

    def _rows(
        self,
        smiles: Any,
        num_workers: int,
        descriptors: Any,
        options: PredictionOptions,
        on_error: str,
    ) -> tuple[list[RowPrediction], bool]:
        """The predictions of molecules, and whether `smiles` was a single one."""
        _check_on_error(on_error)
        molecules = as_smiles(smiles, atom_order=self.task.atom_level)
        z = self._descriptors_of(molecules, descriptors)
        rows = list(self.predict_rows(molecules.smiles, num_workers, None, z, options))
        if on_error == "raise":
            _raise_if_failed(rows)
        return rows, molecules.single

    def _squeeze(self, values: np.ndarray) -> np.ndarray:
        """`values` without the axis of targets if there is only one target."""
        return values[:, 0] if len(self.targets) == 1 else values

    def embed(
        self,
        smiles: Any,
        num_workers: int = 0,
        descriptors: Any = None,
        on_error: Literal["nan", "raise"] = "nan",
    ) -> np.ndarray:
        """Learned embeddings, in the order of `smiles`: the input of the model's final linear layer.

        Shapes: (n, d); (d,) for a single molecule. The descriptors are the last numbers of an embedding, standardized.
        Of an ensemble, they are those of its first model, `members[0]`.

        The result for a SMILES that cannot be read is NaN. A `MolattnWarning` reports how many there are, with the
        first reason; `embed_rows` gives all.

        Args:
            smiles, num_workers, descriptors, on_error: as for `predict`.

        Raises:
            InputError: SMILES that cannot be read, by their rows, if `on_error` is "raise".
            TypeError: `smiles` is neither a molecule nor a list of them.
            UsageError: a model of atoms, which has no embedding of a molecule; another `on_error`; and as `predict`.
        """
        _check_on_error(on_error)
        missing = (np.nan,) * self.embedding_dim
        molecules = as_smiles(smiles)
        z = self._descriptors_of(molecules, descriptors)
        rows = list(self.embed_rows(molecules.smiles, num_workers, None, z))
        if on_error == "raise":
            _raise_if_failed(rows)
        values = np.array([missing if r.values is None else r.values for r in rows]).reshape(-1, self.embedding_dim)
        warn_failed(rows, "embedding")
        return values[0] if molecules.single else values


def _check_on_error(on_error: str) -> None:
    """Refuse an unknown `on_error` before molecules are predicted."""
    if on_error not in ("nan", "raise"):
        raise UsageError(unknown_choice("on_error", on_error, ("nan", "raise")))


def _raise_if_failed(rows: list[RowPrediction]) -> None:
    """Raise an InputError about the rows without a result, if there are any."""
    if bad := [(i, r.smiles, r.error) for i, r in enumerate(rows) if r.error]:
        raise InputError(describe_bad_smiles(bad, len(rows)))
