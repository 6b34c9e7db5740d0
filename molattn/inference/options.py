"""Options of predictions, and the engines. Neither torch nor RDKit is imported: the command line checks these first."""

from dataclasses import dataclass
from pathlib import Path

from molattn.errors import UsageError, unknown_choice

LOCAL, ONNX = "local", "onnx"
ENGINES = (LOCAL, "ray", ONNX)
"""What predicts tables: this process, the processes that Ray starts, or this process with ONNX Runtime."""


@dataclass(frozen=True)
class PredictionOptions:
    """What is computed in addition to the predictions.

    Attributes:
        level: of prediction intervals, or of prediction sets of classes, such as 0.9; None for neither.
        uncertainty_method: how standard deviations are computed; the model's default when empty.
        calibration_method: one of `molattn.models.calibration.CALIBRATION_METHODS`; the model's default when empty.
        applicability: whether to add "embedding_distance", "tanimoto_nearest" and "out_of_domain": how far each
            molecule is from the training molecules.

    A method that gets them raises UsageError if the model does not support them.

    >>> from molattn.inference import PredictionOptions
    >>> options = PredictionOptions(level=0.9, applicability=True)  # of predict_table, predict_rows, ...
    >>> options.level, options.applicability, options.uncertainty_method
    (0.9, True, '')
    """

    level: float | None = None
    uncertainty_method: str = ""
    calibration_method: str = ""
    applicability: bool = False


DEFAULT_OPTIONS = PredictionOptions()
"""Only the outputs of the model."""


def check_engine(engine: str, accelerator: str = "cpu", precision: str = "32-true") -> None:
    """Raise UsageError for an engine that does not exist, or that uses another accelerator or precision."""
    if engine not in ENGINES:
        raise UsageError(unknown_choice("engine", engine, ENGINES))
    if engine != LOCAL and (accelerator, precision) != ("cpu", "32-true"):
        raise UsageError(f"the engine {engine} predicts on CPUs in float32, not on {accelerator} with {precision}")


def engine_of(run: Path, engine: str) -> str:
    """The engine that predicts with `run`: "onnx" for an .onnx file, otherwise as given.

    Raises:
        UsageError: an .onnx file and "ray".
    """
    if run.suffix.lower() != ".onnx":
        return engine
    if engine == "ray":
        raise UsageError(f"the engine ray predicts with a run folder, not with {run}")
    return ONNX
