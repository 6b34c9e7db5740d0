"""Attention maps: the attention weights of a molecule, shown, summarized, and stored in safetensors files."""

import base64
import hashlib
import json
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from molattn.chem import MAX_ATOMS, MoleculeGraph, molecule_graph
from molattn.data.files import write_bytes
from molattn.errors import InputError, UsageError, short_repr

if TYPE_CHECKING:
    import pyarrow as pa

    from molattn.explain.attribution import Attribution


SCHEMA = 1
SUFFIX = ".safetensors"

NOT_MEASURED = "not measured"
"""The value of `faithfulness` before it has been measured."""

MAX_EMBEDDED_WEIGHTS = 6_000_000
"""Largest number of weights for which a notebook embeds the page, with 4/3 bytes for each: 6 layers of 8 heads over 350
atoms."""


@dataclass(frozen=True, eq=False)
class AttentionMap:
    """The attention weights of one molecule, its atoms in the order of the SMILES.

    `weights[layer, head, i, j]` is how much atom i attends to atom j; each row sums to 1 if `rows_sum_to_one`. The
    weights are those that the model used, and not by themselves an explanation of its prediction.

    `molattn.Predictor.attention` makes the map of a molecule.

    Attributes:
        smiles: the SMILES of the atoms, or tokens, in their order.
        symbols: n element symbols; tokens for a model of tokens.
        weights: (layers, heads, n, n), with more rows and columns for virtual nodes.
        prediction: the prediction of the model, by target name, in units.
        units: unit of each target, by its name; empty if unknown.
        add_hs: whether hydrogens are atoms of the map; they follow those of the SMILES.
        virtual: labels of the virtual nodes, whose rows and columns follow those of the atoms.
        rows_sum_to_one: False for a model whose rows do not, such as MAT with the kernel exp(-d).
        faithfulness: how faithful this model's attention was measured to be as an explanation, in one line, which every
            picture shows.
        position_type: "atoms", or "tokens" of a SMILES.

    >>> import numpy as np
    >>> from molattn.explain import AttentionMap
    >>> weights = np.zeros((1, 2, 3, 3))  # a layer of two heads
    >>> weights[0, 0] = np.eye(3)  # head 0: every atom attends to itself
    >>> weights[0, 1, :, 2] = 1  # head 1: all atoms attend to the oxygen
    >>> attention = AttentionMap("CCO", ("C", "C", "O"), weights, {"log_solubility": 1.1}, {})
    >>> dict(zip(attention.labels, attention.received_attention(head=1).tolist()))
    {'C0': 0.0, 'C1': 0.0, 'O2': 1.0}
    >>> attention.matrix(head="mean").tolist()
    [[0.5, 0.0, 0.5], [0.0, 0.5, 0.5], [0.0, 0.0, 1.0]]
    """

    smiles: str
    symbols: tuple[str, ...]
    weights: np.ndarray
    prediction: dict[str, float]
    units: dict[str, str]
    add_hs: bool = False
    virtual: tuple[str, ...] = ()
    rows_sum_to_one: bool = True
    faithfulness: str = NOT_MEASURED
    position_type: Literal["atoms", "tokens"] = "atoms"

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
        """n, without virtual nodes; the number of tokens for a model of tokens."""
        return len(self.symbols)

    @property
    def labels(self) -> list[str]:
        """A label for each row: the symbol of an atom and its index, as in RDKit: C0, C1, O2.

        For tokens, which may be digits, the index comes first: 0:C, 1:1.
        """
        form = "{1}{0}" if self.position_type == "atoms" else "{0}:{1}"
        return [*(form.format(i, symbol) for i, symbol in enumerate(self.symbols)), *self.virtual]

    def matrix(self, layer: int = -1, head: int | Literal["mean", "max"] = "mean") -> np.ndarray:
        """The (n, n) weights of one head of a layer, or the mean or maximum over its heads, virtual nodes included.

        The rows of a head and of the mean sum to 1 if `rows_sum_to_one`, those of the maximum then to 1 or more.

        Args:
            layer: from 0; negative numbers count from the last.
            head: from 0, negative numbers count from the last; or "mean" or "max" over the heads.

        Raises:
            IndexError: unknown layer or head.
            ValueError: `layer` is no integer, or `head` neither an integer nor "mean" nor "max".
        """
        heads = self.weights[_checked_index(layer, self.num_layers, "layer")]
        if isinstance(head, str) and head in ("mean", "max"):
            return heads.mean(0) if head == "mean" else heads.max(0)
        return heads[_checked_index(head, self.num_heads, "head", ", 'mean' or 'max'")]

    def received_attention(self, layer: int = -1, head: int | Literal["mean", "max"] = "mean") -> np.ndarray:
        """The attention that each node receives, (n,): the mean over receivers, which sums to 1 if the rows do.

        Args:
            layer, head: as for `matrix`.

        Raises:
            IndexError, ValueError: as `matrix`.
        """
        return self.matrix(layer, head).mean(0)

    def rollout(self) -> np.ndarray:
        """Attention rollout over all layers, (n, n): [i, j] is how much of node j reaches node i after the last layer.

        R = A_L ... A_2 A_1,    A_l = 1/2 mean_h W_l,h + 1/2 I

        The identity represents the residual connection. Virtual nodes are treated like other nodes: flow from atom to
        atom through them is included. Rows of a head that do not sum to 1 are normalized first; the paper normalizes
        after adding I. The rows of R sum to 1, or to less where a head has a row of zeros, which attends to nothing.

        Source: Abnar & Zuidema 2020, Quantifying Attention Flow in Transformers, arXiv:2005.00928.
        """
        identity = np.eye(self.weights.shape[-1])
        rolled = identity
        for heads in normalize_rows(self.weights.astype(np.float64)):
            rolled = (0.5 * heads.mean(0) + 0.5 * identity) @ rolled
        return rolled

    def entropy(self, relative: bool = False) -> np.ndarray:
        """The entropy of each node's attention, (layers, heads, n), in nats.

        H_i = -sum_j w_ij log w_ij,    from 0 (all on one node) to log n (the same on all n)

        n includes virtual nodes. Rows that do not sum to 1 are normalized first; that of a row of zeros is 0.

        Args:
            relative: divide by log n, for values from 0 to 1; NaN for a single node.
        """
        w = normalize_rows(self.weights.astype(np.float64))
        nats = -np.where(w > 0, w * np.log(np.where(w > 0, w, 1.0)), 0.0).sum(-1) + 0.0
        if not relative:
            return nats
        n = self.weights.shape[-1]
        return nats / np.log(n) if n > 1 else np.full_like(nats, np.nan)

    def graph(self) -> MoleculeGraph:
        """The graph of the molecule, with bonds and path lengths, as the model reads it; without distances.

        Raises:
            UsageError: the nodes of the map are tokens.
            InputError: the atoms of the map are not those of its SMILES, or the SMILES cannot be read.
        """
        if self.position_type != "atoms":
            raise UsageError("the nodes of this attention map are tokens of a SMILES, without bonds")
        graph = molecule_graph(self.smiles, add_hs=self.add_hs, max_atoms=max(MAX_ATOMS, self.num_atoms))
        check_symbols("the attention map", self.smiles, self.symbols, graph.symbols)
        return graph

    def to_frame(self) -> "pa.Table":
        """All weights as a tidy `pyarrow.Table`, one per row; `.to_pandas()` converts it.

        Columns: layer, head, receiver, sender (indices from 0, virtual nodes after the atoms), receiver_label,
        sender_label ("C0", "virtual node"), receiver_element, sender_element, bond ("single", "aromatic", ..., "self",
        or "none" without a bond), path_length in bonds, weight. Null: elements, bond and path length of tokens and
        virtual nodes; path length between fragments.

        Raises:
            InputError: the atoms of the map are not those of its SMILES.
        """
        from molattn.explain.frame import attention_frame

        return attention_frame(self)

    def save(self, path: str | Path) -> None:
        """Write the map atomically to a .safetensors file, which `load` reads.

        Args:
            path: the file.

        Raises:
            UsageError: another suffix, or a folder that does not exist.
        """
        path = Path(path)
        if path.suffix.lower() != SUFFIX:
            raise UsageError(
                f"an attention map is saved as {SUFFIX}, not as {short_repr(path.name)}; "
                "heat_map and draw_atoms draw pictures"
            )
        if not path.parent.is_dir():
            raise UsageError(f"{short_repr(str(path.parent))} is not a folder: create it first")
        weights = np.ascontiguousarray(self.weights)
        content = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "weights"}
        # Predictions may be NumPy's or torch's numbers, as a column of a table has them.
        metadata = json.dumps({"schema": SCHEMA, **content}, default=lambda x: np.asarray(x).item())
        write_bytes(path, to_bytes({"weights": weights}, {"map": metadata, "sha256": _checksum(metadata, weights)}))

    @classmethod
    def load(cls, path: str | Path) -> "AttentionMap":
        """Load a map that `save` wrote.

        Args:
            path: the file.

        Raises:
            InputError: the file is missing, damaged, something else, or written by a newer molattn.
        """
        path = Path(path)
        if not path.is_file():
            raise InputError(f"there is no attention map at {path}")
        try:
            with safe_open(path, framework="numpy") as file:
                metadata = file.metadata() or {}
                if "map" not in metadata:
                    raise InputError(f"{path} holds no attention map: give a file that AttentionMap.save wrote")
                weights = file.get_tensor("weights")
            if metadata["sha256"] != _checksum(metadata["map"], weights):
                raise InputError(f"{path} is damaged: its checksum differs from the one in it; save the map again")
            content = json.loads(metadata["map"])
            if content.pop("schema") > SCHEMA:
                raise InputError(f"{path} was written by a newer molattn: upgrade molattn to read it")
            # JSON has no tuples.
            values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in content.items()}
            return cls(weights=weights, **values)
        except (KeyError, TypeError, ValueError, OSError, SafetensorError) as error:
            raise InputError(
                f"{path} is damaged, or not an attention map ({type(error).__name__}): save the map again"
            ) from error

    def html(
        self, attributions: "Sequence[Attribution]" = (), truth: "Mapping[str, float | str | None] | None" = None
    ) -> str:
        """The map as an interactive page: an HTML document that needs no network and no other file.

        Args:
            attributions: of the same molecule, shown in a second tab.
            truth: the measured values by target name, shown next to the predictions.

        Raises:
            InputError: the atoms of the map, or of an attribution, are not those of its SMILES.
        """
        from molattn.viewer.web import page

        return page([self], attributions, [truth])

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:  # noqa: ARG002
        """The page in a frame, a picture and a line of text; a notebook shows the first that it supports.

        Maps of more than `MAX_EMBEDDED_WEIGHTS` weights have no page, which would make the notebook's file too large.
        """
        from molattn.viewer import draw_atoms, heat_map
        from molattn.viewer.web import framed

        picture = draw_atoms(self) if self.position_type == "atoms" else heat_map(self)
        page = {"text/html": framed(self.html())} if self.weights.size <= MAX_EMBEDDED_WEIGHTS else {}
        return {
            **page,
            "image/png": base64.b64encode(picture.png).decode("ascii"),
            "text/plain": repr(self),
        }

    def __repr__(self) -> str:
        counts = f"{self.num_layers} layers, {self.num_heads} heads, {self.num_atoms} {self.position_type}"
        return f"AttentionMap({self.smiles!r}, {counts})"


def check_symbols(owner: str, smiles: str, symbols: Sequence[str], found: Sequence[str]) -> None:
    """Raise InputError if the atoms of `owner`, such as "the attribution", are not those found in its SMILES."""
    if tuple(found) != tuple(symbols):
        raise InputError(
            f"{owner} has {len(symbols)} atoms ({short_repr(' '.join(symbols))}), "
            f"its SMILES {short_repr(smiles)} has {len(found)} ({short_repr(' '.join(found))})"
        )


def normalize_rows(weights: np.ndarray) -> np.ndarray:
    """Divide rows by their sums; rows of zeros are unchanged."""
    sums = weights.sum(-1, keepdims=True)
    return weights / np.where(sums > 0, sums, 1.0)


def resolve_index(value: Any, count: int, name: str, also: str = "") -> int:
    """As `_checked_index`, but with a UsageError for what is out of range or no integer."""
    try:
        return _checked_index(value, count, name, also)
    except (IndexError, ValueError) as error:
        raise UsageError(str(error)) from None


def _checked_index(value: Any, count: int, name: str, also: str = "") -> int:
    """`value`, from -count to count - 1, as an index from 0.

    Errors name it `name`: IndexError if it is out of range, ValueError if it is no integer; True and False are none.
    """
    try:
        index = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        index = None
    if index is None or not -count <= index < count:
        valid = f"from 0 to {count - 1}" if count > 1 else "0"
        error = ValueError if index is None else IndexError
        raise error(f"{name} is {valid}{also}, not {short_repr(value)}; negative numbers count from the end")
    return index % count


def _checksum(metadata: str, weights: np.ndarray) -> str:
    header = f"{weights.dtype.str} {weights.shape} ".encode()
    return hashlib.sha256(header + metadata.encode() + b"\0" + weights.tobytes()).hexdigest()
