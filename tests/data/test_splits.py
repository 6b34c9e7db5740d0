from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from molattn.data import (
    SPLIT_LABELS,
    SPLITS,
    SPLITS_BY_TARGET,
    column,
    datasets_dir,
    describe_leakage,
    find_leakage,
    load_card,
    random_split,
    read_split_column,
    read_split_file,
    read_table,
    scaffold_balanced_split,
    scaffold_split,
    split_labels,
    tdc_scaffold_split,
    write_table,
)
from molattn.errors import InputError, UsageError


def read_bundled_split(name, smiles):
    return read_split_file(datasets_dir() / "splits" / f"esol-{name}.csv", smiles)


def initial(key):
    """A stand-in for a scaffold: the text before the dash."""
    return key.split("-")[0]


def by_initial(keys, sizes, seed):
    return scaffold_split(keys, sizes, seed, scaffold_of=initial)


def balanced_by_initial(keys, sizes, seed):
    return scaffold_balanced_split(keys, sizes, seed, scaffold_of=initial)


KEYS = st.lists(st.builds("{}-{}".format, st.sampled_from("abcdefgh"), st.integers(0, 9)), min_size=1, max_size=80)
SIZES = st.sampled_from(
    [(0.8, 0.1, 0.1), (0.6, 0.2, 0.2), (0.5, 0.5, 0.0), (0.7, 0.0, 0.3), (0.0, 0.5, 0.5), (1.0, 0.0, 0.0)]
)


def split_or_none(split, keys, sizes, seed):
    try:
        return split(keys, sizes, seed)
    except InputError:
        return None


@pytest.mark.parametrize("split", [random_split, by_initial, balanced_by_initial])
@given(keys=KEYS, sizes=SIZES, seed=st.integers(0, 3), data=st.data())
@settings(max_examples=100, deadline=None)
def test_properties_of_every_split(split, keys, sizes, seed, data):
    labels = split_or_none(split, keys, sizes, seed)
    order = data.draw(st.permutations(range(len(keys))))
    shuffled = split_or_none(split, [keys[row] for row in order], sizes, seed)
    if labels is None or shuffled is None:
        assert labels is shuffled
        return
    assert labels.shape == (len(keys),)
    assert set(labels) == {side for side, size in zip(SPLIT_LABELS, sizes, strict=True) if size > 0}
    assert find_leakage(keys, labels) == []
    assert np.array_equal(labels, split(keys, sizes, seed))
    assert np.array_equal(labels[list(order)], shuffled)


@given(keys=KEYS, sizes=SIZES, seed=st.integers(0, 3))
@settings(max_examples=100, deadline=None)
def test_random_subsets_are_near_their_sizes(keys, sizes, seed):
    labels = split_or_none(random_split, keys, sizes, seed)
    if labels is None:
        assert len(set(keys)) < sum(size > 0 for size in sizes)
        return
    # Half a row of rounding, a molecule that did not fit, and up to two moved to subsets that would be empty.
    slack = 0.5 + 3 * max(Counter(keys).values())
    for side, size in zip(SPLIT_LABELS, sizes, strict=True):
        assert abs((labels == side).sum() - size * len(keys)) <= 2 * slack


def test_random_sizes_are_exact_without_repeats():
    keys = [str(k) for k in range(1128)]
    labels = random_split(keys)
    assert [int((labels == side).sum()) for side in SPLIT_LABELS] == [902, 113, 113]
    assert [int((random_split(keys[:3]) == side).sum()) for side in SPLIT_LABELS] == [1, 1, 1]
    assert [int((random_split(keys[:5]) == side).sum()) for side in SPLIT_LABELS] == [3, 1, 1]
    labels = random_split(keys[:20], (0.9, 0.01, 0.09))
    assert [int((labels == side).sum()) for side in SPLIT_LABELS] == [18, 1, 1]


def test_another_seed_is_another_random_split():
    keys = [str(k) for k in range(100)]
    found = {tuple(random_split(keys, seed=seed)) for seed in range(20)}
    assert len(found) == 20


def test_a_random_split_is_uniform():
    keys = [str(k) for k in range(20)]
    tested = np.sum([random_split(keys, (0.5, 0.25, 0.25), seed) == "test" for seed in range(400)], axis=0)
    # Each key is in test with probability 1/4: 100 of 400, give or take 8.7.
    assert tested.min() > 60
    assert tested.max() < 140


@pytest.mark.parametrize(
    "sizes",
    [
        (0.8, 0.1, 0.2),
        (80.0, 10.0, 10.0),
        (0.9, 0.1),
        (1.2, -0.1, -0.1),
        (float("nan"), 0.5, 0.5),
        (),
        (0.8, 0.1, 0.1, 0.0),
    ],
)
def test_invalid_sizes_raise(sizes):
    for split in SPLITS.values():
        with pytest.raises(UsageError, match="three numbers from 0 to 1 that sum to 1"):
            split(["C", "CC", "CCC"], sizes, 0)


def test_sizes_may_be_off_by_rounding():
    keys = [str(k) for k in range(9)]
    assert Counter(random_split(keys, (0.3333333, 0.3333333, 0.3333334))) == dict.fromkeys(SPLIT_LABELS, 3)


@pytest.mark.parametrize("name", [*SPLITS, *SPLITS_BY_TARGET])
def test_one_smiles_is_no_table_of_its_letters(name):
    with pytest.raises(TypeError, match="not one string"):
        split_labels(name, "CCCCO", np.arange(5.0), (0.6, 0.2, 0.2), 0)
    with pytest.raises(TypeError, match="not one string"):
        tdc_scaffold_split("CCCCO", seed=1)


def test_a_negative_seed():
    with pytest.raises(UsageError, match="seed must be 0 or more"):
        random_split(["C", "CC", "CCC"], seed=-1)


@pytest.mark.parametrize("keys", [[], ["C"], ["C", "CC"], ["C", "C", "C", "CC"]])
def test_too_few_molecules_raise_with_advice(keys):
    with pytest.raises(InputError, match="cannot fill the 3 subsets of a split: give 3 or more$"):
        random_split(keys)
    with pytest.raises(InputError, match=r"empty: .*use the random split"):
        scaffold_split(keys, scaffold_of=initial)


def test_scaffolds_are_assigned_largest_first():
    keys = [f"a-{k}" for k in range(6)] + [f"b-{k}" for k in range(3)] + ["d", "c", "e"]
    labels = scaffold_split(keys, (0.5, 0.25, 0.25), scaffold_of=initial)
    # a fills train, b fills val; c, d and e no longer fit anywhere else.
    assert labels.tolist() == ["train"] * 6 + ["val"] * 3 + ["test"] * 3
    # b does not fit into train together with a, but the small ones do, by name.
    labels = scaffold_split(keys, (8 / 12, 3 / 12, 1 / 12), scaffold_of=initial)
    assert labels.tolist() == ["train"] * 6 + ["val"] * 3 + ["train", "train", "test"]


def test_a_scaffold_that_just_fits_is_not_lost_to_rounding():
    keys = [f"a-{k}" for k in range(7)] + ["b-0"] + ["c-0", "c-1"]
    labels = scaffold_split(keys, (0.7, 0.1, 0.2), scaffold_of=initial)  # 10 (0.7 + 0.1) < 8 in floating point
    assert labels.tolist() == ["train"] * 7 + ["val"] + ["test"] * 2


def test_a_scaffold_of_all_the_data_raises():
    with pytest.raises(InputError, match="leaves train and val empty: 9 rows with 1 scaffold, the largest of 9 rows"):
        scaffold_split([f"a-{k}" for k in range(9)], scaffold_of=initial)


@pytest.fixture(scope="module")
def esol():
    return column(read_table(load_card("esol").path), "smiles")


def test_the_scaffold_split_of_esol(esol):
    chem = pytest.importorskip("molattn.chem")
    labels = scaffold_split(esol)
    assert [int((labels == side).sum()) for side in SPLIT_LABELS] == [902, 113, 113]
    groups = defaultdict(list)
    for row, smiles in enumerate(esol):
        groups[chem.murcko_scaffold(smiles)].append(row)
    assert len(groups) == 269
    largest = sorted(groups.values(), key=len, reverse=True)
    assert [len(rows) for rows in largest[:2]] == [317, 254]  # no ring, benzene
    carried = read_bundled_split("scaffold", esol)
    for rows in largest:
        assert len(set(labels[rows])) == 1
        if len(rows) > 2:
            assert set(labels[rows]) == set(carried[rows]) == {"train"}
    # The carried split breaks ties between scaffolds of one size by their place in the file, ours by name: they
    # differ among scaffolds of one or two molecules only.
    assert (labels == carried).sum() == 1002
    sizes = Counter(len(rows) for rows in largest if labels[rows[0]] == "test")
    assert sizes == Counter(len(rows) for rows in largest if carried[rows[0]] == "test") == {1: 113}
    backwards = scaffold_split(esol[::-1])
    assert np.array_equal(backwards[::-1], labels)


@pytest.mark.parametrize(("name", "count"), [("random0", 6), ("random1", 3), ("random2", 5), ("scaffold", 0)])
def test_leakage_finds_the_repeated_molecules_of_esol(esol, name, count):
    labels = read_bundled_split(name, esol)
    leaks = find_leakage(esol, labels)
    assert len(leaks) == count
    for leak in leaks:
        assert [esol[row] for row in leak.rows] == [leak.name] * 2
        assert {labels[row] for row in leak.rows} == set(leak.labels)
    text = describe_leakage(leaks)
    if count:
        assert text.startswith(f"{count} molecules are in more than one subset of the split, {2 * count} rows")
        assert text.count(", rows ") == 3
        assert text.endswith("; ...)" if count > 3 else ")")
    else:
        assert text == "no molecule is in more than one subset of the split"


@pytest.mark.parametrize("seed", range(3, 10))
def test_the_bundled_random_splits_of_esol_are_reproduced(esol, seed):
    chem = pytest.importorskip("molattn.chem")
    keys = [chem.canonical_smiles(chem.read_smiles(smiles)) for smiles in esol]
    carried = read_bundled_split(f"random{seed}", esol)
    assert np.array_equal(carried, random_split(keys, seed=seed))
    assert find_leakage(keys, carried) == []


def test_the_bundled_balanced_scaffold_split_of_esol_is_reproduced(esol):
    chem = pytest.importorskip("molattn.chem")
    keys = [chem.canonical_smiles(chem.read_smiles(smiles)) for smiles in esol]
    carried = read_bundled_split("scaffold-balanced0", esol)
    ours = split_labels("scaffold-balanced", keys, np.zeros(len(keys)), (0.8, 0.1, 0.1), 0)
    assert np.array_equal(carried, ours)
    assert find_leakage(keys, carried) == []


def test_grouping_the_rows_of_a_molecule_leaves_no_leak(esol):
    for seed in range(5):
        assert find_leakage(esol, random_split(esol, seed=seed)) == []


def test_leakage_by_hand():
    leaks = find_leakage(["C", "O", "C", "O", "C"], ["test", "train", "train", "train", ""])
    assert leaks == [("C", ("train", "test"), (0, 2))]
    text = "1 molecule is in more than one subset of the split, 2 rows in all"
    assert describe_leakage(leaks) == f"{text} ('C' in train and test, rows 0, 2)"


def split_file(tmp_path, rows, columns=("smiles", "split")):
    path = tmp_path / "split.csv"
    write_table(path, columns, rows)
    return path


SMILES = ["C", "CC", "CCC", "O"]


def test_a_split_file_is_used_unchanged(tmp_path):
    path = split_file(tmp_path, list(zip(SMILES, ["Train", " valid ", "test", ""], strict=True)))
    assert read_split_file(path, SMILES).tolist() == ["train", "val", "test", ""]
    path = split_file(
        tmp_path, [("x", "validation", "C"), ("", "test", "C"), ("", "train", "C")], ("id", "split", "smiles")
    )
    assert read_split_file(path, ["C", "C", "C"]).tolist() == ["val", "test", "train"]


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        (
            [("C", "train"), ("OC", "val"), ("CCC", "test"), ("O", "")],
            InputError,
            r"line 3: row 1 \(from 0\) is 'OC', .* is 'CC'",
        ),
        (
            [("C", "train"), ("CCC", "test"), ("O", "val")],
            InputError,
            r"line 3: row 1 .*has 3 rows, the data 4",
        ),
        (
            [("C", "train"), ("CC", "test"), ("CCC", "val")],
            InputError,
            r"has 3 rows, the data 4; .*before row 3",
        ),
        ([(s, "train") for s in [*SMILES, "N"]], InputError, "has 5 rows, the data 4; .*before row 4"),
        (
            [(s, t) for s, t in zip(SMILES, ["train", "val", "dev", "test"], strict=True)],
            InputError,
            "line 4: column 'split' has 'dev'",
        ),
        (
            [(s, t) for s, t in zip(SMILES, ["train", "", "train", "test"], strict=True)],
            InputError,
            "no row is val",
        ),
        ([], InputError, "has 0 rows, the data 4"),
    ],
)
def test_a_split_file_that_does_not_fit_the_data(tmp_path, rows, error, message):
    with pytest.raises(error, match=message):
        read_split_file(split_file(tmp_path, rows), SMILES)


def test_a_split_file_without_its_columns(tmp_path):
    path = split_file(tmp_path, [("C", "train")], ("smiles", "fold"))
    with pytest.raises(UsageError, match="has no column 'split'"):
        read_split_file(path, ["C"])


def test_a_split_column_is_used_unchanged(tmp_path):
    path = split_file(tmp_path, list(zip(SMILES, ["train", "valid", " Test", ""], strict=True)), ("smiles", "set"))
    assert read_split_column(read_table(path), "set").tolist() == ["train", "val", "test", ""]
    path = split_file(tmp_path, [("C", "train"), ("CC", "dev")], ("smiles", "set"))
    with pytest.raises(InputError, match="line 3: column 'set' has 'dev'; it must be train, val, test"):
        read_split_column(read_table(path), "set")
    with pytest.raises(UsageError, match="has no column 'split'"):
        read_split_column(read_table(path), "split")


def test_the_tables_of_splits():
    assert list(SPLITS) == ["random", "scaffold", "scaffold-balanced", "cluster", "kennard-stone"]
    assert list(SPLITS_BY_TARGET) == ["stratified"]
    for name in (*SPLITS, *SPLITS_BY_TARGET):
        labels = split_labels(name, ["C", "C1CC1", "N1CCC1", "c1ccccc1"], np.arange(4.0), (0.5, 0.25, 0.25), 0)
        assert set(labels) == set(SPLIT_LABELS)
    with pytest.raises(UsageError, match="choose one of random, scaffold, .*, stratified"):
        split_labels("temporal", ["C"], np.zeros(1), (0.8, 0.1, 0.1), 0)


def test_large_scaffolds_are_in_train_and_others_are_assigned_at_random():
    keys = [f"a-{k}" for k in range(60)] + [f"{c}-{k}" for c in "bcdefghijk" for k in range(4)]
    found = [scaffold_balanced_split(keys, seed=seed, scaffold_of=initial) for seed in range(12)]
    assert all(set(labels[:60]) == {"train"} for labels in found)
    assert all([int((labels == side).sum()) for side in SPLIT_LABELS] == [80, 8, 12] for labels in found)
    assert len({tuple(labels) for labels in found}) > 8
