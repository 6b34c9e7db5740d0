"""The public file of a data set, and its conversion to a table with the columns of the card."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from molattn.data.datasets.archives import read_archive_member
from molattn.data.datasets.cards import DatasetCard, Download
from molattn.data.tables.table import Table, column_index, read_table, read_table_bytes
from molattn.errors import InputError, UsageError

DOWNLOADS = "downloads"
"""The folder of unchanged downloads, within a folder of data sets."""


def find_public_file(card: DatasetCard, public_file: Download, folders: Iterable[Path]) -> Path | None:
    """The public file in the first of `folders` that has it; None if none has it.

    The file is searched in the subfolder `downloads`, and that of a group also in the subfolder of the group.
    """
    places = (DOWNLOADS, card.group) if card.group else (DOWNLOADS,)
    paths = [folder / place / public_file.file for folder in folders for place in places]
    return next((path for path in paths if path.is_file()), None)


def find_extracted_tables(card: DatasetCard, public_file: Download, folders: Iterable[Path]) -> dict[str, Path]:
    """The tables of a public file in parts, by label, in the first of `folders` that has all; empty if none has.

    They are searched in the subfolder that extracting the archive creates, and in that of the name of the data set. For
    `tdc/caco2_wang` these are `admet_group/caco2_wang`, which TDC's own package creates, and `tdc/caco2_wang`.
    """
    parts = public_file.parts
    for folder in folders:
        as_in_archive = {label: folder / part for label, part in parts.items()}
        by_name = {label: folder / card.name / Path(part).name for label, part in parts.items()}
        for paths in (as_in_archive, by_name):
            if parts and all(path.is_file() for path in paths.values()):
                return paths
    return {}


def read_public_file(raw: Path, public_file: Download) -> dict[str, Table]:
    """The tables of a public file, by label of the official split; a file that is one table has the label "".

    Raises:
        InputError: the file, or a table in it, cannot be read.
    """
    members = public_file.parts or ({"": public_file.member} if public_file.member else {})
    if not members:
        return {"": read_table(raw, number_duplicate_columns=True)}
    return {
        label: read_table_bytes(read_archive_member(raw, member), member, number_duplicate_columns=True)
        for label, member in members.items()
    }


def select_columns(
    card: DatasetCard, public_file: Download, tables: Mapping[str, Table]
) -> tuple[Sequence[str], list[list[str]]]:
    """The names of the columns in the card, and the cells of all rows, in order and unchanged.

    The label of each table is added to its rows, as the column of the official split.

    Raises:
        InputError: a column is missing, or a table has no rows.
    """
    columns: list[str] = []
    cells: list[list[str]] = []
    for label, table in tables.items():
        columns, rows = _select(card, public_file, table)
        cells += [[*row, label] for row in rows] if public_file.parts else rows
    if public_file.parts and card.official_split is not None:
        columns = [*columns, card.official_split.column]
    return columns, cells


def _select(card: DatasetCard, public_file: Download, table: Table) -> tuple[list[str], list[list[str]]]:
    """The columns and the rows of one table."""
    try:
        indices = [column_index(table, public_file.smiles_column)]
        if public_file.columns:
            in_file = {name: public_file.columns[name] for name in card.target_columns} | public_file.other_columns
            names = [*in_file]
            indices += [column_index(table, name) for name in in_file.values()]
        else:
            not_targets = {public_file.smiles_column, *public_file.leave_out}
            names = [name for name in table.columns if name.strip() not in not_targets]
            indices += [column_index(table, name) for name in names]
    except UsageError as error:
        raise InputError(f"{error}: the file is not the one that the card of {card.name} describes") from error
    if not table.rows:
        raise InputError(f"{table.source} has no rows")
    return [card.smiles_column, *names], [[row[index] for index in indices] for row in table.rows]
