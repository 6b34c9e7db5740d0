"""What a person types in Python: `molattn.train(...)` and `molattn.load(run)`."""

from pathlib import Path

from molattn.api.beside import Beside
from molattn.api.predictor import Predictor
from molattn.api.rows import RowPrediction, Value, geometry_warning, without_geometry
from molattn.api.training import PrintReporter, run, train
from molattn.explain.measured import read_sentences
from molattn.models.artifact import load_artifact
from molattn.training.folders import check_has_model

__all__ = [
    "Beside",
    "Predictor",
    "PrintReporter",
    "RowPrediction",
    "Value",
    "geometry_warning",
    "load",
    "model_folder",
    "run",
    "train",
    "without_geometry",
]


def model_folder(run: str | Path) -> Path:
    """Where the model of a run lies: the folder `model` in it, or itself."""
    inside = Path(run) / "model"
    return inside if inside.is_dir() else Path(run)


def load(run: str | Path) -> Predictor:
    """The predictor of a run folder, or of the `model` folder in it, on the CPU.

    Raises:
        InputError: there is no model, it is damaged, or the run is not finished.
    """
    check_has_model(Path(run))
    folder = model_folder(run)
    return Predictor(load_artifact(folder), read_sentences(Path(run), folder))
