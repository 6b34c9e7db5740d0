"""The run folder: all output of a run, in plain formats."""

import dataclasses
import json
import os
import platform
import shutil
import sys
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from molattn.data import RejectedRow, format_list
from molattn.data.datasets.cards import file_stem
from molattn.data.files import clear_folder, remove_temporary_files, write_text
from molattn.data.locks import lock_folder
from molattn.data.tables.cells import format_bound
from molattn.data.tables.table import write_table
from molattn.errors import UsageError
from molattn.models.predictions import Predictions
from molattn.training.dataset import PreparedDataset
from molattn.training.early_stopping import EpochRecord
from molattn.training.run_config import RunConfig
from molattn.training.run_status import CONFIG_FILE, SPLITS_FILE, check_new_folder, check_resumable

_PACKAGES = ("molattn", "torch", "rdkit", "numpy", "torch-geometric", "safetensors")


def create(locks: ExitStack, folder: str | Path | None, name: str, force: bool = False) -> Path:
    """Create an empty folder for a new run: `folder`, or runs/NAME, runs/NAME-2 and so on; a slash becomes a hyphen.

    With `force`, an existing run in the folder is removed, but nothing else.

    Args:
        locks: holds a lock on the folder until it is closed.
        folder, name, force: see above.

    Raises:
        UsageError: the folder exists without `force` or is not a run, or another process works in it.
    """
    name = file_stem(name)
    path = Path("runs") / name if folder is None else Path(folder)
    if path.is_file() and folder is not None:
        raise UsageError(f"{path} is a file: give another --output-dir")
    if folder is None:
        path.parent.mkdir(exist_ok=True)
        number = 1
        while True:
            try:
                path.mkdir()
                break
            except FileExistsError:  # several processes may start at once: each creates its own
                number += 1
                path = Path("runs") / f"{name}-{number}"
        locks.enter_context(lock_folder(path))
    else:
        locks.enter_context(lock_folder(path))
        check_new_folder(path, force)
        clear_folder(path)
    return path


def reopen(locks: ExitStack, folder: str | Path) -> Path:
    """Open the folder of an unfinished run, and remove temporary files that a killed process left.

    locks: holds a lock on the folder until it is closed.

    Raises:
        UsageError: there is no unfinished run, or another process works in it.
    """
    path = Path(folder)
    check_resumable(path)
    locks.enter_context(lock_folder(path))
    check_resumable(path)
    remove_temporary_files(path)
    return path


def remove(folder: Path, is_default_folder: bool) -> None:
    """Remove the folder of a run that failed, and with `is_default_folder` also runs/ if it has no other run."""
    shutil.rmtree(folder, ignore_errors=True)
    if is_default_folder:
        with suppress(OSError):
            folder.parent.rmdir()


def write_config(folder: Path, config: RunConfig) -> None:
    """Write `config.toml`: the resolved settings, for `molattn train --config`."""
    write_text(folder / CONFIG_FILE, tomli_w.dumps(config.to_dict()))


def write_splits(folder: Path, dataset: PreparedDataset) -> None:
    """Write `splits.csv`: the split label of every row of the table, in its order, for `--splits-file`."""
    write_table(folder / SPLITS_FILE, ("smiles", "split"), zip(dataset.smiles, dataset.split_labels, strict=True))


def write_rejected(path: Path, rejected: Sequence[RejectedRow]) -> None:
    """Write a table of the rejected rows, with the line of the source and the reason; no file without any."""
    if rejected:
        rows = [(str(r.row), str(r.line), r.smiles, r.reason) for r in rejected]
        write_table(path, ("row", "line", "smiles", "reason"), rows)


def write_standardized(folder: Path, dataset: PreparedDataset) -> None:
    """Write `standardized.csv`: rows whose molecule standardization changed, and its new form; no file without any."""
    if changed := dataset.standardized:
        rows = [(str(row), dataset.smiles[row], form) for row, form in changed]
        write_table(folder / "standardized.csv", ("row", "smiles", "standardized"), rows)


def write_duplicates(folder: Path, dataset: PreparedDataset) -> None:
    """Write `duplicates.csv`: the rows of molecules in several rows, and how they were merged; no file without any.

    Each line has the labels of the row, the merged labels of the molecule, and the row that was kept; the last two are
    empty for a molecule that was left out.
    """
    if not dataset.duplicates:
        return
    targets, task = dataset.config.target_columns, dataset.task

    def cells(labels: Sequence[float]) -> list[str]:
        return ["" if np.isnan(y) else _exact(task.table_value(y, t)) for t, y in enumerate(labels)] or [""] * len(
            targets
        )

    columns = ("row", "smiles", "molecule", *targets, *(f"{t}_merged" for t in targets), "merged_into")
    rows = [
        (
            str(r.row),
            dataset.smiles[r.row],
            r.molecule,
            *cells(r.values),
            *cells(r.labels),
            "" if r.merged_into is None else str(r.merged_into),
        )
        for r in dataset.duplicates
    ]
    write_table(folder / "duplicates.csv", columns, rows)


def write_predictions(folder: Path, dataset: PreparedDataset, predictions: Predictions, extra: Sequence[str]) -> None:
    """Write `predictions.csv`: the labels and predictions of every molecule of every split, in the order of the table.

    For atom-level targets each cell holds a list in JSON, with null for a missing label. A censored label is empty, so
    that metrics can be computed from the column; a last column NAME_bound has its bound, as >10.0. A row that was
    merged into another row of its molecule has the prediction and no label: the row that was kept has the label.

    extra: the names of the columns of `predictions.extra_values`.
    """
    targets, task = dataset.config.target_columns, dataset.task
    columns = ("row", "split", "smiles", *targets, *(f"{t}_pred" for t in targets), *extra)
    bounds = dataset.bounds
    if bounds is not None:
        columns += tuple(f"{t}_bound" for t in targets)
    extra_values = predictions.extra_values

    def cells(numbers: np.ndarray) -> list[str]:
        # A missing label is an empty cell.
        return ["" if np.isnan(x) else _exact(task.table_value(x, t)) for t, x in enumerate(numbers)]

    def cells_of(i: int, labelled: bool) -> list[str]:
        """The cells of molecule i, with or without its labels."""
        rows = [
            [
                *cells(dataset.targets[k] if labelled else np.full(len(targets), np.nan)),
                *cells(predictions.values[k]),
                *map(_exact, extra_values[k].tolist()),
            ]
            for k in dataset.target_rows(np.array([i]))
        ]
        bound_cells = [] if bounds is None else [format_bound(*pair) if labelled else "" for pair in bounds[i]]
        return list(map(format_list, zip(*rows, strict=True))) if task.atom_level else [*rows[0], *bound_cells]

    def rows() -> Iterable[Sequence[str]]:
        merged, index_of = dataset.merged_rows, {int(row): i for i, row in enumerate(dataset.rows)}
        for row in sorted([*index_of, *merged]):
            if split := str(dataset.split_labels[row]):
                i = index_of[merged.get(row, row)]
                yield (str(row), split, dataset.smiles[row], *cells_of(i, row not in merged))

    write_table(folder / "predictions.csv", columns, rows())


def _exact(value: float | str) -> str:
    # repr keeps every digit.
    return value if isinstance(value, str) else repr(float(value))


def write_history(folder: Path, histories: Sequence[Sequence[EpochRecord]]) -> None:
    """Write `history.csv`: one line per epoch, from 1; the column of the metric has its name, such as `val_rmse`.

    For an ensemble the lines of every member, with a first column of its index, from 0.
    """
    omitted = ("metric", "tracking_metric", "best_value")
    names = [f.name for f in dataclasses.fields(EpochRecord) if f.name not in omitted]
    columns = [f"val_{histories[0][0].metric}" if name == "val_metric" else name for name in names]
    rows = [(i, [str(getattr(r, name)) for name in names]) for i, history in enumerate(histories) for r in history]
    if len(histories) == 1:
        write_table(folder / "history.csv", columns, (row for _, row in rows))
    else:
        write_table(folder / "history.csv", ("member", *columns), ([str(i), *row] for i, row in rows))


def write_json(path: Path, content: Any) -> None:
    """Write `content` as indented JSON; raises ValueError for numbers that are not finite, which JSON lacks."""
    write_text(path, json.dumps(content, indent=1, allow_nan=False) + "\n")


def environment(seed: int, sha256: str, seconds: float) -> dict[str, Any]:
    """The environment of a run: versions, machine, seed, data, and the duration of the training."""
    return {
        "seed": seed,
        "data_sha256": sha256,
        "training_seconds": round(seconds, 2),
        "python": platform.python_version(),
        "platform": f"{sys.platform}-{platform.machine()}",
        "cpus": os.cpu_count(),
        "packages": {name: version(name) for name in _PACKAGES},
    }
