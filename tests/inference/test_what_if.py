"""What-if: changes compared with the predictions, intervals with a simulation, and invalid arguments."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rdkit import Chem

import molattn
from molattn.chem import matched_pairs, measured_effects, structural_alerts, substituent_scan
from molattn.errors import SmilesError, UsageError
from molattn.inference import WhatIf, variant_page
from molattn.inference.measured_pairs import CALIBRATED_MODEL, MOLECULES, PAIRS, TEST, TRAIN, MeasuredTable
from molattn.inference.measured_tables import data_table, table_of_run
from molattn.inference.trade_offs import Property, TradeOffs, pareto_front, predict_trade_offs
from molattn.inference.what_if import WhatIfOptions
from tests.molecules import esol
from tests.viewer.test_page import content

SMALL = {"num_layers": 1, "hidden_dim": 16, "num_heads": 2, "edge_dim": 4, "epochs": 2, "base": "none", "quiet": True}
PARENT = "Cc1ccccc1O"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models of one and of two numbers, of classes, and a calibrated one; half of the molecules are held out."""
    folder = tmp_path_factory.mktemp("runs")
    smiles, y = esol(280)
    rows = [f"{s},{v},{-v},{int(v > -3)},{10.0**v},{10.0 ** (6 - v)}" for s, v in zip(smiles, y, strict=True)]
    (folder / "t.csv").write_text("\n".join(["smiles,y,z,active,solubility [M],IC50 [nM]", *rows]) + "\n")
    half = {"split_sizes": (0.5, 0.25, 0.25)}
    for name, options in {
        "one": {"target_columns": ["y"], **half},
        "two": {"target_columns": ["y", "z"], **half},
        "classes": {"target_columns": ["active"]},
        "calibrated": {"target_columns": ["y"], "calibration_size": 0.3},
        "log": {"target_columns": ["solubility [M]"], "target_transform": "log10", **half},
        "log calibrated": {"target_columns": ["solubility [M]"], "target_transform": "log10", "calibration_size": 0.3},
        "pIC50": {"target_columns": ["IC50 [nM]"], "target_transform": "neg-log10-molar", **half},
    }.items():
        molattn.train(folder / "t.csv", output_dir=folder / name, accelerator="cpu", **SMALL, **options)
    return folder


@pytest.fixture(scope="module")
def found(runs: Path) -> WhatIf:
    return molattn.load(runs / "one").what_if(PARENT, level=0.8)


def test_changes_are_differences_of_predictions(runs: Path, found: WhatIf) -> None:
    predictor = molattn.load(runs / "one")
    y = predictor.predict([PARENT, *(row.variant.smiles for row in found.rows)])
    assert found.prediction == pytest.approx(y[0], rel=1e-5)
    assert [row.prediction for row in found.rows] == pytest.approx(y[1:].tolist(), rel=1e-4, abs=1e-5)
    assert [row.change for row in found.rows] == pytest.approx((y[1:] - y[0]).tolist(), rel=1e-3, abs=1e-4)
    changes = [row.change for row in found.rows]
    assert changes == sorted(changes, reverse=True)
    assert {v.smiles for v in substituent_scan(PARENT)} <= {row.variant.smiles for row in found.rows}
    assert {row.variant.kind for row in found.rows} == {"scan", "ring nitrogen", "matched pair"}


def test_the_other_goal_is_the_other_order(runs: Path, found: WhatIf) -> None:
    low = molattn.load(runs / "one").what_if(Chem.MolFromSmiles(PARENT), level=0.8, goal="minimize")
    assert [row.change for row in low.rows] == sorted(row.change for row in low.rows)
    best, worst = found.atom_changes()
    for a, b in zip(low.atom_changes(), (worst, best), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)
    for i in range(8):
        at = [row.change for row in found.rows if i in row.variant.atoms]
        assert (best[i], worst[i]) == pytest.approx((max(at), min(at)) if at else (np.nan, np.nan), nan_ok=True)


def test_each_atom_has_a_change_and_without_variants_it_is_nan(found: WhatIf) -> None:
    for rows in ((), found.rows[:1], found.rows):
        for changes in replace(found, rows=rows).atom_changes():
            assert np.flatnonzero(np.isfinite(changes)).tolist() == sorted({i for r in rows for i in r.variant.atoms})
            assert len(changes) == Chem.MolFromSmiles(PARENT).GetNumAtoms()


def test_a_negative_number_of_best_variants_is_an_error(found: WhatIf) -> None:
    assert found.best(0) == () and found.best(len(found.rows) + 1) == found.rows
    with pytest.raises(UsageError, match="^n, the number of variants, is at least 0, not -1$"):
        found.best(-1)


def test_rows_have_the_domain_and_the_measured_effect(runs: Path, found: WhatIf) -> None:
    predictor = molattn.load(runs / "one")
    table = table_of_run(predictor, "y")
    assert table is not None
    effects = measured_effects(matched_pairs(table.smiles), table.values)
    options = molattn.inference.PredictionOptions(applicability=True)
    flags = [
        row.extra_values[-1] for row in predictor.predict_rows([r.variant.smiles for r in found.rows], options=options)
    ]
    for row, flag in zip(found.rows, flags, strict=True):
        assert row.in_domain == (flag == "no")
        assert row.effect == (effects.get(row.variant.transform) if row.variant.transform else None)
        if row.variant.kind == "matched pair":
            assert row.effect is not None and row.effect.count >= 3
        assert row.alerts == structural_alerts([row.variant.smiles])[0]
        assert set(row.new_alerts) == set(row.alerts) - set(structural_alerts([PARENT])[0])
        assert row.accessibility is not None and 1 <= row.accessibility <= 10
        assert row.sure == (row.lower > 0 or row.upper < 0)
        assert row.lower < row.change < row.upper
    assert found.best(5, in_domain=True) == tuple(row for row in found.rows if row.in_domain)[:5]
    frame = found.to_frame()
    assert frame["smiles"].to_pylist() == [row.variant.smiles for row in found.rows]
    assert frame["y_change_upper"].to_pylist() == [row.upper for row in found.rows]


def simulated(rng: np.random.Generator, error: float = 0.5) -> MeasuredTable:
    """ESOL molecules with labels that a model predicts with errors of which a part is shared by similar molecules."""
    smiles, y = esol(300)
    values = np.array(y, dtype=float)
    splits = rng.permutation(np.repeat([TRAIN, "val", TEST], 100))
    return MeasuredTable("a simulation", smiles, values, values + rng.normal(0, error, len(values)), splits)


def test_intervals_have_their_nominal_coverage() -> None:
    rng = np.random.default_rng(0)
    base = simulated(rng)
    pairs = base.pairs
    coverage = []
    for _ in range(60):
        table = simulated(rng)
        table.__dict__["pairs"] = pairs  # the same molecules, whose pairs need not be found again
        agreement = table.agreement(0.8)
        assert agreement is not None
        coverage.append(agreement.coverage)
        assert agreement.r > 0.5
    assert 0.76 <= np.mean(coverage) <= 0.92


def test_each_held_out_molecule_has_the_same_weight() -> None:
    table = simulated(np.random.default_rng(1))
    for known in (True, False):
        measured, predicted, weights, molecules = table.changes(("val",), known)
        assert weights.sum() == pytest.approx(molecules)
        half = table.half_width(known, 0.8)
        assert half.source == PAIRS
        inside = np.abs(measured - predicted) <= half.value
        share = weights[inside].sum() / weights.sum()
        assert 0.8 * (1 + 1 / molecules) <= share + 1e-9
        tighter = np.abs(measured - predicted) < half.value
        assert weights[tighter].sum() / weights.sum() < 0.8 * (1 + 1 / molecules)


def test_few_pairs_are_replaced_by_a_wider_interval_of_single_molecules() -> None:
    table = simulated(np.random.default_rng(2))
    alone = replace(table)
    alone.__dict__["pairs"] = []
    half = alone.half_width(True, 0.8)
    assert half.source == MOLECULES
    errors = np.sort(np.abs(table.values - table.predictions)[table.splits == "val"])
    assert half.value == pytest.approx(2 * errors[int(np.ceil(101 * 0.9)) - 1])
    assert half.value > table.half_width(True, 0.8).value
    few = replace(alone, splits=np.where(np.arange(300) < 5, "val", TRAIN))
    few.__dict__["pairs"] = []
    with pytest.raises(UsageError, match=r"5 measured molecules .*too few for an interval of 0\.9: give --level 0\.66"):
        few.half_width(True, 0.9)
    assert few.half_width(True, 0.66).source == MOLECULES
    assert few.agreement(0.66) is None


def test_a_molecule_of_the_training_set_is_known_with_its_value(runs: Path) -> None:
    predictor = molattn.load(runs / "one")
    table = table_of_run(predictor, "y")
    assert table is not None
    for split, known in ((TRAIN, True), (TEST, False)):
        i = int(np.flatnonzero(table.splits == split)[3])
        result = predictor.what_if(table.smiles[i], level=0.7)
        assert result.known == known
        assert result.measured == pytest.approx(table.values[i])
        assert result.rows[0].upper - result.rows[0].lower == pytest.approx(2 * table.half_width(known, 0.7).value)


def test_boosted_trees_know_the_validation_molecules_too(runs: Path) -> None:
    pytest.importorskip("lightgbm")
    options = {"target_columns": ["y"], "split_sizes": (0.5, 0.25, 0.25), "with_trees": True}
    molattn.train(runs / "t.csv", output_dir=runs / "trees", accelerator="cpu", **SMALL, **options)
    for name, knows_val in (("one", False), ("trees", True)):
        predictor = molattn.load(runs / name)
        table = table_of_run(predictor, "y")
        assert table is not None
        smiles = table.smiles[int(np.flatnonzero(table.splits == "val")[3])]
        assert predictor.what_if(smiles, level=0.7).known == knows_val


def test_a_model_without_its_table_has_wider_intervals_or_none(runs: Path, tmp_path: Path) -> None:
    molattn.load(runs / "calibrated").save(tmp_path / "calibrated")
    predictor = molattn.load(tmp_path / "calibrated")
    result = predictor.what_if(PARENT, level=0.6)
    assert result.source == CALIBRATED_MODEL
    assert result.known is None  # a molecule of the training set may be one that it cannot know of
    assert "not measured" in result.agreement_text
    low, high = predictor.predict_interval([PARENT, result.rows[0].variant.smiles], level=0.8)
    assert result.rows[0].lower == pytest.approx(low[1] - high[0], rel=1e-3)
    assert result.rows[0].upper == pytest.approx(high[1] - low[0], rel=1e-3)
    molattn.load(runs / "one").save(tmp_path / "one")
    with pytest.raises(UsageError, match="nothing is known about the uncertainty of a change"):
        molattn.load(tmp_path / "one").what_if(PARENT)


def test_another_table_keeps_the_split_of_the_run(runs: Path) -> None:
    predictor = molattn.load(runs / "one")
    own = table_of_run(predictor, "y")
    assert own is not None
    table = data_table(predictor, runs / "t.csv", "y")
    assert table.splits.tolist() == own.splits.tolist()
    assert table.predictions == pytest.approx(own.predictions, rel=1e-4, abs=1e-4)
    smiles, y = zip(*[(s, v) for s, v in zip(*esol(1128), strict=True) if s not in own.smiles][:30], strict=True)
    more = runs / "more.csv"
    more.write_text("\n".join(["smiles,solubility", *(f"{s},{v}" for s, v in zip(smiles, y, strict=True))]) + "\n")
    added = data_table(predictor, more, "y", target_column="solubility")
    assert set(added.splits.tolist()) == {"val", TEST}
    found = predictor.what_if(PARENT, level=0.5, data=more, target_column="solubility")
    assert found.rows


def test_without_splits_it_is_not_known_which_molecules_of_a_table_the_model_was_trained_on(
    runs: Path, tmp_path: Path
) -> None:
    for name in ("one", "calibrated"):
        molattn.load(runs / name).save(tmp_path / name)
    predictor = molattn.load(tmp_path / "one")
    table = data_table(predictor, runs / "t.csv", "y")
    assert not table.has_splits and set(table.splits.tolist()) == {""} and table.effects
    with pytest.raises(UsageError, match=r"no splits.csv that says which molecules of .*t.csv .* --data-unseen"):
        predictor.what_if(table.smiles[0], data=runs / "t.csv")
    found = predictor.what_if(table.smiles[0], level=0.8, data=runs / "t.csv", data_unseen=True)
    assert (found.known, found.source) == (False, PAIRS)
    found = molattn.load(tmp_path / "calibrated").what_if(table.smiles[0], level=0.6, data=runs / "t.csv")
    assert (found.known, found.source, found.measured) == (None, CALIBRATED_MODEL, pytest.approx(table.values[0]))


def test_no_other_variant_beats_one_of_the_front(runs: Path) -> None:
    predictor = molattn.load(runs / "two")
    goals = {"y": "maximize", "z": "maximize"}
    properties = [
        Property(name, predictor, WhatIfOptions(name, goal, 0.8), table_of_run(predictor, name))
        for name, goal in goals.items()
    ]
    found = predict_trade_offs(properties, PARENT)
    changes = np.array([[one.change for one in row] for row in found.rows])
    for mine, on_front in zip(changes, found.front, strict=True):
        beaten = [other for other in (*changes, np.zeros(2)) if (other >= mine).all() and (other > mine).any()]
        assert on_front == (not beaten)
    first = found.front.index(False)
    assert not any(found.front[first:])
    assert found.to_frame()["pareto_front"].to_pylist() == list(found.front)
    with pytest.raises(UsageError, match="same name"):
        predict_trade_offs([properties[0], properties[0]], PARENT)


def test_equal_rows_are_both_on_the_front() -> None:
    assert pareto_front(np.array([[1.0, 1.0], [1.0, 1.0], [0.0, 2.0], [0.0, 1.0]])).tolist() == [
        True,
        True,
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("run", "options", "message"),
    [
        ("classes", {}, "applies to numbers of molecules, and the model predicts classes"),
        ("two", {}, "several targets, y, z: choose one"),
        ("one", {"target": "t"}, "unknown target 't'"),
        ("one", {"goal": "up"}, "unknown goal 'up'"),
        ("one", {"level": 1.0}, "above 0 and below 1"),
        ("one", {"min_pairs": 0}, "at least 1 pair"),
        ("one", {"level": 0.999}, "too few for an interval"),
    ],
)
def test_invalid_arguments_are_refused(runs: Path, run: str, options: dict, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        molattn.load(runs / run).what_if(PARENT, **options)


def test_a_parent_is_one_molecule(runs: Path) -> None:
    predictor = molattn.load(runs / "one")
    with pytest.raises(TypeError, match="one molecule"):
        predictor.what_if([PARENT])
    with pytest.raises(SmilesError, match="ring"):
        predictor.what_if("C1CC")


def test_changes_of_a_target_with_a_transform_are_those_of_the_transform(runs: Path, found: WhatIf) -> None:
    predictor = molattn.load(runs / "log")
    result = predictor.what_if(PARENT, level=0.8)
    assert (result.unit, result.transform) == ("log10(M)", "log10")
    y = predictor.predict([PARENT, *(row.variant.smiles for row in result.rows)])
    assert result.prediction == pytest.approx(np.log10(y[0]), rel=1e-4)
    assert [row.change for row in result.rows] == pytest.approx(np.log10(y[1:] / y[0]).tolist(), rel=1e-3, abs=1e-4)
    # The same table in logarithms gives the same measured effects, and intervals of the same size.
    effects = {row.variant.smiles: row.effect for row in found.rows}
    for row in result.rows:
        expected = effects[row.variant.smiles]
        assert (row.effect is None) == (expected is None)
        if row.effect is not None and expected is not None:
            assert row.effect.mean == pytest.approx(expected.mean, abs=1e-6)
    assert 0.1 < result.rows[0].upper - result.rows[0].lower < 20
    frame = TradeOffs([result], ["solubility"]).to_frame()
    assert {"log10_solubility_pred", "log10_solubility_change"} <= set(frame.column_names)
    own, given = table_of_run(predictor, "solubility [M]"), data_table(predictor, runs / "t.csv", "solubility [M]")
    assert own is not None and own.values == pytest.approx(given.values, abs=1e-6)


def test_the_interval_of_a_calibrated_model_with_a_transform_is_a_factor(runs: Path, tmp_path: Path) -> None:
    molattn.load(runs / "log calibrated").save(tmp_path / "model")
    predictor = molattn.load(tmp_path / "model")
    result = predictor.what_if(PARENT, level=0.6)
    assert result.source == CALIBRATED_MODEL
    low, high = (np.log10(x) for x in predictor.predict_interval([PARENT, result.rows[0].variant.smiles], level=0.8))
    assert result.rows[0].lower == pytest.approx(low[1] - high[0], rel=1e-3)
    assert result.rows[0].upper == pytest.approx(high[1] - low[0], rel=1e-3)


@pytest.mark.parametrize("goal", ["maximize", "minimize"])
def test_a_transform_that_decreases_turns_the_goal(runs: Path, goal: str) -> None:
    predictor = molattn.load(runs / "pIC50")
    result = predictor.what_if(PARENT, level=0.8, goal=goal)
    y = predictor.predict([row.variant.smiles for row in result.rows])
    assert result.goal != goal and result.unit == "-log10(mol/L)"
    assert y.tolist() == sorted(y.tolist(), reverse=goal == "maximize")


def test_a_page_lists_the_best_and_the_worst_of_each_atom_and_then_the_first(runs: Path) -> None:
    predictor = molattn.load(runs / "two")
    goals = {"y": "maximize", "z": "maximize"}
    properties = [Property(t, predictor, WhatIfOptions(t, goal, 0.8), None) for t, goal in goals.items()]
    properties = [replace(p, table=table_of_run(predictor, p.name)) for p in properties]
    found = predict_trade_offs(properties, PARENT)
    for size in (1, 40, len(found.rows)):
        listed = found.listed(size)
        assert list(listed) == sorted(set(listed)) and len(listed) >= size
        for t, result in enumerate(found.results):
            shown = replace(result, rows=tuple(found.rows[k][t] for k in listed))
            for all_changes, shown_changes in zip(result.atom_changes(), shown.atom_changes(), strict=True):
                np.testing.assert_array_equal(shown_changes, all_changes)
    needed = set(found.listed(1))
    assert 1 < len(needed) < 40 == len(found.listed(40))
    others = [k for k in found.listed(40) if k not in needed]
    assert others == [k for k in range(len(found.rows)) if k not in needed][: len(others)]


def test_a_page_has_the_contributions_of_the_first_variants_and_of_the_best_of_each_atom(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    predictor = molattn.load(runs / "two")
    properties = [Property(t, predictor, WhatIfOptions(t, "maximize", 0.8), table_of_run(predictor, t)) for t in "yz"]
    found = predict_trade_offs(properties, PARENT)
    monkeypatch.setattr(variant_page, "NUM_EXPLAINED", 3)
    data = content(variant_page.variant_page(found, properties, 40))
    best, _ = found.rows_of_atoms()
    listed = found.listed(40)
    expected = [i < 3 or k in best for i, k in enumerate(listed)]
    assert 3 < sum(expected) < 40
    smiles = [found.rows[k][0].variant.smiles for k in listed]
    for t, target in enumerate("yz"):
        shown = [v["properties"][t] for v in data["variants"]]
        assert [v["computed"] for v in shown] == [v["values"] is not None for v in shown] == expected
        rows = list(predictor.attribution_rows([s for s, e in zip(smiles, expected, strict=True) if e], target=target))
        values = [v["values"] for v in shown if v["computed"]]
        for own, row in zip(values, rows, strict=True):
            assert own == pytest.approx(row.values.tolist(), rel=1e-3, abs=1e-5)
        parent = predictor.attributions(PARENT, target=target)
        assert data["properties"][t]["values"] == pytest.approx(parent.values.tolist(), rel=1e-3, abs=1e-5)
