"""Attribution for models whose head is linear in the atoms: additive terms, and class activation maps."""

import numpy as np
import torch

from molattn.explain.terms import MoleculeOrBatch, Terms, as_batch
from molattn.models.base import to_float64
from molattn.models.graph_model import GraphModel

_SUMS = ("additive", "sum", "mean")
_POOLED = (*_SUMS, "attention", "max")


def additive(model: GraphModel, molecule: MoleculeOrBatch, output: int) -> Terms:
    """The terms whose sum is the output of the model: exact, whatever the blocks compute.

    output = b + sum_i w . t_i          t_i of atom i after the last block: gelu(W x_i + c), x_i, or x_i / n

    for the readouts "additive", "sum" and "mean". The term of a virtual node is separate. The vector of an atom depends
    on its neighbours, so its term is not the contribution of an isolated atom: few layers over bonds keep it local.
    """
    batch = as_batch(model, molecule)
    with torch.inference_mode():
        terms = model.contributions(batch)[0, :, output].cpu().numpy()
        descriptors = model.descriptor_terms(batch)[0, :, output].cpu().numpy()
    n = batch.mask.shape[1]
    other_terms = {label: float(x) for label, x in zip(model.virtual_labels, terms[n:], strict=True)}
    return Terms(terms[:n], float(model.head.bias[output]), other_terms, descriptors, adds_up=True)


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
    n nodes; for pooling by attention or maximum, the map ignores the pooling weights.

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
