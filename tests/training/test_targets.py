"""Inferring the task of a table's targets, and encoding their classes."""

import numpy as np
import pytest

from molattn.data import read_records
from molattn.data.tables.table import Table
from molattn.errors import InputError, UsageError
from molattn.models.tasks import Binary, Multiclass, Regression
from molattn.training.encoded_table import check_unreadable
from molattn.training.table_source import parse_task_type
from molattn.training.targets import encode_targets
from molattn.training.task_inference import constant_targets, resolve_task


def _table(*columns: list[str]) -> Table:
    names = tuple(f"y{i}" for i in range(len(columns)))
    rows = [["C", *cells] for cells in zip(*columns, strict=True)]
    return Table(("smiles", *names), rows, "made up", [*range(2, 2 + len(rows))])


def _numbers(*columns: list[float]) -> np.ndarray:
    return np.array(columns, dtype=float).T


@pytest.mark.parametrize(
    ("columns", "kind"),
    [
        ([[0, 1, 1, 0]], "binary"),
        ([[0, 1, np.nan, 0], [0, 0, 0, np.nan]], "binary"),
        ([[0, 0, 0, 0]], "regression"),  # a constant may be anything
        ([[0, 1, 1, 0], [0.5, 1, 1, 0]], "regression"),
        ([[1, 2, 1, 2]], "regression"),
        ([[0, 1, 2, 1] * 50], "regression"),
        ([[0.25, 1.5, -3, 7]], "regression"),
    ],
)
def test_only_zeros_and_ones_are_inferred_as_binary(columns: list[list[float]], kind: str) -> None:
    names = [f"y{i}" for i in range(len(columns))]
    task, message = resolve_task("", "", _numbers(*columns), names, ())
    assert task.kind == kind
    assert message.startswith(f"task: {kind}, ")
    assert "--task-type" in message


def test_few_different_whole_numbers_are_reported() -> None:
    _, message = resolve_task("", "", _numbers([0, 1, 2, 1] * 50), ["y"], ())
    assert message == "task: regression, y holds the numbers 0, 1, 2; if they are classes, add --task-type multiclass"


def test_a_configured_task_type_has_no_message() -> None:
    task, message = resolve_task("regression", "", _numbers([0, 1, 1]), ["y"], ())
    assert (task, message) == (Regression(), "")
    assert parse_task_type("classification") == "binary"
    with pytest.raises(UsageError, match="unknown task type 'ranking': choose one of regression, binary, multiclass"):
        parse_task_type("ranking")


def test_targets_that_do_not_go_with_the_task_type_are_refused() -> None:
    with pytest.raises(InputError, match="column 'y' holds 2, and a binary target is 0 or 1"):
        resolve_task("binary", "", _numbers([0, 1, 2]), ["y"], ())


def test_a_loss_belongs_to_its_task() -> None:
    y = _numbers([0, 1, 1])
    assert resolve_task("regression", "mve", y, ["y"], ())[0] == Regression("mve")
    assert resolve_task("", "bce", y, ["y"], ())[0] == Binary()
    with pytest.raises(
        UsageError, match="'mse' is for regression targets, and these are binary: choose bce or dirichlet, or add"
    ):
        resolve_task("", "mse", y, ["y"], ())
    with pytest.raises(
        UsageError, match="unknown loss 'hinge': choose one of mse, mae, huber, mve, evidential, quantile"
    ):
        resolve_task("", "hinge", y, ["y"], ())


def test_repeated_words_are_classes_in_alphabetical_order() -> None:
    encoded = encode_targets(_table(["low", " high", "", "low", "high ", "mid", "mid"]), ["y0"], "")
    assert encoded.classes == (("high", "low", "mid"),)
    assert [row[1] for row in encoded.table.rows] == ["1", "0", "", "1", "0", "2", "2"]
    targets = read_records(encoded.table, "smiles", ["y0"]).targets
    assert targets[:, 0].tolist() == [1, 0, 1, 0, 2, 2]
    task, message = resolve_task("", "", targets, ["y0"], encoded.classes)
    assert task == Multiclass(classes=(("high", "low", "mid"),))
    assert message == "task: multiclass, y0 holds words: high, low, mid; --task-type overrides it"


def test_two_words_are_a_binary_target() -> None:
    encoded = encode_targets(_table(["Inactive", "ACTIVE", "n/d", "active"], ["1", "0", "1", ""]), ["y0", "y1"], "")
    assert encoded.classes == (("Inactive", "ACTIVE"), ("0", "1"))
    assert [row[1:] for row in encoded.table.rows] == [["0", "1"], ["1", "0"], ["", "1"], ["1", ""]]
    assert encoded.warnings[1:] == ("column 'y0': letter case is ignored, 'active' (1) as 'ACTIVE' (1)",)
    targets = read_records(encoded.table, "smiles", ["y0"]).targets
    task, message = resolve_task("", "", targets, ["y0"], encoded.classes[:1])
    assert task == Binary(classes=(("Inactive", "ACTIVE"),))
    assert task.class_names(0) == ("Inactive", "ACTIVE") and Binary().class_names(0) == ("0", "1")
    assert message == (
        "task: binary, y0 holds the words ACTIVE and Inactive; the positive class is ACTIVE; --positive-class "
        "overrides it"
    )
    assert resolve_task("binary", "", targets, ["y0"], encoded.classes[:1])[1] == message.removeprefix("task: binary, ")
    assert resolve_task("multiclass", "", targets, ["y0"], encoded.classes[:1])[0].kind == "multiclass"


def test_a_model_of_words_reads_both_spellings_and_zeros_and_ones() -> None:
    classes = (("no", "Yes"),)
    encoded = encode_targets(_table(["YES", " no ", "maybe", "-"]), ["y0"], "binary", classes)
    assert [row[1] for row in encoded.table.rows] == ["1", "0", "", ""]
    assert encoded.reasons == {2: "column 'y0': 'maybe' is none of the classes no, Yes"}
    encoded = encode_targets(_table(["1", "0", "1.0"]), ["y0"], "binary", classes)
    assert [row[1] for row in encoded.table.rows] == ["1", "0", "1"]
    assert encoded.warnings == ("column 'y0' holds 0 and 1: 1 is read as Yes and 0 as no",)
    encoded = encode_targets(_table(["-", "-"]), ["y0"], "binary", (("-", "+"),))
    assert [row[1] for row in encoded.table.rows] == ["0", "0"], "a dash that is a class is not a missing value"


@pytest.mark.parametrize(
    "cells",
    [
        ["0,5", "0.5", "1,5", "1,5"],
        ["<10", "<10", ">20", ">20"],
        ["red", "green", "blue", "grey"],  # every word once: names, not classes
        ["same", "same", "same", "same"],
    ],
)
def test_columns_that_are_not_clearly_classes_are_unchanged(cells: list[str]) -> None:
    table = _table(cells)
    assert encode_targets(table, ["y0"], "").table is table
    assert encode_targets(_table(["a", "a", "b", "b"], cells), ["y0", "y1"], "").classes == ()


def test_numbers_are_classes_if_configured_and_are_sorted_as_numbers() -> None:
    encoded = encode_targets(_table(["10", "2", "2.0", "-1", " 10 "]), ["y0"], "multiclass")
    assert encoded.classes == (("-1", "2", "10"),)
    assert [row[1] for row in encoded.table.rows] == ["2", "1", "1", "0", "2"]


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        (["0.5", "1", "2"], "column 'y0' holds 0.5, which is not a class: choose --task-type regression"),
        (["1", "1", "1"], "holds 1 different labels, and a target of several classes has 2 to 100"),
        ([str(i) for i in range(101)], "holds 101 different labels"),
    ],
)
def test_columns_that_cannot_be_classes_are_refused(cells: list[str], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        encode_targets(_table(cells), ["y0"], "multiclass")


def test_a_row_with_a_class_that_the_model_lacks_has_a_reason() -> None:
    encoded = encode_targets(_table(["a", "c", "n/a", "b"]), ["y0"], "multiclass", (("a", "b"),))
    assert encoded.reasons == {
        1: "column 'y0': 'c' is none of the classes a, b",
    }
    assert encoded.warnings == ("1 cell of column 'y0' is read as missing: 'n/a' (1)",)
    records = read_records(encoded.table, "smiles", ["y0"])
    assert [r.row for r in records.rejected] == [1, 2]


def test_words_for_missing_values_are_empty_cells() -> None:
    table = _table(["1.5", " NA ", "n.d.", "", "2"], ["-", "x", "+", "None", "<NA>"])
    encoded = encode_targets(table, ["y0", "y1"], "regression")
    assert [row[1:] for row in encoded.table.rows] == [["1.5", "-"], ["", "x"], ["", "+"], ["", ""], ["2", ""]]
    assert [row[1:] for row in table.rows][1:3] == [[" NA ", "x"], ["n.d.", "+"]], "the table itself is unchanged"
    assert encoded.warnings == (
        "4 cells of the target columns are read as missing: 'NA' (1), 'n.d.' (1), 'None' (1), '<NA>' (1)",
    )


def test_constant_targets_are_found() -> None:
    targets = _numbers([0, 0, np.nan], [0, 1, 1], [7.5, np.nan, np.nan], [np.nan, np.nan, np.nan])
    assert constant_targets(targets, ["a", "b", "c", "d"]) == ["a", "c"]
    bounds = np.full((3, 4, 2), np.nan)
    bounds[2, 0, 0] = 5.0
    assert constant_targets(targets, ["a", "b", "c", "d"], bounds) == ["c"], "a has a bound"


def test_bounds_under_a_loss_that_cannot_use_them_are_missing() -> None:
    table = _table(["1", ">2", "<3", "x"], ["1", "2", "", "4"])
    encoded = encode_targets(table, ["y0", "y1"], "", loss="mae")
    assert [row[1:] for row in encoded.table.rows] == [["1", "1"], ["", "2"], ["", ""], ["x", "4"]]
    why = "is a bound, and the loss mae does not learn from bounds: --loss-function bounded-mse or bounded-mae does"
    assert encoded.reasons == {2: f"column 'y0': '<3' {why}"}, "the row without another label"
    assert [(cell.row, cell.reason) for cell in encoded.unreadable] == [
        (1, f"column 'y0': '>2' {why}"),
        (2, f"column 'y0': '<3' {why}"),
        (3, "column 'y0': 'x' is not a finite number"),
    ]
    assert encoded.num_cells == 7
    (warning,) = encoded.warnings
    assert warning.startswith(
        "2 labels are bounds, such as '>2'; they count as missing, because the loss mae does not learn from bounds: --"
    )
    for loss in ("", "bounded-mae"):
        encoded = encode_targets(table, ["y0", "y1"], "", loss=loss)
        assert encoded.table is table and [cell.row for cell in encoded.unreadable] == [3]


def test_bounds_choose_the_loss() -> None:
    y, bounds = _numbers([0, 1, np.nan]), np.full((3, 1, 2), np.nan)
    bounds[2, 0, 1] = 5.5
    task, message = resolve_task("", "", y, ["y"], (), bounds=bounds)
    assert task == Regression("bounded-mse"), "0 and 1 in a column with a bound are numbers"
    assert message == (
        "task: regression, y holds numbers, and 1 of 3 are bounds such as <5.5: the loss is bounded-mse; "
        "--loss-function overrides it"
    )
    task, message = resolve_task("regression", "bounded-mae", y, ["y"], (), bounds=bounds)
    assert task == Regression("bounded-mae")
    assert message == "y holds numbers, and 1 of 3 are bounds such as <5.5: the loss is bounded-mae"


def test_a_column_of_classes_next_to_one_of_numbers_is_named() -> None:
    encoded = encode_targets(table := _table(["1", ">2", "3"], ["high", "", "low"]), ["y0", "y1"], "")
    with pytest.raises(
        InputError, match="'y1' holds no numbers but 'high' and the like, and 'y0' holds numbers: choose"
    ):
        check_unreadable(table, encoded.unreadable, encoded.num_cells, 0.1, encoded.advice)
    for column in (["n/a", "", ""], [">1", "<2", ""], ["high", "2", ""]):
        assert not encode_targets(_table(["1", ">2", "3"], column), ["y0", "y1"], "").advice
    assert not encode_targets(_table(["high", "low", "9-"]), ["y0"], "regression").advice


def test_too_many_cells_that_cannot_be_read_stop_a_training() -> None:
    table = _table(["1", "x", "", "y", "2", "z", "w"])
    encoded = encode_targets(table, ["y0"], "")
    assert (len(encoded.unreadable), encoded.num_cells) == (4, 6)
    check_unreadable(table, encoded.unreadable, 6, 0.7)
    check_unreadable(table, (), 0, 0.0)
    with pytest.raises(InputError) as raised:
        check_unreadable(table, encoded.unreadable, 6, 0.5)
    assert str(raised.value) == (
        "made up: 4 of 6 target values cannot be read (66.7%, and --max-unreadable allows 50%); line 3, column 'y0': "
        "'x' is not a finite number; line 5, column 'y0': 'y' is not a finite number; line 7, column 'y0': 'z' is not "
        "a finite number; correct or empty them, choose other --target-columns, or raise --max-unreadable to "
        "continue without them"
    )
    encoded = encode_targets(_table(["a", "b", "c"]), ["y0"], "multiclass", (("a", "b"),))
    with pytest.raises(InputError, match=r"1 of 3 target values cannot be read \(33.3%"):
        check_unreadable(table, encoded.unreadable, encoded.num_cells, 0.1)
