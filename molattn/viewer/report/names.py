"""The names of the molecules of a run, from a column of its table or of another table."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from molattn.data import guess_smiles_column, read_table
from molattn.data.files import file_sha256
from molattn.data.tables.options import DEFAULT_TABLE_OPTIONS, TableOptions
from molattn.data.tables.table import Table, column
from molattn.errors import UsageError, short_repr
from molattn.viewer.report.run_files import RunFiles

NAME_COLUMNS = (
    "name",
    "names",
    "molecule_name",
    "compound",
    "compound_name",
    "title",
    "compound_id",
    "id",
    "identifier",
)
"""Usual names of a column of names, the preferred ones first. Case is ignored, and a space is an underscore."""


def guess_names_column(columns: Sequence[str]) -> str:
    """The first column that is named as one of `NAME_COLUMNS`; empty if there is none.

    >>> guess_names_column(["smiles", "Compound ID", "y"])
    'Compound ID'
    """
    known = {name.strip().casefold().replace(" ", "_"): name for name in reversed(columns)}
    return next((known[name] for name in NAME_COLUMNS if name in known), "")


def names_of_run(
    run: RunFiles,
    table: str | Path | None = None,
    names_column: str = "",
    smiles_column: str = "",
    options: TableOptions = DEFAULT_TABLE_OPTIONS,
) -> list[str]:
    """The names of the n molecules of a run.

    Rows of the table are matched by their number if the run has the same SMILES in the same rows, otherwise by SMILES.

    Args:
        run: the run.
        table: a table with SMILES and names; None for the table of the run, see `table_of_run`.
        names_column: the column of names; guessed by its name if empty.
        smiles_column: the column of SMILES in `table`; guessed if empty.
        options: how `table` is read.

    Returns:
        n names, "" for molecules without one; an empty list if the table of the run cannot be used or has no column of
        names.

    Raises:
        UsageError: a `names_column`, but the table of the run is missing or has changed; a column that the table does
            not have; no column of names in `table`; or a table with none of the molecules.
        InputError: the table cannot be read.
    """
    source = Path(table) if table is not None else table_of_run(run)
    if source is None:
        if names_column:
            raise UsageError(f"the table of {run.folder} is missing or has changed: give it with --data")
        return []
    if table is None:
        options, smiles_column = _table_options(run.config), str(run.config["data"].get("smiles_column", ""))
    found = read_table(source, options, number_duplicate_columns=True)
    name = names_column or guess_names_column(found.columns)
    if not name:
        if table is not None:
            raise UsageError(
                f"no column of {source} has a usual name of a column of names, such as {', '.join(NAME_COLUMNS[:3])}: "
                "give one with --names-column"
            )
        return []
    return _match(run, found, column(found, name), smiles_column)


def table_of_run(run: RunFiles) -> Path | None:
    """The table that a run was trained on, if it was a local file and its checksum is the same; otherwise None."""
    dataset = run.config.get("data", {}).get("dataset", "")
    if not isinstance(dataset, str) or not dataset or not Path(dataset).is_file():
        return None
    return Path(dataset) if file_sha256(dataset) == run.environment.get("data_sha256") else None


def _table_options(config: Mapping[str, Any]) -> TableOptions:
    data = config["data"]
    texts = (str(data.get(name, "")) for name in ("sheet", "decimal", "thousands"))
    return TableOptions(str(data.get("encoding", "")), not data.get("no_header_row", False), *texts)


def _match(run: RunFiles, table: Table, names: list[str], smiles_column: str) -> list[str]:
    """The name of each molecule of the run, given the name of each row of the table."""
    smiles = column(table, smiles_column or guess_smiles_column(table.columns, table.smiles_column))
    rows = run.rows.tolist()
    if all(row < len(smiles) and smiles[row].strip() == s.strip() for row, s in zip(rows, run.smiles, strict=True)):
        return [names[row].strip() for row in rows]
    by_smiles: dict[str, str] = {}
    for text, name in zip(smiles, names, strict=True):
        by_smiles.setdefault(text.strip(), name.strip())
    found = [by_smiles.get(text.strip(), "") for text in run.smiles]
    if not any(found):
        raise UsageError(f"{table.source} has none of the molecules of the run, such as {short_repr(run.smiles[0])}")
    return found
