"""A logger of TensorBoard's event files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from molattn.training.loggers.base import LoggedRun, Logger, Status
from molattn.training.loggers.packages import require_packages

MAX_TEXT = 200_000
"""The maximum number of characters of a text file that is logged; of a longer one only the path is logged."""


class TensorBoardLogger(Logger):
    """Writes event files into `tensorboard` in the run folder, for `tensorboard --logdir runs/esol/tensorboard`.

    Metrics are logged as scalars by epoch, pictures as images, and settings and text files as texts; of other files
    only the paths are logged.

    Args:
        save_dir: a folder to write into by the name of the run; the folder `tensorboard` in the run folder by default.

    Raises:
        MissingExtra: the package tensorboard is not installed.

    >>> TensorBoardLogger(save_dir="logs/tensorboard").save_dir  # for `molattn.train(..., logger=...)`
    'logs/tensorboard'
    """

    def __init__(self, save_dir: str | Path | None = None):
        require_packages("tensorboard")
        self.save_dir = save_dir
        self.writer: Any = None
        self.epoch = 0

    def open(self, run: LoggedRun) -> str:
        """Begin a file of events; events after the last logged epoch of a resumed run are superseded."""
        from torch.utils.tensorboard import SummaryWriter

        self.epoch = run.epoch
        folder = str(run.place("tensorboard", self.save_dir))
        self.writer = SummaryWriter(folder, purge_step=run.epoch + 1 if run.epoch else None)
        return ""

    def log_settings(self, settings: Mapping[str, Any]) -> None:
        """Write the settings as one text, a table."""
        lines = [f"| {name} | {value} |" for name, value in settings.items()]
        self.writer.add_text("settings", "\n".join(["| setting | value |", "| --- | --- |", *lines]), 0)

    def log_metrics(self, metrics: Mapping[str, float], epoch: int) -> None:
        """Write each of `metrics` as a point of its curve, at the epoch."""
        self.epoch = max(self.epoch, epoch)
        for name, value in metrics.items():
            self.writer.add_scalar(name, value, epoch)
        self.writer.flush()

    def log_artifact(self, path: Path) -> None:
        """Write the picture at `path` as an image, and anything else as a text."""
        if path.suffix == ".png":
            from matplotlib.image import imread

            self.writer.add_image(f"{path.parent.name}/{path.stem}", imread(path), self.epoch, dataformats="HWC")
            return
        text = str(path)
        if path.suffix in (".json", ".toml") and path.stat().st_size <= MAX_TEXT:
            text = "\n".join(f"    {line}" for line in path.read_text(encoding="utf-8").splitlines())
        self.writer.add_text(path.name, text, self.epoch)

    def close(self, status: Status) -> None:
        """Write the status, how the training ended, and close the file."""
        writer, self.writer = self.writer, None
        if writer is not None:
            writer.add_text("status", status, self.epoch)
            writer.close()
