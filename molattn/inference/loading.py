"""Loading the model of a run folder."""

from pathlib import Path

from molattn.explain.faithfulness_file import read_summaries
from molattn.inference.predictor import Predictor
from molattn.models.artifact import load_artifact
from molattn.training.run_status import check_has_model


def _model_folder(run: str | Path) -> Path:
    """The model's folder in a run folder: its subfolder `model`, or the folder itself if it has none."""
    inside = Path(run) / "model"
    return inside if inside.is_dir() else Path(run)


def load(run: str | Path) -> Predictor:
    """Load the predictor of a run folder, or of the `model` folder in it, on the CPU.

    Raises:
        InputError: there is no model, it is damaged, or the run is not finished.
    """
    check_has_model(Path(run))
    folder = _model_folder(run)
    return Predictor(load_artifact(folder), read_summaries(Path(run), folder), folder)
