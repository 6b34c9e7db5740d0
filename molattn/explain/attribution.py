"""How much each atom of a molecule contributed to what a model answered."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from molattn.explain.attention_map import NOT_MEASURED

if TYPE_CHECKING:
    import pyarrow as pa

    from molattn.viewer import Picture


_NAMED = 3  # terms beside the atoms that an equation has by name


@dataclass(frozen=True, eq=False)
class Attribution:
    """A share of one prediction for every atom of one molecule, in the order of the SMILES.

    Where `adds_up`:    prediction = constant + sum_i values_i + sum(others)    in the target's unit

    Attributes:
        smiles: whose atoms these are.
        symbols: n element symbols.
        values: (n,) what each atom contributed; in the target's unit where `in_units`.
        method: how they were found, such as "additive" or "integrated-gradients".
        target: which target's prediction they explain.
        unit: of the target; empty where unknown.
        prediction: what the model answered.
        constant: what it would answer for nothing at all, where the method has such a thing.
        others: what is no atom's, such as descriptors of the whole molecule, by name.
        adds_up: whether the method promises the sum above.
        add_hs: whether hydrogens are atoms here; they follow those of the SMILES.
        measured: how faithful the method was found to be for this model, in a line.
        in_units: whether the values are amounts of the target; False for shares and weights, which have no unit.
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
    in_units: bool = True

    @property
    def num_atoms(self) -> int:
        """n."""
        return len(self.symbols)

    @property
    def labels(self) -> list[str]:
        """What to call each atom: its symbol and its place in the SMILES, from 0, as RDKit counts."""
        return [f"{symbol}{i}" for i, symbol in enumerate(self.symbols)]

    @property
    def parts(self) -> dict[str, float]:
        """What `prediction` is made of, where `adds_up`: the constant, the atoms together, and the others by name."""
        if not self.adds_up:
            return {}
        return {"constant": self.constant or 0.0, f"{self.num_atoms} atoms": float(self.values.sum()), **self.others}

    @property
    def equation(self) -> str:
        """The prediction in words and numbers, as the sum that it is where `adds_up`; many `others` are one term."""
        unit = f" {self.unit}" if self.unit else ""
        said = f"{self.target} {self.prediction:.3f}{unit}"
        if not self.adds_up:
            return f"{said}; these values are not a sum of it"
        parts = self.parts
        if len(self.others) > _NAMED:
            together = sum(parts.pop(name) for name in self.others)
            parts[f"{len(self.others)} others together"] = together
        first, *rest = parts.items()
        terms = [f"{first[1]:.3f} ({first[0]})", *(f"{'-+'[x >= 0]} {abs(x):.3f} ({name})" for name, x in rest)]
        return f"{said} = {' '.join(terms)}"

    def draw(self, size: tuple[int, int] | None = None) -> "Picture":
        """The molecule with a disc under every atom, orange for what raises the prediction and blue for what lowers it.

        See `molattn.viewer.draw_contributions`.
        """
        from molattn.viewer import draw_contributions

        return draw_contributions(self, size)

    def to_frame(self) -> "pa.Table":
        """A row for every atom, a `pyarrow.Table`: atom (its place from 0), element, value."""
        import pyarrow as pa

        return pa.table({"atom": range(self.num_atoms), "element": self.symbols, "value": self.values})

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        """What Jupyter shows: the picture."""
        return {**self.draw()._repr_mimebundle_(include, exclude), "text/plain": repr(self)}

    def __repr__(self) -> str:
        return f"Attribution({self.smiles!r}, {self.method}: {self.equation})"
