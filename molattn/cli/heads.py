"""`molattn heads`: a summary of what each attention head attends to, over the molecules of a table."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from molattn.cli.options import InputFormat, MoleculeTable, NumWorkers, Quiet, Run, SmilesColumn, load_predictor
from molattn.cli.terminal import console, print_line, print_status, warn

if TYPE_CHECKING:
    from molattn.explain import HeadSummary

_SHORT = {
    "bonded": "1",
    "2 bonds": "2",
    "3 bonds": "3",
    "farther": ">3",
    "other fragment": "other",
    "virtual node": "virtual",
}
_LEGEND = (
    "head: layer.head; entropy: in % of log n; looks most at: the functional group whose share, from all other",
    "atoms, is the most times that of uniform attention. The tables of -o have all groups, elements and numbers.",
)


def heads(
    run: Run,
    table: MoleculeTable,
    outputs: Annotated[
        list[Path] | None,
        typer.Option(
            "--output",
            "-o",
            help="A table (.csv, .tsv, .parquet) or a figure (.svg, .png); may be repeated.",
            show_default=False,
        ),
    ] = None,
    max_rows: Annotated[
        int | None, typer.Option(min=1, help="Read only this many rows, the first ones.", show_default=False)
    ] = None,
    smiles_column: SmilesColumn = None,
    input_format: InputFormat = None,
    num_workers: NumWorkers = 0,
    strict: Annotated[bool, typer.Option("--strict", help="Stop with code 4 at a row that cannot be read.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the output files.")] = False,
    quiet: Quiet = False,
) -> None:
    """Summarise what every head attends to: near or far atoms, which elements and functional groups.

    `molattn heads runs/esol in.csv -o heads.csv -o heads.svg` gives, for each layer and head, the share of attention
    that atoms give to themselves, to bonded atoms and to others by distance, to each element, and to 21 functional
    groups; each next to the share of uniform attention, and their ratio; and the entropy. Memory is bounded. It is
    what the model looks at, not proof of why it answers as it does.
    """
    from molattn.cli.table_report import TableProgress
    from molattn.explain.head_summary import check_summary_output
    from molattn.inference.table_job import check_output

    outputs = list(outputs or ())
    for path in outputs:
        check_summary_output(path)
        check_output(path, force)

    predictor = load_predictor(run)
    from molattn.inference.attention_table import summarize_table

    summary, counts = summarize_table(
        predictor,
        table,
        partial(TableProgress, quiet=quiet),
        smiles_column=smiles_column,
        input_format=input_format,
        max_rows=max_rows,
        num_workers=num_workers,
        strict=strict,
    )
    if counts.failed:
        warn(counts.warning("are left out"))
    for path in outputs:
        summary.save(path)
        if not quiet:
            print_status(f"{path} is written")
    if not quiet:
        _print(summary)


def _print(summary: "HeadSummary") -> None:
    """Print each head's shares by distance, its entropy and its preference, in 80 columns."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    distances = [key for key in summary.keys("distance") if summary.uniform(key)]
    spread = summary.keys("entropy")
    title = f"{summary.molecules:,} molecules, {summary.atoms:,} atoms: % of attention by bonds between the atoms"
    table = Table(title=title, box=SIMPLE_HEAD, pad_edge=False, title_justify="left")
    for name in ("head", *(_SHORT.get(key[2], key[2]) for key in distances), "entropy", "looks most at"):
        table.add_column(name, justify="left" if name == "looks most at" else "right", no_wrap=True)
    table.add_row("uniform", *(_percent(summary.uniform(key)) for key in distances), *["100"][: len(spread)])
    layers, heads = summary.shape or (0, 0)
    for layer in range(layers):
        table.add_section()
        for head in range(heads):
            shares = [_percent(float(summary.share(key)[layer, head])) for key in (*distances, *spread)]
            table.add_row(f"{layer}.{head}", *shares, *[""][len(spread) :], _preference(summary, layer, head))
    console().print(table)
    for line in _LEGEND:
        print_line(line)


def _percent(share: float) -> str:
    return f"{100 * share:.0f}"


def _preference(summary: "HeadSummary", layer: int, head: int) -> str:
    """The functional group with the highest ratio above 1, among groups that at least 100 atoms could attend to."""
    from molattn.explain.head_summary import OTHERS

    ratios = {
        key[2]: float(summary.share(key)[layer, head] / summary.uniform(key))
        for key in summary.keys("group")
        if key[1] == OTHERS and summary.receivers(key) >= 100 and summary.uniform(key)
    }
    best = max(ratios, key=lambda name: ratios[name], default="")
    return f"{best} {ratios[best]:.1f}x" if best and ratios[best] > 1 else ""
