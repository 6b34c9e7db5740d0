"""Split methods: functions that assign each row a label, `train`, `val` or `test`.

They take the canonical SMILES of each row, so that all rows of a molecule get the same label.
To add a method, write its function and add it to `SPLITS` or `SPLITS_BY_TARGET`.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from molattn.data.splits.groups import (
    connect_groups,
    group_by_cluster,
    group_by_scaffold,
    group_rows,
    merge_groups,
    shuffle_names,
    shuffle_strata,
)
from molattn.data.splits.labels import (
    DEFAULT_SIZES,
    Labels,
    assign_groups,
    assign_groups_evenly,
    assign_molecules,
    check_number,
    find_empty_subsets,
    pluralize,
    random_generator,
    validate_sizes,
)
from molattn.errors import InputError, UsageError, as_list, unknown_choice


def random_split(
    smiles: Sequence[str],
    sizes: Sequence[float] = DEFAULT_SIZES,
    seed: int = 0,
    groups: Sequence[str] | None = None,
) -> Labels:
    """Random split of whole molecules; the order of the rows does not matter.

    The distinct SMILES are sorted, shuffled with `seed` and assigned in that order: train gets as many as fit into its
    share of the rows, then val, and test gets the others. A subset with a size above 0 gets at least one molecule.
    Groups are shuffled likewise, and each is assigned to the subset that is furthest below its share.

    Args:
        smiles: n canonical SMILES.
        sizes: the shares of train, val and test, which sum to 1.
        seed: seed of the random order, 0 or more.
        groups: as for `split_labels`.

    Returns:
        (n,) labels.

    Raises:
        UsageError: invalid sizes, or a negative seed.
        InputError: fewer molecules, or groups, than subsets with a size above 0.

    >>> from collections import Counter
    >>> from molattn.data import random_split
    >>> labels = random_split(["C" * n + "O" for n in range(1, 11)])
    >>> sorted(Counter(labels.tolist()).items())
    [('test', 1), ('train', 8), ('val', 1)]
    """
    sizes = validate_sizes(sizes)
    rows_by_group = merge_groups(group_rows(smiles), groups)
    order = shuffle_names(rows_by_group, random_generator(seed))
    if groups is None:
        return assign_molecules(smiles, order, sizes)
    # Groups can be large: one that does not fit into train must not be assigned to val as a whole.
    return assign_groups_evenly([rows_by_group[name] for name in order], len(smiles), sizes, "group")


def scaffold_split(
    smiles: Sequence[str],
    sizes: Sequence[float] = DEFAULT_SIZES,
    seed: int = 0,  # noqa: ARG001 (every split takes one; this one is deterministic)
    scaffold_of: Callable[[str], str] | None = None,
    groups: Sequence[str] | None = None,
) -> Labels:
    """Split by Bemis-Murcko scaffold, the largest scaffolds to train, as in MoleculeNet.

    The order of the rows does not matter. Scaffolds are sorted by their number of rows, largest first, then by their
    SMILES. Each is assigned to train if it fits there, else to val if train and val together have room, else to
    test. Molecules without rings share the empty scaffold.

    Args:
        smiles: n canonical SMILES.
        sizes: the shares of train, val and test, which sum to 1.
        seed: without effect: every split takes one, and this one is deterministic.
        scaffold_of: from a SMILES to its scaffold, by default `molattn.chem.murcko_scaffold`.
        groups: as for `split_labels`.

    Returns:
        (n,) labels.

    Raises:
        UsageError: invalid sizes.
        InputError: a subset stays empty, or a SMILES cannot be read.

    Source: Wu et al. 2018, Chem. Sci. 9, 513, doi:10.1039/c7sc02664a.

    >>> from molattn.data import scaffold_split
    >>> smiles = ["Cc1ccccc1", "CCO", "Oc1ccccc1", "Cc1ccncc1", "Nc1ccccc1"]  # three have the scaffold benzene
    >>> scaffold_split(smiles, sizes=(0.6, 0.2, 0.2)).tolist()
    ['train', 'val', 'train', 'test', 'train']
    """
    sizes = validate_sizes(sizes)
    rows_by_scaffold = merge_groups(group_by_scaffold(smiles, scaffold_of), groups)
    order = [rows for _, rows in sorted(rows_by_scaffold.items(), key=lambda item: (-len(item[1]), item[0]))]
    return _assign_in_order("scaffold", order, sizes, groups)


def scaffold_balanced_split(
    smiles: Sequence[str],
    sizes: Sequence[float] = DEFAULT_SIZES,
    seed: int = 0,
    scaffold_of: Callable[[str], str] | None = None,
    groups: Sequence[str] | None = None,
) -> Labels:
    """Split by Bemis-Murcko scaffold, large scaffolds to train and the others at random, as in chemprop.

    Scaffolds with more rows than half of val or of test come first, then all others; both are shuffled with `seed`,
    and scaffolds are assigned as by `scaffold_split`. The order of the rows does not matter.

    Args:
        smiles: n canonical SMILES.
        sizes: the shares of train, val and test, which sum to 1.
        seed: seed of the random order, 0 or more.
        scaffold_of: from a SMILES to its scaffold, by default `molattn.chem.murcko_scaffold`.
        groups: as for `split_labels`.

    Returns:
        (n,) labels.

    Raises:
        UsageError: invalid sizes, or a negative seed.
        InputError: a subset stays empty, or a SMILES cannot be read.

    Source: Yang et al. 2019, J. Chem. Inf. Model. 59, 3370, doi:10.1021/acs.jcim.9b00237.

    >>> from molattn.data import scaffold_balanced_split
    >>> benzenes = ["Cc1ccccc1", "Oc1ccccc1", "Nc1ccccc1", "Clc1ccccc1"]  # of one scaffold; the others have one each
    >>> labels = scaffold_balanced_split([*benzenes, "CCO", "c1ccncc1", "C1CCNCC1", "c1ccoc1"], (0.5, 0.25, 0.25))
    >>> labels[:4].tolist(), sorted(labels[4:].tolist())
    (['train', 'train', 'train', 'train'], ['test', 'test', 'val', 'val'])
    """
    sizes = validate_sizes(sizes)
    rows_by_scaffold = merge_groups(group_by_scaffold(smiles, scaffold_of), groups)
    return _assign_in_order("scaffold-balanced", _large_first(rows_by_scaffold, sizes, seed), sizes, groups)


def cluster_split(
    smiles: Sequence[str],
    sizes: Sequence[float] = DEFAULT_SIZES,
    seed: int = 0,
    groups: Sequence[str] | None = None,
) -> Labels:
    """Split by Butina cluster of Morgan fingerprints, large clusters to train and the others at random.

    The clusters are those of `molattn.chem.butina_clusters`, assigned as the scaffolds of `scaffold_balanced_split`.
    The order of the rows does not matter.

    Args:
        smiles: n canonical SMILES.
        sizes: the shares of train, val and test, which sum to 1.
        seed: seed of the random order, 0 or more.
        groups: as for `split_labels`.

    Returns:
        (n,) labels.

    Raises:
        UsageError: invalid sizes, or a negative seed.
        InputError: a subset stays empty, or a SMILES cannot be read.

    Source: Butina 1999, J. Chem. Inf. Comput. Sci. 39, 747, doi:10.1021/ci9803381.

    >>> from molattn.data import cluster_split
    >>> alcohols = ["C" * n + "O" for n in range(8, 12)]  # one cluster; the others are alone in theirs
    >>> labels = cluster_split([*alcohols, "c1ccncc1", "CC(=O)N", "C1CC1", "NCCN"], sizes=(0.5, 0.25, 0.25))
    >>> labels[:4].tolist(), sorted(labels[4:].tolist())
    (['train', 'train', 'train', 'train'], ['test', 'test', 'val', 'val'])
    """
    sizes = validate_sizes(sizes)
    rows_by_cluster = merge_groups(group_by_cluster(smiles), groups)
    return _assign_in_order("cluster", _large_first(rows_by_cluster, sizes, seed), sizes, groups)


def kennard_stone_split(
    smiles: Sequence[str],
    sizes: Sequence[float] = DEFAULT_SIZES,
    seed: int = 0,  # noqa: ARG001 (every split takes one; this one is deterministic)
    groups: Sequence[str] | None = None,
) -> Labels:
    """Kennard-Stone split: molecules that cover the space of Morgan fingerprints to train, the others to val and test.

    The two least similar molecules come first, then always the one whose nearest neighbor among the selected ones is
    least similar (Tanimoto); ties are broken by SMILES. They are assigned in that order, train first; a group comes
    with the first of its molecules. The order of the rows does not matter.

    Args:
        smiles: n canonical SMILES.
        sizes: the shares of train, val and test, which sum to 1.
        seed: without effect: every split takes one, and this one is deterministic.
        groups: as for `split_labels`.

    Returns:
        (n,) labels.

    Raises:
        UsageError: invalid sizes.
        InputError: fewer molecules, or groups, than subsets with a size above 0; or a SMILES cannot be read.

    Source: Kennard & Stone 1969, Technometrics 11, 137, doi:10.1080/00401706.1969.10490666.

    >>> from molattn.data import kennard_stone_split
    >>> labels = kennard_stone_split(["CCO", "CCCO", "c1ccncc1", "Cc1ccncc1"], sizes=(0.5, 0.25, 0.25)).tolist()
    >>> labels[:2].count("train"), labels[2:].count("train")  # an alcohol and a pyridine
    (1, 1)
    """
    sizes = validate_sizes(sizes)
    if not smiles:
        return assign_molecules(smiles, [], sizes)
    from molattn.chem import Fingerprints  # imported here, because it imports RDKit
    from molattn.chem.parse import NO_ATOM_LIMIT

    molecules = sorted(set(as_list(smiles)))
    fingerprints = Fingerprints(molecules, max_atoms=NO_ATOM_LIMIT)
    smallest = np.array([fingerprints.similarities(i).min() for i in range(len(molecules))])
    selected = [int(smallest.argmin())]
    similarity = fingerprints.similarities(selected[0])  # of each molecule to the nearest selected one
    remaining = np.ones(len(molecules), dtype=bool)
    remaining[selected] = False
    while remaining.any():
        farthest = int(np.where(remaining, similarity, 2.0).argmin())
        selected.append(farthest)
        remaining[farthest] = False
        similarity = np.maximum(similarity, fingerprints.similarities(farthest))
    if groups is None:
        return assign_molecules(smiles, [molecules[i] for i in selected], sizes)
    group_of_row = connect_groups(smiles, groups)
    group_of = dict(zip(smiles, group_of_row, strict=True))
    order = list(dict.fromkeys(group_of[molecules[i]] for i in selected))
    check_number(len(order), sizes, "group")
    return assign_molecules(group_of_row, order, sizes)


def stratified_split(
    smiles: Sequence[str],
    targets: np.ndarray,
    sizes: Sequence[float] = DEFAULT_SIZES,
    seed: int = 0,
    groups: Sequence[str] | None = None,
) -> Labels:
    """Stratified split: every subset gets its share of low and high values, or of each class.

    Molecules are shuffled with `seed` within their strata, and each is assigned to the subset that is furthest below
    its share. Strata are the classes if every target is 0 or 1, else the deciles of the values; the value of a
    molecule with several rows, or of a group, is their mean, and molecules without a value are a stratum. Of several
    targets the first is used. The order of the rows does not matter.

    Args:
        smiles: n canonical SMILES.
        targets: (n,) or (n, T), NaN if missing.
        sizes: the shares of train, val and test, which sum to 1.
        seed: seed of the random order, 0 or more.
        groups: as for `split_labels`.

    Returns:
        (n,) labels.

    Raises:
        UsageError: invalid sizes, or a negative seed.
        InputError: fewer molecules, or groups, than subsets with a size above 0.

    >>> import numpy as np
    >>> from molattn.data import stratified_split
    >>> targets = np.repeat([0, 1], 8)
    >>> labels = stratified_split(["C" * n for n in range(1, 17)], targets, sizes=(0.5, 0.25, 0.25))
    >>> [float(targets[labels == label].mean()) for label in ("train", "val", "test")]  # half of each is of class 1
    [0.5, 0.5, 0.5]
    """
    sizes = validate_sizes(sizes)
    order = shuffle_strata(smiles, targets, groups, random_generator(seed))
    return assign_groups_evenly(order, len(smiles), sizes, "molecule" if groups is None else "group")


def _large_first(rows_by_group: dict[str, list[int]], sizes: Sequence[float], seed: int) -> list[list[int]]:
    """The groups with more rows than half of val or of test, then the others, both shuffled."""
    num_rows = sum(map(len, rows_by_group.values()))
    max_rows = min([size for size in sizes[1:] if size > 0], default=0.0) * num_rows / 2
    shuffled = [rows_by_group[name] for name in shuffle_names(rows_by_group, random_generator(seed))]
    return sorted(shuffled, key=lambda rows: len(rows) <= max_rows)


def _assign_in_order(
    split: str, order: Sequence[Sequence[int]], sizes: Sequence[float], groups: Sequence[str] | None
) -> Labels:
    """The labels by `assign_groups`. Raises InputError if a subset with a size above 0 stays empty."""
    labels = assign_groups(order, sum(map(len, order)), sizes)
    if empty := find_empty_subsets(labels, sizes):
        largest = max(map(len, order), default=0)
        noun = split.removesuffix("-balanced")
        noun = noun if groups is None else f"set of {noun}s and groups that share rows"
        raise InputError(
            f"the {split} split leaves {' and '.join(empty)} empty: {pluralize(len(labels), 'row')} with "
            f"{pluralize(len(order), noun)}, the largest of {pluralize(largest, 'row')}; "
            "use the random split, other sizes or a split file"
        )
    return labels


def split_labels(
    name: str,
    smiles: Sequence[str],
    targets: np.ndarray,
    sizes: Sequence[float],
    seed: int,
    groups: Sequence[str] | None = None,
) -> Labels:
    """Split n rows by the split method of a name.

    Args:
        name: one of `SPLITS` or `SPLITS_BY_TARGET`.
        smiles: n canonical SMILES.
        targets: (n,) or (n, T), NaN if missing; only the splits in `SPLITS_BY_TARGET` read them.
        sizes: the shares of train, val and test, which sum to 1.
        seed: seed of the random order, 0 or more.
        groups: n names of groups, or None; rows of one group get the same label, as do those of groups that share a
            molecule.

    Returns:
        (n,) labels, each "train", "val" or "test".

    Raises:
        UsageError: there is no split method of that name; and as the method.
        InputError: as the method.

    >>> import numpy as np
    >>> from molattn.data import split_labels
    >>> smiles = ["Cc1ccccc1", "CCO", "Oc1ccccc1", "Cc1ccncc1", "Nc1ccccc1"]
    >>> split_labels("scaffold", smiles, np.zeros(5), sizes=(0.6, 0.2, 0.2), seed=0).tolist()
    ['train', 'val', 'train', 'test', 'train']
    """
    if name in SPLITS_BY_TARGET:
        return SPLITS_BY_TARGET[name](smiles, targets, sizes, seed, groups)
    if name not in SPLITS:
        raise UsageError(unknown_choice("split", name, (*SPLITS, *SPLITS_BY_TARGET)))
    return SPLITS[name](smiles, sizes, seed, groups=groups)


@runtime_checkable
class Split(Protocol):
    """A split method that does not use targets."""

    def __call__(
        self, smiles: Sequence[str], sizes: Sequence[float], seed: int, /, *, groups: Sequence[str] | None
    ) -> Labels:
        """(n,) labels: see `split_labels`."""
        ...


@runtime_checkable
class SplitByTarget(Protocol):
    """A split method that uses targets."""

    def __call__(
        self,
        smiles: Sequence[str],
        targets: np.ndarray,
        sizes: Sequence[float],
        seed: int,
        groups: Sequence[str] | None,
        /,
    ) -> Labels:
        """(n,) labels: see `split_labels`."""
        ...


SPLITS: dict[str, Split] = {
    "random": random_split,
    "scaffold": scaffold_split,
    "scaffold-balanced": scaffold_balanced_split,
    "cluster": cluster_split,
    "kennard-stone": kennard_stone_split,
}
"""The split methods that do not use targets, by name; see `split_labels`."""
SPLITS_BY_TARGET: dict[str, SplitByTarget] = {
    "stratified": stratified_split,
}
"""The split methods that use targets, by name; see `split_labels`."""
