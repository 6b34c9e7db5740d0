"""A logger of Weights & Biases."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from molattn.training.loggers.base import LoggedRun, Logger, Status
from molattn.training.loggers.packages import require_packages


class WandbLogger(Logger):
    """Logs to Weights & Biases in the mode WANDB_MODE; offline, into `wandb` in the run folder, for `wandb sync`.

    The project is WANDB_PROJECT, or else "molattn". WANDB_MODE=offline sends nothing; other modes need `wandb login`.

    Args:
        save_dir: the folder in which the folder `wandb` is created; the run folder by default.
        project: the project, instead of WANDB_PROJECT.

    Raises:
        MissingExtra: the package wandb is not installed.

    >>> WandbLogger(project="solubility").project  # for `molattn.train(..., logger=...)`
    'solubility'
    """

    def __init__(self, save_dir: str | Path | None = None, project: str | None = None):
        require_packages("wandb")
        self.save_dir, self.project = save_dir, project
        self.run: Any = None
        self.epoch = 0

    def open(self, run: LoggedRun) -> str:
        """Begin a run of Weights & Biases, or continue that of the resumed run; returns its id."""
        import wandb

        folder = Path(run.folder if self.save_dir is None else self.save_dir)
        folder.mkdir(parents=True, exist_ok=True)
        self.epoch = run.epoch
        self.run = wandb.init(
            project=self.project or os.environ.get("WANDB_PROJECT") or "molattn",
            name=run.name,
            dir=str(folder),
            id=run.id or None,
            resume="allow" if run.id else None,
            reinit="create_new",
            # A program that calls molattn did not request an upload of its own code and output.
            settings=wandb.Settings(console="off", disable_git=True, save_code=False, quiet=True),
        )
        return self.run.id

    def log_settings(self, settings: Mapping[str, Any]) -> None:
        """Log the settings as the configuration."""
        self.run.config.update(dict(settings), allow_val_change=True)

    def log_metrics(self, metrics: Mapping[str, float], epoch: int) -> None:
        """Log the `metrics` of an epoch with the epoch as their step; the test metrics as the summary."""
        if epoch > self.epoch:
            self.epoch = epoch
            self.run.log({"epoch": epoch, **metrics}, step=epoch)
        else:
            self.run.summary.update(dict(metrics))

    def log_artifact(self, path: Path) -> None:
        """Log the picture at `path` as an image, and anything else as an artifact."""
        import wandb

        if path.suffix == ".png":
            self.run.log({f"{path.parent.name}/{path.stem}": wandb.Image(str(path))})
            return
        name = re.sub(r"[^\w.-]", "_", f"{self.run.name}-{path.name}")
        artifact = wandb.Artifact(name, type="model" if path.is_dir() else "result")
        (artifact.add_dir if path.is_dir() else artifact.add_file)(str(path))
        self.run.log_artifact(artifact)

    def close(self, status: Status) -> None:
        """End the run, which has failed for each status but "finished"."""
        run, self.run = self.run, None
        if run is not None:
            run.finish(exit_code=0 if status == "finished" else 1)
