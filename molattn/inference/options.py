"""Options of predictions. Imports neither torch nor RDKit: the command line checks its arguments first."""

from dataclasses import dataclass


@dataclass(frozen=True)
class PredictionOptions:
    """What is computed in addition to the predictions.

    Attributes:
        level: probability that a prediction interval, or a prediction set of classes, contains the true value; None for
            neither of them.
        uncertainty_method: how standard deviations are computed; the model's default when empty.
        calibration_method: one of `molattn.models.calibration.CALIBRATION_METHODS`; the model's default when empty.
        applicability: whether to add how far each molecule is from the training molecules.
    """

    level: float | None = None
    uncertainty_method: str = ""
    calibration_method: str = ""
    applicability: bool = False


DEFAULT_OPTIONS = PredictionOptions()
"""Only the outputs of the model."""
