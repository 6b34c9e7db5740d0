"""Attribution methods, and their results in the standardised units of the model."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from molattn.chem import MoleculeGraph
from molattn.data.store.batches import MoleculeBatch
from molattn.graph import DenseGraph
from molattn.models.base import MoleculeModel
from molattn.models.graph_model import GraphModel

T = TypeVar("T", MoleculeBatch, DenseGraph)

MoleculeOrBatch = MoleculeGraph | MoleculeBatch
"""A molecule, or a batch of one molecule, which can include its descriptors."""


@dataclass(frozen=True)
class Terms:
    """The attribution of one output to the atoms of a molecule, in the standardised units of the model.

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
    fields = {name: value for name, value in vars(x).items() if value is not None}
    return replace(x, **{name: v.expand(times, *v.shape[1:]) for name, v in fields.items()})


def unsupported_model_reason(model: MoleculeModel) -> str:
    """Why there are no attributions to atoms for a model; empty if there are."""
    if model.of_atoms:
        return "the model answers for each atom by itself: its predictions say what they are"
    if isinstance(model, GraphModel):
        return ""
    return f"the model {model.config.kind!r} reads tokens, not atoms: train one with --model graph to see its atoms"
