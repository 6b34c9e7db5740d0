"""The checks of an output before a table is read: a table is never replaced by what is computed from it."""

import os
from pathlib import Path
from typing import Any

import pytest

from molattn.errors import InputError, UsageError
from molattn.inference import Predictor
from molattn.inference.table_job import check_attention_output, check_output


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "in.csv"
    path.write_text("smiles\nCCO\n")
    return path


def test_the_input_is_no_output_under_any_of_its_names_even_with_force(table: Path, tmp_path: Path) -> None:
    (tmp_path / "link.csv").symlink_to(table)
    os.link(table, tmp_path / "other.csv")
    for name in ("in.csv", "link.csv", "other.csv"):
        for check in (check_output, check_attention_output):
            with pytest.raises(UsageError, match=f"{name} is the input itself: write to another file"):
                check(tmp_path / name, True, table)
    check_output(tmp_path / "new.csv", False, table)
    check_output(tmp_path / "new.csv", False, Path("-"))


def test_attention_weights_do_not_replace_their_table(table: Path) -> None:
    predictor: Any = object.__new__(Predictor)
    with pytest.raises(UsageError, match="is the input itself"):
        predictor.attention_table(table, table, force=True)
    assert table.read_text() == "smiles\nCCO\n"


def test_an_output_is_a_file_that_is_not_there_or_may_be_replaced(table: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="exists: give another output, or --force"):
        check_output(table)
    check_output(table, force=True)
    for force in (False, True):
        with pytest.raises(UsageError, match="is not a regular file: give another path"):
            check_output(tmp_path, force)
    with pytest.raises(InputError, match="there is no folder"):
        check_output(tmp_path / "none" / "x.csv")
