"""The files of a run folder that a report shows: predictions, metrics, history, settings, data report, faithfulness."""

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from molattn.data import read_table
from molattn.data.schema import parse_json
from molattn.data.tables.table import Table, column
from molattn.errors import InputError, UsageError, short_repr, warn_caller
from molattn.hub.address import address_text, is_hub_address
from molattn.models.artifact_settings import read_transform
from molattn.models.names import ATOM_PREFIX
from molattn.models.target_transform import TargetTransform
from molattn.training.run_config import read_config
from molattn.training.run_status import (
    CONFIG_FILE,
    METRICS_FILE,
    check_has_model,
    is_unfinished,
    model_folder,
    resume_hint,
)
from molattn.viewer.report.target_values import TargetValues

PREDICTIONS_FILE, HISTORY_FILE = "predictions.csv", "history.csv"


@dataclass(frozen=True)
class RunFiles:
    """The content of a run folder, for n molecules and T targets.

    Attributes:
        folder: the folder.
        rows: (n,) row numbers in the table of the run, from 0.
        smiles: n SMILES.
        splits: n split labels, "train", "val", "test" or "cal".
        targets: T targets with their true and predicted values.
        metrics: the content of metrics.json; empty if the file is missing, as for those below.
        config: the content of config.toml.
        history: the columns of history.csv, by name.
        data_report, environment, faithfulness: the contents of data_report.json, env.json and faithfulness.json.
        rejected: the rows of rejected.csv: line, SMILES and reason.
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
    def quoted_folder(self) -> str:
        """The folder as a word of a shell command."""
        return shlex.quote(str(self.folder))

    @property
    def name(self) -> str:
        """The name of the folder."""
        return self.folder.resolve().name

    def select(self, indices: np.ndarray) -> "RunFiles":
        """The run with only the molecules of these indices, in their order; metrics and other files are unchanged."""
        order = [int(i) for i in indices]
        return replace(
            self,
            rows=self.rows[order],
            smiles=[self.smiles[i] for i in order],
            splits=[self.splits[i] for i in order],
            targets=tuple(target.select(order) for target in self.targets),
        )


def read_run(folder: str | Path) -> RunFiles:
    """Read the files of a run, of which only predictions.csv is required.

    A damaged JSON file or history.csv is left out, with a `MolattnWarning`.

    Args:
        folder: the folder of a finished run.

    Raises:
        UsageError: the folder does not exist, is unfinished, is a model on the hub or has no predictions.csv; the
            targets are atom-level; config.toml is not TOML; or a table lacks a column.
        InputError: the folder has several runs; a table cannot be read, or a cell of predictions.csv is not a number
            or not a class.
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
    check_has_model(folder)
    if not (folder / PREDICTIONS_FILE).is_file():
        raise UsageError(
            f"{folder} has no {PREDICTIONS_FILE}: a report is made of a run that molattn train has written"
        )
    model = _read_json(model_folder(folder) / "config.json")
    data_report = _read_json(folder / "data_report.json")
    table = read_table(folder / PREDICTIONS_FILE)
    return RunFiles(
        folder,
        _row_numbers(table),
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


def _row_numbers(table: Table) -> np.ndarray:
    cells = column(table, "row")
    for i, cell in enumerate(cells):
        if not cell.isdecimal():
            raise InputError(
                f"{table.source}, {table.location(i)}: {short_repr(cell)} in column 'row' is not a row number"
            )
    return np.array([int(cell) for cell in cells], dtype=int)


def _targets(table: Table, model: dict[str, Any], data_report: dict[str, Any]) -> tuple[TargetValues, ...]:
    """The targets of predictions.csv, with the kind, classes and units of the model's config.json if it has them.

    Values of a target that the model learned as logarithms are logarithms, too.
    """
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
    transforms = {t.get("name"): _transform(t) for t in model.get("targets", ())}
    classes = [tuple(map(str, names_of_target)) for names_of_target in task.get("classes") or ()]
    classes += [()] * (len(names) - len(classes))
    return tuple(
        TargetValues.read(table, name, units.get(name, ""), kind, of_target).transformed(transforms.get(name))
        for name, of_target in zip(names, classes, strict=False)
    )


def _transform(target: dict[str, Any]) -> TargetTransform | None:
    """The transform of a target of config.json; None for none, and for settings of another version."""
    try:
        return read_transform(target)
    except (KeyError, TypeError, ValueError):
        return None


def _read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; empty if the file is missing, or with a warning if it is damaged."""
    if not path.is_file():
        return {}
    try:
        content = parse_json(path.read_bytes())
        if not isinstance(content, dict):
            raise ValueError("it is not an object")
    except ValueError as error:
        warn_caller(f"{path} is damaged and left out: {error}")
        return {}
    return content


def _history(path: Path) -> dict[str, list[float]]:
    if not path.is_file():
        return {}
    table = read_table(path)
    constants = {"True": 1.0, "False": 0.0, "": np.nan}
    try:
        return {
            name: [constants[cell] if cell in constants else float(cell) for cell in column(table, name)]
            for name in table.columns
        }
    except ValueError as error:
        warn_caller(f"{path} is damaged and left out: {error}")
        return {}


def _rejected(path: Path) -> list[tuple[str, str, str]]:
    if not path.is_file():
        return []
    table = read_table(path)
    return list(zip(column(table, "line"), column(table, "smiles"), column(table, "reason"), strict=True))
