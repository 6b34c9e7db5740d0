"""Parts that are frozen, for the whole training or for its first epochs."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from molattn.errors import UsageError
from molattn.models.artifact_file import load_artifact
from molattn.models.graph_model import GraphModel
from molattn.training import distributed
from molattn.training.bases import find_base
from molattn.training.callbacks import Callback
from molattn.training.checkpoint import CheckpointFolder
from molattn.training.config import TrainingConfig
from molattn.training.fit import fit
from molattn.training.flat_parameters import FlatParameters
from molattn.training.learner import Learner
from molattn.training.parameter_groups import frozen_norms, frozen_parameters, trained_parts
from molattn.training.run_config import check_config, resolve
from tests.training.runs import StopIn, resume, same_runs, train_forty
from tests.training.test_learner import CONFIG, SCALER, SMALL, TRAIN, VAL, fitted, learner_of, model_of

FROZEN = ("embed_atoms", "blocks")


class Weights(Callback):
    """Records the weights and their averages after each epoch."""

    def __init__(self) -> None:
        self.model: list[dict[str, torch.Tensor]] = []
        self.average: list[dict[str, torch.Tensor]] = []

    def on_epoch_end(self, learner: Learner, record: Any) -> None:  # noqa: ARG002
        for kept, module in ((self.model, learner.model), (self.average, learner.average.module)):
            kept.append({name: x.detach().clone() for name, x in module.state_dict().items()})


def trained(config: TrainingConfig, model: GraphModel | None = None, **given: Any) -> tuple[GraphModel, Weights, Any]:
    model, weights = model_of() if model is None else model, Weights()
    result = fit(model, TRAIN, VAL, SCALER, config, callbacks=[weights, *given.pop("callbacks", [])], **given)
    return model, weights, result


def is_frozen(name: str) -> bool:
    return name.split(".")[0] in FROZEN


def test_frozen_parts_are_unchanged_to_the_bit_and_the_others_are_not() -> None:
    before = {name: x.clone() for name, x in model_of().state_dict().items()}
    model, weights, _ = trained(replace(CONFIG, freeze=FROZEN))
    for state in (*weights.model, *weights.average, model.state_dict()):
        for name, _ in model.named_parameters():
            assert torch.equal(state[name], before[name]) == is_frozen(name), name
    assert all(w.requires_grad and w.grad is None for w in model.parameters())


def test_a_frozen_part_is_one_with_the_rate_factor_0() -> None:
    by_factor = replace(CONFIG, rate_factors=("head=3", *(f"{part}=0" for part in FROZEN)))
    history, model = fitted(replace(CONFIG, freeze=FROZEN, rate_factors=("head=3",)))
    wanted_history, wanted = fitted(by_factor)
    assert history == wanted_history
    assert all(torch.equal(x, wanted.state_dict()[name]) for name, x in model.state_dict().items())


def test_parts_are_unfrozen_after_their_epochs() -> None:
    config = replace(CONFIG, epochs=4, freeze=FROZEN, freeze_epochs=2)
    before = {name: x.clone() for name, x in model_of().state_dict().items()}
    _, weights, result = trained(config)
    _, forever, _ = trained(replace(config, freeze_epochs=0))
    for epoch, (state, average) in enumerate(zip(weights.model, weights.average, strict=True)):
        for name, _ in model_of().named_parameters():
            unchanged = is_frozen(name) and epoch < 2
            assert torch.equal(state[name], before[name]) == unchanged, (epoch, name)
            assert torch.equal(average[name], before[name]) == unchanged, (epoch, name)
        # Up to then it is the training in which they stay frozen, whose tensors are grouped otherwise.
        for name, x in state.items() if epoch < 2 else ():
            torch.testing.assert_close(x, forever.model[epoch][name], rtol=1e-4, atol=1e-6)
    assert len(result.history) == 4


def test_a_unfrozen_part_is_trained_as_by_torchs_optimizer() -> None:
    """The optimizer has no state for an unfrozen part, and uses the learning rate of the schedule."""
    config = replace(CONFIG, grad_clip=0.0, freeze=("blocks",), freeze_epochs=1, rate_factors=("blocks=0.5",))
    learner = learner_of(config, steps=4)
    learner.prepare()
    by_torch = model_of()
    names = [name for name, _ in by_torch.named_parameters() if name.startswith("blocks.")]
    rates = {name: 0.5 if name in names else 1.0 for name, _ in by_torch.named_parameters()}
    groups = [{"params": [w], "lr": rates[n] * config.learning_rate} for n, w in by_torch.named_parameters()]
    optimizer = torch.optim.AdamW(groups, weight_decay=config.weight_decay)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, learner.scheduler.lr_lambdas[0])
    torch.manual_seed(1)
    for step in range(4):
        learner.start_epoch(step // 2)
        inputs = torch.randn(9)
        for model in (learner.model, by_torch):
            # A loss that each parameter has a gradient of, of its own.
            loss = sum(((i + 1) * w.sin() * inputs[i % 9]).sum() for i, w in enumerate(model.parameters()))
            assert isinstance(loss, torch.Tensor)
            if model is by_torch:
                optimizer.zero_grad()
            else:
                assert learner.flat_parameters is not None
                learner.flat_parameters.zero_grad()
            loss.backward()
        for name, w in by_torch.named_parameters():
            if step < 2 and name in names:
                w.grad = None
        for stepping in (optimizer, scheduler, learner.optimizer, learner.scheduler):
            stepping.step()
        for name, w in learner.model.named_parameters():
            torch.testing.assert_close(w, by_torch.get_parameter(name), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("stop", [2, 3, 4])
def test_a_training_in_stages_is_resumed_to_the_bit(tmp_path: Path, stop: int) -> None:
    """Interrupted before the parts are unfrozen, in the first epoch after it, and later."""
    config = replace(CONFIG, epochs=5, freeze=FROZEN, freeze_epochs=2)

    def model(seed: int) -> GraphModel:
        torch.manual_seed(seed)
        return GraphModel(replace(SMALL, dropout=0.3))

    whole, _, in_one_go = trained(config, model(0), callbacks=[StopIn(9)])
    with pytest.raises(KeyboardInterrupt):
        trained(config, model(0), callbacks=[StopIn(stop)], checkpoints=CheckpointFolder(tmp_path / "c", {}))
    resumed, _, again = trained(
        config, model(1), callbacks=[StopIn(9)], checkpoints=CheckpointFolder(tmp_path / "c", {})
    )
    assert again == in_one_go
    assert all(torch.equal(x, resumed.state_dict()[name]) for name, x in whole.state_dict().items())


def test_ranks_share_the_frozen_weights_and_the_gradients_of_unfrozen_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[torch.Tensor] = []
    monkeypatch.setattr(distributed, "broadcast", sent.extend)
    learner = learner_of(replace(CONFIG, freeze=FROZEN, freeze_epochs=1))
    learner.prepare()
    total = sum(w.numel() for w in learner.model.parameters())
    assert learner.flat_parameters is not None
    assert sum(w.numel() for w in learner.flat_parameters.flat) == total <= sum(x.numel() for x in sent)
    frozen = sum(w.numel() for name, w in learner.model.named_parameters() if is_frozen(name))
    assert sum(g.numel() for g in learner.flat_parameters.gradients) == total - frozen
    learner.start_epoch(1)
    assert sum(g.numel() for g in learner.flat_parameters.gradients) == total
    assert all(w.requires_grad for w in learner.model.parameters())


def test_flat_parameters_without_gradient_are_skipped_until_they_are_unfrozen() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    model[0].requires_grad_(False)
    flat = FlatParameters(model, frozen={"0.weight", "0.bias"})
    optimizer = torch.optim.AdamW(flat.flat, lr=0.1)
    before = {name: w.detach().clone() for name, w in model.named_parameters()}
    for unfrozen in (False, True):
        if unfrozen:
            flat.unfreeze()
        flat.zero_grad()
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        assert torch.equal(model[0].weight, before["0.weight"]) != unfrozen
        assert not torch.equal(model[1].weight, before["1.weight"])
    flat.unflatten()
    assert all(w.grad is None for w in model.parameters())


class WithNorms(nn.Module):
    """A body and a head, each with norms that have running statistics, with and without parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.BatchNorm1d(3, affine=False))
        self.head = nn.Sequential(nn.Linear(3, 1), nn.BatchNorm1d(1))


def test_the_running_statistics_of_frozen_norms_stay() -> None:
    model = WithNorms()
    assert frozen_norms(model, frozen_parameters(model, ["body"])) == [model.body[1], model.body[2]]
    assert frozen_norms(model, frozen_parameters(model, ["body.0"])) == []
    assert frozen_norms(model, frozen_parameters(model, ["head.1"])) == [model.head[1]]


def test_a_frozen_norm_of_a_model_keeps_its_buffers_until_unfrozen() -> None:
    config = replace(CONFIG, epochs=2, freeze=("blocks",), freeze_epochs=1)
    model = model_of()
    size = model.config.hidden_dim

    class Norm(nn.Module):
        """A batch norm over the channels of a graph's atoms, before a block."""

        def __init__(self, block: nn.Module):
            super().__init__()
            self.block, self.norm = block, nn.BatchNorm1d(size)

        def forward(self, graph: Any, *arguments: Any) -> Any:
            atoms = self.norm(graph.v.flatten(0, -2)).view_as(graph.v)
            return self.block(graph.replace(v=atoms), *arguments)

    model.blocks[0] = Norm(model.blocks[0])
    _, weights, _ = trained(config, model)
    before = nn.BatchNorm1d(size).state_dict()
    for key in ("running_mean", "running_var", "num_batches_tracked"):
        name = f"blocks.0.norm.{key}"
        assert torch.equal(weights.model[0][name], before[key]) and torch.equal(weights.average[0][name], before[key])
        assert not torch.equal(weights.model[1][name], before[key])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"freeze": ("haed",)}, r"--freeze: unknown part of the model 'haed': choose one of embed_atoms, .*'head'"),
        ({"freeze": ("*",)}, "freeze the whole model: leave a part out"),
        ({"freeze": ("*",), "freeze_epochs": 1}, "freeze the whole model: leave a part out"),
        ({"freeze": ("head",), "rate_factors": ("*=0", "head=1")}, "freeze the whole model: leave a part out"),
    ],
)
def test_parts_that_do_not_fit_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        trained_parts(model_of(), replace(CONFIG, **settings))


def test_epochs_without_a_part_are_refused() -> None:
    with pytest.raises(UsageError, match="freeze_epochs is given without freeze: name the parts to freeze"):
        check_config(resolve(None, {"freeze_epochs": 3}))
    with pytest.raises(UsageError, match="freeze_epochs is 0 or more"):
        check_config(resolve(None, {"freeze": ("head",), "freeze_epochs": -1}))


def test_the_base_model_is_trained_in_stages_by_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    options: dict[str, Any] = {"base": "nci", "settings": (), "epochs": 3, "freeze": ["blocks"]}
    frozen, staged = Weights(), Weights()
    train_forty("frozen", callbacks=[frozen], **options)
    train_forty("whole", freeze_epochs=2, callbacks=[staged], **options)
    base = load_artifact(find_base("nci").folder).model.state_dict()
    blocks = [name for name in frozen.model[0] if name.startswith("blocks.")]
    for name in blocks:
        assert all(torch.equal(state[name], base[name]) for state in (*frozen.model, *staged.model[:2])), name
    assert any(not torch.equal(staged.model[2][name], base[name]) for name in blocks)
    with pytest.raises(KeyboardInterrupt):
        train_forty("stopped", freeze_epochs=2, callbacks=[StopIn(3)], **options)
    resume(Path("stopped"), callbacks=[StopIn(9)])
    same_runs(Path("whole"), Path("stopped"))
