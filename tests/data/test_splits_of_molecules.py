"""Splits and folds of real molecules: by scaffold, by similarity, by target."""

import time
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import GroupKFold

from molattn.chem import Fingerprints, butina_clusters, murcko_scaffold, nci_molecules
from molattn.data import SPLIT_LABELS, assign_folds, find_leakage, fold_labels, split_labels
from molattn.data.splits.groups import connect_groups, group_by_cluster
from molattn.errors import InputError, UsageError
from tests.molecules import esol

SMILES, VALUES = esol(120)
NAMES = ("random", "scaffold", "scaffold-balanced", "cluster", "kennard-stone", "stratified")
SEEDED = ("random", "scaffold-balanced", "cluster", "stratified")
SIZES = st.sampled_from([(0.8, 0.1, 0.1), (0.6, 0.2, 0.2), (0.7, 0.3, 0.0)])
ROWS = st.lists(st.integers(0, 39), min_size=25, max_size=60)


def split(name, rows, sizes=(0.8, 0.1, 0.1), seed=0, values=VALUES):
    """Labels of these rows of ESOL, or why there are none."""
    try:
        return split_labels(name, [SMILES[r] for r in rows], np.array([values[r] for r in rows]), sizes, seed)
    except InputError:
        return None


@pytest.mark.parametrize("name", NAMES)
@given(rows=ROWS, sizes=SIZES, seed=st.integers(0, 2), data=st.data())
@settings(max_examples=25, deadline=None)
def test_properties_of_every_split(name, rows, sizes, seed, data):
    labels = split(name, rows, sizes, seed)
    order = data.draw(st.permutations(range(len(rows))))
    shuffled = split(name, [rows[k] for k in order], sizes, seed)
    if labels is None or shuffled is None:
        assert labels is shuffled
        return
    assert labels.shape == (len(rows),)
    assert set(labels) == {side for side, size in zip(SPLIT_LABELS, sizes, strict=True) if size > 0}
    assert find_leakage([SMILES[r] for r in rows], labels) == []
    assert np.array_equal(labels, split(name, rows, sizes, seed))
    assert np.array_equal(labels[list(order)], shuffled)


@pytest.mark.parametrize("name", NAMES)
def test_the_subsets_of_esol_are_near_their_sizes(name):
    labels = split(name, range(120))
    assert [int((labels == side).sum()) for side in SPLIT_LABELS] == pytest.approx([96, 12, 12], abs=1)


@pytest.mark.parametrize("name", NAMES)
def test_another_seed_is_another_split_if_the_split_is_random(name):
    found = {tuple(split(name, range(120), seed=seed)) for seed in range(5)}
    assert len(found) == (5 if name in SEEDED else 1)
    if name in SEEDED:
        with pytest.raises(UsageError, match="seed must be 0 or more"):
            split(name, range(120), seed=-1)


@pytest.mark.parametrize(("name", "group"), [("scaffold-balanced", murcko_scaffold), ("cluster", None)])
def test_groups_stay_together(name, group):
    if group is None:
        of = {SMILES[row]: centre for centre, rows in group_by_cluster(SMILES).items() for row in rows}
    else:
        of = {smiles: group(smiles) for smiles in SMILES}
    for seed in range(3):
        side_of = {}
        for smiles, side in zip(SMILES, split(name, range(120), seed=seed), strict=True):
            assert side_of.setdefault(of[smiles], side) == side


def test_the_subsets_of_kennard_stone_are_increasingly_similar():
    labels = split("kennard-stone", range(120), (0.5, 0.25, 0.25))
    fingerprints = Fingerprints(SMILES)
    alike = np.array([fingerprints.similarities(row) for row in range(120)])
    np.fill_diagonal(alike, 0)
    train, test = labels == "train", labels == "test"
    # Test molecules have a nearer neighbour in train than train molecules.
    assert np.median(alike[np.ix_(test, train)].max(1)) > np.median(alike[np.ix_(train, train)].max(1))


def test_kennard_stone_by_hand():
    # The two that are least alike come first, and are as many as train.
    labels = split_labels("kennard-stone", ["CC", "CCC", "CCCC", "CCCCC"], np.zeros(4), (0.5, 0.25, 0.25), 0)
    alike = np.array([Fingerprints(["CC", "CCC", "CCCC", "CCCCC"]).similarities(i) for i in range(4)])
    first, second = np.unravel_index(alike.argmin(), alike.shape)
    assert {first, second} == set(np.flatnonzero(labels == "train"))


@pytest.mark.parametrize("classes", [False, True])
def test_every_subset_has_its_share_of_every_stratum(classes):
    values = [float(v > np.quantile(VALUES, 0.8)) for v in VALUES] if classes else VALUES
    for seed in range(3):
        labels = split("stratified", range(120), (0.6, 0.2, 0.2), seed, values)
        strata = np.array(values) if classes else np.argsort(np.argsort(VALUES)) // 12
        for stratum in set(strata):
            there = Counter(labels[strata == stratum])
            rows = sum(there.values())
            for side, size in zip(SPLIT_LABELS, (0.6, 0.2, 0.2), strict=True):
                assert abs(there[side] - size * rows) <= 2


def test_missing_targets_are_a_stratum_of_their_own():
    values = np.where(np.arange(120) % 4 == 0, np.nan, np.arange(120.0))
    labels = split_labels("stratified", SMILES, np.column_stack([values, values]), (0.8, 0.1, 0.1), 0)
    without = Counter(labels[np.isnan(values)])
    assert [without[side] for side in SPLIT_LABELS] == pytest.approx([24, 3, 3], abs=1)


GROUPED = st.lists(st.tuples(st.integers(0, 39), st.integers(0, 14)), min_size=20, max_size=60)


def one_side_each(names, labels):
    sides = {}
    return all(sides.setdefault(name, label) == label for name, label in zip(names, labels, strict=True))


@pytest.mark.parametrize("name", NAMES)
@given(rows=GROUPED, sizes=SIZES, seed=st.integers(0, 2), data=st.data())
@settings(max_examples=25, deadline=None)
def test_a_group_is_in_one_subset_of_every_split(name, rows, sizes, seed, data):
    def labels_of(rows):
        keys, values = [SMILES[r] for r, _ in rows], np.array([VALUES[r] for r, _ in rows])
        try:
            return split_labels(name, keys, values, sizes, seed, [f"group {g}" for _, g in rows])
        except InputError:
            return None

    labels = labels_of(rows)
    order = data.draw(st.permutations(range(len(rows))))
    shuffled = labels_of([rows[k] for k in order])
    if labels is None or shuffled is None:
        assert labels is shuffled
        return
    assert set(labels) == {side for side, size in zip(SPLIT_LABELS, sizes, strict=True) if size > 0}
    assert one_side_each([g for _, g in rows], labels)
    assert one_side_each([SMILES[r] for r, _ in rows], labels)
    assert np.array_equal(labels[list(order)], shuffled)


@pytest.mark.parametrize("name", NAMES)
def test_groups_of_one_row_do_not_change_the_split(name):
    rows = range(120)
    values = np.array(VALUES)
    labels = split_labels(name, SMILES, values, (0.8, 0.1, 0.1), 1, [str(r) for r in rows])
    assert [int((labels == side).sum()) for side in SPLIT_LABELS] == pytest.approx([96, 12, 12], abs=1)
    if name != "random":  # which assigns groups, of any size, differently from molecules
        assert np.array_equal(labels, split_labels(name, SMILES, values, (0.8, 0.1, 0.1), 1))


@given(st.lists(st.integers(1, 30), min_size=3, max_size=12), st.integers(0, 5))
@settings(max_examples=150, deadline=None)
def test_random_groups_fill_subsets_near_their_shares(sizes, seed):
    groups = [f"g{i}" for i, size in enumerate(sizes) for _ in range(size)]
    keys = [f"molecule {i}" for i in range(len(groups))]
    labels = split_labels("random", keys, np.zeros(len(keys)), (0.6, 0.2, 0.2), seed, groups)
    assert one_side_each(groups, labels) and set(labels) == set(SPLIT_LABELS)
    for side, size in zip(SPLIT_LABELS, (0.6, 0.2, 0.2), strict=True):
        # A group that is larger than a share cannot be split, and three subsets need three groups.
        assert abs((labels == side).sum() - size * len(groups)) <= 2 * max(sizes)


@pytest.mark.parametrize("name", ["random", "scaffold", "scaffold-balanced", "cluster", "stratified"])
@given(rows=GROUPED, num_folds=st.integers(2, 4), seed=st.integers(0, 2))
@settings(max_examples=15, deadline=None)
def test_a_group_is_tested_in_one_fold(name, rows, num_folds, seed):
    keys, values = [SMILES[r] for r, _ in rows], np.array([VALUES[r] for r, _ in rows])
    groups = [f"group {g}" for _, g in rows]
    try:
        folds = assign_folds(name, keys, values, num_folds, seed, groups)
    except InputError:
        return
    assert set(folds) == set(range(num_folds))
    assert one_side_each(groups, folds) and one_side_each(keys, folds)
    for fold in range(num_folds):
        try:
            labels = fold_labels(name, keys, values, (0.8, 0.1, 0.1), seed, num_folds, fold, groups)
        except InputError:
            continue
        assert np.array_equal(labels == "test", folds == fold)
        assert one_side_each(groups, labels) and one_side_each(keys, labels)


def test_rows_are_connected_through_molecules_and_groups():
    # b ties group 1 to group 2; d and e stay alone.
    assert connect_groups(["a", "b", "b", "c", "d", "e"], ["1", "1", "2", "2", "3", "4"]) == [*"aaaade"]
    assert connect_groups(["b", "a"]) == ["b", "a"] and connect_groups([], []) == []


def test_folds_by_group_are_those_of_scikit_learn():
    groups = np.repeat([f"g{i}" for i in range(12)], np.arange(1, 13))
    keys = [f"molecule {i}" for i in range(len(groups))]
    folds = assign_folds("random", keys, np.zeros(len(keys)), 4, 0, list(groups))
    theirs = GroupKFold(4).split(keys, groups=groups)
    assert sorted(Counter(folds.tolist()).values()) == sorted(len(test) for _, test in theirs)


def test_too_few_groups_raise():
    keys, groups = ["C", "CC", "CCC", "CCO"], ["a", "a", "b", "b"]
    for name in ("random", "kennard-stone", "stratified"):
        with pytest.raises(
            InputError,
            match="2 groups, counting groups that share a molecule as one, cannot fill .*: give 3 or more$",
        ):
            split_labels(name, keys, np.zeros(4), (0.5, 0.25, 0.25), 0, groups)
    with pytest.raises(InputError, match="4 rows with 1 set of scaffolds and groups that share rows"):
        split_labels("scaffold", keys, np.zeros(4), (0.5, 0.25, 0.25), 0, groups)
    with pytest.raises(
        InputError, match="the random split has 2 groups of molecules, too few for 3 folds: use fewer folds$"
    ):
        assign_folds("random", keys, np.zeros(4), 3, 0, groups)


@pytest.mark.parametrize("similarity", [-0.1, 1.5, float("nan")])
def test_a_similarity_out_of_range_is_refused(similarity):
    with pytest.raises(UsageError, match=f"similarity must be from 0 to 1, got {similarity}"):
        butina_clusters(["CCO", "CCC"], similarity)


def test_butina_by_hand():
    smiles = ["CCCCCCO", "CCCCCCCO", "CCCCCCCCO", "c1ccccc1", "Cc1ccccc1", "N"]
    clusters = butina_clusters(smiles, 0.4)
    assert sorted(i for cluster in clusters for i in cluster) == list(range(6))
    assert {frozenset(map(int, cluster)) for cluster in clusters} >= {frozenset({0, 1, 2}), frozenset({5})}
    fingerprints = Fingerprints(smiles)
    for cluster in clusters:
        assert (fingerprints.similarities(int(cluster[0]))[cluster] >= 0.4).all()


def test_similarity_is_tanimoto():
    fingerprints = Fingerprints(["CCO", "OCC", "c1ccccc1"])
    assert fingerprints.similarities(0).tolist() == [1.0, 1.0, 0.0]
    assert len(fingerprints) == 3


FOLDED = ("random", "scaffold", "scaffold-balanced", "cluster", "stratified")


@pytest.mark.parametrize("name", FOLDED)
@given(rows=ROWS, num_folds=st.integers(2, 5), seed=st.integers(0, 2), data=st.data())
@settings(max_examples=20, deadline=None)
def test_test_folds_partition_the_molecules(name, rows, num_folds, seed, data):
    keys, values = [SMILES[r] for r in rows], np.array([VALUES[r] for r in rows])
    order = list(data.draw(st.permutations(range(len(rows)))))
    try:
        folds = assign_folds(name, keys, values, num_folds, seed)
    except InputError:
        return
    assert set(folds) == set(range(num_folds))
    assert all(len({int(f) for k, f in zip(keys, folds, strict=True) if k == key}) == 1 for key in keys)
    again = assign_folds(name, [keys[k] for k in order], values[order], num_folds, seed)
    assert np.array_equal(folds[order], again)


@pytest.mark.parametrize("name", FOLDED)
def test_the_subsets_of_a_fold(name):
    values = np.array(VALUES)
    tested = np.zeros(120, dtype=int)
    for fold in range(5):
        labels = fold_labels(name, SMILES, values, (0.8, 0.1, 0.1), 0, 5, fold)
        tested += labels == "test"
        assert find_leakage(SMILES, labels) == []
        assert (labels == "val").sum() == pytest.approx(120 * 0.8 / 9, abs=2)
        if name in ("random", "stratified"):
            assert (labels == "test").sum() == 24
        if name == "stratified":
            assert abs(values[labels == "test"].mean() - values.mean()) < 0.2
    assert (tested == 1).all()


def test_invalid_folds_raise():
    values = np.zeros(4)
    keys = ["C", "CC", "CCC", "CCCC"]
    with pytest.raises(UsageError, match="num_folds must be 2 or more, not 1"):
        assign_folds("random", keys, values, 1, 0)
    with pytest.raises(UsageError, match="'kennard-stone' has no folds: choose one of random, .*, stratified"):
        assign_folds("kennard-stone", keys, values, 2, 0)
    with pytest.raises(UsageError, match="unknown split 'temporal'"):
        assign_folds("temporal", keys, values, 2, 0)
    with pytest.raises(
        InputError, match="1 group of molecules, too few for 2 folds: use fewer folds or the random split$"
    ):
        assign_folds("scaffold", keys, values, 2, 0)
    with pytest.raises(UsageError, match="a number from 0 to 1, not 2"):
        fold_labels("random", keys, values, (0.8, 0.1, 0.1), 0, 2, 2)
    with pytest.raises(UsageError, match="folds need one of them above 0"):
        fold_labels("random", keys, values, (0.0, 0.0, 1.0), 0, 2, 0)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cluster", "kennard-stone"])
def test_thousands_of_molecules_take_less_than_a_minute(name):
    molecules = nci_molecules(200)
    start = time.process_time()
    labels = split_labels(name, molecules, np.zeros(len(molecules)), (0.8, 0.1, 0.1), 0)
    assert time.process_time() - start < 60
    assert set(labels) == set(SPLIT_LABELS)
