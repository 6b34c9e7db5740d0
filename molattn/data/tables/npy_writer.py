"""New columns written as a NumPy array (.npy)."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from molattn.data.tables.row_stream import Chunk
from molattn.data.tables.writers import Column, NewColumn, TableWriter


class NpyFormat:
    """The new columns, without those of the input, as a (rows, columns) float32 array; NaN for a missing value.

    Args:
        added: the new columns, all of numbers.
    """

    suffix = ".npy"
    max_rows: int | None = None

    def __init__(self, added: Sequence[NewColumn]):
        self.width = len(added)

    def writer(self, file: Any) -> TableWriter:
        """A writer of a whole array into an open, binary file."""
        return _NpyWriter(self.width, file)

    def join(self, parts: Sequence[Path], file: Any) -> None:
        """Write the rows of several arrays, in order, as one array into an open, binary file."""
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
        # NumPy pads the header, so that its length is the same for any number of rows.
        self.file.seek(0)
        self.file.write(_npy_header(self.count, self.width))
        self.file.seek(0, io.SEEK_END)


def _npy_header(rows: int, width: int) -> bytes:
    header = io.BytesIO()
    description = {"descr": "<f4", "fortran_order": False, "shape": (rows, width)}
    np.lib.format.write_array_header_1_0(header, description)
    return header.getvalue()
