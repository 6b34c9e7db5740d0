"""Attribution methods on models with known attributions, and properties of all methods."""

import dataclasses
import re

import numpy as np
import pytest
import torch
from scipy.special import expit, softmax

import molattn
from molattn.chem import ConformerOptions, molecule_graph
from molattn.errors import SmilesError, UsageError
from molattn.explain.attention_methods import grad_attention, received_attention, rollout
from molattn.explain.attribute import attribute
from molattn.explain.attribution import Attribution
from molattn.explain.masking import deletion_outputs, masked_outputs, occlusion
from molattn.explain.methods import (
    METHODS,
    TOLERANCE,
    additive,
    available_methods,
    cam,
    choose_method,
    integrated_gradients,
    random_attributions,
)
from molattn.explain.terms import Terms, repeat_batch
from molattn.explain.tree_shap import TREE_SHAP
from molattn.inference import Predictor, explainer
from molattn.models.artifact import Artifact
from molattn.models.base import build_model
from molattn.models.calibration import Calibration
from molattn.models.config import GraphModelConfig, SmilesModelConfig
from molattn.models.predict import compute_outputs
from molattn.models.presets import PRESETS
from molattn.models.scaler import DescriptorScaler, TargetScaler
from molattn.models.tasks import Binary, Multiclass
from molattn.training.run_config import resolve
from tests.molecules import esol
from tests.predictions import compute_attention

ASPIRIN = "CC(=O)Oc1ccccc1C(=O)O"
ENDS = np.array([0.0, 1.0])
SUMS = ("additive", "sum", "mean")


def model_of(num_outputs=1, **settings):
    """A small model with its initial weights scaled up, so that predictions differ."""
    torch.manual_seed(1)
    config = GraphModelConfig(**{"hidden_dim": 16, "num_heads": 4, "num_layers": 2, "edge_dim": 4, **settings})
    model = build_model(config, num_outputs).eval().requires_grad_(False)
    for p in model.parameters():
        p.mul_(1.5)
    return model


def artifact_of(model, targets=("y",), task=None):
    n = len(targets)
    scaler = TargetScaler((3.0,) * n, (2.0,) * n) if task is None else TargetScaler.identity(n)
    settings = {} if task is None else {"task": task}
    return Artifact(model, scaler, tuple(targets), ("cm",) * n, **settings)


def answer(model, smiles, output=0):
    return float(compute_outputs(model, [molecule_graph(smiles)])[0, output])


@pytest.mark.parametrize("virtual_node", [False, True])
@pytest.mark.parametrize("readout", SUMS)
@pytest.mark.parametrize("smiles", [ASPIRIN, "C", "[Na+].[Cl-]"])
def test_additive_terms_sum_to_the_prediction(readout, virtual_node, smiles):
    model = model_of(2, readout=readout, virtual_node=virtual_node)
    for target, output in (("a", 0), ("b", 1)):
        found = attribute(artifact_of(model, ("a", "b")), molecule_graph(smiles), "additive", target)
        assert found.adds_up and found.has_unit and found.unit == "cm"
        assert set(found.other_terms) == ({"virtual node"} if virtual_node else set())
        total = found.constant + found.values.sum() + sum(found.other_terms.values())
        assert total == pytest.approx(found.prediction, rel=1e-5)
        assert found.prediction == pytest.approx(3 + 2 * answer(model, smiles, output), rel=1e-12)
        assert sum(found.terms.values()) == pytest.approx(found.prediction, rel=1e-5)


def test_occlusion_of_a_model_that_sums_independent_atoms_gives_its_terms():
    model = model_of(num_layers=0, readout="sum")
    molecule = molecule_graph(ASPIRIN)
    terms = additive(model, molecule, 0)
    np.testing.assert_allclose(occlusion(model, molecule, 0).values, terms.values, rtol=1e-9)
    # The output without any atom is the constant.
    (nothing,) = masked_outputs(model, molecule, np.zeros((1, 13), dtype=bool))
    assert nothing[0] == pytest.approx(terms.constant)


def test_deletion_removes_the_first_atoms_of_the_order():
    model = model_of(num_layers=0, readout="sum")
    molecule = molecule_graph("CCON")
    terms, constant = additive(model, molecule, 0).values, float(model.head.bias[0])
    found = deletion_outputs(model, molecule, [np.array([2, 0, 1, 3]), np.array([3, 2, 1, 0])], [0, 1, 2])[..., 0]
    expected = [
        [terms[kept].sum() for kept in row]
        for row in ([[0, 1, 2, 3], [0, 1, 3], [1, 3]], [[0, 1, 2, 3], [0, 1, 2], [0, 1]])
    ]
    np.testing.assert_allclose(found - constant, expected, rtol=1e-9)


@pytest.mark.parametrize("settings", [{}, {"readout": "additive"}, {"readout": "max"}, {"virtual_node": True}])
def test_integrated_gradients_sum_to_the_difference_from_the_baseline(settings):
    model = model_of(**settings)
    for smiles in (ASPIRIN, "CCO", "C[N+](C)(C)CC(=O)[O-]", "C"):
        molecule = molecule_graph(smiles)
        found = integrated_gradients(model, molecule, 0)
        y = answer(model, smiles)
        assert found.adds_up
        assert abs(found.constant + found.values.sum() - y) <= TOLERANCE * max(1, abs(y))
    graph = model.input_graph(model.collate([molecule_graph(ASPIRIN)]))
    first = len(model.virtual_labels)
    v = graph.v.clone()
    v[:, first:] = v[:, first:].mean(1, keepdim=True)
    constant = integrated_gradients(model, molecule_graph(ASPIRIN), 0).constant
    assert constant == pytest.approx(
        float(model.forward_graph(graph.replace(v=v), model.collate([molecule_graph(ASPIRIN)]))[0, 0]), rel=1e-5
    )


def test_integrated_gradients_of_a_linear_model_are_its_terms_less_their_mean():
    model = model_of(num_layers=0, readout="sum")
    model.norm = torch.nn.Identity()
    molecule = molecule_graph(ASPIRIN)
    terms = additive(model, molecule, 0).values
    found = integrated_gradients(model, molecule, 0)
    np.testing.assert_allclose(found.values, terms - terms.mean(), atol=1e-5)


def test_class_activation_maps_are_additive_terms_but_for_the_factor_of_a_mean():
    molecule = molecule_graph(ASPIRIN)
    for readout, factor in (("mean", 13), ("sum", 1), ("additive", 1)):
        model = model_of(readout=readout)
        np.testing.assert_allclose(
            cam(model, molecule, 0).values, factor * additive(model, molecule, 0).values, rtol=1e-9
        )
    # The map of a maximum is that of a sum with the same weights.
    as_max, as_sum = model_of(readout="max", virtual_node=True), model_of(readout="sum", virtual_node=True)
    np.testing.assert_allclose(cam(as_max, molecule, 0).values, cam(as_sum, molecule, 0).values, rtol=1e-9)


def test_attention_and_rollout_are_those_of_the_map():
    model, molecule = model_of(virtual_node=True), molecule_graph(ASPIRIN)
    _, weights = compute_attention(model, molecule)
    assert weights.shape[-1] == 14
    np.testing.assert_allclose(received_attention(model, molecule, 0).values, weights[-1].mean((0, 1))[:13], rtol=1e-6)
    identity = np.eye(14)
    first, second = (0.5 * w.mean(0) + 0.5 * identity for w in weights.astype(np.float64))
    np.testing.assert_allclose(rollout(model, molecule, 0).values, (second @ first).mean(0)[:13], rtol=1e-5)


def test_grad_attention_is_never_negative_and_scales_with_the_head():
    molecule = molecule_graph(ASPIRIN)
    model = model_of(num_layers=1)
    once = grad_attention(model, molecule, 0).values
    assert (once >= 0).all() and once.max() > 0
    model.head.weight.mul_(3)
    np.testing.assert_allclose(grad_attention(model, molecule, 0).values, 3 * once, rtol=1e-5)
    # Only positive contributions count, so a negated head gives other values.
    model.head.weight.mul_(-1)
    other = grad_attention(model, molecule, 0).values
    assert np.corrcoef(other, once)[0, 1] < 0.99
    model.head.weight.zero_()
    np.testing.assert_array_equal(grad_attention(model, molecule, 0).values, 0)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("readout", ["additive", "mean"])
def test_attributions_are_equivariant_to_permutations_of_the_atoms(method, readout):
    model, molecule = model_of(readout=readout), molecule_graph(ASPIRIN)
    order = np.random.default_rng(0).permutation(13)
    values = METHODS[method].compute(model, molecule, 0).values
    moved = METHODS[method].compute(model, molecule.permute(order.tolist()), 0).values
    np.testing.assert_allclose(moved, values[order], atol=1e-5 * np.abs(values).max())


@pytest.mark.parametrize("method", METHODS)
def test_equivalent_atoms_get_equal_attributions(method):
    model = model_of(readout="additive")
    values = METHODS[method].compute(model, molecule_graph("c1ccccc1"), 0).values
    np.testing.assert_allclose(values, values[0], atol=1e-5)
    toluene = METHODS[method].compute(model, molecule_graph("Cc1ccccc1"), 0).values
    np.testing.assert_allclose(toluene[[2, 3]], toluene[[6, 5]], atol=1e-5 * np.abs(toluene).max())


@pytest.mark.parametrize("preset", PRESETS)
def test_all_methods_of_a_preset_work_for_one_atom_and_for_more(preset):
    config = resolve(None, {"preset": preset}, ["model.hidden_dim=16", "model.num_layers=2"]).model
    torch.manual_seed(0)
    model = build_model(config, 1).eval().requires_grad_(False)
    names = available_methods(model)
    assert {"occlusion", "integrated-gradients", "grad-attention", "rollout", "attention"} <= set(names)
    conformers = ConformerOptions() if config.needs_3d else None
    for smiles in ("C", "[Na+].[Cl-]", "CCO"):
        molecule = molecule_graph(smiles, conformers=conformers)
        for name in names:
            values = METHODS[name].compute(model, molecule, 0).values
            assert values.shape == (molecule.num_atoms,)
            assert np.isfinite(values).all()


def test_the_default_is_the_first_method_that_supports_the_model():
    for readout in SUMS:
        assert choose_method(model_of(readout=readout)) == "additive"
    assert choose_method(model_of(readout="max")) == "occlusion"
    assert choose_method(model_of(readout="global", global_dim=8)) == "occlusion"


@pytest.mark.parametrize("readout", ["max", "attention", "global", "virtual-node"])
def test_unsupported_methods_are_rejected_with_the_reason(readout):
    model = model_of(
        readout=readout, global_dim=8 if readout == "global" else 0, virtual_node=readout == "virtual-node"
    )
    with pytest.raises(UsageError, match=f"method additive: the readout '{readout}' is not a sum over atoms"):
        choose_method(model, "additive")
    if readout in ("global", "virtual-node"):
        with pytest.raises(UsageError, match=f"method cam: the readout '{readout}' does not pool"):
            choose_method(model, "cam")
    else:
        assert choose_method(model, "cam") == "cam"


def test_unknown_methods_and_models_of_tokens_are_rejected():
    with pytest.raises(UsageError, match="unknown method 'magic': choose one of additive, occlusion"):
        choose_method(model_of(), "magic")
    with pytest.raises(UsageError, match="'smiles-transformer' reads tokens, not atoms"):
        choose_method(build_model(SmilesModelConfig(hidden_dim=16, num_heads=2, num_layers=1), 1))


def test_attention_has_no_unit_and_does_not_add_up():
    found = attribute(artifact_of(model_of()), molecule_graph("CCO"), "attention")
    assert (found.has_unit, found.constant, found.adds_up, found.terms) == (False, None, False, {})
    assert found.values.sum() == pytest.approx(1)
    assert "do not add up" in found.equation


@pytest.mark.parametrize(
    ("has_unit", "values", "signed"),
    [
        (True, [0.25, 0.5, 1.0], True),  # all raise the prediction
        (False, [0.0, 0.25, 0.75], False),  # shares
        (False, [0.5, -0.25, 0.0], True),
    ],
)
def test_values_have_a_sign_if_they_have_a_unit_or_one_of_them_is_negative(has_unit, values, signed):
    found = Attribution("CCO", ("C", "C", "O"), np.array(values), "any", "y", 1.0, has_unit=has_unit)
    assert found.signed is signed


@pytest.mark.parametrize("virtual_node", [False, True])
def test_what_all_atoms_of_a_mean_have_alike_is_in_the_constant(virtual_node):
    """The bias of the last normalization: of a mean it belongs to no atom, of a sum each atom contributes it."""
    molecule = molecule_graph(ASPIRIN)
    for readout in ("mean", "sum"):
        model = model_of(2, readout=readout, virtual_node=virtual_node)
        before = additive(model, molecule, 1)
        torch.manual_seed(2)
        shift = torch.randn(16)
        model.norm.bias.add_(shift)
        after, part = additive(model, molecule, 1), float(shift.double() @ model.head.weight[1].double())
        per_atom, constant = (0.0, part) if readout == "mean" else (part, 0.0)
        np.testing.assert_allclose(after.values - before.values, per_atom, atol=1e-5)
        assert after.constant - before.constant == pytest.approx(constant, abs=1e-6)
        total = after.constant + after.values.sum() + sum(after.other_terms.values())
        assert total == pytest.approx(answer(model, ASPIRIN, 1), rel=1e-6)
    model = model_of(readout="mean", virtual_node=virtual_node)
    model.norm.bias.copy_(shift)
    n, part = 13 + virtual_node, float(shift.double() @ model.head.weight[0].double())
    terms = additive(model, molecule, 0).values
    np.testing.assert_allclose(cam(model, molecule, 0).values, n * terms + part, rtol=1e-6, atol=1e-9)


def test_a_graph_whose_sizes_were_read_is_repeated():
    model = model_of()
    graph = model.input_graph(model.collate([molecule_graph("CCO")]))
    sizes = graph.right_padded_sizes
    assert sizes is not None
    again = repeat_batch(graph, 3)
    assert again.v.shape[0] == again.node_mask.shape[0] == 3
    assert again.right_padded_sizes.tolist() == [3, 3, 3]


@pytest.mark.parametrize("smiles", [(), ("CCO",), ("C1CC",)])
def test_an_unknown_method_or_target_is_an_error_whatever_the_molecules(smiles):
    predictor = Predictor(artifact_of(model_of(2), ("a", "b")))
    for method, target, message in (
        ("additive", "c", "^unknown target 'c': choose one of a, b$"),
        ("additive", None, "^choose the target to explain"),
        ("addditive", "a", "^unknown method 'addditive'"),
    ):
        with pytest.raises(UsageError, match=message):
            predictor.attributions(smiles, method, target)
        with pytest.raises(UsageError, match=message):
            next(predictor.attribution_rows(smiles, method, target), None)
    assert predictor.attributions((), "additive", "a") == []


def test_rows_of_attributions_go_on_after_a_bad_one(monkeypatch):
    predictor = Predictor(artifact_of(model_of(2), ("a", "b")))
    first, bad, last = predictor.attribution_rows(iter(["CCO", "C1CC", "CCN"]), "occlusion", "b")
    for found, expected in zip((first, last), predictor.attributions(["CCO", "CCN"], "occlusion", "b"), strict=True):
        assert (found.smiles, found.method, found.target) == (expected.smiles, "occlusion", "b")
        np.testing.assert_allclose(found.values, expected.values)
    assert isinstance(bad, SmilesError) and bad.smiles == "C1CC"
    real = explainer.attribute

    def broken(artifact, molecule, *arguments, **more):
        if molecule.smiles == "CCO":
            raise SmilesError("CCO", "the model's output is not finite")
        return real(artifact, molecule, *arguments, **more)

    monkeypatch.setattr(explainer, "attribute", broken)
    assert [type(x) for x in predictor.attribution_rows(["CCO", "CC"], target="a")] == [SmilesError, Attribution]
    with pytest.raises(UsageError, match="unknown method 'magic'"):
        next(predictor.attribution_rows(["CCO"], "magic"))


def test_one_of_several_targets_must_be_named():
    artifact = artifact_of(model_of(2), ("a", "b"))
    with pytest.raises(UsageError, match="choose the target to explain, --target or target=: a, b"):
        attribute(artifact, molecule_graph("CCO"))
    with pytest.raises(UsageError, match="unknown target 'c': choose one of a, b"):
        attribute(artifact, molecule_graph("CCO"), target="c")
    assert attribute(artifact, molecule_graph("CCO"), target="b").target == "b"


def test_log_odds_are_explained_for_a_binary_target():
    model = model_of()
    found = attribute(artifact_of(model, task=Binary()), molecule_graph("CCO"))
    assert (found.unit, found.quantity) == ("log-odds", "log-odds of y")
    assert found.prediction == pytest.approx(answer(model, "CCO"))
    # The sum of the terms is the log-odds, of which the probability is the logistic function.
    assert sum(found.terms.values()) == pytest.approx(found.prediction, rel=1e-5)
    assert found.probability == pytest.approx(expit(found.prediction)) and found.calibrated_probability is None
    left, terms = found.equation.split(" = ")
    assert left == f"log-odds of y {found.prediction:.3f} (probability {found.probability:.3f})"
    assert sum(map(float, re.findall(r"-?\d+\.\d+", terms.replace("- ", "-")))) == pytest.approx(
        found.prediction, abs=2e-3
    )
    calibration = Calibration("isotonic", "none", ({"x0": ENDS, "y0": ENDS, "x1": ENDS, "y1": ENDS / 2},))
    found = attribute(
        dataclasses.replace(artifact_of(model, task=Binary()), calibration=calibration), molecule_graph("CCO")
    )
    assert found.probability is not None
    mapped = found.probability / 2 / (found.probability / 2 + 1 - found.probability)
    assert found.calibrated_probability == pytest.approx(mapped)
    assert f"(probability {found.probability:.3f}, calibrated {mapped:.3f})" in found.equation


def test_for_several_classes_the_score_of_the_predicted_or_the_named_class_is_explained():
    model = model_of(3)
    task = Multiclass(classes=(("low", "mid", "high"),))
    artifact = artifact_of(model, ("y",), task)
    outputs = compute_outputs(model, [molecule_graph("CCO")])[0]
    best = ("low", "mid", "high")[int(outputs.argmax())]
    for target in (None, "y"):
        found = attribute(artifact, molecule_graph("CCO"), "additive", target)
        assert (found.target, found.unit) == (f"y_prob_{best}", "score")
        assert found.prediction == pytest.approx(outputs.max())
        assert found.probability == pytest.approx(softmax(outputs).max())
        assert found.equation.startswith(f"score of class {best} of y {outputs.max():.3f} (probability ")
    assert attribute(artifact, molecule_graph("CCO"), target="y_prob_mid").prediction == pytest.approx(outputs[1])


def test_random_attributions_are_reproducible_and_differ_between_molecules():
    model, molecule = model_of(), molecule_graph("CCO")
    one, two = random_attributions(3), random_attributions(3)
    first = one(model, molecule, 0).values
    np.testing.assert_array_equal(first, two(model, molecule, 0).values)
    assert (first != one(model, molecule, 0).values).all()


@pytest.mark.parametrize("readout", ["additive", "sum", "mean"])
def test_the_bias_of_an_additive_model_starts_at_zero_in_units_of_the_target(readout):
    model = model_of(3, readout=readout)
    before = model.head.bias.clone()
    model.initialize_bias(np.array([-1.5, 0.25]))
    after = [-1.5, 0.25, before[2]] if readout != "mean" else before
    np.testing.assert_allclose(model.head.bias, after, rtol=1e-6)


def test_training_starts_with_a_bias_of_zero_in_units_of_the_target(tmp_path):
    rows = [f"{s},{y + 30}" for s, y in zip(*esol(20), strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(["smiles,y", *rows]) + "\n")
    options = {"epochs": 1, "learning_rate": 1e-9, "accelerator": "cpu", "quiet": True, "preset": "additive"}
    molattn.train(tmp_path / "t.csv", output_dir=tmp_path / "run", settings=["model.hidden_dim=16"], **options)
    found = molattn.load(tmp_path / "run").attributions("CCO", "additive")
    assert abs(found.constant) < 1e-3


def test_descriptors_have_terms_of_their_own_and_the_sum_is_the_prediction():
    torch.manual_seed(0)
    config = GraphModelConfig(hidden_dim=16, num_heads=4, num_layers=1, readout="sum")
    model = build_model(config, 1, num_descriptors=2).eval().requires_grad_(False)
    scaler = DescriptorScaler(("pH", "T"), (7.0, 298.0), (1.0, 10.0))
    artifact = dataclasses.replace(artifact_of(model), descriptors=scaler)
    predictor = Predictor(artifact)
    found = predictor.attributions("CCO", descriptors=[5.0, 310.0])
    assert set(found.other_terms) == {"pH", "T"}
    assert found.other_terms["pH"] == pytest.approx(2 * float(model.head.weight[0, 16]) * -2.0)
    assert sum(found.terms.values()) == pytest.approx(found.prediction, rel=1e-5)
    assert found.prediction == pytest.approx(float(predictor.predict("CCO", descriptors=[5.0, 310.0])))
    for name in available_methods(model):
        values = predictor.attributions("CCO", name, descriptors=[5.0, 310.0]).values
        assert values.shape == (3,) and np.isfinite(values).all()
    with pytest.raises(UsageError, match="reads pH and T|reads 'pH'|descriptors"):
        predictor.attributions("CCO")


@pytest.mark.parametrize("count", [3, 4, 12])
def test_an_equation_has_few_terms_and_still_adds_up(count):
    others = {f"d{i}": 0.25 * (i - 1) for i in range(count)}
    values = np.array([0.5, -1.25])
    total = 0.125 - 0.75 + sum(others.values())
    found = Attribution("CO", ("C", "O"), values, "additive", "y", total, "eV", 0.125, others, adds_up=True)
    assert set(found.terms) == {"constant", "2 atoms", *others}
    left, terms = found.equation.split(" = ")
    assert left == f"y {total:.3f} eV"
    numbers = re.findall(r"([+-]?) ?(\d+\.\d{3}) \(", terms)
    assert len(numbers) == (2 + count if count <= 3 else 3)
    assert sum(float(sign + number) for sign, number in numbers) == pytest.approx(total, abs=2e-3)
    assert ("d0" in terms) == (count <= 3)
    assert (f"({count} other terms)" in terms) == (count > 3)


def test_a_model_of_atoms_has_no_attributions():
    torch.manual_seed(0)
    model = build_model(GraphModelConfig(hidden_dim=16, num_heads=4, num_layers=1), 1, atom_level=True)
    with pytest.raises(UsageError, match="apply only to molecule-level targets"):
        choose_method(model)
    assert available_methods(model) == []


@pytest.mark.parametrize("method", [None, *METHODS, TREE_SHAP])
def test_a_model_without_attributions_is_refused_with_its_reason_whatever_the_method(method):
    tokens = build_model(SmilesModelConfig(hidden_dim=16, num_heads=2, num_layers=1), 1)
    with pytest.raises(UsageError, match="no attributions: the model 'smiles-transformer' reads tokens, not atoms"):
        attribute(artifact_of(tokens), molecule_graph("CCO"), method)
    of_atoms = build_model(GraphModelConfig(hidden_dim=16, num_heads=4, num_layers=1), 1, atom_level=True)
    with pytest.raises(UsageError, match="no attributions: they apply only to molecule-level targets"):
        attribute(artifact_of(of_atoms), molecule_graph("CCO"), method)


def test_a_prediction_or_attribution_that_is_not_finite_is_an_error(monkeypatch):
    artifact, molecule = artifact_of(model_of()), molecule_graph("CCO")
    whole = METHODS["additive"]
    none = Terms(np.array([0.5, np.nan, 0.0]), 0.0)
    with monkeypatch.context() as patch:
        patch.setitem(METHODS, "additive", dataclasses.replace(whole, compute=lambda *_: none))
        with pytest.raises(SmilesError, match="not a finite number"):
            attribute(artifact, molecule, "additive")
    artifact.model.head.weight.fill_(torch.inf)
    with pytest.raises(SmilesError, match="not a finite number"):
        attribute(artifact, molecule, "additive")


def test_a_molecule_that_is_too_large_for_the_memory_is_an_error(monkeypatch):
    def forward(*_):
        raise MemoryError

    artifact = artifact_of(model_of())
    monkeypatch.setattr(type(artifact.model), "forward", forward)
    with pytest.raises(SmilesError, match="^'CCO': there is not enough memory for its 3 atoms"):
        attribute(artifact, molecule_graph("CCO"), "additive")


def test_a_predictor_shows_its_targets_and_the_kind_of_its_model():
    artifact = artifact_of(model_of(2), ("a", "b"))
    assert repr(Predictor(artifact)) == "Predictor(targets=('a', 'b'), model='graph')"
    ensemble = dataclasses.replace(artifact, other_models=(model_of(2),))
    assert repr(Predictor(ensemble)) == "Predictor(targets=('a', 'b'), model='graph', ensemble of 2)"
