"""A table as people write them, and the expected result: it is read as intended, or one sentence says what to do."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

SMILES = (
    *("CCO", "CCN", "CCC", "c1ccccc1", "CC(=O)O", "CCCl", "CC#N", "C1CCCCC1", "CCOC", "CC(C)O", "c1ccncc1", "CCS"),
    *("CCBr", "CCF", "CC=O", "CCCC", "CCCO", "CCCN", "COC", "CNC"),
)
"""Twenty different molecules, enough for every split."""

VALUES = tuple(round(0.25 * i - 1.5, 2) for i in range(len(SMILES)))
"""A number for each of `SMILES`."""


@dataclass(frozen=True)
class Habit:
    """A table, the settings it is prepared with, and what must come out.

    Attributes:
        name: what is particular about it.
        content: the bytes of the file, or a function that makes them.
        file: its name.
        options: settings of `DataConfig`.
        smiles: of the rows that are used, in order.
        targets: their targets, a row for each, None where missing.
        says: each is part of a message that is printed.
        rejected: the rows that are left out, by line, and part of the reason of each.
        error: part of the sentence with which it is refused; empty if it is read.
    """

    name: str
    content: bytes | Callable[[], bytes]
    file: str = "table.csv"
    options: Mapping[str, Any] = field(default_factory=dict)
    smiles: Sequence[str] = SMILES
    targets: Sequence[Sequence[float | None]] = tuple((value,) for value in VALUES)
    says: Sequence[str] = ()
    rejected: Mapping[int, str] = field(default_factory=dict)
    error: str = ""


def csv_bytes(rows: Sequence[Sequence[object]], delimiter: str = ",", encoding: str = "utf-8") -> bytes:
    """The rows as text, a line for each; cells must not need quotes."""
    return "".join(delimiter.join(map(str, row)) + "\n" for row in rows).encode(encoding)
