"""`molattn datasets`: the data sets that are available by name."""

from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from molattn.cli.dataset_list import locate, print_list, units_of
from molattn.cli.terminal import console, print_json, print_line

datasets = typer.Typer(
    no_args_is_help=True,
    help="List the data sets that are available by name, show the card of one, or download it.",
    epilog="`molattn train --dataset NAME` trains on one.",
)

_DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", help="A folder that is searched first, before MOLATTN_DATA.", show_default=False),
]
_Json = Annotated[bool, typer.Option("--json", help="Print it as JSON.")]
_Name = Annotated[str, typer.Argument(help="A name from `molattn datasets list`.", show_default=False)]


@datasets.command("list")
def list_all(
    group: Annotated[
        str | None,
        typer.Argument(help="A group of data sets, such as tdc. [default: those without a group]", show_default=False),
    ] = None,
    data_dir: _DataDir = None,
    as_json: _Json = False,
) -> None:
    """List data sets: rows, targets, task, unit, and the origin of the table.

    A table is here, or it is downloaded, or computed by RDKit, at its first use. Groups, which are the tasks of
    benchmarks, have a line each; `molattn datasets list tdc` lists one, and `--json` without a group everything.
    """
    from molattn.data import dataset_names, group_of, load_card
    from molattn.errors import UsageError, unknown_choice

    names = dataset_names()
    groups = Counter(filter(None, map(group_of, names)))
    if group is not None and group not in groups:
        raise UsageError(unknown_choice("group of data sets", group, groups))
    if group is not None or not as_json:
        names = [name for name in names if group_of(name) == (group or "")]
    listed = [(card, *locate(card, data_dir)) for card in map(load_card, names)]
    if as_json:
        keys = ("name", "title", "target_columns", "task", "metric", "split")
        contents = [
            {key: getattr(card, key) for key in keys} | {"rows": rows, "units": units_of(card), "path": path}
            for card, path, _, rows in listed
        ]
        print_json([{"targets" if k == "target_columns" else k: v for k, v in c.items()} for c in contents])
        return
    print_list(listed)
    print_line()
    if group is None:
        for name, number in groups.items():
            print_line(f"{name}/  the {number} tasks of a benchmark: molattn datasets list {name}")
    print_line("Without a number of rows: not downloaded. Without a number of targets: all other columns are targets.")
    print_line(f"Train on one with: molattn train --dataset {names[0] if group else 'esol'}")


@datasets.command()
def show(name: _Name, data_dir: _DataDir = None, as_json: _Json = False) -> None:
    """Show the card of a data set: columns, units, source, citation, licence, and the path of its table."""
    from molattn.data import load_card

    card = load_card(name)
    path, where, rows = locate(card, data_dir)
    content = {key: value for key, value in asdict(card).items() if key != "folder"} | {"rows": rows, "path": path}
    if as_json:
        print_json(content)
        return
    from rich.table import Table
    from rich.text import Text

    out = console()
    out.print(Text(card.name, "bold"), Text(f" {card.title}"))
    facts = Table(show_header=False, box=None)
    facts.add_row("table", path or where)
    facts.add_row("rows", "unknown before the first download" if rows is None else f"{rows:,}")
    facts.add_row("sha256", card.sha256 or "unknown before the first download")
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
    """Download or compute the table of a data set, unless it is available, and print its path.

    It is stored in --data-dir, or in the user's cache.
    """
    from molattn.cli.progress import fetch_with_progress
    from molattn.data import read_table
    from molattn.data.files import file_sha256

    card = fetch_with_progress(name, data_dir)
    rows = len(read_table(card.path).rows)
    sha256 = file_sha256(card.path)
    if as_json:
        print_json({"name": name, "path": str(card.path), "rows": rows, "sha256": sha256})
        return
    print_line(f"{card.path}: {rows:,} rows, sha256 {sha256}")
    print_line(f"Train on it with: molattn train --dataset {name}{f' --data-dir {data_dir}' if data_dir else ''}")
