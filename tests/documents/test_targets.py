"""docs/targets.md is true: each row of its table is named after a habit that is tried."""

from pathlib import Path

from tests.habits.labels import HABITS

TEXT = (Path(__file__).parents[2] / "docs/targets.md").read_text(encoding="utf-8")


def test_each_row_is_named_after_a_habit() -> None:
    table = TEXT[TEXT.index("| --- |") :].partition("\n\n")[0].splitlines()[1:]
    rows = [line.split("|")[1].strip() for line in table]
    assert len(rows) > 15 and len(set(rows)) == len(rows)
    assert set(rows) <= {habit.name for habit in HABITS}
