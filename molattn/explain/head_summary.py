"""The attention of each head by distance, element and functional group, over many molecules."""

import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from molattn.chem import DISCONNECTED, MAX_ATOMS, functional_groups
from molattn.data.files import atomic_write
from molattn.errors import InputError, MolattnWarning, SmilesError, UsageError, describe_failures, short_repr
from molattn.explain.attention_map import NOT_MEASURED, AttentionMap, normalize_rows

if TYPE_CHECKING:
    import pyarrow as pa

DISTANCES = ("self", "bonded", "2 bonds", "3 bonds", "farther", "other fragment", "virtual node")
"""Classes of the distance between sender and receiver; the shares of an atom sum to 1 over them."""

OTHER_ATOMS, OWN_ATOMS = "other atoms", "its own atoms"
"""Receivers for which a functional group is the sender: atoms outside and inside of it."""

MIN_RECEIVERS = 100
"""Smallest number of receivers of a functional group for `HeadSummary.top_group`: a ratio of fewer is noise."""

COLUMNS = {
    **dict.fromkeys(("layer", "head"), "int32"),
    **dict.fromkeys(("by", "receiver", "sender"), "string"),
    **dict.fromkeys(("share", "uniform", "ratio", "entropy", "relative_entropy"), "float64"),
    "atoms": "int64",
}
"""The columns of `HeadSummary.to_frame`, and their Arrow types."""

TABLE_SUFFIXES, FIGURE_SUFFIXES = (".csv", ".tsv", ".parquet"), (".svg", ".png")
"""The suffixes of the files that `HeadSummary.save` writes."""


class Key(NamedTuple):
    """A class of receivers and a class of senders.

    Attributes:
        by: the kind of classes: "distance", "element" or "group".
        receiver, sender: their names.
    """

    by: str
    receiver: str
    sender: str


class HeadSummary:
    """For each layer and head, the share of the atoms' attention that goes to chemical classes of senders.

    share   = mean over receiving atoms i of sum_{j in class} w_ij
    uniform = the same for w_ij = 1 / n,    ratio = share / uniform

    Each atom of each molecule counts once as a receiver; virtual nodes are only senders. Rows that do not sum to 1 are
    normalized first. Uniform attention is over all atoms and virtual nodes, even for a model whose atoms attend only to
    bonded ones.

    Attributes:
        num_molecules, num_atoms: the numbers of molecules and atoms.
        faithfulness: `AttentionMap.faithfulness` of the maps.
        shape: (layers, heads); None before the first map.

    >>> import numpy as np
    >>> from molattn.explain import AttentionMap, HeadSummary
    >>> summary = HeadSummary()
    >>> weights = np.eye(3)[None, None]  # one head, where every atom attends to itself
    >>> summary.add(AttentionMap("CCO", ("C", "C", "O"), weights, {}, {}))
    >>> key = summary.keys("distance")[0]
    >>> key.receiver, key.sender
    ('any atom', 'self')
    >>> summary.share(key).tolist(), round(summary.uniform(key), 2), summary.receivers(key)
    ([[1.0]], 0.33, 3)
    """

    def __init__(self):
        self.num_molecules = self.num_atoms = 0
        self.faithfulness = NOT_MEASURED
        self.shape: tuple[int, int] | None = None
        self._totals: dict[Key, np.ndarray] = defaultdict(lambda: np.zeros(self._shape_of_heads))
        self._uniform: dict[Key, float] = defaultdict(float)
        self._receivers: Counter[Key] = Counter()
        self._entropy = self._relative_entropy = np.zeros(0)
        self._num_relative = 0  # atoms that can attend to more than one node

    @property
    def _shape_of_heads(self) -> tuple[int, int]:
        assert self.shape is not None
        return self.shape

    def add(self, attention: AttentionMap) -> None:
        """Add the atoms of a map.

        Args:
            attention: the map.

        Raises:
            UsageError: the nodes of the map are tokens.
            InputError: the map has another number of layers or heads than the ones before, or its atoms are not those
                of its SMILES.
        """
        graph = attention.graph()
        shape = attention.weights.shape[:2]
        if self.shape is None:
            self.shape, self.faithfulness = shape, attention.faithfulness
            self._entropy, self._relative_entropy = np.zeros(shape), np.zeros(shape)
        if shape != self.shape:
            raise InputError(f"a map of {shape} layers and heads does not fit the others, of {self.shape}")
        n, m = graph.num_atoms, attention.weights.shape[-1]
        self.num_molecules, self.num_atoms = self.num_molecules + 1, self.num_atoms + n
        # Receivers are atoms; senders are atoms and virtual nodes.
        w = normalize_rows(attention.weights.astype(np.float64))[:, :, :n]
        paths = np.full((n, m), len(DISTANCES) - 1)
        paths[:, :n] = np.where(graph.path_lengths == DISCONNECTED, 5, np.minimum(graph.path_lengths, 4))
        for index, name in enumerate(DISTANCES):
            mask = paths == index
            self._count(Key("distance", "any atom", name), (w * mask).sum((2, 3)), float(mask.sum()) / m, n)
        self._count_elements(np.array([*graph.symbols, *[DISTANCES[-1]] * (m - n)]), w)
        groups = functional_groups(attention.smiles, add_hs=attention.add_hs, max_atoms=max(MAX_ATOMS, n))
        for group, atoms in groups.items():
            to_group = w[..., atoms].sum(-1)
            inside = np.isin(np.arange(n), atoms)
            for receiver, rows in ((OTHER_ATOMS, ~inside), (OWN_ATOMS, inside)):
                total, count = to_group[..., rows].sum(-1), int(rows.sum())
                self._count(Key("group", receiver, group), total, count * len(atoms) / m, count)
        self._entropy += attention.entropy()[..., :n].sum(-1)
        if m > 1:
            self._relative_entropy += attention.entropy(relative=True)[..., :n].sum(-1)
            self._num_relative += n

    def _count_elements(self, names: np.ndarray, w: np.ndarray) -> None:
        n, m = w.shape[-2:]
        masks = {str(name): names == name for name in dict.fromkeys(names)}
        for sender, columns in masks.items():
            to_sender = w[..., columns].sum(-1)
            for receiver, rows in masks.items():
                rows = rows[:n]
                if count := int(rows.sum()):
                    total = to_sender[..., rows].sum(-1)
                    self._count(Key("element", receiver, sender), total, count * float(columns.sum()) / m, count)

    def _count(self, key: Key, total: np.ndarray, uniform: int | float, receivers: int) -> None:
        self._totals[key] += total
        self._uniform[key] += uniform
        self._receivers[key] += receivers

    def keys(self, by: str) -> list[Key]:
        """The keys of one kind, those of senders with most uniform attention first; of "distance" as in `DISTANCES`.

        Args:
            by: the kind, "distance", "element" or "group".

        Returns:
            Triples of the kind, the receiver class and the sender class, such as ("element", "C", "O").
        """
        keys = [key for key in self._totals if key.by == by and self._receivers[key]]
        return keys if by == "distance" else sorted(keys, key=lambda key: -self._uniform[key])

    def receivers(self, key: Key) -> int:
        """Number of receivers; for elements, all atoms of that element, also if the sender element is missing.

        Args:
            key: one of `keys`.
        """
        if key[0] == "element":
            # A molecule without the sender element adds no attention, but its receivers count.
            return max(self._receivers[k] for k in self._totals if k[:2] == key[:2])
        return self._receivers[key]

    def share(self, key: Key) -> np.ndarray:
        """The share of the receivers' attention to the senders, (layers, heads).

        Args:
            key: one of `keys`.
        """
        return self._totals[key] / self.receivers(key)

    def uniform(self, key: Key) -> float:
        """The same share for uniform attention.

        Args:
            key: one of `keys`.
        """
        return self._uniform[key] / self.receivers(key)

    def top_group(self, layer: int, head: int) -> tuple[str, float]:
        """The functional group that a head favours most, and the ratio of its attention to uniform attention.

        Only atoms outside of the group are receivers; groups with fewer than `MIN_RECEIVERS` of them are left out.
        ("", 1.0) if no ratio is above 1.

        Args:
            layer, head: indices, from 0.
        """
        ratios = {
            key.sender: float(self.share(key)[layer, head] / self.uniform(key))
            for key in self.keys("group")
            if key.receiver == OTHER_ATOMS and self.receivers(key) >= MIN_RECEIVERS and self.uniform(key)
        }
        best = max(ratios, key=lambda name: ratios[name], default="")
        return (best, ratios[best]) if best and ratios[best] > 1 else ("", 1.0)

    def entropy(self) -> np.ndarray:
        """The mean entropy of an atom's attention, (layers, heads), in nats."""
        return self._entropy / self.num_atoms

    def relative_entropy(self) -> np.ndarray | None:
        """The mean of entropy / log n, (layers, heads), over atoms with n > 1 senders; None without such atoms."""
        return self._relative_entropy / self._num_relative if self._num_relative else None

    def to_frame(self) -> "pa.Table":
        """A tidy table: layer, head, by, receiver, sender, share, uniform, ratio, entropy, relative_entropy, atoms.

        `by` is "distance" (the seven of `DISTANCES`, whose shares sum to 1), "element" (shares sum to 1 over the
        senders of a receiver), "group" (functional groups as senders, which overlap) or "entropy". Rows of the last,
        one for each head, have entropy (in nats) and relative_entropy (divided by log n), which are null in the others,
        and neither share, uniform nor ratio. ratio is null if uniform is 0. `atoms` is the number of receivers.
        """
        # Imported here, because prediction imports this module and does not need pyarrow.
        import pyarrow as pa

        columns: dict[str, list] = {name: [] for name in COLUMNS}
        layers, heads = self.shape or (0, 0)
        for layer, head in np.ndindex(layers, heads):
            rows = []
            for key in (key for by in ("distance", "element", "group") for key in self.keys(by)):
                share, uniform = float(self.share(key)[layer, head]), float(self.uniform(key))
                ratio = share / uniform if uniform else None
                rows.append((*key, share, uniform, ratio, None, None, self.receivers(key)))
            if (relative := self.relative_entropy()) is not None:
                entropies = float(self.entropy()[layer, head]), float(relative[layer, head])
                rows.append(("entropy", "any atom", "any", None, None, None, *entropies, self._num_relative))
            for row in rows:
                for name, value in zip(COLUMNS, (layer, head, *row), strict=True):
                    columns[name].append(value)
        return pa.table({n: pa.array(v, pa.type_for_alias(COLUMNS[n])) for n, v in columns.items()})

    def save(self, path: str | Path) -> None:
        """Write the table of `to_frame` (.csv, .tsv or .parquet) or its figure (.svg or .png), atomically.

        Args:
            path: the file.

        Raises:
            UsageError: another suffix, or a folder that does not exist.
        """
        path = Path(path)
        suffix = check_summary_output(path)
        if not path.parent.is_dir():
            raise UsageError(f"{short_repr(str(path.parent))} is not a folder: create it first")
        if suffix in FIGURE_SUFFIXES:
            from molattn.viewer import heads_plot

            heads_plot(self).save(path)
            return
        import pyarrow.csv as pc
        import pyarrow.parquet as pq

        with atomic_write(path) as file:
            if suffix == ".parquet":
                pq.write_table(self.to_frame(), file)
            else:
                delimiter = "\t" if suffix == ".tsv" else ","
                options = pc.WriteOptions(delimiter=delimiter, quoting_style="needed")
                pc.write_csv(self.to_frame(), file, options)


def check_summary_output(path: Path) -> str:
    """The suffix of a file that `HeadSummary.save` can write.

    Raises:
        UsageError: another suffix.
    """
    suffix = path.suffix.lower()
    if suffix not in (*TABLE_SUFFIXES, *FIGURE_SUFFIXES):
        raise UsageError(
            f"{path}: name it {', '.join(TABLE_SUFFIXES)} for a table, {' or '.join(FIGURE_SUFFIXES)} for a figure"
        )
    return suffix


def summarize_heads(maps: Iterable[AttentionMap | SmilesError]) -> HeadSummary:
    """Summarize the attention of each head over any number of maps of one model, with one map in memory at a time.

    Typically `summarize_heads(predictor.attentions(smiles))`. Errors among the maps are skipped, and a `MolattnWarning`
    reports their number and the first one.

    Args:
        maps: the maps, or errors in place of some of them; any iterable, which is read once.

    Raises:
        InputError: there is no map, or they have different numbers of layers or heads.
        UsageError: the nodes of the maps are tokens.

    >>> import numpy as np
    >>> from molattn.explain import AttentionMap, summarize_heads
    >>> weights = np.stack([np.eye(3), np.full((3, 3), 1 / 3)])[None]  # one layer: head 0 to itself, head 1 uniform
    >>> summary = summarize_heads([AttentionMap("CCO", ("C", "C", "O"), weights, {}, {})])
    >>> {key[2]: summary.share(key).round(2).tolist() for key in summary.keys("distance")[:3]}  # of both heads
    {'self': [[1.0, 0.33]], 'bonded': [[0.0, 0.44]], '2 bonds': [[0.0, 0.22]]}
    """
    summary, rows, failed, first = HeadSummary(), 0, 0, ""
    for row, attention in enumerate(maps):
        rows += 1
        if isinstance(attention, SmilesError):
            failed += 1
            first = first or f"row {row}, {attention}"
        else:
            summary.add(attention)
    if not summary.num_molecules:
        raise InputError(f"there is no molecule to summarize{f': the first, {first}' if first else ''}")
    if failed:
        warnings.warn(MolattnWarning(describe_failures(failed, rows, "SMILES are left out", first)), stacklevel=2)
    return summary
