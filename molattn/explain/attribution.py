"""Attributions: how much each atom of a molecule contributes to a prediction."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from molattn.explain.attention_map import NOT_MEASURED

if TYPE_CHECKING:
    import pyarrow as pa

    from molattn.viewer import Picture


_MAX_NAMED = 3  # terms other than atoms that an equation lists separately


@dataclass(frozen=True, eq=False)
class Attribution:
    """The attribution of one prediction to the atoms of one molecule, in the order of the SMILES.

    If `adds_up`:    prediction = constant + sum_i values_i + sum(other_terms)    in the target's unit

    Positive values raise the prediction if `signed`. The reference that they are relative to depends on the method: the
    fragments that the atom joins for "fragment-shapley", the constant for "additive", the molecule without the atom for
    "occlusion", and a molecule of mean atoms for "integrated-gradients".

    For classes, `prediction` is what the model computes before it becomes a probability: the log-odds of a binary
    target, log(p / (1 - p)), or the score (logit) of a class before the softmax.

    `molattn.Predictor.attributions` makes the attribution of a molecule.

    Attributes:
        smiles: the SMILES of the atoms.
        symbols: n element symbols.
        values: (n,) the attribution of each atom; in the target's unit if `has_unit`.
        method: the method, such as "additive" or "integrated-gradients".
        target: the target whose prediction is explained.
        unit: unit of the target; empty if unknown.
        prediction: the prediction, or the log-odds or score of a class.
        constant: the constant term, or the prediction for the baseline; None if the method has none.
        other_terms: attributions to anything but atoms, such as descriptors of the whole molecule, by name.
        adds_up: whether the attributions sum to the prediction (completeness).
        add_hs: whether hydrogens are atoms; they follow those of the SMILES.
        faithfulness: how faithful the method was measured to be for this model, in one line.
        has_unit: whether the values are in the target's unit; False for attention weights, which have none.
        quantity: the name of `prediction` if it is not the predicted value, such as "log-odds of active".
        probability: the probability of the class, from `prediction`; None for regression.
        calibrated_probability: the probability after calibration, as in predictions; None if that does not change it.
        part: the part of the model whose prediction is explained, such as "the first of 3 models" of an ensemble, or
            "the attention model" that boosted trees are averaged with; empty for all of the model.

    >>> import numpy as np
    >>> from molattn.explain import Attribution
    >>> values = np.array([-0.5, -0.25, 1.25])
    >>> found = Attribution("CCO", ("C", "C", "O"), values, "additive", "logS", 1.0, constant=0.5, adds_up=True)
    >>> found.equation
    'logS 1.000 = 0.500 (constant) + 0.500 (3 atoms)'
    >>> found.labels[found.values.argmax()]  # the atom that raises the prediction most
    'O2'
    """

    smiles: str
    symbols: tuple[str, ...]
    values: np.ndarray
    method: str
    target: str
    prediction: float
    unit: str = ""
    constant: float | None = None
    other_terms: Mapping[str, float] = field(default_factory=dict)
    adds_up: bool = False
    add_hs: bool = False
    faithfulness: str = NOT_MEASURED
    has_unit: bool = True
    quantity: str = ""
    probability: float | None = None
    calibrated_probability: float | None = None
    part: str = ""

    @property
    def num_atoms(self) -> int:
        """n, the number of atoms."""
        return len(self.symbols)

    @property
    def labels(self) -> list[str]:
        """A label for each atom: its symbol and its index, as in RDKit."""
        return [f"{symbol}{i}" for i, symbol in enumerate(self.symbols)]

    @property
    def signed(self) -> bool:
        """Whether the values have a sign: a positive one raises the prediction. False for attention weights."""
        return self.has_unit or bool((self.values < 0).any())

    @property
    def terms(self) -> dict[str, float]:
        """The terms of the prediction if `adds_up`: the constant, the sum over the atoms, and the other terms.

        A descriptor with the name of one of the first two has "other " before its name.
        """
        if not self.adds_up:
            return {}
        terms = {"constant": self.constant or 0.0, f"{self.num_atoms} atoms": float(self.values.sum())}
        return terms | {f"other {name}" if name in terms else name: x for name, x in self.other_terms.items()}

    @property
    def equation(self) -> str:
        """The prediction as text, as a sum if `adds_up`; more than three `other_terms` are shown as one."""
        unit = f" {self.unit}" if self.unit and not self.quantity else ""
        name = f"{self.quantity or self.target}{f' of {self.part}' if self.part else ''}"
        text = f"{name} {self.prediction:.3f}{unit}"
        if self.probability is not None:
            calibrated = self.calibrated_probability
            after = "" if calibrated is None else f", calibrated {calibrated:.3f}"
            text = f"{text} (probability {self.probability:.3f}{after})"
        if not self.adds_up:
            return f"{text}; the values do not add up to it"
        first, *rest = self.terms.items()
        if len(self.other_terms) > _MAX_NAMED:
            rest = [rest[0], (f"{len(self.other_terms)} other terms", sum(self.other_terms.values()))]
        shown = [f"{first[1]:.3f} ({first[0]})", *(f"{'-+'[x >= 0]} {abs(x):.3f} ({name})" for name, x in rest)]
        return f"{text} = {' '.join(shown)}"

    def draw(self, size: tuple[int, int] | None = None) -> "Picture":
        """Draw the molecule with a disc under each atom, orange if it raises the prediction and blue if it lowers it.

        Where the values are not `signed`, such as attention weights, darker is larger. See
        `molattn.viewer.draw_attribution`.

        Args:
            size: width and height of the SVG in pixels, by default fitted to the molecule.

        Raises:
            UsageError: the size is too small, or not two integers.
            InputError: the atoms of the attribution are not those of its SMILES.
        """
        from molattn.viewer import draw_attribution

        return draw_attribution(self, size)

    def to_frame(self) -> "pa.Table":
        """A `pyarrow.Table` with a row for each atom: atom (its index from 0), element, value."""
        import pyarrow as pa

        return pa.table({"atom": range(self.num_atoms), "element": self.symbols, "value": self.values})

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        """The picture, for Jupyter."""
        return {**self.draw()._repr_mimebundle_(include, exclude), "text/plain": repr(self)}

    def __repr__(self) -> str:
        return f"Attribution({self.smiles!r}, {self.method}: {self.equation})"
