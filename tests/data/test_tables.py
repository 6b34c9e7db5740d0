import gc
import os
import string

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from molattn.data import Table, column, column_index, read_table, write_table
from molattn.data.tables.row_stream import Chunk, RowStream
from molattn.data.tables.table import _read_all, read_table_bytes
from molattn.errors import InputError, SmilesError, UsageError


def table_of(tmp_path, data, name="t.csv"):
    path = tmp_path / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return read_table(path)


COLUMNS = ("smiles", "y")
ROWS = [["CC", "1"], ["CCO", "-0.5"]]


DIALECTS = [
    ("plain.csv", "smiles,y\nCC,1\nCCO,-0.5\n"),
    ("bom.csv", "\ufeffsmiles,y\nCC,1\nCCO,-0.5\n"),
    ("bom-quoted.csv", '\ufeff"smiles","y"\n"CC","1"\n"CCO","-0.5"\n'),
    ("crlf.csv", "smiles,y\r\nCC,1\r\nCCO,-0.5\r\n"),
    ("cr.csv", "smiles,y\rCC,1\rCCO,-0.5\r"),
    ("no-final-newline.csv", "smiles,y\nCC,1\nCCO,-0.5"),
    ("semicolon.csv", "smiles;y\nCC;1\nCCO;-0.5\n"),
    ("tab.csv", "smiles\ty\nCC\t1\nCCO\t-0.5\n"),
    ("tab.txt", "smiles\ty\nCC\t1\nCCO\t-0.5\n"),
    ("tab.tsv", "smiles\ty\nCC\t1\nCCO\t-0.5\n"),
    ("tab.TAB", "smiles\ty\nCC\t1\nCCO\t-0.5\n"),
    ("blank-lines.csv", "\n\nsmiles,y\n\nCC,1\n\n\nCCO,-0.5\n\n"),
]


@pytest.mark.parametrize(("name", "data"), DIALECTS)
def test_dialects_read_alike(tmp_path, name, data):
    table = table_of(tmp_path, data, name)
    assert table.columns == COLUMNS
    assert table.rows == ROWS
    assert table.source == str(tmp_path / name)


def test_cells_are_unchanged(tmp_path):
    table = table_of(tmp_path, 'smiles, y\n C ,01.0\n"a ""b"", c",\n""," "\n')
    assert table.columns == ("smiles", " y")
    assert table.rows == [[" C ", "01.0"], ['a "b", c', ""], ["", " "]]


@pytest.mark.parametrize(
    ("header", "columns"),
    [
        ('"name; more",y', ("name; more", "y")),
        ('"name, more";y', ("name, more", "y")),
        ('"two;\nlines",y', ("two;\nlines", "y")),
        ("a;b,y", ("a;b", "y")),
    ],
)
def test_a_delimiter_is_looked_for_outside_quotes(tmp_path, header, columns):
    assert table_of(tmp_path, header + "\n").columns == columns


def test_lines_count_those_inside_quotes_and_blank_ones(tmp_path):
    table = table_of(tmp_path, 'smiles,note\nC,"one\ntwo\r\nthree"\n\nCC,\n"C\nC",x\nO,\n')
    assert [row[0] for row in table.rows] == ["C", "CC", "C\nC", "O"]
    assert table.lines == [2, 6, 7, 9]


def test_one_column_and_a_header_alone(tmp_path):
    assert table_of(tmp_path, 'smiles\nCC\n""\n').rows == [["CC"], [""]]
    assert table_of(tmp_path, "smiles,y\n").rows == []


def test_a_huge_cell_does_not_stop_the_reader(tmp_path):
    table = table_of(tmp_path, f"smiles,y\nC {'x' * 1_000_000},1\nCC,2\n")
    assert [len(row[0]) for row in table.rows] == [1_000_002, 2]


OFF = [
    ("", r"t\.csv: the file is empty"),
    ("\ufeff", "the file is empty"),
    ("\r\n\n", "the file is empty"),
    ("smiles,y,y\n", "line 1: columns 2 and 3 are both named 'y'; rename one"),
    ("smiles,y, y\n", "line 1: columns 2 and 3 are both named 'y'"),
    ("\n, \n", "line 2: no column has a name; give each one, or add --no-header-row"),
    ("smiles,y\nCC,1\nCCO\n", "line 3: 1 fields where the header has 2: nothing for column 'y'"),
    (
        'smiles,y\n"a\nb",1\n2,4-D,1\n',
        "line 4: 3 fields where the header has 2: '1' follows .*double quotes",
    ),
    ('smiles,y\nC,1\n"CC,1\nCCO,2\n', "line 3: the quotes do not match"),
    ('smiles,y\n"C"C,1\n', "line 2: the quotes do not match"),
    ("smiles,y\nC,1\n", None),
    ("smiles,ŷ\nC,1\n".encode() + b"CC,\xe9\n", r"line 3, byte 4 of it: 0xe9 is not UTF-8 text; save"),
    (b"\xef\xbb\xbfsmiles,\xb5\n", r"line 1, byte 8 of it: 0xb5 is not UTF-8"),
    (b"smiles\r\nC\r\x81", r"line 3, byte 1 of it: 0x81 is not UTF-8"),
    (b"smiles\r\nC\xe9\r\x81", r"line 3, byte 1 of it: 0x81 is not Windows-1252"),
    ("smiles,y\nC,1\n".encode("utf-16")[:-1], "line 2: the text is not utf-16; save it as UTF-8, or give another"),
    ("smiles,y\nC,1\n".encode("utf-16-le"), "line 1: NUL in column 1 of the header.*--encoding utf-16-le"),
    (b"PK\x03\x04", "is not text but a workbook or another zip archive"),
]


@pytest.mark.parametrize(("data", "message"), OFF)
def test_a_malformed_table_raises_with_its_location(tmp_path, data, message):
    if message is None:
        table_of(tmp_path, data)
        return
    with pytest.raises(InputError, match=message):
        table_of(tmp_path, data)


def test_a_missing_file_and_a_folder(tmp_path):
    with pytest.raises(InputError, match=r"there is no file .*none\.csv"):
        read_table(tmp_path / "none.csv")
    with pytest.raises(InputError, match="is a folder"):
        read_table(tmp_path)


def test_a_column_by_its_name(tmp_path):
    table = table_of(tmp_path, "smiles, Log_S\nCC,1\nCCO,2\n")
    assert column(table, "smiles") == ["CC", "CCO"]
    assert column(table, "Log_S") == column(table, " Log_S") == ["1", "2"]
    assert column_index(table, "Log_S") == 1
    with pytest.raises(UsageError, match=r"no column 'logs'; it has 'smiles', 'Log_S'; did you mean 'Log_S'\?"):
        column(table, "logs")
    with pytest.raises(UsageError, match=r"it has 'smiles', 'Log_S'$"):
        column(table, "zzz")


CELL = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.text('",;\t\r\n \ufeff\0ab', max_size=6)
NAME = st.text(string.ascii_letters + '",;\t\r\n \ufeff_é', min_size=1, max_size=6).filter(str.strip)


@st.composite
def tables(draw):
    columns = draw(st.lists(NAME, min_size=1, max_size=4, unique_by=str.strip))
    width = len(columns)
    return columns, draw(st.lists(st.lists(CELL, min_size=width, max_size=width), max_size=6))


@given(tables(), st.sampled_from(["t.csv", "t.tsv", "t.txt"]))
@example((["a"], [[""], ["\r"], ["\n"]]), "t.csv")
@example((["\ufeffa", "b;c"], [["\0", '"']]), "t.csv")
@settings(max_examples=150, deadline=None)
def test_what_is_written_is_read_back_equal(tmp_path_factory, table, name):
    columns, rows = table
    path = tmp_path_factory.mktemp("round") / name
    write_table(path, columns, rows)
    found = read_table(path)
    assert found.columns == tuple(columns)
    assert found.rows == rows


def test_writing_keeps_plain_text_plain(tmp_path):
    path = tmp_path / "out.csv"
    write_table(path, COLUMNS, iter(ROWS))
    assert path.read_bytes() == b"smiles,y\nCC,1\nCCO,-0.5\n"


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "out.csv"
    write_table(path, COLUMNS, ROWS)
    before = path.read_bytes()

    def broken():
        yield ["CC", "1"]
        raise RuntimeError("half way")

    with pytest.raises(RuntimeError):
        write_table(path, COLUMNS, broken())
    with pytest.raises(UsageError, match="row 1 has 1 cells; the header has 2"):
        write_table(path, COLUMNS, [["CC", "1"], ["C"]])

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_table(path, COLUMNS, [["C", "9"]])
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["out.csv"]


def test_where_a_table_can_be_written(tmp_path):
    with pytest.raises(UsageError, match="there is no folder"):
        write_table(tmp_path / "none" / "out.csv", COLUMNS, ROWS)
    with pytest.raises(UsageError, match="not a regular file"):
        write_table(tmp_path, COLUMNS, ROWS)
    target, link = tmp_path / "target.csv", tmp_path / "link.csv"
    target.write_text("old")
    link.symlink_to(target)
    write_table(link, COLUMNS, ROWS)
    assert link.is_symlink()
    assert read_table(target).rows == ROWS


def test_a_table_is_frozen():
    table = Table(columns=COLUMNS, rows=ROWS, source="t", lines=[2, 3])
    with pytest.raises(AttributeError):
        table.source = "other"  # pyright: ignore[reportAttributeAccessIssue]


def test_a_table_in_memory_is_read_as_its_file_would_be():
    table = read_table_bytes(b"smiles;y\nC;1\n\nCC;2\n", "a.csv")
    assert (table.columns, table.rows, table.lines) == (("smiles", "y"), [["C", "1"], ["CC", "2"]], [2, 4])
    assert (table.source, table.location(1), table.decimal_commas) == ("a.csv", "line 4", True)
    assert read_table_bytes(b"a,b\tc\n1\t2\n", "a.tsv").columns == ("a,b", "c")
    assert read_table_bytes(b"y,y\n1,2\n", "a.csv", number_duplicate_columns=True).columns == ("y", "y.1")
    with pytest.raises(InputError, match="'y'"):
        read_table_bytes(b"y,y\n1,2\n", "a.csv")


@pytest.mark.parametrize("before", [True, False])
def test_garbage_collection_is_disabled_while_a_table_is_read(before):
    inside = []

    def chunks():
        inside.append(gc.isenabled())
        yield Chunk(0, [2], [["C"]])

    stream, was = RowStream("t.csv", ("smiles",), chunks()), gc.isenabled()
    try:
        (gc.enable if before else gc.disable)()
        assert _read_all(stream).rows == [["C"]]
        assert (inside, gc.isenabled()) == ([False], before)
    finally:
        (gc.enable if was else gc.disable)()


def test_errors_and_atom_maps_of_chunks_are_those_of_the_table():
    chunks = [
        Chunk(0, [1, 2], [["", "a"], ["C", "b"]], errors={0: SmilesError("", "no structure")}, atom_maps={1: "of 1"}),
        Chunk(2, [3, 4], [["", "c"], ["CC", "d"]], errors={0: SmilesError("", "no atoms")}, atom_maps={1: "of 3"}),
    ]
    stream = RowStream("t.sdf", ("smiles", "x"), iter(chunks), line_kind="record", smiles_column="smiles")
    table = _read_all(stream)
    assert table.structure_errors == {0: "no structure", 2: "no atoms"}
    assert table.atom_maps == {1: "of 1", 3: "of 3"}
    assert (table.lines, table.location(2), table.smiles_column) == ([1, 2, 3, 4], "record 3", "smiles")


def test_a_gzip_is_not_written(tmp_path):
    with pytest.raises(UsageError, match=r"tables are written as CSV or TSV: use the suffix .csv or .tsv"):
        write_table(tmp_path / "t.csv.gz", ("a",), [])
    assert not list(tmp_path.iterdir())
