"""A logger of MLflow, into a database of its own or on a server."""

import logging
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from molattn.training.loggers.base import LoggedRun, Logger, Status
from molattn.training.loggers.packages import require_packages

_STATUS = {"finished": "FINISHED", "failed": "FAILED", "interrupted": "KILLED"}
_NOT_ALLOWED = re.compile(r"[^\w\-. :/]")
"""Characters that the name of a metric cannot have in MLflow."""


class MLFlowLogger(Logger):
    """Logs to the server that MLFLOW_TRACKING_URI names, or else to an SQLite database in the run folder.

    The database is `mlflow/mlflow.db`, with the artifacts next to it in `mlflow/artifacts`; nothing is sent anywhere.
    The experiment is MLFLOW_EXPERIMENT_NAME, or else "molattn".

    Args:
        save_dir: a folder for one database of several runs, instead of one in each run folder.
        tracking_uri: of a server or a database, instead of that of MLFLOW_TRACKING_URI.

    Raises:
        MissingExtra: mlflow-skinny, sqlalchemy or alembic is not installed.

    >>> MLFlowLogger(tracking_uri="http://127.0.0.1:5000").tracking_uri  # for `molattn.train(..., logger=...)`
    'http://127.0.0.1:5000'
    """

    def __init__(self, save_dir: str | Path | None = None, tracking_uri: str | None = None):
        require_packages("mlflow")
        self.save_dir, self.tracking_uri = save_dir, tracking_uri
        self.client: Any = None
        self.run_id = ""

    def open(self, run: LoggedRun) -> str:
        """Begin a run of MLflow, or continue that of the resumed run; returns its id."""
        # MLflow would send usage statistics, even with a local database.
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        from mlflow import MlflowClient

        for name in ("mlflow", "alembic"):
            logging.getLogger(name).setLevel(logging.WARNING)
        uri = self.tracking_uri or os.environ.get("MLFLOW_TRACKING_URI", "")
        artifacts = None
        if not uri:
            folder = (run.folder / "mlflow" if self.save_dir is None else Path(self.save_dir)).resolve()
            folder.mkdir(parents=True, exist_ok=True)
            uri, artifacts = f"sqlite:///{(folder / 'mlflow.db').as_posix()}", (folder / "artifacts").as_uri()
        self.client = MlflowClient(uri)
        if run.id:
            self.client.update_run(run.id, status="RUNNING")
            self.run_id = run.id
        else:
            self.run_id = self.client.create_run(self._experiment(artifacts), run_name=run.name).info.run_id
        return self.run_id

    def _experiment(self, artifacts: str | None) -> str:
        """The id of the experiment, which is created if it does not exist."""
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or "molattn"
        found = self.client.get_experiment_by_name(name)
        return self.client.create_experiment(name, artifacts) if found is None else found.experiment_id

    def log_settings(self, settings: Mapping[str, Any]) -> None:
        """Log the settings as parameters."""
        from mlflow.entities import Param

        self.client.log_batch(self.run_id, params=[Param(name, str(value)) for name, value in settings.items()])

    def log_metrics(self, metrics: Mapping[str, float], epoch: int) -> None:
        """Log `metrics` with the epoch as their step."""
        from mlflow.entities import Metric

        now = int(1000 * time.time())
        found = [Metric(_NOT_ALLOWED.sub("_", name), float(value), now, epoch) for name, value in metrics.items()]
        self.client.log_batch(self.run_id, metrics=found)

    def log_artifact(self, path: Path) -> None:
        """Copy the file or the folder `path` to the artifacts; pictures into `plots`."""
        if path.is_dir():
            self.client.log_artifacts(self.run_id, str(path), path.name)
        else:
            self.client.log_artifact(self.run_id, str(path), "plots" if path.suffix == ".png" else None)

    def close(self, status: Status) -> None:
        """End the run of MLflow with its status FINISHED, FAILED or KILLED."""
        client, self.client = self.client, None
        if client is not None:
            client.set_terminated(self.run_id, _STATUS[status])
