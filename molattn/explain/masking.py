"""The outputs of a model for a molecule without some of its atoms: occlusion, and deletion in a given order."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from molattn.explain.terms import MoleculeOrBatch, Terms, as_batch, repeat_batch
from molattn.models.graph_model import GraphModel

_MAX_PAIRS_PER_BATCH = 400_000
"""Largest number of pairs of atoms in a batch of masked molecules."""


def masked_outputs(model: GraphModel, molecule: MoleculeOrBatch, node_masks: np.ndarray) -> np.ndarray:
    """The outputs for the molecule without masked nodes: (k, outputs) for `node_masks`, (k, n) bools, True to keep.

    A masked node is removed from the graph: no node attends to it, and the readout ignores it. The codes of the other
    atoms (with their numbers of bonds and hydrogens), and the bonds and path lengths between them, are those of the
    whole molecule; encodings that the model computes from the bonds (degree, random walks, bonds along paths) are those
    of the rest.
    """
    batch = as_batch(model, molecule)
    size = max(1, _MAX_PAIRS_PER_BATCH // node_masks.shape[1] ** 2)
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
