"""Groups of rows by molecule, scaffold or cluster, and strata of molecules by target."""

import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

import numpy as np

NO_SIZE_LIMIT = sys.maxsize
"""The `max_atoms` for molecules whose number of atoms was already checked."""

NUM_BINS = 10
"""Number of strata of continuous targets."""


def rows_of(keys: Sequence[str]) -> dict[str, list[int]]:
    """The indices of the rows of each key, from 0."""
    groups: dict[str, list[int]] = defaultdict(list)
    for row, key in enumerate(keys):
        groups[key].append(row)
    return dict(groups)


def connect_groups(*names: Sequence[str]) -> list[str]:
    """The connected component of each row, if rows that share a name in any of the lists are connected.

    Each component is named by the smallest of its names in the first list, so that the order of the rows does not
    matter; if no rows are connected by the other lists, the result is the first list.

    names: lists of n strings.
    """
    # Imported here, because predictions start a tenth faster without it.
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    n = len(names[0])
    ids = [np.unique(np.array(listed, dtype=object), return_inverse=True)[1] for listed in names]
    starts = np.cumsum([n, *(int(p.max(initial=-1)) + 1 for p in ids)])
    # A graph of the rows and the names, with an edge from each row to each of its names.
    rows = np.tile(np.arange(n), len(names))
    nodes = np.concatenate([p + start for p, start in zip(ids, starts[:-1], strict=True)]) if n else rows
    edges = coo_array((np.ones(len(rows)), (rows, nodes)), shape=(starts[-1], starts[-1]))
    component = connected_components(edges, directed=False)[1][:n]
    smallest: dict[int, str] = {}
    for number, name in zip(component.tolist(), names[0], strict=True):
        smallest[number] = min(name, smallest.get(number, name))
    return [smallest[number] for number in component.tolist()]


def merge_groups(parts: dict[str, list[int]], groups: Sequence[str] | None) -> dict[str, list[int]]:
    """Parts of the n rows, merged so that rows of one group are in one part.

    parts: rows by name, each row in one part. groups: n names, or None.
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
        from molattn.chem import murcko_scaffold  # imported here, because it imports RDKit

        scaffold_of = partial(murcko_scaffold, max_atoms=NO_SIZE_LIMIT)
    scaffold = {key: scaffold_of(key) for key in sorted(set(keys))}
    return rows_of([scaffold[key] for key in keys])


def group_by_cluster(keys: Sequence[str]) -> dict[str, list[int]]:
    """The rows of each Butina cluster, by the SMILES of its centre; the order of the rows does not matter.

    keys: n canonical SMILES.
    """
    from molattn.chem import butina_clusters  # imported here, because it imports RDKit

    molecules = sorted(set(keys))
    centre_of = {}
    for cluster in butina_clusters(molecules, max_atoms=NO_SIZE_LIMIT):
        centre_of |= {molecules[i]: molecules[cluster[0]] for i in cluster}
    return rows_of([centre_of[key] for key in keys])


def stratify(keys: Sequence[str], targets: np.ndarray) -> list[list[str]]:
    """The distinct keys in strata of their targets: classes if every target is 0 or 1, else deciles.

    The value of a key with several rows is their mean; keys without a value are a last stratum. Within a stratum keys
    are sorted by value, then by name, so that the order of the rows does not matter.

    keys: n strings. targets: (n,) or (n, T), of which the first column is used; NaN if missing.
    """
    values = np.asarray(targets, dtype=float).reshape(len(keys), -1)[:, 0] if len(keys) else np.zeros(0)
    # Sorted before they are summed: the last digit of a mean must not depend on the order of the rows.
    mean = {
        key: float(np.mean(np.sort(known))) if (known := values[rows][np.isfinite(values[rows])]).size else np.nan
        for key, rows in rows_of(keys).items()
    }
    known = sorted((value, key) for key, value in mean.items() if np.isfinite(value))
    if set(values[np.isfinite(values)]) <= {0.0, 1.0}:
        parts = [[key for value, key in known if value == level] for level in sorted({value for value, _ in known})]
    else:
        edges = np.linspace(0, len(known), NUM_BINS + 1).round().astype(int)
        parts = [[key for _, key in known[a:b]] for a, b in pairwise(edges)]
    without = sorted(key for key, value in mean.items() if not np.isfinite(value))
    return [part for part in (*parts, without) if part]
