"""Attributions against molecules without atoms, plain sums along a path, and finite differences."""

import dataclasses
from typing import Any

import captum.attr
import numpy as np
import pytest
import torch

from molattn.chem import MoleculeGraph, molecule_graph
from molattn.errors import UsageError
from molattn.explain import masking, methods
from molattn.explain.attention_methods import grad_attention, received_attention, rollout
from molattn.explain.attribute import ExplainedOutput, attribute, attribution_of, explained_output
from molattn.explain.masking import deletion_outputs, masked_outputs
from molattn.explain.methods import (
    METHODS,
    TOLERANCE,
    Method,
    additive,
    available_methods,
    cam,
    choose_method,
    integrated_gradients,
    random_attributions,
)
from molattn.explain.terms import Terms, as_batch, repeat_batch
from molattn.models.base import build_model
from molattn.models.config import GraphModelConfig
from molattn.models.predict import compute_outputs
from molattn.models.scaler import DescriptorScaler, TargetScaler
from molattn.models.tasks import Binary, Multiclass
from tests.explain.test_attributions import artifact_of, model_of
from tests.predictions import compute_attention

PHENOL = "Oc1ccccc1"


def without(molecule: MoleculeGraph, removed: list[int]) -> MoleculeGraph:
    """The molecule without the rows and columns of some atoms in its codes."""
    pairs = {
        name: np.delete(np.delete(getattr(molecule, name), removed, 0), removed, 1)
        for name in ("bond_codes", "path_lengths")
    }
    symbols = tuple(np.delete(np.array(molecule.symbols), removed).tolist())
    return dataclasses.replace(
        molecule, atom_codes=np.delete(molecule.atom_codes, removed, 0), symbols=symbols, **pairs
    )


@pytest.mark.parametrize("settings", [{}, {"readout": "max", "virtual_node": True}], ids=["mean", "max"])
def test_occlusion_is_the_difference_to_the_output_without_the_atom(
    settings: dict, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, molecule = model_of(2, **settings), molecule_graph(PHENOL)
    for output in (0, 1):
        whole = compute_outputs(model, [molecule])[0, output]
        wanted = [whole - compute_outputs(model, [without(molecule, [i])])[0, output] for i in range(7)]
        found = masking.occlusion(model, molecule, output)
        np.testing.assert_allclose(found.values, wanted, atol=1e-5)
        assert (found.has_unit, found.adds_up, found.constant) == (True, False, None)
    # Whatever the size of a batch.
    node_masks = np.array([[True] * 7, [False] + [True] * 6, [True] * 5 + [False] * 2])
    wanted = np.stack([compute_outputs(model, [without(molecule, gone)])[0] for gone in ([], [0], [5, 6])])
    for pairs in (1, 2 * 49, 400_000):
        monkeypatch.setattr(masking, "_MAX_PAIRS_PER_BATCH", pairs)
        np.testing.assert_allclose(masked_outputs(model, molecule, node_masks), wanted, atol=1e-5)
    orders, counts = [np.array([6, 0, 1, 2, 3, 4, 5]), np.arange(7)], [0, 1, 3]
    found = deletion_outputs(model, molecule, orders, counts)
    assert found.shape == (2, 3, 2)
    for o, c in np.ndindex(2, 3):
        gone = without(molecule, orders[o][: counts[c]].tolist())
        np.testing.assert_allclose(found[o, c], compute_outputs(model, [gone])[0], atol=1e-5)


@pytest.mark.parametrize("virtual_node", [False, True])
def test_integrated_gradients_are_a_plain_sum_of_gradients_along_the_path(virtual_node: bool) -> None:
    model, molecule = model_of(2, virtual_node=virtual_node), molecule_graph(PHENOL)
    batch = model.collate([molecule])
    graph = model.input_graph(batch)
    first = int(virtual_node)
    base = graph.v.clone()
    base[:, first:] = graph.v[:, first:].mean(1, keepdim=True)
    steps = 100
    slope = torch.zeros_like(base)
    for k in range(steps):
        v = (base + (k + 0.5) / steps * (graph.v - base)).requires_grad_()
        slope += torch.autograd.grad(model.forward_graph(graph.replace(v=v), batch)[0, 1], v)[0] / steps
    wanted = ((graph.v - base) * slope).sum(-1)[0, first:]
    found = integrated_gradients(model, molecule, 1)
    np.testing.assert_allclose(found.values, wanted.numpy(), atol=1e-3)
    assert found.adds_up and found.has_unit
    assert found.constant == pytest.approx(float(model.forward_graph(graph.replace(v=base), batch)[0, 1]), rel=1e-5)


@pytest.mark.parametrize("steps", [32, 128])
def test_the_integral_of_the_gradient_is_that_of_captum(steps: int) -> None:
    model, molecule = model_of(2), molecule_graph(PHENOL)
    batch = model.collate([molecule])
    graph = model.input_graph(batch)
    base = torch.zeros_like(graph.v)

    def f(v: torch.Tensor) -> torch.Tensor:
        return model.forward_graph(repeat_batch(graph, len(v)).replace(v=v), repeat_batch(batch, len(v)))[:, 1]

    wanted = captum.attr.IntegratedGradients(f).attribute(graph.v, base, n_steps=steps, internal_batch_size=32)
    found = methods._integrate_gradient(f, base, graph.v, steps)
    torch.testing.assert_close(found, wanted.to(found), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("size", "errors", "points"),
    [
        (0.5, {32: 2.5e-3, 64: 1.5e-3, 128: 0.9e-3}, 128),
        (0.5, {32: -2.5e-3, 64: -0.9e-3}, 64),
        (-4.0, {32: 4.5e-3, 64: 3.5e-3}, 64),
        (4.0, {32: 3.5e-3}, 32),
        (1.5, {32: 1.0}, None),
    ],
)
def test_steps_are_doubled_until_the_terms_add_up(
    size: float, errors: dict[int, float], points: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An integral that is wrong by a known amount for each number of points."""
    model, molecule = model_of(), molecule_graph("CCO")
    model.head.weight.mul_(0).add_(1e-3)
    model.head.bias.fill_(size)
    used: list[int] = []

    def wrong(f: Any, start: Any, end: Any, steps: int) -> Any:
        used.append(steps)
        total = float(f(end)[0] - f(start)[0])
        return torch.full_like(end, (total + errors.get(steps, errors[min(errors)])) / end.numel())

    monkeypatch.setattr(methods, "_integrate_gradient", wrong)
    found = integrated_gradients(model, molecule, 0)
    assert used == [p for p in (32, 64, 128, 256, 512) if points is None or p <= points]
    assert found.adds_up == (points is not None)
    assert found.constant is not None
    (y,) = compute_outputs(model, [molecule])[0]
    assert (abs(found.constant + found.values.sum() - y) <= TOLERANCE * max(1, abs(y))) == found.adds_up


@pytest.mark.parametrize("settings", [{}, {"virtual_node": True}, {"readout": "virtual-node", "virtual_node": True}])
def test_grad_attention_agrees_with_finite_differences(settings: dict) -> None:
    """Each attention weight of the materialized form is perturbed, and the prediction computed again."""
    model, molecule = model_of(num_layers=2, num_heads=2, **settings).double(), molecule_graph("CO")
    n = 2 + bool(settings)
    moved: dict[tuple[int, int, int], float] = {}
    seen: list[Any] = [None, None]
    inner = [block.phi_e.materialize for block in model.blocks]

    def materialized(layer: int, graph: Any) -> Any:
        messages = inner[layer](graph)
        seen[layer] = messages
        weights = messages.weights.clone()
        for (where, edge, head), by in moved.items():
            if where == layer:
                weights[edge, head] += by
        values = messages.e / messages.weights.unsqueeze(-1)
        return dataclasses.replace(messages, weights=weights, e=values * weights.unsqueeze(-1))

    def answer() -> float:
        batch = model.collate([molecule])
        graph: Any = model.input_graph(batch)
        for layer, block in enumerate(model.blocks):
            graph, _ = block._equations(
                graph if layer else graph.to_edge_list(), lambda g, at=layer: materialized(at, g)
            )
        return float(model.forward_head(graph.to_dense(), batch)[0, 0])

    relevance = np.eye(n)
    for layer in range(2):
        moved.clear()
        answer()
        messages = seen[layer]
        receiver, sender = messages.graph.receiver.tolist(), messages.graph.sender.tolist()
        a = np.zeros((n, n))
        for edge, (i, j) in enumerate(zip(receiver, sender, strict=True)):
            for head in range(2):
                ends = []
                for by in (-1e-5, 1e-5):
                    moved.clear()
                    moved[layer, edge, head] = by
                    ends.append(answer())
                slope = (ends[1] - ends[0]) / 2e-5
                a[i, j] += max(0.0, slope * float(messages.weights[edge, head])) / 2
        relevance = relevance + a @ relevance
    found = relevance - np.eye(n)
    wanted = found[0] if "readout" in settings else found.mean(0)
    result = grad_attention(model, molecule, 0)
    np.testing.assert_allclose(result.values, wanted[n - 2 :], rtol=1e-4, atol=1e-9)
    assert not result.has_unit


@pytest.mark.parametrize("readout", ["max", "attention", "additive", "sum", "mean"])
@pytest.mark.parametrize("virtual_node", [False, True])
def test_a_class_activation_map_applies_the_head_to_each_atom(readout: str, virtual_node: bool) -> None:
    """Zhou et al.: w . x_i of the pooled vectors; descriptors are concatenated to them and are not pooled."""
    torch.manual_seed(0)
    config = GraphModelConfig(
        hidden_dim=16, num_heads=4, num_layers=1, readout=readout, virtual_node=virtual_node, edge_dim=4
    )
    model = build_model(config, 2, num_descriptors=3).eval().requires_grad_(False)
    batch = model.collate([molecule_graph(PHENOL)], None, np.ones((1, 3), np.float32))
    x = model.norm(model.forward_features(batch).v)[0, int(virtual_node) :]
    if readout == "additive":
        x = model.readout.terms(x)
    for output in (0, 1):
        found = cam(model, batch, output)
        np.testing.assert_allclose(found.values, (x @ model.head.weight[output, :16]).numpy(), rtol=1e-4, atol=1e-6)
        assert (found.adds_up, found.has_unit, found.constant) == (False, True, None)


def test_attention_as_an_attribution_is_numpys_mean_of_columns_and_product_of_layers() -> None:
    model, molecule = model_of(num_layers=3, virtual_node=True), molecule_graph(PHENOL)
    weights = compute_attention(model, molecule)[1].astype(np.float64)
    np.testing.assert_allclose(
        received_attention(model, molecule, 0).values, weights[-1].mean(0).mean(0)[:7], rtol=1e-5
    )
    # Abnar and Zuidema 2020, equation 1 and 2, with a residual connection of one half.
    layers = [0.5 * w.mean(0) + 0.5 * np.eye(8) for w in weights]
    wanted = np.linalg.multi_dot(layers[::-1]).mean(0)[:7]
    found = rollout(model, molecule, 0)
    np.testing.assert_allclose(found.values, wanted, rtol=1e-5)
    assert not found.has_unit and not received_attention(model, molecule, 0).has_unit


def test_a_batch_is_repeated_row_by_row_and_a_molecule_is_a_batch_of_one() -> None:
    model, molecule = model_of(virtual_node=True), molecule_graph(PHENOL)
    batch = as_batch(model, molecule)
    assert len(batch) == 1 and as_batch(model, batch) is not None
    three = repeat_batch(batch, 3)
    assert len(three) == 3 and three.targets is None
    for row in range(3):
        torch.testing.assert_close(three.atom_codes[row], batch.atom_codes[0])
    graph = model.input_graph(batch)
    torch.testing.assert_close(
        model.forward_graph(repeat_batch(graph, 3), three), model(batch).expand(3, -1), rtol=1e-4, atol=1e-5
    )


def test_the_random_baseline_is_a_normal_number_for_each_atom() -> None:
    rng = np.random.default_rng(5)
    find, model = random_attributions(5), model_of()
    for smiles, n in (("CCO", 3), (PHENOL, 7)):
        found = find(model, molecule_graph(smiles), 0)
        np.testing.assert_array_equal(found.values, rng.normal(size=n))
        assert not found.has_unit and not found.adds_up


def test_available_methods_are_the_supported_ones_and_the_first_is_the_default() -> None:
    everything = list(METHODS)
    for readout, missing in (("sum", set()), ("attention", {"additive"}), ("max", {"additive"})):
        model = model_of(readout=readout)
        assert available_methods(model) == [name for name in everything if name not in missing]
        assert choose_method(model) == available_methods(model)[0]
        for name in everything:
            if name in missing:
                with pytest.raises(UsageError, match=f"method {name}: the readout '{readout}' is not a sum"):
                    choose_method(model, name)
            else:
                assert choose_method(model, name) == name
    assert Method("", additive).unsupported_reason(model_of()) == ""
    has_unit = {
        name
        for name, method in METHODS.items()
        if method.compute(model_of(readout="sum"), molecule_graph("CO"), 0).has_unit
    }
    assert has_unit == {"additive", "occlusion", "integrated-gradients", "cam"}


TERMS = Terms(np.array([1.0, -2.0, 0.5]), 0.25, {"virtual node": -0.5}, np.array([2.0, 4.0]), adds_up=True)


def test_terms_are_converted_to_the_unit_of_the_target() -> None:
    model = build_model(GraphModelConfig(hidden_dim=16, num_heads=4, num_layers=1), 1, num_descriptors=2)
    scaler = DescriptorScaler(("pH", "T"), (0.0, 0.0), (1.0, 1.0))
    artifact = dataclasses.replace(artifact_of(model), descriptors=scaler)
    about = ExplainedOutput("y", 0, "eV", 10.0, 4.0)
    output = 0.25 + TERMS.values.sum() - 0.5 + 6.0
    found = attribution_of(artifact, molecule_graph("OCC"), TERMS, "additive", about, output, "how well")
    np.testing.assert_array_equal(found.values, [4.0, -8.0, 2.0])
    assert dict(found.other_terms) == {"virtual node": -2.0, "pH": 8.0, "T": 16.0}
    assert (found.constant, found.prediction, found.unit, found.target) == (11.0, 10.0 + 4.0 * output, "eV", "y")
    assert sum(found.terms.values()) == pytest.approx(found.prediction)
    assert (found.smiles, found.symbols, found.method, found.faithfulness) == (
        "OCC",
        ("O", "C", "C"),
        "additive",
        "how well",
    )
    assert found.adds_up and found.has_unit and not found.add_hs
    # Shares have no unit, whatever the target's is.
    shares = dataclasses.replace(TERMS, has_unit=False, adds_up=False, descriptors=None, constant=None)
    bare = attribution_of(artifact_of(model), molecule_graph("OCC"), shares, "attention", about, output)
    np.testing.assert_array_equal(bare.values, TERMS.values)
    assert (bare.other_terms, bare.constant, bare.has_unit, bare.adds_up) == (
        {"virtual node": -0.5},
        None,
        False,
        False,
    )
    assert bare.faithfulness == "not measured"


def test_the_explained_output_follows_from_the_target() -> None:
    outputs = np.array([0.5, -1.0, 2.0, 3.0, 1.0])
    classes = Multiclass(classes=(("a", "b"), ("x", "y", "z")))
    artifact = artifact_of(model_of(5), ("p", "q"), classes)
    for target, output, name, quantity, class_of in (
        ("p", 0, "p_prob_a", "score of class a of p", (0, 0)),
        ("q", 3, "q_prob_y", "score of class y of q", (1, 1)),
        ("p_prob_b", 1, "p_prob_b", "score of class b of p", (0, 1)),
        ("q_prob_z", 4, "q_prob_z", "score of class z of q", (1, 2)),
    ):
        expected = ExplainedOutput(name, output, "score", 0.0, 1.0, quantity, class_of)
        assert explained_output(artifact, target, outputs) == expected
    for target, words in (
        (None, "choose the target .*: p, q, p_prob_a, .*q_prob_z"),
        ("r", "unknown target 'r': choose .*q_prob_z"),
    ):
        with pytest.raises(UsageError, match=words):
            explained_output(artifact, target, outputs)
    numbers = dataclasses.replace(
        artifact_of(model_of(2), ("p", "q")), scaler=TargetScaler((1.0, 2.0), (3.0, 4.0)), units=("cm", "kg")
    )
    assert explained_output(numbers, "q", outputs) == ExplainedOutput("q", 1, "kg", 2.0, 4.0)
    assert explained_output(numbers, "p", outputs) == ExplainedOutput("p", 0, "cm", 1.0, 3.0)
    binary = artifact_of(model_of(2), ("p", "q"), Binary())
    expected = ExplainedOutput("q", 1, "log-odds", 0.0, 1.0, "log-odds of q", (1, 1))
    assert explained_output(binary, "q", outputs) == expected
    words = Binary(classes=(("no", "yes"), ("inactive", "active")))
    of_two = explained_output(artifact_of(model_of(2), ("p", "q"), words), "q", outputs)
    assert of_two.quantity == "log-odds of active of q"
    of_one = explained_output(artifact_of(model_of(1), ("p",), Binary(classes=(("no", "yes"),))), "p", outputs[:1])
    assert of_one.quantity == "log-odds of yes"
    alone = artifact_of(model_of(1))
    assert explained_output(alone, None, outputs[:1]) == explained_output(alone, "y", outputs[:1])
    for task in (Binary("dirichlet"), Multiclass("dirichlet", (("a", "b"),))):
        with pytest.raises(UsageError, match="dirichlet predicts evidence"):
            explained_output(artifact_of(model_of(2), ("y",), task), "y", outputs)


def test_each_method_explains_the_output_of_its_target() -> None:
    artifact, molecule = artifact_of(model_of(2, readout="sum"), ("a", "b")), molecule_graph(PHENOL)
    for name, method in METHODS.items():
        for output, target in enumerate(("a", "b")):
            found = attribute(artifact, molecule, name, target, "measured")
            terms = method.compute(artifact.model, molecule, output)
            np.testing.assert_allclose(
                found.values, terms.values * (2.0 if terms.has_unit else 1.0), rtol=1e-4, atol=1e-6
            )
            assert (found.method, found.target, found.faithfulness) == (name, target, "measured")


def test_an_attribution_has_labels_and_a_frame() -> None:
    found = attribute(artifact_of(model_of(readout="sum")), molecule_graph("OCC"), "additive")
    assert (found.num_atoms, found.labels) == (3, ["O0", "C1", "C2"])
    frame = found.to_frame().to_pydict()
    assert frame == {"atom": [0, 1, 2], "element": ["O", "C", "C"], "value": found.values.tolist()}
    assert repr(found) == f"Attribution('OCC', additive: {found.equation})"
    assert list(found.terms) == ["constant", "3 atoms"]
    bare = dataclasses.replace(found, constant=None, unit="", values=np.array([0.25, -1.0, 0.0]), prediction=-0.75)
    assert bare.terms["constant"] == 0.0
    assert bare.equation == "y -0.750 = 0.000 (constant) - 0.750 (3 atoms)"
    shown = found._repr_mimebundle_()
    assert shown["text/plain"] == repr(found) and len(shown) > 1
    assert found.draw((300, 200)).svg == found.draw((300, 200)).svg != found.draw().svg
