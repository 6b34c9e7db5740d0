"""What the heads of a model look at, in the words of chemistry, over many molecules."""

import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from molattn.chem import DISCONNECTED, MAX_ATOMS, functional_groups
from molattn.errors import InputError, MolattnWarning, SmilesError
from molattn.explain.attention_map import NOT_MEASURED, AttentionMap, shares_of

if TYPE_CHECKING:
    import pyarrow as pa

DISTANCES = ("self", "bonded", "2 bonds", "3 bonds", "farther", "other fragment", "virtual node")
"""How far a sender is from the receiver; an atom's shares of these sum to 1."""

OTHERS, OWN = "other atoms", "its own atoms"
"""Who attends to a functional group."""

COLUMNS = {
    **dict.fromkeys(("layer", "head"), "int32"),
    **dict.fromkeys(("by", "receiver", "sender"), "string"),
    **dict.fromkeys(("share", "uniform", "ratio", "nats"), "float64"),
    "atoms": "int64",
}
"""The columns of `HeadSummary.to_frame`, and Arrow's names of their types."""

Key = tuple[str, str, str]
"""By what, who attends, what is attended to."""


class HeadSummary:
    """For every layer and head, the share of attention that atoms give to what chemists have names for.

    share   = mean over receiving atoms i of sum_{j in class} w_ij
    uniform = the same for w_ij = 1 / n,    ratio = share / uniform

    Every atom of every molecule counts once as a receiver; virtual nodes are attended to, but do not count as
    receivers. Weights whose rows do not sum to 1 are divided by their sums first. Uniform is over all atoms and virtual
    nodes, also for a model whose atoms can attend to bonded ones alone.

    Attributes:
        molecules, atoms: how many were counted.
        measured: what the maps say of how far they explain.
    """

    def __init__(self):
        self.molecules = self.atoms = 0
        self.measured = NOT_MEASURED
        self.shape: tuple[int, int] | None = None
        self._given: dict[Key, np.ndarray] = defaultdict(lambda: np.zeros(self._of_heads))
        self._uniform: dict[Key, float] = defaultdict(float)
        self._receivers: Counter[Key] = Counter()
        self._nats = np.zeros(0)

    @property
    def _of_heads(self) -> tuple[int, int]:
        assert self.shape is not None
        return self.shape

    def add(self, attention: AttentionMap) -> None:
        """Count the atoms of one more map.

        Raises:
            UsageError: the map is one of tokens.
            InputError: the map is of another model, with other layers or heads.
        """
        graph = attention.graph()
        shape = attention.weights.shape[:2]
        if self.shape is None:
            self.shape, self.measured, self._nats = shape, attention.measured, np.zeros(shape)
        if shape != self.shape:
            raise InputError(f"a map of {shape} layers and heads does not go with those of {self.shape}")
        n, m = graph.num_atoms, attention.weights.shape[-1]
        self.molecules, self.atoms = self.molecules + 1, self.atoms + n
        # Receivers are atoms; senders are atoms and virtual nodes.
        w = shares_of(attention.weights.astype(np.float64))[:, :, :n]
        paths = np.full((n, m), len(DISTANCES) - 1)
        paths[:, :n] = np.where(graph.path_lengths == DISCONNECTED, 5, np.minimum(graph.path_lengths, 4))
        for place, name in enumerate(DISTANCES):
            where = paths == place
            self._count(("distance", "any atom", name), (w * where).sum((2, 3)), float(where.sum()) / m, n)
        self._count_elements(np.array([*graph.symbols, *[DISTANCES[-1]] * (m - n)]), w)
        found = functional_groups(attention.smiles, add_hs=attention.add_hs, max_atoms=max(MAX_ATOMS, n))
        for group, atoms in found.items():
            to_group = w[..., atoms].sum(-1)
            inside = np.isin(np.arange(n), atoms)
            for who, receivers in ((OTHERS, ~inside), (OWN, inside)):
                given, count = to_group[..., receivers].sum(-1), int(receivers.sum())
                self._count(("group", who, group), given, count * len(atoms) / m, count)
        self._nats += attention.entropy()[..., :n].sum(-1)
        if m > 1:
            self._count(("entropy", "any atom", "any"), attention.entropy(relative=True)[..., :n].sum(-1), n, n)

    def _count_elements(self, names: np.ndarray, w: np.ndarray) -> None:
        n, m = w.shape[-2:]
        kinds = {str(name): names == name for name in dict.fromkeys(names)}
        for sender, columns in kinds.items():
            to_sender = w[..., columns].sum(-1)
            for receiver, rows in kinds.items():
                rows = rows[:n]
                if count := int(rows.sum()):
                    given = to_sender[..., rows].sum(-1)
                    self._count(("elements", receiver, sender), given, count * float(columns.sum()) / m, count)

    def _count(self, key: Key, given: np.ndarray, uniform: int | float, receivers: int) -> None:
        self._given[key] += given
        self._uniform[key] += uniform
        self._receivers[key] += receivers

    def keys(self, by: str) -> list[Key]:
        """What there is of one kind: "distance", "elements", "group" or "entropy"; the commonest receivers first."""
        keys = [key for key in self._given if key[0] == by and self._receivers[key]]
        return keys if by == "distance" else sorted(keys, key=lambda key: -self._uniform[key])

    def receivers(self, key: Key) -> int:
        """How many atoms attend; for elements, all of the receiver's element, whatever else is in their molecules."""
        if key[0] == "elements":
            # A sender that a molecule lacks receives nothing there; its receivers count all the same.
            return max(self._receivers[k] for k in self._given if k[:2] == key[:2])
        return self._receivers[key]

    def share(self, key: Key) -> np.ndarray:
        """Of the attention of the receivers, what goes there, (layers, heads)."""
        return self._given[key] / self.receivers(key)

    def uniform(self, key: Key) -> float:
        """What would go there if every atom attended to all alike."""
        return self._uniform[key] / self.receivers(key)

    def nats(self) -> np.ndarray:
        """The mean entropy of an atom's attention, (layers, heads)."""
        return self._nats / self.atoms

    def to_frame(self) -> "pa.Table":
        """A tidy table: layer, head, by, receiver, sender, share, uniform, ratio, nats, atoms.

        `by` is "distance" (the seven of `DISTANCES`, summing to 1), "elements" (summing to 1 over the senders of a
        receiver), "group" (functional groups as senders; overlapping, so they sum to nothing) or "entropy" (share is
        the share of log n, and nats the mean of the entropy itself). `atoms` is how many receivers were counted; ratio
        is null where uniform attention gives nothing.
        """
        # Prediction, which brings in this module, does without it.
        import pyarrow as pa

        columns: dict[str, list] = {name: [] for name in COLUMNS}
        layers, heads = self.shape or (0, 0)
        for layer, head in np.ndindex(layers, heads):
            for key in (key for by in ("distance", "elements", "group", "entropy") for key in self.keys(by)):
                share, uniform = float(self.share(key)[layer, head]), float(self.uniform(key))
                ratio = share / uniform if uniform else None
                nats = float(self.nats()[layer, head]) if key[0] == "entropy" else None
                row = (layer, head, *key, share, uniform, ratio, nats, self.receivers(key))
                for name, value in zip(COLUMNS, row, strict=True):
                    columns[name].append(value)
        return pa.table({n: pa.array(v, pa.type_for_alias(COLUMNS[n])) for n, v in columns.items()})


def summarize_heads(maps: Iterable[AttentionMap | SmilesError]) -> HeadSummary:
    """What each head looks at, over the maps of any number of molecules of one model; one map is held at a time.

    `summarize_heads(predictor.attentions(smiles))`. Errors among the maps are left out, and a `MolattnWarning` says how
    many and which was the first.

    Raises:
        InputError: there is no map, or they are of different models.
        UsageError: the maps are of tokens.
    """
    summary, rows, failed, first = HeadSummary(), 0, 0, ""
    for row, attention in enumerate(maps):
        rows += 1
        if isinstance(attention, SmilesError):
            failed += 1
            first = first or f"row {row}, {attention}"
        else:
            summary.add(attention)
    if not summary.molecules:
        raise InputError(f"there is no molecule to summarise{f': the first, {first}' if first else ''}")
    if failed:
        message = f"{failed} of {rows} SMILES are left out; the first, {first}"
        warnings.warn(MolattnWarning(message), stacklevel=2)
    return summary
