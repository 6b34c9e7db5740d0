"""The plots of a run or an evaluation: which pictures each target has, and the names of their files."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from molattn.models.tasks import Task
from molattn.viewer.figures import safe_file_names
from molattn.viewer.picture import Picture
from molattn.viewer.plots import SPLIT_STYLES, learning_curve, parity_plot
from molattn.viewer.uncertainty_plots import uncertainty_plots

if TYPE_CHECKING:
    from molattn.training.evaluation import Evaluation
    from molattn.training.run import RunResult


def write_plots(result: "RunResult") -> None:
    """Write the folder `plots` of a run: its learning curve, and a picture of the predictions of each target.

    For one target these are `learning_curve.png` and, by the kind of target, `parity.png`, `classification.png` or
    `confusion.png`; a model with standard deviations or a calibration adds `uncertainty.png`. For several targets the
    names end with that of the target, as in `parity-logS.png`. `molattn.train` calls this function for each run.

    Args:
        result: the result of `molattn.train`, for a single run.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import molattn
    >>> from molattn.viewer import write_plots
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = Path(folder, "boiling.csv")
    ...     _ = table.write_text("smiles,bp\\n" + "".join(f"{n * 'C'}O,{50 + 18 * n}\\n" for n in range(1, 11)))
    ...     run = molattn.train(table, output_dir=f"{folder}/run", epochs=1, hidden_dim=8, num_layers=1, quiet=True)
    ...     write_plots(run)
    ...     sorted(path.name for path in Path(run.folder, "plots").iterdir())
    ['learning_curve.png', 'parity.png']
    """
    dataset = result.dataset
    folder = result.folder / "plots"
    folder.mkdir(exist_ok=True)
    splits = {split: dataset.target_rows(dataset.indices(split)) for split in SPLIT_STYLES}
    targets = dataset.config.target_columns
    rmse = [result.metrics["test"][t].get("rmse") for t in targets]
    pictures = target_plots(
        dataset.task, targets, dataset.units, dataset.targets, result.predictions.values, splits, rmse
    )
    for stem, picture in pictures.items():
        picture.save(folder / f"{stem}.png")
    rows = splits["test"]
    uncalibrated = result.uncalibrated_predictions[rows]
    for stem, picture in uncertainty_plots(result.artifact, dataset.targets[rows], uncalibrated, dataset.units).items():
        picture.save(folder / f"{stem}.png")
    scale, unit = _loss_scale(result)
    learning_curve(result.history, dataset.task.loss, scale=scale, unit=unit).save(folder / "learning_curve.png")


def _loss_scale(result: "RunResult") -> tuple[float | None, str]:
    """The standard deviation and unit of the only regression target, after its transform; (None, "") for others."""
    scaler = result.artifact.scaler
    if result.dataset.task.kind != "regression" or len(scaler.std) != 1:
        return None, ""
    unit, transform = result.dataset.units[0], scaler.transform_of(0)
    return scaler.std[0], unit if transform is None else transform.transformed_unit(unit)


def evaluation_plots(
    result: "Evaluation", task: Task, targets: Sequence[str], units: Sequence[str]
) -> dict[str, Picture]:
    """The `target_plots` of an evaluation; all of its molecules are shown as test molecules.

    Args:
        result: the evaluation of a model on a table.
        task, targets, units: as for `target_plots`.
    """
    splits = {"test": np.arange(len(result.targets))}
    rmse = [result.metrics[t].get("rmse") for t in targets]
    return target_plots(task, targets, units, result.targets, result.predictions.values, splits, rmse)


def target_plots(
    task: Task,
    targets: Sequence[str],
    units: Sequence[str],
    true: np.ndarray,
    predicted: np.ndarray,
    splits: Mapping[str, np.ndarray],
    test_rmse: Sequence[float | None],
) -> dict[str, Picture]:
    """A picture of the predictions of each target, by the stem of its file name.

    The stem is `parity` for regression, `classification` for binary targets, and for multiclass targets `confusion`,
    which shows the test molecules only; for several targets it ends with the name, as in `parity-logS`.

    Args:
        task, targets, units: the task, and the names and units of the targets.
        true, predicted: (n, T), see `Predictions.values`.
        splits: row indices of `true` for "train", "val" and "test", of molecules or atoms; any may be absent.
        test_rmse: RMSE of each target, for the title of its parity plot.
    """
    kind = {"regression": "parity", "binary": "classification", "multiclass": "confusion"}[task.kind]
    stems = [kind] if len(targets) == 1 else [f"{kind}-{name}" for name in safe_file_names(targets)]
    pictures, counted = {}, "atoms" if task.atom_level else "molecules"
    for t, (target, stem) in enumerate(zip(targets, stems, strict=True)):
        y, p = true[:, t], predicted[:, t]
        if task.kind == "regression":
            pictures[stem] = parity_plot(y, p, splits, name=target, unit=units[t], test_rmse=test_rmse[t])
            continue
        # Imported here, since regression does not need scikit-learn, which takes 1.5 s to import.
        from molattn.viewer.class_plots import class_plot, confusion_plot

        if task.kind == "binary":
            name = f"{target} ({task.classes[t][1]})" if task.classes else target
            pictures[stem] = class_plot(y, p, splits, name=name, counted=counted)
        else:
            rows = np.asarray(splits.get("test", ()), dtype=int)
            pictures[stem] = confusion_plot(y[rows], p[rows], task.classes[t], name=target, counted=counted)
    return pictures
