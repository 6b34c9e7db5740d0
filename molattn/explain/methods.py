"""The methods of attribution by name, and which of them a model offers."""

from collections.abc import Callable

import numpy as np

from molattn.errors import UsageError, short_repr
from molattn.explain.additive import additive, cam, no_sum, not_pooled
from molattn.explain.from_attention import received, rolled_out
from molattn.explain.gradients import grad_attention, integrated_gradients
from molattn.explain.occlusion import occlusion
from molattn.explain.terms import Method, Subject, Terms, batch_of, not_of_atoms
from molattn.models.base import MoleculeModel
from molattn.models.graph_model import GraphModel

METHODS: dict[str, Method] = {
    "additive": Method("the terms that the model adds up", additive, no_sum),
    "occlusion": Method("what the answer loses with the atom", occlusion),
    "integrated-gradients": Method("the gradient, integrated from a mean atom to this one", integrated_gradients),
    "cam": Method("what the head makes of the atom's last vector", cam, not_pooled),
    "grad-attention": Method("attention that raises the answer, rolled out over the layers", grad_attention),
    "rollout": Method("attention received through all layers", rolled_out),
    "attention": Method("attention received in the last layer", received),
}
"""The most faithful first, as `benchmarks/faithfulness.py` found them; the first that a model offers is its default.

`cam` stands behind: where it is as faithful as `additive`, `additive` is there, and elsewhere it leaves something out.
"""


def random_shares(seed: int) -> Callable[[GraphModel, Subject, int], Terms]:
    """The baseline: numbers by chance, other ones for every molecule."""
    rng = np.random.default_rng(seed)

    def find(model: GraphModel, molecule: Subject, output: int) -> Terms:  # noqa: ARG001
        return Terms(rng.normal(size=batch_of(model, molecule).mask.shape[1]), in_units=False)

    return find


def offered(model: MoleculeModel) -> list[str]:
    """The methods that work for a model, the most faithful first; none if it reads no atoms, or answers for them."""
    if not isinstance(model, GraphModel) or model.of_atoms:
        return []
    return [name for name, method in METHODS.items() if not method.refuses(model)]


def choose_method(model: MoleculeModel, name: str | None = None) -> str:
    """`name`, if the model offers it; the most faithful that it offers for None.

    Raises:
        UsageError: there is no such method, or it does not work for this model; the sentence says why.
    """
    if why := not_of_atoms(model):
        raise UsageError(f"no attributions: {why}")
    assert isinstance(model, GraphModel)
    if name is None:
        return offered(model)[0]
    if name not in METHODS:
        raise UsageError(f"unknown method {short_repr(name)}: choose one of {', '.join(METHODS)}")
    if why := METHODS[name].refuses(model):
        raise UsageError(f"method {name}: {why}")
    return name
