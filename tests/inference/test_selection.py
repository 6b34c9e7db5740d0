"""Selection from a pool: what each strategy chooses, against other implementations, and what cannot be selected."""

from pathlib import Path

import numpy as np
import pytest
from rdkit import Chem, DataStructs
from scipy import integrate, stats

import molattn
from molattn.chem import morgan_bits
from molattn.chem.diversity import select_diverse
from molattn.errors import MolattnWarning, UsageError
from molattn.inference.selection import (
    Selection,
    SelectionOptions,
    entropy,
    expected_improvement,
    select_highest,
)
from tests.molecules import esol

SMALL = {"num_layers": 1, "hidden_dim": 16, "num_heads": 2, "edge_dim": 4, "epochs": 2, "base": "none", "quiet": True}
POOL = esol(120)[0][60:]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An ensemble for numbers, one for two classes, one model without standard deviations, one of two targets."""
    folder = tmp_path_factory.mktemp("runs")
    smiles, y = esol(60)
    values = [float(value) for value in y]
    rows = [f"{s},{v},{-v},{int(v > -3)},{10 ** (6 - v)}" for s, v in zip(smiles, values, strict=True)]
    (folder / "t.csv").write_text("\n".join(["smiles,y,z,active,IC50 [nM]", *rows]) + "\n")
    for name, options in {
        "numbers": {"target_columns": ["y"], "ensemble_size": 3},
        "classes": {"target_columns": ["active"]},
        "plain": {"target_columns": ["y"]},
        "two": {"target_columns": ["y", "z"], "ensemble_size": 2},
        "log10": {"target_columns": ["IC50 [nM]"], "ensemble_size": 2, "target_transform": "log10"},
        "pIC50": {"target_columns": ["IC50 [nM]"], "ensemble_size": 2, "target_transform": "neg-log10-molar"},
    }.items():
        molattn.train(folder / "t.csv", output_dir=folder / name, accelerator="cpu", **SMALL, **options)
    return folder


def test_expected_improvement_is_the_integral_of_the_improvement() -> None:
    mean, std = np.array([-1.0, 0.3, 2.5]), np.array([0.5, 1.2, 0.01])
    for goal, sign in (("maximize", 1), ("minimize", -1)):
        found = expected_improvement(mean, std, 0.4, goal)
        for i in range(3):
            normal = stats.norm(mean[i], std[i])

            def improvement(y: float, normal: object = normal, sign: int = sign) -> float:
                return max(sign * (y - 0.4), 0.0) * normal.pdf(y)  # pyright: ignore[reportAttributeAccessIssue]

            ends = mean[i] - 9 * std[i], mean[i] + 9 * std[i]
            expected = integrate.quad(improvement, *ends, points=[0.4] if ends[0] < 0.4 < ends[1] else None, limit=200)[
                0
            ]
            assert found[i] == pytest.approx(expected, abs=1e-6)
    assert expected_improvement(np.array([3.0, 1.0]), np.zeros(2), 2.0).tolist() == [1.0, 0.0]


def test_entropy_is_that_of_scipy() -> None:
    p = np.random.default_rng(0).dirichlet([0.5, 0.5, 0.5], 20)
    p[0] = [1, 0, 0]
    assert entropy(p) == pytest.approx(stats.entropy(p, axis=1))


def test_the_highest_scores_come_first_and_nan_never() -> None:
    scores = np.array([0.5, np.nan, 2.0, 0.5, -1.0])
    assert select_highest(scores, 3).tolist() == [2, 0, 3]
    assert select_highest(scores, 10).tolist() == [2, 0, 3, 4]


def test_diverse_molecules_are_the_farthest_from_all_before() -> None:
    bits, known = morgan_bits(POOL), morgan_bits(esol(60)[0])
    rows, distances = select_diverse(bits, known, 8)
    vectors = [
        DataStructs.CreateFromBitString("".join(map(str, np.unpackbits(b)))) for b in np.concatenate([known, bits])
    ]
    similarity = np.array([DataStructs.BulkTanimotoSimilarity(v, vectors) for v in vectors])
    before = list(range(len(known)))
    for row, distance in zip(rows + len(known), distances, strict=True):
        nearest = 1 - similarity[len(known) :, before].max(1)
        nearest[[b - len(known) for b in before[len(known) :]]] = -1
        assert distance == pytest.approx(nearest.max())
        assert distance == pytest.approx(nearest[row - len(known)])
        before.append(row)
    assert len(set(rows.tolist())) == 8


def test_diverse_without_known_molecules_begins_at_random() -> None:
    bits = morgan_bits(POOL)
    rows, distances = select_diverse(bits, bits[:0], 100)
    assert sorted(rows.tolist()) == list(range(len(POOL)))
    assert distances[0] == 1
    assert (np.diff(distances) <= 1e-12).all()
    assert {int(select_diverse(bits, bits[:0], 1, seed)[0][0]) for seed in range(1, 9)} != {int(rows[0])}


def test_uncertainty_selects_the_largest_standard_deviations(runs: Path) -> None:
    predictor = molattn.load(runs / "numbers")
    selection = predictor.select(POOL, 5)
    _, std = predictor.predict(POOL, return_std=True)
    assert isinstance(selection, Selection)
    assert selection.scores == pytest.approx(np.sort(std)[::-1][:5])
    assert selection.scores == pytest.approx(std[selection.rows])
    assert [p.smiles for p in selection.predictions] == [POOL[i] for i in selection.rows]


def test_expected_improvement_of_a_model(runs: Path) -> None:
    predictor = molattn.load(runs / "numbers")
    selection = predictor.select(POOL, 4, strategy="expected-improvement", best=-2.5, goal="minimize")
    mean, std = predictor.predict(POOL, return_std=True)
    z = (-2.5 - mean) / std
    improvement = (-2.5 - mean) * stats.norm.cdf(z) + std * stats.norm.pdf(z)
    assert selection.rows.tolist() == np.argsort(-improvement, kind="stable")[:4].tolist()
    assert selection.scores == pytest.approx(np.sort(improvement)[::-1][:4])


@pytest.mark.parametrize("name", ["log10", "pIC50"])
def test_a_target_with_a_transform_is_scored_in_its_logarithm(runs: Path, name: str) -> None:
    predictor = molattn.load(runs / name)
    members = np.log10([member.predict(POOL) for member in predictor.members])
    std = members.std(0)
    found = predictor.select(POOL, 5)
    assert found.scores == pytest.approx(np.sort(std)[::-1][:5], rel=1e-3)
    # The lowest IC50 is the highest pIC50.
    found = predictor.select(POOL, 4, strategy="expected-improvement", best=1e5, goal="minimize")
    mean = np.log10(predictor.predict(POOL))
    z = (5.0 - mean) / std
    improvement = (5.0 - mean) * stats.norm.cdf(z) + std * stats.norm.pdf(z)
    assert found.scores == pytest.approx(np.sort(improvement)[::-1][:4], rel=0.02)
    with pytest.raises(UsageError, match="best: -1 has no logarithm"):
        predictor.select(POOL, 4, strategy="expected-improvement", best=-1.0)


def test_classes_are_selected_by_entropy(runs: Path) -> None:
    predictor = molattn.load(runs / "classes")
    p = predictor.predict(POOL)
    selection = predictor.select(POOL, 6)
    assert selection.rows.tolist() == np.argsort(abs(p - 0.5), kind="stable")[:6].tolist()
    assert selection.scores == pytest.approx(stats.entropy(np.stack([p, 1 - p]), axis=0)[selection.rows])


def test_diverse_needs_no_standard_deviations(runs: Path) -> None:
    predictor = molattn.load(runs / "plain")
    selection = predictor.select([Chem.MolFromSmiles(s) for s in POOL], 3, strategy="diverse")
    known = predictor._artifact.domain
    assert known is not None
    assert selection.rows.tolist() == select_diverse(morgan_bits(POOL), known.bits, 3)[0].tolist()


def test_rows_that_cannot_be_read_are_not_selected(runs: Path) -> None:
    pool = ["C1CC", *POOL[:5], "nonsense", ""]
    for strategy in ("uncertainty", "diverse"):
        with pytest.warns(MolattnWarning, match=r"3 of 8 SMILES have no prediction .*row 0, 'C1CC'"):
            selection = molattn.load(runs / "numbers").select(pool, 100, strategy=strategy)
        assert sorted(selection.rows.tolist()) == [1, 2, 3, 4, 5]
        assert selection.failed == (0, 6, 7)
        assert len(selection.errors) == 3


@pytest.mark.parametrize(
    ("run", "options", "message"),
    [
        ("plain", {}, "needs standard deviations, and the model has none: train with --ensemble-size 5"),
        ("numbers", {"strategy": "expected-improvement"}, "needs the best value measured so far"),
        ("numbers", {"best": 1.0}, "best applies only to expected-improvement"),
        ("numbers", {"strategy": "greedy"}, "unknown strategy 'greedy'"),
        ("numbers", {"goal": "max"}, "unknown goal 'max'"),
        ("numbers", {"target": "t"}, "unknown target 't'"),
        ("two", {}, "the model has several targets, y, z: choose one"),
        ("classes", {"strategy": "expected-improvement", "best": 1.0}, "applies only to regression"),
    ],
)
def test_invalid_arguments_are_refused(runs: Path, run: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        molattn.load(runs / run).select(POOL[:3], 2, **options)  # pyright: ignore[reportArgumentType]
    with pytest.raises(UsageError, match="at least 1"):
        SelectionOptions(0)
    with pytest.raises(UsageError, match=r"whole number .* at least 1, not 1\.5"):
        SelectionOptions(1.5)  # pyright: ignore[reportArgumentType]
    assert SelectionOptions(np.int64(2)).size == 2  # pyright: ignore[reportArgumentType]


def test_one_of_several_targets(runs: Path) -> None:
    predictor = molattn.load(runs / "two")
    _, std = predictor.predict(POOL, return_std=True)
    for t, target in enumerate(["y", "z"]):
        assert predictor.select(POOL, 2, target=target).scores == pytest.approx(np.sort(std[:, t])[::-1][:2])
