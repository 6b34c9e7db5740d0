"""Loggers: they record the settings, metrics and files of a training in files or in an experiment tracker.

`molattn train --logger csv tensorboard`, or `molattn.train(..., logger=["csv", MyLogger()])`. A plugin adds functions
that make a logger to `LOGGERS`.
"""

from collections.abc import Callable, Sequence
from typing import Any

from molattn.errors import UsageError, short_repr, unknown_choice
from molattn.training.loggers.base import LoggedRun, Logger, Status
from molattn.training.loggers.csv_logger import CSVLogger
from molattn.training.loggers.mlflow_logger import MLFlowLogger
from molattn.training.loggers.tensorboard_logger import TensorBoardLogger
from molattn.training.loggers.wandb_logger import WandbLogger

__all__ = [
    "LOGGERS",
    "CSVLogger",
    "LoggedRun",
    "Logger",
    "MLFlowLogger",
    "Status",
    "TensorBoardLogger",
    "WandbLogger",
    "build_loggers",
    "named_loggers",
]

LOGGERS: dict[str, Callable[[], Logger]] = {
    "csv": CSVLogger,
    "tensorboard": TensorBoardLogger,
    "mlflow": MLFlowLogger,
    "wandb": WandbLogger,
}
"""Functions that make a logger, by the names in `training.logger`; plugins may add to them."""


def build_loggers(names: Sequence[str]) -> list[Logger]:
    """The loggers of these names; nothing is written yet.

    >>> [type(logger).__name__ for logger in build_loggers(["csv"])]
    ['CSVLogger']

    Args:
        names: keys of `LOGGERS`.

    Raises:
        UsageError: a name that does not exist, or one given twice.
        MissingExtra: the package of a logger is not installed.
    """
    for name in names:
        if name not in LOGGERS:
            raise UsageError(unknown_choice("logger", name, LOGGERS))
        if list(names).count(name) > 1:
            raise UsageError(f"the logger {name} is given twice: give it once")
    return [LOGGERS[name]() for name in names]


def named_loggers(names: Sequence[str], objects: Sequence[Any]) -> dict[str, Logger]:
    """The loggers of these names and the objects, each by a name of its own: "csv", "MyLogger", "MyLogger-2".

    >>> list(named_loggers(["csv"], [CSVLogger(), CSVLogger()]))
    ['csv', 'CSVLogger', 'CSVLogger-2']

    Args:
        names: keys of `LOGGERS`.
        objects: loggers.

    Raises:
        UsageError: as `build_loggers`; or an object that is no logger.
        MissingExtra: as `build_loggers`.
    """
    found = dict(zip(names, build_loggers(names), strict=True))
    for logger in objects:
        if isinstance(logger, type) or not isinstance(logger, Logger):
            raise UsageError(
                f"logger={short_repr(logger)} is no logger: give a name, one of {', '.join(LOGGERS)}, or an instance "
                "of a subclass of molattn.training.loggers.Logger"
            )
        kind = name = type(logger).__name__
        number = 1
        while name in found:
            number += 1
            name = f"{kind}-{number}"
        found[name] = logger
    return found
