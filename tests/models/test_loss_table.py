"""The table of losses: invalid entries, and look-ups."""

import numpy as np
import pytest
import torch

from molattn.models.loss_functions import MIN_VARIANCE
from molattn.models.losses import (
    BOUNDED_LOSSES,
    LOSSES,
    Loss,
    bounds_unsupported_reason,
    losses_of,
    methods_of_losses,
    register_loss,
)


def _squared(outputs: torch.Tensor, z: torch.Tensor, _: object) -> torch.Tensor:
    return (outputs - z).square()


def test_a_loss_has_a_name_of_its_own_and_one_for_classes_has_probabilities() -> None:
    before = dict(LOSSES)
    with pytest.raises(ValueError, match="there is already a loss 'mse'"):
        register_loss(Loss("mse", ("regression",), "again", _squared))
    for kinds in (("binary",), ("regression", "binary")):
        with pytest.raises(ValueError, match="'brier' applies to classes and has no `probabilities`"):
            register_loss(Loss("brier", kinds, "Brier score", _squared))
    assert before == LOSSES
    try:
        register_loss(loss := Loss("squared", ("regression",), "squared error", _squared))
        assert {**before, "squared": loss} == LOSSES and losses_of("regression")[-1] == "squared"
    finally:
        LOSSES.pop("squared", None)


def test_the_losses_and_uncertainty_methods_of_each_kind_of_task() -> None:
    bounded = ("bounded-mse", "bounded-mae")
    assert losses_of("regression") == ("mse", "mae", "huber", "mve", "evidential", "quantile", *bounded)
    for loss in ("mse", "mae", "huber", "mve", "evidential", "quantile"):
        others = "--loss-function bounded-mse or bounded-mae does"
        assert bounds_unsupported_reason(loss) == f"the loss {loss} does not learn from bounds: {others}"
    for loss in (*bounded, "bce", "cross-entropy", "no such loss", ""):
        assert bounds_unsupported_reason(loss) == ""
    assert bounded == BOUNDED_LOSSES == tuple(name for name, loss in LOSSES.items() if loss.reads_bounds)
    assert losses_of("binary") == ("bce", "dirichlet")
    assert losses_of("multiclass") == ("cross-entropy", "dirichlet")
    assert losses_of("ranking") == ()
    assert methods_of_losses() == {
        "mve": ("mve", "total"),
        "evidential-total": ("evidential", "total"),
        "evidential-epistemic": ("evidential", "epistemic"),
        "evidential-aleatoric": ("evidential", "aleatoric"),
        "quantile-regression": ("quantile", "total"),
        "dirichlet": ("dirichlet", "total"),
    }
    assert [name for name, loss in LOSSES.items() if loss.has_quantiles] == ["quantile"]
    assert [name for name, loss in LOSSES.items() if loss.plot_root] == ["mse", "bounded-mse"]
    assert [name for name, loss in LOSSES.items() if not loss.is_explainable] == ["dirichlet"]


def test_probabilities_are_those_of_torch_along_the_last_axis() -> None:
    outputs = np.random.default_rng(0).normal(size=(4, 3, 5))
    p, std = LOSSES["cross-entropy"].probabilities(outputs)  # pyright: ignore[reportOptionalCall]
    assert std is None
    np.testing.assert_allclose(p, torch.softmax(torch.tensor(outputs), -1), rtol=1e-12)
    p, std = LOSSES["bce"].probabilities(outputs[..., :1])  # pyright: ignore[reportOptionalCall]
    assert std is None and p.shape == (4, 3, 2)
    np.testing.assert_allclose(p[..., 1], torch.sigmoid(torch.tensor(outputs[..., 0])), rtol=1e-12)
    np.testing.assert_allclose(p.sum(-1), 1.0, rtol=1e-12)


def test_the_variance_of_mve_is_never_below_its_minimum() -> None:
    loss = LOSSES["mve"]
    spread = loss.spread([np.array([-1e9, 0.0])], np.array([2.0, 2.0]), 0.0).std
    assert spread == pytest.approx([2 * MIN_VARIANCE**0.5, 2 * (np.log(2) + MIN_VARIANCE) ** 0.5], rel=1e-12)
