"""`OnnxPredictor`, which predicts with a file that `molattn export` wrote, without torch."""

from pathlib import Path

from molattn.data.files import file_sha256
from molattn.errors import InputError
from molattn.inference.array_predictor import ArrayPredictor
from molattn.inference.table_predictor import TablePredictor
from molattn.models.exported.onnx_model import load_onnx
from molattn.training.run_status import check_has_model, model_folder

ONNX_FILE = "model.onnx"
"""The file in a run folder that `molattn export` writes by default."""


class OnnxPredictor(ArrayPredictor, TablePredictor):
    """A model in an ONNX file that predicts as a `Predictor` does, by ONNX Runtime and without torch.

    It has the methods of a `Predictor` that predict and embed, with the same arguments and results: `predict`,
    `predict_interval`, `predict_set`, `predict_rows`, `predict_table`, `predict_tables`, `embed`, ... It does not
    explain, evaluate or move to a GPU.

    Args:
        path: a file that `molattn export` or `Predictor.export` wrote; or a run folder that has one, `model.onnx`.

    Attributes:
        path: of the file.
        targets, units, extra_columns, descriptors, read_options: as those of a `Predictor`.

    Raises:
        InputError: there is no such file, or it is damaged, or was exported from another model than the run folder
            holds; or it reads molecules in another way than this molattn.
        MissingExtra: onnxruntime is not installed.
        UsageError: a plugin cannot be loaded.

    Example::

        molattn.load("runs/esol").export("esol.onnx")
        predictor = molattn.inference.OnnxPredictor("esol.onnx")
        predictor.predict(["CCO", "c1ccccc1"])

    >>> from molattn.errors import InputError
    >>> from molattn.inference import OnnxPredictor
    >>> try:
    ...     OnnxPredictor("missing.onnx")
    ... except InputError as error:
    ...     print(error)
    there is no file missing.onnx: write it with molattn export
    """

    is_onnx = True

    def __init__(self, path: str | Path):
        path = Path(path)
        run = path if path.is_dir() else None
        if run is not None:
            check_has_model(run)
            path = run / ONNX_FILE
            if not path.is_file():
                raise InputError(f"{run} holds no {ONNX_FILE}: write it with molattn export {run}")
        artifact, config_sha256 = load_onnx(path)
        if run is not None and file_sha256(model_folder(run) / "config.json") != config_sha256:
            raise InputError(f"{path} was exported from another model: molattn export {run} --force writes it again")
        super().__init__(artifact)
        self.path = path

    def config_sha256(self) -> str:
        """SHA-256 of the file."""
        return file_sha256(self.path)

    def __repr__(self) -> str:
        return f"OnnxPredictor({str(self.path)!r}, targets={self.targets!r})"
