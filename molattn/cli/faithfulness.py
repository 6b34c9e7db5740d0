"""`molattn faithfulness`: how faithful attributions are to a model, and how accurate where the truth is known."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from molattn.cli.options import Accelerator, Quiet, Run, Target, load_predictor
from molattn.cli.table_reading import DEFAULT_READING, TableReading, reads_table
from molattn.cli.terminal import console, print_json, print_line, warn

if TYPE_CHECKING:
    from molattn.explain.run_faithfulness import RunFaithfulness


@reads_table(without=("input_format", "decimal", "thousands"))
def faithfulness(
    run: Run,
    table: Annotated[
        Path | None,
        typer.Argument(
            help="A table of molecules to measure on. [default: the run's test molecules]", show_default=False
        ),
    ] = None,
    reading: TableReading = DEFAULT_READING,
    target: Target = None,
    method: Annotated[
        list[str] | None,
        typer.Option("--method", help="Method to measure; may be repeated. [default: all]", show_default=False),
    ] = None,
    max_molecules: Annotated[int, typer.Option(min=1, help="At most this many molecules, sampled at random.")] = 500,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the sample and of the random orders.")] = 0,
    accelerator: Accelerator = "cpu",
    quiet: Quiet = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Measure how faithful each method of `molattn explain` is for a model, on molecules held out from its training.

    Deletion: how much the prediction changes when the top-ranked atoms are masked, relative to a random order; it does
    not measure signs. Sign: the share of atoms whose value has the sign of the change of the prediction without the
    atom, by definition 1 for occlusion. On `nci-logp` and `nci-tpsa`, where the true contribution of every atom is
    known, its sign is taken instead, and Kendall's tau, Pearson's r and the AUROC of the important atoms are measured,
    compared with random numbers and an untrained model. The result is saved as
    `faithfulness.json` in the run, and pictures of attention and attributions show the result of their method.
    """
    reading.check_has_table(table)
    from molattn.cli.table_report import TableProgress

    predictor = load_predictor(run, accelerator)
    with TableProgress(None, quiet=quiet) as report:
        result = predictor.faithfulness(
            run,
            table=table,
            smiles_column=reading.smiles_column or "",
            table_options=reading.options,
            target=target,
            methods=tuple(method or ()),
            max_molecules=max_molecules,
            seed=seed,
            progress=report,
        )
    if result.rejected:
        count = f"{len(result.rejected)} molecules cannot be read and are left out"
        warn(f"{count}; the first, {result.rejected[0]}")
    if as_json:
        print_json(result.record)
    elif not quiet:
        _print(result, run)


def _print(result: "RunFaithfulness", run: Path) -> None:
    from rich.table import Table

    scores, record = result.faithfulness, result.record
    n, candidates = scores.num_molecules, result.num_candidates
    count = f"{n} of {candidates}" if n < candidates else str(n)
    split = f"{record['split']} " if record["split"] else ""
    print_line(f"{scores.target}, {count} {split}molecules of {record['data']}:")
    table = Table()
    table.add_column("method", no_wrap=True)
    if result.ground_truth_property:
        for name in ("tau", "r", "AUROC", "untrained"):
            table.add_column(name, justify="right")
    for name in ("sign", "deletion"):
        table.add_column(name, justify="right")
    for name, m in scores.methods.items():
        cells = [name]
        if result.ground_truth_property:
            cells += [_number(m.kendall), _number(m.pearson), _number(m.auroc), _number(scores.untrained[name].kendall)]
        table.add_row(*cells, _number(m.sign), _number(m.deletion_ratio))
    console().print(table)
    if result.ground_truth_property:
        print_line("tau (Kendall), r (Pearson), AUROC: accuracy, or agreement with true contributions; 1 is perfect.")
        print_line("untrained: the tau of the same model before training.")
    reference = "true contribution" if result.ground_truth_property else "change of the prediction without the atom"
    print_line(f"sign: share of atoms whose value has the sign of the {reference}; empty for methods without signs.")
    print_line("deletion: change of the prediction without the top atoms, relative to random atoms; 1 is chance.")
    print_line("It does not measure signs.")
    print_line(f"Saved in {run / 'faithfulness.json'}; molattn explain and pictures of attention show it.")


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
