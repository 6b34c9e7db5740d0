"""What models say of molecules, whatever the task."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Answers:
    """What a model says of n molecules, or of n atoms, and T targets.

    Attributes:
        values: (n, T): the number in its unit, the probability of the positive class, or the place of the most
            probable class among the classes.
        own: (n, M): the probabilities of every class, or the quantiles, that stand beside them.
        std: (n, T), how far off they may be: the standard deviation of the number, of the probability of 1, or of the
            probability of the class that is answered; None where the model says nothing of it.
        ignorance: (n, T), which share of its square is the model's own doubt, the rest being noise of the
            measurements; None where nobody can tell.
    """

    values: np.ndarray
    own: np.ndarray
    std: np.ndarray | None = None
    ignorance: np.ndarray | None = None

    @property
    def more(self) -> np.ndarray:
        """(n, M) or (n, M + T), all that stands beside the values, the standard deviations last."""
        return self.own if self.std is None else np.concatenate([self.own, self.std], 1)

    def __getitem__(self, rows: np.ndarray | slice) -> "Answers":
        """Those of some molecules, or atoms."""
        std = None if self.std is None else self.std[rows]
        return Answers(self.values[rows], self.own[rows], std, None if self.ignorance is None else self.ignorance[rows])


def nothing(values: np.ndarray) -> np.ndarray:
    """No columns, (n, 0), beside `values`, (n, T)."""
    return np.empty((len(values), 0))
