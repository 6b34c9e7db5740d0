"""The attribution methods by name: additive terms, gradients, and those of `masking` and `attention_methods`."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from molattn.errors import UsageError, unknown_choice
from molattn.explain.attention_methods import grad_attention, received_attention, rollout
from molattn.explain.masking import occlusion
from molattn.explain.terms import MoleculeOrBatch, Terms, as_batch, repeat_batch
from molattn.models.base import MoleculeModel, to_float64
from molattn.models.graph_model import GraphModel


@dataclass(frozen=True)
class Method:
    """An attribution method.

    Attributes:
        title: what its values are, in one line.
        compute: from a model, a molecule and the index of an output to the terms.
        unsupported_reason: why it does not support a model, in a sentence; empty if it does.
    """

    title: str
    compute: Callable[[GraphModel, MoleculeOrBatch, int], Terms]
    unsupported_reason: Callable[[GraphModel], str] = lambda model: ""  # noqa: ARG005


def unsupported_model_reason(model: MoleculeModel) -> str:
    """Why there are no attributions to atoms for a model; empty if there are."""
    if model.atom_level:
        return "they apply only to molecule-level targets, and those of the model are atom-level"
    if isinstance(model, GraphModel):
        return ""
    return f"the model {model.config.kind!r} reads tokens, not atoms: train one with --model graph"


_SUM_READOUTS = ("additive", "sum", "mean")
_POOLING_READOUTS = (*_SUM_READOUTS, "attention", "max")


def additive(model: GraphModel, molecule: MoleculeOrBatch, output: int) -> Terms:
    """The terms whose sum is the output of the model: exact, whatever the blocks compute.

    output = b + sum_i w . t_i          t_i of atom i after the last block: gelu(W x_i + c), x_i, or (x_i - beta) / n

    for the readouts "additive", "sum" and "mean". beta is the bias of the final normalization. In a mean, every one of
    the n nodes has the same share w . beta / n of it, so it is in the constant, b + w . beta; in a sum, each atom adds
    w . beta, so it is in the term of the atom. The term of a virtual node is separate. The vector of an atom
    depends on its neighbors, so its term is not the contribution of an isolated atom: few layers over bonds keep it
    local.
    """
    batch = as_batch(model, molecule)
    with torch.inference_mode():
        terms = model.contributions(batch)[0, :, output].cpu().numpy()
        descriptors = model.descriptor_terms(batch)[0, :, output].cpu().numpy()
        constant = float(model.constant_term()[output])
    n = batch.mask.shape[1]
    other_terms = {label: float(x) for label, x in zip(model.virtual_labels, terms[n:], strict=True)}
    return Terms(terms[:n], constant, other_terms, descriptors, adds_up=True)


def not_additive_reason(model: GraphModel) -> str:
    """Why `additive` does not support a model; empty if it does."""
    if model.readout_name in _SUM_READOUTS:
        return ""
    return (
        f"the readout {model.readout_name!r} is not a sum over atoms, so no terms add up to the prediction: "
        f"train with --set model.readout={_SUM_READOUTS[0]}, or choose another method"
    )


def cam(model: GraphModel, molecule: MoleculeOrBatch, output: int) -> Terms:
    """Class activation mapping: the head applied to the vector of each atom instead of the pooled vector.

    c_i = w . x_i

    of the vectors that are pooled. For the readout "sum" these are the additive terms, for "mean" n times those, with
    n nodes, plus w . beta, see `additive`; for pooling by attention or maximum, the map ignores the pooling weights.

    Source: Zhou et al. 2016, arXiv:1512.04150; on graphs Pope et al. 2019, CVPR.
    """
    batch = as_batch(model, molecule)
    with torch.inference_mode():
        if model.readout_name == "additive":
            values = model.contributions(batch)[0, :, output]
        else:
            x = to_float64(model.norm(model.forward_features(batch).v))[0]
            values = x @ to_float64(model.head.weight)[output, : x.shape[-1]]
            # Virtual nodes come first here.
            values = values[len(model.virtual_labels) :]
    return Terms(np.asarray(values.cpu())[: batch.mask.shape[1]])


def not_pooled_reason(model: GraphModel) -> str:
    """Why `cam` does not support a model; empty if it does."""
    if model.readout_name in _POOLING_READOUTS:
        return ""
    return (
        f"the readout {model.readout_name!r} does not pool the atoms' vectors, so the head's weights do not apply to "
        "them: choose another method"
    )


TOLERANCE = 1e-3
"""Largest error of the sum of integrated gradients: absolute for outputs up to 1, relative above."""

_STEPS = (32, 64, 128, 256, 512)


def _integrate_gradient(f: Callable[[Tensor], Tensor], start: Tensor, end: Tensor, steps: int) -> Tensor:
    """(end - start) times the integral over t of the gradient of f at start + t (end - start), by Gauss-Legendre.

    `start` and `end` have the shape (1, n, d), and f maps (batch, n, d) to (batch,); the steps are its batches.
    """
    points, weights = (torch.as_tensor(x).to(end)[:, None, None] / 2 for x in np.polynomial.legendre.leggauss(steps))
    integral = torch.zeros_like(end)
    for t, weight in zip((points + 0.5).split(_STEPS[0]), weights.split(_STEPS[0]), strict=True):
        with torch.enable_grad():
            v = (start + t * (end - start)).requires_grad_()
            (gradient,) = torch.autograd.grad(f(v).sum(), v)
        integral += (weight * gradient).sum(0, keepdim=True)
    return (end - start) * integral


def integrated_gradients(model: GraphModel, molecule: MoleculeOrBatch, output: int) -> Terms:
    """Integrated gradients of the atom embeddings, from a baseline of mean atoms to the molecule.

    g_i = (v_i - v') . integral_0^1 df(v' + t (v - v')) / dv_i dt          sum_i g_i = f(v) - f(v')

    v_i is the embedding of atom i, and v' the mean embedding of the molecule: the constant is the output for identical
    atoms with the bonds, path lengths, descriptors and virtual node of this molecule. The integral is a Gauss-Legendre
    sum of 32 points, doubled up to 512 until the g_i add up within `TOLERANCE`; if they never do, `adds_up` is False.

    Source: Sundararajan, Taly & Yan 2017, arXiv:1703.01365.
    """
    batch = as_batch(model, molecule)
    n, first = batch.mask.shape[1], len(model.virtual_labels)
    with torch.no_grad():
        graph = model.input_graph(batch)
    v, baseline = graph.v, graph.v.clone()
    baseline[:, first:] = v[:, first:].mean(1, keepdim=True)

    def forward(v: Tensor) -> Tensor:
        return model.forward_graph(repeat_batch(graph, len(v)).replace(v=v), repeat_batch(batch, len(v)))[:, output]

    with torch.no_grad():
        start, end = forward(torch.cat([baseline, v])).tolist()
    total, values = end - start, np.zeros(n)
    tolerance = TOLERANCE * max(1.0, abs(end))
    for steps in _STEPS:
        integrated = _integrate_gradient(forward, baseline, v, steps)
        values = integrated[0, first:].sum(-1).cpu().numpy().astype(np.float64)
        if abs(values.sum() - total) <= tolerance:
            return Terms(values, start, adds_up=True)
    return Terms(values, start)


METHODS: dict[str, Method] = {
    "additive": Method("the terms whose sum is the prediction", additive, not_additive_reason),
    "occlusion": Method("the change of the prediction without the atom", occlusion),
    "integrated-gradients": Method("the gradient, integrated from the mean atom to this one", integrated_gradients),
    "cam": Method("the head applied to the atom's last vector", cam, not_pooled_reason),
    "grad-attention": Method("attention that raises the prediction, rolled out over the layers", grad_attention),
    "rollout": Method("attention received through all layers", rollout),
    "attention": Method("attention received in the last layer", received_attention),
}
"""The methods that compute attributions from the graph of the whole molecule.

`fragment_shapley`, which reads other molecules too, is the default where it is possible; elsewhere the first of these
that supports the model: `additive`, or else `occlusion`, which supports every model. Both have a sign and the unit of
the target, as `integrated-gradients` and `cam` have; the others are weights without either.
"""


def random_attributions(seed: int) -> Callable[[GraphModel, MoleculeOrBatch, int], Terms]:
    """The baseline: normal random numbers, new ones for each molecule."""
    rng = np.random.default_rng(seed)

    def compute(model: GraphModel, molecule: MoleculeOrBatch, output: int) -> Terms:  # noqa: ARG001
        return Terms(rng.normal(size=as_batch(model, molecule).mask.shape[1]), has_unit=False)

    return compute


def available_methods(model: MoleculeModel) -> list[str]:
    """The methods that support a model, its default first; none if it has no atoms, or predicts for each atom."""
    if not isinstance(model, GraphModel) or model.atom_level:
        return []
    return [name for name, method in METHODS.items() if not method.unsupported_reason(model)]


def choose_method(model: MoleculeModel, name: str | None = None) -> str:
    """`name`, if that method supports the model; for None its default, see `METHODS`.

    Raises:
        UsageError: unknown method, or one that does not support this model, with the reason.
    """
    if reason := unsupported_model_reason(model):
        raise UsageError(f"no attributions: {reason}")
    assert isinstance(model, GraphModel)
    if name is None:
        return available_methods(model)[0]
    if name not in METHODS:
        raise UsageError(unknown_choice("method", name, METHODS))
    if reason := METHODS[name].unsupported_reason(model):
        raise UsageError(f"method {name}: {reason}")
    return name
