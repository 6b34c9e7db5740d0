"""The lines of `molattn datasets list`, and where the table of a data set is."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from molattn.cli.terminal import print_line, warn

if TYPE_CHECKING:
    from molattn.data import DatasetCard


def print_list(listed: "Sequence[tuple[DatasetCard, str | None, str, int | None]]") -> None:
    """Print two lines for each data set."""
    rows = [("name", "rows", "targets", "task", "unit", "table", "")]
    for card, _, where, number in listed:
        units = units_of(card)
        unit = units[0] if len(units) == 1 else "several" if units else ""
        count = "" if number is None else f"{number:,}"
        rows.append((card.name, count, f"{len(card.targets) or ''}", card.task, unit, where, card.title))
    width, unit_width = (max(len(row[i]) for row in rows) for i in (0, 4))
    for name, count, targets, task, unit, where, title in rows:
        print_line(f"{name:<{width}}  {count:>7}  {targets:>7}  {task:<14}  {unit:<{unit_width}}  {where}")
        if title:
            print_line(f"  {title}")


def units_of(card: "DatasetCard") -> list[str]:
    """The units of the targets, each once."""
    return list(dict.fromkeys(target.unit for target in card.targets if target.unit))


def locate(card: "DatasetCard", data_dir: Path | None) -> tuple[str | None, str, int | None]:
    """The path of a data set's table, None if missing; its origin in words; and the number of its rows.

    Warns of a damaged table. The rows are those on the card, or of the table that was downloaded; None if unknown.
    """
    from molattn.data import find_dataset
    from molattn.data.datasets.fetch import has_public_file
    from molattn.data.datasets.pins import read_pin
    from molattn.errors import InputError

    try:
        found = find_dataset(card, data_dir or "")
    except InputError as error:
        warn(error)
        return None, "damaged", card.rows
    if found is None:
        at_first_use = (
            "RDKit" if card.computed else "files here" if has_public_file(card, data_dir or "") else "download"
        )
        return None, at_first_use, card.rows
    pin = read_pin(found)
    return str(found.path), "here", card.rows if pin is None else pin.rows
