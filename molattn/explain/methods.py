"""The attribution methods by name, and which of them support a model."""

from collections.abc import Callable

import numpy as np

from molattn.errors import UsageError, short_repr
from molattn.explain.additive import additive, cam, not_additive_reason, not_pooled_reason
from molattn.explain.from_attention import received, rollout
from molattn.explain.gradients import grad_attention, integrated_gradients
from molattn.explain.occlusion import occlusion
from molattn.explain.terms import Method, MoleculeOrBatch, Terms, as_batch, unsupported_model_reason
from molattn.models.base import MoleculeModel
from molattn.models.graph_model import GraphModel

METHODS: dict[str, Method] = {
    "additive": Method("the terms whose sum is the prediction", additive, not_additive_reason),
    "occlusion": Method("the change of the prediction without the atom", occlusion),
    "integrated-gradients": Method("the gradient, integrated from the mean atom to this one", integrated_gradients),
    "cam": Method("the head applied to the atom's last vector", cam, not_pooled_reason),
    "grad-attention": Method("attention that raises the prediction, rolled out over the layers", grad_attention),
    "rollout": Method("attention received through all layers", rollout),
    "attention": Method("attention received in the last layer", received),
}
"""By decreasing faithfulness in `benchmarks/faithfulness.py`; the first that supports a model is its default.

`cam` is an exception to this order: where it is as faithful as `additive`, `additive` is available too, and elsewhere
`cam` ignores the pooling.
"""


def random_attributions(seed: int) -> Callable[[GraphModel, MoleculeOrBatch, int], Terms]:
    """The baseline: normal random numbers, new ones for each molecule."""
    rng = np.random.default_rng(seed)

    def compute(model: GraphModel, molecule: MoleculeOrBatch, output: int) -> Terms:  # noqa: ARG001
        return Terms(rng.normal(size=as_batch(model, molecule).mask.shape[1]), in_units=False)

    return compute


def available_methods(model: MoleculeModel) -> list[str]:
    """The methods that support a model, the most faithful first; none if it has no atoms, or predicts for each atom."""
    if not isinstance(model, GraphModel) or model.of_atoms:
        return []
    return [name for name, method in METHODS.items() if not method.unsupported_reason(model)]


def choose_method(model: MoleculeModel, name: str | None = None) -> str:
    """`name`, if that method supports the model; for None the most faithful one that does.

    Raises:
        UsageError: unknown method, or one that does not support this model, with the reason.
    """
    if why := unsupported_model_reason(model):
        raise UsageError(f"no attributions: {why}")
    assert isinstance(model, GraphModel)
    if name is None:
        return available_methods(model)[0]
    if name not in METHODS:
        raise UsageError(f"unknown method {short_repr(name)}: choose one of {', '.join(METHODS)}")
    if why := METHODS[name].unsupported_reason(model):
        raise UsageError(f"method {name}: {why}")
    return name
