"""`molattn whatif`: the variants of a molecule, with their predicted changes."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from molattn.cli.options import Force, Quiet, load_predictor
from molattn.cli.table_reading import DEFAULT_READING, TableReading, reads_table
from molattn.cli.terminal import print_status, warn
from molattn.errors import UsageError, unknown_choice

if TYPE_CHECKING:
    from molattn.inference.trade_offs import Property, TradeOffs

_FORMATS = (".html", ".csv")
_PRINTED, _SHOWN = 20, 200


@reads_table(without=("input_format",))
def whatif(
    runs: Annotated[
        list[Path],
        typer.Argument(
            help="The folders of one or several trained runs, or hf://user/model on the hub.", show_default=False
        ),
    ],
    smiles: Annotated[str, typer.Option("--smiles", "-s", help="The SMILES of the parent.", show_default=False)],
    size: Annotated[
        int | None,
        typer.Option(
            "--size",
            "-n",
            min=1,
            help=f"How many variants. [default: {_PRINTED} printed, {_SHOWN} on a page, all in a table] A page has the "
            "best and the worst of each atom, even if these are more.",
            show_default=False,
        ),
    ] = None,
    maximize: Annotated[
        list[str] | None,
        typer.Option("--maximize", help="A target to maximize, which is the default.", show_default=False),
    ] = None,
    minimize: Annotated[
        list[str] | None, typer.Option("--minimize", help="A target to minimize; may be repeated.", show_default=False)
    ] = None,
    level: Annotated[float, typer.Option(help="Probability that a measured change is within its interval.")] = 0.9,
    min_pairs: Annotated[
        int, typer.Option(min=1, help="Matched pairs in which a replacement must have been measured to be tried.")
    ] = 3,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Output file: .html or .csv. [default: print]", show_default=False),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="A table of measured molecules. [default: predictions.csv of the run]", show_default=False),
    ] = None,
    data_unseen: Annotated[
        bool, typer.Option("--data-unseen", help="The model was neither trained nor selected with molecules of --data.")
    ] = False,
    reading: TableReading = DEFAULT_READING,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Show what to make next: the variants of a molecule, with their predicted changes and how sure they are.

    `molattn whatif runs/esol --smiles CCO -o page.html` replaces hydrogens by F, Cl, CH3, OH, NH2, CN, OCH3 and CF3, CH
    of rings by N, and substituents by others that were measured in the table of the run. Every change has an interval,
    from the errors of the model in matched pairs that were held out; `?` marks a change of unknown direction, and `far`
    a variant unlike the training set. With several runs, or several targets, the variants that no other one beats in
    all properties (the Pareto front) come first.
    """
    if output is not None and output.suffix.lower() not in _FORMATS:
        raise UsageError(f"{output.name}: variants are written as {' or '.join(_FORMATS)}")
    reading.check_has_table(data, "--data", data_unseen=data_unseen)
    from molattn.inference.table_job import check_output

    if output is not None:
        check_output(output, force, data)
    properties = _properties(runs, maximize or [], minimize or [], level, min_pairs)
    if data is not None:
        from dataclasses import replace

        from molattn.inference.measured_tables import data_table

        smiles_column, options = reading.smiles_column, reading.options
        tables = [
            data_table(p.predictor, data, p.options.target or "", smiles_column, "", options, unseen=data_unseen)
            for p in properties
        ]
        properties = [replace(p, table=table) for p, table in zip(properties, tables, strict=True)]
    from molattn.inference.trade_offs import predict_trade_offs

    found = predict_trade_offs(properties, smiles)
    if failed := found.results[0].failed:
        warn(f"{len(failed)} variants have no prediction, the first {failed[0][0]}: {failed[0][1]}")
    total = len(found.rows)
    shown = min(size or total, total)
    if output is None:
        from molattn.cli.variant_table import print_variants

        print_variants(found, size or _PRINTED)
    elif output.suffix.lower() == ".csv":
        from molattn.cli.variant_table import variant_csv
        from molattn.data.files import write_text

        write_text(output, variant_csv(found, size))
    else:
        shown = _write_page(output, found, properties, size or _SHOWN)
    if not quiet and output is not None:
        print_status(f"{output} shows {shown} of {total} variants")


def _properties(
    runs: list[Path], maximize: list[str], minimize: list[str], level: float, min_pairs: int
) -> list["Property"]:
    """The targets of the runs, each with its goal and its table."""
    from molattn.data.tables.units import find_without_unit
    from molattn.inference.measured_tables import table_of_run
    from molattn.inference.trade_offs import Property
    from molattn.inference.what_if import WhatIfOptions

    predictors = [(run, load_predictor(run)) for run in runs]
    targets = [target for _, predictor in predictors for target in predictor.targets]
    names = sorted(set(targets))
    maximize, minimize = ([find_without_unit(names, name) for name in given] for given in (maximize, minimize))
    for name in (*maximize, *minimize):
        if name not in targets:
            raise UsageError(unknown_choice("target", name, names))
    if both := set(maximize) & set(minimize):
        raise UsageError(f"{sorted(both)[0]} cannot be maximized and minimized")
    properties = []
    for run, predictor in predictors:
        for target in predictor.targets:
            options = WhatIfOptions(target, "minimize" if target in minimize else "maximize", level, min_pairs)
            options.target_of(predictor)
            name = target if targets.count(target) == 1 else f"{target} ({run.name})"
            properties.append(Property(name, predictor, options, table_of_run(predictor, target)))
    return properties


def _write_page(output: Path, found: "TradeOffs", properties: list["Property"], size: int) -> int:
    """Write the page of the variants; returns how many it lists."""
    from molattn.data.files import write_bytes
    from molattn.inference.variant_page import variant_page

    write_bytes(output, variant_page(found, properties, size).encode("utf-8"))
    return len(found.listed(size))
