"""Auxiliary objectives: their losses and gradients, and that the trained model does not contain them."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from molattn.chem import molecule_graph
from molattn.data.store.batches import collate
from molattn.errors import UsageError
from molattn.models.config import GraphModelConfig, SmilesModelConfig
from molattn.models.graph_model import GraphModel
from molattn.models.scaler import TargetScaler
from molattn.models.smiles_model import SmilesModel
from molattn.training.config import TrainingConfig
from molattn.training.dataset import LabelledMolecules
from molattn.training.fit import fit
from molattn.training.objectives import (
    AuxiliaryRegression,
    MaskedAtomPrediction,
    add_auxiliary_targets,
    build_auxiliary_objective,
)
from tests.gpus import refuse_gpus
from tests.molecules import esol

SMILES, VALUES = esol(40)
GRAPHS = [molecule_graph(s) for s in SMILES]
TARGETS = np.array(VALUES)[:, None]
SMALL = GraphModelConfig(hidden_dim=16, num_layers=2, num_heads=4, edge_dim=4, dropout=0.0)
TRAIN, VAL = LabelledMolecules(GRAPHS[:30], TARGETS[:30]), LabelledMolecules(GRAPHS[30:], TARGETS[30:])


def _model(config: GraphModelConfig = SMALL) -> GraphModel:
    torch.manual_seed(0)
    return GraphModel(config)


def test_the_auxiliary_regression_keeps_the_outputs_and_adds_the_mean_squared_error() -> None:
    model, batch = _model(), collate(GRAPHS[:6])
    objective = AuxiliaryRegression(model, 3, 0.5)
    z = torch.randn(6, 3)
    z[2, 1] = torch.nan
    outputs, loss = objective(model, batch, z)
    torch.testing.assert_close(outputs, model(batch), rtol=0, atol=0)
    predicted = objective.head(model.embeddings(batch).float())
    known = torch.isfinite(z)
    torch.testing.assert_close(loss, 0.5 * (predicted - z)[known].square().mean())


def test_a_missing_auxiliary_target_has_no_gradient() -> None:
    model, batch = _model(), collate(GRAPHS[:4])
    objective = AuxiliaryRegression(model, 2, 1.0)
    z = torch.tensor([[torch.nan, 1.0]]).repeat(4, 1)
    objective(model, batch, z)[1].backward()
    gradient = objective.head.weight.grad
    assert gradient is not None and not gradient[0].any() and gradient[1].any()
    everything = [torch.full((4, 2), torch.nan)]
    assert objective(model, batch, *everything)[1].item() == 0.0


def test_a_single_auxiliary_target_is_the_mean_over_it() -> None:
    model, batch = _model(), collate(GRAPHS[:4])
    objective = AuxiliaryRegression(model, 2, 0.25)
    z = torch.full((4, 2), torch.nan)
    z[1, 0] = 3.0
    error = objective.head(model.embeddings(batch).float())[1, 0] - 3.0
    torch.testing.assert_close(objective(model, batch, z)[1], 0.25 * error.square())
    with pytest.raises(ValueError, match="needs auxiliary targets of each molecule"):
        objective(model, batch, None)


def test_the_features_of_a_masked_atom_are_hidden() -> None:
    model, batch = _model(), collate(GRAPHS[:5])
    objective = MaskedAtomPrediction(model, 1.0, 1.0)
    other = replace(batch, atom_codes=torch.zeros_like(batch.atom_codes))
    torch.testing.assert_close(objective(model, batch, None)[0], objective(model, other, None)[0], rtol=0, atol=0)
    assert not torch.equal(model(batch), model(other))
    # Without masked atoms the outputs are those of the model.
    outputs, loss = MaskedAtomPrediction(model, 0.0, 1.0)(model, batch, None)
    torch.testing.assert_close(outputs, model(batch), rtol=0, atol=0)
    assert loss.item() == 0.0


def test_a_probability_of_0_masks_nothing_whatever_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch = _model(), collate(GRAPHS[:5])
    monkeypatch.setattr(torch, "rand", torch.zeros)  # numbers from 0, inclusive, to 1
    nothing, something = (MaskedAtomPrediction(model, fraction, 1.0)(model, batch, None) for fraction in (0.0, 1e-9))
    assert nothing[1].item() == 0.0 < something[1].item()


def test_the_vector_of_masked_atoms_begins_near_0() -> None:
    torch.manual_seed(0)
    wide = GraphModel(replace(SMALL, hidden_dim=256))
    mask = MaskedAtomPrediction(wide, 0.1, 1.0).mask.detach()
    assert float(mask.std()) == pytest.approx(0.02, rel=0.2)  # as the embeddings of BERT
    assert abs(float(mask.mean())) < 0.01


def test_masked_atoms_are_learned() -> None:
    model, batch = _model(), collate(GRAPHS[:20])
    objective = MaskedAtomPrediction(model, 0.3, 1.0)
    optimizer = torch.optim.Adam([*model.parameters(), *objective.parameters()], 1e-2)
    losses = []
    for _ in range(40):
        loss = objective(model, batch, None)[1]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert np.mean(losses[-5:]) < 0.4 * losses[0]


def test_padding_is_never_masked() -> None:
    model = _model()
    objective = MaskedAtomPrediction(model, 1.0, 1.0)
    alone = objective(model, collate(GRAPHS[:1]), None)[1]
    graph = min(GRAPHS, key=lambda g: g.size), max(GRAPHS, key=lambda g: g.size)
    both = objective(model, collate(graph), None)[1]
    each = [objective(model, collate([g]), None)[1] * g.size for g in graph]
    torch.testing.assert_close(both, sum(each) / sum(g.size for g in graph))
    assert alone.isfinite()


def test_models_that_an_objective_does_not_support_are_refused() -> None:
    with pytest.raises(ValueError, match="without a virtual node"):
        MaskedAtomPrediction(_model(replace(SMALL, virtual_node=True)), 0.1, 1.0)
    with pytest.raises(ValueError, match="graph model"):
        MaskedAtomPrediction(SmilesModel(SmilesModelConfig(hidden_dim=16, num_layers=1)), 0.1, 1.0)
    atom_level = GraphModel(SMALL, atom_level=True)
    with pytest.raises(ValueError, match="atom-level"):
        AuxiliaryRegression(atom_level, 2, 1.0)
    with pytest.raises(UsageError, match=r"training\.auxiliary=0"):
        add_auxiliary_targets(replace(TRAIN, offsets=np.arange(len(TRAIN) + 1)), TrainingConfig(auxiliary=0.3))


def test_auxiliary_targets_change_only_the_weights_of_the_model() -> None:
    scaler = TargetScaler.fit(TRAIN.targets)
    states = []
    for weight in (0.0, 0.3, 0.3):
        config = TrainingConfig(epochs=3, batch_size=8, accelerator="cpu", auxiliary=weight)
        model = _model()
        train = add_auxiliary_targets(TRAIN, config)
        objective = build_auxiliary_objective(model, train, config)
        assert (objective is None) == (weight == 0) == (train is TRAIN)
        fitted = fit(model, train, VAL, scaler, config, auxiliary_objective=objective)
        assert len(fitted.history) == 3
        states.append(model.state_dict())
    plain, once, again = states
    assert plain.keys() == once.keys()
    assert all(torch.equal(once[name], again[name]) for name in once)
    assert not torch.equal(plain["head.weight"], once["head.weight"])


def test_the_weights_of_an_auxiliary_objective_depend_on_the_seed_of_the_training_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, train = _model(), replace(TRAIN, auxiliary_targets=np.zeros((30, 3)))
    weights = []
    for outside, seed in ((1, 5), (2, 5), (2, 6)):
        torch.manual_seed(outside)
        before = torch.get_rng_state()
        with monkeypatch.context() as patch:
            refuse_gpus(patch)
            objective = build_auxiliary_objective(model, train, TrainingConfig(auxiliary=0.3, seed=seed))
        assert objective is not None and torch.equal(torch.get_rng_state(), before)
        weights.append(objective.head.weight)
    assert torch.equal(weights[0], weights[1]) and not torch.equal(weights[1], weights[2])


def test_identical_molecules_have_no_auxiliary_targets() -> None:
    messages: list[str] = []
    same = LabelledMolecules([GRAPHS[0]] * 4, TARGETS[:4])
    config = TrainingConfig(auxiliary=0.3)
    assert add_auxiliary_targets(same, config, messages.append) is same
    assert build_auxiliary_objective(_model(), same, config) is None
    assert "the same for all training molecules" in messages[0]


def test_a_molecule_larger_than_the_default_limit_has_auxiliary_targets() -> None:
    large = molecule_graph("C" * 1100, max_atoms=2000)
    train = add_auxiliary_targets(LabelledMolecules([*GRAPHS[:3], large], TARGETS[:4]), TrainingConfig(auxiliary=0.3))
    assert train.auxiliary_targets is not None
    assert np.isfinite(train.auxiliary_targets[-1]).all()
