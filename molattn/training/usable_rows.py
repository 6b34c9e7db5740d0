"""The rows of a table that can be used, with their targets, groups, weights and descriptors."""

from dataclasses import dataclass

import numpy as np

from molattn.data import Records, RejectedRow


@dataclass(frozen=True)
class UsableRows:
    """The rows of a table that can be used.

    Attributes:
        rows: (n,) of the table, ascending.
        smiles: n SMILES as written.
        keys: n canonical SMILES.
        targets: (n, T), NaN where missing; (N, T) for atom-level targets.
        rejected: the other rows, and why.
        groups, weights, descriptors: of these rows, or None.
        bounds: (n, T, 2) of censored targets, or None.
    """

    rows: np.ndarray
    smiles: list[str]
    keys: list[str]
    targets: np.ndarray
    rejected: list[RejectedRow]
    groups: list[str] | None = None
    weights: np.ndarray | None = None
    descriptors: np.ndarray | None = None
    bounds: np.ndarray | None = None

    def select(self, indices: np.ndarray, targets: np.ndarray, rejected: list[RejectedRow]) -> "UsableRows":
        """Some of the rows, with other targets and rejected rows."""
        return UsableRows(
            rows=self.rows[indices],
            smiles=[self.smiles[i] for i in indices],
            keys=[self.keys[i] for i in indices],
            targets=targets,
            rejected=rejected,
            groups=None if self.groups is None else [self.groups[i] for i in indices],
            weights=None if self.weights is None else self.weights[indices],
            descriptors=None if self.descriptors is None else self.descriptors[indices],
            bounds=None if self.bounds is None else self.bounds[indices],
        )

    @classmethod
    def of_records(
        cls,
        records: Records,
        indices: np.ndarray,
        keys: list[str],
        targets: np.ndarray,
        rejected: list[RejectedRow],
        bounds: np.ndarray | None = None,
    ) -> "UsableRows":
        """The records with these indices."""
        return cls(
            rows=records.rows[indices],
            smiles=[records.smiles[i] for i in indices],
            keys=keys,
            targets=targets,
            rejected=rejected,
            groups=None if records.groups is None else [records.groups[i].strip() for i in indices],
            weights=None if records.weights is None else records.weights[indices],
            descriptors=None if records.descriptors is None else records.descriptors[indices],
            bounds=bounds,
        )
