"""Lines of text from blocks of any size, and the limits."""

import gzip
import io
from pathlib import Path

import pytest

from molattn.data.tables import lines
from molattn.data.tables.lines import open_input, read_blocks, read_lines
from molattn.errors import InputError


class Pipe(io.BytesIO):
    """It returns a few bytes, and then raises `error`."""

    def __init__(self, data: bytes, error: OSError | None = None):
        super().__init__(data)
        self.error = error

    def read1(self, size: int | None = -1, /) -> bytes:
        data = super().read1(-1 if size is None else size)
        if not data and self.error is not None:
            raise self.error
        return data


def read(data: bytes, latin_1: bool = False) -> list[str]:
    return list(read_lines(io.BytesIO(data), "t.csv", latin_1=latin_1))


def test_a_file_that_cannot_be_opened(tmp_path: Path) -> None:
    for path, message in (
        (tmp_path / "none.csv", "there is no file .*none.csv"),
        (tmp_path, "is a folder; give a file in it"),
        (tmp_path / ("x" * 300), "cannot be read: File name too long"),
    ):
        with pytest.raises(InputError, match=message), open_input(path):
            pass


def test_a_file_that_cannot_be_read_on() -> None:
    for error, message in ((OSError(5, "Input/output error"), "Input/output error"), (OSError("gone"), "gone")):
        found = read_blocks(Pipe(b"a\n", error), "t.csv")
        assert next(found) == b"a\n"
        with pytest.raises(InputError, match=f"t.csv cannot be read: {message}"):
            next(found)


def test_the_unpacked_bytes_of_a_gzip_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "_BLOCK_BYTES", 1000)
    packed = gzip.compress(bytes(3000))
    for most, whole in ((3000, True), (None, True), (2999, False)):
        with gzip.open(io.BytesIO(packed)) as file:
            if whole:
                assert sum(map(len, read_blocks(file, "t.csv.gz", most))) == 3000
            else:
                with pytest.raises(InputError, match="t.csv.gz unpacks to more than 2,999 bytes: it is not read"):
                    list(read_blocks(file, "t.csv.gz", most))
    assert sum(map(len, read_blocks(io.BytesIO(bytes(3000)), "t.csv", 10))) == 3000, "only a gzip has a limit"


def test_a_damaged_gzip() -> None:
    packed = gzip.compress(b"a\n" * 1000)
    for damaged in (packed[:-9], packed[:20] + bytes([packed[20] ^ 255]) + packed[21:], b"no gzip"):
        with (
            gzip.open(io.BytesIO(damaged)) as file,
            pytest.raises(InputError, match=r"is damaged, it cannot be unpacked \(.*\): copy it again"),
        ):
            list(read_blocks(file, "t.csv.gz"))


@pytest.mark.parametrize("block", [1, 2, 3, 4, 100])
def test_line_ends_are_unchanged_wherever_blocks_end(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(lines, "_BLOCK_BYTES", block)
    assert read(b"a\r\nb\rc\n\nd\r\r\n\re") == ["a\r\n", "b\r", "c\n", "\n", "d\r", "\r\n", "\r", "e"]
    assert read(b"") == []
    assert read(b"\r") == ["\r"]
    assert read(b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n") == ["a\n", "\ufeffb\n"]
    assert read("é\u2028x\x0b\n€\n".encode()) == ["é\u2028x\x0b\n", "€\n"]
    assert read(b"a\xe9\r\nb\rc\n\xff", latin_1=True) == ["aé\r\n", "b\r", "c\n", "ÿ"]
    assert read("€\n".encode() + b"\xe9\n", latin_1=True) == ["€\n", "é\n"]
    with pytest.raises(InputError, match="line 4, byte 2 of it: 0xe9 is not UTF-8 text"):
        read("é\nb\r\n\rx".encode() + b"\xe9\n")


@pytest.mark.parametrize("block", [1, 2, 3, 4, 100])
def test_the_encoding_does_not_depend_on_where_blocks_end(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(lines, "_BLOCK_BYTES", block)
    text = "name,x\r\n\r\n€é\ny\r\nµ\r"
    expected = text.splitlines(keepends=True)
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-32", "cp1252"):
        warnings: list[str] = []
        assert list(read_lines(io.BytesIO(text.encode(encoding)), "t.csv", warn=warnings.append)) == expected
        assert [f"as line {n} shows" in "".join(warnings) for n in (1, 3)] == [False, encoding == "cp1252"]
        assert list(read_lines(io.BytesIO(text.encode(encoding)), "t.csv", encoding=encoding)) == expected
    for mark, encoding in ((b"\xfe\xff", "utf-16-be"), (b"\0\0\xfe\xff", "utf-32-be")):
        assert read(mark + text.encode(encoding)) == expected
    with pytest.raises(InputError, match="line 3, byte 1 of it: 0x80 is not UTF-8 text"):
        list(read_lines(io.BytesIO(text.encode("cp1252")), "t.csv", encoding="utf-8"))
    for damaged in (text.encode("utf-16")[:-1], text.encode("utf-16")[:-2] + b"\0\xd8"):
        with pytest.raises(InputError, match="line 5: the text is not utf-16"):
            read(damaged)


def test_a_file_that_is_no_text_is_named() -> None:
    for start, message in ((b"PK\x03\x04", "a workbook or another zip"), (b"\x1f\x8b\x08", "gzip")):
        with pytest.raises(InputError, match=f"t.csv is not text but {message}"):
            read(start + b"rest")
    assert read(b"PK\n") == ["PK\n"]


@pytest.mark.parametrize("block", [1, 4, 7])
def test_the_length_of_a_line_is_limited(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(lines, "_BLOCK_BYTES", block)
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 10)
    assert read(b"0123456789") == ["0123456789"]
    assert read(b"012345678\n" * 3 + b"0123456789") == ["012345678\n"] * 3 + ["0123456789"]
    with pytest.raises(InputError, match="line 3: a line of over 10 bytes: is this a table"):
        read(b"a\nb\n0123456789x")
