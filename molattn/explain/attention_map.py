"""What every atom, or every token, of a molecule attended to, layer by layer and head by head."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from molattn.chem import MAX_ATOMS, MoleculeGraph, molecule_graph
from molattn.errors import InputError, UsageError, short_repr

if TYPE_CHECKING:
    import pyarrow as pa

    from molattn.explain.attribution import Attribution

NOT_MEASURED = "not measured"
"""What a map says of how far it explains, where nobody has looked."""

EMBEDDED = 6_000_000
"""Weights, a byte and a third each, up to which a notebook gets the page: 6 layers of 8 heads over 350 atoms."""


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
        places: what attends to what: "atoms", or the "tokens" of a SMILES.
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
    places: Literal["atoms", "tokens"] = "atoms"

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
        """n, without virtual nodes; tokens where the model reads tokens."""
        return len(self.symbols)

    @property
    def labels(self) -> list[str]:
        """What to call each row: an atom's symbol and its place in the SMILES, from 0, as RDKit counts: C0, C1, O2.

        Tokens have their place in front of them, since they may be digits: 0:C, 1:1.
        """
        form = "{1}{0}" if self.places == "atoms" else "{0}:{1}"
        return [*(form.format(i, symbol) for i, symbol in enumerate(self.symbols)), *self.virtual]

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

    def rollout(self) -> np.ndarray:
        """Attention followed through all layers, (n, n): [i, j] is how much of node j has come to node i in the end.

        R = A_L ... A_2 A_1,    A_l = 1/2 mean_h W_l,h + 1/2 I

        The identity is the residual connection, which passes a node on as it is. Rows sum to 1. Virtual nodes are nodes
        like the others: what goes by way of one from atom to atom is counted. Weights whose rows do not sum to 1 are
        divided by their sums first, as the source does after adding I, so that A_l has shares in it.

        Source: Abnar & Zuidema 2020, Quantifying Attention Flow in Transformers, arXiv:2005.00928.
        """
        identity = np.eye(self.weights.shape[-1])
        rolled = identity
        for heads in self.weights.astype(np.float64):
            rolled = (0.5 * shares_of(heads.mean(0)) + 0.5 * identity) @ rolled
        return rolled

    def entropy(self, relative: bool = False) -> np.ndarray:
        """How widely each node spreads its attention, (layers, heads, n), in nats.

        H_i = -sum_j w_ij log w_ij,    from 0 (all on one node) to log n (the same on all n)

        n counts virtual nodes too. Weights whose rows do not sum to 1 are divided by their sums first.

        Args:
            relative: the share of log n instead, from 0 to 1; NaN for a molecule of one atom, which has no choice.
        """
        w = shares_of(self.weights.astype(np.float64))
        nats = -np.where(w > 0, w * np.log(np.where(w > 0, w, 1.0)), 0.0).sum(-1) + 0.0
        if not relative:
            return nats
        n = self.weights.shape[-1]
        return nats / np.log(n) if n > 1 else np.full_like(nats, np.nan)

    def graph(self) -> MoleculeGraph:
        """The molecule whose atoms these are, with its bonds and path lengths, as the model read it; without 3D.

        Raises:
            UsageError: the map is one of tokens.
            InputError: the atoms of the map are not those of its SMILES.
        """
        if self.places != "atoms":
            raise UsageError("this map is of the tokens of a SMILES, from a model that sees no atoms and bonds")
        graph = molecule_graph(self.smiles, add_hs=self.add_hs, max_atoms=max(MAX_ATOMS, self.num_atoms))
        if graph.symbols != self.symbols:
            raise InputError(
                f"the attention map has {self.num_atoms} atoms ({short_repr(' '.join(self.symbols))}), "
                f"its SMILES {short_repr(self.smiles)} has {graph.num_atoms} ({short_repr(' '.join(graph.symbols))})"
            )
        return graph

    def to_frame(self) -> "pa.Table":
        """Every weight as a row of a tidy table, a `pyarrow.Table`; `.to_pandas()` makes a pandas frame of it.

        Columns: layer, head, receiver, sender (places from 0, virtual nodes behind the atoms), receiver_label,
        sender_label ("C0", "virtual node"), receiver_element, sender_element, bond ("single", "aromatic", ..., "self",
        or "none" between atoms that no bond joins), path_length in bonds, weight. Null: elements, bond and path length
        of tokens and virtual nodes; path length between fragments.

        Raises:
            InputError: the atoms of the map are not those of its SMILES.
        """
        from molattn.explain.frame import frame_of

        return frame_of(self)

    def save(self, path: str | Path) -> None:
        """Write the map to a .safetensors file, whole or not at all.

        Raises:
            UsageError: another suffix, or a folder that does not exist.
        """
        from molattn.explain.attention_file import save

        save(self, Path(path))

    @classmethod
    def load(cls, path: str | Path) -> "AttentionMap":
        """The map that `save` wrote, equal to it in every field.

        Raises:
            InputError: the file is not there, damaged, something else, or written by a newer molattn.
        """
        from molattn.explain.attention_file import load

        return load(Path(path))

    def html(
        self, attributions: "Sequence[Attribution]" = (), truth: "Mapping[str, float | str | None] | None" = None
    ) -> str:
        """The map as a page to look at: an HTML document that needs no network and no other file.

        Args:
            attributions: of the same molecule; they get a tab of their own.
            truth: the measured values by target name, to be shown beside the predictions.

        Raises:
            InputError: the atoms of the map, or of an attribution, are not those of its SMILES.
        """
        from molattn.viewer.web import page

        return page([self], attributions, [truth])

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:  # noqa: ARG002
        """What a notebook shows: the page in a frame of its own; where that cannot be, a picture; or else a line.

        A page of more than `EMBEDDED` weights would swell the notebook's file: there it is picture and line alone.
        """
        from molattn.viewer import draw_atoms, heat_map
        from molattn.viewer.web import framed

        picture = draw_atoms(self) if self.places == "atoms" else heat_map(self)
        page = {"text/html": framed(self.html())} if self.weights.size <= EMBEDDED else {}
        return {
            **page,
            "image/png": base64.b64encode(picture.png).decode("ascii"),
            "text/plain": repr(self),
        }

    def __repr__(self) -> str:
        counts = f"{self.num_layers} layers, {self.num_heads} heads, {self.num_atoms} {self.places}"
        return f"AttentionMap({self.smiles!r}, {counts})"


def shares_of(weights: np.ndarray) -> np.ndarray:
    """Rows divided by their sums; rows of zeros stay."""
    sums = weights.sum(-1, keepdims=True)
    return weights / np.where(sums > 0, sums, 1.0)
