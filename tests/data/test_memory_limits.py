"""Memory limits: wide and sparse tables are read, and files that unpack to far more than their size raise."""

import gzip
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from molattn.data import read_table
from molattn.data.tables import arrow
from molattn.data.tables.arrow import count_parquet_rows
from molattn.data.tables.row_stream import row_bytes
from molattn.errors import InputError


@pytest.mark.parametrize("cells", [["", "0", "1"] * 50, ["1.25", "abc"] * 50, ["", "C" * 40, "7", "12"] * 25])
def test_row_bytes_are_those_that_python_takes(cells: list[str]) -> None:
    apart = {id(text): sys.getsizeof(text) for text in ("".join(list(cell)) for cell in cells) if len(text) > 1}
    assert len(apart) <= sum(len(cell) > 1 for cell in cells)
    known = {length: sys.getsizeof("x" * length) for length in map(len, cells)}
    truly = sum(8 + (known[len(cell)] if len(cell) > 1 else 0) for cell in cells)
    assert truly <= row_bytes(cells) <= 1.3 * truly


def test_a_sparse_table_that_is_compressed_is_read(tmp_path: Path) -> None:
    row = "C" + "," * 101 + "1\n"
    (tmp_path / "t.csv.gz").write_bytes(
        gzip.compress(f"smiles,{','.join(map(str, range(101)))}\n".encode() + row.encode() * 80_000)
    )
    assert len(read_table(tmp_path / "t.csv.gz").rows) == 80_000


def test_many_columns_of_parquet_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # One page per column is in memory: well below a few times the size of the file.
    draw = np.random.default_rng(0)
    columns = {"smiles": ["C"] * 20_000, **{f"d{i}": draw.normal(size=20_000) for i in range(60)}}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    monkeypatch.setattr(arrow, "MIN_ARROW_MEMORY", 2**20)
    assert count_parquet_rows(tmp_path / "t.parquet", "t.parquet") == 20_000


def test_rows_that_take_too_much_memory_to_unpack_raise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pq.write_table(pa.table({"smiles": ["C"], "x": ["y" * 200_000_000]}), tmp_path / "t.parquet", compression="zstd")
    monkeypatch.setattr(arrow, "MIN_ARROW_MEMORY", 2**26)
    with pytest.raises(InputError, match=r"rows 0 to 1023 (take over \d+ MiB to unpack|hold over)"):
        count_parquet_rows(tmp_path / "t.parquet", "t.parquet")


@pytest.mark.parametrize("kind", [pa.large_string(), pa.string_view(), pa.binary_view()], ids=str)
def test_text_of_parquet_has_the_same_size_in_every_arrow_type(
    tmp_path: Path, kind: pa.DataType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrow, "MAX_CHUNK_BYTES", 2**22)
    long = pa.array(["x" * 10_000] * 1000).cast(pa.large_binary() if kind == pa.binary_view() else pa.large_string())
    pq.write_table(pa.table({"smiles": ["C"] * 1000, "x": long.cast(kind)}), tmp_path / "t.parquet")
    with pytest.raises(InputError, match="rows 0 to 1023 hold over"):
        count_parquet_rows(tmp_path / "t.parquet", "t.parquet")
