"""Streams of bytes and of lines of text, in bounded memory."""

import codecs
import gzip
import io
import os
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

from molattn.data.tables.encodings import CP1252, NAMES, UTF_8, as_utf_8, bom_encoding, guess_encoding
from molattn.data.tables.options import Warn, ignore_warning
from molattn.errors import InputError

STDIN = "-"
"""The path that means standard input."""

MAX_LINE_BYTES = 2**24
"""Maximum bytes of a line: a file without line ends is not a table, and must not be read into memory as a whole."""

_BLOCK_BYTES = 2**20
_GZIP_START = b"\x1f\x8b\x08"


def source_name(path: str | Path) -> str:
    """The name of a path, or of standard input, in errors."""
    return "standard input" if str(path) == STDIN else str(path)


@contextmanager
def open_input(path: str | Path) -> Iterator[Any]:
    """Open a file, or standard input for "-", as bytes, decompressed if they start as a gzip or the name ends in `.gz`.

    Raises InputError for a file that is missing or cannot be read.
    """
    if str(path) == STDIN:
        if sys.stdin is None:
            raise InputError("standard input is closed: give a file")
        yield _decompressed(sys.stdin.buffer, "standard input")
        return
    path = Path(path)
    try:
        # Closed below, outside of this block, which handles only errors of opening the file.
        file = gzip.open(path, "rb") if path.suffix.lower() == ".gz" else open(path, "rb")  # noqa: SIM115
    except FileNotFoundError as error:
        where = "" if path.is_absolute() else f" in {os.getcwd()}"
        raise InputError(f"there is no file {path}{where}") from error
    except OSError as error:
        if os.path.isdir(path):  # false for a name too long; a PermissionError on Windows
            raise InputError(f"{path} is a folder; give a file in it") from error
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    with file:
        yield file if isinstance(file, gzip.GzipFile) else _decompressed(file, str(path))


def is_gzip(path: str | Path) -> bool:
    """Whether a file is a gzip, by its name or its first bytes; False for one that cannot be read."""
    if Path(path).suffix.lower() == ".gz":
        return True
    try:
        with open(path, "rb") as file:
            return file.read(len(_GZIP_START)) == _GZIP_START
    except OSError:
        return False


def _decompressed(file: Any, source: str) -> Any:
    """An open binary file, decompressed if it starts as a gzip."""
    try:
        start = file.read(len(_GZIP_START))
    except OSError as error:
        raise InputError(f"{source} cannot be read: {error.strerror or error}") from error
    whole: Any = _Restarted(start, file)
    return gzip.GzipFile(fileobj=whole, mode="rb") if start == _GZIP_START else whole


class _Restarted:
    """An open binary file of which the first bytes are read already, such as a pipe."""

    def __init__(self, start: bytes, file: Any):
        self.start, self.file = start, file

    def read(self, size: int) -> bytes:
        """Exactly `size` bytes, fewer at the end of the file."""
        start, self.start = self.start[:size], self.start[size:]
        return start + self.file.read(size - len(start))

    def read1(self, size: int) -> bytes:
        """At most `size` bytes, as many as there are without waiting, but one or more until the end of the file."""
        if self.start:
            return self.read(len(self.start[:size]))
        return self.file.read1(size)


def read_blocks(file: Any, source: str, max_bytes: int | None = None) -> Iterator[bytes]:
    """The bytes of a file in blocks of at most a mebibyte.

    Raises InputError if reading fails, as for a damaged gzip, and once a gzip has unpacked to over `max_bytes`.
    """
    total = 0
    while True:
        try:
            # Not read, which waits until a pipe has a whole block.
            block = file.read1(_BLOCK_BYTES)
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


def read_lines(
    file: Any,
    source: str,
    *,
    latin_1: bool = False,
    max_bytes: int | None = None,
    encoding: str = "",
    warn: Warn = ignore_warning,
) -> Iterator[str]:
    """The lines with their ends (LF, CRLF or CR), without a byte-order mark.

    Without `encoding`, a byte-order mark selects UTF-8, UTF-16 or UTF-32. Without a mark, the first line that is not
    ASCII decides for the whole file: UTF-8 if that line is valid UTF-8, else Windows-1252, with a message. The result
    does not depend on how much of a pipe is read at once.

    Args:
        file: an open binary file.
        source: its name, for errors.
        latin_1: whether each line that is not UTF-8 is decoded as Latin-1, independently of the other lines.
        max_bytes: as for `read_blocks`.
        encoding: the name of the encoding, which must exist.
        warn: called if the text is read as Windows-1252.

    Raises InputError, with the line, for text that is not in the encoding of the file and for a line over
    `MAX_LINE_BYTES`.
    """
    blocks = read_blocks(file, source, max_bytes)
    known, blocks = (encoding, blocks) if encoding else bom_encoding(blocks, source)
    if known and codecs.lookup(known).name != UTF_8:
        blocks = as_utf_8(blocks, known, source)
    # Whole texts are decoded and iterated over in C, which is much faster than line by line.
    return chain.from_iterable(_texts(blocks, source, latin_1 and not known, UTF_8 if known else "", warn))


def _texts(blocks: Iterator[bytes], source: str, latin_1: bool, encoding: str, warn: Warn) -> Iterator[Iterator[str]]:
    """The lines, in iterators over the lines of a block each; `encoding` is empty until it is detected."""
    number = 1
    for first, data in enumerate(_whole_lines(blocks, source)):
        if not first and data.startswith(codecs.BOM_UTF8):
            data, encoding = data.removeprefix(codecs.BOM_UTF8), UTF_8
        if not encoding and not latin_1 and not data.isascii():
            index, encoding = guess_encoding(data)
            if encoding == CP1252:
                warn(
                    f"{source} is not UTF-8 text, as line {number + index} shows: it is read as {NAMES[CP1252]}; "
                    "--encoding gives another"
                )
        try:
            yield io.StringIO(data.decode(encoding or UTF_8), newline="")
        except UnicodeDecodeError:
            yield _line_by_line(data, source, number, encoding or UTF_8, latin_1)
        number += _count_line_ends(data)


def _line_by_line(data: bytes, source: str, number: int, encoding: str, latin_1: bool) -> Iterator[str]:
    """The lines of `data`, decoded one by one, because one is not in the encoding; the first is line `number`."""
    for line_number, line in enumerate(data.splitlines(keepends=True), start=number):
        try:
            yield line.decode(encoding)
        except UnicodeDecodeError as error:
            if not latin_1:
                raise InputError(
                    f"{source}, line {line_number}, byte {error.start + 1} of it: 0x{line[error.start]:02x} is not "
                    f"{NAMES[encoding]} text; save the file as UTF-8, or give its encoding, as in --encoding cp1252"
                ) from error
            yield line.decode("latin-1")


def _whole_lines(blocks: Iterator[bytes], source: str) -> Iterator[bytes]:
    """The bytes of a file in blocks of whole lines. Raises InputError for a line over `MAX_LINE_BYTES`."""
    pieces: list[bytes] = []
    size, number = 0, 1
    for block in blocks:
        # A CR at the very end does not end the line yet: an LF may follow.
        end = max(block.rfind(b"\n"), block.rfind(b"\r", 0, len(block) - 1)) + 1
        if end or (pieces and pieces[-1].endswith(b"\r")):
            whole, block = b"".join(pieces) + block[:end], block[end:]
            number += _count_line_ends(whole)
            yield whole
            pieces, size = [], 0
        pieces.append(block)
        size += len(block)
        if size > MAX_LINE_BYTES:
            raise InputError(f"{source}, line {number}: a line of over {MAX_LINE_BYTES:,} bytes: is this a table?")
    if rest := b"".join(pieces):
        yield rest


def _count_line_ends(data: bytes) -> int:
    """The number of line ends in `data`, which must not end between CR and LF."""
    return data.count(b"\n") + data.count(b"\r") - data.count(b"\r\n")
