"""`molattn datasets`: the data sets available by name."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from molattn.cli.terminal import console, print_json, print_line, print_status, warn

if TYPE_CHECKING:
    from molattn.data import DatasetCard

datasets = typer.Typer(
    no_args_is_help=True,
    help="List the data sets available by name, show the card of one, or fetch its table.",
    epilog="`molattn train --dataset NAME` learns from one.",
)

_DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", help="A folder to look into first, before MOLATTN_DATA.", show_default=False),
]
_Json = Annotated[bool, typer.Option("--json", help="Print it as JSON.")]
_Name = Annotated[str, typer.Argument(help="A name in `molattn datasets list`.", show_default=False)]


@datasets.command("list")
def list_all(data_dir: _DataDir = None, as_json: _Json = False) -> None:
    """List all data sets: what is learned, how results are reported, and where the table is.

    It is available here, or is downloaded, or made by RDKit, when it is first used.
    """
    from molattn.data import dataset_names, load_card

    listed = [(card, *_locate(card, data_dir)) for card in map(load_card, dataset_names())]
    if as_json:
        keys = ("name", "title", "rows", "target_columns", "task", "metric", "split")
        contents = [{key: getattr(card, key) for key in keys} | {"path": path} for card, path, _ in listed]
        print_json([{"targets" if k == "target_columns" else k: v for k, v in c.items()} for c in contents])
        return
    from rich.table import Table

    table = Table()
    table.add_column("name", no_wrap=True)
    table.add_column("what it is")
    table.add_column("rows", justify="right", no_wrap=True)
    table.add_column("metric", no_wrap=True)
    table.add_column("table", no_wrap=True)
    for card, _, where in listed:
        rows = "" if card.rows is None else f"{card.rows:,}"
        table.add_row(card.name, card.title, rows, card.metric, where)
    console().print(table)
    print_line("Learn from one with: molattn train --dataset esol")


@datasets.command()
def show(name: _Name, data_dir: _DataDir = None, as_json: _Json = False) -> None:
    """Show the card of a data set: columns, units, source, citation, licence, and the path of its table."""
    from molattn.data import load_card

    card = load_card(name)
    path, where = _locate(card, data_dir)
    content = {key: value for key, value in asdict(card).items() if key != "folder"} | {"path": path}
    if as_json:
        print_json(content)
        return
    from rich.table import Table
    from rich.text import Text

    out = console()
    out.print(Text(card.name, "bold"), Text(f" {card.title}"))
    facts = Table(show_header=False, box=None)
    facts.add_row("table", path or where)
    facts.add_row("rows", "not known before the first download" if card.rows is None else f"{card.rows:,}")
    facts.add_row("sha256", card.sha256 or "not known before the first download")
    facts.add_row("SMILES", card.smiles_column)
    if not card.targets:
        facts.add_row("target", "every other column")
    for target in card.targets:
        unit = f" in {target.unit}" if target.unit else ""
        facts.add_row("target", f"{target.name}{unit}: {target.description}")
    for target in card.atom_targets:
        facts.add_row("of atoms", f"{target.name}{f' in {target.unit}' if target.unit else ''}: {target.description}")
    facts.add_row("task", f"{card.task}, reported in {card.metric}, usual split {card.split}")
    facts.add_row("source", card.source)
    for url in () if card.download is None else card.download.urls:
        facts.add_row("from", url)
    for text in card.citation:
        facts.add_row("cite", text)
    facts.add_row("licence", card.licence)
    for text in card.notes:
        facts.add_row("note", text)
    out.print(facts)


@datasets.command()
def get(name: _Name, data_dir: _DataDir = None, as_json: _Json = False) -> None:
    """Fetch or make the table of a data set, unless it is available, and print its path.

    It goes into --data-dir, or else into the user's cache.
    """
    import hashlib

    from molattn.data import read_table

    card = fetch_with_progress(name, data_dir)
    rows = len(read_table(card.path).rows)
    sha256 = hashlib.sha256(card.path.read_bytes()).hexdigest()
    if as_json:
        print_json({"name": name, "path": str(card.path), "rows": rows, "sha256": sha256})
        return
    print_line(f"{card.path}: {rows:,} rows, sha256 {sha256}")
    print_line(f"Learn from it with: molattn train --dataset {name}{f' --data-dir {data_dir}' if data_dir else ''}")


def fetch_with_progress(name: str, data_dir: str | Path | None, quiet: bool = False) -> "DatasetCard":
    """The card of a data set whose table is available, downloaded with a progress bar if necessary."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    from molattn.data import fetch_dataset

    err = console(stderr=True)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(
        *columns, console=err, disable=quiet or not err.is_terminal, transient=True, refresh_per_second=5
    ) as bar:
        task = bar.add_task(name, total=None, visible=False)

        def progress(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total or None, visible=True)

        card, message = fetch_dataset(name, data_dir or "", progress)
    if message and not quiet:
        print_status(message)
    return card


def _locate(card: "DatasetCard", data_dir: Path | None) -> tuple[str | None, str]:
    """The path of a data set's table, None if missing, and where it comes from in a word; warns of a damaged one."""
    from molattn.data import find_dataset
    from molattn.errors import InputError

    try:
        found = find_dataset(card, data_dir or "")
    except InputError as error:
        warn(error)
        return None, "damaged"
    return (None, "RDKit" if card.computed else "download") if found is None else (str(found.path), "here")
