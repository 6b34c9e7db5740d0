from pathlib import Path

import numpy as np
import pytest

from molattn.data import RejectedRow, Table, guess_smiles_column, read_records, read_table
from molattn.data.tables.options import TableOptions
from molattn.errors import InputError, UsageError


def table_of(columns, *rows):
    return Table(tuple(columns), [list(row) for row in rows], "t.csv", [2 + k for k in range(len(rows))])


def test_smiles_targets_and_missing_values():
    table = table_of(["id", "smiles", "a", "b"], ["1", "CC", "1.5", ""], ["2", "C", " -2e-1 ", "+.5"])
    records = read_records(table, None, ["a", "b"])
    assert records.smiles == ["CC", "C"]
    assert records.rejected == []
    assert records.rows.tolist() == [0, 1]
    assert records.targets.dtype == np.float64
    np.testing.assert_array_equal(records.targets, [[1.5, np.nan], [-0.2, 0.5]])
    np.testing.assert_array_equal(read_records(table, "smiles", ["b", "a"]).targets[:, 1], [1.5, -0.2])


@pytest.mark.parametrize("number", ["0", "-0.0", "1.", ".5", "+3", "1e-5", "2E+3", "1e308"])
def test_numbers(number):
    assert read_records(table_of(["smiles", "y"], ["C", number]), None, ["y"]).targets[0, 0] == float(number)


UNUSABLE = [
    ("N/D", "column 'y': 'N/D' is not a finite number: leave the field empty for a missing value"),
    ("nan", "column 'y': 'nan' is not a finite number: leave the field empty for a missing value"),
    ("inf", "column 'y': 'inf' is not a finite number"),
    ("-Infinity", "column 'y': '-Infinity' is not a finite number"),
    ("1e999", "column 'y': '1e999' is not a finite number"),
    ("0,5", "column 'y': '0,5' is not a finite number: write a decimal point, 0.5"),
    ("1,23.5", "column 'y': '1,23.5' is not a finite number"),
    ("<-5x", "column 'y': '<-5x' is not a finite number"),
    (">", "column 'y': '>' is not a finite number"),
    ("<inf", "column 'y': '<inf' is not a finite number"),
    (
        "~3",
        "column 'y': '~3' is not a finite number, but an approximate one: write 3 to use it as exact",
    ),
    ("1_000", "column 'y': '1_000' is not a finite number"),
    ("0x1F", "column 'y': '0x1F' is not a finite number"),
    ("\uff11", r"column 'y': '\uff11' is not a finite number"),
    ("\u22121.5", r"column 'y': '\u22121.5' is not a finite number: write the minus sign as -"),
    ("", "no value in column 'y'"),
    ("  ", "no value in column 'y'"),
]


@pytest.mark.parametrize(("text", "reason"), UNUSABLE)
def test_a_rejected_row_has_its_reason(text, reason):
    table = table_of(["smiles", "y"], ["C", "1.0"], ["CC", text], ["CCC", "3"])
    records = read_records(table, "smiles", ["y"])
    assert records.rejected == [RejectedRow(row=1, line=3, smiles="CC", reason=reason)]
    assert records.rows.tolist() == [0, 2]
    assert records.smiles == ["C", "CCC"]
    assert records.targets.tolist() == [[1.0], [3.0]]


def test_several_targets():
    table = table_of(["smiles", "a", "b"], ["C", "", ""], ["C", "x", "1"], ["C", "", "1"])
    records = read_records(table, "smiles", ["a", "b"])
    assert [rejected.reason for rejected in records.rejected] == [
        "no value in columns 'a', 'b'",
        "column 'a': 'x' is not a finite number",
    ]
    assert records.rows.tolist() == [2]


def test_no_targets_and_no_rows():
    records = read_records(table_of(["smiles"], ["C"], [""]), None, [])
    assert records.smiles == ["C", ""]
    assert records.targets.shape == (2, 0)
    empty = read_records(table_of(["smiles", "y"]), None, ["y"])
    assert empty.targets.shape == (0, 1)
    assert empty.rows.shape == (0,)


def test_columns_that_do_not_fit():
    table = table_of(["smiles", "log_s"], ["C", "1"])
    with pytest.raises(UsageError, match="did you mean 'log_s'"):
        read_records(table, None, ["logS"])
    with pytest.raises(UsageError, match="requested twice"):
        read_records(table, None, ["log_s", "log_s"])
    with pytest.raises(UsageError, match="requested twice"):
        read_records(table, "smiles", ["smiles"])


@pytest.mark.parametrize(
    ("columns", "found"),
    [
        (["id", "smiles"], "smiles"),
        (["id", " SMILES "], " SMILES "),
        (["canonical_smiles", "Smiles"], "Smiles"),
        (["mol", "Canonical SMILES", "y"], "Canonical SMILES"),
        (["Structure", "y"], "Structure"),
        (["mol", "y"], "mol"),
    ],
)
def test_the_smiles_column_is_guessed(columns, found):
    assert guess_smiles_column(columns) == found


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["id", "y"], "no column of 'id', 'y' is named smiles: select it with --smiles-column"),
        (["SMILES", "smiles"], "any of 'SMILES', 'smiles' could hold the SMILES: .*--smiles-column"),
        (["smiles_in", "smiles_out"], "any of 'smiles_in', 'smiles_out'"),
        (["mol", "structure"], "any of 'mol', 'structure'"),
        (["molecular_weight"], "no column"),
    ],
)
def test_a_failed_guess_raises_with_advice(columns, message):
    with pytest.raises(UsageError, match=message):
        guess_smiles_column(columns)


def test_decimal_commas_are_read_in_columns_of_numbers(tmp_path: Path) -> None:
    text = "Structure;y;w;d;points\nC;-11,01;0,5;1;0.5\nCC;3;1;2,5;0,5\nCO;;1;3;1\n"
    (tmp_path / "t.csv").write_text(text)
    table = read_table(tmp_path / "t.csv")
    records = read_records(table, None, ["y", "points"], "w", descriptor_columns=["d"])
    # Points and commas in one column: a comma may part thousands there.
    assert [(r.line, r.reason) for r in records.rejected] == [
        (3, "column 'points': '0,5' is not a finite number: write a decimal point, 0.5")
    ]
    np.testing.assert_array_equal(records.targets, [[-11.01, 0.5], [np.nan, 1]])
    assert records.weights is not None and records.weights.tolist() == [0.5, 1]
    assert records.descriptors is not None and records.descriptors.tolist() == [[1], [3]]
    assert records.warnings == (
        "column 'y' has decimal commas: '-11,01' is read as -11.01",
        "column 'w' has decimal commas: '0,5' is read as 0.5",
        "column 'd' has decimal commas: '2,5' is read as 2.5",
    )
    assert table.rows[0] == ["C", "-11,01", "0,5", "1", "0.5"]
    (tmp_path / "t.csv").write_text('Structure,y\nC,"-11,01"\n')
    table = read_table(tmp_path / "t.csv")
    assert read_records(table, None, ["y"]).targets.tolist() == [[-11.01]]
    (rejected,) = read_records(table, None, ["y"], options=None).rejected
    assert rejected.line == 2 and "'-11,01' is not a finite number" in rejected.reason


def test_targets_weights_and_descriptors_have_one_rule(tmp_path: Path) -> None:
    """`1.234` in a column with `0,5` is 1234 in every kind of column, and a bound may have a decimal comma."""
    (tmp_path / "t.csv").write_text("smiles;y;w;d\nC;1.234;1.234;1.234\nCC;0,5;0,5;0,5\nCO;>1,5;1;1\n")
    records = read_records(read_table(tmp_path / "t.csv"), None, ["y"], "w", descriptor_columns=["d"])
    assert not records.rejected
    np.testing.assert_array_equal(records.targets, [[1234], [0.5], [np.nan]])
    assert records.bounds is not None and records.bounds[2].tolist()[0][0] == 1.5
    assert records.weights is not None and records.weights.tolist() == [1234, 0.5, 1]
    assert records.descriptors is not None and records.descriptors.tolist() == [[1234], [0.5], [1]]
    (tmp_path / "t.tsv").write_text("smiles\ty\tw\nC\t1,5\t0,5\nCC\t1\t1,700\n")
    records = read_records(read_table(tmp_path / "t.tsv"), None, ["y"], "w")
    assert records.weights is not None and records.weights.tolist() == [0.5, 1.7]


def test_a_weight_or_descriptor_in_a_format_that_may_be_either_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("smiles\ty\tw\nC\t1\t1,700\nCC\t2\t2\n")
    table = read_table(tmp_path / "t.tsv")
    for columns in ({"weight_column": "w"}, {"descriptor_columns": ["w"]}):
        with pytest.raises(InputError, match="column 'w' is ambiguous: '1,700' is 1700 with --thousands ',' or 1.700"):
            read_records(table, None, ["y"], **columns)
    records = read_records(table, None, ["y"], "w", options=TableOptions(decimal=","))
    assert records.weights is not None and records.weights.tolist() == [1.7, 2]


def test_a_molecule_that_cannot_be_read_is_the_reason_unless_the_table_has_its_smiles():
    table = Table(("smiles", "y"), [["", "1"], ["C", "x"], ["", ""]], "t.sdf", [1, 2, 3], "record", {0: "why", 1: "no"})
    found = read_records(table, "smiles", ["y"])
    assert [(r.row, r.reason.split(" is ")[0], r.location) for r in found.rejected] == [
        (0, "why", "record 1"),
        (1, "column 'y': 'x'", "record 2"),
        (2, "no value in column 'y'", "record 3"),
    ]


def test_weights_groups_and_descriptors_stay_with_their_rows():
    rows = [["C", "1", "0", "a", "1", "2"], ["CC", "2", "-1", "a", "3", "4"], ["CCC", "3", "2.5", "b", "5", ""]]
    rows += [["CO", "4", "1", " ", "7", "8"], ["CN", "5", "3", "c", "9", "10"]]
    table = Table(("smiles", "y", "w", "g", "d1", "d2"), rows, "t.csv", [2, 3, 4, 5, 6])
    found = read_records(table, "smiles", ["y"], "w", "g", descriptor_columns=["d1", "d2"])
    assert found.smiles == ["C", "CN"] and found.rows.tolist() == [0, 4]
    assert found.targets.tolist() == [[1.0], [5.0]]
    assert found.weights is not None and found.weights.tolist() == [0.0, 3.0]
    assert found.groups == ["a", "c"]
    assert found.descriptors is not None and found.descriptors.tolist() == [[1.0, 2.0], [9.0, 10.0]]
    assert found.atom_targets is None
    assert [r.reason for r in found.rejected] == [
        "column 'w': '-1' is below 0",
        "no value in column 'd2'",
        "no value in column 'g'",
    ]
    plain = read_records(table, "smiles", ["y"])
    assert plain.weights is None and plain.groups is None and plain.descriptors is None


def test_lists_of_atoms_stay_with_their_rows():
    rows = [["CO", "[1, null]", "w"], ["C", "", ""], ["CC", "[1, 2", ""], ["CC", "1 x", ""], ["C", "[null]", "[5]"]]
    table = Table(("smiles", "y", "z"), rows, "t.csv", [2, 3, 4, 5, 6])
    found = read_records(table, "smiles", ["y"], atom_level=True)
    assert found.rows.tolist() == [0] and found.targets.shape == (1, 0)
    assert found.atom_targets is not None
    ((first,),) = found.atom_targets
    np.testing.assert_array_equal(first, [1.0, np.nan])
    assert [(r.row, r.reason.partition(":")[0]) for r in found.rejected] == [
        (1, "no value in column 'y'"),
        (2, "column 'y'"),
        (3, "column 'y', atom 1 (from 0)"),
        (4, "no value in column 'y'"),
    ]
    assert found.rejected[2].reason.endswith("'x' is not a finite number")
    both = read_records(Table(table.columns, rows[4:], "t.csv", [6]), "smiles", ["y", "z"], atom_level=True)
    assert both.atom_targets is not None and [len(numbers) for numbers in both.atom_targets[0]] == [1, 1]


@pytest.mark.parametrize(
    ("cell", "lower", "upper"),
    [
        *((">10", 10, None), (" > 100 ", 100, None), (">=0.5", 0.5, None), ("\u22655", 5, None), (">>1e3", 1e3, None)),
        *(("<-5", None, -5), ("<= 6.1", None, 6.1), ("\u2264.1", None, 0.1), ("=<2", None, 2), ("=>2", 2, None)),
    ],
)
def test_a_bound_is_read(cell: str, lower: float | None, upper: float | None):
    records = read_records(table_of(["smiles", "y"], ["C", "1"], ["CC", cell]), "smiles", ["y"])
    assert records.rejected == [] and records.bounds is not None
    np.testing.assert_array_equal(records.targets, [[1.0], [np.nan]])
    wanted = [np.nan if x is None else x for x in (lower, upper)]
    np.testing.assert_array_equal(records.bounds, [[[np.nan, np.nan]], [wanted]])


def test_bounds_stay_with_their_rows_and_targets():
    rows = [["C", "x", ">1"], ["CC", "1", "2"], ["CCC", "<3", ""], ["CO", "", ""], ["CN", ">5", "<6"]]
    records = read_records(table_of(["smiles", "a", "b"], *rows), "smiles", ["a", "b"])
    assert records.rows.tolist() == [1, 2, 4]
    np.testing.assert_array_equal(records.targets, [[1, 2], [np.nan] * 2, [np.nan] * 2])
    n = np.nan
    np.testing.assert_array_equal(records.bounds, [[[n, n], [n, n]], [[n, 3], [n, n]], [[5, n], [n, 6]]])
    assert read_records(table_of(["smiles", "a"], ["C", "1"]), "smiles", ["a"]).bounds is None
