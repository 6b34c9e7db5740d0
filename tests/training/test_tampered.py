"""Checkpoints with changed content under valid checksums: an error in one sentence, or the same run."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save

from molattn.errors import InputError, UsageError
from molattn.training.prepare import prepare
from tests.training.runs import interrupt, resume, small_table


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_table(tmp_path_factory.mktemp("tampered") / "t.csv")


@pytest.fixture(scope="module")
def kept(table: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two epochs out of four."""
    folder = tmp_path_factory.mktemp("kept") / "run"
    interrupt(table, folder, 2, epochs=4)
    return folder


@pytest.fixture(scope="module")
def read_before(kept: Path) -> list[Any]:  # noqa: ARG001 (each run has molecules of its own)
    """The molecules of the run, after they were read once."""
    return []


@pytest.fixture(autouse=True)
def remembered(read_before: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Read the molecules once, because the tests are about what follows."""

    def read(*arguments: Any) -> Any:
        if not read_before:
            read_before.append(prepare(*arguments))
        return read_before[0]

    monkeypatch.setattr("molattn.training.prepare.prepare", read)


@pytest.fixture
def run(kept: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(kept, tmp_path / "run"))


def state_of(run: Path) -> dict[str, Any]:
    return json.loads(json.loads((run / "checkpoint" / "state.json").read_text())["content"])


def tamper(run: Path, state: dict[str, Any], tensors: dict[str, torch.Tensor] | None = None) -> None:
    """Replace the state, and tensors, with valid checksums."""
    folder = run / "checkpoint"
    if tensors is not None:
        data = save(tensors)
        (folder / "epoch-1.safetensors").write_bytes(data)
        state["sha256"] = hashlib.sha256(data).hexdigest()
    text = json.dumps(state)
    checksum = hashlib.sha256(text.encode()).hexdigest()
    (folder / "state.json").write_text(json.dumps({"sha256": checksum, "content": text}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.pop("finished"), "it has no field 'finished'"),
        (lambda s: s.pop("seconds"), "it has no field 'seconds'"),
        (lambda s: s.update(seconds="x"), "seconds is 'x', and must be a finite number"),
        (lambda s: s.update(finished=1), "finished is 1, and must be true or false"),
        (lambda s: s.update(schema="1"), "schema is '1', and must be a whole number"),
        (lambda s: s.update(identity=3), "identity is 3, and must be an object"),
        (lambda s: s.update(file="../x"), "file is '../x', and must be epoch-1.safetensors"),
        (lambda s: s.update(epoch=0), "file is 'epoch-1.safetensors', and must be epoch-0.safetensors"),
        (lambda s: s.pop("early_stopping"), r"\(KeyError\)"),
        (lambda s: s["early_stopping"].update(history=3), "early_stopping.history is 3, and must be a list"),
        (lambda s: s["early_stopping"]["history"][0].update(more=1), "has an unknown field 'more'"),
        (
            lambda s: s["early_stopping"]["history"][0].update(metric="x"),
            r"early_stopping.history\[0\].metric is 'x', and must be the name of a metric",
        ),
        (
            lambda s: s["early_stopping"]["history"][1].update(tracking_metric="rmse"),
            r"early_stopping.history\[1\].tracking_metric is 'rmse', and must be 'val_loss'",
        ),
        (
            lambda s: s["early_stopping"].update(best_epoch=99),
            "early_stopping.history does not have consecutive epochs",
        ),
        (lambda s: s["early_stopping"].update(best_epoch=3), "history does not have consecutive epochs"),
        (lambda s: s["early_stopping"].update(best_epoch=0), "it has weights of the best epoch without a best epoch"),
        (lambda s: s["early_stopping"]["history"].reverse(), "history does not have consecutive epochs"),
        (lambda s: s.pop("optimizer"), r"\(KeyError\)"),
        (lambda s: s.update(optimizer=[]), r"\(ValueError\)"),
        (lambda s: s["optimizer"][0].update(lr="x"), r"optimizer\[0\].lr is 'x', and must be a finite number"),
        (lambda s: s["optimizer"][0].update(lr=-1.0), r"optimizer\[0\].lr is -1.0, and must be a number of at least 0"),
        (lambda s: s["optimizer"][0].update(weight_decay=9.0), r"weight_decay is 9.0, and must be 0.01"),
        (lambda s: s["optimizer"][0]["params"].append(7), r"optimizer\[0\].params does not have 3 values"),
        (lambda s: s["scheduler"].update(last_epoch="x"), "last_epoch is 'x', and must be a whole number"),
        (lambda s: s["scheduler"].clear(), "scheduler does not have the fields"),
        (lambda s: s.pop("rng_state"), r"\(KeyError\)"),
        (lambda s: s["rng_state"].update(python=[3, [1], None]), r"\(ValueError\)"),
        (lambda s: s["rng_state"]["numpy"][1].pop(), r"\((ValueError|IndexError)\)"),
        (lambda s: s["rng_state"].update(numpy=["MT19937", [-1] * 624, 0, 0, 0.0]), r"\(OverflowError\)"),
    ],
)
def test_an_invalid_checkpoint_is_reported(run: Path, change: Callable[[dict[str, Any]], object], message: str) -> None:
    state = state_of(run)
    change(state)
    tamper(run, state)
    with pytest.raises(InputError, match="is damaged, its training cannot be resumed .*" + message):
        resume(run)


def test_a_setting_that_an_older_torch_did_not_have_gets_its_default(run: Path) -> None:
    state = state_of(run)
    del state["optimizer"][0]["decoupled_weight_decay"]
    tamper(run, state)
    resume(run)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: x.pop("learner.model.head.bias"), "the tensor 'model.head.bias' is missing"),
        (lambda x: x.update({"learner.evil": torch.zeros(1)}), "the model has no tensor 'evil'"),
        (
            lambda x: x.update({"learner.model.head.bias": torch.zeros(2)}),
            r"is float32 \(2,\), and that of the model is",
        ),
        (
            lambda x: x.update({"learner.average.n_averaged": torch.tensor(-9)}),
            "'average.n_averaged' has the negative count -9",
        ),
        (lambda x: x.update({"best.head.bias": torch.zeros(1).double()}), r"is float64 \(1,\), and that of the model"),
        (lambda x: x.update({"best.head.bias": torch.full((1,), torch.nan)}), "'head.bias' holds nan"),
        (lambda x: x.update({"optimizer.0.exp_avg": torch.zeros(3)}), r"'exp_avg' is float32 \(3,\)"),
        (lambda x: x.update({"optimizer.9.exp_avg": torch.zeros(3)}), "'optimizer.9.exp_avg' belongs to no weight"),
        (lambda x: x.update({"optimizer.x": torch.zeros(3)}), "'optimizer.x' belongs to no weight"),
        (lambda x: x.pop("optimizer.0.step"), "'step' is missing"),
        (lambda x: x["optimizer.0.exp_avg_sq"].fill_(-1), "have a negative number"),
        (lambda x: x.pop("rng_state.cpu"), r"\(KeyError\)"),
        (lambda x: x.update({"rng_state.cpu": torch.zeros(3)}), "'rng_state.cpu' is float32"),
        (lambda x: x["rng_state.cpu"].zero_(), r"\(RuntimeError\)"),
    ],
)
def test_invalid_tensors_are_reported(run: Path, change: Callable[[dict[str, Any]], object], message: str) -> None:
    tensors = load_file(run / "checkpoint" / "epoch-1.safetensors")
    change(tensors)
    tamper(run, state_of(run), tensors)
    with pytest.raises(InputError, match="is damaged, its training cannot be resumed .*" + message):
        resume(run)


def test_a_checkpoint_is_not_read_beyond_its_list_of_tensors(run: Path) -> None:
    with open(run / "checkpoint" / "epoch-1.safetensors", "r+b") as file:
        file.truncate(2**31 - 1)
    with pytest.raises(InputError, match="is damaged, .*its list of tensors requires"):
        resume(run)
    (run / "checkpoint" / "state.json").write_text("[" * 100_000)
    with pytest.raises(InputError, match=r"is damaged, its training cannot be resumed \(RecursionError\)"):
        resume(run)


def test_differences_are_named_in_one_sentence_whatever_their_keys(run: Path) -> None:
    state = state_of(run)
    state["identity"] = {f"a\n{i}" + "x" * 10_000: "y" * 10_000 for i in range(1_000)}
    tamper(run, state)
    with pytest.raises(UsageError, match="cannot be resumed, since .*; and 9.. more: undo the change") as raised:
        resume(run)
    assert len(str(raised.value)) < 3_000 and "\n" not in str(raised.value)
