"""Which task a table's targets are taken for, and what their classes are called."""

import numpy as np
import pytest

from molattn.data import read_records
from molattn.data.tables.table import Table
from molattn.errors import InputError, UsageError
from molattn.models.tasks import Binary, Multiclass, Regression
from molattn.training.targets import choose_task, code_targets, lone_classes, task_kind


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
def test_only_zeros_and_ones_are_taken_for_classes(columns: list[list[float]], kind: str) -> None:
    names = [f"y{i}" for i in range(len(columns))]
    task, said = choose_task("", "", _numbers(*columns), names, ())
    assert task.kind == kind
    assert said.startswith(f"task: {kind}, ")
    assert "--task-type" in said


def test_few_whole_numbers_are_pointed_out() -> None:
    _, said = choose_task("", "", _numbers([0, 1, 2, 1] * 50), ["y"], ())
    assert said == "task: regression, y holds the numbers 0, 1, 2; if they are classes, add --task-type multiclass"


def test_what_was_said_is_not_repeated() -> None:
    task, said = choose_task("regression", "", _numbers([0, 1, 1]), ["y"], ())
    assert (task, said) == (Regression(), "")
    assert task_kind("classification") == "binary"
    with pytest.raises(UsageError, match="no task type 'ranking': choose one of regression, binary, multiclass"):
        task_kind("ranking")


def test_targets_that_are_not_what_was_said_are_refused() -> None:
    with pytest.raises(InputError, match="column 'y' holds 2, and a binary target is 0 or 1"):
        choose_task("binary", "", _numbers([0, 1, 2]), ["y"], ())


def test_a_loss_belongs_to_its_task() -> None:
    y = _numbers([0, 1, 1])
    assert choose_task("regression", "mve", y, ["y"], ())[0] == Regression("mve")
    assert choose_task("", "bce", y, ["y"], ())[0] == Binary()
    with pytest.raises(
        UsageError, match="'mse' is of regression targets, and these are binary: choose bce or dirichlet, or add"
    ):
        choose_task("", "mse", y, ["y"], ())
    with pytest.raises(UsageError, match="no loss 'hinge': choose among mse, mae, huber, mve, evidential, quantile"):
        choose_task("", "hinge", y, ["y"], ())


def test_words_that_repeat_are_classes_in_alphabetical_order() -> None:
    coded = code_targets(_table(["low", " high", "", "low", "high ", "mid", "mid"]), ["y0"], "")
    assert coded.classes == (("high", "low", "mid"),)
    assert [row[1] for row in coded.table.rows] == ["1", "0", "", "1", "0", "2", "2"]
    targets = read_records(coded.table, "smiles", ["y0"]).targets
    assert targets[:, 0].tolist() == [1, 0, 1, 0, 2, 2]
    task, said = choose_task("", "", targets, ["y0"], coded.classes)
    assert task == Multiclass(classes=(("high", "low", "mid"),))
    assert said == "task: multiclass, y0 holds words: high, low, mid; --task-type says otherwise"


@pytest.mark.parametrize(
    "cells",
    [
        ["1.5", "2.5", "N/D", "N/D"],  # numbers, some of which are missing
        ["nan", "nan", "NA", "NA"],
        ["0,5", "0,5", "1,5", "1,5"],
        ["<10", "<10", ">20", ">20"],
        ["red", "green", "blue", "grey"],  # every word once: names, not classes
        ["same", "same", "same", "same"],
    ],
)
def test_columns_that_are_not_clearly_classes_are_left_as_they_are(cells: list[str]) -> None:
    table = _table(cells)
    assert code_targets(table, ["y0"], "").table is table
    assert code_targets(_table(["a", "a", "b", "b"], cells), ["y0", "y1"], "").classes == ()


def test_classes_that_are_numbers_are_so_when_said_and_stand_in_their_order() -> None:
    coded = code_targets(_table(["10", "2", "2.0", "-1", " 10 "]), ["y0"], "multiclass")
    assert coded.classes == (("-1", "2", "10"),)
    assert [row[1] for row in coded.table.rows] == ["2", "1", "1", "0", "2"]


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        (["0.5", "1", "2"], "column 'y0' holds 0.5, which is no class: choose --task-type regression"),
        (["1", "1", "1"], "holds 1 different labels, and a target of several classes has 2 to 100"),
        ([str(i) for i in range(101)], "holds 101 different labels"),
    ],
)
def test_columns_that_cannot_be_classes_are_refused(cells: list[str], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        code_targets(_table(cells), ["y0"], "multiclass")


def test_a_label_that_the_model_does_not_know_is_a_row_with_a_reason() -> None:
    coded = code_targets(_table(["a", "c", "n/a", "b"]), ["y0"], "multiclass", (("a", "b"),))
    assert coded.reasons == {
        1: "column 'y0': 'c' is none of the classes a, b",
        2: "column 'y0': 'n/a': leave the field empty for a missing value",
    }
    records = read_records(coded.table, "smiles", ["y0"])
    assert [r.row for r in records.rejected] == [1, 2]


def test_targets_of_one_class_are_found() -> None:
    targets = _numbers([0, 0, np.nan], [0, 1, 1], [1, np.nan, np.nan])
    assert lone_classes(targets, ["a", "b", "c"], Binary()) == ["a", "c"]
    assert lone_classes(targets, ["a", "b", "c"], Regression()) == []
