"""Calls all loggers of a run; an error of a logger does not end the training."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from molattn.data.files import write_text
from molattn.data.schema import Integer, ListOf, Record, String, parse_json
from molattn.errors import ProcessLost
from molattn.training.early_stopping import EpochRecord
from molattn.training.loggers.base import LoggedRun, Logger, Status

STATE_FILE = "loggers.json"
"""In the run folder: of each logger, for the run and each member, its id and the last epoch that it has logged."""

_ENTRY = Record({"logger": String(1000), "part": String(1000), "id": String(10_000), "epoch": Integer(0, 10**9)})
_STATE_SCHEMA = ListOf(_ENTRY, 10**6)


LOGS = Path("logs")
"""The folder for the logs of trainings that have no run folder, those of the estimators."""


def new_log_folder(loggers: Mapping[str, Logger]) -> Path:
    """A new folder logs/fit-1, logs/fit-2, ...; the working directory, without a file, if there is nothing to log."""
    if not loggers:
        return Path()
    number = 1
    while True:
        folder = LOGS / f"fit-{number}"
        try:
            folder.mkdir(parents=True)
            return folder
        except FileExistsError:  # of an earlier training, or of another process
            number += 1


class RunLog:
    """Calls the loggers of a run. One that raises an error is left out from then on, with a warning.

    Args:
        loggers: by their names.
        folder: of the run, with the `STATE_FILE`; a resumed run logs no epoch that was logged before.
        name: of the run.
        settings: the sections of the settings.
        warn: called with messages for the user.
    """

    def __init__(
        self,
        loggers: Mapping[str, Logger],
        folder: Path,
        name: str,
        settings: Mapping[str, Mapping[str, Any]],
        warn: Callable[[str], None],
    ):
        self.loggers, self.folder, self.name, self.warn = dict(loggers), folder, name, warn
        self.settings = {f"{section}.{key}": v for section, values in settings.items() for key, v in values.items()}
        self.part: str | None = None
        self.start = time.perf_counter()
        self.state = self._read_state()

    def _read_state(self) -> dict[tuple[str, str], dict[str, Any]]:
        """The ids and epochs that were stored before an interruption; none for a new run, or if the file is damaged."""
        try:
            entries = _STATE_SCHEMA.validate(parse_json((self.folder / STATE_FILE).read_bytes()), "")
        except (OSError, ValueError):
            return {}
        return {(e["logger"], e["part"]): {"id": e["id"], "epoch": e["epoch"]} for e in entries}

    def open(self, part: str = "") -> None:
        """Begin to log the run, or a member of its ensemble."""
        self.close("finished")
        self.part = part
        name = f"{self.name}/{part}" if part else self.name
        for key in list(self.loggers):
            state = self.state.setdefault((key, part), {"id": "", "epoch": 0})
            run = LoggedRun(name, self.folder, part, state["epoch"], state["id"])
            state["id"] = str(self._call(key, "open", run) or "")
            self._call(key, "log_settings", self.settings)
        self._write_state()
        self.start = time.perf_counter()

    def log_epoch(self, record: EpochRecord) -> None:
        """Log the losses and the metric of an epoch, its learning rate and seconds, where it is not logged yet."""
        now = time.perf_counter()
        seconds, self.start = now - self.start, now
        metrics = {
            "train_loss": record.train_loss,
            "val_loss": record.val_loss,
            f"val_{record.metric}": record.val_metric,
            "learning_rate": record.learning_rate,
            "seconds": seconds,
        }
        for key in list(self.loggers):
            state = self.state[key, self.part or ""]
            if record.epoch > state["epoch"]:
                self._call(key, "log_metrics", metrics, record.epoch)
                state["epoch"] = record.epoch
        self._write_state()

    def log_results(self, metrics: Mapping[str, float], epoch: int, paths: list[Path]) -> None:
        """Log the test metrics, and the files and folders of the run."""
        for key in list(self.loggers):
            self._call(key, "log_metrics", metrics, epoch)
            for path in paths:
                self._call(key, "log_artifact", path)

    def close(self, status: Status) -> None:
        """End what `open` began, if anything."""
        if self.part is not None:
            self.part = None
            for key in list(self.loggers):
                self._call(key, "close", status)

    @contextmanager
    def closed_after_errors(self) -> Iterator[None]:
        """Close all loggers if the block ends with an error."""
        try:
            yield
        except BaseException as error:
            stopped = isinstance(error, ProcessLost) or not isinstance(error, Exception)
            self.close("interrupted" if stopped else "failed")
            raise

    def _call(self, key: str, method: str, *arguments: Any) -> Any:
        """The result of a method of a logger; None if it has failed, now or before."""
        logger = self.loggers.get(key)
        if logger is None:
            return None
        try:
            return getattr(logger, method)(*arguments)
        except Exception as error:
            del self.loggers[key]
            if method != "close":
                with suppress(Exception):
                    logger.close("failed")
            why = f"{type(error).__name__}: {error}"
            self.warn(f"the logger {key} failed in {method}, {why}; the training continues without it")
            return None

    def _write_state(self) -> None:
        if self.loggers:
            entries = [{"logger": key, "part": part, **state} for (key, part), state in self.state.items()]
            write_text(self.folder / STATE_FILE, json.dumps(entries, indent=1) + "\n")
