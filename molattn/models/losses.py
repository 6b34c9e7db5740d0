"""The losses by name: their functions, how the outputs of their models are decoded, how they are plotted.

To add your own, `register_loss(Loss(...))` in a module that `MOLATTN_PLUGINS` names or in a package with an entry point
in the group `molattn.plugins`; `--loss-function` then accepts its name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from molattn.models import loss_functions as functions
from molattn.models.loss_functions import LossArguments, Spread

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Loss:
    """A loss function and the meaning of the outputs of a model that minimizes it.

    Attributes:
        name: its name in `--loss-function`.
        task_kinds: the kinds of tasks that it applies to: "regression", "binary", "multiclass".
        label: the label of the axis of a learning curve.
        function: the losses of all labels, (b, T), from the outputs, (b, outputs), the targets, (b, T), standardized
            for regression and indices of classes otherwise, without missing values, and `LossArguments`.
        outputs: the number of outputs J for each target; 0 for one per class. Column j T + t of the outputs is output j
            of target t; for multiclass tasks the columns are class by class, target by target.
        spread: None for a loss with one output. Otherwise, for regression, a function f(others, scale, alpha) that
            returns the `Spread`: others, the outputs after the first, (n, T) each; scale, the std of the scaler, (T,).
            The first output is the standardized value.
        probabilities: for classes, a function from the outputs of a target, (..., outputs), to the probabilities and
            their standard deviations, (..., C) each; None in place of the latter if there are none.
        uncertainty_methods: the methods of `--uncertainty-method` that this loss provides, the default first: for each
            the part of the variance that it returns, "total", "epistemic" or "aleatoric".
        has_quantiles: whether the spread has quantiles; the setting `training.alpha` applies to such losses.
        plot_root: whether a learning curve plots the square root of the loss.
        reads_bounds: whether targets may be bounds.
        is_explainable: whether the first outputs are standardized values, log-odds or scores, which attributions can
            explain.
    """

    name: str
    task_kinds: tuple[str, ...]
    label: str
    function: Callable[[Tensor, Tensor, LossArguments], Tensor]
    outputs: int = 1
    spread: Callable[[Sequence[np.ndarray], np.ndarray, float], Spread] | None = None
    probabilities: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray | None]] | None = None
    uncertainty_methods: Mapping[str, str] = field(default_factory=dict)
    has_quantiles: bool = False
    plot_root: bool = False
    reads_bounds: bool = False
    is_explainable: bool = True


LOSSES: dict[str, Loss] = {}
"""The losses by name; the first one of a kind of task is its default."""


def register_loss(loss: Loss) -> None:
    """Add a loss to `LOSSES`.

    Raises:
        ValueError: there is another one of that name, or one for classes has no `probabilities`.
    """
    if loss.name in LOSSES:
        raise ValueError(f"there is already a loss {loss.name!r}")
    if loss.probabilities is None and loss.task_kinds != ("regression",):
        raise ValueError(f"the loss {loss.name!r} applies to classes and has no `probabilities`")
    LOSSES[loss.name] = loss


def losses_of(kind: str) -> tuple[str, ...]:
    """The names of the losses for a kind of task, the default first."""
    return tuple(name for name, loss in LOSSES.items() if kind in loss.task_kinds)


BOUNDED_LOSSES = ("bounded-mse", "bounded-mae")
"""Losses that read bounds, the default of targets with bounds first."""


def bounds_unsupported_reason(loss: str) -> str:
    """Why this loss cannot learn from bounds; empty if it can, or if it is not a loss of regression."""
    if loss not in LOSSES or LOSSES[loss].reads_bounds or "regression" not in LOSSES[loss].task_kinds:
        return ""
    return f"the loss {loss} does not learn from bounds: --loss-function {' or '.join(BOUNDED_LOSSES)} does"


def methods_of_losses() -> dict[str, tuple[str, str]]:
    """The uncertainty methods that losses provide: for each the name of the loss, and the part of the variance."""
    return {method: (loss.name, part) for loss in LOSSES.values() for method, part in loss.uncertainty_methods.items()}


_REGRESSION, _CLASSES = ("regression",), ("binary", "multiclass")
_EVIDENTIAL = {"evidential-total": "total", "evidential-epistemic": "epistemic", "evidential-aleatoric": "aleatoric"}

for _loss in (
    Loss("mse", _REGRESSION, "standardized RMSE", functions.mse, plot_root=True),
    Loss("mae", _REGRESSION, "standardized MAE", functions.mae),
    Loss("huber", _REGRESSION, "Huber loss, standardized", functions.huber),
    Loss(
        "mve",
        _REGRESSION,
        "negative log-likelihood, standardized",
        functions.mve,
        outputs=2,
        spread=functions.mve_spread,
        uncertainty_methods={"mve": "total"},
    ),
    Loss(
        "evidential",
        _REGRESSION,
        "evidential loss, standardized",
        functions.evidential,
        outputs=4,
        spread=functions.evidential_spread,
        uncertainty_methods=_EVIDENTIAL,
    ),
    Loss(
        "quantile",
        _REGRESSION,
        "pinball loss, standardized",
        functions.quantile,
        outputs=3,
        spread=functions.quantile_spread,
        uncertainty_methods={"quantile-regression": "total"},
        has_quantiles=True,
    ),
    Loss(
        "bounded-mse",
        _REGRESSION,
        "standardized RMSE, with bounds",
        functions.bounded_mse,
        plot_root=True,
        reads_bounds=True,
    ),
    Loss("bounded-mae", _REGRESSION, "standardized MAE, with bounds", functions.bounded_mae, reads_bounds=True),
    Loss("bce", ("binary",), "cross-entropy", functions.bce, probabilities=functions.logistic),
    Loss(
        "cross-entropy",
        ("multiclass",),
        "cross-entropy",
        functions.cross_entropy,
        outputs=0,
        probabilities=functions.softmax,
    ),
    Loss(
        "dirichlet",
        _CLASSES,
        "evidential loss",
        functions.dirichlet,
        outputs=0,
        probabilities=functions.dirichlet_probabilities,
        uncertainty_methods={"dirichlet": "total"},
        is_explainable=False,
    ),
):
    register_loss(_loss)
