"""The files of a run folder that a report shows: predictions, metrics, history, settings, findings, faithfulness."""

import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from molattn.data import read_table
from molattn.data.schema import parse_json
from molattn.data.tables.table import Table, column
from molattn.errors import InputError, MolattnWarning, UsageError
from molattn.hub.address import address_text, is_hub_address
from molattn.models.names import ATOM_PREFIX
from molattn.training.run_config import read_config
from molattn.training.run_status import CONFIG_FILE, METRICS_FILE, is_unfinished, model_folder, resume_hint
from molattn.viewer.report.target_values import TargetValues

PREDICTIONS_FILE, HISTORY_FILE = "predictions.csv", "history.csv"


@dataclass(frozen=True)
class RunFiles:
    """The content of a run folder, for n molecules and T targets.

    Attributes:
        folder: the folder.
        rows: n row numbers of the table of the run, from 0.
        smiles: n SMILES.
        splits: n labels, "train", "val", "test" or "cal".
        targets: T targets with their true and predicted values.
        metrics: the content of metrics.json.
        config: that of config.toml; empty if there is none.
        history: that of history.csv, a list of numbers by the name of its column; empty if there is none.
        data_report, environment, faithfulness: those of data_report.json, env.json and faithfulness.json; empty if
            there are none.
        rejected: n rows of rejected.csv: line, SMILES and reason.
    """

    folder: Path
    rows: np.ndarray
    smiles: list[str]
    splits: list[str]
    targets: tuple[TargetValues, ...]
    metrics: dict[str, Any]
    config: dict[str, Any]
    history: dict[str, list[float]]
    data_report: dict[str, Any]
    environment: dict[str, Any]
    faithfulness: dict[str, Any]
    rejected: list[tuple[str, str, str]]

    @property
    def name(self) -> str:
        """The name of the folder."""
        return self.folder.resolve().name

    def select(self, indices: np.ndarray) -> "RunFiles":
        """The run with only some of its molecules; metrics and other files are unchanged."""
        order = [int(i) for i in indices]
        return replace(
            self,
            rows=self.rows[order],
            smiles=[self.smiles[i] for i in order],
            splits=[self.splits[i] for i in order],
            targets=tuple(target.select(order) for target in self.targets),
        )


def read_run(folder: str | Path) -> RunFiles:
    """Read the files of a run. Only predictions.csv is required; a damaged other file is a `MolattnWarning`.

    Args:
        folder: the folder of a finished run.

    Raises:
        UsageError: the folder does not exist, is unfinished or has no predictions.csv, or its targets are atom-level;
            or it is a model on the hub, which has no predictions.
        InputError: a file that cannot be read.
    """
    if is_hub_address(folder):
        raise UsageError(
            f"{address_text(folder)} is on the hub, without {PREDICTIONS_FILE}: a report is made of a run that molattn "
            "train has written on this machine"
        )
    folder = Path(folder)
    if not folder.is_dir():
        raise UsageError(f"there is no run {folder}")
    if is_unfinished(folder):
        raise UsageError(resume_hint(folder))
    if not (folder / PREDICTIONS_FILE).is_file():
        raise UsageError(
            f"{folder} has no {PREDICTIONS_FILE}: a report is made of a run that molattn train has written"
        )
    model = _read_json(model_folder(folder) / "config.json")
    data_report = _read_json(folder / "data_report.json")
    table = read_table(folder / PREDICTIONS_FILE)
    return RunFiles(
        folder,
        np.array([int(cell) for cell in column(table, "row")], dtype=int),
        column(table, "smiles"),
        column(table, "split"),
        _targets(table, model, data_report),
        _read_json(folder / METRICS_FILE),
        read_config(folder / CONFIG_FILE) if (folder / CONFIG_FILE).is_file() else {},
        _history(folder / HISTORY_FILE),
        data_report,
        _read_json(folder / "env.json"),
        _read_json(folder / "faithfulness.json"),
        _rejected(folder / "rejected.csv"),
    )


def _targets(table: Table, model: dict[str, Any], data_report: dict[str, Any]) -> tuple[TargetValues, ...]:
    """The targets; their kind, classes and units are those of the model's config.json, or else what the table shows."""
    names = [name.removesuffix("_pred") for name in table.columns if name.endswith("_pred")]
    names = [name for name in names if name in table.columns]
    task = model.get("task") or {}
    kind = str(task.get("kind") or data_report.get("task") or "regression")
    if task.get("atom_level") or kind.startswith(ATOM_PREFIX):
        raise UsageError(
            f"{table.source} has targets of atoms: a report shows targets of molecules; molattn view shows atoms"
        )
    if not names:
        raise InputError(f"{table.source} has no target: a column NAME and a column NAME_pred")
    units = {t.get("name"): str(t.get("unit", "")) for t in model.get("targets", ())}
    classes = [tuple(map(str, names_of_target)) for names_of_target in task.get("classes") or ()]
    classes += [()] * (len(names) - len(classes))
    return tuple(
        TargetValues.read(table, name, units.get(name, ""), kind, of_target)
        for name, of_target in zip(names, classes, strict=False)
    )


def _read_json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        content = parse_json(path.read_bytes())
        if not isinstance(content, dict):
            raise ValueError("it is not an object")
    except ValueError as error:
        warnings.warn(MolattnWarning(f"{path} is damaged and left out: {error}"), stacklevel=3)
        return {}
    return content


def _history(path: Path) -> dict[str, list[float]]:
    if not path.is_file():
        return {}
    table = read_table(path)
    numbers = {"True": 1.0, "False": 0.0, "": np.nan}
    try:
        return {name: [numbers[c] if c in numbers else float(c) for c in column(table, name)] for name in table.columns}
    except ValueError as error:
        warnings.warn(MolattnWarning(f"{path} is damaged and left out: {error}"), stacklevel=3)
        return {}


def _rejected(path: Path) -> list[tuple[str, str, str]]:
    if not path.is_file():
        return []
    table = read_table(path)
    return list(zip(column(table, "line"), column(table, "smiles"), column(table, "reason"), strict=True))
