"""Tables in other formats than CSV: Parquet, SMI, SDF and data frames, all as text with a place for every row."""

import hashlib
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from molattn.data.files import write_bytes
from molattn.data.places import cache_dir
from molattn.data.tables import Table, header, parse_table, text_of
from molattn.errors import InputError, UsageError


def read_parquet(data: bytes, path: Path) -> Table:
    """The rows of a Parquet file, as text: see `from_arrow`."""
    try:
        whole = pq.read_table(pa.BufferReader(data))
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path} is not Parquet, or it is damaged: write it again") from error
    return from_arrow(whole, str(path))


def frame_to_arrow(frame: Any) -> pa.Table:
    """A pandas or polars frame, or anything else that speaks Arrow's protocol, as Arrow's table; no index is kept.

    Raises UsageError for anything else, InputError for a column that mixes kinds of values.
    """
    if hasattr(frame, "reset_index"):
        frame = frame.reset_index(drop=True)  # pandas would make a column of an index
    if not hasattr(frame, "__arrow_c_stream__"):
        raise UsageError(
            f"a table is a path or a data frame (pandas, polars, pyarrow), not of type {type(frame).__name__}"
        )
    try:
        return pa.table(frame)
    except (pa.ArrowException, TypeError) as error:
        raise InputError(f"the frame has a column that Arrow cannot take: {error}") from error


def from_arrow(whole: pa.Table, source: str) -> Table:
    """Arrow's table as text: a missing value or NaN is an empty cell, true is 1 and false 0, a number keeps its digits.

    Rows count from 0.
    """
    columns = header(source, list(map(str, whole.column_names)))
    cells = [_texts(whole.column(place)) for place in range(whole.num_columns)]
    rows = [list(row) for row in zip(*cells, strict=True)]
    return Table(columns=columns, rows=rows, source=source, lines=list(range(len(rows))), unit="row")


def _texts(values: pa.ChunkedArray) -> list[str]:
    kind = values.type
    if pa.types.is_floating(kind):
        # In its own precision: a float32 that was 0.1 shall not turn into 0.10000000149011612.
        return ["" if np.isnan(x) else str(x) for x in values.to_numpy().astype(kind.to_pandas_dtype(), copy=False)]
    if pa.types.is_boolean(kind):
        values = pc.cast(values, pa.int8())
    try:
        values = pc.cast(values, pa.string())
    except pa.ArrowException:  # lists and the like, which are nobody's target
        return ["" if x is None else str(x) for x in values.to_pylist()]
    return ["" if x is None else x for x in values.to_pylist()]


def read_smi(data: bytes, path: Path) -> Table:
    """One molecule a line: a SMILES, and after a blank or a tab what it is called, as `smiles` and `name`.

    A first line that begins with the word SMILES is a header; tabs in it name further columns.
    """
    text = text_of(path, data)
    lines = re.split(r"\r\n|\r|\n", text)
    first = next((number for number, line in enumerate(lines) if line.strip()), None)
    if first is None:
        raise InputError(f"{path}: the file is empty")
    head = lines[first].strip()
    if re.fullmatch(r"smiles(\s.*)?", head, re.IGNORECASE):
        if "\t" in head:
            return parse_table(text, path, delimiter="\t")
        lines[first] = ""
    rows, places = [], []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            smiles, *name = line.strip(" \t").split(None, 1)
            rows.append([smiles, name[0].strip() if name else ""])
            places.append(number)
    return Table(columns=("smiles", "name"), rows=rows, source=str(path), lines=places)


_FIELD = re.compile(r">.*<(.+?)>")


def read_sdf(data: bytes, path: Path) -> Table:
    """The records of an SDF: the molecule's SMILES, its title as `name` where it has one, and all properties.

    The column is `smiles`, or `structure_smiles` where a property is called so. A record that RDKit cannot read has an
    empty SMILES and its reason in `unreadable`. A property of several lines keeps them.
    """
    from molattn.chem import smiles_of_molblock  # here, because it brings RDKit

    # Old programs write other letters than UTF-8's into titles; the structure is ASCII all the same.
    lines = re.split(r"\r\n|\r|\n", data.decode("utf-8-sig", errors="replace"))
    records: list[dict[str, str]] = []
    places: list[int] = []
    structures: list[str] = []
    unreadable: dict[int, str] = {}
    start = 0
    for number, line in enumerate([*lines, "$$$$"]):
        if line.rstrip() != "$$$$":
            continue
        record = lines[start:number]
        place, start = start + 1, number + 1
        if not any(text.strip() for text in record):
            continue
        end = next((k for k, text in enumerate(record) if text.startswith("M  END")), None)
        try:
            if end is None:
                raise InputError("the record has no line 'M  END'")
            structures.append(smiles_of_molblock("\n".join(record[: end + 1])))
        except InputError as error:
            unreadable[len(records)] = getattr(error, "reason", str(error))
            structures.append("")
        fields = _properties(record[(end or 0) + 1 :])
        if record[0].strip():
            fields.setdefault("name", record[0].strip())
        records.append(fields)
        places.append(place)
    if not records:
        raise InputError(f"{path}: the file has no records")
    names = list(dict.fromkeys(name for fields in records for name in fields))
    taken = any(name.strip().casefold() == "smiles" for name in names)
    columns = header(str(path), ["structure_smiles" if taken else "smiles", *names])
    rows = [
        [smiles, *(fields.get(name, "") for name in names)] for smiles, fields in zip(structures, records, strict=True)
    ]
    return Table(columns=columns, rows=rows, source=str(path), lines=places, unreadable=unreadable)


def _properties(lines: list[str]) -> dict[str, str]:
    """The data fields behind a structure: a line `> <NAME>`, lines of text, an empty line."""
    fields: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in lines:
        named = _FIELD.match(line)
        if named is not None and current is None:
            current = fields.setdefault(named[1], [])
        elif not line.strip():
            current = None
        elif current is not None:
            current.append(line)
    return {name: "\n".join(text) for name, text in fields.items()}


READERS: dict[str, Callable[[bytes, Path], Table]] = {
    ".parquet": read_parquet,
    ".pq": read_parquet,
    ".smi": read_smi,
    ".sdf": read_sdf,
    ".sd": read_sdf,
}
"""By the ending of a file's name; all others are CSV."""


def from_frame(frame: Any) -> Table:
    """A data frame as text: see `from_arrow`."""
    return from_arrow(frame_to_arrow(frame), "the frame")


def keep_frame(frame: Any) -> Path:
    """A data frame as a Parquet file in the user's cache, which `read_table` reads as it reads the frame.

    The same frame has the same file.
    """
    whole = io.BytesIO()
    pq.write_table(frame_to_arrow(frame), whole)
    data = whole.getvalue()
    folder = cache_dir().with_name("frames") / hashlib.sha256(data).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    write_bytes(folder / "frame.parquet", data)
    return folder / "frame.parquet"
