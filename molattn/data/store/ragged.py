"""Ragged columns, with rows of different lengths, in binary files that are written once and memory-mapped."""

import hashlib
import mmap
import os
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np
import numpy.typing as npt

OFFSETS = np.dtype("<i8")

ROWS_PER_RELEASE = 4096
"""Number of read rows after which mapped pages are released. They stay in the page cache of the system, but no longer
count as memory of the process."""

_ROWS_PER_FLUSH = 1024


class DamagedFileError(Exception):
    """A file is missing or differs from what was written."""


@dataclass(frozen=True)
class FileDigest:
    """The size and checksum of a file when it was written."""

    size: int
    """Bytes."""

    sha256: str


class RaggedWriter:
    """Writes columns row by row: the elements to `NAME.bin`, the offsets of the rows to `NAME.offsets.bin`.

    It is a context manager; `files` is set at the end of the block.

    Args:
        folder: an existing, empty folder.
        dtypes: the dtype of each column.

    Attributes:
        files: the digest of each file, by name, once the block has ended without an error and the data is on disk.
    """

    def __init__(self, folder: Path, dtypes: Mapping[str, np.dtype[Any]]):
        self.dtypes = dict(dtypes)
        self._elements = {name: _HashedFile(folder / f"{name}.bin") for name in dtypes}
        self._offsets = {name: _HashedFile(folder / f"{name}.offsets.bin") for name in dtypes}
        self._parts: dict[str, list[bytes]] = {name: [] for name in dtypes}
        self._ends = dict.fromkeys(dtypes, 0)
        self.files: dict[str, FileDigest] = {}
        self._pending = 0
        for file in self._offsets.values():
            file.write(array("q", [0]).tobytes())

    def write(self, row: Mapping[str, bytes]) -> None:
        """Append a row: the bytes of its elements in each column; a missing column is empty."""
        for name, parts in self._parts.items():
            parts.append(row.get(name, b""))
        self._pending += 1
        if self._pending >= _ROWS_PER_FLUSH:
            self._flush()

    def __enter__(self) -> "RaggedWriter":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        written = [*self._elements.values(), *self._offsets.values()]
        if kind is None:
            self._flush()
            self.files = {file.path.name: file.close() for file in written}
        for file in written:
            file.file.close()

    def _flush(self) -> None:
        for name, parts in self._parts.items():
            self._elements[name].write(b"".join(parts))
            width = self.dtypes[name].itemsize
            ends = list(accumulate((len(part) // width for part in parts), initial=self._ends[name]))
            self._ends[name] = ends[-1]
            self._offsets[name].write(np.array(ends[1:], OFFSETS).tobytes())
            parts.clear()
        self._pending = 0


class _HashedFile:
    """A file that is hashed while it is written."""

    def __init__(self, path: Path):
        self.path, self.hash, self.size = path, hashlib.sha256(), 0
        self.file: IO[bytes] = open(path, "xb")  # noqa: SIM115 (closed by the method close)

    def write(self, data: bytes) -> None:
        self.file.write(data)
        self.hash.update(data)
        self.size += len(data)

    def close(self) -> FileDigest:
        with self.file:
            self.file.flush()
            os.fsync(self.file.fileno())
        return FileDigest(self.size, self.hash.hexdigest())


class RaggedColumns:
    """Memory-mapped ragged columns in a folder, all with the same number of rows.

    Args:
        folder: a folder that a `RaggedWriter` wrote.
        dtypes: the dtype of each column.
        files: the digests from the writer, against which each file is verified.

    Raises:
        DamagedFileError: a file is missing or differs from what was written.
    """

    def __init__(self, folder: Path, dtypes: Mapping[str, np.dtype[Any]], files: Mapping[str, FileDigest]):
        self._maps: list[mmap.mmap] = []
        self._read = 0
        self._flat = {name: self._open(folder / f"{name}.bin", dtype, files) for name, dtype in dtypes.items()}
        self._offsets = {name: self._open(folder / f"{name}.offsets.bin", OFFSETS, files) for name in dtypes}
        lengths = {len(offsets) for offsets in self._offsets.values()}
        if len(lengths) != 1 or 0 in lengths:
            raise DamagedFileError("the columns have different lengths")
        self.num_rows = lengths.pop() - 1

    def _open(self, path: Path, dtype: np.dtype[Any], files: Mapping[str, FileDigest]) -> npt.NDArray[Any]:
        """The elements of one file, after its digest is verified."""
        digest = files.get(path.name)
        try:
            with open(path, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                if digest is None or size != digest.size:
                    raise DamagedFileError(
                        f"{path.name} has {size:,} bytes, and {digest.size if digest else 0:,} were written"
                    )
                if hashlib.file_digest(file, "sha256").hexdigest() != digest.sha256:
                    raise DamagedFileError(f"{path.name} has another checksum")
                if not size:
                    return np.empty(0, dtype)  # an empty file cannot be mapped
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as error:
            raise DamagedFileError(f"{path.name} cannot be read: {error.strerror}") from error
        self._maps.append(mapped)
        return np.frombuffer(mapped, dtype)

    def lengths(self, name: str, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """(n,) the number of elements in each of `rows`."""
        offsets = self._offsets[name]
        return offsets[rows + 1] - offsets[rows]

    def row(self, name: str, row: int) -> npt.NDArray[Any]:
        """The elements of one row, as a read-only view."""
        offsets = self._offsets[name]
        self._release_pages(1)
        return self._flat[name][offsets[row] : offsets[row + 1]]

    def take(self, name: str, rows: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """The elements of `rows`, concatenated in that order."""
        flat, offsets = self._flat[name], self._offsets[name]
        self._release_pages(len(rows))
        if not len(rows):
            return np.empty(0, flat.dtype)
        # Copying slices is faster than indexing single elements.
        ends = zip(offsets[rows].tolist(), offsets[rows + 1].tolist(), strict=True)
        return np.concatenate([flat[start:end] for start, end in ends])

    def texts(self, name: str, rows: npt.NDArray[np.int64]) -> list[str]:
        """The text of each of `rows`, in a column of UTF-8."""
        flat, offsets = self._flat[name].data, self._offsets[name]
        self._release_pages(len(rows))
        ends = zip(offsets[rows].tolist(), offsets[rows + 1].tolist(), strict=True)
        return [str(flat[start:end], "utf-8", "surrogatepass") for start, end in ends]

    def _release_pages(self, rows: int) -> None:
        """Count rows that are read, and release the mapped memory after `ROWS_PER_RELEASE` of them."""
        self._read += rows
        if self._read >= ROWS_PER_RELEASE and hasattr(mmap, "MADV_DONTNEED"):
            self._read = 0
            for mapped in self._maps:
                mapped.madvise(mmap.MADV_DONTNEED)


def encode_row(columns: Mapping[str, str | npt.NDArray[Any]]) -> dict[str, bytes]:
    """Encode arrays and strings as bytes, for `RaggedWriter.write`."""
    return {
        name: value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value.tobytes()
        for name, value in columns.items()
    }
