"""Encodings of text: detection, and conversion to UTF-8."""

import codecs
from collections.abc import Iterable, Iterator
from itertools import chain

from molattn.errors import InputError

UTF_8, CP1252 = "utf-8", "cp1252"
NAMES = {UTF_8: "UTF-8", CP1252: "Windows-1252"}
"""The names of the encodings in messages."""

# UTF-32 first: its byte-order mark starts with that of UTF-16.
_BOMS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_OTHER_FORMATS = {
    b"PK\x03\x04": "a workbook or another zip archive",
    b"\xd0\xcf\x11\xe0": "a workbook of an old Excel, or one with a password",
    b"\x1f\x8b\x08": "gzip",
}


def bom_encoding(blocks: Iterator[bytes], source: str) -> tuple[str, Iterator[bytes]]:
    """The encoding by the byte-order mark, empty for UTF-8 or without a mark; and the blocks, unchanged.

    Only the first blocks, with the mark, are read.

    Raises InputError for a file that is not text.
    """
    starts = [*_BOMS, *_OTHER_FORMATS]
    head = b""
    for block in blocks:
        head += block
        if not any(len(head) < len(start) and start.startswith(head) for start in starts):
            break
    for start, what in _OTHER_FORMATS.items():
        if head.startswith(start):
            raise InputError(f"{source} is not text but {what}: give it the suffix of its format, such as .xlsx")
    encoding = next((name for mark, name in _BOMS.items() if head.startswith(mark)), "")
    return encoding, chain([head] if head else [], blocks)


def as_utf_8(blocks: Iterable[bytes], encoding: str, source: str) -> Iterator[bytes]:
    """The blocks of a text, converted from `encoding` to UTF-8.

    Raises InputError, with the line, for bytes that are not text in this encoding.
    """
    decoder = codecs.getincrementaldecoder(encoding)()
    line, ends_with_cr = 1, False
    for block in chain(blocks, [b""]):
        try:
            text = decoder.decode(block, final=not block)
            data = text.encode()
        except UnicodeError as error:
            if isinstance(error, UnicodeDecodeError):
                line += _count_line_ends(error.object[: error.start].decode(encoding, "replace"), ends_with_cr)
            raise InputError(
                f"{source}, line {line}: the text is not {encoding}; save it as UTF-8, or give another --encoding"
            ) from error
        if text:
            line += _count_line_ends(text, ends_with_cr)
            ends_with_cr = text.endswith("\r")
        if data:
            yield data


def guess_encoding(data: bytes) -> tuple[int, str]:
    """The index of the first line that is not ASCII, and its encoding: `UTF_8` if it is valid, else `CP1252`.

    For a line that is valid in neither it is `UTF_8`, so that decoding fails.
    """
    index, line = next((i, line) for i, line in enumerate(data.splitlines(keepends=True)) if not line.isascii())
    for encoding in (UTF_8, CP1252):
        try:
            line.decode(encoding)
        except UnicodeDecodeError:
            continue
        return index, encoding
    return index, UTF_8


def _count_line_ends(text: str, after_cr: bool) -> int:
    return text.count("\n") + text.count("\r") - text.count("\r\n") - (after_cr and text.startswith("\n"))
