"""The attribution methods by name: additive terms, attention, gradients and occlusion."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from molattn.chem import MoleculeGraph
from molattn.data.store.batches import MoleculeBatch
from molattn.errors import UsageError, unknown_choice
from molattn.explain.attention_map import AttentionMap
from molattn.graph import DenseGraph
from molattn.models.base import MoleculeModel, to_float64
from molattn.models.graph_model import GraphModel

T = TypeVar("T", MoleculeBatch, DenseGraph)

MoleculeOrBatch = MoleculeGraph | MoleculeBatch
"""A molecule, or a batch of one molecule, which can include its descriptors."""


@dataclass(frozen=True)
class Terms:
    """The attribution of one output to the atoms of a molecule, in the standardized units of the model.

    If `adds_up`:    output = constant + sum_i values_i + sum(other_terms) + sum_k descriptors_k

    Attributes:
        values: (n,) the attribution of each atom.
        constant: the constant term, or the output for the baseline; None if the method has none.
        other_terms: attributions to anything but atoms, by name.
        descriptors: (k,) the term of each descriptor, if the method computes them and the model has descriptors.
        adds_up: whether the terms sum to the output (completeness).
        in_units: whether the values are in units of the output; False for attention weights, which have none.
    """

    values: np.ndarray
    constant: float | None = None
    other_terms: Mapping[str, float] = field(default_factory=dict)
    descriptors: np.ndarray | None = None
    adds_up: bool = False
    in_units: bool = True


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


def as_batch(model: GraphModel, molecule: MoleculeOrBatch) -> MoleculeBatch:
    """A batch of one molecule, on the device of the model."""
    batch = molecule if isinstance(molecule, MoleculeBatch) else model.collate([molecule])
    batch = batch.to(model.head.weight.device)
    assert isinstance(batch, MoleculeBatch)
    return batch


def repeat_batch(x: T, times: int) -> T:
    """A batch, or a dense graph, of one molecule, repeated `times` times."""
    # By its fields: `vars` would include cached properties.
    values = {f.name: value for f in fields(x) if (value := getattr(x, f.name)) is not None}
    return replace(x, **{name: v.expand(times, *v.shape[1:]) for name, v in values.items()})


def unsupported_model_reason(model: MoleculeModel) -> str:
    """Why there are no attributions to atoms for a model; empty if there are."""
    if model.atom_level:
        return "they apply only to molecule-level targets, and those of the model are atom-level"
    if isinstance(model, GraphModel):
        return ""
    return f"the model {model.config.kind!r} reads tokens, not atoms: train one with --model graph"


_SUMS = ("additive", "sum", "mean")
_POOLED = (*_SUMS, "attention", "max")


def additive(model: GraphModel, molecule: MoleculeOrBatch, output: int) -> Terms:
    """The terms whose sum is the output of the model: exact, whatever the blocks compute.

    output = b + sum_i w . t_i          t_i of atom i after the last block: gelu(W x_i + c), x_i, or (x_i - beta) / n

    for the readouts "additive", "sum" and "mean". beta is the bias of the final normalization: of a mean, all n nodes
    would have the same part w . beta / n of it, whatever they are, so it is in the constant, b + w . beta. Of a sum, an
    atom more is a w . beta more, which is in its term. The term of a virtual node is separate. The vector of an atom
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
    if model.readout_name in _SUMS:
        return ""
    return (
        f"the readout {model.readout_name!r} is not a sum over atoms, so no terms add up to the prediction: "
        f"train with --set model.readout={_SUMS[0]}, or choose another method"
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
    if model.readout_name in _POOLED:
        return ""
    return (
        f"the readout {model.readout_name!r} does not pool the atoms' vectors, so the head's weights do not apply to "
        "them: choose another method"
    )


def received_attention(model: GraphModel, molecule: MoleculeOrBatch, output: int) -> Terms:  # noqa: ARG001
    """The attention that each atom receives in the last layer, the mean over heads and receivers.

    It is the same for all outputs.
    """
    found = _map(model, molecule)
    return Terms(found.received_attention()[: found.num_atoms].astype(np.float64), in_units=False)


def rollout(model: GraphModel, molecule: MoleculeOrBatch, output: int) -> Terms:  # noqa: ARG001
    """Attention rollout, the mean over receivers: see `AttentionMap.rollout`."""
    found = _map(model, molecule)
    return Terms(found.rollout().mean(0)[: found.num_atoms], in_units=False)


def _map(model: GraphModel, molecule: MoleculeOrBatch) -> AttentionMap:
    batch = as_batch(model, molecule)
    with torch.inference_mode():
        weights = model.attention(batch)[1][0].cpu().numpy()
    # Only the weights of this map are used.
    atoms = ("",) * batch.mask.shape[1]
    return AttentionMap("", atoms, weights, {}, {}, virtual=model.virtual_labels)


TOLERANCE = 1e-3
"""Largest error of the sum of integrated gradients: absolute for outputs up to 1, relative above."""

_STEPS = (32, 64, 128, 256, 512)


def integrated_gradients(model: GraphModel, molecule: MoleculeOrBatch, output: int) -> Terms:
    """Integrated gradients of the atom embeddings, from a baseline of mean atoms to the molecule.

    g_i = (v_i - v') . integral_0^1 df(v' + t (v - v')) / dv_i dt          sum_i g_i = f(v) - f(v')

    v_i is the embedding of atom i, and v' the mean embedding of the molecule: the constant is the output for identical
    atoms with the bonds, path lengths, descriptors and virtual node of this molecule. The integral is a Gauss-Legendre
    sum of 32 points, doubled up to 512 until the g_i add up within `TOLERANCE`; if they never do, `adds_up` is False.

    Source: Sundararajan, Taly & Yan 2017, arXiv:1703.01365; computed by captum.
    """
    from captum.attr import IntegratedGradients  # imported here, because that takes half a second

    batch = as_batch(model, molecule)
    n, first = batch.mask.shape[1], len(model.virtual_labels)
    with torch.no_grad():
        graph = model.input_graph(batch)
    v, base = graph.v, graph.v.clone()
    base[:, first:] = v[:, first:].mean(1, keepdim=True)

    def forward(v: Tensor) -> Tensor:
        return model.forward_graph(repeat_batch(graph, len(v)).replace(v=v), repeat_batch(batch, len(v)))[:, output]

    with torch.no_grad():
        start, end = forward(torch.cat([base, v])).tolist()
    total, values = end - start, np.zeros(n)
    within = TOLERANCE * max(1.0, abs(end))
    for steps in _STEPS:
        found = IntegratedGradients(forward).attribute(v, base, n_steps=steps, internal_batch_size=_STEPS[0])
        values = found[0, first:].sum(-1).detach().cpu().numpy().astype(np.float64)
        if abs(values.sum() - total) <= within:
            return Terms(values, start, adds_up=True)
    return Terms(values, start)


def grad_attention(model: GraphModel, molecule: MoleculeOrBatch, output: int) -> Terms:
    """Attention weights times the gradient of the output with respect to them, rolled out over the layers.

    A_l = mean_h relu( dy/dW_lh * W_lh )          R_0 = I,   R_l = R_{l-1} + A_l R_{l-1}
    r_j = mean_i (R_L - I)_ij                      i over the nodes that the readout reads

    Only positive products count, so that no attribution is negative.

    Source: the rule for self-attention of Chefer, Gur & Wolf 2021, arXiv:2103.15679, equations 5 and 6.
    """
    batch = as_batch(model, molecule)
    graph: Any = model.input_graph(batch)
    # The materialized form computes the output from the weights; the fused kernel computes them separately.
    weights, edges = [], []
    graph = graph.replace(v=graph.v.detach().requires_grad_())
    for block in model.blocks:
        graph, messages = block.materialize(graph)  # pyright: ignore[reportCallIssue]
        weights.append(messages.weights)
        edges.append((messages.graph.receiver, messages.graph.sender))
    out = model.forward_head(graph.to_dense(), batch)[0, output]
    gradients = torch.autograd.grad(out, weights)
    m = graph.v.shape[0]
    relevance = torch.eye(m, dtype=torch.float64, device=out.device)
    for (receiver, sender), w, gradient in zip(edges, weights, gradients, strict=True):
        a = relevance.new_zeros(m, m)
        a[receiver, sender] = (w * gradient).detach().clamp_min(0.0).mean(1).to(a.dtype)
        relevance = relevance + a @ relevance
    flow = relevance - torch.eye(m, dtype=relevance.dtype, device=out.device)
    first = len(model.virtual_labels)
    received = flow[0] if model.readout_name == "virtual-node" else flow.mean(0)
    return Terms(received[first:].cpu().numpy(), in_units=False)


_PAIRS = 400_000
"""Largest number of pairs of atoms in a batch of masked molecules."""


def masked_outputs(model: GraphModel, molecule: MoleculeOrBatch, node_masks: np.ndarray) -> np.ndarray:
    """The outputs for the molecule without masked nodes: (k, outputs) for `node_masks`, (k, n) bools, True to keep.

    A masked node is removed from the graph: no node attends to it, and the readout ignores it. The codes of the other
    atoms (with their numbers of bonds and hydrogens), and the bonds and path lengths between them, are those of the
    whole molecule; encodings that the model computes from the bonds (degree, random walks, bonds along paths) are those
    of the rest.
    """
    batch = as_batch(model, molecule)
    size = max(1, _PAIRS // node_masks.shape[1] ** 2)
    outputs = []
    with torch.inference_mode():
        for start in range(0, len(node_masks), size):
            masks = torch.from_numpy(np.ascontiguousarray(node_masks[start : start + size])).to(batch.mask.device)
            outputs.append(model(replace(repeat_batch(batch, len(masks)), mask=masks)).cpu().numpy())
    return np.concatenate(outputs)


def occlusion(model: GraphModel, molecule: MoleculeOrBatch, output: int) -> Terms:
    """The change of the output when one atom is removed from the graph.

    o_i = f(molecule) - f(molecule without node i)

    See `masked_outputs` for what is removed. Exact for a model that sums terms of independent atoms; otherwise joint
    effects of atoms are counted in part or twice, and the o_i do not sum to the output.

    Source: Zeiler & Fergus 2014, arXiv:1311.2901.
    """
    batch = as_batch(model, molecule)
    n = batch.mask.shape[1]
    node_masks = np.ones((n + 1, n), dtype=bool)
    node_masks[np.arange(n), np.arange(n)] = False
    outputs = masked_outputs(model, batch, node_masks)[:, output]
    return Terms(outputs[n] - outputs[:n])


def deletion_outputs(model: GraphModel, molecule: MoleculeOrBatch, orders: Sequence[np.ndarray], counts: Sequence[int]):
    """The outputs without the first `counts[c]` atoms of `orders[o]`, (len(orders), len(counts), outputs)."""
    batch = as_batch(model, molecule)
    node_masks = np.ones((len(orders), len(counts), batch.mask.shape[1]), dtype=bool)
    for o, order in enumerate(orders):
        for c, count in enumerate(counts):
            node_masks[o, c, order[:count]] = False
    outputs = masked_outputs(model, batch, node_masks.reshape(-1, node_masks.shape[-1]))
    return outputs.reshape(len(orders), len(counts), -1)


METHODS: dict[str, Method] = {
    "additive": Method("the terms whose sum is the prediction", additive, not_additive_reason),
    "occlusion": Method("the change of the prediction without the atom", occlusion),
    "integrated-gradients": Method("the gradient, integrated from the mean atom to this one", integrated_gradients),
    "cam": Method("the head applied to the atom's last vector", cam, not_pooled_reason),
    "grad-attention": Method("attention that raises the prediction, rolled out over the layers", grad_attention),
    "rollout": Method("attention received through all layers", rollout),
    "attention": Method("attention received in the last layer", received_attention),
}
"""The first that supports a model is its default: `additive`, or else `occlusion`, which supports every model.

Both have a sign and the unit of the target, as `integrated-gradients` and `cam` have; the others are weights without
either. The order is roughly that of Kendall's tau in `benchmarks/faithfulness.py`; but `cam` ranks atoms as `additive`
does where that is available, and elsewhere ignores the pooling.
"""


def random_attributions(seed: int) -> Callable[[GraphModel, MoleculeOrBatch, int], Terms]:
    """The baseline: normal random numbers, new ones for each molecule."""
    rng = np.random.default_rng(seed)

    def compute(model: GraphModel, molecule: MoleculeOrBatch, output: int) -> Terms:  # noqa: ARG001
        return Terms(rng.normal(size=as_batch(model, molecule).mask.shape[1]), in_units=False)

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
