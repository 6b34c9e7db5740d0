"""Measured tables with a model's predictions: that of its run, and one of the user.

Of a target with a transform, such as log10, the values are transformed: errors and changes are then factors, not
differences.
"""

from functools import lru_cache
from pathlib import Path

import numpy as np

from molattn.data import read_records, read_table
from molattn.data.tables.options import DEFAULT_TABLE_OPTIONS, TableOptions
from molattn.data.tables.table import column
from molattn.inference.measured_pairs import CALIBRATING, TEST, MeasuredTable, molecule_key
from molattn.inference.row_predictor import RowPredictor
from molattn.models.target_transform import TargetTransform
from molattn.training.run_status import SPLITS_FILE, run_of_model


def table_of_run(predictor: RowPredictor, target: str) -> MeasuredTable | None:
    """The table of a run's `predictions.csv`; None if there is none, or not of this target."""
    if predictor.folder is None:
        return None
    path = run_of_model(predictor.folder) / "predictions.csv"
    if not path.is_file():
        return None
    return _read_predictions(path, target, _transform_of(predictor, target), path.stat().st_mtime_ns)


def _transform_of(predictor: RowPredictor, target: str) -> TargetTransform | None:
    """The transform of a target, by its name; None for none."""
    return predictor._artifact.scaler.transform_of(predictor.targets.index(target))


@lru_cache(maxsize=4)
def _read_predictions(path: Path, target: str, transform: TargetTransform | None, _: int) -> MeasuredTable | None:
    """The table of a file, cached by its modification time, so that matched pairs are found once for all parents."""
    table = read_table(path)
    if not {target, f"{target}_pred", "smiles", "split"} <= set(table.columns):
        return None
    values, predictions = (
        np.array([float(cell) if cell else np.nan for cell in column(table, name)])
        for name in (target, f"{target}_pred")
    )
    values, predictions = (_transformed(y, transform) for y in (values, predictions))
    return MeasuredTable(str(path), column(table, "smiles"), values, predictions, np.array(column(table, "split")))


def _transformed(y: np.ndarray, transform: TargetTransform | None) -> np.ndarray:
    """The values of a target in the unit in which its changes are compared; NaN where its transform is undefined."""
    if transform is None:
        return y
    t = transform.forward(y)
    return np.where(np.isfinite(t), t, np.nan)


def data_table(
    predictor: RowPredictor,
    path: str | Path,
    target: str,
    smiles_column: str | None = None,
    target_column: str = "",
    options: TableOptions = DEFAULT_TABLE_OPTIONS,
    num_workers: int = 0,
    unseen: bool = False,
) -> MeasuredTable:
    """A table of measured molecules, with the predictions of the model and the split of each molecule.

    A molecule of the run's `splits.csv` has its label there. The others alternate: one is used for the
    intervals, the next is a test molecule. A model without a `splits.csv`, such as one on the hub, does not record
    which molecules it was trained on: then no molecule has a label, and only effects are read, unless all are `unseen`.

    Args:
        predictor: the model.
        path: of the table.
        target: of the model.
        smiles_column, target_column: found by their names when empty.
        options: how the table is read.
        num_workers: processes that read molecules; 0 to read them in this process.
        unseen: the molecules that are not in a `splits.csv` were not used to train or select the model. True is assumed
            for a model that has one.

    Raises:
        UsageError: a column that does not exist.
        InputError: a table that cannot be read.
    """
    records = read_records(read_table(path, options), smiles_column, [target_column or target], options=options)
    t = predictor.targets.index(target)
    predictions = [
        np.nan if row.values is None else float(row.values[t])  # pyright: ignore[reportArgumentType]
        for row in predictor.predict_rows(records.smiles, num_workers)
    ]
    labels = {} if predictor.folder is None else _split_labels(run_of_model(predictor.folder))
    splits = [labels.get(molecule_key(smiles), "") for smiles in records.smiles]
    if labels or unseen:
        for number, i in enumerate([i for i, label in enumerate(splits) if not label]):
            splits[i] = (CALIBRATING[0], TEST)[number % 2]
    values, predicted = (
        _transformed(y, _transform_of(predictor, target)) for y in (records.targets[:, 0], np.array(predictions))
    )
    return MeasuredTable(str(path), records.smiles, values, predicted, np.array(splits))


def _split_labels(run: Path) -> dict[str, str]:
    """The label of each molecule in a run's `splits.csv`; none without the file."""
    path = run / SPLITS_FILE
    if not path.is_file():
        return {}
    table = read_table(path)
    rows = zip(column(table, "smiles"), column(table, "split"), strict=True)
    return {molecule_key(smiles): label for smiles, label in rows if label}
