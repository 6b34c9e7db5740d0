"""The terms of an attribution in the units of the model, and batches of one molecule that methods compute them from."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TypeVar

import numpy as np

from molattn.chem import MoleculeGraph
from molattn.data.store.batches import MoleculeBatch
from molattn.graph import DenseGraph
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
        has_unit: whether the values are in units of the output; False for attention weights, which have none.
    """

    values: np.ndarray
    constant: float | None = None
    other_terms: Mapping[str, float] = field(default_factory=dict)
    descriptors: np.ndarray | None = None
    adds_up: bool = False
    has_unit: bool = True


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
