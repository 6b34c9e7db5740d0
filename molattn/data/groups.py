"""Rows that belong together: one molecule's, one scaffold's, one cluster's; and molecules of like targets."""

import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

import numpy as np

ANY_SIZE = sys.maxsize
"""Atoms of a key: it has passed the limit of its table already."""

TENTHS = 10


def rows_of(keys: Sequence[str]) -> dict[str, list[int]]:
    """The rows of each key, from 0."""
    groups: dict[str, list[int]] = defaultdict(list)
    for row, key in enumerate(keys):
        groups[key].append(row)
    return dict(groups)


def by_scaffold(keys: Sequence[str], scaffold_of: Callable[[str], str] | None = None) -> dict[str, list[int]]:
    """The rows of each Bemis-Murcko scaffold; molecules without rings share the empty one.

    keys: n canonical SMILES. scaffold_of: by default `molattn.chem.murcko_scaffold`.
    """
    if scaffold_of is None:
        from molattn.chem import murcko_scaffold  # here, because it brings RDKit

        scaffold_of = partial(murcko_scaffold, max_atoms=ANY_SIZE)
    scaffold = {key: scaffold_of(key) for key in sorted(set(keys))}
    return rows_of([scaffold[key] for key in keys])


def by_cluster(keys: Sequence[str]) -> dict[str, list[int]]:
    """The rows of each Butina cluster, by the SMILES of its centre; the order of the rows does not matter.

    keys: n canonical SMILES.
    """
    from molattn.chem import butina_clusters  # here, because it brings RDKit

    molecules = sorted(set(keys))
    centre_of = {}
    for cluster in butina_clusters(molecules, max_atoms=ANY_SIZE):
        centre_of |= {molecules[i]: molecules[cluster[0]] for i in cluster}
    return rows_of([centre_of[key] for key in keys])


def strata(keys: Sequence[str], targets: np.ndarray) -> list[list[str]]:
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
