"""The base class of loggers, which record the settings, metrics and files of a training."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

Status = Literal["finished", "failed", "interrupted"]
"""How a logged training ended: with a result, with an error, or stopped from outside, so that it can be resumed."""


@dataclass(frozen=True)
class LoggedRun:
    """The training that a logger is opened for: a run, or one member of its ensemble.

    Attributes:
        name: the name of the run's folder, after that of the folder of several runs, and before the member of an
            ensemble: "esol", "esol/replicate_0", "esol/member_1".
        folder: the run folder.
        part: "member_1" for a member of an ensemble, empty for the run itself.
        epoch: the last epoch that was logged before the training was interrupted; 0 for a new training.
        id: what `Logger.open` returned then; empty for a new training.

    >>> LoggedRun("esol/member_1", Path("runs/esol"), "member_1").place("csv").as_posix()
    'runs/esol/csv/member_1'
    """

    name: str
    folder: Path
    part: str = ""
    epoch: int = 0
    id: str = ""

    def place(self, kind: str, save_dir: str | Path | None = None) -> Path:
        """The folder for the files of one kind of logger: in the run folder, or in `save_dir` by the name of the run.

        Args:
            kind: the name of the folder in the run folder.
            save_dir: the folder that the user chose; None for the run folder.
        """
        return self.folder / kind / self.part if save_dir is None else Path(save_dir) / self.name


@runtime_checkable
class Logger(Protocol):
    """The base class of loggers, whose methods do nothing unless a subclass overrides them.

    Each run of folds and replicates and each member of an ensemble is logged separately, between `open` and `close`,
    one after the other by the same object. A run has, in this order, `log_settings` once, `log_metrics` after
    each epoch and once with the test metrics, and `log_artifact` for each result file of its folder;
    a member of an ensemble has no test metrics and no files. In a distributed training only rank 0 logs.

    An exception of a method never ends a training: the logger is left out from then on, and a warning names it.

    >>> class PrintLogger(Logger):
    ...     def log_metrics(self, metrics, epoch):
    ...         print(epoch, *metrics)
    >>> PrintLogger().log_metrics({"train_loss": 0.5, "val_loss": 0.7}, 1)
    1 train_loss val_loss
    """

    def open(self, run: LoggedRun) -> str:  # noqa: ARG002
        """Begin to log a training.

        Args:
            run: of which epochs after `run.epoch` will be logged.

        Returns:
            The id by which the logger finds this training when it is resumed, or an empty text; it is stored in
            `loggers.json` in the run folder.
        """
        return ""

    def log_settings(self, settings: Mapping[str, Any]) -> None:
        """Log the settings.

        Args:
            settings: plain values by names such as "training.epochs".
        """

    def log_metrics(self, metrics: Mapping[str, float], epoch: int) -> None:
        """Log numbers of an epoch, or at the end of the run its test metrics.

        Args:
            metrics: "train_loss", "val_loss", the validation metric such as "val_rmse", "learning_rate" and "seconds";
                at the end "test_rmse" and so on. A number is NaN if it is undefined.
            epoch: from 1; for the test metrics the one whose weights the model has.
        """

    def log_artifact(self, path: Path) -> None:
        """Log a file or a folder of the run folder: settings, metrics, pictures, the model.

        Args:
            path: of the file or the folder.
        """

    def close(self, status: Status) -> None:
        """End what `open` began.

        Args:
            status: "finished", "failed" after an error, or "interrupted".
        """
