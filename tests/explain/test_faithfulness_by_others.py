"""The measures of faithfulness over several molecules, computed again one by one with scipy and numpy."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from rdkit import Chem
from rdkit.Chem import Crippen, rdMolDescriptors
from scipy.stats import kendalltau, pearsonr
from sklearn.metrics import roc_auc_score

from molattn.chem import MoleculeGraph, molecule_graph
from molattn.errors import SmilesError, UsageError
from molattn.explain import faithfulness
from molattn.explain.accuracy import attribution_accuracy
from molattn.explain.faithfulness import FRACTIONS, RANDOM, Faithfulness, measure_faithfulness
from molattn.explain.masking import deletion_outputs
from molattn.explain.methods import METHODS, additive, random_attributions
from molattn.explain.terms import Terms
from molattn.models.base import build_model
from molattn.models.config import GraphModelConfig, SmilesModelConfig
from molattn.models.graph_model import GraphModel
from molattn.models.scaler import DescriptorScaler
from molattn.models.tasks import Multiclass
from tests.explain.test_attributions import artifact_of, model_of

MOLECULES = [molecule_graph(s) for s in ("OCCN", "CC(=O)OCCC", "Cc1ccccc1O", "CC", "ClCCCBr")]
MODEL = model_of(2, readout="sum", num_layers=1)
ARTIFACT = artifact_of(MODEL, ("a", "b"))


def truth(m: MoleculeGraph) -> np.ndarray:
    """Nearly what the model's terms are; of ethane's atoms the same."""
    return np.linspace(1, 2, m.num_atoms) * additive(MODEL, m, 1).values if m.num_atoms > 2 else np.ones(2)


@pytest.fixture(scope="module")
def calls() -> list[tuple[int, int]]:
    return []


@pytest.fixture(scope="module")
def found(calls: list) -> Faithfulness:
    return measure_faithfulness(
        ARTIFACT,
        MOLECULES,
        "b",
        true_contributions=truth,
        methods=("additive", "occlusion"),
        seed=4,
        progress=lambda *x: calls.append(x),
    )


def curve_of(m: MoleculeGraph, order: np.ndarray) -> list[float]:
    n = m.num_atoms
    counts = [0, *(max(1, round(share * n)) for share in FRACTIONS)]
    answers = deletion_outputs(MODEL, m, [order], counts)[0, :, 1]
    return [2.0 * abs(x - answers[0]) for x in answers[1:]]


def test_accuracy_is_the_mean_over_molecules_whose_truth_varies(found: Faithfulness, calls: list) -> None:
    assert (found.target, found.unit, found.num_molecules, found.num_with_ground_truth) == ("b", "cm", 5, 4)
    assert set(found.methods) == {"additive", "occlusion", RANDOM} == set(found.untrained)
    random = random_attributions(4)
    values = {"additive": [], "occlusion": [], RANDOM: []}
    for m in MOLECULES:
        drawn = random(MODEL, m, 1).values
        if m.num_atoms == 2:
            continue
        for name in values:
            v = drawn if name == RANDOM else METHODS[name].compute(MODEL, m, 1).values
            y = truth(m)
            counts = np.abs(y) > np.abs(y).mean()
            values[name].append(
                (kendalltau(v, y).statistic, pearsonr(v, y).statistic, roc_auc_score(counts, np.abs(v)))  # pyright: ignore
            )
    for name, rows in values.items():
        m = found.methods[name]
        assert (m.kendall, m.pearson, m.auroc) == pytest.approx(np.mean(rows, 0), abs=2e-3)
    assert calls == [(k, 10) for k in range(1, 11)]


def test_a_curve_is_the_mean_change_and_deletion_is_it_over_that_of_chance(found: Faithfulness) -> None:
    rng, random, curves = np.random.default_rng(4), [], []
    for m in MOLECULES:
        shuffles = [rng.permutation(m.num_atoms) for _ in range(5)]
        random.append(np.mean([curve_of(m, order) for order in shuffles], 0))
        v = additive(MODEL, m, 1).values
        order = sorted(shuffles[0].tolist(), key=lambda i: -abs(v[i]))
        curves.append(curve_of(m, np.array(order)))
    np.testing.assert_allclose(found.methods["additive"].deletion_curve, np.mean(curves, 0), rtol=1e-4)
    np.testing.assert_allclose(found.methods[RANDOM].deletion_curve, np.mean(random, 0), rtol=1e-4)
    assert found.methods["additive"].deletion_ratio == pytest.approx(np.mean(curves) / np.mean(random), rel=1e-4)
    assert found.methods[RANDOM].deletion_ratio == pytest.approx(1)


def test_the_untrained_model_is_a_new_one_of_the_seed(found: Faithfulness) -> None:
    torch.manual_seed(4)
    fresh = GraphModel(MODEL.config, 2).eval().requires_grad_(False)
    again = measure_faithfulness(
        artifact_of(fresh, ("a", "b")),
        MOLECULES,
        "b",
        true_contributions=truth,
        methods=("additive", "occlusion"),
        seed=4,
    )
    for name, m in found.untrained.items():
        assert (m.deletion_curve, m.deletion_ratio) == (None, None)
        other = again.methods[name]
        assert (m.kendall, m.pearson, m.auroc) == pytest.approx((other.kendall, other.pearson, other.auroc))


def test_without_truth_or_deletion_that_part_is_not_measured() -> None:
    calls: list[tuple[int, int]] = []
    found = measure_faithfulness(
        ARTIFACT, MOLECULES[:2], "a", methods=("additive",), progress=lambda *x: calls.append(x)
    )
    assert (found.num_with_ground_truth, found.untrained, calls) == (0, {}, [(1, 2), (2, 2)])
    m = found.methods["additive"]
    assert (m.kendall, m.pearson, m.auroc) == (None, None, None) and m.deletion_ratio is not None
    blind = measure_faithfulness(
        ARTIFACT, MOLECULES[:2], "a", methods=("additive",), true_contributions=truth, deletion=False
    )
    assert (blind.methods["additive"].deletion_curve, blind.methods[RANDOM].deletion_ratio) == (None, None)
    assert blind.methods["additive"].kendall is not None
    assert measure_faithfulness(ARTIFACT, MOLECULES[:1], "a", methods=("additive",)) == measure_faithfulness(
        ARTIFACT, MOLECULES[:1], "a", methods=("additive",), seed=0
    )


def test_a_constant_model_causes_no_division_by_zero() -> None:
    model = model_of(readout="sum")
    model.head.weight.zero_()
    found = measure_faithfulness(artifact_of(model), MOLECULES[:1], methods=("additive",))
    assert found.target == "y"
    assert found.methods["additive"].deletion_ratio is None
    assert found.methods["additive"].deletion_curve == (0.0,) * 5


def test_with_classes_each_molecule_is_explained_for_its_predicted_class() -> None:
    model = model_of(3, readout="sum", num_layers=0)
    artifact = artifact_of(model, ("y",), Multiclass(classes=(("a", "b", "c"),)))
    explained: list[int] = []
    find = METHODS["additive"].compute

    def spy(model: Any, molecule: Any, output: int) -> Any:
        explained.append(output)
        return find(model, molecule, output)

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(METHODS, "additive", type(METHODS["additive"])("", spy))
        measure_faithfulness(artifact, MOLECULES, methods=("additive",))
    outputs = [int(model(model.collate([m]))[0].argmax()) for m in MOLECULES]
    assert explained == outputs


def test_what_cannot_be_measured_is_refused() -> None:
    tokens = build_model(SmilesModelConfig(hidden_dim=16, num_heads=2, num_layers=1), 1)
    with pytest.raises(UsageError, match="reads tokens, not atoms"):
        measure_faithfulness(artifact_of(tokens), MOLECULES)
    with_descriptors = build_model(GraphModelConfig(hidden_dim=16, num_heads=4, num_layers=1), 1, num_descriptors=1)
    given = replace(artifact_of(with_descriptors), descriptors=DescriptorScaler(("pH",), (0.0,), (1.0,)))
    with pytest.raises(UsageError, match="reads descriptor columns"):
        measure_faithfulness(given, MOLECULES)
    with pytest.raises(UsageError, match="unknown method 'magic'"):
        measure_faithfulness(ARTIFACT, MOLECULES, "a", methods=("magic",))


def test_accuracy_with_sizes_that_are_all_alike_is_that_of_chance() -> None:
    values = np.array([3.0, 1.0, 2.0, 0.5])
    signs = np.array([1.0, -1.0, 1.0, -1.0])
    tau, r, auroc = attribution_accuracy(values, signs)
    assert auroc == 0.5
    wanted = kendalltau(values, signs).statistic, pearsonr(values, signs).statistic  # pyright: ignore
    assert (tau, r) == pytest.approx(wanted, rel=1e-4)
    # The last digits of neither count.
    noisy = attribution_accuracy(values + 1e-9 * np.arange(4), signs + 1e-7 * np.arange(4))
    assert noisy == pytest.approx((tau, r, 0.5), abs=1e-6)


def test_each_molecule_is_measured_with_its_own_descriptors_and_a_fresh_model_has_a_place_for_them() -> None:
    model = build_model(GraphModelConfig(hidden_dim=16, num_heads=4, num_layers=1), 1, num_descriptors=2).eval()
    model.requires_grad_(False)
    scaler = DescriptorScaler(("MolLogP", "TPSA"), (1.0, 20.0), (2.0, 30.0), ("MolLogP", "TPSA"))
    artifact = replace(artifact_of(model), descriptors=scaler)
    seen: list[list[float]] = []
    find = METHODS["additive"].compute

    def spy(model: Any, batch: Any, output: int) -> Any:
        assert len(batch) == 1
        seen.append(batch.descriptors[0].tolist())
        return find(model, batch, output)

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(METHODS, "additive", type(METHODS["additive"])("", spy))
        found = measure_faithfulness(artifact, MOLECULES[:3], methods=("additive",), true_contributions=truth)
    mols = [Chem.MolFromSmiles(m.smiles) for m in MOLECULES[:3]]
    wanted = [[(Crippen.MolLogP(m) - 1) / 2, (rdMolDescriptors.CalcTPSA(m) - 20) / 30] for m in mols]
    np.testing.assert_allclose(seen, wanted * 2, rtol=1e-5)
    assert found.untrained["additive"] != found.methods["additive"]


def test_deletion_is_the_curve_over_that_of_chance_and_an_answer_that_is_not_finite_is_an_error() -> None:
    found = measure_faithfulness(ARTIFACT, MOLECULES[:2], "a", methods=("additive",))
    m, chance = found.methods["additive"], found.methods[RANDOM]
    assert m.deletion_curve is not None and chance.deletion_curve is not None
    assert m.deletion_ratio == pytest.approx(np.mean(m.deletion_curve) / np.mean(chance.deletion_curve))
    model = model_of()
    model.head.weight.fill_(torch.inf)
    with pytest.raises(SmilesError, match="not a finite number"):
        measure_faithfulness(artifact_of(model), MOLECULES[:2])


@pytest.mark.parametrize("names", [("additive", "attention"), ("cam", "occlusion")], ids="-".join)
def test_a_sign_is_right_if_it_is_that_of_the_truth(names: tuple[str, ...]) -> None:
    def true(m: MoleculeGraph) -> np.ndarray:  # the model's terms, of which a part has the wrong sign
        return np.linspace(-1, 2, m.num_atoms) * additive(MODEL, m, 1).values

    molecules = MOLECULES[:3]
    found = measure_faithfulness(
        ARTIFACT, molecules, "b", methods=names, true_contributions=true, deletion=False, seed=4
    )
    draw = random_attributions(4)
    functions = {name: METHODS[name].compute for name in names if name != "attention"} | {RANDOM: draw}
    shares: dict[str, list[float]] = {name: [] for name in functions}
    for m in molecules:
        effects = true(m)
        counted = np.abs(effects) > 0.01 * np.abs(effects).max()
        for name, function in functions.items():
            shares[name].append(((function(MODEL, m, 1).values > 0) == (effects > 0))[counted].mean())
    for name in functions:
        assert found.methods[name].sign == pytest.approx(np.mean(shares[name])), name
    assert all(m.sign is None for name, m in found.methods.items() if name not in functions)


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_a_prediction_without_atoms_that_is_not_finite_is_an_error_of_its_molecule_and_method(
    number: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = faithfulness.deletion_outputs

    def broken(model: Any, batch: Any, *more: Any) -> Any:
        found = whole(model, batch, *more)
        if batch.mask.shape[1] != MOLECULES[1].num_atoms:
            return found
        found[:, 1:] += number  # the prediction for the whole molecule comes first
        return found

    monkeypatch.setattr(faithfulness, "deletion_outputs", broken)
    message = "its predictions without the top atoms by the method cam are not finite"
    with pytest.raises(SmilesError, match=message) as e:
        measure_faithfulness(ARTIFACT, MOLECULES[:2], "b", methods=("cam",))
    # A method is named only for what it computes itself.
    monkeypatch.undo()
    monkeypatch.setitem(METHODS, "occlusion", replace(METHODS["occlusion"], compute=broken))
    measure_faithfulness(ARTIFACT, MOLECULES[:2], "b", methods=("cam",))
    assert e.value.smiles == MOLECULES[1].smiles


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_an_attribution_that_is_not_finite_is_an_error_of_its_molecule(
    number: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_model: Any, batch: Any, _output: int) -> Terms:
        n = batch.mask.shape[1]
        return Terms(np.full(n, number if n == MOLECULES[1].num_atoms else 1.0))

    monkeypatch.setitem(METHODS, "cam", type(METHODS["cam"])("", broken))
    with pytest.raises(SmilesError, match="attributions by the method cam are not finite: measure other methods") as e:
        measure_faithfulness(ARTIFACT, MOLECULES, "b", methods=("additive", "cam"))
    assert e.value.smiles == MOLECULES[1].smiles


def test_values_are_ties_to_five_digits_of_the_largest_and_truths_to_four_digits() -> None:
    for scale in (1.0, 0.1):
        assert attribution_accuracy(scale * np.array([1.0, 1.0 + 2e-6, 2.0]), np.array([0.3, 0.3, 0.9]))[
            0
        ] == pytest.approx(1)
    assert attribution_accuracy(np.array([1.0, 1.0, 2.0]), np.array([0.3, 0.30001, 0.9]))[0] == pytest.approx(1)
