"""A custom logger: the losses of a training as bars in the terminal, and as a table for a spreadsheet.

    python -m examples.log_a_training              # ESOL, 10 epochs, some ten seconds
    python -m examples.log_a_training --epochs 30 --dataset freesolv

Settings, metrics and files go to two loggers: `Bars`, below, and molattn's own "csv". The run folder is temporary.
"""

import argparse
import tempfile
from collections.abc import Mapping
from pathlib import Path

import molattn
from molattn.training.loggers import LoggedRun, Logger, Status

WIDTH = 40


class Bars(Logger):
    """Draws a bar for the training loss (=) and one for the validation loss (-) of each epoch, the first as a whole."""

    def __init__(self, width: int = WIDTH):
        self.width = width
        self.largest = 0.0
        self.files: list[str] = []

    def open(self, run: LoggedRun) -> str:
        """Say which training begins."""
        self.largest, self.files = 0.0, []
        print(f"{run.name}, after epoch {run.epoch}" if run.epoch else run.name)
        return ""

    def log_metrics(self, metrics: Mapping[str, float], epoch: int) -> None:
        """Draw an epoch, or print the test metrics."""
        if "val_loss" not in metrics:
            print("test:", ", ".join(f"{name.removeprefix('test_')} {value:.3f}" for name, value in metrics.items()))
            return
        losses = metrics["train_loss"], metrics["val_loss"]
        self.largest = self.largest or max(losses)
        for loss, sign in zip(losses, "=-", strict=True):
            bar = sign * min(self.width, round(self.width * loss / self.largest))
            print(f"{epoch:4d} {bar:{self.width}} {loss:.3f}")

    def log_artifact(self, path: Path) -> None:
        """Keep the name of a file."""
        self.files.append(path.name)

    def close(self, status: Status) -> None:
        """Say how it ended."""
        print(f"{status}; logged: {', '.join(self.files) or 'no file'}")


def main() -> None:
    """Train, with two loggers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="esol")
    parser.add_argument("--epochs", type=int, default=10)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        logger = [Bars(), "csv"]
        run = molattn.train(
            options.dataset, epochs=options.epochs, logger=logger, output_dir=Path(folder, "run"), quiet=True
        )
        print((run.folder / "csv" / "metrics.csv").read_text(), end="")


if __name__ == "__main__":
    main()
