"""The official splits of benchmarks: fixed test rows; validation rows are selected from the others with a seed."""

import random
from collections.abc import Callable, Sequence

import numpy as np

from molattn.data.datasets.cards import OfficialSplit
from molattn.data.splits.labels import Labels
from molattn.data.splits.splitters import random_split
from molattn.data.tables.table import Table, column
from molattn.errors import InputError, SmilesError, as_list, short_repr, unknown_choice

TDC_VALIDATION_SHARE = 0.125
"""The share of validation rows among those that are not test rows, in TDC's benchmark groups."""


def tdc_scaffold_split(smiles: Sequence[str], seed: int, share: float = TDC_VALIDATION_SHARE) -> Labels:
    """TDC's scaffold split into train and val, of rows that are not test rows; the order of the rows matters.

    Bemis-Murcko scaffolds without stereochemistry, in the order of their first rows, are shuffled by Python's random
    generator with the seed. Each is then added to train if train has at most int((1 - share) n) rows with it, and to
    val otherwise. The split is that of `create_scaffold_split` in TDC's package, version 0.4.1, with test share 0:
    there, scaffolds with more rows than half of the test share, which are all, are shuffled separately from the others.

    Args:
        smiles: n SMILES, as they are in the published table.
        seed: seed of the order of the scaffolds.
        share: the share of val.

    Returns:
        (n,) labels, "train" or "val"; "" for SMILES that cannot be read, which TDC excludes.

    Source: Huang et al. 2021, arXiv:2102.09548.

    >>> from molattn.data import tdc_scaffold_split
    >>> smiles = ["Cc1ccccc1", "CCO", "Oc1ccccc1", "Cc1ccncc1", "CCN", "C1CC1"]  # four scaffolds, one of them empty
    >>> tdc_scaffold_split(smiles, seed=1, share=0.5).tolist()
    ['train', 'val', 'train', 'val', 'val', 'train']
    """
    from molattn.chem import murcko_scaffold  # imported here, because it imports RDKit
    from molattn.chem.parse import NO_ATOM_LIMIT

    rows_by_scaffold: dict[str, list[int]] = {}
    for row, text in enumerate(as_list(smiles)):
        try:
            scaffold = murcko_scaffold(text, max_atoms=NO_ATOM_LIMIT)
        except SmilesError:
            continue
        rows_by_scaffold.setdefault(scaffold, []).append(row)
    shuffled = list(rows_by_scaffold.values())
    max_train = int((1 - share) * sum(map(len, shuffled)))
    random.Random(seed).shuffle(shuffled)
    labels = np.full(len(smiles), "", dtype="<U5")
    num_train = 0
    for rows in shuffled:
        fits = num_train + len(rows) <= max_train
        labels[rows] = "train" if fits else "val"
        num_train += fits * len(rows)
    return labels


def _random_validation(smiles: Sequence[str], seed: int, share: float) -> Labels:
    """`random_split` into train and val; "" for SMILES that cannot be read."""
    from molattn.chem import canonical_smiles, read_smiles
    from molattn.chem.parse import NO_ATOM_LIMIT

    rows, keys = [], []
    for row, text in enumerate(smiles):
        try:
            keys.append(canonical_smiles(read_smiles(text, max_atoms=NO_ATOM_LIMIT), max_atoms=NO_ATOM_LIMIT))
        except SmilesError:
            continue
        rows.append(row)
    labels = np.full(len(smiles), "", dtype="<U5")
    labels[rows] = random_split(keys, (1 - share, share, 0.0), seed)
    return labels


VALIDATION_METHODS: dict[str, Callable[[Sequence[str], int, float], Labels]] = {
    "tdc-scaffold": tdc_scaffold_split,
    "random": _random_validation,
}
"""Splits into train and val of the rows that are not test rows, by name: functions of SMILES, a seed and a share."""


def validation_labels(official: OfficialSplit, smiles: Sequence[str], seed: int) -> Labels:
    """Split the rows that are not test rows into train and val, by the method of a benchmark.

    Args:
        official: the split, from the card of the data set.
        smiles: n SMILES, in the order of the table, without test rows.
        seed: seed of the validation rows, 0 or more.

    Returns:
        (n,) labels, "train" or "val"; "" for SMILES that cannot be read.

    Raises:
        InputError: an unknown validation method, or too few molecules.
        UsageError: a negative seed, with the method "random".

    >>> from molattn.data import OfficialSplit, validation_labels
    >>> validation_labels(OfficialSplit("part", "random", 0.25), ["CCO", "CCN", "CCC", "CCF"], seed=1).tolist()
    ['val', 'train', 'train', 'train']
    """
    if official.validation not in VALIDATION_METHODS:
        raise InputError(unknown_choice("validation method", official.validation, VALIDATION_METHODS))
    return VALIDATION_METHODS[official.validation](smiles, seed, official.share)


def official_split_labels(
    official: OfficialSplit, table: Table, smiles: list[str] | tuple[str, ...], seed: int
) -> Labels:
    """The labels of a benchmark's official split: its test rows, and the others in train and val.

    Args:
        official: the split, from the card of the data set.
        table: the table, of n rows.
        smiles: its n SMILES.
        seed: seed of the validation rows, 0 or more; test rows do not depend on it.

    Returns:
        (n,) labels, "train", "val" or "test"; "" for SMILES that are not test rows and cannot be read.

    Raises:
        InputError: a value other than "train" and "test", with its line; and as `validation_labels`.
        UsageError: the table has no column of the official split; and as `validation_labels`.

    >>> import pyarrow as pa
    >>> from molattn.data import OfficialSplit, official_split_labels, read_table
    >>> smiles = ["CCO", "CCN", "CCC", "CCF", "CCCl"]
    >>> table = read_table(pa.table({"smiles": smiles, "part": ["train"] * 4 + ["test"]}))
    >>> official_split_labels(OfficialSplit("part", "random", 0.25), table, smiles, seed=1).tolist()
    ['val', 'train', 'train', 'train', 'test']
    """
    labels = np.full(len(smiles), "test", dtype="<U5")
    others = []
    for row, text in enumerate(column(table, official.column)):
        if text not in ("train", "test"):
            raise InputError(
                f"{table.source}, {table.location(row)}: column {short_repr(official.column)} has {short_repr(text)}; "
                "it must be train or test"
            )
        if text == "train":
            others.append(row)
    labels[others] = validation_labels(official, [str(smiles[row]) for row in others], seed)
    return labels
