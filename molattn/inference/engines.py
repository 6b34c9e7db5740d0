"""Prediction of tables by one of the engines: this process, or Ray; and progress reported to a function."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from molattn.data.tables.options import Warn
from molattn.errors import UsageError
from molattn.inference.added_columns import prediction_columns
from molattn.inference.options import LOCAL, ONNX, PredictionOptions, check_engine
from molattn.inference.row_counts import RowCounts
from molattn.inference.row_predictor import RowPredictor
from molattn.inference.table_engine import ProgressFactory, run_jobs
from molattn.inference.table_job import TableJob

ProgressCallback = Callable[[int, int | None], object]
"""Called with the number of rows read so far, and the number of all rows, None if unknown."""


def predict_jobs(
    predictor: RowPredictor,
    jobs: Sequence[TableJob],
    options: PredictionOptions,
    engine: str,
    progress: ProgressFactory,
    warn: Warn,
) -> RowCounts:
    """Predict tables whose outputs the caller has locked; see `table_engine.run_jobs`.

    Args:
        predictor: the model.
        jobs: the tables.
        options: what is computed in addition to the predictions.
        engine: "local" or "onnx", one after the other in this process, or "ray".
        progress, warn: as for `run_jobs`.

    Raises:
        UsageError: the model does not support the options, is not in a folder that Ray's processes can read, or is one
            of torch while the engine is "onnx".
    """
    check_engine(engine, predictor.accelerator, predictor.precision)
    added = prediction_columns(predictor, options)
    if engine == ONNX and not predictor.is_onnx:
        raise UsageError("the engine onnx is that of molattn.inference.OnnxPredictor, which loads an exported model")
    if engine in (LOCAL, ONNX):
        return run_jobs(jobs, added, progress, warn)
    from molattn.inference.ray_engine import run_on_ray  # needs an extra

    if predictor.folder is None:
        raise UsageError("--engine ray needs a model in a folder: save it, and load it from there")
    return run_on_ray(jobs, added, predictor.folder, options, progress, warn)


def callback_progress(callback: ProgressCallback | None) -> ProgressFactory:
    """Report progress to a function."""

    @contextmanager
    def progress(total: int | None, before: int) -> Iterator[Callable[[int], None]]:
        def report(done: int) -> None:
            if callback is not None:
                callback(before + done, total)

        yield report

    return progress
