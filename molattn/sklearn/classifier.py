"""Classes from molecules."""

from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length

from molattn.sklearn.base import PARAMETERS, MolAttention, explained
from molattn.sklearn.columns import is_missing, known_of, labels_of, names_of


class MolAttentionClassifier(ClassifierMixin, MolAttention):
    __doc__ = f"""Classes from molecules: attention over the atoms of each, as `molattn train` does it.

    Rare classes count as much as common ones with `settings=["training.class_balance=true"]`.
{PARAMETERS.format(losses='"bce" for two classes, "cross-entropy" for more, "dirichlet" for any; None chooses.')}
        classes_: the classes in order; a list of them where y has several columns.
    """

    classes_: Any

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to n SMILES and their classes.

        Args:
            X: n SMILES; or a table with a column of them, see `smiles_column` and `descriptor_columns`.
            y: (n,) or (n, T) numbers or words; NaN or None where one is missing. A molecule without any is not learned
                from.
            sample_weight: (n,), how much each molecule counts; the validation molecules, too.

        Raises:
            ValueError: SMILES that cannot be read, by their rows; classes or parameters that make no sense.
        """
        molecules, labels = self._molecules(X), labels_of(y)
        check_consistent_length(molecules.smiles, labels)
        one_d = labels.ndim == 1
        columns = [known_of(column) for column in labels.reshape(len(labels), -1).T]
        for _, values in columns:
            check_classification_targets(values)
        classes = [np.unique(values) for _, values in columns]
        if max(map(len, classes)) < 2:
            raise ValueError(f"y holds one class, {classes[0].tolist()}: there is nothing to tell apart")
        targets = np.full((len(labels), len(columns)), np.nan)
        for t, (known, values) in enumerate(columns):
            targets[known, t] = np.searchsorted(classes[t], values)
        binary = max(map(len, classes)) == 2
        names = () if binary else tuple(tuple(map(str, c.tolist())) for c in classes)
        kind = "binary" if binary else "multiclass"
        self._fit(molecules, targets, names_of(y, len(columns)), kind, names, sample_weight, one_d)
        self.classes_ = classes[0] if one_d else classes
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each molecule, (n,), or (n, T) where y had several columns.

        Raises:
            ValueError: SMILES that cannot be read, by their rows.
        """
        probabilities = self._probabilities(X)
        if self._one_d:
            return self.classes_[probabilities[0].argmax(1)]
        columns = [c[p.argmax(1)] for c, p in zip(self.classes_, probabilities, strict=True)]
        if len({column.dtype.kind for column in columns}) > 1:
            columns = [column.astype(object) for column in columns]  # or numbers would turn into words among words
        return np.stack(columns, 1)

    def predict_proba(self, X: Any) -> np.ndarray | list[np.ndarray]:
        """The probability of every class, (n, classes) in the order of `classes_`; a list of them for several targets.

        Raises:
            ValueError: SMILES that cannot be read, by their rows.
        """
        probabilities = self._probabilities(X)
        return probabilities[0] if self._one_d else probabilities

    def predict_set(self, X: Any, level: float = 0.9) -> np.ndarray | list[np.ndarray]:
        """Which classes belong to a set that holds the true one with a probability of `level`.

        (n, classes) of True and False in the order of `classes_`; a list of them for several targets.

        Raises:
            ValueError: SMILES that cannot be read, by their rows; a model that was fitted without `calibration_size`.
        """
        self._predicted(X)  # names what cannot be read
        molecules = self._molecules(X)
        with explained():
            rows = self.predictor_.predict_set(molecules.smiles, level, self.num_workers, molecules.descriptors)
        several = self.n_outputs_ > 1
        found = []
        for t in range(self.n_outputs_):
            names = self.predictor_.task.class_names(t)
            classes = self.classes_ if self._one_d else self.classes_[t]
            # A target of one class, beside others of more, is the first of two to its model.
            chosen = [[name in (row[t] if several else row) for name in names[: len(classes)]] for row in rows]
            found.append(np.array(chosen, dtype=bool))
        return found[0] if self._one_d else found

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy; of several targets the share of molecules all of whose known classes are right."""
        predicted, labels = self.predict(X), labels_of(y)
        check_consistent_length(predicted, labels)
        missing = np.array([is_missing(label) for label in labels.ravel()]).reshape(labels.shape)
        right = (missing | (predicted == labels)).reshape(len(labels), -1).all(1)
        told = ~missing.reshape(len(labels), -1).all(1)
        weight = None if sample_weight is None else np.asarray(sample_weight)[told]
        return float(accuracy_score(np.ones(told.sum(), bool), right[told], sample_weight=weight))

    def _probabilities(self, X: Any) -> list[np.ndarray]:
        """(n, classes) for every target."""
        predicted = self._predicted(X)
        if self.predictor_.task.kind == "binary":
            predicted = np.stack([1 - predicted, predicted], -1)
        classes = [self.classes_] if self._one_d else self.classes_
        # A target of one class, beside others of more: nothing else was ever seen.
        found = [
            predicted[:, t, : len(c)] if len(c) > 1 else np.ones((len(predicted), 1)) for t, c in enumerate(classes)
        ]
        return [p / p.sum(1, keepdims=True) for p in found]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags
