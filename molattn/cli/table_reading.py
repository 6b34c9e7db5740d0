"""The options for reading a table, which every command with a table of molecules has."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

if TYPE_CHECKING:
    from molattn.data.tables.options import TableOptions
    from molattn.inference.table_job import InputTable

Command = Callable[..., None]


@dataclass(frozen=True)
class TableReading:
    """How a table is read, by the options of a command; the fields are the options, in this order, with their help."""

    smiles_column: Annotated[
        str | None, typer.Option(help="Name of the SMILES column. [default: detected]", show_default=False)
    ] = None
    input_format: Annotated[
        str | None,
        typer.Option(help="csv, tsv, smi, sdf, parquet or xlsx. [default: by the name; csv for -]", show_default=False),
    ] = None
    encoding: Annotated[
        str | None,
        typer.Option(help="Text encoding, such as cp1252. [default: UTF-8, UTF-16 or cp1252]", show_default=False),
    ] = None
    no_header_row: Annotated[
        bool, typer.Option("--no-header-row", help="The first row is data; columns are column_1, ...")
    ] = False
    sheet: Annotated[
        str | None, typer.Option(help="Sheet of a workbook. [default: the first]", metavar="NAME", show_default=False)
    ] = None
    decimal: Annotated[
        str, typer.Option("--decimal", metavar="MARK", help="Decimal mark of the numbers; detected if not given.")
    ] = ""
    thousands: Annotated[
        str,
        typer.Option("--thousands", metavar="MARK", help="Thousands separator of the numbers; detected if not given."),
    ] = ""

    @property
    def options(self) -> "TableOptions":
        """Encoding, header, sheet and number format."""
        # Imported here, because the help screen does not need it.
        from molattn.data.tables.options import TableOptions

        return TableOptions(self.encoding or "", not self.no_header_row, self.sheet or "", self.decimal, self.thousands)

    def input_table(self, path: Path) -> "InputTable":
        """The table at `path`, to be read row by row."""
        from molattn.inference.table_job import InputTable

        return InputTable(path, self.smiles_column, self.input_format, self.options)

    def check_has_table(self, table: object, what: str = "a table", **others: object) -> None:
        """Reject options for reading a table if there is no table.

        Args:
            table: None, or empty, for no table.
            what: the argument or option that gives the table, for the message.
            others: other options that need a table, by their names in Python.

        Raises:
            typer.BadParameter: one of them is given, and there is no table.
        """
        values = {**vars(self), **others}
        given = [f"--{name.replace('_', '-')}" for name, value in values.items() if value not in (None, False, "")]
        if given and not table:
            raise typer.BadParameter(f"{', '.join(given)} need{'s' if len(given) == 1 else ''} {what}")


DEFAULT_READING = TableReading()


def reads_table(*, without: tuple[str, ...] = ()) -> Callable[[Command], Command]:
    """A decorator: the command has the options of `TableReading` except `without`, and receives them as `reading`.

    They replace `reading` in the signature of the command.
    """

    def decorate(command: Command) -> Command:
        hints = get_type_hints(TableReading, include_extras=True)
        names = [name for name in hints if name not in without]
        kind = inspect.Parameter.KEYWORD_ONLY
        options = [
            inspect.Parameter(name, kind, default=getattr(DEFAULT_READING, name), annotation=hints[name])
            for name in names
        ]
        signature = inspect.signature(command)
        parameters: list[inspect.Parameter] = []
        for parameter in signature.parameters.values():
            parameters += options if parameter.name == "reading" else [parameter.replace(kind=kind)]

        @wraps(command)
        def run(**values: Any) -> None:
            reading = TableReading(**{name: values.pop(name) for name in names})
            command(**values, reading=reading)

        run.__signature__ = signature.replace(parameters=parameters)  # pyright: ignore[reportAttributeAccessIssue]
        return run

    return decorate
