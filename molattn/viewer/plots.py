"""How a training went: truth against prediction, and the error epoch by epoch."""

import re
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.ticker import MaxNLocator

from molattn.training.fit import EpochRecord
from molattn.training.run import RunResult
from molattn.viewer.figures import new_figure, rendered, short, styled
from molattn.viewer.picture import Picture

# Blue, orange and grey are told apart by every kind of colour vision; the shapes differ as well.
_SIDES = {
    "train": {"color": "#bbbbbb", "marker": ".", "s": 8, "zorder": 1},
    "val": {"color": "#56b4e9", "marker": "^", "s": 14, "zorder": 2},
    "test": {"color": "#d55e00", "marker": "o", "s": 12, "zorder": 3},
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
        for side, look in _SIDES.items():
            rows = np.asarray(sides.get(side, ()), dtype=int)
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


def learning_curve(history: Sequence[EpochRecord]) -> Picture:
    """The error of training and validation epoch by epoch, in standard deviations of the training targets.

    Both are roots of mean squared errors. Training is that of the batches while the weights still changed, dropout
    included; validation is that of the running average of the weights, so it may lie below.
    """
    epochs = np.array([r.epoch for r in history], dtype=int)
    train = np.sqrt([r.train_loss for r in history])
    val = np.sqrt([r.val_loss for r in history])
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
            axes.plot(best.epoch, best.val_loss**0.5, "o", color="#d55e00", markersize=7, label=words)
        finite = np.concatenate([train, val])
        finite = finite[np.isfinite(finite)]
        if len(finite) and finite.min() > 0 and finite.max() > 8 * finite.min():
            axes.set_yscale("log")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel("epoch")
        axes.set_ylabel("standardised RMSE")
        axes.legend(frameon=False, fontsize=8)
        return rendered(figure)


def write_plots(result: RunResult) -> None:
    """`plots/` in the folder of a run: `learning_curve.png`, and `parity.png` or `parity-TARGET.png` for several."""
    experiment = result.experiment
    folder = result.folder / "plots"
    folder.mkdir(exist_ok=True)
    targets = experiment.data.target_columns
    stems = ["parity"] if len(targets) == 1 else [f"parity-{name}" for name in file_names(targets)]
    sides = {side: experiment.side(side) for side in _SIDES}
    for t, (target, stem) in enumerate(zip(targets, stems, strict=True)):
        picture = parity_plot(
            experiment.targets[:, t],
            result.predicted[:, t],
            sides,
            name=target,
            unit=experiment.units[t],
            test_rmse=result.metrics["test"][target]["rmse"],
        )
        picture.save(folder / f"{stem}.png")
    learning_curve(result.history).save(folder / "learning_curve.png")


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
