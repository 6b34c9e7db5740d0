"""Run folders that are written here, without a training, for tests of reports."""

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import tomli_w

SPLITS = ("train", "train", "train", "val", "test")


def write_run(
    folder: Path,
    smiles: Sequence[str],
    columns: Mapping[str, Sequence[object]],
    splits: Sequence[str] = (),
    rows: Sequence[int] = (),
    task: Mapping[str, object] | None = None,
    units: Mapping[str, str] | None = None,
    transforms: Mapping[str, Mapping[str, object]] | None = None,
    **config: object,
) -> Path:
    """Write the files of a run, as `molattn train` does, from the columns of its predictions.csv."""
    folder.mkdir(parents=True)
    splits = splits or [SPLITS[i % len(SPLITS)] for i in range(len(smiles))]
    with (folder / "predictions.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["row", "split", "smiles", *columns])
        for i, row in enumerate(zip(splits, smiles, *columns.values(), strict=True)):
            writer.writerow([rows[i] if rows else i, *("" if cell is None else cell for cell in row)])
    names = [name for name in columns if f"{name}_pred" in columns]
    task = task or {"kind": "regression"}
    learned = {name: {"transform": settings} for name, settings in (transforms or {}).items()}
    targets = [{"name": name, "unit": (units or {}).get(name, ""), **learned.get(name, {})} for name in names]
    model = {"task": task, "targets": targets}
    # Without the model itself: a report has a text for this case.
    (folder / "model").mkdir()
    (folder / "model" / "config.json").write_text(json.dumps(model))
    splits_of_metrics = ("train", "val", "test")
    metrics: dict[str, object] = {split: {name: {"rmse": 0.5, "n": 9} for name in names} for split in splits_of_metrics}
    if transforms:
        metrics["transformed"] = {
            split: {name: {"unit": "log10(uM)", "rmse": 0.25, "spearman": 0.5, "n": 9} for name in transforms}
            for split in splits_of_metrics
        }
    (folder / "metrics.json").write_text(json.dumps(metrics))
    (folder / "config.toml").write_text(
        tomli_w.dumps({"data": {"dataset": "t.csv", **config}, "training": {"seed": 0}})
    )
    history = ["epoch,learning_rate,train_loss,val_loss,val_rmse,best", "1,0.1,0.9,0.8,1,True", "2,0.1,0.5,0.9,1,False"]
    (folder / "history.csv").write_text("\n".join(history) + "\n")
    return folder
