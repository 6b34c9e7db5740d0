"""CSV files of the benchmarks: rows, columns, tables of molecules, and the predictions of a model.

The standard library and numpy alone are imported: scripts in the environments of other projects use it.
"""

import csv
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np


def read_rows(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file; none if there is no file yet."""
    if not path.is_file():
        return []
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def read_column(path: Path, name: str) -> np.ndarray:
    """The numbers in a column, (n,)."""
    return np.array([float(row[name]) for row in read_rows(path)])


def append_rows(path: Path, rows: Sequence[Mapping[str, Any]], columns: Sequence[str] = ()) -> None:
    """Append rows to a CSV file, which are on the disk when this returns; a new file gets a header.

    Args:
        rows: values by column.
        columns: the header; that of the first row by default.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    is_new = not path.exists()
    with open(path, "a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns or list(rows[0]), restval="", lineterminator="\n")
        if is_new:
            writer.writeheader()
        writer.writerows(rows)
        file.flush()
        os.fsync(file.fileno())


def write_rows(path: Path, columns: Sequence[str], rows: Iterable[Iterable[object]]) -> Path:
    """Write a CSV file."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([columns, *rows])
    return path


def write_predictions(path: Path, rows: Sequence[Mapping[str, str]], predictions: Iterable[float]) -> None:
    """Write rows of a table with the additional column y_pred."""
    write_rows(path, [*rows[0], "y_pred"], ([*row.values(), y] for row, y in zip(rows, predictions, strict=True)))


def nci_smiles() -> list[str]:
    """The SMILES of the 4,999 NCI molecules in RDKit's data."""
    from rdkit import RDConfig

    lines = (Path(RDConfig.RDDataDir) / "NCI" / "first_5K.smi").read_text(encoding="utf-8").splitlines()
    return [line.split("\t")[0] for line in lines if line.strip()]


def write_numbered(path: Path, smiles: Sequence[str], rows: int | None = None) -> Path:
    """A table with columns number and smiles, whose `rows` rows repeat the molecules; each molecule once by default."""
    with open(path, "w", encoding="utf-8") as file:
        file.write("number,smiles\n")
        file.writelines(f"{i},{smiles[i % len(smiles)]}\n" for i in range(len(smiles) if rows is None else rows))
    return path
