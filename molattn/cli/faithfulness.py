"""`molattn faithfulness`: how faithful the attributions of a trained model are to its predictions."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from molattn.cli.options import Encoding, NoHeaderRow, Quiet, Run, Sheet, Target, load_predictor, table_options
from molattn.cli.terminal import console, print_json, print_line, warn

if TYPE_CHECKING:
    from molattn.explain.run_faithfulness import RunFaithfulness


def faithfulness(
    run: Run,
    table: Annotated[
        Path | None,
        typer.Option(help="Measure on the molecules of this table. [default: the test molecules]", show_default=False),
    ] = None,
    smiles_column: Annotated[
        str | None, typer.Option(help="Its column of SMILES; found by its name if not given.", show_default=False)
    ] = None,
    encoding: Encoding = None,
    no_header_row: NoHeaderRow = False,
    sheet: Sheet = None,
    target: Target = None,
    method: Annotated[
        list[str] | None,
        typer.Option("--method", help="One method; may be repeated. [default: all]", show_default=False),
    ] = None,
    max_molecules: Annotated[int, typer.Option(min=1, help="At most this many molecules, sampled at random.")] = 500,
    seed: Annotated[int, typer.Option(min=0, help="Of that sample and of the random orders.")] = 0,
    quiet: Quiet = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was measured as JSON.")] = False,
) -> None:
    """Measure how faithful each method of `molattn explain` is for a model, on molecules held out from its training.

    Deletion: how much the prediction changes as the top-ranked atoms are masked, relative to a random order. On
    `nci-logp` and `nci-tpsa`, where the true share of every atom is known, also Kendall's tau, Pearson's r and the
    AUROC of the atoms that count, next to random numbers and an untrained model. The result is saved as
    `faithfulness.json` in the run, and every picture of its attention and attributions repeats the line about its
    method.
    """
    from molattn.cli.table_report import TableProgress

    predictor = load_predictor(run)
    with TableProgress(None, quiet=quiet) as report:
        done = predictor.faithfulness(
            run,
            table=table,
            smiles_column=smiles_column or "",
            table_options=table_options(encoding, no_header_row, sheet),
            target=target,
            methods=tuple(method or ()),
            max_molecules=max_molecules,
            seed=seed,
            progress=lambda done, _: report(done),
        )
    if done.rejected:
        count = f"{len(done.rejected)} molecules cannot be read and are left out"
        warn(f"{count}; the first, {done.rejected[0]}")
    if as_json:
        print_json(done.record)
        return
    if not quiet:
        _print(done, run)


def _print(done: "RunFaithfulness", run: Path) -> None:
    from rich.table import Table

    found, record = done.faithfulness, done.record
    n, candidates = found.molecules, done.num_candidates
    chosen = f"{n} of {candidates}" if n < candidates else str(n)
    side = f"{record['side']} " if record["side"] else ""
    print_line(f"{found.target}, {chosen} {side}molecules of {record['data']}:")
    table = Table()
    table.add_column("method", no_wrap=True)
    if done.truth:
        for name in ("tau", "r", "AUROC", "untrained"):
            table.add_column(name, justify="right")
    table.add_column("deletion", justify="right")
    for name, m in found.methods.items():
        cells = [name]
        if done.truth:
            cells += [_number(m.kendall), _number(m.pearson), _number(m.auroc), _number(found.untrained[name].kendall)]
        table.add_row(*cells, _number(m.deletion))
    console().print(table)
    if done.truth:
        print_line(
            "tau (Kendall's), r (Pearson's), AUROC: with the true shares of atoms, means of molecules; 1 is perfect."
        )
        print_line("untrained: the tau of the same model before training.")
    print_line("deletion: the answer's change as the top atoms are left out, over that of random orders: 1 is chance.")
    print_line(f"Kept in {run / 'faithfulness.json'}; molattn explain and every picture of attention say it.")


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
