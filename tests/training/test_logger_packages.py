"""What TensorBoard, MLflow and Weights & Biases read of a training that was interrupted and resumed."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from wandb.proto.wandb_internal_pb2 import Record
from wandb.sdk.internal.datastore import DataStore

from molattn.training.loggers import LoggedRun, MLFlowLogger
from molattn.training.loggers.run_log import STATE_FILE
from tests.training.runs import StopIn, resume, train_forty

# MLflow's own, with the newest SQLAlchemy.
pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SADeprecationWarning")

VARIABLES = ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME", "WANDB_PROJECT", "WANDB_DIR")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The result of three epochs; the second was logged before the interruption, and not saved."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("run"))
        patch.setenv("WANDB_MODE", "offline")
        patch.setenv("WANDB_SILENT", "true")
        for name in VARIABLES:
            patch.delenv(name, raising=False)
        folder = Path("run").absolute()
        with pytest.raises(KeyboardInterrupt):
            train_forty(folder, logger=["tensorboard", "mlflow", "wandb"], callbacks=[StopIn(2)], epochs=3)
        result = resume(folder, callbacks=[StopIn(9)])
        assert not Path("mlruns").exists() and not Path("wandb").exists()
        return result


@pytest.mark.finished_runs
def test_the_events_of_tensorboard_hold_curves_pictures_and_texts(run: Any) -> None:
    events = EventAccumulator(str(run.folder / "tensorboard")).Reload()
    found = [(e.step, e.value) for e in events.Scalars("val_loss")]
    assert found == [(r.epoch, pytest.approx(r.val_loss)) for r in run.history]
    assert [e.step for e in events.Scalars("test_rmse")] == [run.metrics["best_epoch"]]
    tags = events.Tags()
    assert {"plots/parity", "plots/learning_curve"} <= set(tags["images"])
    assert {"config.toml/text_summary", "settings/text_summary"} <= set(tags["tensors"])


@pytest.mark.finished_runs
def test_mlflow_has_one_run_in_the_run_folder(run: Any) -> None:
    client = MlflowClient(f"sqlite:///{run.folder / 'mlflow' / 'mlflow.db'}")
    (experiment,) = [e for e in client.search_experiments() if e.name == "molattn"]
    (found,) = client.search_runs([experiment.experiment_id])
    assert found.info.status == "FINISHED" and found.info.run_id in (run.folder / STATE_FILE).read_text()
    assert found.info.run_name == "run" and found.data.params["training.epochs"] == "3"
    losses = sorted((m.step, m.value) for m in client.get_metric_history(found.info.run_id, "val_loss"))
    assert losses == [(r.epoch, pytest.approx(r.val_loss)) for r in run.history]
    assert found.data.metrics["test_rmse"] == pytest.approx(run.metrics["test"]["y"]["rmse"])
    files = {f.path for f in client.list_artifacts(found.info.run_id)}
    assert files == {"model", "plots", "config.toml", "metrics.json", "env.json"}


def test_mlflow_logs_where_its_variables_say(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path / 'all.db'}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "solubility")
    monkeypatch.chdir(tmp_path)
    logger = MLFlowLogger()
    logger.open(LoggedRun("run", Path("run")))
    logger.log_metrics({"test_rmse/IC50 [nM]": 2.0, "test_r2": math.nan}, 1)
    logger.close("failed")
    (experiment,) = [e for e in MlflowClient(uri).search_experiments() if e.name == "solubility"]
    (found,) = MlflowClient(uri).search_runs([experiment.experiment_id])
    assert found.info.status == "FAILED" and found.data.metrics["test_rmse/IC50 _nM_"] == 2.0
    assert not Path("run").exists()


@pytest.mark.finished_runs
def test_wandb_has_one_run_in_two_offline_folders(run: Any) -> None:
    states = json.loads((run.folder / STATE_FILE).read_text())
    (run_id,) = [state["id"] for state in states if state["logger"] == "wandb"]
    folders = sorted((run.folder / "wandb").glob("offline-run-*"))
    assert all(f"-{run_id}" in folder.name for folder in folders) and len(folders) == 2
    rows = [_history(next(folder.glob("*.wandb"))) for folder in folders]
    epochs = [[row for row in each if "val_loss" in row] for each in rows]
    assert [[row["epoch"] for row in each] for each in epochs] == [[1, 2], [3]]
    losses = [row["val_loss"] for each in epochs for row in each]
    assert losses == pytest.approx([r.val_loss for r in run.history])
    assert any(key.startswith("plots/parity/") for row in rows[1] for key in row)


def _history(path: Path) -> list[dict[str, Any]]:
    """The rows of the history in the file of an offline run."""
    store = DataStore()
    store.open_for_scan(str(path))
    rows = []
    while (data := store.scan_data()) is not None:
        record = Record()
        record.ParseFromString(data)
        if record.HasField("history"):
            items = record.history.item
            rows.append({item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items})
    return rows
