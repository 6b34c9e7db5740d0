"""Small trainings, run in each process that torchrun starts.

    torchrun --nproc-per-node 2 -m tests.training.distributed_cases FOLDER

trains each of `CASES` in FOLDER; each process writes the metrics that it got there.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import molattn
from tests.molecules import esol
from tests.training.runs import SMALL

CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "dropout": {"settings": ["model.dropout=0.2"]},
    "weights": {"weight_column": "w", "target_columns": ["y", "z"], "settings": ["training.auxiliary=0.3"]},
    "classes": {"target_columns": ["c"], "tracking_metric": "auroc"},
    "ensemble": {"ensemble_size": 2},
    "folds": {"num_folds": 2, "logger": "csv"},
}


def train(folder: Path, name: str) -> Any:
    """Train one of the cases in a folder of its own within `folder`."""
    rows = list(zip(*esol(61), strict=True))
    table = folder / f"{name}-{os.environ.get('RANK', 'single')}.csv"
    table.parent.mkdir(exist_ok=True)
    lines = [f"{s},{y},{'' if i % 3 else i / 10},{i % 5},{int(y > -3)}" for i, (s, y) in enumerate(rows)]
    table.write_text("\n".join(["smiles,y,z,w,c", *lines]) + "\n")
    options = {"target_columns": ["y"], "epochs": 3, "batch_size": 12, "accelerator": "cpu", "quiet": True}
    options |= {k: v for k, v in CASES[name].items() if k != "settings"}
    settings = [*SMALL, "model.dropout=0", *CASES[name].get("settings", [])]
    return molattn.train(table, output_dir=folder / name, settings=settings, **options)


def main() -> None:
    """See the module's docstring."""
    folder = Path(sys.argv[1])
    for name in CASES:
        result = train(folder, name)
        (folder / f"{name}-{os.environ['RANK']}.json").write_text(json.dumps(result.metrics))


if __name__ == "__main__":
    main()
