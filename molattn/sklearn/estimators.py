"""The estimators: a regressor and a classifier."""

from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length

from molattn.models.magnitude import power_of_two
from molattn.sklearn.base import PARAMETERS, MolAttention
from molattn.sklearn.validation import (
    check_number_of_targets,
    class_indices,
    class_names,
    drop_missing,
    eval_pair,
    is_missing,
    target_names,
    validate_labels,
    validate_values,
)


class MolAttentionRegressor(RegressorMixin, MolAttention):
    __doc__ = f"""Regression of properties of molecules, with the attention models that `molattn train` trains.
{PARAMETERS}
Raises:
    TypeError: a parameter that does not exist.

>>> from molattn import MolAttentionRegressor
>>> smiles = [n * "C" + "O" for n in range(1, 11)]  # methanol to decanol
>>> boiling_points = [65, 78, 97, 118, 138, 158, 177, 195, 213, 233]  # °C
>>> model = MolAttentionRegressor(hidden_dim=8, num_layers=1, epochs=1).fit(smiles, boiling_points)
>>> model.predict(["CCO", "CC(C)O"]).shape, model.transform(["CCO"]).shape  # an embedding has 8 + 12 numbers
((2,), (1, 20))
"""

    def fit(self, X: Any, y: Any, sample_weight: Any = None, eval_set: Any = None) -> Self:
        """Fit to n SMILES and their values.

        Args:
            X: n SMILES; or a table with a column of them, see `smiles_column` and `descriptor_columns`.
            y: (n,) or (n, T), NaN where a value is missing. A molecule without any value is not used.
            sample_weight: (n,), the weight of each molecule, 0 or more; it also applies to the validation molecules.
            eval_set: a pair (X, y) of validation molecules, which choose the epoch, or a list of one such pair; None to
                hold out `validation_fraction` of X.

        Returns:
            The estimator.

        Raises:
            ValueError: SMILES that cannot be read, by their rows; invalid values or parameters; fewer than two
                molecules.
            TypeError: X is a sparse matrix, or holds neither text nor molecules.
        """
        molecules, values = self._molecules(X), validate_values(y)
        check_consistent_length(molecules.smiles, values)
        targets = values.reshape(len(values), -1)
        names = target_names(y, targets.shape[1])
        validation = None
        if eval_set is not None:
            X_val, y_val = eval_pair(eval_set)
            held = validate_values(y_val, targets.shape[1], "y of eval_set")
            validation = self._molecules(X_val), held.reshape(len(held), -1)
            check_consistent_length(validation[0].smiles, validation[1])
        return self._fit(molecules, targets, names, "regression", (), sample_weight, values.ndim == 1, validation)

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The values, in the shape that y had in `fit`: (n,) or (n, T); with `return_std` also standard deviations.

        Args:
            X: as for `fit`.
            return_std: whether to return a pair, the values and their standard deviations, of the same shape.

        Raises:
            ValueError: SMILES that cannot be read, by their rows; descriptors that are missing; no SMILES; `return_std`
                for a model without standard deviations.
            TypeError: X is a sparse matrix, or holds neither text nor molecules.
            NotFittedError: before `fit`.
        """
        predicted = self._call_predictor("predict", X, return_std=return_std)
        return tuple(map(self._restore_shape, predicted)) if return_std else self._restore_shape(predicted)

    def predict_interval(self, X: Any, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of intervals that contain the true value with probability `level`, shaped as y in `fit`.

        Args:
            X: as for `fit`.
            level: above 0 and below 1.

        Raises:
            ValueError: SMILES that cannot be read, by their rows; descriptors that are missing; no SMILES; a model that
                was fitted without `calibration_size`, or with too few calibration molecules for the level.
            TypeError: X is a sparse matrix, or holds neither text nor molecules.
            NotFittedError: before `fit`.
        """
        lower, upper = self._call_predictor("predict_interval", X, level=level)
        return self._restore_shape(lower), self._restore_shape(upper)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R2, or the mean R2 of several targets; missing values are left out.

        Args:
            X: as for `fit`.
            y: the true values, in the shape that y had in `fit`; NaN where one is missing.
            sample_weight: (n,), the weight of each molecule.

        Raises:
            ValueError: SMILES that cannot be read, by their rows; descriptors that are missing; invalid values, another
                number of them than of molecules, another number of targets than in `fit`, or a target without any.
            TypeError: X is a sparse matrix, or holds neither text nor molecules.
            NotFittedError: before `fit`.
        """
        predicted, values = self.predict(X), validate_values(y, self.n_outputs_)
        check_consistent_length(predicted, values, sample_weight)
        scale = power_of_two(values)
        predicted, values = predicted / scale, values / scale
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


class MolAttentionClassifier(ClassifierMixin, MolAttention):
    __doc__ = f"""Classification of molecules, with the attention models that `molattn train` trains.
{PARAMETERS}    classes_: the sorted classes; a list of such arrays if y has several columns.

Raises:
    TypeError: a parameter that does not exist.

>>> from molattn import MolAttentionClassifier
>>> smiles = [n * "C" for n in range(1, 6)] + [n * "C" + "O" for n in range(1, 6)]
>>> kinds = ["alkane"] * 5 + ["alcohol"] * 5
>>> model = MolAttentionClassifier(hidden_dim=8, num_layers=1, epochs=1).fit(smiles, kinds)
>>> probabilities = model.predict_proba(["CC(C)O"])
>>> model.classes_.tolist(), probabilities.shape, round(float(probabilities.sum()), 3)
(['alcohol', 'alkane'], (1, 2), 1.0)
"""

    classes_: Any

    def fit(self, X: Any, y: Any, sample_weight: Any = None, eval_set: Any = None) -> Self:
        """Fit to n SMILES and their classes.

        Args:
            X: n SMILES; or a table with a column of them, see `smiles_column` and `descriptor_columns`.
            y: (n,) or (n, T) numbers or strings; NaN or None where one is missing. A molecule without any label is not
                used.
            sample_weight: (n,), the weight of each molecule, 0 or more; it also applies to the validation molecules.
            eval_set: a pair (X, y) of validation molecules, which choose the epoch, or a list of one such pair; None to
                hold out `validation_fraction` of X.

        Returns:
            The estimator.

        Raises:
            ValueError: SMILES that cannot be read, by their rows; invalid classes or parameters; fewer than two
                classes.
            TypeError: X is a sparse matrix, or holds neither text nor molecules.
        """
        molecules, labels = self._molecules(X), validate_labels(y)
        check_consistent_length(molecules.smiles, labels)
        y_is_1d = labels.ndim == 1
        columns = [drop_missing(column) for column in labels.reshape(len(labels), -1).T]
        for _, values in columns:
            check_classification_targets(values)
        classes = [np.unique(values) for _, values in columns]
        if not max(map(len, classes)):
            raise ValueError(f"none of the {len(labels)} molecules has a label: there is nothing to learn")
        if max(map(len, classes)) < 2:
            raise ValueError(f"y holds one class, {classes[0].tolist()}: two or more are needed")
        if self.warm_start and hasattr(self, "predictor_"):
            self._check_same_classes(classes)
        targets = class_indices(labels, classes)
        binary = max(map(len, classes)) == 2
        names = class_names(classes, binary)
        kind = "binary" if binary else "multiclass"
        validation = None
        if eval_set is not None:
            X_val, y_val = eval_pair(eval_set)
            validation = self._molecules(X_val), class_indices(validate_labels(y_val), classes)
            check_consistent_length(validation[0].smiles, validation[1])
        self._fit(molecules, targets, target_names(y, len(columns)), kind, names, sample_weight, y_is_1d, validation)
        self.classes_ = classes[0] if y_is_1d else classes
        return self

    def _check_same_classes(self, classes: list[np.ndarray]) -> None:
        """Check that `fit` continues with the classes of the call before it."""
        before = self.classes_ if isinstance(self.classes_, list) else [self.classes_]
        for old, new in zip(before, classes, strict=False):
            if not np.array_equal(old, new):
                raise ValueError(
                    f"the classes were {old.tolist()} and are {new.tolist()}, so that training cannot continue: set "
                    "warm_start=False"
                )

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each molecule, (n,), or (n, T) if y had several columns.

        Args:
            X: as for `fit`.

        Raises:
            ValueError: SMILES that cannot be read, by their rows; descriptors that are missing; no SMILES.
            TypeError: X is a sparse matrix, or holds neither text nor molecules.
            NotFittedError: before `fit`.
        """
        probabilities = self._probabilities(X)
        if self._y_is_1d:
            return self.classes_[probabilities[0].argmax(1)]
        columns = [c[p.argmax(1)] for c, p in zip(self.classes_, probabilities, strict=True)]
        if len({column.dtype.kind for column in columns}) > 1:
            columns = [column.astype(object) for column in columns]  # np.stack would turn numbers into strings
        return np.stack(columns, 1)

    def predict_proba(self, X: Any) -> np.ndarray | list[np.ndarray]:
        """The probability of every class, (n, classes) in the order of `classes_`; a list of them for several targets.

        Args:
            X: as for `fit`.

        Raises:
            ValueError: SMILES that cannot be read, by their rows; descriptors that are missing; no SMILES.
            TypeError: X is a sparse matrix, or holds neither text nor molecules.
            NotFittedError: before `fit`.
        """
        probabilities = self._probabilities(X)
        return probabilities[0] if self._y_is_1d else probabilities

    def predict_set(self, X: Any, level: float = 0.9) -> np.ndarray | list[np.ndarray]:
        """The classes in a set that contains the true one with probability `level`.

        (n, classes) of booleans in the order of `classes_`; a list of them for several targets.

        Args:
            X: as for `fit`.
            level: above 0 and below 1.

        Raises:
            ValueError: SMILES that cannot be read, by their rows; descriptors that are missing; no SMILES; a model that
                was fitted without `calibration_size`, or with too few calibration molecules for the level.
            TypeError: X is a sparse matrix, or holds neither text nor molecules.
            NotFittedError: before `fit`.
        """
        rows = self._call_predictor("predict_set", X, level=level)
        several = self.n_outputs_ > 1
        result = []
        for t in range(self.n_outputs_):
            names = self.predictor_.task.class_names(t)
            classes = self.classes_ if self._y_is_1d else self.classes_[t]
            # A target with one class, next to targets with more, is modelled with two, of which its class is the first.
            chosen = [[name in (row[t] if several else row) for name in names[: len(classes)]] for row in rows]
            result.append(np.array(chosen, dtype=bool))
        return result[0] if self._y_is_1d else result

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The accuracy; for several targets, the share of molecules whose known classes are all correct.

        Args:
            X: as for `fit`.
            y: the true classes, in the shape that y had in `fit`; NaN or None where one is missing. A molecule without
                any label is left out.
            sample_weight: (n,), the weight of each molecule.

        Raises:
            ValueError: SMILES that cannot be read, by their rows; descriptors that are missing; another number of
                labels than of molecules, or of targets than in `fit`.
            TypeError: X is a sparse matrix, or holds neither text nor molecules.
            NotFittedError: before `fit`.
        """
        predicted, labels = self.predict(X), validate_labels(y)
        check_consistent_length(predicted, labels, sample_weight)
        check_number_of_targets(labels, self.n_outputs_)
        shape = len(labels), self.n_outputs_
        known = np.array([not is_missing(label) for label in labels.ravel()]).reshape(shape)
        wrong = np.zeros(shape, dtype=bool)
        true = np.asarray(labels).reshape(shape)
        pairs = zip(predicted.reshape(shape)[known], true[known], strict=True)
        wrong[known] = [found != label for found, label in pairs]
        has_label = np.flatnonzero(known.any(1))
        weight = None if sample_weight is None else np.asarray(sample_weight)[has_label]
        is_wrong = np.asarray(wrong.any(1))[has_label]
        return float(accuracy_score(np.zeros(len(has_label), bool), is_wrong, sample_weight=weight))

    def _probabilities(self, X: Any) -> list[np.ndarray]:
        """(n, classes) for every target."""
        predicted = np.asarray(self._call_predictor("predict", X))
        predicted = predicted[:, None] if self.n_outputs_ == 1 else predicted
        if self.predictor_.task.kind == "binary":
            predicted = np.stack([1 - predicted, predicted], -1)
        classes = [self.classes_] if self._y_is_1d else self.classes_
        # If a target has only one class, next to targets with more, the probability of that class is 1.
        result = [
            predicted[:, t, : len(c)] if len(c) > 1 else np.ones((len(predicted), 1)) for t, c in enumerate(classes)
        ]
        return [p / p.sum(1, keepdims=True) for p in result]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags
