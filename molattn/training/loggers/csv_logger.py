"""A logger of one table, for spreadsheets and pandas."""

import csv
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from molattn.data.files import write_text
from molattn.data.tables.table import write_table
from molattn.training.loggers.base import LoggedRun, Logger

EPOCH = "epoch"


class CSVLogger(Logger):
    """Writes `metrics.csv`, one line for each epoch, and `settings.json`, into `csv` in the run folder.

    After each epoch the table is replaced as a whole, so that it never ends within a line. The test metrics are columns
    of the line of the best epoch.

    Args:
        save_dir: a folder to write into by the name of the run; the folder `csv` in the run folder by default.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     logger = CSVLogger()
    ...     _ = logger.open(LoggedRun("esol", Path(folder)))
    ...     logger.log_metrics({"val_loss": 0.5}, 1)
    ...     print(Path(folder, "csv", "metrics.csv").read_text().split())
    ['epoch,val_loss', '1,0.5']
    """

    def __init__(self, save_dir: str | Path | None = None):
        self.save_dir = save_dir
        self.folder = Path()
        self.rows: dict[int, dict[str, str]] = {}

    def open(self, run: LoggedRun) -> str:
        """Begin a table, or continue the one of the resumed run."""
        self.folder, self.rows = run.place("csv", self.save_dir), {}
        self.folder.mkdir(parents=True, exist_ok=True)
        if run.epoch and (self.folder / "metrics.csv").is_file():
            with open(self.folder / "metrics.csv", newline="", encoding="utf-8") as file:
                rows = {int(row[EPOCH]): row for row in csv.DictReader(file)}
            self.rows = {epoch: row for epoch, row in rows.items() if epoch <= run.epoch}
        return ""

    def log_settings(self, settings: Mapping[str, Any]) -> None:
        """Write `settings.json`."""
        write_text(self.folder / "settings.json", json.dumps(dict(settings), indent=1) + "\n")

    def log_metrics(self, metrics: Mapping[str, float], epoch: int) -> None:
        """Add the numbers to the line of the epoch; an undefined one is an empty cell."""
        row = self.rows.setdefault(epoch, {EPOCH: str(epoch)})
        row |= {name: "" if math.isnan(value) else repr(float(value)) for name, value in metrics.items()}
        columns = tuple(dict.fromkeys(name for row in self.rows.values() for name in row))
        cells = ([self.rows[epoch].get(name, "") for name in columns] for epoch in sorted(self.rows))
        write_table(self.folder / "metrics.csv", columns, cells)
