"""Changes predicted by attributions, for edits and measured pairs; and the stability of attributions."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import pearsonr

from molattn.chem import molecule_graph
from molattn.explain.attributor import RANDOM, Attributor
from molattn.explain.changes_of_table import changes_of_table
from molattn.explain.estimates import bootstrap_weights, estimate_correlation, estimate_mean, squared
from molattn.explain.faithfulness import measure_faithfulness
from molattn.explain.measured_changes import GROW, SWAP, find_edits, score_edits, score_pairs
from molattn.explain.methods import METHODS, additive
from molattn.explain.terms import Terms
from molattn.models.predict import compute_outputs
from molattn.models.tasks import Binary
from tests.explain.test_attributions import artifact_of, model_of
from tests.molecules import esol

SMILES = [s for s in esol(120)[0] if "." not in s and molecule_graph(s).num_atoms > 4][:40]
TABLE = [s for s in esol(150)[0] if "." not in s]
MOLECULES = [molecule_graph(s) for s in SMILES]
# A model that sums independent atoms.
ARTIFACT = artifact_of(model_of(num_layers=0, readout="sum"))


def read(smiles):
    return [molecule_graph(s) for s in smiles]


def nothing(done: int) -> None:
    pass


def test_an_estimate_is_the_mean_or_r_within_its_interval():
    rng = np.random.default_rng(0)
    x = rng.normal(size=200)
    y = x + rng.normal(size=200)
    units = np.arange(200)[:, None]
    mean = estimate_mean(x, units, "edits")
    assert mean.value == pytest.approx(x.mean()) and mean.count == 200
    assert (mean.high - mean.low) / 2 == pytest.approx(1.96 * x.std() / np.sqrt(200), rel=0.15)
    r = estimate_correlation(x, y, units, "edits")
    assert r.value == pytest.approx(pearsonr(x, y).statistic) and r.low < r.value < r.high
    assert squared(r).value == pytest.approx(r.value**2)
    assert squared(estimate_correlation(x, -y, units, "edits")).value == 0.0
    assert estimate_correlation(np.ones(20), y[:20], units[:20], "edits").value == 0.0


def test_too_few_changes_give_no_estimate_but_a_reason():
    few = estimate_mean(np.ones(9), np.arange(9)[:, None], "pairs")
    assert (few.value, few.low, few.count, few.why) == (None, None, 9, "9 pairs, under 10")
    assert estimate_mean(np.ones(10), np.arange(10)[:, None], "pairs").value == 1.0


def test_without_any_change_there_is_no_estimate():
    attributor = Attributor(ARTIFACT, ("additive",), 0)
    (edits, pairs) = score_edits(attributor, {SWAP: []}, nothing), score_pairs(attributor, [], nothing)
    assert edits["additive"]["swap_sign"].why == "0 edits that change enough, under 10"
    assert (edits["additive"]["swap_r"].why, pairs["additive"]["pair_r2"].why) == (
        "0 edits, under 10",
        "0 pairs, under 10",
    )


def test_a_pair_counts_as_often_as_both_of_its_molecules():
    units = np.array([[0, 1], [1, 2], [0, 0]])
    w = bootstrap_weights(units)
    # Of 3 molecules drawn 3 times: E[n_0 n_1] = 3 * 2 / 9, E[n_0^2] = 1 + 6 / 9.
    assert w.mean(0) == pytest.approx([2 / 3, 2 / 3, 5 / 3], abs=0.15)


def test_terms_of_a_model_that_adds_up_atoms_predict_their_removal_and_exchange():
    outputs = [0] * len(MOLECULES)
    changes = find_edits(ARTIFACT, MOLECULES, outputs, 30, 0)
    assert all(changes[name] for name in (SWAP, GROW)) and all(len(c) <= 30 for c in changes.values())
    for c in (*changes[SWAP], *changes[GROW]):
        after, before = compute_outputs(ARTIFACT.model, [c.second, c.first])[:, 0]
        assert c.change == pytest.approx(after - before, abs=1e-6)
    found = score_edits(Attributor(ARTIFACT, ("additive",), 0), {SWAP: changes[SWAP]}, nothing)
    right = found["additive"]["swap_sign"], found["additive"]["swap_r"]
    # The numbers of hydrogens and bonds of the neighbours change with them.
    assert right[0].value > 0.7 and right[1].value > 0.7 and right[0].low <= right[0].value <= right[0].high
    assert right[1].count == len(changes[SWAP])


def test_a_method_with_its_signs_reversed_predicts_the_reverse(monkeypatch):
    arguments = {"max_edits": 30, "deletion": False, "methods": ("additive",)}
    right = measure_faithfulness(ARTIFACT, MOLECULES, **arguments).methods["additive"].measures
    method = METHODS["additive"]
    wrong_way = replace(method, compute=lambda *x: Terms(-method.compute(*x).values))
    monkeypatch.setitem(METHODS, "additive", wrong_way)
    wrong = measure_faithfulness(ARTIFACT, MOLECULES, **arguments).methods["additive"].measures
    assert wrong["swap_r"].value == pytest.approx(-right["swap_r"].value)
    assert wrong["swap_sign"].value == pytest.approx(1 - right["swap_sign"].value)


def test_a_method_is_not_evaluated_by_its_own_edit_and_weights_have_no_sign():
    artifact = artifact_of(model_of())
    found = measure_faithfulness(
        artifact, MOLECULES[:12], max_edits=12, methods=("fragment-shapley", "additive", "attention")
    ).methods
    own = found["fragment-shapley"].measures
    assert (own["grow_sign"].value, own["grow_sign"].why) == (None, "its own edit")
    assert own["deletion"].value is not None and own["swap_r"].why != "its own edit"
    assert found["additive"].measures["grow_sign"].why != "its own edit"
    assert found["attention"].measures["grow_sign"].why == "no sign"
    assert found["attention"].measures["grow_r"].value is not None


def test_pairs_are_those_with_a_held_out_molecule_and_their_measured_changes():
    values = [float(additive(ARTIFACT.model, molecule_graph(s), 0).values.sum()) for s in TABLE]
    cells = [repr(v) for v in values]
    cells[5] = ""
    held_out = np.arange(len(TABLE)) % 2 == 0
    pairs = changes_of_table(ARTIFACT, read, TABLE, cells, held_out, None, 1000)
    assert len(pairs) >= 10
    for pair in pairs:
        i, j = pair.units
        assert 5 not in (i, j) and (held_out[i] or held_out[j])
        assert pair.change == pytest.approx(values[j] - values[i])
    assert len(changes_of_table(ARTIFACT, read, TABLE, cells, held_out, None, 4)) == 4
    assert not changes_of_table(ARTIFACT, read, TABLE, cells, np.zeros(len(TABLE), dtype=bool), None, 100)
    found = score_pairs(Attributor(ARTIFACT, ("additive",), 0), pairs, nothing)
    assert found["additive"]["pair_r2"].value > 0.5 > found[RANDOM]["pair_r2"].value
    few = score_pairs(Attributor(ARTIFACT, ("additive",), 0), pairs[:3], nothing)
    assert few["additive"]["pair_r2"].why == "3 pairs, under 10"


def test_measured_classes_are_1_for_the_explained_one():
    artifact = artifact_of(model_of(num_layers=0, readout="sum"), ("y",), Binary(classes=(("no", "yes"),)))
    names = ["yes" if i % 3 else "no" for i in range(len(TABLE))]
    pairs = changes_of_table(artifact, read, TABLE, names, np.ones(len(TABLE), dtype=bool), None, 1000)
    numbers = ["1.0" if name == "yes" else "0.0" for name in names]
    again = changes_of_table(artifact, read, TABLE, numbers, np.ones(len(TABLE), dtype=bool), None, 1000)
    assert [p.change for p in pairs] == [p.change for p in again] and {p.change for p in pairs} <= {-1.0, 0.0, 1.0}
    assert any(p.change for p in pairs)


def test_another_spelling_changes_nothing_noise_a_little_and_another_model_much():
    model, other = model_of(), model_of()
    for p in other.parameters():
        p.add_(p.std() * p.new_tensor(np.random.default_rng(1).normal(size=tuple(p.shape))) if p.numel() > 1 else 0.0)
    artifact = replace(artifact_of(model), other_models=(other,))
    found = measure_faithfulness(
        artifact, MOLECULES[:12], max_stability=12, deletion=False, methods=("additive", "occlusion")
    ).methods
    for name in ("additive", "occlusion"):
        m = found[name].measures
        assert m["spelling"].value == pytest.approx(1, abs=1e-4)
        assert m["seed"].value < m["noise"].value < 1 and m["noise"].value > 0.9
        assert m["noise"].low <= m["noise"].value <= m["noise"].high and m["noise"].count == 12
    assert abs(found[RANDOM].measures["spelling"].value) < 0.5
    alone = measure_faithfulness(
        artifact_of(model), MOLECULES[:10], max_stability=10, deletion=False, methods=("additive",)
    )
    assert alone.methods["additive"].measures["seed"].why == "one model"
