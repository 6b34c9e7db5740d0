"""What every atom, or every token, of a molecule attended to, layer by layer and head by head."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

NOT_MEASURED = "not measured"
"""What a map says of how far it explains, where nobody has looked."""


@dataclass(frozen=True, eq=False)
class AttentionMap:
    """The attention weights of one molecule, its atoms in the order of the SMILES.

    `weights[layer, head, i, j]` is how much atom i attends to atom j; every row sums to 1, unless `rows_sum_to_one`
    says otherwise. The weights are what the model computed with, which is not the same as why it answered what it did.

    Attributes:
        smiles: whose atoms, or tokens, these are, in order.
        symbols: n element symbols; the tokens of the SMILES where the model reads tokens.
        weights: (layers, heads, n, n), or more rows and columns where there are virtual nodes.
        prediction: what the model answered, by target name, in units.
        units: unit of each target, by its name; empty where unknown.
        add_hs: whether hydrogens are atoms of the map; they follow those of the SMILES.
        virtual: what the rows and columns behind those of the atoms are: nodes that no atom is.
        rows_sum_to_one: False for a model whose weights do not, such as MAT with the kernel exp(-d).
        measured: how far this model's attention explains what it answers, in a line; every picture says it.
    """

    smiles: str
    symbols: tuple[str, ...]
    weights: np.ndarray
    prediction: dict[str, float]
    units: dict[str, str]
    add_hs: bool = False
    virtual: tuple[str, ...] = ()
    rows_sum_to_one: bool = True
    measured: str = NOT_MEASURED

    @property
    def num_layers(self) -> int:
        """The number of layers."""
        return self.weights.shape[0]

    @property
    def num_heads(self) -> int:
        """The number of heads of a layer."""
        return self.weights.shape[1]

    @property
    def num_atoms(self) -> int:
        """n, without virtual nodes."""
        return len(self.symbols)

    @property
    def labels(self) -> list[str]:
        """What to call each row: an atom's symbol and its place in the SMILES, from 0, as RDKit counts."""
        return [*(f"{symbol}{i}" for i, symbol in enumerate(self.symbols)), *self.virtual]

    def matrix(self, layer: int = -1, head: int | Literal["mean", "max"] = "mean") -> np.ndarray:
        """The (n, n) weights of one head of a layer, or their mean or maximum over its heads, virtual nodes included.

        The rows of a head and of the mean sum to 1, those of the maximum to 1 or more.

        Raises:
            IndexError: there is no such layer or head.
            ValueError: `head` is neither a number nor "mean" nor "max".
        """
        heads = self.weights[layer]
        if head == "mean":
            return heads.mean(0)
        if head == "max":
            return heads.max(0)
        if isinstance(head, str):
            raise ValueError(f"head is a number from 0 to {self.num_heads - 1}, 'mean' or 'max', not {head!r}")
        return heads[head]

    def received(self, layer: int = -1, head: int | Literal["mean", "max"] = "mean") -> np.ndarray:
        """How much attention each node receives, (n,): the mean over the nodes that attend, summing to 1 as rows do."""
        return self.matrix(layer, head).mean(0)

    def __repr__(self) -> str:
        return (
            f"AttentionMap({self.smiles!r}, {self.num_layers} layers, {self.num_heads} heads, {self.num_atoms} atoms)"
        )
