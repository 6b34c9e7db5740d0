"""The regressor."""

from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from molattn.models.losses import losses_of
from molattn.sklearn.base import PARAMETERS, MolAttention, as_value_error
from molattn.sklearn.validation import check_values, target_names


class MolAttentionRegressor(RegressorMixin, MolAttention):
    __doc__ = f"""Regression of properties of molecules, with the attention models that `molattn train` trains.
{PARAMETERS.format(losses=f"{', '.join(losses_of('regression'))}; None for the first.")}
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to n SMILES and their values.

        Args:
            X: n SMILES; or a table with a column of them, see `smiles_column` and `descriptor_columns`.
            y: (n,) or (n, T), NaN where a value is missing. A molecule without any value is not used.
            sample_weight: (n,), the weight of each molecule; it also applies to the validation molecules.

        Raises:
            ValueError: SMILES that cannot be read, by their rows; invalid values or parameters.
        """
        molecules, values = self._molecules(X), check_values(y)
        check_consistent_length(molecules.smiles, values)
        targets = values.reshape(len(values), -1)
        names = target_names(y, targets.shape[1])
        return self._fit(molecules, targets, names, "regression", (), sample_weight, values.ndim == 1)

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The values, in the shape that y had in `fit`: (n,) or (n, T); with `return_std` also standard deviations.

        Raises:
            ValueError: SMILES that cannot be read, by their rows; `return_std` for a model without standard deviations.
        """
        if not return_std:
            predicted = self._predict_array(X)
            return predicted[:, 0] if self._one_d else predicted
        check_is_fitted(self)
        molecules = self._molecules(X)
        with as_value_error():
            args = molecules.smiles, self.num_workers, "raise", molecules.descriptors
            both = self.predictor_.predict(*args, return_std=True)
        return tuple(map(self._restore_shape, both))

    def predict_interval(self, X: Any, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of intervals that contain the true value with probability `level`, shaped as y in `fit`.

        Raises:
            ValueError: SMILES that cannot be read, by their rows; a model that was fitted without `calibration_size`.
        """
        self._predict_array(X)  # reports SMILES that cannot be read
        molecules = self._molecules(X)
        with as_value_error():
            args = molecules.smiles, level, self.num_workers, molecules.descriptors
            lower, upper = self.predictor_.predict_interval(*args)
        return self._restore_shape(lower), self._restore_shape(upper)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R2, or the mean R2 of several targets; missing values are left out."""
        predicted, values = self.predict(X), check_values(y)
        check_consistent_length(predicted, values)
        if not np.isnan(values).any():
            return float(r2_score(values, predicted, sample_weight=sample_weight))
        scores = []
        for true, prediction in zip(
            values.reshape(len(values), -1).T, predicted.reshape(len(values), -1).T, strict=True
        ):
            known = ~np.isnan(true)
            weight = None if sample_weight is None else np.asarray(sample_weight)[known]
            scores.append(r2_score(true[known], prediction[known], sample_weight=weight))
        return float(np.mean(scores))
