"""The new columns of a table, written as a matrix of NumPy."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from molattn.data.tables.row_stream import Chunk
from molattn.data.tables.writers import Column, NewColumn, TableWriter


class NpyFormat:
    """The new columns alone, all of numbers, as one float32 matrix for `numpy.load`; NaN for a missing value."""

    suffix = ".npy"
    max_rows: int | None = None

    def __init__(self, added: Sequence[NewColumn]):
        self.width = len(added)

    def writer(self, file: Any) -> TableWriter:
        """A writer of a whole matrix into an open, binary file."""
        return _NpyWriter(self.width, file)

    def join(self, parts: Sequence[Path], file: Any) -> None:
        """Write the rows of several matrices, in order, as one into an open, binary file."""
        maps = [np.load(part, mmap_mode="r") for part in parts]
        file.write(_npy_header(sum(map(len, maps)), self.width))
        for rows in maps:
            file.write(rows.tobytes())


class _NpyWriter:
    def __init__(self, width: int, file: Any):
        self.width, self.file, self.count = width, file, 0
        file.write(_npy_header(0, width))

    def write(self, chunk: Chunk, added: Sequence[Column]) -> None:
        self.count += len(chunk)
        values = [[np.nan if v is None else v for v in column] for column in added]
        self.file.write(np.array(values, dtype="<f4").T.tobytes())

    def close(self) -> None:
        # The header is padded for any number of rows: its length does not change.
        self.file.seek(0)
        self.file.write(_npy_header(self.count, self.width))
        self.file.seek(0, io.SEEK_END)


def _npy_header(rows: int, width: int) -> bytes:
    header = io.BytesIO()
    description = {"descr": "<f4", "fortran_order": False, "shape": (rows, width)}
    np.lib.format.write_array_header_1_0(header, description)
    return header.getvalue()
