"""Lines of text from a file, a gzipped file or standard input, in bounded memory."""

import gzip
import io
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

from molattn.errors import InputError

STDIN = "-"
"""The path that means standard input."""

MAX_LINE_BYTES = 2**24
"""Maximum bytes of a line: a file without line ends is not a table, and must not fill the memory."""

_BLOCK = 2**20


def source_name(path: str | Path) -> str:
    """The name of a source in errors."""
    return "standard input" if str(path) == STDIN else str(path)


@contextmanager
def open_input(path: str | Path) -> Iterator[Any]:
    """Open a file, decompressed if it ends in `.gz`, or standard input for "-", as bytes.

    Raises InputError for a file that is missing or cannot be read.
    """
    if str(path) == STDIN:
        if sys.stdin is None:
            raise InputError("standard input is closed: give a file")
        yield sys.stdin.buffer
        return
    path = Path(path)
    try:
        # Closed below, where errors are no longer those of opening it.
        file = gzip.open(path, "rb") if path.suffix.lower() == ".gz" else open(path, "rb")  # noqa: SIM115
    except FileNotFoundError as error:
        raise InputError(f"there is no file {path}") from error
    except IsADirectoryError as error:
        raise InputError(f"{path} is a folder; give a file in it") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    with file:
        yield file


def read_blocks(file: Any, source: str, max_bytes: int | None = None) -> Iterator[bytes]:
    """The bytes of a file in blocks of at most a mebibyte.

    Raises InputError if reading fails, as for a damaged gzip, and once a gzip has unpacked to over `max_bytes`.
    """
    total = 0
    while True:
        try:
            # Not read(), which would wait for a whole block of a pipe.
            block = file.read1(_BLOCK)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise InputError(f"{source} is damaged, it cannot be unpacked ({error}): copy it again") from error
        except OSError as error:
            raise InputError(f"{source} cannot be read: {error.strerror or error}") from error
        if not block:
            return
        total += len(block)
        if max_bytes is not None and total > max_bytes and isinstance(file, gzip.GzipFile):
            raise InputError(f"{source} unpacks to more than {max_bytes:,} bytes: it is not read")
        yield block


def read_lines(file: Any, source: str, *, latin: bool = False, max_bytes: int | None = None) -> Iterator[str]:
    """The lines with their ends (LF, CRLF or CR), without a byte-order mark.

    Args:
        file: an open binary file.
        source: its name, for errors.
        latin: whether a line that is not UTF-8 is decoded as Latin-1 instead of raising an error.
        max_bytes: as for `read_blocks`.

    Raises InputError, with the line, for text that is not UTF-8 and for a line over `MAX_LINE_BYTES`.
    """
    # Whole texts are decoded and iterated over in C, which is much faster than line by line.
    return chain.from_iterable(_texts(file, source, latin, max_bytes))


def _texts(file: Any, source: str, latin: bool, max_bytes: int | None) -> Iterator[Iterator[str]]:
    number = 1
    for first, data in enumerate(_whole_lines(file, source, max_bytes)):
        if not first:
            if data.startswith((b"\xff\xfe", b"\xfe\xff")):
                raise InputError(f"{source}, line 1: the text is UTF-16; save it as UTF-8")
            data = data.removeprefix(b"\xef\xbb\xbf")
        try:
            yield io.StringIO(data.decode(), newline="")
        except UnicodeDecodeError:
            yield _line_by_line(data, source, number, latin)
        number += _count(data)


def _line_by_line(data: bytes, source: str, number: int, latin: bool) -> Iterator[str]:
    """The lines of `data`, one of which is not UTF-8, one by one; the first is line `number`."""
    for line_number, line in enumerate(data.splitlines(keepends=True), start=number):
        try:
            yield line.decode()
        except UnicodeDecodeError as error:
            if not latin:
                raise InputError(
                    f"{source}, line {line_number}, byte {error.start + 1} of it: 0x{line[error.start]:02x} is not "
                    "UTF-8 text; save the file as UTF-8"
                ) from error
            yield line.decode("latin-1")


def _whole_lines(file: Any, source: str, max_bytes: int | None) -> Iterator[bytes]:
    """The bytes of a file, cut at line ends."""
    pieces: list[bytes] = []
    size, number = 0, 1
    for block in read_blocks(file, source, max_bytes):
        # A CR at the very end does not end the line yet: an LF may follow.
        end = max(block.rfind(b"\n"), block.rfind(b"\r", 0, len(block) - 1)) + 1
        if end or (pieces and pieces[-1].endswith(b"\r")):
            whole, block = b"".join(pieces) + block[:end], block[end:]
            number += _count(whole)
            yield whole
            pieces, size = [], 0
        pieces.append(block)
        size += len(block)
        if size > MAX_LINE_BYTES:
            raise InputError(f"{source}, line {number}: a line of over {MAX_LINE_BYTES:,} bytes: is this a table?")
    if rest := b"".join(pieces):
        yield rest


def _count(data: bytes) -> int:
    """The number of line ends in `data`, which does not end between CR and LF."""
    return data.count(b"\n") + data.count(b"\r") - data.count(b"\r\n")
