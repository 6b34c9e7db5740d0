"""Rows that belong together: one molecule's, one scaffold's, one cluster's; and molecules of like targets."""

import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

import numpy as np

NO_SIZE_LIMIT = sys.maxsize
"""Atoms of a key: it has passed the limit of its table already."""

TENTHS = 10


def rows_of(keys: Sequence[str]) -> dict[str, list[int]]:
    """The rows of each key, from 0."""
    groups: dict[str, list[int]] = defaultdict(list)
    for row, key in enumerate(keys):
        groups[key].append(row)
    return dict(groups)


def connect_groups(*names: Sequence[str]) -> list[str]:
    """What each row belongs to when rows that share a name, in any of the lists, belong together, and so on.

    Each of the sets of rows that this makes is called by the least of its names in the first list, so that the order
    of the rows does not matter; where nothing more is shared, the first list comes back.

    names: lists of n strings.
    """
    # Here, because predictions begin without it a tenth faster.
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    n = len(names[0])
    places = [np.unique(np.array(listed, dtype=object), return_inverse=True)[1] for listed in names]
    starts = np.cumsum([n, *(int(p.max(initial=-1)) + 1 for p in places)])
    # A graph of the rows and the names, with an edge from each row to each of its names.
    rows = np.tile(np.arange(n), len(names))
    theirs = np.concatenate([p + start for p, start in zip(places, starts[:-1], strict=True)]) if n else rows
    edges = coo_array((np.ones(len(rows)), (rows, theirs)), shape=(starts[-1], starts[-1]))
    part = connected_components(edges, directed=False)[1][:n]
    least: dict[int, str] = {}
    for number, name in zip(part.tolist(), names[0], strict=True):
        least[number] = min(name, least.get(number, name))
    return [least[number] for number in part.tolist()]


def merge_groups(parts: dict[str, list[int]], groups: Sequence[str] | None) -> dict[str, list[int]]:
    """Parts of the n rows, made larger so that rows of one group are in one part.

    parts: rows by name, each row in one. groups: n names, or None for none.
    """
    if groups is None:
        return parts
    name_of = {row: name for name, rows in parts.items() for row in rows}
    return rows_of(connect_groups([name_of[row] for row in range(len(groups))], groups))


def group_by_scaffold(keys: Sequence[str], scaffold_of: Callable[[str], str] | None = None) -> dict[str, list[int]]:
    """The rows of each Bemis-Murcko scaffold; molecules without rings share the empty one.

    keys: n canonical SMILES. scaffold_of: by default `molattn.chem.murcko_scaffold`.
    """
    if scaffold_of is None:
        from molattn.chem import murcko_scaffold  # here, because it brings RDKit

        scaffold_of = partial(murcko_scaffold, max_atoms=NO_SIZE_LIMIT)
    scaffold = {key: scaffold_of(key) for key in sorted(set(keys))}
    return rows_of([scaffold[key] for key in keys])


def group_by_cluster(keys: Sequence[str]) -> dict[str, list[int]]:
    """The rows of each Butina cluster, by the SMILES of its centre; the order of the rows does not matter.

    keys: n canonical SMILES.
    """
    from molattn.chem import butina_clusters  # here, because it brings RDKit

    molecules = sorted(set(keys))
    centre_of = {}
    for cluster in butina_clusters(molecules, max_atoms=NO_SIZE_LIMIT):
        centre_of |= {molecules[i]: molecules[cluster[0]] for i in cluster}
    return rows_of([centre_of[key] for key in keys])


def stratify(keys: Sequence[str], targets: np.ndarray) -> list[list[str]]:
    """The distinct keys by what they are worth: classes where every target is 0 or 1, else tenths of the values.

    A key of several rows is worth their mean; those without a value come last, on their own. Within a stratum keys
    are sorted by value, then by name, so that the order of the rows does not matter.

    keys: n strings. targets: (n,) or (n, T), of which the first column counts; NaN where missing.
    """
    values = np.asarray(targets, dtype=float).reshape(len(keys), -1)[:, 0] if len(keys) else np.zeros(0)
    # Sorted before they are summed: the last digit of a mean must not depend on the order of the rows.
    worth = {
        key: float(np.mean(np.sort(known))) if (known := values[rows][np.isfinite(values[rows])]).size else np.nan
        for key, rows in rows_of(keys).items()
    }
    known = sorted((value, key) for key, value in worth.items() if np.isfinite(value))
    if set(values[np.isfinite(values)]) <= {0.0, 1.0}:
        parts = [[key for value, key in known if value == level] for level in sorted({value for value, _ in known})]
    else:
        edges = np.linspace(0, len(known), TENTHS + 1).round().astype(int)
        parts = [[key for _, key in known[a:b]] for a, b in pairwise(edges)]
    without = sorted(key for key, value in worth.items() if not np.isfinite(value))
    return [part for part in (*parts, without) if part]
