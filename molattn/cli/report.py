"""`molattn report`: an HTML page of a run, or of two side by side."""

from pathlib import Path
from typing import Annotated

import typer

from molattn.cli.options import Force, Quiet
from molattn.cli.table_reading import DEFAULT_READING, TableReading, reads_table
from molattn.cli.terminal import print_status
from molattn.errors import UsageError, short_repr


@reads_table(without=("input_format",))
def report(
    run: Annotated[Path, typer.Argument(help="The folder of a trained run.", show_default=False)],
    other: Annotated[
        Path | None, typer.Argument(help="The folder of a second run, to compare with.", show_default=False)
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Output file, .html.")] = Path("report.html"),
    targets: Annotated[
        list[str] | None,
        typer.Option("--target", help="Target to show; may be repeated. [default: the first 12]", show_default=False),
    ] = None,
    smarts: Annotated[
        list[str] | None,
        typer.Option(
            help="A substructure to search for, in addition to functional groups and rings; may be repeated.",
            metavar="NAME=SMARTS",
            show_default=False,
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="A table with names of the molecules. [default: the table of the run]", show_default=False),
    ] = None,
    names_column: Annotated[
        str | None, typer.Option(help="Name of the column of names. [default: detected]", show_default=False)
    ] = None,
    max_molecules: Annotated[
        int, typer.Option(min=1, help="Show at most N molecules, test molecules first.", metavar="N")
    ] = 5000,
    reading: TableReading = DEFAULT_READING,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Write an HTML page to look through a run: its molecules, errors, heads and settings.

    `molattn report runs/esol -o report.html` writes a single file that needs no network and sends no data: a parity
    plot whose points are molecules, a table to sort and to search, the worst errors, activity cliffs, errors by
    scaffold, the learning curve, what heads attend to, and the settings. For what was not measured there is the
    command that measures it.

    `molattn report runs/a runs/b` compares two runs: metrics, the errors of each molecule, and settings that differ.
    """
    reading.check_has_table(data, "--data")
    if output.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"{output.name}: the report is written as .html")
    from molattn.inference.table_job import check_output

    check_output(output, force, data)
    patterns = _patterns(smarts or ())
    from molattn.inference.report import write_report

    size = write_report(
        output,
        run,
        other,
        table=data,
        names_column=names_column or "",
        smiles_column=reading.smiles_column or "",
        table_options=reading.options,
        targets=tuple(targets or ()),
        smarts=patterns,
        max_molecules=max_molecules,
    )
    if not quiet:
        of = "" if size.molecules == size.of else f" of {size.of:,}"
        print_status(f"{output} shows {size.molecules:,}{of} molecules: open it in a browser")


def _patterns(texts: list[str] | tuple[str, ...]) -> dict[str, str]:
    """SMARTS by name, from texts NAME=SMARTS."""
    found = {}
    for text in texts:
        name, equals, smarts = text.partition("=")
        if not (name.strip() and equals and smarts.strip()):
            raise typer.BadParameter(f"--smarts is NAME=SMARTS, such as hydroxyl=[OX2H], not {short_repr(text)}")
        found[name.strip()] = smarts.strip()
    return found
