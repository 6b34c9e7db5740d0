"""`molattn faithfulness`: how faithful attributions are to a model, and how accurate with ground truth."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from molattn.cli.options import Accelerator, Quiet, Run, Target, load_predictor
from molattn.cli.table_reading import DEFAULT_READING, TableReading, reads_table
from molattn.cli.terminal import console, print_json, print_line, warn

if TYPE_CHECKING:
    from molattn.explain.estimates import Estimate
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

    Edits: molecules that differ in one atom or group; does the change that the method predicts have the direction and
    the size of the change of the prediction? Pairs: the same with measured values, of test molecules in matched
    pairs. Deletion: how much the prediction changes when the top-ranked atoms are masked, relative to a random order,
    whatever the sign. Stability: of the values, for a randomized SMILES of the molecule, noise in the weights, and, for
    an ensemble, another seed. Each has a 95% bootstrap interval. A measure has no value for a method that makes the
    same edit itself. On `nci-logp` and `nci-tpsa`, where the true contribution of every atom is known, signs, Kendall's
    tau, Pearson's r and the AUROC of the important atoms are measured as well, compared with random numbers and an
    untrained model. The result is saved as `faithfulness.json` in the run, and pictures of attention and attributions
    show the result of their method.
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
        n = len(result.rejected)
        count = (
            f"{n} molecules cannot be read and are left out" if n > 1 else "1 molecule cannot be read and is left out"
        )
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
    if result.ground_truth_property:
        table = Table()
        table.add_column("method", no_wrap=True)
        for name in ("tau", "r", "AUROC", "untrained", "sign"):
            table.add_column(name, justify="right")
        for name, m in scores.methods.items():
            numbers = (m.kendall, m.pearson, m.auroc, scores.untrained[name].kendall, m.sign)
            table.add_row(name, *map(_number, numbers))
        console().print(table)
        print_line("tau (Kendall), r (Pearson), AUROC: accuracy, or agreement with true contributions; 1 is perfect.")
        print_line("untrained: the tau of the same model before training.")
        print_line("sign: share of atoms whose value has the sign of the true contribution.")
    for columns in _TABLES:
        names = [name for name in columns if name in scores.methods["random"].measures]
        if not names:
            continue
        table = Table()
        table.add_column("method", no_wrap=True)
        for name in names:
            table.add_column(columns[name], justify="right")
        for method, m in scores.methods.items():
            table.add_row(method, *(_estimate(m.measures[name]) for name in names))
        console().print(table)
    measures = scores.methods["random"].measures
    for name, text in _EXPLANATIONS.items():
        if name in measures:
            print_line(text.format(n=measures[name].count))
    print_line("In brackets: 95% bootstrap intervals over molecules.")
    print_line(f"Saved in {run / 'faithfulness.json'}; molattn explain and pictures of attention show it.")


_TABLES = (
    {"swap_sign": "swap, sign", "swap_r": "swap, r", "grow_sign": "grow, sign", "pair_r2": "pairs, r2"},
    {"deletion": "deletion", "spelling": "spelling", "noise": "noise", "seed": "seed"},
)
"""The columns of the tables, by the names of `MethodScores.measures`."""
_EXPLANATIONS = {
    "swap_sign": "swap: {n} edits (F for Cl, N for CH, a CH2 in a chain): right directions, and r with the model.",
    "grow_sign": "grow: {n} edits, CH3 or OH in place of H; `its own edit`: fragment-shapley does the same.",
    "pair_r2": "pairs: r2 with the measured changes of {n} matched pairs, each with a test molecule.",
    "deletion": "deletion: change without the top atoms, relative to random ones, whatever the sign; 1 is chance.",
    "spelling": "spelling, noise, seed: r with the values of another SMILES, of weights with 1% of noise, of the next "
    "seed (the second model of an ensemble).",
}


def _estimate(m: "Estimate") -> str:
    return m.why if m.value is None else f"{m.value:.2f} ({m.low:.2f} to {m.high:.2f})"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
