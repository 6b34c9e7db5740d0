"""Groups of rows by molecule, scaffold or cluster; strata of molecules by target; their random order."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import pairwise

import numpy as np

from molattn.errors import as_list

NUM_BINS = 10
"""Number of strata of continuous targets."""


def group_rows(names: Sequence[str]) -> dict[str, list[int]]:
    """The indices, from 0, of the rows with each name."""
    groups: dict[str, list[int]] = defaultdict(list)
    for row, name in enumerate(as_list(names)):
        groups[name].append(row)
    return dict(groups)


def connect_groups(*names: Sequence[str]) -> list[str]:
    """The connected component of each row: rows that share a name in any of the lists are connected.

    The name of a component is the smallest of its names in the first list, so that the order of the rows does not
    matter; if the other lists connect no rows, the result is the first list.

    Args:
        names: one or more lists of n names.

    Returns:
        n names of components.
    """
    # Imported here, because predictions start a tenth faster without it.
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    n = len(as_list(names[0]))
    ids = [np.unique(np.array(of_list, dtype=object), return_inverse=True)[1] for of_list in names]
    starts = np.cumsum([n, *(int(x.max(initial=-1)) + 1 for x in ids)])
    # A graph of the rows and the names, with an edge from each row to each of its names.
    rows = np.tile(np.arange(n), len(names))
    nodes = np.concatenate([x + start for x, start in zip(ids, starts[:-1], strict=True)]) if n else rows
    edges = coo_array((np.ones(len(rows)), (rows, nodes)), shape=(starts[-1], starts[-1]))
    components = connected_components(edges, directed=False)[1][:n].tolist()
    smallest: dict[int, str] = {}
    for component, name in zip(components, names[0], strict=True):
        smallest[component] = min(name, smallest.get(component, name))
    return [smallest[component] for component in components]


def merge_groups(rows_by_name: dict[str, list[int]], groups: Sequence[str] | None) -> dict[str, list[int]]:
    """Merge names so that all rows of a group have the same name.

    Args:
        rows_by_name: the rows of each name; each of the n rows has one name.
        groups: n names of groups, or None.

    Returns:
        The rows of each merged name; `rows_by_name` itself without groups.
    """
    if groups is None:
        return rows_by_name
    name_of_row = {row: name for name, rows in rows_by_name.items() for row in rows}
    return group_rows(connect_groups([name_of_row[row] for row in range(len(groups))], groups))


def shuffle_names(names: Iterable[str], rng: np.random.Generator) -> list[str]:
    """The names in a random order that does not depend on their order in `names`."""
    ordered = sorted(names)
    return [ordered[i] for i in rng.permutation(len(ordered))]


def shuffle_strata(
    smiles: Sequence[str], targets: np.ndarray, groups: Sequence[str] | None, rng: np.random.Generator
) -> list[list[int]]:
    """The rows of each molecule, or group, by stratum, and in random order within a stratum.

    Args:
        smiles: n canonical SMILES.
        targets: as for `stratify`.
        groups: n names of groups, or None.
        rng: the random generator.
    """
    names = smiles if groups is None else connect_groups(smiles, groups)
    rows_by_name = group_rows(names)
    return [
        rows_by_name[name]
        for stratum in stratify(names, targets)
        for name in rng.permutation(np.array(stratum, dtype=object))
    ]


def group_by_scaffold(smiles: Sequence[str], scaffold_of: Callable[[str], str] | None = None) -> dict[str, list[int]]:
    """The rows of each Bemis-Murcko scaffold; molecules without rings share the empty one.

    Args:
        smiles: n canonical SMILES.
        scaffold_of: from a SMILES to its scaffold, by default `molattn.chem.murcko_scaffold`.
    """
    smiles = as_list(smiles)
    if scaffold_of is None:
        from molattn.chem import murcko_scaffold  # imported here, because it imports RDKit
        from molattn.chem.parse import NO_ATOM_LIMIT

        scaffold_of = partial(murcko_scaffold, max_atoms=NO_ATOM_LIMIT)
    scaffolds = {text: scaffold_of(text) for text in sorted(set(smiles))}
    return group_rows([scaffolds[text] for text in smiles])


def group_by_cluster(smiles: Sequence[str]) -> dict[str, list[int]]:
    """The rows of each Butina cluster, by the SMILES of its centroid; the order of the rows does not matter.

    Args:
        smiles: n canonical SMILES.
    """
    from molattn.chem import butina_clusters  # imported here, because it imports RDKit
    from molattn.chem.parse import NO_ATOM_LIMIT

    smiles = as_list(smiles)
    molecules = sorted(set(smiles))
    centroids = {}
    for cluster in butina_clusters(molecules, max_atoms=NO_ATOM_LIMIT):
        centroids |= {molecules[i]: molecules[cluster[0]] for i in cluster}
    return group_rows([centroids[text] for text in smiles])


def stratify(names: Sequence[str], targets: np.ndarray) -> list[list[str]]:
    """The distinct names in strata by target: the classes if every target is 0 or 1, else the deciles.

    The value of a name with several rows is their mean; names without a value are the last stratum. Within a stratum
    names are sorted by value, then by name, so that the order of the rows does not matter.

    Args:
        names: n SMILES, or names of groups.
        targets: (n,) or (n, T), of which the first column is used; NaN if missing.
    """
    values = np.asarray(targets, dtype=float).reshape(len(names), -1)[:, 0] if len(names) else np.zeros(0)
    # Sorted before they are summed: the last digit of a mean must not depend on the order of the rows.
    means = {
        name: float(np.mean(np.sort(known))) if (known := values[rows][np.isfinite(values[rows])]).size else np.nan
        for name, rows in group_rows(names).items()
    }
    known = sorted((value, name) for name, value in means.items() if np.isfinite(value))
    if set(values[np.isfinite(values)]) <= {0.0, 1.0}:
        strata = [[name for value, name in known if value == level] for level in sorted({value for value, _ in known})]
    else:
        edges = np.linspace(0, len(known), NUM_BINS + 1).round().astype(int)
        strata = [[name for _, name in known[a:b]] for a, b in pairwise(edges)]
    missing = sorted(name for name, value in means.items() if not np.isfinite(value))
    return [stratum for stratum in (*strata, missing) if stratum]
