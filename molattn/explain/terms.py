"""What a method of attribution is, and what it finds before it is put into units."""

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

Subject = MoleculeGraph | MoleculeBatch
"""A molecule, or a batch of it alone, which can have its descriptors beside it."""


@dataclass(frozen=True)
class Terms:
    """A share for every atom of a molecule, in the standardised units that the model answers in.

    Where `adds_up`:    output = constant + sum_i values_i + sum(others) + sum_k descriptors_k

    Attributes:
        values: (n,).
        constant: the output for nothing at all, where the method has such a thing.
        others: what is no atom's, by name.
        descriptors: (k,) what each descriptor adds, where the method says so and the model reads some.
        adds_up: whether the method promises the sum.
        in_units: whether the values are amounts of the output; False for shares and weights, which have no unit.
    """

    values: np.ndarray
    constant: float | None = None
    others: Mapping[str, float] = field(default_factory=dict)
    descriptors: np.ndarray | None = None
    adds_up: bool = False
    in_units: bool = True


@dataclass(frozen=True)
class Method:
    """One way to say what every atom contributed.

    Attributes:
        title: what its values are, in a line.
        find: from a model, a molecule and the place of the output to the terms.
        refuses: why it does not work for a model, in a sentence; empty where it does.
    """

    title: str
    find: Callable[[GraphModel, Subject, int], Terms]
    refuses: Callable[[GraphModel], str] = lambda model: ""  # noqa: ARG005


def batch_of(model: GraphModel, molecule: Subject) -> MoleculeBatch:
    """A batch of one molecule, where the model is."""
    alone = molecule if isinstance(molecule, MoleculeBatch) else model.collate([molecule])
    batch = alone.to(model.head.weight.device)
    assert isinstance(batch, MoleculeBatch)
    return batch


def repeated(x: T, times: int) -> T:
    """A batch, or a dense graph, of one molecule, `times` over."""
    fields = {name: value for name, value in vars(x).items() if value is not None}
    return replace(x, **{name: v.expand(times, *v.shape[1:]) for name, v in fields.items()})


def not_of_atoms(model: MoleculeModel) -> str:
    """Why nothing can be said of the atoms of a model's molecules; empty where it can."""
    if model.of_atoms:
        return "the model answers for each atom by itself: its predictions say what they are"
    if isinstance(model, GraphModel):
        return ""
    return f"the model {model.config.kind!r} reads tokens, not atoms: train one with --model graph to see its atoms"
