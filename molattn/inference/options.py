"""Options of predictions, and the engines. Neither torch nor RDKit is imported: the command line checks these first."""

from dataclasses import dataclass

from molattn.errors import UsageError, unknown_choice

LOCAL = "local"
ENGINES = (LOCAL, "ray")
"""What predicts tables: this process, or the processes that Ray starts."""


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


def check_engine(engine: str) -> None:
    """Raise UsageError for an engine that does not exist."""
    if engine not in ENGINES:
        raise UsageError(unknown_choice("engine", engine, ENGINES))
