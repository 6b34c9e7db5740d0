"""What a model learns beside its targets: gradients where there is something to learn, and no trace in the model."""

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
from molattn.training.auxiliary import companion_of, with_auxiliary
from molattn.training.companions import AuxiliaryTargets, MaskedAtoms
from molattn.training.config import TrainingConfig
from molattn.training.dataset import LabelledMolecules
from molattn.training.fit import fit
from tests.molecules import esol

SMILES, VALUES = esol(40)
GRAPHS = [molecule_graph(s) for s in SMILES]
TARGETS = np.array(VALUES)[:, None]
SMALL = GraphModelConfig(hidden_dim=16, num_layers=2, num_heads=4, edge_dim=4, dropout=0.0)
TRAIN, VAL = LabelledMolecules(GRAPHS[:30], TARGETS[:30]), LabelledMolecules(GRAPHS[30:], TARGETS[30:])


def _model(config: GraphModelConfig = SMALL) -> GraphModel:
    torch.manual_seed(0)
    return GraphModel(config)


def test_auxiliary_targets_leave_the_answers_and_bring_the_mean_square() -> None:
    model, batch = _model(), collate(GRAPHS[:6])
    companion = AuxiliaryTargets(model, 3, 0.5)
    z = torch.randn(6, 3)
    z[2, 1] = torch.nan
    outputs, loss = companion(model, batch, z)
    torch.testing.assert_close(outputs, model(batch), rtol=0, atol=0)
    predicted = companion.head(model.fingerprint(batch).float())
    known = torch.isfinite(z)
    torch.testing.assert_close(loss, 0.5 * (predicted - z)[known].square().mean())


def test_a_missing_number_brings_no_gradient() -> None:
    model, batch = _model(), collate(GRAPHS[:4])
    companion = AuxiliaryTargets(model, 2, 1.0)
    z = torch.tensor([[torch.nan, 1.0]]).repeat(4, 1)
    companion(model, batch, z)[1].backward()
    gradient = companion.head.weight.grad
    assert gradient is not None and not gradient[0].any() and gradient[1].any()
    everything = [torch.full((4, 2), torch.nan)]
    assert companion(model, batch, *everything)[1].item() == 0.0


def test_nothing_is_seen_of_a_masked_atom_but_where_it_is() -> None:
    model, batch = _model(), collate(GRAPHS[:5])
    companion = MaskedAtoms(model, 1.0, 1.0)
    other = replace(batch, atom_codes=torch.zeros_like(batch.atom_codes))
    torch.testing.assert_close(companion(model, batch, None)[0], companion(model, other, None)[0], rtol=0, atol=0)
    assert not torch.equal(model(batch), model(other))
    # Where no atom is masked, the answers are those of the model.
    outputs, loss = MaskedAtoms(model, 0.0, 1.0)(model, batch, None)
    torch.testing.assert_close(outputs, model(batch), rtol=0, atol=0)
    assert loss.item() == 0.0


def test_masked_atoms_are_learned() -> None:
    model, batch = _model(), collate(GRAPHS[:20])
    companion = MaskedAtoms(model, 0.3, 1.0)
    optimizer = torch.optim.Adam([*model.parameters(), *companion.parameters()], 1e-2)
    losses = []
    for _ in range(40):
        loss = companion(model, batch, None)[1]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert np.mean(losses[-5:]) < 0.4 * losses[0]


def test_padding_is_never_masked() -> None:
    model = _model()
    companion = MaskedAtoms(model, 1.0, 1.0)
    alone = companion(model, collate(GRAPHS[:1]), None)[1]
    graph = min(GRAPHS, key=lambda g: g.size), max(GRAPHS, key=lambda g: g.size)
    both = companion(model, collate(graph), None)[1]
    each = [companion(model, collate([g]), None)[1] * g.size for g in graph]
    torch.testing.assert_close(both, sum(each) / sum(g.size for g in graph))
    assert alone.isfinite()


def test_they_go_with_the_models_that_have_what_they_read() -> None:
    with pytest.raises(ValueError, match="without a virtual node"):
        MaskedAtoms(_model(replace(SMALL, virtual_node=True)), 0.1, 1.0)
    with pytest.raises(ValueError, match="graph model"):
        MaskedAtoms(SmilesModel(SmilesModelConfig(hidden_dim=16, num_layers=1)), 0.1, 1.0)
    of_atoms = GraphModel(SMALL, of_atoms=True)
    with pytest.raises(ValueError, match="of atoms"):
        AuxiliaryTargets(of_atoms, 2, 1.0)
    with pytest.raises(UsageError, match=r"training\.auxiliary=0"):
        with_auxiliary(replace(TRAIN, offsets=np.arange(len(TRAIN) + 1)), TrainingConfig(auxiliary=0.3))


def test_auxiliary_targets_change_the_training_and_nothing_of_the_model_but_its_weights() -> None:
    scaler = TargetScaler.fit(TRAIN.targets)
    states = []
    for weight in (0.0, 0.3, 0.3):
        config = TrainingConfig(epochs=3, batch_size=8, accelerator="cpu", auxiliary=weight)
        model = _model()
        train = with_auxiliary(TRAIN, config)
        companion = companion_of(model, train, config)
        assert (companion is None) == (weight == 0) == (train is TRAIN)
        fitted = fit(model, train, VAL, scaler, config, companion=companion)
        assert len(fitted.history) == 3
        states.append(model.state_dict())
    plain, once, again = states
    assert plain.keys() == once.keys()
    assert all(torch.equal(once[name], again[name]) for name in once)
    assert not torch.equal(plain["head.weight"], once["head.weight"])


def test_molecules_all_alike_have_no_auxiliary_targets() -> None:
    told: list[str] = []
    same = LabelledMolecules([GRAPHS[0]] * 4, TARGETS[:4])
    config = TrainingConfig(auxiliary=0.3)
    assert with_auxiliary(same, config, told.append) is same
    assert companion_of(_model(), same, config) is None
    assert "the same for all training molecules" in told[0]


def test_a_molecule_within_the_runs_limit_of_atoms_has_auxiliary_targets_however_large_it_is() -> None:
    large = molecule_graph("C" * 1100, max_atoms=2000)
    train = with_auxiliary(LabelledMolecules([*GRAPHS[:3], large], TARGETS[:4]), TrainingConfig(auxiliary=0.3))
    assert train.auxiliary_targets is not None
    assert np.isfinite(train.auxiliary_targets[-1]).all()
