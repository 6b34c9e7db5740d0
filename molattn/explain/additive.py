"""Methods for models whose head is linear over the atoms: exact terms, and class activation maps."""

import numpy as np
import torch

from molattn.explain.terms import Subject, Terms, batch_of
from molattn.models.base import to_float64
from molattn.models.graph_model import GraphModel

_SUMS = ("additive", "sum", "mean")
_POOLED = (*_SUMS, "attention", "max")


def additive(model: GraphModel, molecule: Subject, output: int) -> Terms:
    """The terms that the model itself adds up: exact, whatever happens in the blocks below.

    output = b + sum_i w . t_i          t_i of the last block's atom i: gelu(W x_i + c), x_i, or x_i / n

    for the readouts "additive", "sum" and "mean". A virtual node's term stands apart. An atom's vector has heard of
    its neighbours, so its term is not what the atom would add alone: few layers over bonds keep it local.
    """
    batch = batch_of(model, molecule)
    with torch.inference_mode():
        terms = model.contributions(batch)[0, :, output].cpu().numpy()
        descriptors = model.descriptor_terms(batch)[0, :, output].cpu().numpy()
    n = batch.mask.shape[1]
    others = {label: float(x) for label, x in zip(model.virtual_labels, terms[n:], strict=True)}
    return Terms(terms[:n], float(model.head.bias[output]), others, descriptors, adds_up=True)


def no_sum(model: GraphModel) -> str:
    """Why `additive` does not work; empty where it does."""
    if model.readout_name in _SUMS:
        return ""
    return (
        f"the readout {model.readout_name!r} is not a sum over atoms, so no terms add up to the answer: "
        f"train with --set model.readout={_SUMS[0]}, or choose another method"
    )


def cam(model: GraphModel, molecule: Subject, output: int) -> Terms:
    """Class activation mapping: what the head makes of each atom's last vector, as though it were the readout.

    c_i = w . x_i

    of the vectors that are pooled. Where the readout is a plain mean or sum these are the additive terms, but for the
    factor n of the mean, its nodes; where it pools by attention or by maximum, the map leaves out how it does.

    Source: Zhou et al. 2016, arXiv:1512.04150; on graphs Pope et al. 2019, CVPR.
    """
    batch = batch_of(model, molecule)
    with torch.inference_mode():
        if model.readout_name == "additive":
            values = model.contributions(batch)[0, :, output]
        else:
            x = to_float64(model.norm(model.forward_features(batch).v))[0]
            values = x @ to_float64(model.head.weight)[output, : x.shape[-1]]
            # Not rolled to the end here: a virtual node is the first.
            values = values[len(model.virtual_labels) :]
    return Terms(np.asarray(values.cpu())[: batch.mask.shape[1]])


def not_pooled(model: GraphModel) -> str:
    """Why `cam` does not work; empty where it does."""
    if model.readout_name in _POOLED:
        return ""
    return (
        f"the readout {model.readout_name!r} does not pool the atoms' vectors, so the head's weights say nothing of "
        "them: choose another method"
    )
