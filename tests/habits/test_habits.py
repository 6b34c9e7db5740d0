"""Tables as people export them: each is read as it was meant, or refused with one sentence; no row is lost."""

import importlib
import math
import pkgutil
import re
from pathlib import Path

import pytest

import tests.habits
from molattn.errors import MolattnError
from molattn.models.graph_model import GraphModel
from molattn.training.config import DataConfig
from molattn.training.data_report import check_data
from molattn.training.prepare import prepare
from tests.habits.habit import Habit

HABITS: list[Habit] = [
    habit
    for module in pkgutil.iter_modules(tests.habits.__path__)
    for habit in getattr(importlib.import_module(f"tests.habits.{module.name}"), "HABITS", ())
    if not module.name.startswith("test_")
]


@pytest.mark.parametrize("habit", HABITS, ids=lambda habit: habit.name)
def test_a_table_is_read_as_it_was_meant_or_refused_with_one_sentence(tmp_path: Path, habit: Habit) -> None:
    path = tmp_path / habit.file
    path.write_bytes(habit.content if isinstance(habit.content, bytes) else habit.content())
    config = DataConfig(dataset=str(path), **habit.options)
    if habit.error:
        with pytest.raises(MolattnError, match=r"^[^\n]+$") as error:
            prepare(config, GraphModel, seed=0)
        assert habit.error in str(error.value)
        return
    dataset = prepare(config, GraphModel, seed=0)
    assert [dataset.smiles[row] for row in dataset.rows] == list(habit.smiles)
    targets = [[None if math.isnan(y) else y for y in row] for row in dataset.targets.tolist()]
    assert targets == [pytest.approx(list(row)) for row in habit.targets]
    messages = [*dataset.warnings, dataset.task_message, *dataset.transform_reasons]
    messages += [found.message for found in check_data(dataset).findings]
    for part in habit.says:
        assert any(part in message for message in messages), messages
    assert {rejected.line for rejected in dataset.rejected} == set(habit.rejected)
    for rejected in dataset.rejected:
        assert habit.rejected[rejected.line] in rejected.reason
    accounted = len(dataset.rows) + len(dataset.rejected) + len(dataset.merged_rows)
    assert accounted == len(dataset.smiles), "a row was lost"


def test_no_two_habits_have_one_name() -> None:
    names = [habit.name for habit in HABITS]
    assert len(set(names)) == len(names)


def test_every_line_of_the_page_about_tables_has_a_test_case() -> None:
    text = (Path(__file__).parents[2] / "docs/tables.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("|")][2:]
    cited = [row.rstrip("| ").rpartition("|")[2].strip() for row in rows]
    assert rows and all(re.fullmatch("`[^`]+`", name) for name in cited), cited
    assert {name.strip("`") for name in cited} <= {habit.name for habit in HABITS}
