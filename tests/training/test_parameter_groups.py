"""Rate factors: frozen parts of a model, and learning rates of parts, against torch's parameter groups."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from molattn.errors import UsageError
from molattn.models.graph_model import GraphModel
from molattn.training import distributed
from molattn.training.callbacks import ReportEpochs
from molattn.training.checkpoint import CheckpointFolder
from molattn.training.early_stopping import EpochRecord
from molattn.training.fit import fit
from molattn.training.parameter_groups import rate_factors
from tests.training.runs import small_table, train_small
from tests.training.test_learner import (
    CONFIG,
    SCALER,
    SMALL,
    TRAIN,
    VAL,
    WITH_AUXILIARY,
    build_auxiliary_objective,
    by_hand,
    fitted,
    learner_of,
    model_of,
    same,
)


def test_the_last_setting_that_fits_a_parameter_counts() -> None:
    model = GraphModel(replace(SMALL, num_layers=12))
    factors = rate_factors(model, ["*=0.5", "blocks.1=0", "head = 10", "head.bias=2"])
    assert list(factors) == [name for name, _ in model.named_parameters()]
    for name, factor in factors.items():
        part = name.rpartition(".")[0] if name.startswith("head") else name
        wanted = 0.0 if part.startswith("blocks.1.") else 10.0 if name == "head.weight" else 0.5
        assert factor == (2.0 if name == "head.bias" else wanted), name
    assert set(rate_factors(model, []).values()) == {1.0}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["head"], "holds 'head': write NAME=FACTOR"),
        (["=2"], "write NAME=FACTOR"),
        (["head=fast"], "write NAME=FACTOR"),
        (["head=-1"], "a factor of 0 or more"),
        (["head=inf"], "a factor of 0 or more"),
        (["head=nan"], "a factor of 0 or more"),
        (
            ["haed=2"],
            "unknown part of the model 'haed': choose one of .*blocks, blocks\\.0, .*norm, head; did you mean",
        ),
        (["block=2"], "unknown part of the model 'block'"),
        (["*=0"], "freezes the whole model: leave a part out"),
    ],
)
def test_invalid_settings_are_refused(settings: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        rate_factors(model_of(), settings)


def groups_of(model: GraphModel, settings: list[str], rate: float) -> list[dict[str, Any]]:
    """Torch's parameter groups, one for each parameter; frozen ones need no gradient."""
    factors = rate_factors(model, settings)
    for name, w in model.named_parameters():
        w.requires_grad_(bool(factors[name]))
    return [{"params": [w], "lr": factors[name] * rate} for name, w in model.named_parameters() if factors[name]]


@pytest.mark.parametrize(
    "settings", [["head=3", "blocks=0.5"], ["embed_atoms=0", "edges=0"], ["*=0", "head=1"], ["*=2"]]
)
def test_a_training_matches_torchs_parameter_groups(settings: list[str]) -> None:
    config, by_torch = replace(CONFIG, rate_factors=tuple(settings)), model_of()
    before = {name: w.detach().clone() for name, w in by_torch.named_parameters()}
    history, model = fitted(config)
    wanted, _ = by_hand(by_torch, config, warmup=2, groups=groups_of(by_torch, settings, config.learning_rate))
    # What is reported is the rate of the parts without a factor.
    rates = [r.learning_rate for r in fitted(CONFIG)[0]]
    assert [r.learning_rate for r in history] == pytest.approx(rates)
    same(history, [replace(r, learning_rate=rate) for r, rate in zip(wanted, rates, strict=True)])
    factors = rate_factors(model, settings)
    for name, w in model.named_parameters():
        assert w.requires_grad and w.grad is None
        assert torch.equal(w, before[name]) == (factors[name] == 0), name


def test_auxiliary_weights_have_the_factor_1() -> None:
    model = model_of()
    objective = build_auxiliary_objective(model)
    config = replace(CONFIG, rate_factors=("*=0", "head=10"))
    learner = learner_of(config, model, auxiliary_objective=objective, train=WITH_AUXILIARY)
    learner.prepare()
    first, second = learner.optimizer.param_groups
    assert [x.shape for x in first["params"]] == [x.shape for x in objective.parameters()]
    assert second["initial_lr"] == 10 * first["initial_lr"] == 10 * config.learning_rate
    assert sum(x.numel() for x in second["params"]) == sum(x.numel() for x in model.head.parameters())


def test_a_training_with_frozen_parts_is_resumed_to_the_bit(tmp_path: Path) -> None:
    config, dropping = replace(CONFIG, epochs=4, rate_factors=("embed_atoms=0", "head=10")), replace(SMALL, dropout=0.3)

    def stop(record: EpochRecord, _: int) -> None:
        if record.epoch == 3:
            raise InterruptedError

    def model(seed: int) -> GraphModel:
        torch.manual_seed(seed)
        return GraphModel(dropping)

    whole, resumed = model(0), model(1)
    in_one_go = fit(whole, TRAIN, VAL, SCALER, config)
    saved = CheckpointFolder(tmp_path / "c", {})
    with pytest.raises(InterruptedError):
        fit(model(0), TRAIN, VAL, SCALER, config, checkpoints=saved, callbacks=[ReportEpochs(stop)])
    again = fit(
        resumed,
        TRAIN,
        VAL,
        SCALER,
        config,
        checkpoints=CheckpointFolder(tmp_path / "c", {}),
        callbacks=[ReportEpochs(lambda *_: None)],
    )
    assert again == in_one_go
    assert all(torch.equal(x, resumed.state_dict()[name]) for name, x in whole.state_dict().items())


def test_ranks_begin_with_the_frozen_weights_of_rank_0(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[torch.Tensor] = []
    monkeypatch.setattr(distributed, "broadcast", sent.extend)
    learner = learner_of(replace(CONFIG, rate_factors=("embed_atoms=0",)))
    learner.prepare()
    weights = {x.data_ptr() for x in sent}
    frozen = [w for w in learner.model.embed_atoms.parameters() if isinstance(w, nn.Parameter)]
    assert frozen and all(w.data_ptr() in weights for w in frozen)


def test_a_run_takes_them_and_refuses_an_unknown_part_before_its_folder(tmp_path: Path) -> None:
    table = small_table(tmp_path / "t.csv")
    with pytest.raises(UsageError, match=r"unknown part of the model 'body'"):
        train_small(table, tmp_path / "run", rate_factors="body=0")
    assert not (tmp_path / "run").exists()
    result = train_small(table, tmp_path / "run", rate_factors=["blocks=0", "head=2"], epochs=1)
    assert 'rate_factors = [\n    "blocks=0",\n    "head=2",\n]' in (result.folder / "config.toml").read_text()
