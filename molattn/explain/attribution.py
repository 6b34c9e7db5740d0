"""How much each atom of a molecule contributed to what a model answered."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from molattn.explain.attention_map import NOT_MEASURED


@dataclass(frozen=True, eq=False)
class Attribution:
    """A share of one prediction for every atom of one molecule, in the order of the SMILES.

    Where `adds_up`:    prediction = constant + sum_i values_i + sum(others)    in the target's unit

    Attributes:
        smiles: whose atoms these are.
        symbols: n element symbols.
        values: (n,) what each atom contributed; in the target's unit where `adds_up`.
        method: how they were found, such as "additive" or "integrated-gradients".
        target: which target's prediction they explain.
        unit: of the target; empty where unknown.
        prediction: what the model answered.
        constant: what it would answer for nothing at all, where the method has such a thing.
        others: what is no atom's, such as descriptors of the whole molecule, by name.
        adds_up: whether the method promises the sum above.
        add_hs: whether hydrogens are atoms here; they follow those of the SMILES.
        measured: how faithful the method was found to be for this model, in a line.
    """

    smiles: str
    symbols: tuple[str, ...]
    values: np.ndarray
    method: str
    target: str
    prediction: float
    unit: str = ""
    constant: float | None = None
    others: Mapping[str, float] = field(default_factory=dict)
    adds_up: bool = False
    add_hs: bool = False
    measured: str = NOT_MEASURED
