"""A resumed training is bitwise equal to an uninterrupted one."""

import csv
import json
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import molattn
from molattn.chem import molecule_graph
from molattn.errors import InputError, UsageError
from molattn.training import ensemble
from molattn.training.callbacks import Callback
from molattn.training.checkpoint import CheckpointFolder
from molattn.training.checkpoint_file import Checkpoint, load_checkpoint, save_checkpoint
from molattn.training.config import DataConfig, TrainingConfig
from molattn.training.multiple_runs import run_multiple
from molattn.training.objectives import add_auxiliary_targets
from molattn.training.reporter import SilentReporter
from molattn.training.run import run
from molattn.training.run_config import RunConfig
from tests.molecules import esol
from tests.training.runs import interrupt, resume, same_runs, small_table, train_small


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_table(tmp_path_factory.mktemp("resume") / "t.csv")


@pytest.fixture(scope="module")
def whole(table: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "run"
    train_small(table, folder)
    return folder


def test_a_resumed_run_over_atoms_is_bitwise_equal(tmp_path: Path) -> None:
    lists = [(smiles, [round(0.1 * i, 1) for i in range(molecule_graph(smiles).num_atoms)]) for smiles in esol(30)[0]]
    table = tmp_path / "t.csv"
    rows = [f'{smiles},"{q}",{1 + k % 3}' for k, (smiles, q) in enumerate(lists)]
    table.write_text("\n".join(["smiles,q,w", *rows]) + "\n")
    options = {"target_columns": ("q",), "weight_column": "w", "split": "stratified", "epochs": 3}
    train_small(table, tmp_path / "whole", **options)
    interrupt(table, tmp_path / "run", 1, **options)
    resume(tmp_path / "run")
    same_runs(tmp_path / "run", tmp_path / "whole")


@pytest.mark.finished_runs
@pytest.mark.parametrize("after", [1, 2, 5])
def test_a_resumed_run_is_bitwise_equal(table: Path, whole: Path, tmp_path: Path, after: int) -> None:
    run = tmp_path / "run"
    interrupt(table, run, after)
    assert {p.name for p in run.iterdir()} == {"config.toml", "splits.csv", "data_report.json", "checkpoint"}
    assert {p.name for p in (run / "checkpoint").iterdir()} == {"state.json", f"epoch-{after - 1}.safetensors"}
    torch.manual_seed(9)  # the caller's random states do not change
    before = torch.get_rng_state(), np.random.get_state()[1].tolist()  # noqa: NPY002
    result = resume(run)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.random.get_state()[1].tolist() == before[1]  # noqa: NPY002
    assert len(result.history) == 6
    same_runs(run, whole)


@pytest.mark.finished_runs
def test_a_run_can_be_interrupted_repeatedly(table: Path, whole: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    interrupt(table, run, 1)
    for after in (3, 4):
        with pytest.MonkeyPatch.context() as patch:

            def epoch(_: object, record: object, __: int, after: int = after) -> None:
                if record.epoch == after + 1:  # pyright: ignore[reportAttributeAccessIssue]
                    raise OSError("the disk is full")

            patch.setattr("molattn._train.PrintReporter.epoch", epoch)
            with pytest.raises(OSError, match="full"):
                resume(run)
    resume(run)
    same_runs(run, whole)


def test_a_finished_training_is_evaluated_on_resuming(table: Path, tmp_path: Path) -> None:
    # With a far too high learning rate, early stopping ends the training.
    options = {"settings": ("training.learning_rate=0.03", "training.ema=0", "training.patience=2"), "epochs": 50}
    train_small(table, tmp_path / "whole", **options)
    for what in ("save_artifact", "build_artifact"):
        with pytest.MonkeyPatch.context() as patch:

            def stop(*_: object, **__: object) -> None:
                raise RuntimeError("out of memory")

            patch.setattr(f"molattn.training.train_and_evaluate.{what}", stop)
            with pytest.raises(RuntimeError, match="out of memory"):
                train_small(table, tmp_path / what, **options)
        assert load_checkpoint(tmp_path / what / "checkpoint").state["finished"]  # pyright: ignore[reportOptionalMemberAccess]
        resume(tmp_path / what)
        same_runs(tmp_path / what, tmp_path / "whole")


def test_a_checkpoint_every_few_epochs(table: Path, tmp_path: Path) -> None:
    options = {"settings": ("training.checkpoint_every=3",)}
    train_small(table, tmp_path / "whole", **options)
    interrupt(table, tmp_path / "run", 5, **options)
    assert (tmp_path / "run" / "checkpoint" / "epoch-2.safetensors").is_file()
    resume(tmp_path / "run")
    same_runs(tmp_path / "run", tmp_path / "whole")


@pytest.mark.finished_runs
def test_a_terminated_run_exits_with_the_code_of_sigterm(table: Path, whole: Path, tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as stop:
        interrupt(table, tmp_path / "run", 3, signal.SIGTERM)
    assert stop.value.code == 143
    resume(tmp_path / "run")
    same_runs(tmp_path / "run", whole)


def test_a_run_killed_before_its_first_epoch_starts_over(unfinished: Path, whole: Path) -> None:
    shutil.rmtree(unfinished / "checkpoint")
    (unfinished / ".config.toml.0123abcd.tmp").touch()
    (unfinished / ".mine.tmp").touch()
    resume(unfinished)
    assert (unfinished / "metrics.json").read_bytes() == (whole / "metrics.json").read_bytes()
    assert {p.name for p in unfinished.iterdir() if p.name.endswith(".tmp")} == {".mine.tmp"}


def test_a_run_that_fails_before_its_first_epoch_leaves_no_folder(table: Path, tmp_path: Path) -> None:
    interrupt(table, tmp_path / "run", 0)
    assert not (tmp_path / "run").exists()


def test_a_run_without_a_model_to_keep_leaves_no_folder(table: Path, tmp_path: Path) -> None:
    settings = ("training.learning_rate=1e30", "training.grad_clip=0", "training.warmup=0", "training.ema=0")
    with pytest.raises(InputError, match="no finite validation loss"):
        train_small(table, tmp_path / "run", settings=settings, epochs=2)
    assert not (tmp_path / "run").exists()


@pytest.fixture
def unfinished(table: Path, tmp_path: Path) -> Path:
    """A run of two epochs out of six, over a table of its own."""
    own = tmp_path / "own.csv"
    own.write_text(table.read_text())
    interrupt(own, tmp_path / "run", 2)
    return tmp_path / "run"


def test_errors_of_an_unfinished_run_explain_how_to_resume(unfinished: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"holds an unfinished run: --resume .*run continues it, --force starts over"):
        train_small(tmp_path / "own.csv", unfinished)
    with pytest.raises(InputError, match=r"holds an unfinished run: molattn train --resume .*run continues it"):
        molattn.load(unfinished)
    train_small(tmp_path / "own.csv", unfinished, force=True)
    molattn.load(unfinished)
    with pytest.raises(UsageError, match="is finished: there is nothing to resume"):
        resume(unfinished)


def test_only_runs_are_resumed(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no run"):
        resume(tmp_path / "nowhere")
    with pytest.raises(UsageError, match=r"it has no config\.toml: there is nothing to resume"):
        resume(tmp_path)


@pytest.mark.parametrize("start", [run, run_multiple])
def test_the_folder_of_a_run_to_resume_must_be_given(start: Callable[..., object]) -> None:
    config = RunConfig(data=DataConfig(dataset="esol"), training=TrainingConfig(num_replicates=2))
    with pytest.raises(UsageError, match="resume=True continues an unfinished run: give its folder"):
        start(config, None, SilentReporter(), resume=True)


def test_resuming_takes_no_folder_or_settings_file(unfinished: Path, tmp_path: Path) -> None:
    for options in ({"config": unfinished / "config.toml"}, {"output_dir": tmp_path / "other"}, {"force": True}):
        with pytest.raises(UsageError, match="give no --config, --output-dir or --force"):
            resume(unfinished, **options)


def test_other_settings_are_refused_and_named(unfinished: Path, whole: Path) -> None:
    with pytest.raises(UsageError, match=r"since training\.epochs was 6 and is 9 now: undo the change"):
        resume(unfinished, epochs=9)
    config = unfinished / "config.toml"
    text = config.read_text()
    config.write_text(text.replace("hidden_dim = 16", "hidden_dim = 32"))
    with pytest.raises(UsageError, match=r"model\.hidden_dim was 16 and is 32 now"):
        resume(unfinished)
    config.write_text(text)
    resume(unfinished, epochs=6, num_workers=1)
    assert (unfinished / "metrics.json").read_bytes() == (whole / "metrics.json").read_bytes()


def test_another_table_is_refused(unfinished: Path, tmp_path: Path) -> None:
    own = tmp_path / "own.csv"
    own.write_text(own.read_text().replace("\n", "\r\n"))
    with pytest.raises(UsageError, match="sha256 of the table was "):
        resume(unfinished)


def test_another_split_is_refused(unfinished: Path, table: Path, tmp_path: Path) -> None:
    with open(unfinished / "splits.csv", newline="") as file:
        rows = list(csv.reader(file))
    splits = tmp_path / "splits.csv"
    splits.write_text("\n".join(map(",".join, rows)) + "\n")
    interrupt(table, tmp_path / "other", 1, splits_file=str(splits))
    rows[1][1], rows[2][1] = "test", "val"
    splits.write_text("\n".join(map(",".join, rows)) + "\n")
    with pytest.raises(UsageError, match="sha256 of the split was "):
        resume(tmp_path / "other")


def test_a_damaged_checkpoint_is_an_error_in_one_sentence(unfinished: Path) -> None:
    folder = unfinished / "checkpoint"
    rng = np.random.default_rng(0)
    for name in ("state.json", "epoch-1.safetensors"):
        data = (folder / name).read_bytes()
        for _ in range(20):
            damaged = bytearray(data)
            damaged[rng.integers(len(data))] ^= 1 << int(rng.integers(8))
            for content in (bytes(damaged), data[: int(rng.integers(len(data)))]):
                (folder / name).write_bytes(content)
                with pytest.raises(InputError, match="is damaged|by another molattn"):
                    load_checkpoint(folder)
        (folder / name).write_bytes(data)
    (folder / "epoch-1.safetensors").unlink()
    with pytest.raises(InputError, match="cannot be resumed"):
        resume(unfinished)
    assert folder.is_dir()


def test_a_checkpoint_round_trip(tmp_path: Path) -> None:
    tensors = {"a.x": torch.arange(3), "a.y": torch.tensor(float("nan")), "b": torch.zeros(2, 0)}
    state = {"epoch": 3, "loss": float("inf"), "digits": 0.1 + 0.2, "identity": {}}
    assert load_checkpoint(tmp_path / "c") is None
    for epoch in (3, 4):
        save_checkpoint(tmp_path / "c", Checkpoint(tensors, {**state, "epoch": epoch}))
    found = load_checkpoint(tmp_path / "c")
    assert found is not None
    assert found.state["digits"] == 0.1 + 0.2
    assert found.state["loss"] == float("inf")
    assert found.state["epoch"] == 4
    assert torch.equal(found.with_prefix("a")["x"], tensors["a.x"])
    assert found.tensors["b"].shape == (2, 0)
    assert len(list((tmp_path / "c").iterdir())) == 2
    assert not list(tmp_path.rglob("*.tmp"))


def test_a_full_disk_keeps_the_previous_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = {"epoch": 0, "identity": {}}
    save_checkpoint(tmp_path / "c", Checkpoint({"x": torch.zeros(1)}, state))
    for write in range(2):
        calls = 0

        def full(_: int, write: int = write) -> None:
            nonlocal calls
            calls += 1
            if calls > write:
                raise OSError("no space left on device")

        with monkeypatch.context() as patch:
            patch.setattr("molattn.data.files.os.fsync", full)
            with pytest.raises(OSError, match="no space"):
                save_checkpoint(tmp_path / "c", Checkpoint({"x": torch.ones(1)}, {**state, "epoch": 1}))
        last = load_checkpoint(tmp_path / "c")
        assert last is not None
        assert last.state["epoch"] == 0
        assert not list(tmp_path.rglob("*.tmp"))


def test_the_time_of_a_resumed_run_includes_the_time_before(unfinished: Path) -> None:
    last = load_checkpoint(unfinished / "checkpoint")
    assert last is not None
    before = CheckpointFolder(unfinished / "checkpoint", last.state["identity"]).seconds
    resume(unfinished)
    assert json.loads((unfinished / "env.json").read_text())["training_seconds"] >= round(before, 2) > 0


class StopInMember(Callback):
    """Raises an error in the second epoch of a model of an ensemble."""

    def __init__(self, member: int):
        self.member, self.current = member, 0

    def on_fit_start(self, learner: Any, member: int) -> None:  # noqa: ARG002
        self.current = member

    def on_epoch_end(self, learner: Any, record: Any) -> None:  # noqa: ARG002
        if record.epoch == 2 and self.current == self.member:
            raise KeyboardInterrupt


def test_the_time_of_a_resumed_run_includes_the_preparation_before(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, passed = time.perf_counter, 0.0

    def prepare_slowly(*arguments: Any) -> Any:
        nonlocal passed
        passed += 1000.0
        return add_auxiliary_targets(*arguments)

    monkeypatch.setattr(time, "perf_counter", lambda: clock() + passed)
    monkeypatch.setattr(ensemble, "add_auxiliary_targets", prepare_slowly)
    # Stopped in the first model, then in the second one, then resumed to the end.
    with pytest.raises(KeyboardInterrupt):
        train_small(table, tmp_path / "run", ensemble_size=2, epochs=2, callbacks=[StopInMember(0)])
    for member in (1, -1):
        with pytest.raises(KeyboardInterrupt) if member == 1 else nullcontext():
            resume(tmp_path / "run", callbacks=[StopInMember(member)])
    assert 3000 <= json.loads((tmp_path / "run" / "env.json").read_text())["training_seconds"] < 3600
