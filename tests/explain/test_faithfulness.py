"""The scores of faithfulness for attributions of known quality, and their file in a run folder."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from molattn.chem import atom_contributions, molecule_graph
from molattn.errors import MolattnWarning, UsageError
from molattn.explain import faithfulness
from molattn.explain.accuracy import attribution_accuracy, sign_agreement
from molattn.explain.faithfulness import (
    FRACTIONS,
    RANDOM,
    _deletion_curves,
    measure_faithfulness,
)
from molattn.explain.faithfulness_file import FILE, read_summaries, write_faithfulness
from molattn.explain.methods import additive, random_attributions
from molattn.inference import Predictor
from molattn.models.artifact_file import save_artifact
from tests.explain.test_attributions import artifact_of, model_of
from tests.molecules import esol

# The methods that need no attention layer.
PLAIN = ("additive", "occlusion", "integrated-gradients", "cam")
SMILES = [s for s in esol(60)[0] if molecule_graph(s).num_atoms > 5][:20]


@pytest.fixture(scope="module")
def molecules():
    return [molecule_graph(s) for s in SMILES]


@pytest.fixture(scope="module")
def adds_up():
    """A model that sums independent atoms: its own terms are the ground truth."""
    return artifact_of(model_of(num_layers=0, readout="sum"))


@pytest.fixture(scope="module")
def found(adds_up, molecules):
    return measure_faithfulness(
        adds_up, molecules, true_contributions=lambda m: 2 * additive(adds_up.model, m, 0).values, methods=PLAIN
    )


def test_accuracy_is_1_at_any_scale_and_minus_1_for_its_negative():
    truth = np.array([0.5, -2.0, 0.1, 0.1, 1.5])
    for values in (truth, 1e6 * truth, 1e-9 * truth):
        assert attribution_accuracy(values, truth) == pytest.approx((1, 1, 1))
    kendall, pearson, auroc = attribution_accuracy(-truth, truth)
    assert (kendall, pearson, auroc) == pytest.approx((-1, -1, 1))


def test_signs_by_hand():
    effects = np.array([2.0, -1.0, 0.5, -0.5, 0.019, 0.0])
    # The last two are below 1% of the largest; a value of 0, also but for rounding, has no sign.
    assert sign_agreement(np.array([1.0, -9.0, 2.0, -3.0, -1.0, 1.0]), effects) == 1.0
    assert sign_agreement(np.array([1.0, 9.0, 0.0, -3.0, 1.0, 1.0]), effects) == 0.5
    assert sign_agreement(np.array([1.0, -9.0, 1e-9, -3.0, 1.0, 1.0]), effects) == 0.75
    assert sign_agreement(-effects, effects) == 0.0
    assert sign_agreement(np.ones(6), np.zeros(6)) is None
    assert sign_agreement(np.zeros(6), effects) == 0.0


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_signs_do_not_depend_on_the_unit_of_the_effects(unit):
    effects = unit * np.array([2.0, -1.0, 0.5, -0.5])
    assert sign_agreement(np.array([1.0, 9.0, 0.0, -3.0]), effects) == 0.5


def test_signs_count_above_a_hundredth_of_the_largest_effect():
    values = np.array([1.0, -1.0])
    assert sign_agreement(values, np.array([100.0, 1.0])) == 1.0
    assert sign_agreement(values, np.array([100.0, 1.001])) == 0.5


def test_signs_are_those_of_the_truth(adds_up, molecules, found):
    assert found.methods["additive"].sign == found.methods["occlusion"].sign == 1.0
    assert 0.3 < found.methods[RANDOM].sign < 0.7
    negative = measure_faithfulness(
        adds_up,
        molecules[:3],
        true_contributions=lambda m: -additive(adds_up.model, m, 0).values,
        methods=("additive",),
    )
    assert (negative.methods["additive"].sign, negative.methods["additive"].kendall) == (0.0, pytest.approx(-1))
    assert negative.methods[RANDOM].deletion_ratio == pytest.approx(1)


def test_without_truth_there_are_no_signs_and_deletion_is_not_measured_for_occlusion(molecules):
    found = measure_faithfulness(artifact_of(model_of()), molecules, methods=("occlusion", "cam", "attention"))
    assert all(m.sign is None for m in found.methods.values())
    own = found.methods["occlusion"].measures["deletion"]
    assert (own.value, own.why, own.count) == (None, "its own edit", len(molecules))
    cam = found.methods["cam"]
    assert cam.measures["deletion"].value == pytest.approx(cam.deletion_ratio)
    assert cam.measures["deletion"].low <= cam.deletion_ratio <= cam.measures["deletion"].high


def test_accuracy_by_hand():
    # Pairs: three agree, one does not, two are ties of the truth: (3 - 1) / sqrt(6 * 4) = 0.408; sizes above the mean
    # of 1 are those of the first atom alone, which the second outranks: AUROC 2/3.
    kendall, _, auroc = attribution_accuracy(np.array([3.0, 4.0, 1.0, 2.0]), np.array([2.0, 1.0, 0.5, 0.5]))
    assert kendall == pytest.approx((4 - 1) / np.sqrt(6 * 5))
    assert auroc == pytest.approx(2 / 3)


def test_constant_values_have_no_correlation():
    assert attribution_accuracy(np.ones(4), np.array([1.0, 2.0, 3.0, 4.0])) == (0.0, 0.0, 0.5)
    assert attribution_accuracy(np.zeros(2), np.array([1.0, -1.0])) == (0.0, 0.0, 0.5)


def test_equivalent_atoms_are_ties_despite_rounding_errors():
    values = np.array([1.0, 1.0 + 1e-8, 2.0])
    assert attribution_accuracy(values, np.array([0.3, 0.3 + 1e-9, 0.9]))[0] == pytest.approx(1)


def test_random_attributions_have_no_correlation():
    find, rng = random_attributions(0), np.random.default_rng(1)
    molecules = [molecule_graph("C" * n) for n in range(4, 30)] * 4
    model = model_of()
    taus = [attribution_accuracy(find(model, m, 0).values, rng.normal(size=m.num_atoms))[0] for m in molecules]
    assert abs(np.mean(taus)) < 0.06
    assert np.std(taus) > 0.1


def test_methods_that_are_exact_for_the_model_have_perfect_scores(found, molecules):
    assert found.num_molecules == found.num_with_ground_truth == len(molecules)
    for name in ("additive", "occlusion"):
        m = found.methods[name]
        assert (m.kendall, m.pearson, m.auroc) == pytest.approx((1, 1, 1), abs=1e-6)
        assert m.deletion_ratio > 1.1
    assert abs(found.methods[RANDOM].kendall) < 0.2
    assert found.methods[RANDOM].deletion_ratio == pytest.approx(1)


def test_an_untrained_model_has_other_scores(found):
    assert found.untrained["additive"].kendall < 0.9
    assert found.untrained["additive"].deletion_curve is None


def test_a_deletion_curve_is_the_change_of_the_prediction_in_units(adds_up):
    molecule = molecule_graph("CCCCCCCCCO")
    m = measure_faithfulness(adds_up, [molecule], methods=["additive"]).methods["additive"]
    terms = 2 * additive(adds_up.model, molecule, 0).values  # the scaler's standard deviation
    order = np.argsort(-np.abs(terms), kind="stable")
    expected = [abs(terms[order[: max(1, round(10 * share))]].sum()) for share in FRACTIONS]
    np.testing.assert_allclose(m.deletion_curve, expected, rtol=1e-6)
    assert m.kendall is None


def test_the_curve_of_chance_is_the_mean_over_random_orders(adds_up, molecules, monkeypatch):
    """With outputs of two methods and five random orders, drawn at random."""
    outputs = np.random.default_rng(1).normal(size=(2 + 5, 1 + len(FRACTIONS), 3))
    monkeypatch.setattr(faithfulness, "deletion_outputs", lambda *_: outputs)
    n = molecules[0].num_atoms
    values = {name: np.zeros(n) for name in ("additive", "cam", RANDOM)}
    found = _deletion_curves(adds_up.model, molecules[0], n, 2, values, np.random.default_rng(0))
    changes = np.abs(outputs[:, 1:, 2] - outputs[:, [0], 2])
    assert found.keys() == values.keys()
    for name, expected in (("additive", changes[0]), ("cam", changes[1]), (RANDOM, changes[2:].mean(0))):
        np.testing.assert_allclose(found[name], expected)


def test_true_contributions_that_are_equal_to_four_digits_have_no_order(adds_up, molecules):
    for spread, count in ((4e-5, 0), (2e-4, 1)):
        found = measure_faithfulness(
            adds_up,
            molecules[:1],
            true_contributions=lambda m, spread=spread: np.linspace(0, spread, m.num_atoms),
            methods=("additive",),
            deletion=False,
        )
        assert found.num_with_ground_truth == count


def test_results_are_reproducible_and_the_random_state_is_unchanged(adds_up, molecules):
    state = torch.get_rng_state()
    calls = []
    truth, methods = lambda m: atom_contributions(m.smiles, "log_p"), ("additive", "occlusion")
    first = measure_faithfulness(
        adds_up, molecules[:4], true_contributions=truth, methods=methods, progress=lambda *x: calls.append(x)
    )
    assert calls[-1] == (8, 8) and len(calls) == 8
    assert first == measure_faithfulness(adds_up, molecules[:4], true_contributions=truth, methods=methods)
    assert torch.equal(torch.get_rng_state(), state)


def test_molecules_whose_atoms_are_all_alike_have_no_order_to_find(adds_up):
    found = measure_faithfulness(
        adds_up, [molecule_graph("c1ccccc1")], true_contributions=lambda m: np.ones(m.num_atoms), methods=PLAIN
    )
    assert (found.num_molecules, found.num_with_ground_truth, found.methods["additive"].kendall) == (1, 0, None)
    with pytest.raises(UsageError, match="no molecules"):
        measure_faithfulness(adds_up, [])


@pytest.fixture
def folder(adds_up, found, tmp_path):
    save_artifact(tmp_path / "model", adds_up)
    write_faithfulness(tmp_path, tmp_path / "model", found, "nci-logp", "test", "log_p")
    return tmp_path


def test_results_are_stored_and_shown(folder, adds_up):
    sentences = read_summaries(folder, folder / "model")
    assert set(sentences) == {"y"}
    sentence = sentences["y"]["additive"]
    assert sentence.startswith("Kendall tau 1.00 with the true contributions to y (random order ")
    assert sentence.endswith("; 1 is perfect), 100% of its signs are right, 20 test molecules of nci-logp")
    predictor = Predictor(adds_up, sentences)
    assert predictor.attributions("CCO", "additive").faithfulness == sentence
    assert predictor.attributions("CCO", "occlusion").faithfulness == sentences["y"]["occlusion"]
    assert Predictor(adds_up).attributions("CCO", "additive").faithfulness == "not measured"


def test_attention_maps_show_the_faithfulness_of_attention(molecules, tmp_path):
    artifact = artifact_of(model_of())
    save_artifact(tmp_path / "model", artifact)
    write_faithfulness(tmp_path, tmp_path / "model", measure_faithfulness(artifact, molecules[:3]), "in.csv", "", "")
    sentences = read_summaries(tmp_path, tmp_path / "model")
    sentence = Predictor(artifact, sentences).attention("CCO").faithfulness
    assert sentence.startswith("removing its top atoms changes y ")
    assert sentence.endswith(" times as much as random ones, whatever the sign, 3 molecules of in.csv")
    assert Predictor(artifact).attention("CCO").faithfulness == "not measured"


def test_a_second_target_is_added_and_another_model_has_no_results(folder, found, tmp_path_factory):
    write_faithfulness(folder, folder / "model", replace(found, target="z"), "nci-logp", "test", "log_p")
    assert set(read_summaries(folder, folder / "model")) == {"y", "z"}
    other = tmp_path_factory.mktemp("other")
    save_artifact(other, artifact_of(model_of(num_layers=1)))
    assert read_summaries(folder, other) == {}


@pytest.mark.parametrize("content", ["{", "[]", '{"schema": 1}', '{"schema": 1, "weights_sha256": 3, "targets": 4}'])
def test_a_damaged_file_is_only_a_warning(folder, content):
    sha256 = json.loads((folder / FILE).read_text())["weights_sha256"]
    (folder / FILE).write_text(content.replace("3", json.dumps(sha256)))
    with pytest.warns(MolattnWarning, match="damaged"):
        assert read_summaries(folder, folder / "model") == {}
