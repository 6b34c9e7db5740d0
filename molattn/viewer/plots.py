"""How a training went: truth against prediction, and the error epoch by epoch."""

import re
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.ticker import MaxNLocator

from molattn.models.tasks import Task
from molattn.training.evaluation import Evaluation
from molattn.training.fit import EpochRecord
from molattn.training.run import RunResult
from molattn.viewer.figures import new_figure, rendered, short, styled
from molattn.viewer.picture import Picture
from molattn.viewer.spread_plots import spread_plots

# Blue, orange and grey are told apart by every kind of colour vision; the shapes differ as well.
_SIDES = {
    "train": {"color": "#bbbbbb", "marker": ".", "s": 8, "zorder": 1},
    "val": {"color": "#56b4e9", "marker": "^", "s": 14, "zorder": 2},
    "test": {"color": "#d55e00", "marker": "o", "s": 12, "zorder": 3},
}
_LOSSES = {
    "mse": "standardised RMSE",
    "mae": "standardised MAE",
    "huber": "Huber loss, standardised",
    "mve": "negative log-likelihood, standardised",
    "evidential": "evidential loss, standardised",
    "quantile": "pinball loss, standardised",
    "dirichlet": "evidential loss",
    "bce": "cross-entropy",
    "cross-entropy": "cross-entropy",
}
_VECTOR_POINTS = 3000  # points up to which they are drawn one by one


def parity_plot(
    true: np.ndarray,
    predicted: np.ndarray,
    sides: Mapping[str, np.ndarray],
    *,
    name: str,
    unit: str = "",
    test_rmse: float | None = None,
) -> Picture:
    """Truth against prediction of one target, with the line where both are the same.

    Args:
        true: (n,), NaN where a label is missing.
        predicted: (n,), in the same unit.
        sides: indices of the molecules of "train", "val" and "test"; a side may be absent.
        name: of the target.
        unit: of the target, empty where unknown.
        test_rmse: for the title, in the unit; None where unknown.
    """
    known = np.isfinite(true) & np.isfinite(predicted)
    target = short(name, 40)
    words = f"{target} ({short(unit, 30)})" if unit else target
    of_unit = f" {short(unit, 30)}" if unit else ""
    with styled():
        figure = new_figure(5.0, 5.0)
        figure.set_layout_engine("constrained")
        axes = figure.add_subplot()
        shown = np.zeros(len(true), dtype=bool)
        for side, look in ((s, look) for s, look in _SIDES.items() if s in sides):
            rows = np.asarray(sides[side], dtype=int)
            rows = rows[known[rows]]
            shown[rows] = True
            axes.scatter(
                true[rows],
                predicted[rows],
                label=f"{side} ({len(rows):,})",
                linewidths=0,
                rasterized=len(rows) > _VECTOR_POINTS,
                **look,
            )
        low, high = _range(np.concatenate([true[shown], predicted[shown]]))
        axes.plot([low, high], [low, high], color="#555555", linewidth=0.8, zorder=0, label="prediction = truth")
        axes.set_xlim(low, high)
        axes.set_ylim(low, high)
        axes.set_aspect("equal")
        axes.set_xlabel(f"{words}, true", parse_math=False)
        axes.set_ylabel(f"{words}, predicted", parse_math=False)
        title = target if test_rmse is None else f"{target}: RMSE of test {test_rmse:.3g}{of_unit}"
        axes.set_title(title, parse_math=False)
        axes.legend(frameon=False, fontsize=8)
        return rendered(figure)


def learning_curve(history: Sequence[EpochRecord], loss: str = "mse") -> Picture:
    """The loss of training and validation epoch by epoch.

    The loss "mse" is drawn as its root, in standard deviations of the training targets. Training is the loss of the
    batches while the weights still changed, dropout included; validation is that of the running average of the
    weights, so it may lie below.
    """
    root = loss == "mse"
    epochs = np.array([r.epoch for r in history], dtype=int)
    train, val = (np.array([getattr(r, name) for r in history]) for name in ("train_loss", "val_loss"))
    if root:
        train, val = np.sqrt(train), np.sqrt(val)
    best = next((r for r in reversed(history) if r.best), None)
    marker = "." if len(history) < 40 else None
    with styled():
        figure = new_figure(6.0, 3.8)
        figure.set_layout_engine("constrained")
        axes = figure.add_subplot()
        axes.plot(epochs, train, color="#999999", marker=marker, label="train")
        axes.plot(epochs, val, color="#0072b2", marker=marker, label="validation")
        if best is not None:
            words = f"best: epoch {best.epoch}"
            height = best.val_loss**0.5 if root else best.val_loss
            axes.plot(best.epoch, height, "o", color="#d55e00", markersize=7, label=words)
        finite = np.concatenate([train, val])
        finite = finite[np.isfinite(finite)]
        if len(finite) and finite.min() > 0 and finite.max() > 8 * finite.min():
            axes.set_yscale("log")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel("epoch")
        axes.set_ylabel(_LOSSES[loss])
        axes.legend(frameon=False, fontsize=8)
        return rendered(figure)


def write_plots(result: RunResult) -> None:
    """`plots/` in the folder of a run: `learning_curve.png`, and what `target_plots` draws of every target."""
    dataset = result.dataset
    folder = result.folder / "plots"
    folder.mkdir(exist_ok=True)
    sides = {side: dataset.targets_of(dataset.indices(side)) for side in _SIDES}
    targets = dataset.config.target_columns
    rmse = [result.metrics["test"][t].get("rmse") for t in targets]
    pictures = target_plots(dataset.task, targets, dataset.units, dataset.targets, result.predicted, sides, rmse)
    for stem, picture in pictures.items():
        picture.save(folder / f"{stem}.png")
    if result.artifact is not None:
        rows = sides["test"]
        raw = result.raw if result.raw is not None else result.answers
        for stem, picture in spread_plots(result.artifact, dataset.targets[rows], raw[rows], dataset.units).items():
            picture.save(folder / f"{stem}.png")
    learning_curve(result.history, dataset.task.loss).save(folder / "learning_curve.png")


def evaluation_plots(
    result: Evaluation, task: Task, targets: Sequence[str], units: Sequence[str]
) -> dict[str, Picture]:
    """`target_plots` of a model on another table, whose molecules are all of its test."""
    sides = {"test": np.arange(len(result.targets))}
    rmse = [result.metrics[t].get("rmse") for t in targets]
    return target_plots(task, targets, units, result.targets, result.answers.values, sides, rmse)


def target_plots(
    task: Task,
    targets: Sequence[str],
    units: Sequence[str],
    true: np.ndarray,
    predicted: np.ndarray,
    sides: Mapping[str, np.ndarray],
    test_rmse: Sequence[float | None],
) -> dict[str, Picture]:
    """A picture of every target, by the stem of its file's name: `parity`, or `parity-TARGET` where there are several.

    Numbers have a parity plot, binary targets `classification`, several classes `confusion`, which is of the test side.

    Args:
        task, targets, units: what the targets are, and what they are called.
        true, predicted: (n, T), see `Predictions.values`.
        sides: indices of the molecules, or atoms, of "train", "val" and "test"; a side may be absent.
        test_rmse: of each target, for the title of its parity plot.
    """
    what = {"regression": "parity", "binary": "classification", "multiclass": "confusion"}[task.kind]
    stems = [what] if len(targets) == 1 else [f"{what}-{name}" for name in file_names(targets)]
    pictures, of = {}, "atoms" if task.of_atoms else "molecules"
    for t, (target, stem) in enumerate(zip(targets, stems, strict=True)):
        y, p = true[:, t], predicted[:, t]
        if task.kind == "regression":
            pictures[stem] = parity_plot(y, p, sides, name=target, unit=units[t], test_rmse=test_rmse[t])
            continue
        # Here, since scikit-learn takes a second and a half to import, and numbers do without it.
        from molattn.viewer.class_plots import class_plot, confusion_plot

        if task.kind == "binary":
            pictures[stem] = class_plot(y, p, sides, name=target, of=of)
        else:
            rows = np.asarray(sides.get("test", ()), dtype=int)
            pictures[stem] = confusion_plot(y[rows], p[rows], task.classes[t], name=target, of=of)
    return pictures


def file_names(names: Sequence[str]) -> list[str]:
    """`names` as parts of file names: letters, digits, dot, dash, underscore; no two alike, whatever their case."""
    taken: set[str] = set()
    safe = []
    for name in names:
        stem = re.sub(r"[^A-Za-z0-9._-]+", "_", name).strip("._")[:60] or "target"
        candidate, number = stem, 1
        while candidate.lower() in taken:
            number += 1
            candidate = f"{stem}-{number}"
        taken.add(candidate.lower())
        safe.append(candidate)
    return safe


def _range(values: np.ndarray) -> tuple[float, float]:
    """The limits of an axis that shows all `values`."""
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)
    margin = 0.04 * (high - low) or 0.5
    return low - margin, high + margin
