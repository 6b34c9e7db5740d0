"""Occlusion: what the answer loses with an atom; and the answers for molecules without some of their atoms."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from molattn.explain.terms import Subject, Terms, batch_of, repeated
from molattn.models.graph_model import GraphModel

_PAIRS = 400_000
"""Pairs of atoms in a batch of molecules without atoms."""


def without(model: GraphModel, molecule: Subject, kept: np.ndarray) -> np.ndarray:
    """The outputs for the molecule with some of its nodes left out, (k, outputs) for `kept`, (k, n) of bools.

    A node that is left out is not in the graph: nobody attends to it, and the readout does not see it. What RDKit read
    from the whole molecule stays as it was: the codes of the other atoms (their degree and hydrogens too), and the
    bonds and path lengths between them.
    """
    batch = batch_of(model, molecule)
    size = max(1, _PAIRS // kept.shape[1] ** 2)
    answers = []
    with torch.inference_mode():
        for start in range(0, len(kept), size):
            masks = torch.from_numpy(np.ascontiguousarray(kept[start : start + size])).to(batch.mask.device)
            answers.append(model(replace(repeated(batch, len(masks)), mask=masks)).cpu().numpy())
    return np.concatenate(answers)


def occlusion(model: GraphModel, molecule: Subject, output: int) -> Terms:
    """What the answer loses when one atom is left out of the graph.

    o_i = f(molecule) - f(molecule without node i)

    See `without` for what is removed. Exact for a model that adds up terms of lone atoms; else the atoms share what
    they do together, or count it twice, and the sum of o_i is not the answer.

    Source: Zeiler & Fergus 2014, arXiv:1311.2901.
    """
    batch = batch_of(model, molecule)
    n = batch.mask.shape[1]
    kept = np.ones((n + 1, n), dtype=bool)
    kept[np.arange(n), np.arange(n)] = False
    outputs = without(model, batch, kept)[:, output]
    return Terms(outputs[n] - outputs[:n])


def in_order(model: GraphModel, molecule: Subject, orders: Sequence[np.ndarray], counts: Sequence[int]):
    """The outputs when the first `counts[c]` atoms of `orders[o]` are left out, (o, c, outputs)."""
    batch = batch_of(model, molecule)
    kept = np.ones((len(orders), len(counts), batch.mask.shape[1]), dtype=bool)
    for o, order in enumerate(orders):
        for c, count in enumerate(counts):
            kept[o, c, order[:count]] = False
    outputs = without(model, batch, kept.reshape(-1, kept.shape[-1]))
    return outputs.reshape(len(orders), len(counts), -1)
