"""Ragged columns in files: rows round-trip, or damage raises an error."""

import mmap
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from molattn.data.store import ragged
from molattn.data.store.ragged import DamagedFileError, FileDigest, RaggedColumns, RaggedWriter, encode_row

DTYPES: dict[str, np.dtype[Any]] = {"a": np.dtype("<u2"), "t": np.dtype("u1")}


def row(i: int) -> dict[str, bytes]:
    return encode_row({"a": np.arange(i % 4, dtype="<u2") + i, "t": f"é{i}" if i % 3 else ""})


def written(folder: Path, count: int) -> dict[str, FileDigest]:
    folder.mkdir()
    with RaggedWriter(folder, DTYPES) as writer:
        for i in range(count):
            writer.write(row(i))
    return writer.files


def opened(folder: Path, files: dict[str, FileDigest]) -> RaggedColumns:
    return RaggedColumns(folder, DTYPES, files)


@pytest.mark.parametrize("count", [0, 1, 4, 5, 8, 13])
def test_rows_round_trip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(ragged, "_ROWS_PER_FLUSH", 4)
    columns = opened(tmp_path / "f", written(tmp_path / "f", count))
    assert columns.num_rows == count
    for i in range(count):
        assert columns.row("a", i).tolist() == [i + k for k in range(i % 4)]
    rows = np.array([i for i in range(count) for _ in range(2)][::-1], dtype=np.int64)
    assert columns.lengths("a", rows).tolist() == [i % 4 for i in rows]
    assert columns.take("a", rows).tolist() == [i + k for i in rows for k in range(i % 4)]
    assert columns.take("a", rows).dtype == DTYPES["a"]
    assert columns.texts("t", rows) == [f"é{i}" if i % 3 else "" for i in rows]


def test_rows_are_flushed_in_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ragged, "_ROWS_PER_FLUSH", 4)
    sizes = []
    (tmp_path / "f").mkdir()
    with RaggedWriter(tmp_path / "f", DTYPES) as writer:
        for i in range(9):
            writer.write(row(i))
            sizes.append(writer._elements["a"].size)
        assert writer.files == {}, "unfinished files are not reported"
    assert [i for i, (a, b) in enumerate(zip([0, *sizes], sizes, strict=False)) if a != b] == [3, 7]


def test_digests_of_the_files(tmp_path: Path) -> None:
    files = written(tmp_path / "f", 3)
    assert set(files) == {"a.bin", "a.offsets.bin", "t.bin", "t.offsets.bin"}
    assert {name: (tmp_path / "f" / name).stat().st_size for name in files} == {n: f.size for n, f in files.items()}
    with pytest.raises(FileExistsError):
        RaggedWriter(tmp_path / "f", DTYPES)


def test_an_error_finishes_no_file(tmp_path: Path) -> None:
    with suppress(KeyError), RaggedWriter(tmp_path, DTYPES) as writer:
        raise KeyError(writer.write(row(3)))
    assert writer.files == {}
    assert all(file.file.closed for file in [*writer._elements.values(), *writer._offsets.values()])


def test_a_missing_column_of_a_row_is_empty(tmp_path: Path) -> None:
    with RaggedWriter(tmp_path, DTYPES) as writer:
        writer.write({"a": b"\1\0"})
        writer.write({"t": b"x"})
    columns = opened(tmp_path, writer.files)
    assert [columns.row("a", i).tolist() for i in (0, 1)] == [[1], []]
    assert columns.texts("t", np.array([0, 1])) == ["", "x"]


def test_damage_raises_with_the_file(tmp_path: Path) -> None:
    files = written(tmp_path / "f", 5)
    path = tmp_path / "f" / "a.bin"
    whole = path.read_bytes()
    for data, message in (
        (whole[:-2], f"a.bin has {len(whole) - 2} bytes, and {len(whole)} were written"),
        (whole[:-1] + b"\7", "a.bin has another checksum"),
        (None, "a.bin cannot be read: No such file or directory"),
    ):
        path.unlink()
        if data is not None:
            path.write_bytes(data)
        else:
            path.with_suffix(".gone").touch()
        with pytest.raises(DamagedFileError, match=message):
            opened(tmp_path / "f", files)
        path.write_bytes(whole)
    with pytest.raises(DamagedFileError, match=f"a.bin has {len(whole)} bytes, and 0 were written"):
        opened(tmp_path / "f", {n: f for n, f in files.items() if n != "a.bin"})
    assert opened(tmp_path / "f", files).num_rows == 5


def test_columns_of_different_lengths_are_damaged(tmp_path: Path) -> None:
    five, six = written(tmp_path / "5", 5), written(tmp_path / "6", 6)
    for name in ("t.bin", "t.offsets.bin"):
        (tmp_path / "6" / name).replace(tmp_path / "5" / name)
    with pytest.raises(DamagedFileError, match="different lengths"):
        opened(tmp_path / "5", {**five, **{name: six[name] for name in ("t.bin", "t.offsets.bin")}})
    for name in ("a", "t"):
        (tmp_path / "5" / f"{name}.offsets.bin").write_bytes(b"")
    nothing = FileDigest(0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
    (tmp_path / "5" / "t.bin").write_bytes(b"")
    known = {**five, "a.offsets.bin": nothing, "t.offsets.bin": nothing, "t.bin": nothing}
    with pytest.raises(DamagedFileError, match="different lengths"):
        opened(tmp_path / "5", known)


def test_files_are_synced_before_their_digests_are_returned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(ragged.os, "fsync", lambda number: synced.append(os.fstat(number).st_size))
    files = written(tmp_path / "f", 5)
    assert sorted(synced) == sorted(file.size for file in files.values())


def test_any_text_round_trips(tmp_path: Path) -> None:
    with RaggedWriter(tmp_path, DTYPES) as writer:
        writer.write(encode_row({"t": "\ud800 \U0001f600"}))
    assert opened(tmp_path, writer.files).texts("t", np.array([0])) == ["\ud800 \U0001f600"]


class Map:
    """A memory map that counts how often its pages are released."""

    def __init__(self) -> None:
        self.let_go = 0

    def madvise(self, advice: int) -> None:
        assert advice == mmap.MADV_DONTNEED
        self.let_go += 1


@pytest.mark.skipif(not hasattr(mmap, "MADV_DONTNEED"), reason="the system lets go of pages by itself")
def test_pages_are_released_after_some_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ragged, "ROWS_PER_RELEASE", 5)
    columns, counter = opened(tmp_path / "f", written(tmp_path / "f", 8)), Map()
    assert len(columns._maps) == 4
    columns._maps = [counter]  # pyright: ignore[reportAttributeAccessIssue]
    seen = []
    for read in (
        lambda: columns.row("a", 1),
        lambda: columns.take("a", np.arange(3)),
        lambda: columns.texts("t", np.arange(1)),
        lambda: columns.take("a", np.arange(4)),
        lambda: columns.row("a", 1),
        lambda: columns.texts("t", np.arange(8)),
    ):
        read()
        seen.append(counter.let_go)
    assert seen == [0, 0, 1, 1, 2, 3]
