"""Lines of text, one after another in bounded memory: from a file, a gzip of it, or standard input."""

import gzip
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from molattn.errors import InputError

STDIN = "-"
"""In the place of a path: standard input."""

LONGEST_LINE = 2**26
"""Bytes in a line. Text without line ends is no table, and must not fill the memory."""

_BLOCK = 2**20


def shown_source(path: str | Path) -> str:
    """How errors call the file."""
    return "standard input" if str(path) == STDIN else str(path)


@contextmanager
def opened(path: str | Path) -> Iterator[Any]:
    """The bytes of a file, those in it where it ends in `.gz`; of standard input for "-".

    Raises InputError for a file that is not there or cannot be read.
    """
    if str(path) == STDIN:
        yield sys.stdin.buffer
        return
    path = Path(path)
    try:
        # It is closed below, where errors are no longer about opening it.
        file = gzip.open(path, "rb") if path.suffix.lower() == ".gz" else open(path, "rb")  # noqa: SIM115
    except FileNotFoundError as error:
        raise InputError(f"there is no file {path}") from error
    except IsADirectoryError as error:
        raise InputError(f"{path} is a folder; give a file in it") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    with file:
        yield file


def blocks(file: Any, source: str) -> Iterator[bytes]:
    """The bytes as they come, at most a mebibyte at once.

    Raises InputError where the file cannot be read on, as in a damaged gzip.
    """
    while True:
        try:
            # Not read(), which waits for a whole block of a pipe.
            block = file.read1(_BLOCK)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise InputError(f"{source} is damaged, it is no whole gzip file ({error}): copy it again") from error
        except OSError as error:
            raise InputError(f"{source} cannot be read: {error.strerror or error}") from error
        if not block:
            return
        yield block


def text_lines(file: Any, source: str) -> Iterator[str]:
    """The lines with their ends, which are LF, CRLF or CR, without a byte-order mark.

    Raises InputError, with the line, for text that is not UTF-8 and for a line over `LONGEST_LINE`.
    """
    for number, line in enumerate(_byte_lines(file, source), start=1):
        if number == 1:
            if line.startswith((b"\xff\xfe", b"\xfe\xff")):
                raise InputError(f"{source}, line 1: the text is UTF-16; save it as UTF-8")
            line = line.removeprefix(b"\xef\xbb\xbf")
        try:
            yield line.decode()
        except UnicodeDecodeError as error:
            raise InputError(
                f"{source}, line {number}, byte {error.start + 1} of it: 0x{line[error.start]:02x} is not UTF-8 text; "
                "save the file as UTF-8"
            ) from error


def _byte_lines(file: Any, source: str) -> Iterator[bytes]:
    pieces: list[bytes] = []
    size = number = 0
    for block in blocks(file, source):
        pieces.append(block)
        size += len(block)
        if b"\n" in block or b"\r" in block:
            lines = b"".join(pieces).splitlines(keepends=True)
            # The last one may go on: without an end, or with a CR that an LF may follow.
            last = b"" if lines[-1].endswith(b"\n") else lines.pop()
            number += len(lines)
            yield from lines
            pieces, size = [last], len(last)
        if size > LONGEST_LINE:
            raise InputError(f"{source}, line {number + 1}: a line of over {LONGEST_LINE:,} bytes: is this a table?")
    yield from b"".join(pieces).splitlines(keepends=True)
